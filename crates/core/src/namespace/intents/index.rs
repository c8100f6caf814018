//! The pending intents of the state, and the indexes over them.

use super::intent::{Intent, IntentId};
use crate::namespace::files::inode::{allocation_of, RegularFile};
use crate::namespace::state::State;
use weir_wire::{Ino, Moment};

impl State {
    /// Begins an intent that is kept for a user.
    pub(crate) fn intend(&mut self, id: IntentId, uid: u32, intent: Intent) {
        self.next_intent = self.next_intent.max(id.0 + 1);
        self.unindex(id);
        match &intent {
            Intent::Cut { ino, .. } | Intent::Freeze { ino } | Intent::Seal { ino, .. } => {
                self.cuts.insert(*ino, id);
                self.inodes.await_size(*ino, intent.awaited_bytes());
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
        self.inodes.usage_mut().keep(uid, intent.kept_bytes());
        if let Some((uid, before)) = self.intents.insert(id, uid, intent) {
            self.inodes.usage_mut().let_go(uid, before.kept_bytes());
        }
    }

    pub(crate) fn settle(&mut self, id: IntentId) {
        self.unindex(id);
        let Some((uid, intent)) = self.intents.remove(id) else { return };
        self.inodes.usage_mut().let_go(uid, intent.kept_bytes());
        if let Intent::Cut { ino, size_bytes, epoch, at, .. } = intent {
            self.resize(ino, size_bytes, epoch, at);
        }
    }

    /// Notes anew what follows from other records, after a replay.
    pub(crate) fn index(&mut self) {
        self.inodes.index();
        let awaited: Vec<(Ino, u64)> = self
            .cuts
            .iter()
            .filter_map(|(&ino, id)| Some((ino, self.intents.get(id)?.awaited_bytes())))
            .collect();
        for (ino, size_bytes) in awaited {
            self.inodes.await_size(ino, size_bytes);
        }
        let moving: Vec<(Ino, usize)> =
            self.moves.iter().map(|(&ino, record)| (ino, record.moves.len())).collect();
        for (ino, objects) in moving {
            self.inodes.note_moving(ino, objects);
        }
    }

    fn unindex(&mut self, id: IntentId) {
        match self.intents.get(&id) {
            Some(Intent::Cut { ino, .. } | Intent::Freeze { ino } | Intent::Seal { ino, .. }) => {
                // The cut that follows a freeze takes its place before the freeze is settled.
                if self.cuts.get(ino) == Some(&id) {
                    self.cuts.remove(ino);
                    self.inodes.await_size(*ino, 0);
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

    pub(crate) fn resize(&mut self, ino: Ino, size_bytes: u64, epoch: u64, at: Moment) {
        self.inodes.change(ino, |inode| {
            inode.modified = at;
            inode.changed = at;
            if let Some(file) = inode.regular_mut() {
                let before = file.extent();
                file.size_bytes = size_bytes;
                file.allocated_bytes = file.allocated_bytes.min(allocation_of(size_bytes));
                file.epoch = epoch;
                file.note_holes(before);
            }
        });
    }
}

impl Intent {
    /// Cuts every object of `file` to the smaller of the old and the new size. A file that grows is cut at its old size, too, so
    /// that bytes which a dying writer left behind the end never appear.
    pub(crate) fn cut(ino: Ino, file: &RegularFile, size_bytes: u64, at: Moment) -> Intent {
        let kept = size_bytes.min(file.size_bytes);
        let objects = file.layout.targets().iter().enumerate();
        let objects =
            objects.map(|(object, &target)| (target, file.layout.object_bytes(object, kept))).collect();
        Intent::Cut { ino, size_bytes, epoch: file.epoch + 1, objects, at }
    }

    /// The size that a file has once this is settled; 0 if the intent says none.
    fn awaited_bytes(&self) -> u64 {
        match self {
            Intent::Cut { size_bytes, .. } => *size_bytes,
            _ => 0,
        }
    }
}
