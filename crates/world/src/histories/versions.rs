//! The versions of inodes: an answer that was asked for later has no lower one, and two answers with one version are the same.

use std::collections::BTreeMap;
use weir_fairshare::Nanos;
use weir_wire::{Attributes, Ino, Reply};

/// The versions that were told.
#[derive(Default)]
pub(crate) struct Versions {
    /// The greatest version that was told up to a moment.
    greatest: BTreeMap<Ino, BTreeMap<Nanos, u64>>,
    attributes: BTreeMap<(Ino, u64), Attributes>,
}

impl Versions {
    /// A call from `began` to `now` was answered.
    ///
    /// # Errors
    /// An older version than was told before the call, or other attributes with the same version.
    pub(crate) fn told(&mut self, reply: &Reply, began: Nanos, now: Nanos) -> Result<(), String> {
        let attributes = match reply {
            Reply::Attributes(attributes) | Reply::Opened { attributes, .. } if attributes.version > 0 => {
                *attributes
            }
            _ => return Ok(()),
        };
        let (ino, version) = (attributes.ino, attributes.version);
        let greatest = self.greatest.entry(ino).or_default();
        let before = greatest.range(..began).next_back().map_or(0, |(_, version)| *version);
        if version < before {
            return Err(format!("{ino:?} has version {version:x}, and had {before:x} before"));
        }
        let last = greatest.last_key_value().map_or(0, |(_, version)| *version);
        greatest.insert(now, last.max(version));
        let same = self.attributes.entry((ino, version)).or_insert(attributes);
        match *same == attributes {
            true => Ok(()),
            false => Err(format!("{attributes:?} and {same:?} have one version")),
        }
    }
}
