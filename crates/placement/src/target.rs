//! Names of servers and targets.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Number of a server in its cluster; server 0 is the home of the root directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServerId(pub u16);

/// One storage target: a server and the target's number on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TargetId {
    /// The server that owns the target.
    pub server: ServerId,
    /// Its number on that server, from 0.
    pub index: u16,
}

impl fmt::Display for ServerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.server, self.index)
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
        Ok(TargetId { server: ServerId(number(server)?), index: number(index)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        let target = TargetId { server: ServerId(3), index: 17 };
        assert_eq!(target.to_string().parse(), Ok(target));
        for wrong in ["", "3", "3.", ".1", "3.1.2", "+3.1", "3.65536", "a.1"] {
            assert!(wrong.parse::<TargetId>().is_err(), "{wrong}");
        }
    }
}
