//! Questions of the control API to the event loop.

use super::lease_terms::{LeaseTold, LeaseWanted};
use crate::accounts::windows::Window;
use crate::config::{ServerConfig, TargetConfig};
use crate::namespace::{
    AwayEntry, EntryQuestion, Examined, FileEntry, Order, PlaceEntry, Position, QuotaLine, Refusal, UseFault,
};
use crate::storage::Dir;
use std::collections::HashSet;
use std::sync::mpsc::SyncSender;
use std::sync::Arc;
use weir_fairshare::{Algorithm, DeviceSpeed, Nanos, Policy, Sharing, SharingError};
use weir_placement::{AllocatorName, ServerId, TargetId};
use weir_wire::quota::TooManyLimits;
use weir_wire::{Errno, Ino, QuotaLimits, QuotaOwner, QuotaTable, TargetState};

/// The most parts: one for every file of the largest server.
const PARTS_MAX: u64 = 1 << 20;

/// The snapshot that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The state of the server, without its jobs.
    Status,
    /// Everything.
    Table,
}

/// The reason why the settings, servers or targets of the store were not changed.
#[derive(Debug, thiserror::Error)]
pub enum NotChanged {
    /// The scheduler cannot enforce the policy.
    #[error(transparent)]
    Sharing(#[from] SharingError),
    /// There are as many limits as a store may have.
    #[error("the store has {} limits already, and takes no more", weir_wire::quota::LIMITS_MAX)]
    Quota(TooManyLimits),
    /// The server has no such target.
    #[error("target {0} is not one of this server")]
    Unknown(TargetId),
    /// The change is not possible.
    #[error("{what}")]
    Refused {
        /// The reason.
        what: String,
        /// The remedy.
        hint: String,
    },
    /// The change is not possible yet.
    #[error("{0}")]
    NotYet(String),
    /// The decision cannot be kept on stable storage.
    #[error("the decision cannot be kept: {0}")]
    Storage(std::io::Error),
}

/// The reason why a fault of the tree was not mended.
#[derive(Debug, thiserror::Error)]
pub enum NotMended {
    /// The state does not show the fault, or cannot take the repair.
    #[error("{0}")]
    Refused(Refusal),
    /// The journal does not take the changes.
    #[error("the journal takes no repair: errno {}", .0 .0)]
    Journal(Errno),
}

impl NotChanged {
    pub(crate) fn refused(what: String, hint: String) -> NotChanged {
        NotChanged::Refused { what, hint }
    }
}

/// The owners of this server, and the limits of the store.
#[derive(Debug)]
pub struct Quotas {
    /// The use of each owner here.
    pub lines: Vec<QuotaLine>,
    /// The limits.
    pub table: QuotaTable,
}

/// The windows of this server.
pub struct Observed {
    /// The number of the server.
    pub server: u16,
    /// The number of its start.
    pub boot: String,
    /// The length of a window.
    pub length: Nanos,
    /// The windows, oldest first.
    pub windows: Vec<Arc<Window>>,
}

/// The objects of one target, or the directory that holds them.
pub enum Objects {
    /// The objects of a target in memory, with their lengths in bytes.
    Here(Vec<(Ino, u64)>),
    /// The directory, which the caller lists.
    In(Arc<Dir>),
}

/// The inodes whose number leaves a remainder.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    part: u64,
    parts: u64,
}

/// A question to the event loop.
pub enum Question {
    /// A caller waits for a snapshot.
    Show(Shown),
    /// Another policy from now on, and another scheduler where one is named.
    SetPolicy(Policy, Option<Algorithm>, SyncSender<Result<Sharing, NotChanged>>),
    /// The lease of the sharing.
    Lease(SyncSender<LeaseTold>),
    /// Another lease of the sharing.
    SetLease(Box<LeaseWanted>, SyncSender<Result<LeaseTold, String>>),
    /// Another allocator from now on.
    SetAllocator(AllocatorName, SyncSender<Result<(), NotChanged>>),
    /// The objects of every target here.
    Objects(SyncSender<Vec<(TargetId, Objects)>>),
    /// The numbers of the files of a part.
    Files(Part, SyncSender<Vec<Ino>>),
    /// The entries of these files.
    FileEntries(Vec<Ino>, SyncSender<Vec<FileEntry>>),
    /// The places of these inodes.
    Places(HashSet<Ino>, SyncSender<Vec<PlaceEntry>>),
    /// The numbers of the inodes of a part.
    Numbers(Part, SyncSender<Vec<Ino>>),
    /// The faults of these inodes and of their entries, in the first one from the entry after this cookie on.
    Examine(Vec<Ino>, u64, SyncSender<Examined>),
    /// The places of these directories by their own records.
    Positions(Vec<Ino>, SyncSender<Vec<Position>>),
    /// Entries by directory and name.
    Entries(Vec<EntryQuestion>, SyncSender<Vec<AwayEntry>>),
    /// A count of all owners' use begins.
    BeginRecount(SyncSender<(u64, Vec<Ino>)>),
    /// The next inodes of that count; false where another one has begun.
    GoOnRecount(u64, Vec<Ino>, SyncSender<bool>),
    /// The end of that count.
    EndRecount(u64, SyncSender<Option<Vec<UseFault>>>),
    /// A repair, and the inode that it is about.
    Mend(Box<Order>, SyncSender<Result<Ino, NotMended>>),
    /// The owners here, and the limits.
    Quotas(SyncSender<Quotas>),
    /// The windows after this number.
    Windows(u64, SyncSender<Observed>),
    /// Other limits of an owner; absent ones leave it to those of its kind.
    SetQuota(QuotaOwner, Option<QuotaLimits>, SyncSender<Result<(), NotChanged>>),
    /// Another emulated speed of a target, or none; false where there is no such target.
    SetSpeed(TargetId, Option<DeviceSpeed>, SyncSender<bool>),
    /// One more server.
    AddServer(ServerId, Box<ServerConfig>, SyncSender<Result<(), NotChanged>>),
    /// Another state of this server, which must have that number.
    SetServerState(ServerId, TargetState, SyncSender<Result<(), NotChanged>>),
    /// The names of this server in files, which must have that number.
    KeepNames(ServerId, SyncSender<Result<(), NotChanged>>),
    /// One more target.
    AddTarget(TargetId, Box<TargetConfig>, SyncSender<Result<(), NotChanged>>),
    /// Another state of a target.
    SetTargetState(TargetId, TargetState, SyncSender<Result<(), NotChanged>>),
}

impl Part {
    /// Reads the part of a path that begins with `before`.
    pub fn of_path(path: &str, before: &str) -> Option<Part> {
        let (part, parts) = path.strip_prefix(before)?.split_once('/')?;
        let part = Part { part: part.parse().ok()?, parts: parts.parse().ok()? };
        (part.part < part.parts && part.parts <= PARTS_MAX).then_some(part)
    }

    /// Whether an inode is in the part.
    pub fn has(self, ino: Ino) -> bool {
        ino.0 % self.parts == self.part
    }
}
