//! Targets: they hold the bytes of objects, in memory or in a directory.

mod arena;
mod changes;
mod dir;
mod failure;
mod files;
#[cfg(any(test, feature = "world"))]
pub mod memory_arena;
#[cfg(any(test, feature = "world"))]
pub mod memory_folder;
mod object;
mod pages;
mod ram;
mod reserve;
mod stamp;

use crate::config::BackendKind;
use std::sync::Arc;
use weir_wire::{Ino, TargetRoom};

pub use arena::{Arena, Region, PAGE_BYTES};
pub use dir::aside::{Cut, Known, Settled};
pub(crate) use dir::names::Aside;
pub use dir::Dir;
pub use failure::{StaleEpoch, TargetFailure};
pub use files::{Entry, Node, Opening, Sizes, TargetFile, TargetFolder};
pub(crate) use ram::{Ram, ReadPlan, Segment, WritePlan};
pub use reserve::Reserve;
pub use stamp::{Found, KnownPlaces, Owner, Place, Record, Stamp, NAME as STAMP};

/// The words for a target of which nothing outlives a restart.
pub(crate) const KEEPS_NOTHING: &str = "nothing over a restart";

/// One target of this server. Its bytes lie in [memory](Target::memory), which the event loop serves itself, or below a
/// [directory](Target::directory), which the worker pool serves.
pub struct Target(Backend);

enum Backend {
    Ram(Box<Ram>),
    Dir(Arc<Dir>),
    /// It has retired: no bytes are left, and only its number is taken.
    Retired(BackendKind),
}

impl Target {
    /// A target in memory.
    pub fn in_memory(arena: Box<dyn Arena>) -> Target {
        Target(Backend::Ram(Box::new(Ram::new(arena))))
    }

    /// A target in a directory.
    pub fn in_directory(dir: Dir) -> Target {
        Target(Backend::Dir(Arc::new(dir)))
    }

    /// The number of a target of this kind that has retired.
    pub fn retired(kind: BackendKind) -> Target {
        Target(Backend::Retired(kind))
    }

    /// The memory of a `ram` target.
    pub(crate) fn memory(&mut self) -> Option<&mut Ram> {
        match &mut self.0 {
            Backend::Ram(ram) => Some(ram),
            Backend::Dir(_) | Backend::Retired(_) => None,
        }
    }

    /// The epoch of the last cut of an object.
    pub(crate) fn epoch_of(&self, object: Ino) -> u64 {
        match &self.0 {
            Backend::Ram(ram) => ram.epoch_of(object),
            Backend::Dir(dir) => dir.epoch_of(object),
            Backend::Retired(_) => 0,
        }
    }

    /// Closes the target for good: it has no bytes of any file.
    pub(crate) fn retire(&mut self) {
        self.0 = Backend::Retired(match self.0 {
            Backend::Ram(_) => BackendKind::Ram,
            Backend::Dir(_) => BackendKind::Dir,
            Backend::Retired(kind) => kind,
        });
    }

    /// Whether the target has retired.
    pub(crate) fn has_retired(&self) -> bool {
        matches!(self.0, Backend::Retired(_))
    }

    /// Whether replies that are being sent, or writes that are being received, still use the target's memory.
    pub(crate) fn is_in_use(&self) -> bool {
        match &self.0 {
            Backend::Ram(ram) => ram.is_in_use(),
            Backend::Dir(_) | Backend::Retired(_) => false,
        }
    }

    /// The directory of a `dir` target.
    pub fn directory(&self) -> Option<&Arc<Dir>> {
        match &self.0 {
            Backend::Ram(_) | Backend::Retired(_) => None,
            Backend::Dir(dir) => Some(dir),
        }
    }

    /// `ram` or `dir`.
    pub(crate) fn backend(&self) -> &'static str {
        match &self.0 {
            Backend::Ram(_) | Backend::Retired(BackendKind::Ram) => "ram",
            Backend::Dir(_) | Backend::Retired(BackendKind::Dir) => "dir",
        }
    }

    /// The bytes that survive a restart, in words.
    pub(crate) fn keeps(&self) -> &'static str {
        match &self.0 {
            Backend::Ram(_) | Backend::Retired(_) => KEEPS_NOTHING,
            Backend::Dir(_) => "what was acknowledged",
        }
    }

    /// The ranges of an object that changed since the last round of a move; `None` if the target does not follow the object.
    pub(crate) fn changes(&mut self, ino: Ino, tracking: u64, round: u32) -> Option<Vec<(u64, u64)>> {
        match &mut self.0 {
            Backend::Ram(ram) => ram.changes(ino, tracking, round),
            Backend::Dir(dir) => dir.changes(ino, tracking, round),
            Backend::Retired(_) => None,
        }
    }

    /// The bytes that the target may hold and holds, and its disk.
    pub(crate) fn room(&self) -> TargetRoom {
        match &self.0 {
            Backend::Ram(ram) => {
                TargetRoom { capacity_bytes: ram.capacity_bytes(), used_bytes: ram.used_bytes(), disk: None }
            }
            Backend::Dir(dir) => dir.room(),
            Backend::Retired(_) => TargetRoom::default(),
        }
    }

    /// The trouble of the target in words; none where it works.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.directory().and_then(|dir| dir.trouble())
    }

    /// Failures of the device since the target was opened.
    pub(crate) fn device_failures(&self) -> u64 {
        self.directory().map_or(0, |dir| dir.device_failures())
    }

    /// Closes an object file that nobody uses now; false if there is none.
    pub(crate) fn close_idle_object(&self) -> bool {
        match &self.0 {
            Backend::Ram(_) | Backend::Retired(_) => false,
            Backend::Dir(dir) => dir.close_idle(),
        }
    }

    /// The bytes of a region that a read plan of this target names.
    pub(crate) fn arena_bytes(&self, region: Region) -> &[u8] {
        match &self.0 {
            Backend::Ram(ram) => ram.bytes(region),
            Backend::Dir(_) | Backend::Retired(_) => &[],
        }
    }
}
