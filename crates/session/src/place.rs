//! The places at which operations start, and the sizes that files had.

use weir_wire::Ino;

/// The start of an operation: a path relative to a directory, or an inode itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The directory, or with an empty path the inode itself.
    pub ino: Ino,
    /// The path relative to the directory. Leading slashes are ignored.
    pub path: &'a [u8],
}

/// The size and epoch of a file at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The size in bytes.
    pub bytes: u64,
    /// The epoch under which the size holds.
    pub epoch: u64,
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

/// The path without its leading slashes.
pub fn trim_start(path: &[u8]) -> &[u8] {
    let slashes = path.iter().take_while(|byte| **byte == b'/').count();
    &path[slashes..]
}
