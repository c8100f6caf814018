//! A `dir` target as the core has it: what is decided about its objects. Workers call its files ([`Dir`]).

use super::backend::Backend;
use super::changes::Changes;
use super::Dir;
use crate::config::BackendKind;
use std::sync::Arc;
use weir_wire::{Ino, TargetRoom};

/// A target in a directory.
pub(super) struct Directory {
    files: Arc<Dir>,
    changes: Changes,
}

impl Directory {
    pub(super) fn new(files: Dir) -> Directory {
        Directory { files: Arc::new(files), changes: Changes::default() }
    }
}

impl Backend for Directory {
    fn kind(&self) -> BackendKind {
        BackendKind::Dir
    }

    fn directory(&self) -> Option<&Arc<Dir>> {
        Some(&self.files)
    }

    fn keeps(&self) -> &'static str {
        "what was acknowledged"
    }

    fn epoch_of(&self, object: Ino) -> u64 {
        self.files.epoch_of(object)
    }

    fn changes(&mut self, object: Ino, tracking: u64, round: u32) -> Option<Vec<(u64, u64)>> {
        self.changes.ask(object, tracking, round)
    }

    /// A fence that comes later begins behind this: the core hears of the end of work in its order.
    fn note_changes(&mut self, object: Ino, ranges: &mut dyn FnMut() -> Vec<(u64, u64)>) {
        if self.changes.len() > 0 {
            ranges().into_iter().for_each(|(begin, end)| self.changes.note(object, begin, end));
        }
    }

    fn room(&self) -> TargetRoom {
        self.files.room()
    }
}
