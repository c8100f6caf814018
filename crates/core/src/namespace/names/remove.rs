//! Removals of names.

use super::walk::{Ending, Last, Walked};
use super::Names;
use crate::namespace::change::{Change, OutcomeKind};
use crate::namespace::decision::{Decision, Step, Stop, Verdict};
use crate::namespace::draft::Draft;
use crate::namespace::errno::{EBUSY, EINVAL, EISDIR, ENOTDIR, ENOTEMPTY};
use crate::namespace::files::permission::{self, EXECUTE, WRITE};
use crate::namespace::files::Entry;
use weir_wire::{At, Errno, FileKind, Identity, Ino};

impl Names {
    pub(crate) fn unlink(&self, mut draft: Draft<'_>, at: &At) -> Step<Decision> {
        let place = match self.walk(draft.who(), at, Last::Name)? {
            Walked::Node(..) => return Err(EISDIR.into()),
            Walked::Name(place) => place,
        };
        let entry = place.taken()?;
        if place.slash {
            return Err(if entry.kind == FileKind::Directory { EISDIR } else { ENOTDIR }.into());
        }
        self.may_remove(draft.who(), place.parent, entry)?;
        if entry.kind == FileKind::Directory {
            return Err(EISDIR.into());
        }
        let at = draft.now;
        draft.push(Change::Unlinked { parent: place.parent, name: place.name.into(), at });
        self.files.dispose_unless_open(&mut draft, entry.ino)?;
        Ok(draft.done(OutcomeKind::Done))
    }

    pub(crate) fn remove_directory(&self, mut draft: Draft<'_>, at: &At) -> Step<Verdict> {
        let who = draft.who();
        let place = match self.walk(who, at, Last::Name)? {
            Walked::Node(_, Ending::Dot) => return Err(EINVAL.into()),
            Walked::Node(_, Ending::DotDot) => return Err(ENOTEMPTY.into()),
            Walked::Node(_, Ending::Empty) => return Err(EBUSY.into()),
            Walked::Name(place) => place,
        };
        let entry = place.taken()?;
        self.may_remove(who, place.parent, entry)?;
        if entry.kind != FileKind::Directory {
            return Err(ENOTDIR.into());
        }
        if self.files.is_remote(entry.ino, entry.kind) {
            return self.ask_to_remove(draft, &place, entry.ino);
        }
        self.check_empty(entry.ino)?;
        let at = draft.now;
        draft.push(Change::Unlinked { parent: place.parent, name: place.name.into(), at });
        self.files.dispose_unless_open(&mut draft, entry.ino)?;
        Ok(Verdict::Done(draft.done(OutcomeKind::Done)))
    }

    /// Whether `who` may take the entry out of its directory. The home of a directory on another server checks its owner.
    pub(crate) fn may_remove(&self, who: &Identity, parent: Ino, entry: Entry) -> Step<()> {
        self.await_move(entry.ino)?;
        let directory = self.files.inode(parent)?;
        permission::check(who, directory, WRITE | EXECUTE)?;
        if !self.files.is_remote(entry.ino, entry.kind) {
            permission::check_sticky(who, directory, self.files.inode(entry.ino)?)?;
        }
        Ok(())
    }

    pub(crate) fn check_empty(&self, ino: Ino) -> Result<(), Errno> {
        let empty = self.files.inode(ino)?.directory().is_some_and(|directory| directory.is_empty());
        if empty {
            Ok(())
        } else {
            Err(ENOTEMPTY)
        }
    }

    /// Waits if another server is removing the directory, or does not know yet of a move of its entry.
    pub(crate) fn await_move(&self, ino: Ino) -> Step<()> {
        let pending = self.removing.get(&ino).or_else(|| self.moving.get(&ino));
        pending.map_or(Ok(()), |&id| Err(Stop::Wait(id)))
    }
}
