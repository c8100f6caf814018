//! Permissions, as POSIX and the Linux VFS decide over them.

use super::Inode;
use crate::namespace::errno::{EACCES, EPERM};
use weir_wire::{Errno, FileKind, Identity};

/// Read, as in `access(2)`.
pub(crate) const READ: u8 = 4;
/// Write.
pub(crate) const WRITE: u8 = 2;
/// Execute or search.
pub(crate) const EXECUTE: u8 = 1;
/// Every bit of the mask of `access(2)`.
pub(crate) const ACCESS_MASK: u8 = READ | WRITE | EXECUTE;

pub(crate) const SET_UID: u16 = 0o4000;
pub(crate) const SET_GID: u16 = 0o2000;
pub(crate) const STICKY: u16 = 0o1000;
const GROUP_EXECUTE: u16 = 0o010;
const OTHERS_WRITE: u16 = 0o002;
const ANY_EXECUTE: u16 = 0o111;
/// All bits that `chmod` sets.
pub(crate) const ALL_BITS: u16 = 0o7777;

pub(crate) fn is_root(who: &Identity) -> bool {
    who.uid == 0
}

pub(crate) fn in_group(who: &Identity, gid: u32) -> bool {
    who.gid == gid || who.groups.contains(&gid)
}

/// Whether `who` owns the inode or is root.
pub(crate) fn owns(who: &Identity, inode: &Inode) -> bool {
    is_root(who) || who.uid == inode.uid
}

/// Checks the permission bits for every bit of `mask`.
pub(crate) fn check(who: &Identity, inode: &Inode, mask: u8) -> Result<(), Errno> {
    if permits(who, inode, mask) {
        Ok(())
    } else {
        Err(EACCES)
    }
}

pub(crate) fn permits(who: &Identity, inode: &Inode, mask: u8) -> bool {
    if is_root(who) {
        let executes = inode.kind() == FileKind::Directory || inode.permissions & ANY_EXECUTE != 0;
        return mask & EXECUTE == 0 || executes;
    }
    let class = if who.uid == inode.uid {
        inode.permissions >> 6
    } else if in_group(who, inode.gid) {
        inode.permissions >> 3
    } else {
        inode.permissions
    };
    class & u16::from(mask) == u16::from(mask)
}

/// In a sticky directory only the owner of the entry or of the directory may remove or rename it.
pub(crate) fn check_sticky(who: &Identity, directory: &Inode, victim: &Inode) -> Result<(), Errno> {
    if sticky_asks_owner(who, directory) && who.uid != victim.uid {
        return Err(EPERM);
    }
    Ok(())
}

/// In a sticky directory that all may write to, nobody opens by O_CREAT what another put there; for regular files and FIFOs
/// that is the choice of each host (`fs.protected_regular`, `fs.protected_fifos`), and of its kernel.
pub(crate) fn check_made(who: &Identity, directory: &Inode, found: &Inode) -> Result<(), Errno> {
    let is_shared = directory.permissions & STICKY != 0 && directory.permissions & OTHERS_WRITE != 0;
    let is_others = found.uid != directory.uid && found.uid != who.uid;
    let is_host_choice = matches!(found.kind(), FileKind::Regular | FileKind::Fifo);
    if is_shared && is_others && !is_host_choice {
        return Err(EACCES);
    }
    Ok(())
}

/// Whether `who` must own an entry of `directory` to remove it.
pub(crate) fn sticky_asks_owner(who: &Identity, directory: &Inode) -> bool {
    directory.permissions & STICKY != 0 && !is_root(who) && who.uid != directory.uid
}

/// The permissions after a write or truncate by `who`: set-id bits go unless root did it.
pub(crate) fn after_write(who: &Identity, inode: &Inode) -> Option<u16> {
    if is_root(who) {
        return None;
    }
    dropped_set_ids(who, inode)
}

/// The permissions after a change of owner: set-id bits of everything but directories go, also for root.
pub(crate) fn after_change_of_owner(who: &Identity, inode: &Inode) -> Option<u16> {
    if inode.kind() == FileKind::Directory {
        return None;
    }
    dropped_set_ids(who, inode)
}

fn dropped_set_ids(who: &Identity, inode: &Inode) -> Option<u16> {
    // Without group execute the set-group bit once meant mandatory locking: the kernel leaves it to root and the group.
    let keeps_group = inode.permissions & GROUP_EXECUTE == 0 && (is_root(who) || in_group(who, inode.gid));
    let lost = if keeps_group { SET_UID } else { SET_UID | SET_GID };
    let kept = inode.permissions & !lost;
    (kept != inode.permissions).then_some(kept)
}

/// Group and permissions of a node made by `who` in `directory`: a set-group directory hands its group on.
pub(crate) fn at_birth(who: &Identity, directory: &Inode, kind: FileKind, asked: u16) -> (u32, u16) {
    if directory.permissions & SET_GID == 0 {
        return (who.gid, asked);
    }
    if kind == FileKind::Directory {
        return (directory.gid, asked | SET_GID);
    }
    let executable_set_group = asked & (SET_GID | GROUP_EXECUTE) == SET_GID | GROUP_EXECUTE;
    if executable_set_group && !is_root(who) && !in_group(who, directory.gid) {
        return (directory.gid, asked & !SET_GID);
    }
    (directory.gid, asked)
}

/// Whether `who` may make a hard link to the inode (the rule of `fs.protected_hardlinks`). Otherwise anyone could keep a set-id
/// program alive after its owner replaced it.
pub(crate) fn may_link(who: &Identity, inode: &Inode) -> bool {
    let set_group = SET_GID | GROUP_EXECUTE;
    let safe = inode.kind() == FileKind::Regular
        && inode.permissions & SET_UID == 0
        && inode.permissions & set_group != set_group
        && permits(who, inode, READ | WRITE);
    owns(who, inode) || safe
}
