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
use crate::requests::order::Place as ObjectPlace;
use backend::{Backend, Retired};
use weir_fairshare::Nanos;
use weir_wire::{Ino, TargetRoom};

pub use arena::{Arena, Region, PAGE_BYTES};
pub use dir::aside::{Cut, Known, Settled};
pub use dir::names::Aside;
pub use dir::presence::Look;
pub use dir::seen::Seen;
pub use dir::work::{FileWork, TargetOutput, TargetWork};
pub use dir::Dir;
pub use directory::{AsidesTicket, Directory};
pub use failure::{StaleEpoch, TargetFailure};
pub use files::{Entry, File, Node, Opening, Sizes, TargetFile, TargetFolder};
pub(crate) use ram::{Ram, ReadPlan, Segment, WritePlan};
pub use reserve::{RefillTicket, Refilled, Reserve};
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
    pub fn in_directory(directory: Directory) -> Target {
        Target(Box::new(directory))
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
    pub fn directory(&self) -> Option<&Directory> {
        self.0.directory()
    }

    /// As [`Target::directory`].
    pub(crate) fn directory_mut(&mut self) -> Option<&mut Directory> {
        self.0.directory_mut()
    }

    /// Decides about work that may begin on its object now; there is nothing to do on a target without files.
    pub(crate) fn begin(&mut self, place: ObjectPlace, work: TargetWork) -> FileWork {
        match self.directory_mut() {
            Some(directory) => directory.begin(place, work),
            None => FileWork::none(place),
        }
    }

    /// Takes up the end of work.
    ///
    /// # Errors
    /// The work's refusal.
    pub(crate) fn end(
        &mut self,
        seen: Seen,
        outcome: Result<TargetOutput, TargetFailure>,
        now: Nanos,
    ) -> Result<TargetOutput, TargetFailure> {
        match self.directory_mut() {
            Some(directory) => directory.end(seen, outcome, now),
            None => outcome,
        }
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
    pub fn room(&self) -> TargetRoom {
        self.0.room()
    }

    /// Memory of free pages that the target keeps for the next writes.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.0.spare_bytes()
    }

    /// The trouble of the target in words; none where it works.
    pub(crate) fn trouble(&self, now: Nanos) -> Option<String> {
        self.directory().and_then(|directory| directory.trouble(now))
    }

    /// Whether the target's folder is gone, or another one lies in its place.
    pub(crate) fn is_absent(&self) -> bool {
        self.directory().is_some_and(Directory::is_gone)
    }

    /// Failures of the device since the target was opened.
    pub(crate) fn device_failures(&self) -> u64 {
        self.directory().map_or(0, Directory::device_failures)
    }

    /// Closes an object file that nobody uses now; false if there is none.
    pub(crate) fn close_idle_object(&mut self) -> bool {
        self.directory_mut().is_some_and(Directory::close_idle)
    }

    /// The bytes of a region that a read plan of this target names.
    pub(crate) fn arena_bytes(&self, region: Region) -> &[u8] {
        self.0.arena_bytes(region)
    }
}
