//! The opening of a file of the store without a mount.

use crate::files::description::Description;
use crate::files::paths::{self, Touch};
use crate::files::placeholder::Placeholder;
use crate::files::resolution::{resolve, start_of, Rules};
use crate::files::state::{Kind, State};
use crate::files::tree::{self, Located};
use crate::files::{prefix, promotion, table};
use crate::host::guard::{self, attempt, finish, Outcome};
use crate::placement;
use crate::store::counters::{self, Call};
use crate::store::identity;
use crate::store::session::{self, CALLER};
use libc::{c_char, c_int, mode_t};
use std::ffi::CString;
use std::sync::Arc;
use weir_client::wire::{FileKind, OpenFlags};
use weir_client::{File, Place, Store};

/// `openat` without a mount.
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
    if let Some(descriptor) = text.and_then(tree::descriptor_named).filter(|number| prefix::holds(*number)) {
        return finish(
            attempt(|| reopen(descriptor, flags, mode)),
            |opened| opened,
            || pass(directory, path),
        );
    }
    let Some(bytes) = text.filter(|bytes| paths::is_candidate(directory, bytes)) else {
        return pass(directory, path);
    };
    let is_unnamed = flags & libc::O_PATH == 0 && flags & libc::O_TMPFILE == libc::O_TMPFILE;
    if is_unnamed && (flags & libc::O_CREAT != 0 || flags & libc::O_ACCMODE == libc::O_RDONLY) {
        return guard::fail(libc::EINVAL);
    }
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
            let opened = described(store, place, flags, mode, || tree::name(directory, bytes));
            let (mut state, file) = match paths::resolved(opened, &mut elsewhere)? {
                Ok(opened) => opened,
                Err(number) => return Some(Err(number)),
            };
            let walked = climbs(bytes) && !matches!(state.kind, Kind::Regular(_));
            state.path = walked
                .then(|| resolve(store, &start_of(directory, bytes, false)?, bytes, Rules::default()).ok())
                .flatten()
                .unwrap_or_else(|| tree::name(directory, bytes));
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

/// Opens the node behind a placeholder once more, as the kernel does for `/proc/self/fd`.
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

/// Whether a path goes up. After a symbolic link, the way up leads to another directory than the path's bytes say.
fn climbs(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| name == b"..")
}

/// Opens a node at the servers. `name` is the path below the prefix.
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
            return Err(session::failed(libc::ENOTDIR));
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
            // Pipes, sockets and devices live in a kernel, and no kernel knows this node.
            store.close(&CALLER, ino, handle)?;
            Err(session::failed(libc::ENXIO))
        }
    }
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
                // The open has failed for another reason already.
                drop(file.close(&CALLER));
            }
            Some(Err(number))
        }
    }
}
