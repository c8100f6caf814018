//! Intents: work on other servers or on targets that outlives the reply which decided it.

use crate::namespace::quotas::estimates::{INTENT_BYTES, INTENT_OBJECT_BYTES};
use serde::{Deserialize, Serialize};
use weir_placement::{ServerId, TargetId};
use weir_wire::{limits, ClientId, Ino, Moment, RequestId};

/// A name or value, which a record encodes in one piece.
pub type Bytes = serde_bytes::ByteBuf;

/// The number of an intent: work on other servers or on targets that outlives the reply. No number is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IntentId(pub u64);

/// Work on targets or other servers. Each start carries the work out again until it is settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Intent {
    /// Cuts the objects of a file; then the size and epoch hold.
    Cut {
        /// The file.
        ino: Ino,
        /// The new size of the file.
        size_bytes: u64,
        /// The new epoch of the file.
        epoch: u64,
        /// The objects and their new lengths.
        objects: Vec<(TargetId, u64)>,
        /// The new modification time of the file.
        at: Moment,
    },
    /// Removes the objects of a file that is gone.
    Remove {
        /// The file.
        ino: Ino,
        /// The file's targets.
        targets: Vec<TargetId>,
    },
    /// Has another server make a directory. Unless an entry follows, the other server must forget the directory.
    MakeDirectory {
        /// The other server.
        server: ServerId,
        /// Directory of the entry.
        parent: Ino,
        /// Name of the entry.
        name: Bytes,
    },
    /// Has another server forget the directory of an intent.
    ForgetDirectory {
        /// The other server.
        server: ServerId,
        /// The intent under which the directory was made.
        made: IntentId,
    },
    /// Has another server remove a directory; then the entry goes.
    RemoveDirectory {
        /// The directory.
        ino: Ino,
        /// Directory of the entry.
        parent: Ino,
        /// Name of the entry.
        name: Bytes,
        /// The only user who may own the directory, if the removal depends on the owner.
        owner_only: Option<u32>,
        /// The request that the removal carries out, for the reply to a resend; none if the removal is a part of a request.
        request: Option<(ClientId, RequestId)>,
    },
    /// Tells another server that the entry of its directory moved.
    Reparent {
        /// The directory.
        ino: Ino,
        /// The directory's parent.
        parent: Ino,
        /// The directory's name.
        name: Bytes,
    },
    /// Raises the epochs of objects that nobody uses: of copies, and of objects whose copies took their place. No reply waits
    /// for a fence.
    Fence {
        /// The file.
        ino: Ino,
        /// The new epoch of the objects.
        epoch: u64,
        /// The objects and their new lengths.
        objects: Vec<(TargetId, u64)>,
    },
    /// Keeps the objects of a file from everyone but their mover.
    Freeze {
        /// The file.
        ino: Ino,
    },
    /// Gives copies the epoch of the layout that names them; then the file is open to all again.
    Seal {
        /// The file.
        ino: Ino,
        /// The new epoch of the objects.
        epoch: u64,
        /// The objects and their new lengths.
        objects: Vec<(TargetId, u64)>,
    },
}

/// The intents that a change begins, each with its number and the user for whom it is kept.
pub(crate) type Begun = [Option<(IntentId, u32, Intent)>; 2];

/// The length of an object in a fence that removes no byte.
pub(crate) const NO_CUT: u64 = limits::FILE_BYTES;

impl Intent {
    /// Memory of the intent.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let carried = match self {
            Intent::Cut { objects, .. } | Intent::Fence { objects, .. } | Intent::Seal { objects, .. } => {
                objects.len() as u64 * INTENT_OBJECT_BYTES
            }
            Intent::Remove { targets, .. } => targets.len() as u64 * INTENT_OBJECT_BYTES,
            Intent::MakeDirectory { name, .. }
            | Intent::RemoveDirectory { name, .. }
            | Intent::Reparent { name, .. } => 2 * name.len() as u64,
            Intent::ForgetDirectory { .. } | Intent::Freeze { .. } => 0,
        };
        INTENT_BYTES + carried
    }

    /// The size that a file has once this is settled; 0 if the intent says none.
    pub(crate) fn awaited_bytes(&self) -> u64 {
        match self {
            Intent::Cut { size_bytes, .. } => *size_bytes,
            _ => 0,
        }
    }
}
