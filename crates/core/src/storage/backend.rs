//! The kinds of targets, behind one trait.

use super::arena::Region;
use super::{Dir, Ram, KEEPS_NOTHING};
use crate::config::BackendKind;
use std::sync::Arc;
use weir_wire::{Ino, TargetRoom};

/// The place of a target's bytes.
pub(super) trait Backend: Send {
    fn kind(&self) -> BackendKind;

    /// The memory that has the bytes.
    fn memory(&mut self) -> Option<&mut Ram> {
        None
    }

    /// The directory that has the bytes.
    fn directory(&self) -> Option<&Arc<Dir>> {
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

    fn is_in_use(&self) -> bool {
        Ram::is_in_use(self)
    }

    fn arena_bytes(&self, region: Region) -> &[u8] {
        self.bytes(region)
    }
}
