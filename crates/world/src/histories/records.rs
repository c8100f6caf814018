//! A file to which many append: each record is there whole and once, at the offset that its answer told.

use std::collections::BTreeMap;

/// Bytes before the filling of a record: its length and its number.
const HEAD_BYTES: usize = 16;

/// The records whose appends were answered, by their offsets.
#[derive(Default)]
pub(crate) struct Records {
    answered: BTreeMap<u64, u64>,
}

/// The bytes of a record. No other record has its number.
pub(crate) fn record(number: u64, length: usize) -> Vec<u8> {
    let length = length.max(HEAD_BYTES);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u64).to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.resize(length, filling(number));
    bytes
}

fn filling(number: u64) -> u8 {
    1 + (number % 251) as u8
}

/// The number of the record at the beginning of `bytes`, and its length.
fn parse(bytes: &[u8]) -> Option<(u64, usize)> {
    let length = u64::from_le_bytes(*bytes.first_chunk()?) as usize;
    let number = u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
    let rest = bytes.get(HEAD_BYTES..length)?;
    rest.iter().all(|&byte| byte == filling(number)).then_some((number, length))
}

impl Records {
    /// An append was answered.
    pub(crate) fn appended(&mut self, number: u64, offset: u64) -> Result<(), String> {
        match self.answered.insert(offset, number) {
            None => Ok(()),
            Some(other) => Err(format!("records {number:x} and {other:x} were both appended at {offset}")),
        }
    }

    /// The records that were answered so far.
    pub(crate) fn known(&self) -> BTreeMap<u64, u64> {
        self.answered.clone()
    }
}

/// Looks at the whole file; `known` are the records that were answered before its size was asked for.
///
/// # Errors
/// A record that is torn, twice or not there.
pub(crate) fn check(bytes: &[u8], known: &BTreeMap<u64, u64>) -> Result<(), String> {
    let mut found = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    let mut offset = 0;
    while offset < bytes.len() {
        let Some((number, length)) = parse(&bytes[offset..]) else {
            return Err(format!("the record at {offset} of {} bytes is torn", bytes.len()));
        };
        if let Some(before) = numbers.insert(number, offset) {
            return Err(format!("record {number:x} is at {before} and at {offset}"));
        }
        found.insert(offset as u64, number);
        offset += length;
    }
    match known.iter().find(|(offset, number)| found.get(offset) != Some(number)) {
        Some((offset, number)) => Err(format!(
            "record {number:x} was appended at {offset}, where the file has {:x?}",
            found.get(offset)
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_doubled_and_missing_records_are_seen() {
        let (first, second) = (record(1, 20), record(2, 40));
        let whole = [first.clone(), second.clone()].concat();
        let known = BTreeMap::from([(0, 1), (20, 2)]);
        assert_eq!(check(&whole, &known), Ok(()));
        assert_eq!(check(&whole, &BTreeMap::new()), Ok(()), "some may not be answered yet");
        assert!(check(&first, &known).is_err() && check(&whole[..59], &BTreeMap::new()).is_err());
        assert!(check(&[first.clone(), first].concat(), &BTreeMap::new()).is_err());
        let mut torn = whole;
        torn[30..40].fill(0);
        assert!(check(&torn, &BTreeMap::new()).is_err());
    }
}
