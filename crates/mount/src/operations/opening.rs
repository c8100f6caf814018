//! Opening, making and closing regular files.

use super::attributes::entry_and;
use super::names::permissions;
use crate::abi::{flags, CreateIn, FlushIn, OpenIn, OpenOut, ReleaseIn};
use crate::call::{Answer, Call, Failure, Reply};
use crate::filesystem::Filesystem;
use crate::handles::OpenFile;
use std::sync::Mutex;
use weir_client::wire::{Attributes, Capability, Ino, LockOwner, OpenFlags, Rights};
use weir_client::{Caller, File, Opened, Place};

/// The kernel's mark of an open for `execve(2)` (`__FMODE_EXEC`).
const OPEN_FOR_EXECUTION: u32 = 0x20;
/// Mask of `access(2)` for execution.
const EXECUTE: u8 = 1;

/// The flags of `open(2)` as the home server takes them. Creation is asked for by CREATE alone.
fn open_flags(flags: u32) -> OpenFlags {
    let flags = flags as i32;
    let access = flags & libc::O_ACCMODE;
    OpenFlags {
        read: access != libc::O_WRONLY,
        write: access == libc::O_WRONLY || access == libc::O_RDWR,
        truncate: flags & libc::O_TRUNC != 0,
        exclusive: flags & libc::O_EXCL != 0,
        directory: flags & libc::O_DIRECTORY != 0,
        no_follow: true,
        create: false,
        unnamed: false,
    }
}

fn appends(flags: u32) -> bool {
    flags & libc::O_APPEND as u32 != 0
}

impl Filesystem {
    pub(crate) fn open(&self, call: &mut Call<'_>) -> Answer {
        let asked: OpenIn = call.take()?;
        let caller = self.caller(&call.header);
        let place = Place::inode(call.node());
        let flags = OpenFlags { exclusive: false, ..open_flags(asked.flags) };
        let opened = if asked.flags & OPEN_FOR_EXECUTION == 0 {
            self.store.open(&caller, place, flags, 0)?
        } else {
            self.open_for_execution(&caller, place, flags)?
        };
        let (open, attributes) = self.keep(opened, caller, asked.flags)?;
        if !self.look_ups.knows(call.header.pid, &attributes) {
            self.sizes.grew(attributes.ino, attributes.size_bytes);
        }
        Reply::of(&open)
    }

    /// The right to execute a program is enough to run it, without the right to read it.
    fn open_for_execution(
        &self,
        caller: &Caller,
        place: Place<'_>,
        flags: OpenFlags,
    ) -> Result<Opened, Failure> {
        self.store.access(caller, place, EXECUTE, false)?;
        match self.store.open(caller, place, flags, 0).map_err(Failure::from) {
            Err(Failure(libc::EACCES)) => Ok(self.store.open(&Caller::own(), place, flags, 0)?),
            opened => opened,
        }
    }

    /// CREATE; or TMPFILE, which makes a file without a name in the directory.
    pub(crate) fn create(&self, call: &mut Call<'_>, unnamed: bool) -> Answer {
        let asked: CreateIn = call.take()?;
        let caller = self.caller(&call.header);
        let name = call.name()?;
        let flags = OpenFlags { create: !unnamed, unnamed, directory: false, ..open_flags(asked.flags) };
        if let Some(capability) = Capability::of_claim_name(name).filter(|_| call.node() == Ino::ROOT) {
            // The servers trust a mount with the capabilities of all its users.
            if !self.acts_as_itself() && call.header.uid != capability.uid {
                return Err(Failure(libc::EACCES));
            }
            return self.claim(capability, caller, asked.flags);
        }
        let place = if unnamed { Place::inode(call.node()) } else { Place::below(call.node(), name) };
        let opened = self.store.open(&caller, place, flags, permissions(asked.mode))?;
        let (open, attributes) = self.keep(opened, caller, asked.flags)?;
        entry_and(&attributes, &open)
    }

    /// The kernel opens a description that a program of `caller` has open past it. The capability shows that it is the caller's.
    fn claim(&self, capability: Capability, caller: Caller, flags: u32) -> Answer {
        let wanted = open_flags(flags);
        let Rights { read, write } = capability.rights;
        if (wanted.read && !read) || (wanted.write && !write) || wanted.truncate {
            return Err(Failure(libc::EACCES));
        }
        let (file, attributes) = File::adopted(&self.store, &caller, capability, appends(flags))?;
        entry_and(&attributes, &self.enter(file, caller))
    }

    fn keep(&self, opened: Opened, opener: Caller, flags: u32) -> Result<(OpenOut, Attributes), Failure> {
        let attributes = opened.attributes;
        let description = opened.handle;
        let file = match File::new(&self.store, opened, appends(flags)) {
            Ok(file) => file,
            Err(error) => {
                // The first error is the one to tell; a description left behind ends with the mount's session.
                let _ = self.store.close(&opener, attributes.ino, description);
                return Err(error.into());
            }
        };
        Ok((self.enter(file, opener), attributes))
    }

    fn enter(&self, file: File, opener: Caller) -> OpenOut {
        let ino = file.ino();
        let handle = self.handles.insert_file(OpenFile { ino, file, opener, following: Mutex::default() });
        let open_flags = if self.features.direct_io() {
            flags::FOPEN_DIRECT_IO | flags::FOPEN_PARALLEL_DIRECT_WRITES
        } else {
            0
        };
        OpenOut { handle, open_flags, backing: 0 }
    }

    /// A descriptor was closed: the process's POSIX locks on the file go, whichever descriptor they were set with.
    pub(crate) fn flush(&self, call: &mut Call<'_>) -> Answer {
        let asked: FlushIn = call.take()?;
        let open = self.handles.file(asked.handle)?;
        let owner = LockOwner(asked.lock_owner);
        let published = open.file.publish_pending(&open.opener);
        if self.posix_locks.forget(open.ino, owner) {
            open.file.release_locks(&open.opener, owner)?;
        }
        published?;
        Ok(Reply::Done)
    }

    /// The last descriptor of a description is gone.
    pub(crate) fn release(&self, call: &mut Call<'_>) -> Answer {
        let asked: ReleaseIn = call.take()?;
        let open = self.handles.begin_release(asked.handle)?;
        let closed = self.close(&open, asked.handle);
        self.handles.finish_release(open.ino);
        if !self.handles.is_open(open.ino) {
            self.pages.leave(&open, || self.handles.is_open(open.ino));
            self.overwrites.forget(open.ino);
        }
        closed?;
        Ok(Reply::Done)
    }

    fn close(&self, open: &OpenFile, handle: u64) -> Result<(), Failure> {
        for owner in self.posix_locks.forget_handle(open.ino, handle) {
            // Closing the description is the point; a lock that could not be released goes with the session.
            let _ = open.file.release_locks(&open.opener, owner);
        }
        Ok(open.file.close(&open.opener)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_modes_are_told_apart() {
        let of = |flags: i32| open_flags(flags as u32);
        assert!(of(libc::O_RDONLY).read && !of(libc::O_RDONLY).write);
        assert!(!of(libc::O_WRONLY).read && of(libc::O_WRONLY).write);
        assert!(of(libc::O_RDWR).read && of(libc::O_RDWR).write);
        assert!(of(libc::O_RDWR | libc::O_TRUNC).truncate);
        assert!(appends((libc::O_WRONLY | libc::O_APPEND) as u32));
    }
}
