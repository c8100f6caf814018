//! The right to name an inode by its number.
//!
//! Callers can guess numbers, so a number alone opens nothing: the caller holds a description of the inode, shows a proof, or
//! could walk to the inode from the root. The server believes a mount alone, as the mount's kernel asked for each step of the
//! way.

use super::passes::is_recent;
use super::walk::detour;
use super::Names;
use crate::namespace::decision::{Caller, Step};
use crate::namespace::errno::{EACCES, ENAMETOOLONG, ENOTDIR, ESTALE};
use crate::namespace::files::capability::is_of_move;
use crate::namespace::files::permission::{self, EXECUTE, READ, WRITE};
use crate::namespace::files::{Inode, Node};
use weir_wire::{
    limits, At, AttributeChange, Capability, Errno, HandleId, Identity, Ino, Moment, Reply, Request, Rights,
};

/// The most directories on the way up from one: no path that a client can send is deeper.
const DEPTH_MAX: usize = limits::PATH_BYTES / 2;

/// The way from the root to a directory.
enum Way {
    /// The caller may walk the whole way.
    Open,
    /// The way begins on another server, which has the parent of the last of these directories.
    Elsewhere(Vec<Ino>),
}

impl Names {
    /// Whether a request to set a size has the rights that it needs.
    pub(crate) fn may_resize(
        &self,
        caller: &Caller<'_>,
        at: &At,
        change: &AttributeChange,
        now: Moment,
    ) -> bool {
        let Some(size_bytes) = change.size_bytes else { return false };
        let is_named = self.may_name(caller, at, now).is_ok();
        let inode = self.files.get(at.ino).filter(|_| is_named);
        let capability = change.capability.as_ref();
        let check = |inode| self.files.check_size(caller, (at.ino, inode), size_bytes, capability);
        inode.is_some_and(|inode| check(inode).is_ok())
    }

    /// Remembers the passes of a request: its sender will name inodes below their directories.
    pub(crate) fn note_passes(&mut self, caller: &Caller<'_>, request: &Request, now: Moment) {
        for at in request.places() {
            let Some(proof) = at.proof.filter(|proof| proof.handle == HandleId::NONE) else { continue };
            if self.is_proof(caller, &proof, at.ino, now) {
                self.passes.note(caller.who.uid, at.ino, now);
            }
        }
    }

    /// Checks that the caller may name the inode of `at`. If the way to a directory leads over another server, the caller is sent
    /// to that server.
    pub(crate) fn may_name(&self, caller: &Caller<'_>, at: &At, now: Moment) -> Step<()> {
        // The walk checks that an anchor still holds, and everyone may search the root. No operation reaches an inode of another
        // server: it says so itself, by EXDEV where it has two places.
        let is_shown = at.ino == Ino::ROOT
            || at.ino.home() != self.files.server()
            || at.anchor.is_some()
            || caller.trusted
            || permission::is_root(caller.who)
            || self.files.open().holds(caller.client, at.ino)
            || at.proof.is_some_and(|proof| self.is_proof(caller, &proof, at.ino, now));
        if is_shown {
            return Ok(());
        }
        let inode = self.files.inode(at.ino)?;
        if let Node::Directory(_) = inode.node {
            return match self.way_to(caller.who, at.ino, now)? {
                Way::Open => Ok(()),
                Way::Elsewhere(directories) => Err(detour(self.redirect_above(&directories, at)?)),
            };
        }
        let is_open = |directory: Ino| matches!(self.way_into(caller.who, directory, now), Ok(Way::Open));
        if inode.holders.iter().any(is_open) {
            return Ok(());
        }
        Err(EACCES.into())
    }

    /// Whether the caller may take back a description after a lost connection, a restart, or in another process.
    ///
    /// # Errors
    /// EACCES if the capability is forged or another user's. ESTALE if the description is not open and its user could not open
    /// the file again. During the grace period nobody knows the closed descriptions. After it, the present permissions decide
    /// about a closed description.
    pub(crate) fn may_reclaim(&self, caller: &Caller<'_>, capability: &Capability) -> Result<(), Errno> {
        if !self.files.key().admits(capability) || !caller.may_use(capability) {
            return Err(EACCES);
        }
        let Capability { ino, handle, rights, .. } = *capability;
        let inode = self.files.inode(ino)?;
        let is_description = handle != HandleId::NONE && !is_of_move(handle);
        let may = is_description
            && (self.files.is_live(capability) || self.may_open_again(caller.who, (ino, inode), rights));
        may.then_some(()).ok_or(ESTALE)
    }

    fn may_open_again(&self, who: &Identity, (ino, inode): (Ino, &Inode), rights: Rights) -> bool {
        let mask = u8::from(rights.read) * READ + u8::from(rights.write) * WRITE;
        // The owner may have opened the file before it became read-only.
        let is_allowed = permission::owns(who, inode) || permission::permits(who, inode, mask);
        // This server does not know the directories above on another server.
        let now = Moment::default();
        let is_reached = match inode.node {
            Node::Directory(_) => self.way_to(who, ino, now).is_ok(),
            _ => inode.holders.iter().any(|directory| self.way_into(who, directory, now).is_ok()),
        };
        inode.names > 0 && is_allowed && is_reached
    }

    fn is_proof(&self, caller: &Caller<'_>, proof: &Capability, ino: Ino, now: Moment) -> bool {
        if proof.ino != ino || !caller.may_use(proof) || !self.files.key().admits(proof) {
            return false;
        }
        match proof.handle {
            HandleId::NONE => is_recent(proof.issued_seconds as i64, now),
            _ => self.files.is_live(proof),
        }
    }

    /// Whether the caller may walk into `directory`: along the way to it, and with search permission on it.
    fn way_into(&self, who: &Identity, directory: Ino, now: Moment) -> Result<Way, Errno> {
        permission::check(who, self.files.inode(directory)?, EXECUTE)?;
        self.way_to(who, directory, now)
    }

    /// Whether the caller may walk from the root to `directory`.
    fn way_to(&self, who: &Identity, directory: Ino, now: Moment) -> Result<Way, Errno> {
        let (mut here, mut passed) = (directory, Vec::new());
        while here != Ino::ROOT && !self.passes.holds(who.uid, here, now) {
            let inode = self.files.inode(here)?;
            let parent = inode.directory().filter(|_| inode.names > 0).ok_or(ESTALE)?.parent;
            passed.push(here);
            // Everyone may search the root, on any server.
            if parent == Ino::ROOT {
                break;
            }
            if parent.home() != self.files.server() {
                return Ok(Way::Elsewhere(passed));
            }
            if passed.len() > DEPTH_MAX {
                return Err(ENAMETOOLONG);
            }
            permission::check(who, self.files.inode(parent)?, EXECUTE)?;
            here = parent;
        }
        Ok(Way::Open)
    }

    /// Sends the caller to the server above, from where it walks down again. `directories` lead up from the directory that the
    /// caller named to the directory with a parent on that server.
    fn redirect_above(&self, directories: &[Ino], at: &At) -> Result<Reply, Errno> {
        let (mut path, mut start) = (Vec::new(), at.ino);
        for &ino in directories.iter().rev() {
            let directory = self.files.inode(ino)?.directory().ok_or(ENOTDIR)?;
            if path.is_empty() {
                start = directory.parent;
            } else {
                path.push(b'/');
            }
            path.extend_from_slice(&directory.name);
        }
        if !at.path.is_empty() {
            path.push(b'/');
            path.extend_from_slice(&at.path);
        }
        if path.len() > limits::PATH_BYTES {
            return Err(ENAMETOOLONG);
        }
        let hops = at.hops.saturating_add(1);
        Ok(Reply::Redirect { at: At { hops, ..At::new(start, path) } })
    }
}
