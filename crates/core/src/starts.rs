//! The number of the last start, beside the journal: a power loss may take the journal's record of a start that has given out numbers.

use crate::journal::Storage;
use std::io::{self, ErrorKind};

const FILE: &str = "start";
/// The longest number in digits.
const DIGITS_MAX: usize = 10;

/// The number of the last start; 0 before the first.
///
/// # Errors
/// The file cannot be read, or holds no number.
pub(crate) fn last(storage: &dyn Storage) -> io::Result<u32> {
    let text = match storage.open(FILE).and_then(|file| file.read_whole(DIGITS_MAX + 1)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| ErrorKind::InvalidData.into())
}

/// Keeps the number of a start, which gives nothing out before.
///
/// # Errors
/// The file cannot be written: a power loss may have the next start take the same number.
pub(crate) fn keep(storage: &dyn Storage, number: u32) -> io::Result<()> {
    storage.replace(FILE, number.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::MemoryStorage;

    #[test]
    fn a_power_loss_takes_no_number_of_a_start() {
        let storage = MemoryStorage::new();
        assert_eq!(last(&storage).unwrap(), 0);
        for number in [1, 712, u32::MAX] {
            keep(&storage, number).unwrap();
            let after = storage.after_power_loss(storage.operations(), |_| 0);
            assert_eq!(last(&after).unwrap(), number);
        }
        storage.replace(FILE, b"7x").unwrap();
        assert!(last(&storage).is_err(), "a damaged file is no number");
    }
}
