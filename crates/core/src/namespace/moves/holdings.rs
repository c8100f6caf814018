//! The objects of this home's files on each target, counted anew with every change of a layout: a target may leave the store
//! once no home counts any object there.

use crate::namespace::change::Change;
use crate::namespace::files::inode::Inode;
use crate::namespace::intents::intent::Intent;
use crate::namespace::state::State;
use weir_placement::TargetId;
use weir_wire::Ino;

/// The file whose layout or move a change may alter. Every change is named, because a target would leave with the files of one
/// that is forgotten here.
pub(crate) fn changed_file(change: &Change) -> Option<Ino> {
    match change {
        Change::Kept { ino, .. }
        | Change::Created { ino, .. }
        | Change::CreatedUnnamed { ino, .. }
        | Change::Disposed { ino, .. }
        | Change::MoveBegun { ino, .. }
        | Change::Relaid { ino, .. }
        | Change::MoveAbandoned { ino, .. }
        | Change::MoveKept { ino, .. }
        | Change::LaidOut { ino, .. }
        | Change::Detoured { ino, .. } => Some(*ino),
        Change::Started { .. }
        | Change::Counted { .. }
        | Change::EntryKept { .. }
        | Change::Linked { .. }
        | Change::Unlinked { .. }
        | Change::Moved { .. }
        | Change::AttributesSet { .. }
        | Change::Resized { .. }
        | Change::Published { .. }
        | Change::Touched { .. }
        | Change::XattrSet { .. }
        | Change::LayoutRequested { .. }
        | Change::Intended { .. }
        | Change::Settled { .. }
        | Change::MadeForPeer { .. }
        | Change::MadeKept { .. }
        | Change::ForgottenForPeer { .. }
        | Change::DirectoryRemoved { .. }
        | Change::Reparented { .. }
        | Change::Remembered { .. }
        | Change::ClientForgotten { .. }
        | Change::ClientReleased { .. }
        | Change::ClientReturned { .. }
        | Change::MoveFrozen { .. }
        | Change::NamesCounted { .. }
        | Change::UseCounted => None,
    }
}

impl State {
    /// Objects on a target, and those that unsettled intents are about to change there: a power loss may bring their files back
    /// as they were.
    pub(crate) fn objects_on(&self, target: TargetId) -> u64 {
        let is_there = |place: &TargetId| place.device() == target;
        let intended = self.intents.values().map(|intent| match intent {
            Intent::Cut { objects, .. } | Intent::Fence { objects, .. } | Intent::Seal { objects, .. } => {
                objects.iter().filter(|(place, _)| is_there(place)).count()
            }
            Intent::Remove { targets, .. } => targets.iter().filter(|place| is_there(place)).count(),
            Intent::MakeDirectory { .. }
            | Intent::ForgetDirectory { .. }
            | Intent::RemoveDirectory { .. }
            | Intent::Reparent { .. }
            | Intent::Freeze { .. } => 0,
        });
        self.objects.of(target) + intended.sum::<usize>() as u64
    }

    /// Counts the objects of a file from now on.
    pub(crate) fn count_objects(&mut self, ino: Ino) {
        self.each_object(ino, |count| *count += 1);
    }

    /// Counts the objects of a file no more, because they are about to change.
    pub(crate) fn discount_objects(&mut self, ino: Ino) {
        self.each_object(ino, |count| *count = count.saturating_sub(1));
    }

    fn each_object(&mut self, ino: Ino, change: impl Fn(&mut u64)) {
        let Some(file) = self.inodes.get(&ino).and_then(Inode::regular) else { return };
        for &place in file.layout.targets() {
            change(self.objects.count(place));
        }
        let moves = self.moves.get(&ino).into_iter().flat_map(|record| &record.moves);
        for one in moves {
            change(self.objects.count(one.to));
        }
    }
}
