//! The inventory of a server: its files with the objects that each must have, for a check of the store.

use super::Files;
use crate::namespace::intents::Intents;
use serde::Serialize;
use std::collections::HashSet;
use weir_placement::TargetId;
use weir_wire::{FileKind, Ino};

/// A file of this server.
#[derive(Debug, Serialize)]
pub struct FileEntry {
    ino: u64,
    size_bytes: u64,
    /// The objects. An object that must exist has at least these bytes.
    objects: Vec<WantedObject>,
    /// More targets that may have an object of the file.
    former: Vec<String>,
    /// The file is being cut, moved or removed, so its objects may be as they are.
    is_changing: bool,
}

/// An object of a file.
#[derive(Debug, Serialize)]
pub(crate) struct WantedObject {
    target: String,
    /// Absent for an object that need not exist.
    bytes_min: Option<u64>,
}

impl Files {
    /// The numbers of files, and of files whose objects are being removed, for which `is_wanted`.
    pub(crate) fn inventoried(&self, intents: &Intents, is_wanted: impl Fn(Ino) -> bool) -> Vec<Ino> {
        let here = self.inodes.iter().filter(|(_, inode)| inode.kind() == FileKind::Regular);
        let all = here.map(|(ino, _)| *ino).chain(intents.removals().map(|(ino, _)| ino));
        all.filter(|ino| is_wanted(*ino)).collect()
    }

    /// The entries of files that are there, and of those whose objects are being removed.
    pub(crate) fn entries(&self, intents: &Intents, inos: &[Ino]) -> Vec<FileEntry> {
        let wanted: HashSet<Ino> = inos.iter().copied().collect();
        let gone = intents.removals().filter(|(ino, _)| wanted.contains(ino));
        let gone = gone.map(|(ino, targets)| FileEntry {
            ino: ino.0,
            size_bytes: 0,
            objects: Vec::new(),
            former: targets.iter().map(ToString::to_string).collect(),
            is_changing: true,
        });
        inos.iter().filter_map(|&ino| self.file_entry(ino)).chain(gone).collect()
    }

    fn file_entry(&self, ino: Ino) -> Option<FileEntry> {
        let file = self.regular(ino)?;
        let must_exist = !file.has_holes && file.untouched_start == 0;
        let object = |(object, target): (usize, &TargetId)| {
            let bytes = file.layout.object_bytes(object, file.size_bytes);
            let bytes_min = Some(bytes).filter(|bytes| must_exist && *bytes > 0);
            WantedObject { target: target.to_string(), bytes_min }
        };
        Some(FileEntry {
            ino: ino.0,
            size_bytes: file.size_bytes,
            objects: file.layout.targets().iter().enumerate().map(object).collect(),
            former: file.former.iter().map(ToString::to_string).collect(),
            is_changing: self.is_settling(ino),
        })
    }
}
