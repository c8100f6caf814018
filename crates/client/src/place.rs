//! The cache of root entries, which shortens the way of operations.

use crate::pool::look;
use crate::{ClientError, Place, Result};
use std::collections::HashMap;
use std::sync::Mutex;
use weir_session::trim_start;
use weir_wire::{limits, At, Ino};

/// Root entries remembered; a process seldom works in more trees.
const ANCHORS: usize = 256;

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
