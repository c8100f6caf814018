//! The paid ends of objects: the bytes for which the owners of this home's files pay, and the account of bytes behind them.

use super::inode::RegularFile;
use super::{Files, Inode};
use crate::namespace::change::Change;
use crate::unpublished::{Charge, Part, Reach};
use weir_placement::TargetId;
use weir_wire::Ino;

impl Files {
    /// The bytes of the object at a place that the file's owners pay for; none for a place that is not of the file.
    pub(crate) fn paid_bytes(&self, ino: Ino, place: TargetId) -> Option<u64> {
        self.paid_of(ino, self.get(ino)?, place)
    }

    pub(crate) fn paid_of(&self, ino: Ino, inode: &Inode, place: TargetId) -> Option<u64> {
        let file = inode.regular()?;
        let object = self.object_at(ino, file, place)?;
        Some(file.layout.object_bytes(object, inode.data_bytes()))
    }

    /// The number of the object at a place, also where the object is only about to move there.
    fn object_at(&self, ino: Ino, file: &RegularFile, place: TargetId) -> Option<usize> {
        let targets = file.layout.targets();
        let of = |place: TargetId| targets.iter().position(|other| *other == place);
        of(place).or_else(|| of(self.moves.origin(ino, place)?))
    }

    /// Notes bytes of a write that is done, unless they are paid for or charged already.
    pub(crate) fn note_held(&mut self, part: Part, reach: Reach) {
        let paid = self.paid_bytes(part.ino, part.place);
        if paid.is_some_and(|paid| reach.end > paid)
            && !self.quotas.unpublished().reaches(part.ino, part.place, reach.end)
        {
            self.quotas.unpublished_mut().add(part, reach, paid.unwrap_or(0));
        }
    }

    /// Takes the charge of a write back that left no bytes.
    pub(crate) fn take_back(&mut self, charge: &Charge) {
        self.quotas.unpublished_mut().take_back(charge);
    }

    /// Brings the account to the state after a change: a publication pays, and a cut takes bytes along.
    pub(crate) fn settle_held(&mut self, change: &Change) {
        if self.quotas.unpublished().is_empty() {
            return;
        }
        match change {
            Change::Published { ino, .. }
            | Change::Relaid { ino, .. }
            | Change::MoveAbandoned { ino, .. } => {
                let mut held = std::mem::take(self.quotas.unpublished_mut());
                held.settle(*ino, |place| self.paid_bytes(*ino, place));
                *self.quotas.unpublished_mut() = held;
            }
            Change::Resized { ino, cut: Some(_), .. }
            | Change::Detoured { ino, .. }
            | Change::Disposed { ino, .. } => self.quotas.unpublished_mut().forget(*ino),
            _ => {}
        }
    }

    /// The bytes of the owner of a file behind its end, and those that are left if the owner pays for `charged` bytes of the file.
    pub(crate) fn held_of_owner(&self, ino: Ino, inode: &Inode, charged: u64) -> (u64, u64) {
        if self.quotas.unpublished().is_empty() {
            return (0, 0);
        }
        self.quotas.unpublished().left_of(ino, inode.uid, |place| {
            let file = inode.regular();
            let object = file.and_then(|file| Some((file, self.object_at(ino, file, place)?)));
            object.map_or(0, |(file, object)| file.layout.object_bytes(object, charged))
        })
    }
}
