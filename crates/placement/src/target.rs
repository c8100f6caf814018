//! Names of servers and targets.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Number of a server in its cluster; server 0 is the home of the root directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServerId(pub u16);

/// One storage target: a server and the target's number on it.
///
/// In a layout it names the place of one object of the file. A file has several objects on one target where a target that
/// retired left too few others; these objects differ in their *slot*, which is in the upper bits of the index. A target as
/// such has the slot 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TargetId {
    /// The server that owns the target.
    pub server: ServerId,
    /// Its number on that server, from 0, and the slot in the upper bits.
    pub index: u16,
}

impl TargetId {
    /// Objects of one file on one target.
    pub const SLOTS: u16 = 1 << (u16::BITS - TargetId::NUMBER_BITS);
    const NUMBER_BITS: u32 = 10;

    /// Its number on its server, whichever slot it names.
    pub fn number(self) -> usize {
        usize::from(self.index & ((1 << TargetId::NUMBER_BITS) - 1))
    }

    /// The slot of the object.
    pub fn slot(self) -> u16 {
        self.index >> TargetId::NUMBER_BITS
    }

    /// The target as such.
    pub fn device(self) -> TargetId {
        TargetId { index: self.number() as u16, ..self }
    }

    /// The place of the object in `slot`, below [`TargetId::SLOTS`], on the same target.
    pub fn in_slot(self, slot: u16) -> TargetId {
        TargetId { index: self.device().index | slot << TargetId::NUMBER_BITS, ..self }
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.server, self.number())?;
        match self.slot() {
            0 => Ok(()),
            slot => write!(formatter, "+{slot}"),
        }
    }
}

/// A text that names no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a target: write SERVER.INDEX, such as 3.1")]
pub struct TargetNameError(String);

impl FromStr for TargetId {
    type Err = TargetNameError;

    fn from_str(text: &str) -> Result<TargetId, TargetNameError> {
        let wrong = || TargetNameError(text.to_owned());
        let (server, index) = text.split_once('.').ok_or_else(wrong)?;
        let number = |digits: &str| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse::<u16>().ok()).flatten().ok_or_else(wrong)
        };
        let (index, slot) = index.split_once('+').map_or((index, None), |(index, slot)| (index, Some(slot)));
        let slot = slot.map_or(Ok(0), |slot| {
            number(slot).and_then(|slot| (slot > 0).then_some(slot).ok_or_else(wrong))
        })?;
        let index = number(index)?;
        if slot >= TargetId::SLOTS || (slot > 0 && index >= 1 << TargetId::NUMBER_BITS) {
            return Err(wrong());
        }
        Ok(TargetId { server: ServerId(number(server)?), index: index | slot << TargetId::NUMBER_BITS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        let target = TargetId { server: ServerId(3), index: 17 };
        assert_eq!(target.to_string().parse(), Ok(target));
        let second = target.in_slot(1);
        assert_eq!(second.to_string(), "3.17+1");
        assert_eq!(second.to_string().parse(), Ok(second));
        assert_eq!((second.number(), second.slot(), second.device()), (17, 1, target));
        for wrong in
            ["", "3", "3.", ".1", "3.1.2", "+3.1", "3.65536", "a.1", "3.1+", "3.1+0", "3.1+64", "3.1024+1"]
        {
            assert!(wrong.parse::<TargetId>().is_err(), "{wrong}");
        }
    }
}
