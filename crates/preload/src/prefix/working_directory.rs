//! The working directory inside the store, which the kernel cannot have.

use crate::exec::Strings;
use crate::guard::{self, attempt, fail, finish, quietly};
use crate::kernel::{self, system_call};
use crate::paths::{self, Located, Touch};
use crate::prefix::resolution::{resolve, Rules};
use crate::prefix::{tree, Kind};
use crate::session::{self, Mode, CALLER};
use crate::{addresses, identity, promotion};
use libc::{c_char, c_int};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_client::wire::{FileKind, Ino};
use weir_client::Place;

/// Where a child finds the working directory inside the store: `inode-in-hexadecimal:path`.
const VARIABLE: &CStr = c"WEIR_CWD";

/// Longest string of an environment (`MAX_ARG_STRLEN`); the kernel refuses longer ones.
const ENTRY_BYTES: usize = 131_072;

const UNKNOWN: u8 = 0;
/// A directory of the host below which no path leads to the prefix.
const HOST: u8 = 1;
/// A directory of the host above the prefix.
const ABOVE: u8 = 2;
const STORE: u8 = 3;

static PLACE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// Whether the variable still counts: until the first `chdir` to the host.
static INHERITED: AtomicBool = AtomicBool::new(true);
static POSITION: Mutex<Option<(Ino, Vec<u8>)>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<(Ino, Vec<u8>)>> {
    POSITION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a relative path can lead into the store: a few instructions.
pub(crate) fn may_lead_into_store() -> bool {
    PLACE.load(Ordering::Acquire) != HOST
}

/// The working directory, where it is in the store: its inode and its path below the prefix.
pub(crate) fn position() -> Option<(Ino, Vec<u8>)> {
    learn();
    if PLACE.load(Ordering::Acquire) == STORE {
        lock().clone()
    } else {
        None
    }
}

/// The working directory, where it is the host's and above the prefix.
pub(crate) fn host() -> Option<Vec<u8>> {
    learn();
    (PLACE.load(Ordering::Acquire) == ABOVE).then(kernel_directory).flatten()
}

fn kernel_directory() -> Option<Vec<u8>> {
    let mut buffer = [0_u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer has this length; the answer's length counts the zero byte.
    let length = unsafe { system_call!(libc::SYS_getcwd, buffer.as_mut_ptr(), buffer.len()) }.ok()?;
    Some(buffer[..length.checked_sub(1)?].to_vec())
}

/// Finds out after the start of the process, or after a `chdir`.
fn learn() {
    if PLACE.load(Ordering::Acquire) != UNKNOWN {
        return;
    }
    let inherited = std::env::var_os("WEIR_CWD").filter(|_| INHERITED.load(Ordering::Acquire));
    if let Some(inherited) = inherited.filter(|value| !value.is_empty()) {
        if let Some((ino, path)) = inherited.as_bytes().split_once_colon() {
            *lock() = Some((ino, path));
            PLACE.store(STORE, Ordering::Release);
            return;
        }
    }
    let above = kernel_directory().is_some_and(|directory| {
        let rest = session::root().strip_prefix(directory.as_slice());
        rest.is_some_and(|rest| directory == b"/" || rest.first() == Some(&b'/'))
    });
    PLACE.store(if above { ABOVE } else { HOST }, Ordering::Release);
}

trait Inherited {
    fn split_once_colon(&self) -> Option<(Ino, Vec<u8>)>;
}

impl Inherited for [u8] {
    fn split_once_colon(&self) -> Option<(Ino, Vec<u8>)> {
        let colon = self.iter().position(|byte| *byte == b':')?;
        let number = std::str::from_utf8(&self[..colon]).ok()?;
        Some((Ino(u64::from_str_radix(number, 16).ok()?), self[colon + 1..].to_vec()))
    }
}

fn variable(ino: Ino, path: &[u8]) -> Option<CString> {
    CString::new([format!("{:x}:", ino.0).as_bytes(), path].concat()).ok()
}

/// The process is in a directory of the store now. The program's environment is left alone, because some programs
/// (bash) keep their own index of it; children get the variable when they are made.
fn enter(ino: Ino, path: Vec<u8>) {
    *lock() = Some((ino, path));
    PLACE.store(STORE, Ordering::Release);
}

/// The process went to a directory of the host.
fn leave() {
    *lock() = None;
    PLACE.store(UNKNOWN, Ordering::Release);
    INHERITED.store(false, Ordering::Release);
}

/// `chdir`.
///
/// # Safety
/// `path` is null or ends with a zero byte.
pub(crate) unsafe fn chdir(path: *const c_char, pass: impl Fn(*const c_char) -> c_int) -> c_int {
    // SAFETY: as the caller promises.
    let bytes = unsafe { paths::text(path) };
    let to_host = |path: *const c_char| {
        let result = pass(path);
        if result == 0 {
            quietly(leave);
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
                let base = if bytes.first() == Some(&b'/') { None } else { position().map(|(_, base)| base) };
                let start = if ino == Ino::ROOT { Some(&b""[..]) } else { base.as_deref() };
                let walked = start.and_then(|start| resolve(store, start, &rest, Rules::default()).ok());
                enter(entered, walked.unwrap_or_else(|| tree::name_below(base.as_deref(), bytes)));
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

/// The path of a directory that was opened as `opened`, which may have led through symbolic links.
fn place_of(ino: Ino, opened: &[u8]) -> Vec<u8> {
    let walked = session::store().and_then(|store| {
        let path = resolve(store, b"", opened, Rules::default()).ok()?;
        let found = store.attributes(&CALLER, Place { ino: Ino::ROOT, path: &path }, false).ok()?;
        (found.ino == ino).then_some(path)
    });
    walked.unwrap_or_else(|| opened.to_vec())
}

/// `fchdir`.
pub(crate) fn fchdir(descriptor: c_int, pass: impl FnOnce() -> c_int) -> c_int {
    let outcome = if super::may_hold(descriptor) {
        attempt(|| {
            let description = promotion::discovered(descriptor)?;
            let placeholder = description.placeholder()?;
            let state = placeholder.state();
            let kind = match state.kind {
                Kind::Directory(..) | Kind::Path => placeholder.attributes()?.map(|found| found.kind),
                Kind::Regular(_) => Err(libc::ENOTDIR),
            };
            let entered = kind.and_then(|kind| searchable(kind, state.ino));
            Some(entered.map(|ino| enter(ino, place_of(ino, &state.path))))
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
                quietly(leave);
            }
            result
        },
    )
}

/// The absolute path of the working directory, where it is in the store.
pub(crate) fn current_path() -> Option<Vec<u8>> {
    let (_, path) = position()?;
    let mut whole = session::root().to_vec();
    if !path.is_empty() {
        whole.push(b'/');
        whole.extend_from_slice(&path);
    }
    Some(whole)
}

/// Runs `call` with an environment in which the child finds the working directory inside the store.
///
/// # Safety
/// `environment` is null or a null-terminated list of C strings.
pub(crate) unsafe fn with_environment<R>(environment: Strings, call: impl FnOnce(Strings) -> R) -> R {
    if session::mode() != Mode::Prefix || guard::is_inside() || environment.is_null() {
        return call(environment);
    }
    let mut list: Vec<*const c_char> = Vec::new();
    let mut entry = None;
    let mut is_readable = true;
    quietly(|| {
        entry = position().and_then(|(ino, path)| {
            let value = variable(ino, &path)?;
            CString::new([VARIABLE.to_bytes(), b"=", value.to_bytes()].concat()).ok()
        });
        let name = [VARIABLE.to_bytes(), b"="].concat();
        let mut cursor = environment;
        // SAFETY: as the caller promises, but for addresses that the kernel refuses.
        unsafe {
            loop {
                is_readable = addresses::can_read(cursor, 1);
                if !is_readable || (*cursor).is_null() {
                    break;
                }
                match addresses::string(*cursor, ENTRY_BYTES) {
                    Ok(text) if text.starts_with(&name) => {}
                    Err(libc::EFAULT) => {
                        is_readable = false;
                        break;
                    }
                    _ => list.push(*cursor),
                }
                cursor = cursor.add(1);
            }
        }
        list.extend(entry.as_ref().map(|entry| entry.as_ptr()));
        list.push(std::ptr::null());
    });
    let result = call(if is_readable { list.as_ptr() } else { environment });
    drop(entry);
    result
}

/// `getcwd`: `fail` where the buffer is too short; `None` where the kernel's directory is the right one.
pub(crate) fn answer_to(buffer: *mut c_char, size: usize) -> Option<*mut c_char> {
    if session::mode() != Mode::Prefix || guard::is_inside() {
        return None;
    }
    let path = match attempt(|| current_path().map(Ok)) {
        Some(Ok(path)) => path,
        _ => return None,
    };
    if !buffer.is_null() && size == 0 {
        return Some(fail(libc::EINVAL));
    }
    let needed = path.len() + 1;
    if size != 0 && size < needed {
        return Some(fail(libc::ERANGE));
    }
    if !buffer.is_null() && !addresses::can_write(buffer, needed) {
        return Some(fail(libc::EFAULT));
    }
    // SAFETY: the buffer of the program, or one of its heap, has room for the path and its zero byte.
    unsafe {
        let target = if buffer.is_null() { libc::malloc(size.max(needed)).cast() } else { buffer };
        if target.is_null() {
            return Some(fail(libc::ENOMEM));
        }
        std::ptr::copy_nonoverlapping(path.as_ptr().cast(), target, path.len());
        *target.add(path.len()) = 0;
        Some(target)
    }
}

/// The raw `getcwd` system call, for programs that make it themselves.
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
