//! The names of a journal's files.

use super::format::Content;
use std::fmt;

/// Ends the name of a snapshot that is still being written.
pub(super) const UNFINISHED_SUFFIX: &str = ".unfinished";

/// The name of a file: its content, the first sequence in it (a log) or after it (a snapshot), and the salt of its checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileName {
    pub(super) content: Content,
    pub(super) first: u64,
    pub(super) salt: u32,
}

impl FileName {
    pub(super) fn parse(name: &str) -> Option<FileName> {
        let mut parts = name.split('-');
        let content = match parts.next()? {
            "log" => Content::Log,
            "snapshot" => Content::Snapshot,
            _ => return None,
        };
        let first = u64::from_str_radix(parts.next()?, 16).ok()?;
        let salt = u32::from_str_radix(parts.next()?, 16).ok()?;
        let parsed = FileName { content, first, salt };
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = match self.content {
            Content::Log => "log",
            Content::Snapshot => "snapshot",
        };
        write!(formatter, "{content}-{:016x}-{:08x}", self.first, self.salt)
    }
}
