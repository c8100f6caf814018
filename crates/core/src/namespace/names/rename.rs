//! Moves of names, by the rules of rename(2) and renameat2(2) and with the checks in the order of Linux.

use super::continuation::Grants;
use super::walk::{Last, Place, Walked};
use super::Names;
use crate::namespace::change::{Change, OutcomeKind};
use crate::namespace::decision::{Step, Verdict};
use crate::namespace::draft::Draft;
use crate::namespace::errno::{EBUSY, EEXIST, EINVAL, EISDIR, ENOENT, ENOTDIR, ENOTEMPTY, EXDEV};
use crate::namespace::files::permission::{self, WRITE};
use crate::namespace::files::Entry;
use std::sync::Arc;
use weir_wire::{limits, At, Errno, FileKind, Identity, Ino, RenameMode};

/// The directories above one, as far as this server knows them.
enum Ancestry {
    /// The sought directory is among them.
    Found,
    /// The sought directory is not among them, and all up to the root are on this server.
    Complete,
    /// The sought directory is not among those of this server; this one is the uppermost here.
    Leaves(Ino),
}

impl Names {
    pub(crate) fn rename(&self, draft: Draft<'_>, from: &At, to: &At, mode: RenameMode) -> Step<Verdict> {
        self.rename_with(draft, (from, to, mode), &Grants::default())
    }

    /// Decides a rename with the grants of other servers so far.
    pub(crate) fn rename_with(
        &self,
        mut draft: Draft<'_>,
        (from, to, mode): (&At, &At, RenameMode),
        grants: &Grants,
    ) -> Step<Verdict> {
        let who = draft.who();
        let (source, target) = self.endpoints(who, from, to, mode)?;
        let moved = source.taken()?;
        let exchange = mode == RenameMode::Exchange;
        self.check_shape(&source, &target, exchange)?;
        if target.entry.is_some_and(|entry| entry.ino == moved.ino) {
            return Ok(Verdict::Done(draft.done(OutcomeKind::Done)));
        }
        let removed = target.entry.filter(|entry| grants.removed == Some(entry.ino));
        self.may_move(who, &source, &target, moved, removed.is_some())?;
        self.check_permissions_inside(who, (&source, &target), moved, exchange)?;
        self.check_loops(&source, &target, moved, exchange)?;
        let mut owners = vec![(moved, &source)];
        if exchange {
            owners.extend(target.entry.map(|entry| (entry, &target)));
        }
        for (entry, place) in owners {
            if self.must_ask_home(who, entry, (source.parent, target.parent), place, grants)? {
                let write = source.parent != target.parent;
                return self.ask_to_move(draft, (entry.ino, write), place, (from, to, mode), grants);
            }
        }
        if let (Some(victim), false, None) = (target.entry, exchange, removed) {
            if self.files.is_remote(victim.ino, victim.kind) {
                return self.ask_to_replace(draft, &target, victim.ino, (from, to, mode), grants);
            }
            if victim.kind == FileKind::Directory {
                self.check_empty(victim.ino)?;
            }
        }
        self.move_entries(&mut draft, &source, &target, exchange)?;
        if let (Some(victim), false, None) = (target.entry, exchange, removed) {
            self.files.dispose_unless_open(&mut draft, victim.ino)?;
        }
        Ok(Verdict::Done(draft.done(OutcomeKind::Done)))
    }

    /// The paths below the root of the directories that `changes` moved, where they are now. A path that leads through another
    /// server's directories, or is too long to be walked, is not among them.
    pub(crate) fn moved_directories(&self, changes: &[Change]) -> Vec<Arc<[u8]>> {
        let mut paths = Vec::new();
        for change in changes {
            let Change::Moved { from, from_name, to, to_name, exchange, .. } = change else { continue };
            let places = [Some((*to, to_name)), exchange.then_some((*from, from_name))];
            for (parent, name) in places.into_iter().flatten() {
                let entry = self.files.directory(parent).and_then(|directory| directory.find(name));
                if entry.is_some_and(|entry| entry.kind == FileKind::Directory) {
                    paths.extend(self.path_of(parent, name).map(Arc::from));
                }
            }
        }
        paths
    }

    fn path_of(&self, parent: Ino, name: &[u8]) -> Option<Vec<u8>> {
        let mut names = vec![name];
        let mut length = name.len();
        let mut here = parent;
        while here != Ino::ROOT {
            let directory = self.files.directory(here)?;
            length += 1 + directory.name.len();
            if length >= limits::PATH_BYTES {
                return None;
            }
            names.push(&directory.name);
            here = directory.parent;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// The two names; the first one exists.
    fn endpoints(&self, who: &Identity, from: &At, to: &At, mode: RenameMode) -> Step<(Place, Place)> {
        let source = self.one_home(from, |at| self.walk(who, at, Last::Name))?;
        let target = self.one_home(to, |at| self.walk(who, at, Last::Name))?;
        let (source, target) = match (source, target) {
            (Walked::Node(..), _) => return Err(EBUSY.into()),
            (_, Walked::Node(..)) if mode == RenameMode::NoReplace => return Err(EEXIST.into()),
            (_, Walked::Node(..)) => return Err(EBUSY.into()),
            (Walked::Name(source), Walked::Name(target)) => (source, target),
        };
        source.taken()?;
        target.check_name()?;
        match (target.entry, mode) {
            (None, RenameMode::Exchange) => Err(ENOENT.into()),
            (Some(_), RenameMode::NoReplace) => Err(EEXIST.into()),
            _ => Ok((source, target)),
        }
    }

    /// Slashes stand behind directories only, and no directory moves into itself.
    fn check_shape(&self, source: &Place, target: &Place, exchange: bool) -> Result<(), Errno> {
        let moved = source.taken()?;
        let is_directory =
            |entry: Option<Entry>| entry.is_some_and(|entry| entry.kind == FileKind::Directory);
        if exchange && target.slash && !is_directory(target.entry) {
            return Err(ENOTDIR);
        }
        if moved.kind != FileKind::Directory && (source.slash || (!exchange && target.slash)) {
            return Err(ENOTDIR);
        }
        if moved.kind == FileKind::Directory && self.ancestry(target.parent, moved.ino).is_found() {
            return Err(EINVAL);
        }
        match target.entry {
            Some(entry)
                if is_directory(Some(entry)) && self.ancestry(source.parent, entry.ino).is_found() =>
            {
                Err(if exchange { EINVAL } else { ENOTEMPTY })
            }
            _ => Ok(()),
        }
    }

    /// Checks the permissions on the two directories.
    fn may_move(
        &self,
        who: &Identity,
        source: &Place,
        target: &Place,
        moved: Entry,
        removed: bool,
    ) -> Step<()> {
        self.may_remove(who, source.parent, moved)?;
        let Some(victim) = target.entry else {
            self.may_enter(who, target.parent, &target.name)?;
            return Ok(());
        };
        if removed {
            return Ok(());
        }
        self.may_remove(who, target.parent, victim)
    }

    /// Checks the two inodes. A directory with a new parent is written to, as its `..` changes. Without exchange, the replaced
    /// inode is of the kind of its replacement.
    fn check_permissions_inside(
        &self,
        who: &Identity,
        (source, target): (&Place, &Place),
        moved: Entry,
        exchange: bool,
    ) -> Step<()> {
        if let (Some(victim), false) = (target.entry, exchange) {
            match (moved.kind, victim.kind) {
                (FileKind::Directory, FileKind::Directory) => {}
                (FileKind::Directory, _) => return Err(ENOTDIR.into()),
                (_, FileKind::Directory) => return Err(EISDIR.into()),
                _ => {}
            }
        }
        if source.parent == target.parent {
            return Ok(());
        }
        let exchanged = target.entry.filter(|_| exchange);
        for entry in [Some(moved), exchanged].into_iter().flatten() {
            if entry.kind == FileKind::Directory && !self.files.is_remote(entry.ino, entry.kind) {
                permission::check(who, self.files.inode(entry.ino)?, WRITE)?;
            }
        }
        Ok(())
    }

    /// Checks that the move of a directory makes no loop. A loop could lead through directories of other servers, which this server
    /// does not see. No loop can arise inside one contiguous tree of this server, or below a parent with all directories above it
    /// on this server. Every other move is answered as one between file systems.
    fn check_loops(&self, source: &Place, target: &Place, moved: Entry, exchange: bool) -> Step<()> {
        if source.parent == target.parent {
            return Ok(());
        }
        if moved.kind == FileKind::Directory {
            self.check_loop(source.parent, target.parent, moved.ino)?;
        }
        match target.entry {
            Some(entry) if exchange && entry.kind == FileKind::Directory => {
                self.check_loop(target.parent, source.parent, entry.ino)
            }
            _ => Ok(()),
        }
    }

    fn check_loop(&self, from: Ino, to: Ino, moved: Ino) -> Step<()> {
        match (self.ancestry(to, moved), self.ancestry(from, moved)) {
            (Ancestry::Complete, _) => Ok(()),
            (Ancestry::Leaves(ours), Ancestry::Leaves(theirs)) if ours == theirs => Ok(()),
            _ => Err(EXDEV.into()),
        }
    }

    /// Whether `sought` is `directory` or a directory above it.
    fn ancestry(&self, directory: Ino, sought: Ino) -> Ancestry {
        let mut here = directory;
        loop {
            if here == sought {
                return Ancestry::Found;
            }
            if here == Ino::ROOT {
                return Ancestry::Complete;
            }
            let inode = self.files.directory(here);
            let Some(parent) = inode.map(|directory| directory.parent) else { return Ancestry::Leaves(here) };
            if parent.home() != self.files.server() {
                return if parent == sought { Ancestry::Found } else { Ancestry::Leaves(here) };
            }
            here = parent;
        }
    }

    /// Whether this server must ask the home of a directory on another server for `who`'s right to move the entry.
    fn must_ask_home(
        &self,
        who: &Identity,
        entry: Entry,
        parents: (Ino, Ino),
        place: &Place,
        grants: &Grants,
    ) -> Step<bool> {
        let remote = self.files.is_remote(entry.ino, entry.kind);
        if !remote || permission::is_root(who) || grants.moves.contains(&entry.ino) {
            return Ok(false);
        }
        let sticky = permission::sticky_asks_owner(who, self.files.inode(place.parent)?);
        Ok(sticky || parents.0 != parents.1)
    }

    fn move_entries(
        &self,
        draft: &mut Draft<'_>,
        source: &Place,
        target: &Place,
        exchange: bool,
    ) -> Step<()> {
        let mut reparents = [None, None];
        let exchanged = target.entry.filter(|_| exchange);
        for (slot, entry) in reparents.iter_mut().zip([source.entry, exchanged]) {
            if entry.is_some_and(|entry| self.files.is_remote(entry.ino, entry.kind)) {
                let id = draft.intent()?;
                draft.wait.push(id);
                *slot = Some(id);
            }
        }
        draft.push(Change::Moved {
            from: source.parent,
            from_name: source.name.clone().into(),
            to: target.parent,
            to_name: target.name.clone().into(),
            exchange,
            reparents,
            at: draft.now,
        });
        Ok(())
    }
}

impl Ancestry {
    fn is_found(&self) -> bool {
        matches!(self, Ancestry::Found)
    }
}
