//! The kinds of targets, behind one trait.

use super::arena::Region;
use super::directory::Directory;
use super::{Ram, KEEPS_NOTHING};
use crate::config::BackendKind;
use weir_wire::{Ino, TargetRoom};

/// The place of a target's bytes.
pub(super) trait Backend: Send {
    fn kind(&self) -> BackendKind;

    /// The memory that has the bytes.
    fn memory(&mut self) -> Option<&mut Ram> {
        None
    }

    /// The directory that has the bytes.
    fn directory(&self) -> Option<&Directory> {
        None
    }

    /// As [`Backend::directory`].
    fn directory_mut(&mut self) -> Option<&mut Directory> {
        None
    }

    fn has_retired(&self) -> bool {
        false
    }

    /// As [`Target::keeps`].
    fn keeps(&self) -> &'static str {
        KEEPS_NOTHING
    }

    /// As [`Target::epoch_of`].
    fn epoch_of(&self, object: Ino) -> u64;

    /// As [`Target::changes`].
    fn changes(&mut self, object: Ino, tracking: u64, round: u32) -> Option<Vec<(u64, u64)>>;

    /// As [`Target::note_changes`].
    fn note_changes(&mut self, _object: Ino, _ranges: &mut dyn FnMut() -> Vec<(u64, u64)>) {}

    /// As [`Target::room`].
    fn room(&self) -> TargetRoom;

    /// As [`Target::spare_bytes`].
    fn spare_bytes(&self) -> u64 {
        0
    }

    /// As [`Target::is_in_use`].
    fn is_in_use(&self) -> bool {
        false
    }

    /// As [`Target::arena_bytes`].
    fn arena_bytes(&self, _region: Region) -> &[u8] {
        &[]
    }
}

/// A target that has retired: no bytes are left, and only its number is taken.
pub(super) struct Retired(pub(super) BackendKind);

impl Backend for Retired {
    fn kind(&self) -> BackendKind {
        self.0
    }

    fn has_retired(&self) -> bool {
        true
    }

    fn epoch_of(&self, _object: Ino) -> u64 {
        0
    }

    fn changes(&mut self, _object: Ino, _tracking: u64, _round: u32) -> Option<Vec<(u64, u64)>> {
        None
    }

    fn room(&self) -> TargetRoom {
        TargetRoom::default()
    }
}

impl Backend for Ram {
    fn kind(&self) -> BackendKind {
        BackendKind::Ram
    }

    fn memory(&mut self) -> Option<&mut Ram> {
        Some(self)
    }

    fn epoch_of(&self, object: Ino) -> u64 {
        Ram::epoch_of(self, object)
    }

    fn changes(&mut self, object: Ino, tracking: u64, round: u32) -> Option<Vec<(u64, u64)>> {
        Ram::changes(self, object, tracking, round)
    }

    fn room(&self) -> TargetRoom {
        TargetRoom { capacity_bytes: self.capacity_bytes(), used_bytes: self.used_bytes(), disk: None }
    }

    fn spare_bytes(&self) -> u64 {
        Ram::spare_bytes(self)
    }

    fn is_in_use(&self) -> bool {
        Ram::is_in_use(self)
    }

    fn arena_bytes(&self, region: Region) -> &[u8] {
        self.bytes(region)
    }
}

impl Backend for Directory {
    fn kind(&self) -> BackendKind {
        BackendKind::Dir
    }

    fn directory(&self) -> Option<&Directory> {
        Some(self)
    }

    fn directory_mut(&mut self) -> Option<&mut Directory> {
        Some(self)
    }

    fn keeps(&self) -> &'static str {
        "what was acknowledged"
    }

    fn epoch_of(&self, object: Ino) -> u64 {
        Directory::epoch_of(self, object)
    }

    fn changes(&mut self, object: Ino, tracking: u64, round: u32) -> Option<Vec<(u64, u64)>> {
        Directory::changes(self).ask(object, tracking, round)
    }

    /// A fence that comes later begins behind this: the core hears of the end of work in its order.
    fn note_changes(&mut self, object: Ino, ranges: &mut dyn FnMut() -> Vec<(u64, u64)>) {
        let changes = Directory::changes(self);
        if changes.len() > 0 {
            ranges().into_iter().for_each(|(begin, end)| changes.note(object, begin, end));
        }
    }

    fn room(&self) -> TargetRoom {
        Directory::room(self)
    }
}
