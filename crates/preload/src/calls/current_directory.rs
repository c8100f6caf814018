//! `chdir`, `fchdir` and `getcwd`.

use crate::files::paths::{self, Touch};
use crate::files::places::present;
use crate::files::resolution::{resolve, Rules};
use crate::files::state::Kind;
use crate::files::tree::{self, Located};
use crate::files::{prefix, promotion, working_directory};
use crate::host::guard::{self, attempt, fail, finish, quietly, returned};
use crate::host::{addresses, kernel, real};
use crate::store::identity;
use crate::store::session::{self, Mode, CALLER};
use libc::{c_char, c_int};
use std::ffi::CStr;
use weir_client::wire::{FileKind, Ino};
use weir_client::Place;

/// `chdir(2)`.
pub(crate) unsafe fn chdir(path: *const c_char) -> c_int {
    let pass = |path: *const c_char| -> c_int {
        // SAFETY: see `clone`.
        let result = returned(unsafe { kernel::raw(libc::SYS_chdir, [path as usize, 0, 0, 0, 0, 0]) });
        working_directory::forget();
        result
    };
    let result = if session::mode() == Mode::Prefix {
        // SAFETY: see `clone`.
        unsafe { change_to(path, pass) }
    } else {
        pass(path)
    };
    if result < 0 {
        // SAFETY: see `clone`.
        paths::correct_stale(libc::AT_FDCWD, unsafe { paths::text(path) });
    }
    result
}

/// `fchdir(2)`.
pub(crate) unsafe fn fchdir(descriptor: c_int) -> c_int {
    let pass = || -> c_int {
        // SAFETY: no memory is passed.
        let result = returned(unsafe { kernel::raw(libc::SYS_fchdir, [descriptor as usize, 0, 0, 0, 0, 0]) });
        working_directory::forget();
        result
    };
    if session::mode() == Mode::Prefix {
        return change_to_open(descriptor, pass);
    }
    pass()
}

/// `chdir`.
///
/// # Safety
/// `path` is null or ends with a zero byte.
pub(crate) unsafe fn change_to(path: *const c_char, pass: impl Fn(*const c_char) -> c_int) -> c_int {
    // SAFETY: as the caller promises.
    let bytes = unsafe { paths::text(path) };
    let to_host = |path: *const c_char| {
        let result = pass(path);
        if result == 0 {
            quietly(working_directory::leave);
        }
        result
    };
    let Some(bytes) = bytes.filter(|bytes| tree::is_candidate(libc::AT_FDCWD, bytes)) else {
        return to_host(path);
    };
    let mut elsewhere = None;
    let outcome = attempt(|| match paths::locate(libc::AT_FDCWD, bytes, Touch::Node) {
        Located::Host => None,
        Located::Elsewhere(host) => {
            elsewhere = Some(host);
            None
        }
        Located::Store(ino, rest) => {
            let place = Place { ino, path: &rest };
            let store = match identity::store()? {
                Ok(store) => store,
                Err(number) => return Some(Err(number)),
            };
            let found = paths::resolved(store.attributes(&CALLER, place, true), &mut elsewhere)?;
            let entered = found.and_then(|found| searchable(found.kind, found.ino));
            Some(entered.map(|entered| {
                let base = if bytes.first() == Some(&b'/') {
                    None
                } else {
                    working_directory::position().map(|(_, base)| base)
                };
                let start = if ino == Ino::ROOT { Some(&b""[..]) } else { base.as_deref() };
                let walked = start.and_then(|start| resolve(store, start, &rest, Rules::default()).ok());
                working_directory::enter(
                    entered,
                    walked.unwrap_or_else(|| tree::name_below(base.as_deref(), bytes)),
                );
            }))
        }
    });
    finish(
        outcome,
        |()| 0,
        || match &elsewhere {
            Some(host) => to_host(host.as_ptr()),
            None => to_host(path),
        },
    )
}

fn searchable(kind: FileKind, ino: Ino) -> Result<Ino, c_int> {
    if kind != FileKind::Directory {
        return Err(libc::ENOTDIR);
    }
    let store = identity::store().unwrap_or(Err(libc::EIO))?;
    let allowed = store.access(&CALLER, Place::inode(ino), libc::X_OK as u8, true);
    allowed.map(|()| ino).map_err(|error| error.errno())
}

/// The path of a directory that was opened as `opened`. The path `opened` may have led through symbolic links.
fn place_of(ino: Ino, opened: &[u8]) -> Vec<u8> {
    let walked = session::store().and_then(|store| {
        let path = resolve(store, b"", opened, Rules::default()).ok()?;
        let found = store.attributes(&CALLER, Place { ino: Ino::ROOT, path: &path }, false).ok()?;
        (found.ino == ino).then_some(path)
    });
    walked.unwrap_or_else(|| opened.to_vec())
}

/// `fchdir`.
pub(crate) fn change_to_open(descriptor: c_int, pass: impl FnOnce() -> c_int) -> c_int {
    let outcome = if prefix::may_hold(descriptor) {
        attempt(|| {
            let description = promotion::discovered(descriptor)?;
            let placeholder = description.placeholder()?;
            let state = placeholder.state();
            let kind = match state.kind {
                Kind::Directory(..) | Kind::Path => placeholder.attributes()?.map(|found| found.kind),
                Kind::Regular(_) => Err(libc::ENOTDIR),
            };
            let entered = kind.and_then(|kind| searchable(kind, state.ino));
            Some(entered.map(|ino| working_directory::enter(ino, place_of(ino, &state.path))))
        })
    } else {
        None
    };
    finish(
        outcome,
        |()| 0,
        || {
            let result = pass();
            if result == 0 && session::mode() == Mode::Prefix {
                quietly(working_directory::leave);
            }
            result
        },
    )
}

/// The absolute path of the working directory in the store, which was entered at this place. Others may have moved it since.
fn present_path((ino, known): (Ino, Vec<u8>)) -> Result<Vec<u8>, c_int> {
    if let Some(Ok(store)) = identity::store() {
        let path = present(store, ino, &known)?;
        if path != known {
            working_directory::enter(ino, path);
        }
    }
    working_directory::current_path().ok_or(libc::ENOENT)
}

/// `getcwd` below the prefix: null with errno where the buffer is too short. `None` where the kernel knows the working
/// directory.
pub(crate) fn answer_to(buffer: *mut c_char, size: usize) -> Option<*mut c_char> {
    if session::mode() != Mode::Prefix || guard::is_inside() {
        return None;
    }
    let path = match attempt(|| Some(present_path(working_directory::position()?))) {
        Some(Ok(path)) => path,
        Some(Err(number)) => return Some(fail(number)),
        None => return None,
    };
    if !buffer.is_null() && size == 0 {
        return Some(fail(libc::EINVAL));
    }
    let needed = path.len() + 1;
    if size != 0 && size < needed {
        return Some(fail(libc::ERANGE));
    }
    Some(give_path(&path, buffer, size.max(needed)))
}

/// Puts a path into the program's `buffer`, or into `heap_bytes` of the program's heap where `buffer` is null. Answers the
/// place, or null with errno.
pub(crate) fn give_path(path: &[u8], buffer: *mut c_char, heap_bytes: usize) -> *mut c_char {
    if !buffer.is_null() && !addresses::can_write(buffer, path.len() + 1) {
        return fail(libc::EFAULT);
    }
    // SAFETY: the buffer of the program, or the new one of its heap, has room for the path and its zero byte.
    unsafe {
        let target = if buffer.is_null() { libc::malloc(heap_bytes).cast() } else { buffer };
        if target.is_null() {
            return fail(libc::ENOMEM);
        }
        std::ptr::copy_nonoverlapping(path.as_ptr().cast(), target, path.len());
        *target.add(path.len()) = 0;
        target
    }
}

/// The system call `getcwd`, for programs that make it by its number.
pub(crate) fn kernel_answer(buffer: *mut c_char, size: usize) -> isize {
    match answer_to(buffer, size) {
        Some(answer) if answer.is_null() => -1,
        // SAFETY: the answer ends with the zero byte that was just written.
        Some(answer) => unsafe { CStr::from_ptr(answer).to_bytes_with_nul().len() as isize },
        None => {
            // SAFETY: the buffer is the program's own promise.
            guard::returned(unsafe { kernel::raw(libc::SYS_getcwd, [buffer as usize, size, 0, 0, 0, 0]) })
        }
    }
}

/// `getcwd(3)`.
pub(crate) unsafe fn getcwd(buffer: *mut c_char, size: usize) -> *mut c_char {
    match answer_to(buffer, size) {
        Some(answer) => answer,
        // SAFETY: see `realpath`.
        None => unsafe { real::getcwd(buffer, size) },
    }
}

/// `getwd(3)`. libc's own function writes its message to the buffer where it fails.
pub(crate) unsafe fn getwd(buffer: *mut c_char) -> *mut c_char {
    let answer = (!buffer.is_null()).then(|| answer_to(buffer, libc::PATH_MAX as usize));
    // SAFETY: see `realpath`.
    answer.flatten().unwrap_or_else(|| unsafe { real::getwd(buffer) })
}
