//! The opening of a file of the store with a mount, but without the kernel: the program gets a stand-in.
//!
//! The kernel opens what it alone can open or guard: directories and special files, paths that the kernel resolves, opens with
//! other flags than the usual ones, programs that may run (ETXTBSY), and files under `ulimit -f`.

use crate::files::description::Description;
use crate::files::paths::{self, Touch};
use crate::files::stand_ins::{self, Locked, Unopened};
use crate::files::tree::Located;
use crate::files::way_to_kernel::WayToKernel;
use crate::files::{promotion, table};
use crate::host::guard::{attempt, Outcome};
use crate::host::kernel::{self, system_call};
use crate::host::{file_size, umask};
use crate::store::counters::{self, Call};
use crate::store::identity;
use crate::store::session::{self, CALLER};
use crate::{placement, recorder};
use libc::{c_int, mode_t};
use std::sync::Arc;
use weir_client::wire::{FileKind, OpenFlags};
use weir_client::{ClientError, File, Opened, Place, Store};

/// Flags of opens that the client does. `O_LARGEFILE` is 0 in C on 64-bit machines, and the kernel's own bit in system calls.
const USUAL: c_int = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_CLOEXEC
    | libc::O_NOFOLLOW
    | libc::O_NOCTTY
    | LARGE_FILE;
/// `O_LARGEFILE` as 64-bit kernels know it.
pub(crate) const LARGE_FILE: c_int = 0o100_000;
/// Permissions to execute, for anybody.
const EXECUTABLE: u16 = 0o111;

/// Opens a file. `None` where the kernel has to.
pub(crate) fn open(directory: c_int, path: &[u8], flags: c_int, mode: mode_t) -> Outcome<c_int> {
    // A trace names files and offsets as the kernel knows them.
    if !is_usual(flags) || !stand_ins::are_allowed() || placement::is_on() || recorder::is_on() {
        return None;
    }
    if !paths::is_candidate(directory, path) || file_size::limit().is_some() {
        return None;
    }
    let outcome = attempt(|| {
        let Located::Store(ino, rest) = paths::locate(directory, path, Touch::Node) else { return None };
        if rest.is_empty() {
            return None;
        }
        let store = match identity::store()? {
            Ok(store) => store,
            Err(number) => return Some(Err(number)),
        };
        match opened_file(store, Place { ino, path: &rest }, flags, mode)? {
            Ok(file) => enter(file, (directory, path), flags),
            Err(number) => Some(Err(number)),
        }
    });
    paths::without_directory(outcome, &[(directory, path)])
}

fn is_usual(flags: c_int) -> bool {
    let access = flags & libc::O_ACCMODE;
    flags & !USUAL == 0
        && access != libc::O_ACCMODE
        // Only the kernel cuts a file that is opened for reads.
        && (access != libc::O_RDONLY || flags & libc::O_TRUNC == 0)
}

/// Opens a file at the servers. A file that is there is emptied by a request of its own, once it is known to be no program.
fn opened_file(store: &Store, place: Place<'_>, flags: c_int, mode: mode_t) -> Outcome<File> {
    let access = flags & libc::O_ACCMODE;
    let wanted = OpenFlags {
        read: access != libc::O_WRONLY,
        write: access != libc::O_RDONLY,
        create: flags & libc::O_CREAT != 0,
        exclusive: flags & libc::O_EXCL != 0,
        truncate: false,
        directory: false,
        no_follow: flags & libc::O_NOFOLLOW != 0,
        unnamed: false,
    };
    let opened = match store.open(&CALLER, place, wanted, umask::masked(mode)) {
        Ok(opened) => opened,
        // Pipes, sockets and devices, and a directory that is gone.
        Err(error) if matches!(error.errno(), libc::EOPNOTSUPP | libc::ENXIO | libc::ESTALE) => return None,
        Err(error) => return session::outcome(Err(error)),
    };
    let (created, is_guarded) = (opened.created, is_the_kernels(&opened, wanted.write));
    if is_guarded {
        // The description is not used. One that is left behind ends with the session.
        drop(store.close(&CALLER, opened.attributes.ino, opened.handle));
        return None;
    }
    let file = match session::outcome(File::new(store, opened, flags & libc::O_APPEND != 0))? {
        Ok(file) => file,
        Err(number) => return Some(Err(number)),
    };
    if flags & libc::O_TRUNC == 0 || created {
        return Some(Ok(file));
    }
    let emptied = file.truncate(&CALLER, 0);
    if emptied.is_err() {
        drop(file.close(&CALLER));
    }
    match emptied {
        // The kernel has pages of the file.
        Err(ClientError::PagesHeld) => None,
        emptied => session::outcome(emptied.map(|()| file)),
    }
}

/// Whether only the kernel opens the node: another kind than a regular file, or a program that may run, of which the kernel refuses
/// to let bytes be written.
fn is_the_kernels(opened: &Opened, writes: bool) -> bool {
    let found = &opened.attributes;
    found.kind != FileKind::Regular || (writes && !opened.created && found.permissions & EXECUTABLE != 0)
}

/// Gives the file a number.
fn enter(file: File, (directory, path): (c_int, &[u8]), flags: c_int) -> Outcome<c_int> {
    let status = flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_CLOEXEC | libc::O_NOCTTY);
    let way = WayToKernel::new(directory, path, file.capability());
    let locked = Locked::take();
    let made = locked.as_ref().and_then(|locked| locked.make(flags));
    let (number, shown) = match made {
        Some(Ok(made)) => made,
        Some(Err(error)) => {
            // The open has failed for another reason already.
            drop(file.close(&CALLER));
            return Some(Err(error));
        }
        None => {
            drop(locked);
            return by_kernel(&file, &way, flags);
        }
    };
    promotion::forget(number);
    let description = Arc::new(Description::of_stand_in(shown, status, Unopened::new(file, way)));
    table::enter(number, Arc::clone(&description));
    drop(locked);
    description.note_standard_stream(number);
    if description.is_the_kernels() {
        description.settle(number);
    }
    counters::served(Call::Open);
    Some(Ok(number))
}

/// Gives the program a descriptor of the kernel while a child is made, which may get every number. The file may have been made
/// by this very call, so the call cannot begin anew.
fn by_kernel(file: &File, way: &WayToKernel, flags: c_int) -> Outcome<c_int> {
    let opened = way.open(flags).and_then(|opened| lowest(opened, flags));
    drop(file.close(&CALLER));
    Some(opened)
}

/// The lowest free number for a descriptor of this library, as POSIX says.
fn lowest(opened: c_int, flags: c_int) -> Result<c_int, c_int> {
    let command = if flags & libc::O_CLOEXEC != 0 { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    // SAFETY: no memory is passed.
    let number = unsafe { system_call!(libc::SYS_fcntl, opened, command, 0) };
    kernel::close(opened);
    let number = number.map(|number| number as c_int)?;
    promotion::forget(number);
    Ok(number)
}
