//! Places where operations start, and the cache of root entries that shortens their way.

use crate::pool::look;
use crate::{ClientError, Result};
use std::collections::HashMap;
use std::sync::Mutex;
use weir_wire::{limits, At, Ino};

/// Root entries remembered; a process seldom works in more trees.
const ANCHORS: usize = 256;

/// The start of an operation: a path relative to a directory, or an inode itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The directory, or with an empty path the inode itself.
    pub ino: Ino,
    /// The path relative to the directory. Leading slashes are ignored.
    pub path: &'a [u8],
}

/// The part of the last component that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Final {
    /// The node: a root entry may be named by its inode.
    Node,
    /// The node's parent and name.
    Entry,
}

/// The inodes of names in the root directory, as they were last seen.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    known: Mutex<HashMap<Vec<u8>, Ino>>,
}

impl<'a> Place<'a> {
    /// `path` below the root directory.
    pub fn root(path: &'a [u8]) -> Place<'a> {
        Place { ino: Ino::ROOT, path }
    }

    /// `path` below the directory `ino`.
    pub fn below(ino: Ino, path: &'a [u8]) -> Place<'a> {
        Place { ino, path }
    }

    /// The inode itself.
    pub fn inode(ino: Ino) -> Place<'static> {
        Place { ino, path: b"" }
    }
}

impl Anchors {
    fn find(&self, name: &[u8]) -> Option<Ino> {
        look(&self.known)?.get(name).copied()
    }

    /// Notes the inode of a root entry.
    pub(crate) fn learn(&self, name: &[u8], ino: Ino) {
        if let Some(mut known) = look(&self.known) {
            if known.len() >= ANCHORS {
                known.clear();
            }
            known.insert(name.to_vec(), ino);
        }
    }

    /// Forgets a root entry that another inode has now.
    pub(crate) fn forget(&self, name: &[u8]) {
        if let Some(mut known) = look(&self.known) {
            known.remove(name);
        }
    }

    /// The request's place for an operation on `place`: a known root entry shortens it.
    pub(crate) fn start(&self, place: Place<'_>, last: Final) -> Result<At> {
        let path = trim_start(place.path);
        if path.len() > limits::PATH_BYTES {
            return Err(ClientError::number(libc::ENAMETOOLONG));
        }
        if path.contains(&0) {
            return Err(ClientError::number(libc::EINVAL));
        }
        if place.ino == Ino::ROOT {
            let (name, rest) = split_first(path);
            if !rest.is_empty() || last == Final::Node {
                if let Some(ino) = self.find(name) {
                    let anchor = Some(name.to_vec().into());
                    return Ok(At { anchor, ..At::new(ino, rest) });
                }
            }
        }
        Ok(At::new(place.ino, path))
    }
}

/// The path without its leading slashes.
pub(crate) fn trim_start(path: &[u8]) -> &[u8] {
    let slashes = path.iter().take_while(|byte| **byte == b'/').count();
    &path[slashes..]
}

/// The first component, and the rest without leading slashes.
fn split_first(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().position(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], trim_start(&path[slash..])),
        None => (path, b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_after_its_first_component() {
        assert_eq!(split_first(b"a//b/c"), (&b"a"[..], &b"b/c"[..]));
        assert_eq!(split_first(b"a/"), (&b"a"[..], &b""[..]));
        assert_eq!(split_first(b""), (&b""[..], &b""[..]));
    }

    #[test]
    fn an_anchor_stands_for_a_first_name_only_where_that_is_enough() {
        let anchors = Anchors::default();
        anchors.learn(b"project", Ino(77));
        let at = anchors.start(Place::root(b"/project//x"), Final::Entry).expect("short");
        assert_eq!((at.ino, at.path.as_slice()), (Ino(77), &b"x"[..]));
        let entry = anchors.start(Place::root(b"project/"), Final::Entry).expect("short");
        assert_eq!((entry.ino, entry.path.as_slice()), (Ino::ROOT, &b"project/"[..]));
        let node = anchors.start(Place::root(b"project/"), Final::Node).expect("short");
        assert_eq!((node.ino, node.path.as_slice()), (Ino(77), &b""[..]));
        anchors.forget(b"project");
        assert_eq!(anchors.start(Place::root(b"project/x"), Final::Node).expect("short").ino, Ino::ROOT);
        assert!(anchors.start(Place::root(&[b'a'; 5000]), Final::Node).is_err());
    }
}
