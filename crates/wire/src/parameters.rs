//! Parameters of requests and replies: numbers of errors, moments, flags, locks, identities, addresses.

use crate::{Capability, Claims, Proof};
#[cfg(doc)]
use crate::{Reply, Request};
use serde::{Deserialize, Serialize};
use weir_placement::ServerId;

/// An error number of Linux, as in `errno(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Errno(pub u16);

/// A point in time: seconds and nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds below a second.
    pub nanoseconds: u32,
}

/// Flags of `open(2)` that matter to the home server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFlags {
    /// Bytes may be read.
    pub read: bool,
    /// Bytes may be written.
    pub write: bool,
    /// Make the file if it is not there.
    pub create: bool,
    /// Fail if it is there.
    pub exclusive: bool,
    /// Cut it to nothing.
    pub truncate: bool,
    /// Whether the file must be a directory.
    pub directory: bool,
    /// The last component may not be a symbolic link.
    pub no_follow: bool,
    /// Make an unnamed file in the directory that `at` names (O_TMPFILE).
    pub unnamed: bool,
}

/// The kinds of nodes that `mknod` and `mkdir` make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeKind {
    /// Directory.
    Directory,
    /// Regular file without opening it.
    Regular,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Character device of this number.
    CharacterDevice(u64),
    /// Block device of this number.
    BlockDevice(u64),
    /// Directory below which its maker foresees the creation of this many files.
    Tree(u32),
}

impl NodeKind {
    /// Whether the node is a directory.
    pub fn is_directory(self) -> bool {
        matches!(self, NodeKind::Directory | NodeKind::Tree(_))
    }

    /// The number of files whose creation below the new directory is foreseen; none where nothing is known.
    pub fn foreseen_creations(self) -> Option<u32> {
        match self {
            NodeKind::Tree(creations) => Some(creations),
            _ => None,
        }
    }
}

/// The treatment of an existing target by `renameat2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RenameMode {
    /// Replace it.
    Replace,
    /// Fail with EEXIST.
    NoReplace,
    /// Swap the two.
    Exchange,
}

/// The treatment of an existing value by `setxattr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrMode {
    /// Make or replace.
    Set,
    /// Fail with EEXIST if there is one.
    Create,
    /// Fail with ENODATA if there is none.
    Replace,
}

/// Changes of attributes; absent ones stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeChange {
    /// Permission bits, set-id and sticky bits.
    pub permissions: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size: truncate or extend.
    pub size_bytes: Option<u64>,
    /// Access time; `Some(None)` is the server's now.
    pub accessed: Option<Option<Moment>>,
    /// Modification time; `Some(None)` is the server's now.
    pub modified: Option<Option<Moment>>,
    /// The open description through which a size is set (`ftruncate`): its write right replaces the permission check.
    pub capability: Option<Capability>,
}

/// A run of bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Offset inside the object.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
}

/// The news of a writer to the home about the bytes it wrote. One that names neither an end nor bytes tells of a hole, or of a
/// write that failed in its midst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// One past the last file byte written; the size grows to it.
    pub end: u64,
    /// Bytes written, for the estimate of allocated bytes.
    pub written_bytes: u64,
    /// The epoch under which the bytes were written.
    pub epoch: u64,
    /// One past the last file byte for which room was reserved; the size does not grow to it. 0 without a reservation.
    pub reserved_end: u64,
}

/// The lock calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LockKind {
    /// `F_SETLK`: owned by a process, released when it closes any descriptor of the file.
    Posix,
    /// `F_OFD_SETLK`: owned by an open file description.
    Description,
    /// `flock(2)`: whole file, owned by an open file description, independent of the other two.
    Flock,
}

/// The types of a lock call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockType {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
    /// Release.
    Unlock,
}

/// A range of bytes, with its last byte inside; `u64::MAX` is the end of any file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRange {
    /// First byte.
    pub first: u64,
    /// Last byte.
    pub last: u64,
}

/// The two aims of `lseek` in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seek {
    /// The next byte that holds data.
    Data,
    /// The next byte that holds none.
    Hole,
}

/// The identity for which a mount acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Supplementary groups, at most [`crate::limits::GROUPS`].
    pub groups: Vec<u32>,
}

/// Names of a user and its primary group, each at most [`crate::limits::CLAIM_NAME_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountNames {
    /// Name of the user; its number where it has none.
    pub user: String,
    /// Name of the group; its number where it has none.
    pub group: String,
}

/// A job's claims forwarded by a mount, with the answer of the credential it found in the caller's environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegatedJob {
    /// The claims; their uid must be the identity's.
    pub claims: Claims,
    /// The proof in the mount's session, keyed by the credential's tag.
    pub proof: Proof,
}

/// The addresses on which a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerAddress {
    /// The server.
    pub server: ServerId,
    /// `host:port`.
    pub tcp: String,
    /// Path of a Unix socket for clients on the same host. They use it alone: whoever finds nobody there goes nowhere else.
    pub unix: Option<String>,
    /// The user whose process listens on the Unix socket: the owner of the store's home, root where none is named.
    #[serde(default)]
    pub owner: u32,
    /// `host:port` of the control API and `/metrics`.
    pub control: String,
}

/// The servers of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Every server, by number.
    pub servers: Vec<ServerAddress>,
}
