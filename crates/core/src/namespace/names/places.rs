//! Paths of inodes, for a check of the store.

use super::Names;
use crate::namespace::files::Inode;
use serde::Serialize;
use std::collections::HashSet;
use weir_wire::Ino;

/// The most directories above a file: a path has no more names, and a damaged journal may have a ring of them.
const DEPTH_MAX: usize = 4096;

/// The place of an inode in the tree.
#[derive(Debug, Serialize)]
pub struct PlaceEntry {
    ino: u64,
    /// The path below the directory `above`: the root, or a directory of this server with its entry on server `server`.
    path: String,
    above: u64,
    server: u16,
}

impl Names {
    /// The places of inodes, each by one of its names. An inode without a name has none.
    pub fn places(&self, wanted: &HashSet<Ino>) -> Vec<PlaceEntry> {
        let mut told = HashSet::new();
        let mut places = Vec::new();
        for (&holder, inode) in self.files.inodes().iter() {
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
        let directories = self.files.inodes().values().filter_map(Inode::directory);
        let entries = directories.flat_map(|directory| directory.after(0).map(|(_, entry)| entry));
        entries.filter(|entry| self.files.is_remote(entry.ino, entry.kind)).map(|entry| entry.ino)
    }

    fn place_of(&self, ino: Ino, holder: Ino, name: &[u8]) -> PlaceEntry {
        let mut names = vec![name.to_vec()];
        let (mut at, mut server) = (holder, self.files.server());
        while at != Ino::ROOT && names.len() < DEPTH_MAX {
            let Some(directory) = self.files.directory(at) else { break };
            server = directory.parent.home();
            if server != self.files.server() {
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
