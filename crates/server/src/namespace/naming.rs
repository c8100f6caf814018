//! Who may name an inode by its number, and what a capability is worth.
//!
//! Numbers can be guessed, so a number alone opens nothing: the caller holds a description of the inode, shows a proof, or
//! could walk there from the root. Only a mount is believed, as its kernel asked for each step of the way.

use super::draft::Draft;
use super::errno::{EACCES, ENAMETOOLONG, ENOTDIR, ESTALE};
use super::inode::{Inode, Node};
use super::permission::{self, EXECUTE, READ, WRITE};
use super::walk::{detour, Last};
use super::{Caller, Decision, IntentId, Namespace, Step};
use std::collections::HashMap;
use weir_wire::{
    limits, At, AttributeChange, Capability, ClientId, Description, Errno, HandleId, Identity, Ino, Moment,
    Reply, Request, Rights,
};

/// Passes remembered: what many users walk to on other servers within a minute, in a few megabytes.
const PASSES: usize = 65_536;
/// Directories above one that are looked at: no path that a client can send is deeper.
const DEPTH_MAX: usize = limits::PATH_BYTES / 2;
/// Set in the handle of a capability that belongs to a move: starts are counted in seconds, so no description has it.
const MOVE: u64 = 1 << 63;

/// Directories of this server that users reached by walking over another one, by when that was.
#[derive(Clone, Debug, Default)]
pub(super) struct Passes {
    shown: HashMap<(u32, Ino), i64>,
}

/// Where the way from the root to a directory leads over.
enum Way {
    /// The caller may walk all of it.
    Open,
    /// It begins on another server, at the parent of the first of these directories.
    Elsewhere(Vec<Ino>),
}

impl Passes {
    fn note(&mut self, uid: u32, ino: Ino, now: Moment) {
        if self.shown.len() >= PASSES {
            self.shown.retain(|_, since| is_recent(*since, now));
        }
        if self.shown.len() < PASSES {
            self.shown.insert((uid, ino), now.seconds);
        }
    }

    fn holds(&self, uid: u32, ino: Ino, now: Moment) -> bool {
        self.shown.get(&(uid, ino)).is_some_and(|&since| is_recent(since, now))
    }
}

/// The handle in the capability of whoever carries out a move.
pub(super) fn move_handle(id: IntentId) -> HandleId {
    HandleId(id.0 | MOVE)
}

impl Namespace {
    /// The rights of the description `handle` of `ino` that `client` holds; none where it holds no such one.
    pub fn held(&self, client: ClientId, ino: Ino, handle: HandleId) -> Option<Rights> {
        self.open.held(client, ino, handle).map(|description| description.rights)
    }

    /// Whether a capability of a file of this server is the caller's, and its description open.
    ///
    /// # Errors
    /// EACCES for one that was forged or is another user's, ESTALE for one whose description is closed.
    pub fn check_capability(&self, caller: &Caller<'_>, capability: &Capability) -> Result<(), Errno> {
        if !self.settings.key.admits(capability) || !caller.may_use(capability) {
            return Err(EACCES);
        }
        self.is_live(capability).then_some(()).ok_or(ESTALE)
    }

    /// Whether the description of a capability that this server made is open, or its move under way. During the grace
    /// period a description of an earlier start counts as open: who holds it may not have come back yet, and whoever else has
    /// it from there, as a program has it from a mount, cannot take it back.
    pub fn is_live(&self, capability: &Capability) -> bool {
        let Capability { ino, handle, .. } = *capability;
        if handle.0 & MOVE != 0 {
            return self.state.moves.get(&ino).is_some_and(|record| move_handle(record.id) == handle);
        }
        let is_awaited = self.in_grace && self.open.is_earlier(handle) && self.has(ino);
        handle != HandleId::NONE && (self.open.has(capability) || is_awaited)
    }

    /// Whether this server has the file, with a name or open without one.
    pub fn has(&self, ino: Ino) -> bool {
        self.state.inodes.contains_key(&ino)
    }

    /// Whether a description ends when `client` closes it.
    pub fn ends_with(&self, client: ClientId, ino: Ino, handle: HandleId) -> bool {
        self.open.held(client, ino, handle).is_some() && self.open.ends_with(handle, client)
    }

    /// Whether nothing is known to have been written to the objects of a file.
    pub fn is_untouched(&self, ino: Ino) -> bool {
        let file = self.state.inodes.get(&ino).and_then(Inode::regular);
        file.is_some_and(|file| file.untouched_start != 0)
    }

    /// Remembers the passes that a request carries, for what its sender will name below them.
    pub fn note_passes(&mut self, caller: &Caller<'_>, request: &Request, now: Moment) {
        for at in request.places() {
            let Some(proof) = at.proof.filter(|proof| proof.handle == HandleId::NONE) else { continue };
            if self.is_proof(caller, &proof, at.ino, now) {
                self.passes.note(caller.who.uid, at.ino, now);
            }
        }
    }

    /// Whether a request to set a size will not be refused for want of a right.
    pub fn may_resize(&self, caller: &Caller<'_>, at: &At, change: &AttributeChange, now: Moment) -> bool {
        let Some(size_bytes) = change.size_bytes else { return false };
        let is_named = self.may_name(caller, at, now).is_ok();
        let inode = self.inode(at.ino).ok().filter(|_| is_named);
        let capability = change.capability.as_ref();
        inode.is_some_and(|inode| self.check_size(caller, (at.ino, inode), size_bytes, capability).is_ok())
    }

    /// Checks that the caller may name the inode of `at`; a directory that is reached over another server redirects there.
    pub(super) fn may_name(&self, caller: &Caller<'_>, at: &At, now: Moment) -> Step<()> {
        // The walk checks that an anchor still holds, and everyone may search the root.
        let is_shown = at.ino == Ino::ROOT
            || at.anchor.is_some()
            || caller.trusted
            || permission::is_root(caller.who)
            || self.open.holds(caller.client, at.ino)
            || at.proof.is_some_and(|proof| self.is_proof(caller, &proof, at.ino, now));
        if is_shown {
            return Ok(());
        }
        let inode = self.inode(at.ino)?;
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

    /// Answers a request to make metadata durable, once its caller may name the file: the journal is one for all files.
    pub(super) fn may_sync(&self, draft: Draft<'_>, at: &At) -> Step<Decision> {
        self.node(draft.who(), at, Last::Follow)?;
        Ok(draft.reply(Reply::Done))
    }

    /// Whether the caller may take back a description after a lost connection, a restart, or in another process.
    ///
    /// # Errors
    /// EACCES for a capability that was forged or is another user's. ESTALE where the description is not open (any more) and
    /// its user could not open the file again: during the grace period nobody knows what was closed, after it a closed
    /// description is worth what the permissions of the moment allow.
    pub(super) fn may_reclaim(&self, caller: &Caller<'_>, capability: &Capability) -> Result<(), Errno> {
        if !self.settings.key.admits(capability) || !caller.may_use(capability) {
            return Err(EACCES);
        }
        let Capability { ino, handle, rights, .. } = *capability;
        let inode = self.inode(ino)?;
        let is_description = handle != HandleId::NONE && handle.0 & MOVE == 0;
        let may = is_description
            && (self.is_live(capability) || self.may_open_again(caller.who, (ino, inode), rights));
        may.then_some(()).ok_or(ESTALE)
    }

    fn may_open_again(&self, who: &Identity, (ino, inode): (Ino, &Inode), rights: Rights) -> bool {
        let mask = u8::from(rights.read) * READ + u8::from(rights.write) * WRITE;
        // Its owner may have opened a file that is read-only since.
        let is_allowed = permission::owns(who, inode) || permission::permits(who, inode, mask);
        // What stands above on another server is not known here.
        let now = Moment::default();
        let is_reached = match inode.node {
            Node::Directory(_) => self.way_to(who, ino, now).is_ok(),
            _ => inode.holders.iter().any(|directory| self.way_into(who, directory, now).is_ok()),
        };
        inode.names > 0 && is_allowed && is_reached
    }

    /// The capability of a description, for user `uid`.
    pub(super) fn capability(
        &self,
        (ino, handle): (Ino, HandleId),
        rights: Rights,
        uid: u32,
        now: Moment,
    ) -> Capability {
        self.settings.key.capability(Description { ino, handle, uid }, rights, seconds(now))
    }

    fn is_proof(&self, caller: &Caller<'_>, proof: &Capability, ino: Ino, now: Moment) -> bool {
        if proof.ino != ino || !caller.may_use(proof) || !self.settings.key.admits(proof) {
            return false;
        }
        match proof.handle {
            HandleId::NONE => is_recent(proof.issued_seconds as i64, now),
            _ => self.is_live(proof),
        }
    }

    /// Whether the caller may walk into `directory`: the way to it, and search permission on it.
    fn way_into(&self, who: &Identity, directory: Ino, now: Moment) -> Result<Way, Errno> {
        permission::check(who, self.inode(directory)?, EXECUTE)?;
        self.way_to(who, directory, now)
    }

    /// Whether the caller may walk from the root to `directory`.
    fn way_to(&self, who: &Identity, directory: Ino, now: Moment) -> Result<Way, Errno> {
        let (mut here, mut passed) = (directory, Vec::new());
        while here != Ino::ROOT && !self.passes.holds(who.uid, here, now) {
            let inode = self.inode(here)?;
            let parent = inode.directory().filter(|_| inode.names > 0).ok_or(ESTALE)?.parent;
            passed.push(here);
            // The root stays searchable for everyone, wherever it is.
            if parent == Ino::ROOT {
                break;
            }
            if parent.home() != self.settings.server {
                return Ok(Way::Elsewhere(passed));
            }
            if passed.len() > DEPTH_MAX {
                return Err(ENAMETOOLONG);
            }
            permission::check(who, self.inode(parent)?, EXECUTE)?;
            here = parent;
        }
        Ok(Way::Open)
    }

    /// Sends the caller to the server above, from where it walks down again: `directories` lead from the one it named up to
    /// the one whose parent is there.
    fn redirect_above(&self, directories: &[Ino], at: &At) -> Result<Reply, Errno> {
        let (mut path, mut start) = (Vec::new(), at.ino);
        for &ino in directories.iter().rev() {
            let directory = self.inode(ino)?.directory().ok_or(ENOTDIR)?;
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

impl Caller<'_> {
    /// Whether a capability was made for this caller. A mount carries those of all its users.
    pub fn may_use(&self, capability: &Capability) -> bool {
        capability.uid == self.who.uid || self.trusted || permission::is_root(self.who)
    }
}

fn is_recent(since: i64, now: Moment) -> bool {
    now.seconds.saturating_sub(since) <= limits::PASS_SECONDS as i64
}

/// Unix time in whole seconds.
pub(super) fn seconds(now: Moment) -> u64 {
    u64::try_from(now.seconds).unwrap_or(0)
}
