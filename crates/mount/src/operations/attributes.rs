//! Attributes, permissions and capacity.

use crate::abi::{flags, AccessIn, Attr, AttrOut, EntryOut, Fixed, GetattrIn, SetattrIn};
use crate::abi::{StatfsOut, Statx, StatxIn, StatxOut, StatxTime};
use crate::call::{Answer, Call, Failure, Reply};
use crate::filesystem::Filesystem;
use crate::process::system_call;
use crate::special;
use weir_client::wire::{limits, AttributeChange, Attributes, FileKind, Ino, Moment};
use weir_client::{mode_of, type_bits, Caller, Place};

/// Block size that `stat` reports: programs move data in units of it, as far as they ask at all. Large enough for
/// few requests, small enough for the buffer that stdio allocates for each open file.
const BLOCK_BYTES: u32 = 128 * 1024;
/// Unit of `st_blocks`, whatever the block size is (stat(2)).
const SECTOR_BYTES: u64 = 512;
/// Unit in which capacity is reported.
const FRAGMENT_BYTES: u32 = 4096;
/// Basic fields and creation time of `statx(2)`.
const STATX_MASK: u32 = libc::STATX_BASIC_STATS | libc::STATX_BTIME;

/// The kernel's 32-bit form of a device number: 12 bits major, 20 bits minor, the minor's upper part on top.
fn kernel_device(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The inverse of [`kernel_device`].
pub(crate) fn device_of(kernel: u32) -> u64 {
    rustix::fs::makedev((kernel >> 8) & 0xfff, (kernel & 0xff) | ((kernel >> 12) & 0xf_ff00))
}

pub(crate) fn attr(attributes: &Attributes) -> Attr {
    Attr {
        ino: attributes.ino.0,
        size: attributes.size_bytes,
        blocks: attributes.allocated_bytes.div_ceil(SECTOR_BYTES),
        atime: attributes.accessed.seconds,
        mtime: attributes.modified.seconds,
        ctime: attributes.changed.seconds,
        atime_nanoseconds: attributes.accessed.nanoseconds,
        mtime_nanoseconds: attributes.modified.nanoseconds,
        ctime_nanoseconds: attributes.changed.nanoseconds,
        mode: mode_of(attributes),
        links: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        device: kernel_device(attributes.device),
        block_size: BLOCK_BYTES,
        flags: 0,
    }
}

/// An entry that the kernel asks for again each time: another client may change it at any moment.
pub(crate) fn entry(attributes: &Attributes) -> EntryOut {
    EntryOut { node: attributes.ino.0, attr: attr(attributes), ..EntryOut::default() }
}

fn statx(attributes: &Attributes) -> Statx {
    let time = |moment: Moment| StatxTime {
        seconds: moment.seconds,
        nanoseconds: moment.nanoseconds,
        ..StatxTime::default()
    };
    Statx {
        mask: STATX_MASK,
        block_size: BLOCK_BYTES,
        links: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        mode: mode_of(attributes) as u16,
        ino: attributes.ino.0,
        size: attributes.size_bytes,
        blocks: attributes.allocated_bytes.div_ceil(SECTOR_BYTES),
        atime: time(attributes.accessed),
        btime: time(attributes.created),
        ctime: time(attributes.changed),
        mtime: time(attributes.modified),
        device_major: rustix::fs::major(attributes.device),
        device_minor: rustix::fs::minor(attributes.device),
        ..Statx::default()
    }
}

impl Filesystem {
    pub(crate) fn lookup(&self, call: &mut Call<'_>) -> Answer {
        let caller = self.caller(&call.header);
        let name = call.name()?;
        if name == b"." {
            // A handle of open_by_handle_at(2), which may be that of a file, and whose inode the kernel has forgotten.
            return Reply::of(&entry(&self.store.attributes(&caller, Place::inode(call.node()), false)?));
        }
        let found = self.store.attributes(&caller, Place::below(call.node(), name), false);
        if found.as_ref().is_err_and(|error| error.errno() == libc::ESTALE) {
            if let Some(dangling) = self.dangling(&caller, call.node(), name) {
                return Reply::of(&dangling);
            }
        }
        let mut attributes = found?;
        if self.unsteady.looked_up(call.node(), attributes.ino) {
            attributes = self.steadied(Place::below(call.node(), name), attributes);
        }
        if matches!(attributes.kind, FileKind::Fifo | FileKind::Socket) {
            self.check_special(call.header.pid, &caller, attributes.ino)?;
        }
        self.look_ups.note(call.header.pid, &attributes);
        Reply::of(&entry(&attributes))
    }

    /// What a name that is replaced over and over has now, kept until the kernel has come for it. `found` is what the caller, who may
    /// search the directory, has just found.
    fn steadied(&self, place: Place<'_>, found: Attributes) -> Attributes {
        match found.kind {
            FileKind::Symlink => {
                self.unsteady.keep_link(&self.store, place, found);
                found
            }
            FileKind::Regular | FileKind::Directory => {
                let kept = self.unsteady.keep(&self.store, place);
                kept.inspect(|now| _ = self.unsteady.looked_up(place.ino, now.ino)).unwrap_or(found)
            }
            _ => found,
        }
    }

    /// An entry whose inode is lost with the memory of its server. The kernel removes only what it has looked up.
    fn dangling(&self, caller: &Caller, parent: Ino, name: &[u8]) -> Option<EntryOut> {
        let entry = self.named(caller, parent, name).ok()??;
        // Another client may have put a new inode in the place of a removed one meanwhile.
        let found = self.store.attributes(caller, Place::inode(entry.ino), false);
        found.is_err_and(|error| error.errno() == libc::ESTALE).then_some(())?;
        let attr = Attr {
            ino: entry.ino.0,
            mode: type_bits(entry.kind),
            block_size: BLOCK_BYTES,
            ..Attr::default()
        };
        Some(EntryOut { node: entry.ino.0, attr, ..EntryOut::default() })
    }

    /// Checks the permissions of pipes and sockets. The kernel opens these itself and asks for nothing but their names.
    fn check_special(&self, pid: u32, caller: &Caller, ino: Ino) -> Result<(), Failure> {
        let mask = match system_call(pid) {
            Some(text) => special::wanted(&text),
            // Only its own user comes to such a mount. This user may deny the mount a look at the programs.
            None if self.acts_as_itself() => 0,
            None => special::EVERYTHING,
        };
        match mask {
            0 => Ok(()),
            mask => Ok(self.store.access(caller, Place::inode(ino), mask, false)?),
        }
    }

    pub(crate) fn attributes(&self, call: &mut Call<'_>) -> Answer {
        let asked: GetattrIn = call.take()?;
        let handle = (asked.flags & flags::GETATTR_FH != 0).then_some(asked.handle);
        let attributes = self.current_attributes(call, handle)?;
        Reply::of(&AttrOut { attr: attr(&attributes), ..AttrOut::default() })
    }

    pub(crate) fn statx(&self, call: &mut Call<'_>) -> Answer {
        let asked: StatxIn = call.take()?;
        let handle = (asked.flags & flags::GETATTR_FH != 0).then_some(asked.handle);
        let attributes = self.current_attributes(call, handle)?;
        Reply::of(&StatxOut { stat: statx(&attributes), ..StatxOut::default() })
    }

    /// Attributes after every modification time that this mount still owes was published.
    fn current_attributes(&self, call: &Call<'_>, handle: Option<u64>) -> Result<Attributes, Failure> {
        self.publish_pending(call.node())?;
        if let Some(open) = handle.and_then(|handle| self.handles.file(handle).ok()) {
            return Ok(open.file.attributes(&open.opener)?);
        }
        let caller = self.caller(&call.header);
        match self.store.attributes(&caller, Place::inode(call.node()), false) {
            Err(error) if error.errno() == libc::ESTALE => {
                Ok(self.unsteady.link(call.node()).ok_or(Failure(libc::ESTALE))?.attributes)
            }
            attributes => Ok(attributes?),
        }
    }

    fn publish_pending(&self, ino: Ino) -> Result<(), Failure> {
        for open in self.handles.files_of(ino) {
            open.file.publish_pending(&open.opener)?;
        }
        Ok(())
    }

    pub(crate) fn change_attributes(&self, call: &mut Call<'_>) -> Answer {
        let asked: SetattrIn = call.take()?;
        let caller = self.caller(&call.header);
        let mut change = requested_change(&asked);
        // Otherwise a time that is still owed would overwrite the one that is set here.
        self.publish_pending(call.node())?;
        if let Some(size_bytes) = change.size_bytes {
            if size_bytes > limits::FILE_BYTES {
                return Err(Failure(libc::EFBIG));
            }
            if asked.valid & flags::setattr::FH != 0 {
                let open = self.handles.file(asked.handle)?;
                open.file.truncate(&open.opener, size_bytes)?;
                change.size_bytes = None;
            }
        }
        let place = Place::inode(call.node());
        let attributes = if change == AttributeChange::default() {
            self.store.attributes(&caller, place, false)?
        } else {
            self.store.change(&caller, place, false, change)?
        };
        if change.size_bytes.is_some() {
            // O_TRUNC comes here between the open and the first write.
            self.handles.files_of(call.node()).iter().for_each(|open| open.file.heed(&attributes));
        }
        Reply::of(&AttrOut { attr: attr(&attributes), ..AttrOut::default() })
    }

    pub(crate) fn access(&self, call: &mut Call<'_>) -> Answer {
        let asked: AccessIn = call.take()?;
        let caller = self.caller(&call.header);
        let mask = (asked.mask & 0o7) as u8;
        self.store.access(&caller, Place::inode(call.node()), mask, false)?;
        Ok(Reply::Done)
    }

    pub(crate) fn statistics(&self, call: &mut Call<'_>) -> Answer {
        let statistics = self.store.statistics(&self.caller(&call.header))?;
        let fragment = u64::from(FRAGMENT_BYTES);
        Reply::of(&StatfsOut {
            blocks: statistics.room.capacity_bytes / fragment,
            free: statistics.room.free_bytes / fragment,
            available: statistics.room.free_bytes / fragment,
            files: statistics.inodes.saturating_add(statistics.inodes_free),
            files_free: statistics.inodes_free,
            block_size: BLOCK_BYTES,
            name_length: limits::NAME_BYTES as u32,
            fragment_size: FRAGMENT_BYTES,
            ..StatfsOut::default()
        })
    }
}

fn requested_change(asked: &SetattrIn) -> AttributeChange {
    use flags::setattr;
    let wants = |bit: u32| asked.valid & bit != 0;
    let time = |set: u32, now: u32, seconds: i64, nanoseconds: u32| {
        if wants(now) {
            Some(None)
        } else {
            wants(set).then_some(Some(Moment { seconds, nanoseconds }))
        }
    };
    AttributeChange {
        permissions: wants(setattr::MODE).then_some((asked.mode & 0o7777) as u16),
        uid: wants(setattr::UID).then_some(asked.uid),
        gid: wants(setattr::GID).then_some(asked.gid),
        size_bytes: wants(setattr::SIZE).then_some(asked.size),
        accessed: time(setattr::ATIME, setattr::ATIME_NOW, asked.atime, asked.atime_nanoseconds),
        modified: time(setattr::MTIME, setattr::MTIME_NOW, asked.mtime, asked.mtime_nanoseconds),
        capability: None,
    }
}

/// Bytes of an entry followed by those of an open file, as CREATE is answered.
pub(crate) fn entry_and(attributes: &Attributes, open: &impl Fixed) -> Answer {
    let mut bytes = entry(attributes).to_bytes();
    open.put(&mut bytes);
    Ok(Reply::Bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_device_number_survives_the_kernels_form(major in 0u32..1 << 12, minor in 0u32..1 << 20) {
            let device = rustix::fs::makedev(major, minor);
            prop_assert_eq!(device_of(kernel_device(device)), device);
        }
    }

    #[test]
    fn only_what_is_valid_changes() {
        let asked = SetattrIn {
            valid: flags::setattr::MODE
                | flags::setattr::ATIME
                | flags::setattr::MTIME
                | flags::setattr::MTIME_NOW,
            mode: libc::S_IFREG | 0o4755,
            uid: 7,
            size: 9,
            atime: -1,
            atime_nanoseconds: 5,
            ..SetattrIn::default()
        };
        let expected = AttributeChange {
            permissions: Some(0o4755),
            accessed: Some(Some(Moment { seconds: -1, nanoseconds: 5 })),
            modified: Some(None),
            ..AttributeChange::default()
        };
        assert_eq!(requested_change(&asked), expected);
        assert_eq!(requested_change(&SetattrIn::default()), AttributeChange::default());
    }
}
