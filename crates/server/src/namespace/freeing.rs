//! Which changes give room back: they are journaled on a full disk too, by room that is kept for them.

use super::change::{Change, Intent};
use super::inode::Inode;
use super::Namespace;

impl Namespace {
    /// Whether nothing among `changes` takes room: names go, files are cut, work that was begun comes to its end.
    pub fn frees(&self, changes: &[Change]) -> bool {
        changes.iter().all(|change| self.is_freeing(change))
    }

    /// No change that a client can repeat without end is among these: it would use up what is kept for all.
    fn is_freeing(&self, change: &Change) -> bool {
        match change {
            Change::Unlinked { .. }
            | Change::Disposed { .. }
            | Change::DirectoryRemoved { .. }
            | Change::ForgottenForPeer { .. }
            | Change::MoveAbandoned { .. }
            | Change::Settled { .. }
            | Change::Started { .. }
            // Of whatever it accompanies.
            | Change::Remembered { .. } => true,
            Change::Resized { ino, size_bytes, .. } => {
                let file = self.state.inodes.get(ino).and_then(Inode::regular);
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
            | Change::XattrSet { .. }
            | Change::LayoutRequested { .. }
            | Change::MadeForPeer { .. }
            | Change::MadeKept { .. }
            | Change::Reparented { .. }
            | Change::ClientForgotten { .. }
            | Change::MoveBegun { .. }
            | Change::MoveFrozen { .. }
            | Change::Relaid { .. }
            | Change::MoveKept { .. }
            | Change::LaidOut { .. }
            | Change::Detoured { .. } => false,
        }
    }
}
