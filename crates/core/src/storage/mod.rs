//! Targets: they hold the bytes of objects, in memory or in a directory.

mod arena;
mod backend;
mod changes;
mod dir;
mod directory;
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
use backend::{Backend, Retired};
use directory::Directory;
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
pub struct Target(Box<dyn Backend>);

impl Target {
    /// A target in memory.
    pub fn in_memory(arena: Box<dyn Arena>) -> Target {
        Target(Box::new(Ram::new(arena)))
    }

    /// A target in a directory.
    pub fn in_directory(dir: Dir) -> Target {
        Target(Box::new(Directory::new(dir)))
    }

    /// The number of a target of this kind that has retired.
    pub fn retired(kind: BackendKind) -> Target {
        Target(Box::new(Retired(kind)))
    }

    /// The memory of a `ram` target.
    pub(crate) fn memory(&mut self) -> Option<&mut Ram> {
        self.0.memory()
    }

    /// The directory of a `dir` target.
    pub fn directory(&self) -> Option<&Arc<Dir>> {
        self.0.directory()
    }

    /// The epoch of the last cut of an object.
    pub(crate) fn epoch_of(&self, object: Ino) -> u64 {
        self.0.epoch_of(object)
    }

    /// Closes the target for good: it has no bytes of any file.
    pub(crate) fn retire(&mut self) {
        *self = Target::retired(self.0.kind());
    }

    /// Whether the target has retired.
    pub(crate) fn has_retired(&self) -> bool {
        self.0.has_retired()
    }

    /// Whether replies that are being sent, or writes that are being received, still use the target's memory.
    pub(crate) fn is_in_use(&self) -> bool {
        self.0.is_in_use()
    }

    /// `ram` or `dir`.
    pub(crate) fn backend(&self) -> &'static str {
        match self.0.kind() {
            BackendKind::Ram => "ram",
            BackendKind::Dir => "dir",
        }
    }

    /// The bytes that survive a restart, in words.
    pub(crate) fn keeps(&self) -> &'static str {
        self.0.keeps()
    }

    /// The ranges of an object that changed since the last round of a move; `None` if the target does not follow the object.
    pub(crate) fn changes(&mut self, ino: Ino, tracking: u64, round: u32) -> Option<Vec<(u64, u64)>> {
        self.0.changes(ino, tracking, round)
    }

    /// A worker has changed an object; `ranges` says where, and is asked where a mover wants to know.
    pub(crate) fn note_changes(&mut self, object: Ino, mut ranges: impl FnMut() -> Vec<(u64, u64)>) {
        self.0.note_changes(object, &mut ranges);
    }

    /// The bytes that the target may hold and holds, and its disk.
    pub(crate) fn room(&self) -> TargetRoom {
        self.0.room()
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
        self.directory().is_some_and(|dir| dir.close_idle())
    }

    /// The bytes of a region that a read plan of this target names.
    pub(crate) fn arena_bytes(&self, region: Region) -> &[u8] {
        self.0.arena_bytes(region)
    }
}
