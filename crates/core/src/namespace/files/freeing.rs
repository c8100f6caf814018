//! The changes that give room back. The journal takes them on a full disk, too, from a reserve.

use super::Files;
use crate::namespace::change::Change;
use crate::namespace::intents::Intent;

impl Files {
    /// Whether no change among `changes` takes room: names go, files are cut, begun work comes to its end.
    pub(crate) fn frees(&self, changes: &[Change]) -> bool {
        changes.iter().all(|change| self.is_freeing(change))
    }

    /// Whether a change gives room back. No client can repeat such a change without end: it would use up the reserve for all.
    fn is_freeing(&self, change: &Change) -> bool {
        match change {
            Change::Unlinked { .. }
            | Change::Disposed { .. }
            | Change::DirectoryRemoved { .. }
            | Change::ForgottenForPeer { .. }
            | Change::MoveAbandoned { .. }
            | Change::Settled { .. }
            | Change::Started { .. }
            // As often as attributes were set, which takes room.
            | Change::XattrSet { value: None, .. }
            // A reply record belongs to the other changes of its group.
            | Change::Remembered { .. } => true,
            Change::Resized { ino, size_bytes, .. } => {
                let file = self.regular(*ino);
                file.is_some_and(|file| *size_bytes < file.size_bytes)
            }
            Change::Intended { intent, .. } => {
                matches!(intent, Intent::RemoveDirectory { .. } | Intent::ForgetDirectory { .. })
            }
            Change::Counted { .. }
            | Change::Kept { .. }
            | Change::EntryKept { .. }
            | Change::Created { .. }
            | Change::CreatedUnnamed { .. }
            | Change::Linked { .. }
            | Change::Moved { .. }
            | Change::AttributesSet { .. }
            | Change::Published { .. }
            | Change::Touched { .. }
            | Change::XattrSet { value: Some(_), .. }
            | Change::LayoutRequested { .. }
            | Change::MadeForPeer { .. }
            | Change::MadeKept { .. }
            | Change::Reparented { .. }
            | Change::ClientForgotten { .. }
            | Change::ClientReleased { .. }
            | Change::ClientReturned { .. }
            | Change::MoveBegun { .. }
            | Change::MoveFrozen { .. }
            | Change::Relaid { .. }
            | Change::MoveKept { .. }
            | Change::NamesCounted { .. }
            | Change::UseCounted
            | Change::LaidOut { .. }
            | Change::Detoured { .. } => false,
        }
    }
}
