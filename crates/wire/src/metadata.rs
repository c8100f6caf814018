//! Attributes of files in the namespace.

use crate::{limits, Capability, Ino, Moment, TargetRoom};
use serde::{Deserialize, Serialize};
use weir_placement::TargetId;

/// Kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileKind {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Character device.
    CharacterDevice,
    /// Block device.
    BlockDevice,
}

/// The start of an operation: a path relative to a directory inode, or the inode itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct At {
    /// The directory (or, with an empty path, the inode meant).
    pub ino: Ino,
    /// Path relative to it; at most [`limits::PATH_BYTES`]. A leading `/` is not allowed.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    /// Name under which the client believes `ino` to stand in the root directory; the home answers
    /// [`crate::Reply::Stale`] when it no longer does. Absent where the client holds the inode itself.
    pub anchor: Option<serde_bytes::ByteBuf>,
    /// Symbolic links followed so far, at most [`limits::SYMLINK_HOPS`].
    pub hops: u8,
    /// Shows that the caller may name `ino`: the capability of a description of it, or a pass that a redirecting server
    /// made. Without it the caller must hold a description of `ino`, or be able to walk there from the root.
    pub proof: Option<Capability>,
}

impl At {
    /// `path` below `ino`.
    pub fn new(ino: Ino, path: impl Into<Vec<u8>>) -> At {
        At { ino, path: path.into(), anchor: None, hops: 0, proof: None }
    }

    /// The inode itself.
    pub fn inode(ino: Ino) -> At {
        At::new(ino, Vec::new())
    }

    /// The inode of an open description.
    pub fn described(capability: Capability) -> At {
        At { proof: Some(capability), ..At::inode(capability.ino) }
    }

    /// Whether every field is within its limit.
    pub fn is_well_formed(&self) -> bool {
        self.path.len() <= limits::PATH_BYTES
            && !self.path.contains(&0)
            && self.path.first() != Some(&b'/')
            && self.anchor.as_ref().is_none_or(|name| name.len() <= limits::NAME_BYTES)
    }
}

/// The attributes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The inode.
    pub ino: Ino,
    /// Its kind.
    pub kind: FileKind,
    /// Permission bits with set-id and sticky bits (`mode & 07777`).
    pub permissions: u16,
    /// Hard links; 0 for a file that is open but unlinked.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, as in `st_rdev`.
    pub device: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes that hold data, as far as the home knows (an estimate for sparse files).
    pub allocated_bytes: u64,
    /// Last access, as set explicitly; reads do not change it.
    pub accessed: Moment,
    /// Last change of the data.
    pub modified: Moment,
    /// Last change of the inode.
    pub changed: Moment,
    /// Creation.
    pub created: Moment,
    /// The number of times that the file was shortened or moved; a data request with an older number is answered
    /// [`crate::Reply::StaleEpoch`].
    pub epoch: u64,
    /// The epoch since which the file's layout holds: whoever holds one of another must not use `epoch` with it.
    pub layout_epoch: u64,
    /// The version of the inode. Its home raises it with each change of the inode, of a directory's entries and at each start of the
    /// server, so two answers with the same version are the same. 0 in the answer of a server that is not the home.
    pub version: u64,
}

/// An object of a file that goes to another target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ObjectMove {
    /// The present target.
    pub from: TargetId,
    /// The future target.
    pub to: TargetId,
}

/// Changes of a file by others, for the kernel of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The file.
    pub ino: Ino,
    /// Whether pages of the file are to be dropped.
    pub pages: bool,
    /// The size in bytes, if the file grew.
    pub grown_to: Option<u64>,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// Name, at most [`limits::NAME_BYTES`].
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
    /// Inode.
    pub ino: Ino,
    /// Kind.
    pub kind: FileKind,
    /// The place at which a listing goes on after this entry; stable while the directory changes.
    pub cookie: u64,
    /// Its attributes, where they were asked for and are held by the same server.
    pub attributes: Option<Attributes>,
}

/// The part of one server in the figures of `statfs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomReport {
    /// The room on each of its targets. The client adds them up, because targets of several servers may lie on one disk.
    pub targets: Vec<TargetRoom>,
    /// Inodes that exist here.
    pub inodes: u64,
    /// Inodes that can still be made here.
    pub inodes_free: u64,
}
