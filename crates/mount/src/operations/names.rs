//! Making, moving and removing names.

use super::attributes::{device_of, entry};
use crate::abi::{LinkIn, MkdirIn, MknodIn, Rename2In, RenameIn};
use crate::call::{Answer, Call, Failure, Reply};
use crate::filesystem::Filesystem;
use weir_client::wire::{Ino, NodeKind, RenameMode};
use weir_client::{node_of, Place};

/// Permission, set-id and sticky bits. The kernel has applied the umask.
pub(super) fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

/// The mode of `renameat2(2)`; `None` for RENAME_WHITEOUT and later flags.
fn rename_mode(flags: u32) -> Option<RenameMode> {
    match flags {
        0 => Some(RenameMode::Replace),
        libc::RENAME_NOREPLACE => Some(RenameMode::NoReplace),
        libc::RENAME_EXCHANGE => Some(RenameMode::Exchange),
        _ => None,
    }
}

impl Filesystem {
    pub(crate) fn make_node(&self, call: &mut Call<'_>) -> Answer {
        let asked: MknodIn = call.take()?;
        let kind = node_of(asked.mode, device_of(asked.device)).ok_or(Failure(libc::EINVAL))?;
        self.make(call, kind, asked.mode)
    }

    pub(crate) fn make_directory(&self, call: &mut Call<'_>) -> Answer {
        let asked: MkdirIn = call.take()?;
        self.make(call, NodeKind::Directory, asked.mode)
    }

    fn make(&self, call: &mut Call<'_>, kind: NodeKind, mode: u32) -> Answer {
        let caller = self.caller(&call.header);
        let place = Place::below(call.node(), call.name()?);
        let attributes = self.store.make(&caller, place, kind, permissions(mode))?;
        Reply::of(&entry(&attributes))
    }

    pub(crate) fn symlink(&self, call: &mut Call<'_>) -> Answer {
        let caller = self.caller(&call.header);
        let place = Place::below(call.node(), call.name()?);
        let attributes = self.store.symlink(&caller, place, call.name()?)?;
        Reply::of(&entry(&attributes))
    }

    pub(crate) fn read_link(&self, call: &mut Call<'_>) -> Answer {
        let caller = self.caller(&call.header);
        match self.store.read_link(&caller, Place::inode(call.node())) {
            Err(error) if error.errno() == libc::ESTALE => {
                Ok(Reply::Bytes(self.unsteady.link(call.node()).ok_or(Failure(libc::ESTALE))?.target))
            }
            target => Ok(Reply::Bytes(target?)),
        }
    }

    pub(crate) fn link(&self, call: &mut Call<'_>) -> Answer {
        let asked: LinkIn = call.take()?;
        let caller = self.caller(&call.header);
        let to = Place::below(call.node(), call.name()?);
        let attributes = self.store.link(&caller, Place::inode(Ino(asked.old_node)), false, to)?;
        Reply::of(&entry(&attributes))
    }

    pub(crate) fn unlink(&self, call: &mut Call<'_>, directory: bool) -> Answer {
        let caller = self.caller(&call.header);
        let place = Place::below(call.node(), call.name()?);
        self.store.unlink(&caller, place, directory)?;
        Ok(Reply::Done)
    }

    pub(crate) fn rename(&self, call: &mut Call<'_>) -> Answer {
        let asked: RenameIn = call.take()?;
        self.rename_to(call, asked.new_parent, RenameMode::Replace)
    }

    pub(crate) fn rename_with_flags(&self, call: &mut Call<'_>) -> Answer {
        let asked: Rename2In = call.take()?;
        let mode = rename_mode(asked.flags).ok_or(Failure(libc::EINVAL))?;
        self.rename_to(call, asked.new_parent, mode)
    }

    fn rename_to(&self, call: &mut Call<'_>, new_parent: u64, mode: RenameMode) -> Answer {
        let caller = self.caller(&call.header);
        let from = Place::below(call.node(), call.name()?);
        let to = Place::below(Ino(new_parent), call.name()?);
        let _under_way = self.pages.rename_begins();
        self.store.rename(&caller, from, to, mode)?;
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_rename_flags_are_refused() {
        assert_eq!(rename_mode(libc::RENAME_EXCHANGE), Some(RenameMode::Exchange));
        assert_eq!(rename_mode(libc::RENAME_WHITEOUT), None);
        assert_eq!(rename_mode(libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE), None);
    }
}
