//! The inventory of a server: its files with the objects that each must have, for a check of the store.

use super::inode::Inode;
use crate::namespace::core::Namespace;
use crate::namespace::intents::intent::Intent;
use serde::Serialize;
use std::collections::HashSet;
use weir_placement::TargetId;
use weir_wire::{FileKind, Ino};

/// The most directories above a file: a path has no more names, and a damaged journal may have a ring of them.
const DEPTH_MAX: usize = 4096;

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

/// The place of an inode in the tree.
#[derive(Debug, Serialize)]
pub struct PlaceEntry {
    ino: u64,
    /// The path below the directory `above`: the root, or a directory of this server with its entry on server `server`.
    path: String,
    above: u64,
    server: u16,
}

impl Namespace {
    /// The numbers of files, and of files whose objects are being removed, for which `is_wanted`.
    pub fn inventoried(&self, is_wanted: impl Fn(Ino) -> bool) -> Vec<Ino> {
        let here = self.state.inodes.iter().filter(|(_, inode)| inode.kind() == FileKind::Regular);
        let all = here.map(|(ino, _)| *ino).chain(self.removals().map(|(ino, _)| ino));
        all.filter(|ino| is_wanted(*ino)).collect()
    }

    /// The entries of files that are there, and of those whose objects are being removed.
    pub fn file_entries(&self, inos: &[Ino]) -> Vec<FileEntry> {
        let wanted: HashSet<Ino> = inos.iter().copied().collect();
        let gone = self.removals().filter(|(ino, _)| wanted.contains(ino)).map(|(ino, targets)| FileEntry {
            ino: ino.0,
            size_bytes: 0,
            objects: Vec::new(),
            former: targets.iter().map(ToString::to_string).collect(),
            is_changing: true,
        });
        inos.iter().filter_map(|&ino| self.file_entry(ino)).chain(gone).collect()
    }

    /// The places of inodes, each by one of its names. An inode without a name has none.
    pub fn places(&self, wanted: &HashSet<Ino>) -> Vec<PlaceEntry> {
        let mut told = HashSet::new();
        let mut places = Vec::new();
        for (&holder, inode) in self.state.inodes.iter() {
            for (name, entry) in inode.directory().into_iter().flat_map(|directory| directory.after(0)) {
                if wanted.contains(&entry.ino) && told.insert(entry.ino) {
                    places.push(self.place_of(entry.ino, holder, name));
                }
            }
        }
        places
    }

    /// The directories of other servers with their entries here.
    pub fn directories_elsewhere(&self) -> impl Iterator<Item = Ino> + '_ {
        let directories = self.state.inodes.values().filter_map(Inode::directory);
        let entries = directories.flat_map(|directory| directory.after(0).map(|(_, entry)| entry));
        entries.filter(|entry| self.is_remote(entry.ino, entry.kind)).map(|entry| entry.ino)
    }

    fn file_entry(&self, ino: Ino) -> Option<FileEntry> {
        let file = self.state.regular(ino)?;
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

    fn removals(&self) -> impl Iterator<Item = (Ino, &[TargetId])> {
        self.state.intents.values().filter_map(|intent| match intent {
            Intent::Remove { ino, targets } => Some((*ino, targets.as_slice())),
            _ => None,
        })
    }

    fn place_of(&self, ino: Ino, holder: Ino, name: &[u8]) -> PlaceEntry {
        let mut names = vec![name.to_vec()];
        let (mut at, mut server) = (holder, self.settings.server);
        while at != Ino::ROOT && names.len() < DEPTH_MAX {
            let Some(directory) = self.state.inodes.get(&at).and_then(Inode::directory) else { break };
            server = directory.parent.home();
            if server != self.settings.server {
                break;
            }
            names.push(directory.name.to_vec());
            at = directory.parent;
        }
        names.reverse();
        let names: Vec<String> =
            names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        PlaceEntry { ino: ino.0, path: names.join("/"), above: at.0, server: server.0 }
    }
}
