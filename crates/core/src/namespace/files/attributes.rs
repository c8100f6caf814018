//! Attributes: their reading, checks and changes.

use super::permission::{self, ALL_BITS, SET_GID, WRITE};
use super::{Files, Inode};
use crate::namespace::change::{Change, OutcomeKind};
use crate::namespace::decision::{Caller, Decision, Step};
use crate::namespace::draft::Draft;
use crate::namespace::errno::{EACCES, EBADF, EFBIG, EINVAL, EISDIR, EPERM};
use weir_wire::{limits, AttributeChange, Capability, Errno, FileKind, Identity, Ino, Moment, Reply};

impl Files {
    /// Answers attributes, which must not be about to change.
    pub(crate) fn read_attributes(&self, draft: Draft<'_>, ino: Ino) -> Step<Decision> {
        self.await_cut(ino)?;
        Ok(draft.reply(Reply::Attributes(self.attributes(ino)?)))
    }

    /// Checks permissions, as `access(2)`.
    pub(crate) fn access(&self, draft: Draft<'_>, ino: Ino, mask: u8) -> Step<Decision> {
        permission::check(draft.who(), self.inode(ino)?, mask)?;
        Ok(draft.reply(Reply::Done))
    }

    /// Changes attributes: all that the request names, or none.
    pub(crate) fn change_attributes(
        &self,
        mut draft: Draft<'_>,
        ino: Ino,
        change: &AttributeChange,
    ) -> Step<Decision> {
        let who = draft.who();
        let inode = self.inode(ino)?;
        self.await_cut(ino)?;
        check_owner(who, inode, change)?;
        check_times(who, inode, change)?;
        if let Some(size_bytes) = change.size_bytes {
            self.check_size(draft.caller, (ino, inode), size_bytes, change.capability.as_ref())?;
        }
        let permissions = new_permissions(who, ino, inode, change)?;
        self.admit_owners(who, inode, change)?;
        if let Some(size_bytes) = change.size_bytes {
            self.decide_size(&mut draft, ino, size_bytes)?;
        }
        let moment = |asked: Option<Option<Moment>>| asked.map(|at| at.unwrap_or(draft.now));
        let (accessed, modified) = (moment(change.accessed), moment(change.modified));
        let (uid, gid, at) = (change.uid, change.gid, draft.now);
        let times = accessed.is_some() || modified.is_some();
        if permissions.is_some() || uid.is_some() || gid.is_some() || times {
            draft.push(Change::AttributesSet { ino, permissions, uid, gid, accessed, modified, at });
        }
        Ok(draft.done(OutcomeKind::Attributes(ino)))
    }

    /// Sets the size of a regular file. The objects are cut if one may hold bytes that nobody may see, and whenever the file
    /// becomes shorter: the cut raises the epoch at every target, so a reader that knows the longer size is told of it also where
    /// no object is.
    pub(crate) fn decide_size(&self, draft: &mut Draft<'_>, ino: Ino, size_bytes: u64) -> Step<()> {
        let inode = self.inode(ino)?;
        let file = inode.regular().ok_or(EINVAL)?;
        self.admit_growth(draft.who().uid, (ino, inode), size_bytes, 0)?;
        let is_shorter = size_bytes < file.size_bytes;
        let is_untouched = !self.is_touched(ino) && !self.open.has_writers(ino);
        let is_the_same = size_bytes == file.size_bytes && size_bytes > 0;
        let cut = if is_the_same || (is_untouched && !is_shorter) {
            None
        } else {
            self.moves.abandon(draft, ino)?;
            let id = draft.intent()?;
            draft.wait.push(id);
            Some(id)
        };
        let permissions = permission::after_write(draft.who(), inode);
        draft.push(Change::Resized { ino, size_bytes, permissions, cut, at: draft.now });
        Ok(())
    }

    pub(crate) fn check_size(
        &self,
        caller: &Caller<'_>,
        (ino, inode): (Ino, &Inode),
        size_bytes: u64,
        capability: Option<&Capability>,
    ) -> Result<(), Errno> {
        match inode.kind() {
            FileKind::Directory => return Err(EISDIR),
            FileKind::Regular => {}
            _ => return Err(EINVAL),
        }
        match capability {
            Some(capability) if capability.ino != ino => return Err(EACCES),
            Some(capability) => {
                self.check_capability(caller, capability)?;
                if !capability.rights.write {
                    return Err(EBADF);
                }
            }
            None => permission::check(caller.who, inode, WRITE)?,
        }
        if size_bytes > limits::FILE_BYTES {
            return Err(EFBIG);
        }
        Ok(())
    }
}

/// Checks a change of the owner, by chown(2): only root gives files away; an owner may choose among its own groups.
fn check_owner(who: &Identity, inode: &Inode, change: &AttributeChange) -> Result<(), Errno> {
    if permission::is_root(who) {
        return Ok(());
    }
    let owner = who.uid == inode.uid;
    let uid_allowed = change.uid.is_none_or(|uid| owner && uid == inode.uid);
    let gid_allowed =
        change.gid.is_none_or(|gid| owner && (gid == inode.gid || permission::in_group(who, gid)));
    let mode_allowed = change.permissions.is_none() || owner;
    if uid_allowed && gid_allowed && mode_allowed {
        Ok(())
    } else {
        Err(EPERM)
    }
}

/// Checks a change of times, by utimensat(2): setting both times to "now" needs write permission only, and all other changes
/// belong to the owner.
fn check_times(who: &Identity, inode: &Inode, change: &AttributeChange) -> Result<(), Errno> {
    let both_now = change.accessed == Some(None) && change.modified == Some(None);
    let touches = change.accessed.is_some() || change.modified.is_some();
    // A new size changes the data, and a change of data changes its time: the right to write is enough.
    let with_size = change.size_bytes.is_some()
        && change.accessed.unwrap_or(None).is_none()
        && change.modified.unwrap_or(None).is_none();
    if !touches || with_size || permission::owns(who, inode) {
        return Ok(());
    }
    if !both_now {
        return Err(EPERM);
    }
    permission::check(who, inode, WRITE)
}

/// The permissions after the change; none if they stay.
fn new_permissions(
    who: &Identity,
    ino: Ino,
    inode: &Inode,
    change: &AttributeChange,
) -> Result<Option<u16>, Errno> {
    let owner_changes = change.uid.is_some() || change.gid.is_some();
    let Some(asked) = change.permissions else {
        return Ok(owner_changes.then(|| permission::after_change_of_owner(who, inode)).flatten());
    };
    let group = change.gid.unwrap_or(inode.gid);
    let keeps_group = permission::is_root(who) || permission::in_group(who, group);
    let kept = if keeps_group { asked & ALL_BITS } else { asked & ALL_BITS & !SET_GID };
    // Clients enter a directory in the root by its inode without asking this server.
    if ino == Ino::ROOT && kept & SEARCHABLE != SEARCHABLE {
        return Err(EPERM);
    }
    Ok(Some(kept))
}

/// Search permission for everyone.
const SEARCHABLE: u16 = 0o111;
