//! The pending intents of the state, and the indexes over them.

use super::inode::{allocation_of, RegularFile};
use super::intent::{Intent, IntentId};
use super::state::State;
use weir_wire::{Ino, Moment};

impl State {
    pub(super) fn intend(&mut self, id: IntentId, intent: Intent) {
        self.next_intent = self.next_intent.max(id.0 + 1);
        self.unindex(id);
        match &intent {
            Intent::Cut { ino, .. } | Intent::Freeze { ino } | Intent::Seal { ino, .. } => {
                self.cuts.insert(*ino, id);
            }
            Intent::Fence { ino, .. } => *self.fences.entry(*ino).or_default() += 1,
            Intent::RemoveDirectory { ino, .. } => _ = self.removing.insert(*ino, id),
            Intent::MakeDirectory { parent, name, .. } => {
                self.making.insert((*parent, name.clone()), id);
                self.unsettled.insert(id);
            }
            Intent::ForgetDirectory { made, .. } => _ = self.unsettled.insert(*made),
            Intent::Reparent { ino, .. } => _ = self.moving.insert(*ino, id),
            Intent::Remove { .. } => {}
        }
        self.intents.insert(id, intent);
    }

    pub(super) fn settle(&mut self, id: IntentId) {
        self.unindex(id);
        if let Some(Intent::Cut { ino, size_bytes, epoch, at, .. }) = self.intents.remove(&id) {
            self.resize(ino, size_bytes, epoch, at);
        }
    }

    fn unindex(&mut self, id: IntentId) {
        match self.intents.get(&id) {
            Some(Intent::Cut { ino, .. } | Intent::Freeze { ino } | Intent::Seal { ino, .. }) => {
                // The cut that follows a freeze takes its place before the freeze is settled.
                if self.cuts.get(ino) == Some(&id) {
                    self.cuts.remove(ino);
                }
            }
            Some(Intent::Fence { ino, .. }) => {
                if let Some(count) = self.fences.get_mut(ino) {
                    *count -= 1;
                    if *count == 0 {
                        self.fences.remove(ino);
                    }
                }
            }
            Some(Intent::RemoveDirectory { ino, .. }) => _ = self.removing.remove(ino),
            Some(Intent::MakeDirectory { parent, name, .. }) => {
                self.making.remove(&(*parent, name.clone()));
                self.unsettled.remove(&id);
            }
            Some(Intent::ForgetDirectory { made, .. }) => {
                let made = *made;
                self.unsettled.remove(&made);
            }
            Some(Intent::Reparent { ino, .. }) => _ = self.moving.remove(ino),
            Some(Intent::Remove { .. }) | None => {}
        }
    }

    pub(super) fn resize(&mut self, ino: Ino, size_bytes: u64, epoch: u64, at: Moment) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        inode.modified = at;
        inode.changed = at;
        if let Some(file) = inode.regular_mut() {
            file.size_bytes = size_bytes;
            file.allocated_bytes = file.allocated_bytes.min(allocation_of(size_bytes));
            file.epoch = epoch;
        }
    }
}

impl Intent {
    /// Cuts every object of `file` to the smaller of the old and the new size. A file that grows is cut at its old size, too, so
    /// that bytes which a dying writer left behind the end never appear.
    pub(super) fn cut(ino: Ino, file: &RegularFile, size_bytes: u64, at: Moment) -> Intent {
        let kept = size_bytes.min(file.size_bytes);
        let objects = file.layout.targets().iter().enumerate();
        let objects =
            objects.map(|(object, &target)| (target, file.layout.object_bytes(object, kept))).collect();
        Intent::Cut { ino, size_bytes, epoch: file.epoch + 1, objects, at }
    }
}
