//! Questions of the control API to the event loop.

use std::sync::mpsc::SyncSender;
use weir_fairshare::{Algorithm, DeviceSpeed, Policy, Sharing, SharingError};
use weir_placement::{AllocatorName, TargetId};

/// The snapshot that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The state of the server, without its jobs.
    Status,
    /// Everything.
    Table,
}

/// A question to the event loop.
pub(crate) enum Question {
    /// A caller waits for a snapshot.
    Show(Shown),
    /// Another policy from now on, and another scheduler where one is named.
    SetPolicy(Policy, Option<Algorithm>, SyncSender<Result<Sharing, SharingError>>),
    /// Another allocator from now on.
    SetAllocator(AllocatorName, SyncSender<()>),
    /// Another emulated speed of a target, or none; false where there is no such target.
    SetSpeed(TargetId, Option<DeviceSpeed>, SyncSender<bool>),
}
