//! The effect of each change on names.

use super::Names;
use crate::namespace::change::Change;
use crate::namespace::files::{Directory, Node};
use crate::namespace::intents::{Begun, Bytes, Intent, IntentId};
use weir_placement::ServerId;
use weir_wire::{FileKind, Ino, Moment};

impl Names {
    /// Carries out a change of entries.
    pub(crate) fn apply(&mut self, change: &Change) -> Begun {
        match change {
            Change::Created { parent, name, ino, birth, at } => {
                let kind = self.files.give_birth(*ino, birth, (*parent, name), *at);
                self.put(*parent, name, *ino, kind, *at);
            }
            Change::Linked { parent, name, ino, kind, at } => {
                self.put(*parent, name, *ino, *kind, *at);
                self.files.add_name(*ino, *at);
            }
            Change::Unlinked { parent, name, at } => {
                if let Some(ino) = self.take(*parent, name, *at) {
                    self.files.drop_name(ino, *at);
                }
            }
            Change::Moved { .. } => return self.move_entry(change),
            Change::NamesCounted { ino, names } => {
                self.files.count_names(*ino, *names);
                if *names > 0 {
                    // An intent that made the directory is no reason any more to forget it.
                    self.made.retain(|_, made| made != ino);
                }
            }
            _ => {}
        }
        [None, None]
    }

    /// Carries out a change that another server asked for.
    pub(crate) fn apply_for_peer(&mut self, change: &Change) {
        match change {
            Change::MadeForPeer { from, intent, settled, parent, name, ino, birth, at } => {
                self.files.give_birth(*ino, birth, (*parent, name), *at);
                self.change_directory(*ino, |directory| directory.placed_by = *intent);
                self.made.retain(|&(server, id), _| server != *from || id >= *settled);
                self.made.insert((*from, *intent), *ino);
            }
            Change::ForgottenForPeer { from, intent } => {
                // A maker that lost its records forgets also a directory that was used meanwhile: that one stays, for the check to
                // find and for a repair to name.
                let made = self.made.remove(&(*from, *intent));
                let is_empty = |ino: &Ino| {
                    let directory = self.files.directory(*ino);
                    directory.is_none_or(Directory::is_empty)
                };
                if let Some(ino) = made.filter(is_empty) {
                    self.files.dispose(ino, None);
                }
            }
            Change::DirectoryRemoved { ino, at } => self.files.drop_name(*ino, *at),
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
        self.files.change(ino, |inode| inode.directory_mut().map(change));
    }

    /// Takes over a directory of a snapshot that was made for another server.
    pub(crate) fn keep_made(&mut self, from: ServerId, intent: IntentId, ino: Ino) {
        self.made.insert((from, intent), ino);
    }

    /// The records of a snapshot: directories that were made for other servers.
    pub(crate) fn snapshot(&self) -> impl Iterator<Item = Change> + '_ {
        self.made.iter().map(|(&(from, intent), &ino)| Change::MadeKept { from, intent, ino })
    }

    /// Notes which names and files an intent is about to change.
    pub(crate) fn mark(&mut self, id: IntentId, uid: u32, intent: &Intent) {
        match intent {
            Intent::RemoveDirectory { ino, .. } => _ = self.removing.insert(*ino, id),
            Intent::MakeDirectory { parent, name, .. } => {
                self.making.insert((*parent, name.clone()), id);
                self.unsettled.insert(id);
            }
            Intent::ForgetDirectory { made, .. } => _ = self.unsettled.insert(*made),
            Intent::Reparent { ino, .. } => _ = self.moving.insert(*ino, id),
            _ => {}
        }
        self.files.mark(id, uid, intent);
    }

    /// Forgets what [`Names::mark`] noted of an intent.
    pub(crate) fn unmark(&mut self, id: IntentId, intent: &Intent) {
        match intent {
            Intent::RemoveDirectory { ino, .. } => _ = self.removing.remove(ino),
            Intent::MakeDirectory { parent, name, .. } => {
                self.making.remove(&(*parent, name.clone()));
                self.unsettled.remove(&id);
            }
            Intent::ForgetDirectory { made, .. } => _ = self.unsettled.remove(made),
            Intent::Reparent { ino, .. } => _ = self.moving.remove(ino),
            _ => {}
        }
        self.files.unmark(id, intent);
    }

    /// Puts an entry into a directory. The inode learns the place of its entry.
    fn put(&mut self, parent: Ino, name: &[u8], ino: Ino, kind: FileKind, at: Moment) {
        self.stamp_entries(parent, at);
        self.files.put_entry(parent, name, (ino, kind), None);
        self.files.change(ino, |inode| match &mut inode.node {
            Node::Directory(directory) => {
                directory.parent = parent;
                directory.name = name.into();
            }
            _ => inode.holders.add(parent, name.len()),
        });
    }

    /// Notes that an entry of `directory` no longer names the file `ino`.
    fn release(&mut self, directory: Ino, name: &[u8], ino: Ino) {
        self.files.change(ino, |inode| inode.holders.remove(directory, name.len()));
    }

    fn take(&mut self, parent: Ino, name: &[u8], at: Moment) -> Option<Ino> {
        self.stamp_entries(parent, at);
        let ino = self.files.take_entry(parent, name).map(|entry| entry.ino)?;
        self.release(parent, name, ino);
        Some(ino)
    }

    fn stamp_entries(&mut self, directory: Ino, at: Moment) {
        self.files.change(directory, |inode| {
            inode.modified = at;
            inode.changed = at;
        });
    }

    fn move_entry(&mut self, change: &Change) -> Begun {
        let Change::Moved { from, from_name, to, to_name, exchange, reparents, at } = change else {
            return [None, None];
        };
        let entry = |directory: &Ino, name: &[u8]| self.files.directory(*directory)?.find(name);
        let Some(moved) = entry(from, from_name) else { return [None, None] };
        let replaced = entry(to, to_name);
        if let Some(replaced) = replaced {
            self.release(*to, to_name, replaced.ino);
        }
        if *exchange {
            self.release(*from, from_name, moved.ino);
        } else {
            self.take(*from, from_name, *at);
            if let Some(replaced) = replaced {
                self.files.drop_name(replaced.ino, *at);
            }
        }
        self.put(*to, to_name, moved.ino, moved.kind, *at);
        self.stamp(moved.ino, *at);
        let told = self.telling(reparents[0], moved.ino, (*to, to_name));
        if let (true, Some(replaced)) = (*exchange, replaced) {
            self.put(*from, from_name, replaced.ino, replaced.kind, *at);
            self.stamp(replaced.ino, *at);
            return [told, self.telling(reparents[1], replaced.ino, (*from, from_name))];
        }
        [told, None]
    }

    fn stamp(&mut self, ino: Ino, at: Moment) {
        self.files.change(ino, |inode| inode.changed = at);
    }

    /// The intent that tells the home of a directory its place.
    fn telling(
        &self,
        id: Option<IntentId>,
        ino: Ino,
        (parent, name): (Ino, &Bytes),
    ) -> Option<(IntentId, u32, Intent)> {
        let uid = self.files.owner_of(parent);
        id.map(|id| (id, uid, Intent::Reparent { ino, parent, name: name.clone() }))
    }
}
