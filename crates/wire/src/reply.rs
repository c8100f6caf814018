//! Replies to the requests of clients.

use crate::parameters::{Cluster, Errno, LockRange, LockType};
use crate::{
    At, Attributes, Capability, Fence, FileChange, HandleId, Ino, Nonce, PeerReply, Proof, RoomReport,
    Sequence,
};
use serde::{Deserialize, Serialize};
use weir_placement::{Layout, ServerId};

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The request failed.
    Failed(Errno),
    /// The request was carried out, and the reply has no content.
    Done,
    /// Answer to a `Lock` that was granted and to `Reclaim`: the client holds what it asked for.
    Held {
        /// The state of the server's locks. The client shows it from now on.
        fence: Fence,
    },
    /// Answer to `Hello`.
    Challenge {
        /// The server.
        server: ServerId,
        /// Random number of this start of the server; a new one means that it restarted.
        boot: u64,
        /// The server's challenge.
        nonce: Nonce,
    },
    /// The connection is ready.
    Welcome {
        /// The server's own proof.
        proof: Proof,
        /// Whether the client holds here what it held before. Where it does not, it claims that before any further request
        /// ([`crate::Request::Reclaim`]).
        is_known: bool,
    },
    /// The servers of the store.
    Cluster(Cluster),
    /// The path leaves this server: go on at another home. An anchor in `at` is the name of a root entry, whose
    /// inode the client may keep. The root itself with a path that begins with `..` leaves the store.
    Redirect {
        /// The place to go on, and the rest of the path; the hops so far are inside.
        at: At,
    },
    /// An absolute symbolic link was met: `path` (link target and the rest) is to be resolved by the client.
    Escape {
        /// Absolute path.
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        /// Symbolic links followed so far.
        hops: u8,
    },
    /// The anchor of the request no longer holds: resolve from the root again.
    Stale,
    /// Attributes.
    Attributes(Attributes),
    /// An open description.
    Opened {
        /// Attributes after the open.
        attributes: Attributes,
        /// The description.
        handle: HandleId,
        /// Right to the bytes.
        capability: Capability,
        /// The targets of the bytes; absent for anything but a regular file.
        layout: Option<Layout>,
        /// Whether this call made the file.
        created: bool,
    },
    /// Target of a symbolic link.
    Link {
        /// The target.
        #[serde(with = "serde_bytes")]
        target: Vec<u8>,
    },
    /// Entries of a directory are the payload.
    Listing {
        /// Whether these are the last.
        end: bool,
    },
    /// A value is the payload.
    Value,
    /// Capacity.
    Statistics(RoomReport),
    /// The lock in the way, with the process that holds it (`u32::MAX` where an open description does, which
    /// `F_GETLK` reports as -1); absent when there is none.
    Conflict(Option<(LockType, LockRange, u32)>),
    /// Bytes are the payload.
    Data {
        /// The file's size and epoch, where this server is its home.
        size: Option<(u64, u64)>,
    },
    /// Bytes were written.
    Written {
        /// The file's size and epoch after it, where this server is its home and published.
        size: Option<(u64, u64)>,
    },
    /// Nothing was written: a mount holds pages of the file, and this client can write through a mount.
    PagesHeld,
    /// Bytes were appended.
    Appended {
        /// The offset.
        offset: u64,
        /// The file's size after it.
        size_bytes: u64,
        /// Epoch of that size.
        epoch: u64,
    },
    /// The append cannot be done in one step: use `AppendBegin`.
    AppendElsewhere,
    /// The append turn.
    Turn {
        /// Its number.
        turn: Sequence,
        /// The offset of the write.
        offset: u64,
        /// Epoch to write under.
        epoch: u64,
    },
    /// The file was shortened or moved since: ask the home for size, epoch and layout and try again.
    StaleEpoch {
        /// The epoch here.
        epoch: u64,
    },
    /// Nothing was done: the fence of the request is not the one of the file's home. The client greets the home, which tells
    /// it whether its locks hold, and tries again.
    StaleFence,
    /// The begin of data or of a hole; absent when there is none before the end of the object.
    Position(Option<u64>),
    /// The places of a file's bytes.
    Layout {
        /// The layout.
        layout: Layout,
        /// Epoch since which it holds.
        layout_epoch: u64,
        /// The file's size.
        size_bytes: u64,
        /// Epoch of that size.
        epoch: u64,
    },
    /// A move has begun.
    Moving {
        /// The file.
        ino: Ino,
        /// The move.
        moving: Sequence,
        /// Right to the bytes of the file.
        capability: Capability,
        /// Epoch to read and write under.
        epoch: u64,
    },
    /// The objects that move are everyone else's no more.
    Frozen {
        /// Epoch to read and write under.
        epoch: u64,
    },
    /// Ranges of an object that changed, as offsets and ends, in order; at most [`crate::limits::CHANGES`].
    Changes(Vec<(u64, u64)>),
    /// What a mount's kernel does not know yet: files that others changed, and directories that others moved.
    Invalidate {
        /// Confirm with this.
        sequence: Sequence,
        /// The files, each once.
        files: Vec<FileChange>,
        /// Paths of directories below the root, where each is now; at most [`crate::limits::MOVES`].
        moved: Vec<Vec<u8>>,
    },
    /// Answer to a peer.
    Peer(PeerReply),
}
