//! Opening a file of the store without a mount.

use crate::counters::{self, Call};
use crate::description::Description;
use crate::guard::{attempt, finish, Outcome};
use crate::paths::{self, Located, Touch};
use crate::prefix::resolution::{resolve, Rules};
use crate::prefix::{tree, working_directory, Kind, Placeholder, State};
use crate::session::{self, CALLER};
use crate::{addresses, identity, placement, promotion, table};
use libc::{c_char, c_int, mode_t};
use std::ffi::CString;
use std::sync::Arc;
use weir_client::wire::{FileKind, Ino, OpenFlags};
use weir_client::{File, Place, Store};

/// `openat`, where no mount is.
///
/// # Safety
/// `path` is null or ends with a zero byte.
pub(crate) unsafe fn open(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
    pass: impl FnOnce(c_int, *const c_char) -> c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    let text = unsafe { paths::text(path) };
    if let Some(descriptor) = text.and_then(descriptor_named).filter(|number| super::holds(*number)) {
        return finish(
            attempt(|| reopen(descriptor, flags, mode)),
            |opened| opened,
            || pass(directory, path),
        );
    }
    let Some(bytes) = text.filter(|bytes| paths::is_candidate(directory, bytes)) else {
        return pass(directory, path);
    };
    let mut elsewhere: Option<CString> = None;
    let outcome = attempt(|| match paths::locate(directory, bytes, Touch::Node) {
        Located::Host => None,
        Located::Elsewhere(host) => {
            elsewhere = Some(host);
            None
        }
        Located::Store(ino, rest) => {
            let store = match identity::store()? {
                Ok(store) => store,
                Err(number) => return Some(Err(number)),
            };
            let place = Place { ino, path: &rest };
            let opened = described(store, place, flags, mode, || name(directory, bytes));
            let (mut state, file) = match paths::resolved(opened, &mut elsewhere)? {
                Ok(opened) => opened,
                Err(number) => return Some(Err(number)),
            };
            let walked = climbs(bytes) && !matches!(state.kind, Kind::Regular(_));
            state.path = walked
                .then(|| resolve(store, &start_of(directory, bytes, 0)?, bytes, Rules::default()).ok())
                .flatten()
                .unwrap_or_else(|| name(directory, bytes));
            enter(state, file, flags)
        }
    });
    finish(
        paths::without_directory(outcome, &[(directory, bytes)]),
        |descriptor| descriptor,
        || match &elsewhere {
            Some(host) => pass(libc::AT_FDCWD, host.as_ptr()),
            None => pass(directory, path),
        },
    )
}

/// `struct open_how` of `openat2(2)`.
#[repr(C)]
#[derive(Clone, Copy)]
struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// `RESOLVE_*` of `openat2(2)`.
const NO_DEVICES: u64 = 1;
const NO_MAGIC: u64 = 2;
const NO_LINKS: u64 = 4;
const BENEATH: u64 = 8;
const IN_ROOT: u64 = 0x10;
const CACHED: u64 = 0x20;

/// `openat2(2)`; `None` where the kernel has to answer. The names of the way are looked at one after the other, so
/// that one which changes meanwhile is not found; the last is opened as it was found, or not at all.
///
/// # Safety
/// `path` and `how` are the program's own, or bad addresses.
pub(crate) unsafe fn open_how(
    directory: c_int,
    path: *const c_char,
    how: *const u8,
    size: usize,
) -> Option<c_int> {
    if !super::is_in_use() || size < size_of::<How>() || !addresses::can_read(how.cast::<How>(), 1) {
        return None;
    }
    // SAFETY: found readable; the path as the caller promises.
    let (how, bytes) = unsafe { (how.cast::<How>().read_unaligned(), paths::text(path)?) };
    if !paths::is_candidate(directory, bytes) && !super::holds(directory) {
        return None;
    }
    let flags = c_int::try_from(how.flags).ok()?;
    let known = NO_DEVICES | NO_MAGIC | NO_LINKS | BENEATH | IN_ROOT | CACHED;
    let is_contrary = how.resolve & BENEATH != 0 && how.resolve & IN_ROOT != 0;
    let resolved = attempt(|| {
        let start = start_of(directory, bytes, how.resolve)?;
        if how.resolve & !known != 0 || is_contrary || how.mode & !0o7777 != 0 {
            return Some(Err(libc::EINVAL));
        }
        if how.resolve & CACHED != 0 {
            return Some(Err(libc::EAGAIN));
        }
        let rules = Rules {
            no_links: how.resolve & NO_LINKS != 0,
            beneath: how.resolve & BENEATH != 0,
            in_root: how.resolve & IN_ROOT != 0,
            keeps_last: flags & (libc::O_NOFOLLOW | libc::O_CREAT) != 0,
        };
        let store = match identity::store()? {
            Ok(store) => store,
            Err(number) => return Some(Err(number)),
        };
        let found = resolve(store, &start, bytes, rules);
        Some(found.and_then(|found| {
            CString::new([session::root(), b"/", &found[..]].concat()).map_err(|_| libc::ENOENT)
        }))
    });
    Some(match resolved? {
        // Whatever the name leads to by now: a link there was not looked at.
        // SAFETY: the path ends with a zero byte.
        Ok(found) if how.resolve != 0 => unsafe {
            crate::descriptors::openat(
                libc::AT_FDCWD,
                found.as_ptr(),
                flags | libc::O_NOFOLLOW,
                how.mode as mode_t,
            )
        },
        // SAFETY: as the caller promises.
        Ok(_) => unsafe { crate::descriptors::openat(directory, path, flags, how.mode as mode_t) },
        Err(number) => crate::guard::fail(number),
    })
}

/// The directory below the prefix from which a way starts; `None` where that is the host's.
fn start_of(directory: c_int, path: &[u8], resolve: u64) -> Option<Vec<u8>> {
    if path.first() == Some(&b'/') && resolve & (BENEATH | IN_ROOT) == 0 {
        return session::below_root(path).map(|_| Vec::new());
    }
    if directory == libc::AT_FDCWD {
        return working_directory::position().map(|(_, base)| base);
    }
    let description = promotion::discovered(directory)?;
    Some(description.placeholder()?.state().path.clone())
}

/// The descriptor that a path of `/proc` or `/dev` names: the kernel would open the memfd behind a placeholder.
pub(super) fn descriptor_named(path: &[u8]) -> Option<c_int> {
    let number: &[u8] = match path {
        b"/dev/stdin" => b"0",
        b"/dev/stdout" => b"1",
        b"/dev/stderr" => b"2",
        _ => {
            let folders: [&[u8]; 3] = [b"/proc/self/fd/", b"/proc/thread-self/fd/", b"/dev/fd/"];
            folders.iter().find_map(|folder| path.strip_prefix(*folder))?
        }
    };
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// The inode of the placeholder that such a path names.
pub(crate) fn inode_named(path: &[u8]) -> Option<Ino> {
    let description = promotion::discovered(descriptor_named(path)?)?;
    description.placeholder().map(Placeholder::ino)
}

/// Opens once more what a placeholder stands for, as the kernel does for `/proc/self/fd`.
fn reopen(descriptor: c_int, flags: c_int, mode: mode_t) -> Outcome<c_int> {
    let description = promotion::discovered(descriptor)?;
    let before = description.placeholder()?.state();
    let flags = flags & !(libc::O_CREAT | libc::O_EXCL);
    let place = Place::inode(before.ino);
    let store = match identity::store()? {
        Ok(store) => store,
        Err(number) => return Some(Err(number)),
    };
    match session::outcome(described(store, place, flags, mode, || before.path.clone()))? {
        Ok((mut state, file)) => {
            state.path.clone_from(&before.path);
            enter(state, file, flags)
        }
        Err(number) => Some(Err(number)),
    }
}

/// Whether a path goes up, which is not to where it came from where it went through a symbolic link before.
fn climbs(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| name == b"..")
}

fn name(directory: c_int, path: &[u8]) -> Vec<u8> {
    let base = if path.first() == Some(&b'/') {
        None
    } else if directory == libc::AT_FDCWD {
        working_directory::position().map(|(_, base)| base)
    } else {
        promotion::discovered(directory)
            .and_then(|description| description.placeholder().map(|found| found.state().path.clone()))
    };
    tree::name_below(base.as_deref(), path)
}

/// Opens at the servers; `name` is the path below the prefix.
fn described(
    store: &Store,
    place: Place<'_>,
    flags: c_int,
    mode: mode_t,
    name: impl FnOnce() -> Vec<u8>,
) -> weir_client::Result<(State, Option<File>)> {
    if flags & libc::O_PATH != 0 {
        let follow = flags & libc::O_NOFOLLOW == 0;
        let found = store.attributes(&CALLER, place, follow)?;
        if flags & libc::O_DIRECTORY != 0 && found.kind != FileKind::Directory {
            return Err(failed(libc::ENOTDIR));
        }
        return Ok((State { ino: found.ino, path: Vec::new(), kind: Kind::Path }, None));
    }
    let access = flags & libc::O_ACCMODE;
    let unnamed = flags & libc::O_TMPFILE == libc::O_TMPFILE;
    let wanted = OpenFlags {
        read: matches!(access, libc::O_RDONLY | libc::O_RDWR),
        write: matches!(access, libc::O_WRONLY | libc::O_RDWR),
        create: flags & libc::O_CREAT != 0,
        exclusive: flags & libc::O_EXCL != 0,
        truncate: flags & libc::O_TRUNC != 0,
        directory: flags & libc::O_DIRECTORY != 0 && !unnamed,
        no_follow: flags & libc::O_NOFOLLOW != 0,
        unnamed,
    };
    let opened = placement::open_at_store(store, place, wanted, mode, name)?;
    counters::served(Call::Open);
    let (ino, kind, handle, capability) =
        (opened.attributes.ino, opened.attributes.kind, opened.handle, opened.capability);
    match kind {
        FileKind::Regular => {
            let file = File::new(store, opened, flags & libc::O_APPEND != 0)?;
            let kind = Kind::Regular(Box::new(file.state()));
            Ok((State { ino, path: Vec::new(), kind }, Some(file)))
        }
        FileKind::Directory => {
            Ok((State { ino, path: Vec::new(), kind: Kind::Directory(handle, capability) }, None))
        }
        _ => {
            // Pipes, sockets and devices live in a kernel, and none knows this one.
            store.close(&CALLER, ino, handle)?;
            Err(failed(libc::ENXIO))
        }
    }
}

fn failed(number: c_int) -> weir_client::ClientError {
    weir_client::ClientError::Failed(weir_client::wire::Errno(number as u16))
}

/// Gives the description a descriptor.
fn enter(state: State, file: Option<File>, flags: c_int) -> Outcome<c_int> {
    match Placeholder::make(state, flags) {
        Ok((placeholder, descriptor, identity)) => {
            table::forget(descriptor);
            let description = Arc::new(Description::of_placeholder(identity, placeholder, file));
            table::enter(descriptor, description);
            Some(Ok(descriptor))
        }
        Err(number) => {
            if let Some(file) = file {
                // The open failed for another reason already.
                drop(file.close(&CALLER));
            }
            Some(Err(number))
        }
    }
}
