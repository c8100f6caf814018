//! Facts that follow from the changes of inodes: the use of their owners, and files with holes.
//!
//! A file costs its owner and its group its size in whole pages, or the room that was reserved for it if that is more. Each inode
//! costs one inode until it is gone, also without a name.
//!
//! The missing objects of a file with holes are no loss. A file without holes was written from front to end, so each of its objects
//! exists and reaches as far as its layout says. The records of its growth tell: a write that begins behind the end of the file
//! allocates less than the file grows by. Such a file counts as one with holes until it is emptied, although later writes may fill
//! them.

use super::change::Change;
use super::inode::{allocation_of, Inode, Node};
use super::intent::Intent;
use super::state::State;
use super::usage::{Charge, Usage};
use weir_wire::Ino;

/// Size and allocated bytes of a file.
type Extent = (u64, u64);

impl Inode {
    /// The bytes that the owners pay for.
    pub(super) fn charged_bytes(&self) -> u64 {
        match &self.node {
            Node::Regular(file) => allocation_of(file.size_bytes).max(file.allocated_bytes),
            _ => 0,
        }
    }
}

impl State {
    /// Carries out a change, and accounts the inode that costs more or less afterwards.
    pub(super) fn apply_accounted(&mut self, change: &Change) {
        if *change == Change::UseCounted {
            return self.usage.correct(self.recounted());
        }
        let Some(ino) = self.accounted(change) else { return self.apply(change) };
        let (before, extent) = (self.charge(ino), self.extent(ino));
        self.apply(change);
        self.note_holes(ino, extent);
        let after = self.charge(ino);
        self.usage.adjust(before, after);
        if let Some(recount) = &mut self.recount {
            recount.follow(ino, before, after);
        }
    }

    /// The cost of an inode. A file that is about to grow costs its new size from the decision on, so that nobody else is
    /// given the same room.
    pub(super) fn charge(&self, ino: Ino) -> Option<Charge> {
        let inode = self.inodes.get(&ino)?;
        let pending = self.cuts.get(&ino).and_then(|id| match self.intents.get(id) {
            Some(Intent::Cut { size_bytes, .. }) => Some(allocation_of(*size_bytes)),
            _ => None,
        });
        let bytes = inode.charged_bytes().max(pending.unwrap_or(0));
        Some(Charge { uid: inode.uid, gid: inode.gid, bytes })
    }

    /// The inode that may cost its owners more or less after a change.
    fn accounted(&self, change: &Change) -> Option<Ino> {
        match change {
            Change::Created { ino, .. }
            | Change::CreatedUnnamed { ino, .. }
            | Change::Kept { ino, .. }
            | Change::MadeForPeer { ino, .. }
            | Change::Disposed { ino, .. }
            | Change::AttributesSet { ino, .. }
            | Change::Resized { ino, .. }
            | Change::Published { ino, .. } => Some(*ino),
            Change::Started { .. } => Some(Ino::ROOT),
            Change::Intended { intent: Intent::Cut { ino, .. }, .. } => Some(*ino),
            Change::ForgottenForPeer { from, intent } => self.made.get(&(*from, *intent)).copied(),
            Change::Settled { id } => match self.intents.get(id) {
                Some(Intent::Cut { ino, .. }) => Some(*ino),
                _ => None,
            },
            _ => None,
        }
    }

    /// The use of all owners, counted anew.
    pub(super) fn recounted(&self) -> Usage {
        let mut usage = Usage::default();
        for ino in self.inodes.keys() {
            usage.adjust(None, self.charge(*ino));
        }
        usage
    }

    fn extent(&self, ino: Ino) -> Option<Extent> {
        self.regular(ino).map(|file| (file.size_bytes, file.allocated_bytes))
    }

    /// Notes whether a file has holes from now on. A file had no bytes `before` it was there.
    fn note_holes(&mut self, ino: Ino, before: Option<Extent>) {
        let Some((size, allocated)) = self.extent(ino).filter(|(size, _)| *size > 0) else {
            self.holed.remove(&ino);
            return;
        };
        let (size_before, allocated_before) = before.unwrap_or_default();
        let growth = size.saturating_sub(size_before);
        let without_holes = allocated_before.saturating_add(growth).min(allocation_of(size));
        if growth > 0 && allocated < without_holes {
            self.holed.insert(ino);
        }
    }
}
