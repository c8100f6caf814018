//! The effect of each change on the state.

use super::change::Change;
use super::files::inode::{Birth, Directory, Inode, Node};
use super::files::layout::PLACEMENT;
use super::intents::intent::{Bytes, Intent, IntentId};
use super::moves::holdings::changed_file;
use super::state::State;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use weir_wire::{FileKind, Ino, Moment};

impl State {
    /// Carries out a change. A record that does not fit the state has no effect; no decision makes such a record.
    pub(crate) fn apply(&mut self, change: &Change) {
        let file = changed_file(change);
        if let Some(ino) = file {
            self.discount_objects(ino);
        }
        self.apply_uncounted(change);
        if let Some(ino) = file {
            self.count_objects(ino);
        }
    }

    fn apply_uncounted(&mut self, change: &Change) {
        match change {
            Change::Started { number, at } => self.start(*number, *at),
            Change::Counted { .. }
            | Change::Kept { .. }
            | Change::EntryKept { .. }
            | Change::MadeKept { .. } => self.apply_kept(change),
            Change::Created { .. }
            | Change::CreatedUnnamed { .. }
            | Change::Linked { .. }
            | Change::Unlinked { .. }
            | Change::Moved { .. }
            | Change::NamesCounted { .. } => self.apply_to_names(change),
            Change::UseCounted => self.inodes.correct_usage(),
            Change::Disposed { ino, removal } => self.dispose(*ino, *removal),
            Change::AttributesSet { .. }
            | Change::Resized { .. }
            | Change::Published { .. }
            | Change::Touched { .. }
            | Change::XattrSet { .. }
            | Change::LayoutRequested { .. } => self.apply_to_inode(change),
            Change::Intended { id, uid, intent } => self.intend(*id, *uid, intent.clone()),
            Change::Settled { id } => self.settle(*id),
            Change::MadeForPeer { .. }
            | Change::ForgottenForPeer { .. }
            | Change::DirectoryRemoved { .. }
            | Change::Reparented { .. } => self.apply_for_peer(change),
            Change::Remembered { client, request, acknowledged, outcome } => {
                self.replies.remember(*client, *request, *acknowledged, outcome.clone());
            }
            Change::ClientForgotten { client } => self.replies.forget(*client),
            Change::ClientReleased { client } => self.released.note(*client),
            Change::ClientReturned { client } => self.released.forget(*client),
            Change::MoveBegun { .. }
            | Change::MoveFrozen { .. }
            | Change::Relaid { .. }
            | Change::MoveAbandoned { .. }
            | Change::MoveKept { .. }
            | Change::LaidOut { .. }
            | Change::Detoured { .. } => self.apply_to_layout(change),
        }
    }

    /// Carries out a change of a snapshot.
    fn apply_kept(&mut self, change: &Change) {
        match change {
            Change::Counted { next_sequence, next_intent, starts } => {
                self.next_sequence = *next_sequence;
                self.next_intent = *next_intent;
                self.starts = *starts;
                self.inodes.begin(*starts);
            }
            Change::Kept { ino, inode } => {
                if inode.names == 0 {
                    self.orphans.insert(*ino);
                }
                self.inodes.insert(*ino, (**inode).clone());
            }
            Change::EntryKept { directory, cookie, name, ino, kind } => {
                // The file may follow in the snapshot: [`State::index`] tells it of its names.
                self.inodes.put_entry(*directory, name, (*ino, *kind), Some(*cookie));
            }
            Change::MadeKept { from, intent, ino } => _ = self.made.insert((*from, *intent), *ino),
            _ => {}
        }
    }

    /// Carries out a change of entries.
    fn apply_to_names(&mut self, change: &Change) {
        match change {
            Change::Created { parent, name, ino, birth, at } => {
                let kind = self.give_birth(*ino, birth, (*parent, name), *at);
                self.put(*parent, name, *ino, kind, *at);
            }
            Change::CreatedUnnamed { ino, birth, linkable, at } => {
                self.give_birth(*ino, birth, (*ino, &[]), *at);
                self.orphans.insert(*ino);
                self.inodes.change(*ino, |inode| {
                    inode.names = 0;
                    if let Some(file) = inode.regular_mut() {
                        file.linkable = *linkable;
                    }
                });
            }
            Change::Linked { parent, name, ino, kind, at } => {
                self.put(*parent, name, *ino, *kind, *at);
                self.add_name(*ino, *at);
            }
            Change::Unlinked { parent, name, at } => {
                if let Some(ino) = self.take(*parent, name, *at) {
                    self.drop_name(ino, *at);
                }
            }
            Change::Moved { .. } => self.move_entry(change),
            Change::NamesCounted { ino, names } => {
                self.inodes.change(*ino, |inode| inode.names = *names);
                if *names > 0 {
                    self.orphans.remove(ino);
                    // An intent that made the directory is no reason any more to forget it.
                    self.made.retain(|_, made| made != ino);
                }
            }
            _ => {}
        }
    }

    fn give_birth(&mut self, ino: Ino, birth: &Birth, place: (Ino, &[u8]), at: Moment) -> FileKind {
        let inode = Inode::new(birth, place, self.starts, at);
        let kind = inode.kind();
        self.next_sequence = self.next_sequence.max(ino.sequence() + 1);
        self.inodes.insert(ino, inode);
        kind
    }

    /// Puts an entry into a directory. The inode learns the place of its entry.
    fn put(&mut self, parent: Ino, name: &[u8], ino: Ino, kind: FileKind, at: Moment) {
        self.stamp_entries(parent, at);
        self.inodes.put_entry(parent, name, (ino, kind), None);
        self.inodes.change(ino, |inode| match &mut inode.node {
            Node::Directory(directory) => {
                directory.parent = parent;
                directory.name = name.into();
            }
            _ => inode.holders.add(parent, name.len()),
        });
    }

    /// Notes that an entry of `directory` no longer names the file `ino`.
    fn release(&mut self, directory: Ino, name: &[u8], ino: Ino) {
        self.inodes.change(ino, |inode| inode.holders.remove(directory, name.len()));
    }

    fn take(&mut self, parent: Ino, name: &[u8], at: Moment) -> Option<Ino> {
        self.stamp_entries(parent, at);
        let ino = self.inodes.take_entry(parent, name).map(|entry| entry.ino)?;
        self.release(parent, name, ino);
        Some(ino)
    }

    fn stamp_entries(&mut self, directory: Ino, at: Moment) {
        self.inodes.change(directory, |inode| {
            inode.modified = at;
            inode.changed = at;
        });
    }

    fn add_name(&mut self, ino: Ino, at: Moment) {
        let named = self.inodes.change(ino, |inode| {
            let is_file = inode.kind() != FileKind::Directory;
            if is_file {
                inode.names += 1;
                inode.changed = at;
            }
            is_file
        });
        if named == Some(true) {
            self.orphans.remove(&ino);
        }
    }

    fn drop_name(&mut self, ino: Ino, at: Moment) {
        let left = self.inodes.change(ino, |inode| {
            #[cfg(any(test, feature = "world"))]
            if mutants::is(Mutant::NamesMiscounted) && inode.names == 2 {
                return inode.names;
            }
            inode.names = inode.names.saturating_sub(1);
            inode.changed = at;
            if let Some(file) = inode.regular_mut() {
                file.linkable = false;
            }
            inode.names
        });
        if left == Some(0) {
            self.orphans.insert(ino);
        }
    }

    fn move_entry(&mut self, change: &Change) {
        let Change::Moved { from, from_name, to, to_name, exchange, reparents, at } = change else { return };
        let entry = |state: &State, directory: &Ino, name: &[u8]| {
            state.inodes.get(directory).and_then(Inode::directory).and_then(|directory| directory.find(name))
        };
        let Some(moved) = entry(self, from, from_name) else { return };
        let replaced = entry(self, to, to_name);
        if let Some(replaced) = replaced {
            self.release(*to, to_name, replaced.ino);
        }
        if *exchange {
            self.release(*from, from_name, moved.ino);
        } else {
            self.take(*from, from_name, *at);
            if let Some(replaced) = replaced {
                self.drop_name(replaced.ino, *at);
            }
        }
        self.put(*to, to_name, moved.ino, moved.kind, *at);
        self.stamp(moved.ino, *at);
        self.tell_home(reparents[0], moved.ino, (*to, to_name));
        if let (true, Some(replaced)) = (*exchange, replaced) {
            self.put(*from, from_name, replaced.ino, replaced.kind, *at);
            self.stamp(replaced.ino, *at);
            self.tell_home(reparents[1], replaced.ino, (*from, from_name));
        }
    }

    fn stamp(&mut self, ino: Ino, at: Moment) {
        self.inodes.change(ino, |inode| inode.changed = at);
    }

    fn tell_home(&mut self, id: Option<IntentId>, ino: Ino, place: (Ino, &Bytes)) {
        if let Some(id) = id {
            let uid = self.owner_of(place.0);
            self.intend(id, uid, Intent::Reparent { ino, parent: place.0, name: place.1.clone() });
        }
    }

    pub(crate) fn dispose(&mut self, ino: Ino, removal: Option<IntentId>) {
        self.orphans.remove(&ino);
        let Some(inode) = self.inodes.remove(ino) else { return };
        if let (Some(id), Node::Regular(file)) = (removal, inode.node) {
            let mut targets = file.layout.targets().to_vec();
            targets.extend_from_slice(&file.former);
            self.intend(id, inode.uid, Intent::Remove { ino, targets });
        }
    }

    fn apply_to_inode(&mut self, change: &Change) {
        match change {
            Change::AttributesSet { ino, permissions, uid, gid, accessed, modified, at } => {
                self.inodes.change(*ino, |inode| {
                    inode.permissions = permissions.unwrap_or(inode.permissions);
                    inode.uid = uid.unwrap_or(inode.uid);
                    inode.gid = gid.unwrap_or(inode.gid);
                    inode.accessed = accessed.unwrap_or(inode.accessed);
                    inode.modified = modified.unwrap_or(inode.modified);
                    inode.changed = *at;
                });
            }
            Change::Resized { ino, size_bytes, permissions, cut, at } => {
                let resized = self.inodes.change(*ino, |inode| {
                    inode.permissions = permissions.unwrap_or(inode.permissions);
                    let uid = inode.uid;
                    let file = inode.regular_mut()?;
                    if cut.is_some() {
                        // Objects keep the epoch of a cut, also where there were none.
                        file.untouched_start = 0;
                    }
                    Some((uid, file.epoch, cut.map(|_| Intent::cut(*ino, file, *size_bytes, *at))))
                });
                match (resized.flatten(), cut) {
                    (Some((uid, _, Some(intent))), Some(id)) => self.intend(*id, uid, intent),
                    (Some((_, epoch, _)), _) => self.resize(*ino, *size_bytes, epoch, *at),
                    (None, _) => {}
                }
            }
            Change::Published { ino, size_bytes, allocated_bytes, punched, permissions, at } => {
                self.inodes.change(*ino, |inode| {
                    inode.permissions = permissions.unwrap_or(inode.permissions);
                    inode.modified = *at;
                    inode.changed = *at;
                    if let Some(file) = inode.regular_mut() {
                        let before = file.extent();
                        file.size_bytes = *size_bytes;
                        file.allocated_bytes = *allocated_bytes;
                        file.untouched_start = 0;
                        file.has_holes |= punched;
                        file.note_holes(before);
                    }
                });
            }
            Change::Touched { ino } => {
                self.inodes.change(*ino, |inode| {
                    if let Some(file) = inode.regular_mut() {
                        file.untouched_start = 0;
                    }
                });
            }
            Change::XattrSet { ino, name, value, at } => {
                let value = value.as_deref().map(Vec::as_slice);
                self.inodes.change(*ino, |inode| set_xattr(inode, name, value, *at));
            }
            Change::LayoutRequested { ino, request, at } => {
                self.inodes.change(*ino, |inode| {
                    inode.changed = *at;
                    if let Some(directory) = inode.directory_mut() {
                        directory.request = request.clone();
                    }
                });
            }
            _ => {}
        }
    }

    fn apply_for_peer(&mut self, change: &Change) {
        match change {
            Change::MadeForPeer { from, intent, settled, parent, name, ino, birth, at } => {
                self.give_birth(*ino, birth, (*parent, name), *at);
                self.change_directory(*ino, |directory| directory.placed_by = *intent);
                self.made.retain(|&(server, id), _| server != *from || id >= *settled);
                self.made.insert((*from, *intent), *ino);
            }
            Change::ForgottenForPeer { from, intent } => {
                // A maker that lost its records forgets also a directory that was used meanwhile: that one stays, for the check to
                // find and for a repair to name.
                let made = self.made.remove(&(*from, *intent));
                let is_empty = |ino: &Ino| {
                    let directory = self.inodes.get(ino).and_then(Inode::directory);
                    directory.is_none_or(Directory::is_empty)
                };
                if let Some(ino) = made.filter(is_empty) {
                    self.dispose(ino, None);
                }
            }
            Change::DirectoryRemoved { ino, at } => self.drop_name(*ino, *at),
            Change::Reparented { ino, intent, parent, name } => {
                self.change_directory(*ino, |directory| {
                    directory.parent = *parent;
                    directory.name = name.as_slice().into();
                    directory.placed_by = *intent;
                });
            }
            _ => {}
        }
    }

    fn change_directory(&mut self, ino: Ino, change: impl FnOnce(&mut Directory)) {
        self.inodes.change(ino, |inode| inode.directory_mut().map(change));
    }
}

fn set_xattr(inode: &mut Inode, name: &[u8], value: Option<&[u8]>, at: Moment) {
    inode.changed = at;
    if name == PLACEMENT {
        if let Some(file) = inode.regular_mut() {
            file.placement = value.map_or_else(Box::default, Box::from);
        }
        return;
    }
    let xattrs = inode.xattrs.get_or_insert_default();
    xattrs.set(name, value);
    if xattrs.len() == 0 {
        inode.xattrs = None;
    }
}
