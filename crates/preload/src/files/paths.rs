//! Paths of the store: known by their first bytes, or by the directory at which they start.

use crate::files::tree::{self, Located};
use crate::files::{mounts, sharing, table, watches, working_directory};
use crate::host::guard::{self, attempt, finish, Failure, Outcome};
use crate::host::{addresses, kernel};
use crate::store::counters::{self, Call};
use crate::store::identity;
use crate::store::session::{self, Mode};
use libc::{c_char, c_int};
use std::borrow::Cow;
use std::ffi::CString;
use weir_client::wire::{limits, Ino};
use weir_client::{ClientError, Place, Store};

/// The effect of a call on the name at the end of its path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// The call only looks, or changes the node itself.
    Node,
    /// The call does the same, and follows a symbolic link at the end: `/proc/self/fd/N` then means the descriptor's file.
    Target,
    /// The call makes, moves or removes the name. With a mount, the mount point itself is the kernel's.
    Name,
}

impl Touch {
    /// The effect of a call that looks or changes, by whether the call follows a symbolic link at the end.
    pub(crate) fn following(follow: bool) -> Touch {
        if follow {
            Touch::Target
        } else {
            Touch::Node
        }
    }
}

/// The bytes of a path of the program. Absent for a path that the kernel refuses for its address or its length.
///
/// # Safety
/// No other thread changes the path meanwhile.
pub(crate) unsafe fn text<'a>(path: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: as the caller promises.
    unsafe { addresses::string(path, limits::PATH_BYTES) }.ok()
}

/// Whether a path may lead into the store: a few instructions for other paths.
pub(crate) fn is_candidate(directory: c_int, path: &[u8]) -> bool {
    match session::mode() {
        Mode::Off => false,
        Mode::Prefix => tree::is_candidate(directory, path),
        Mode::Mount if path.first() == Some(&b'/') => {
            let is_below = session::below_root(path).is_some();
            if !is_below {
                sharing::settle_named(path);
            }
            is_below
        }
        Mode::Mount if directory == libc::AT_FDCWD => !working_directory::is_outside_mount(),
        Mode::Mount => !table::is_foreign(directory),
    }
}

/// The place to which a path leads from `directory`.
pub(crate) fn locate(directory: c_int, path: &[u8], touch: Touch) -> Located<'_> {
    match session::mode() {
        Mode::Off => Located::Host,
        Mode::Mount => match place_on_mount(directory, path, touch) {
            Some((ino, rest)) => Located::Store(ino, Cow::Borrowed(rest)),
            None => Located::Host,
        },
        Mode::Prefix => match tree::inode_named(path).filter(|_| touch == Touch::Target) {
            Some(ino) => Located::Store(ino, Cow::Borrowed(b"")),
            None => tree::locate(directory, path),
        },
    }
}

/// The place of a path with a mount. The kernel resolves each path in doubt: `..` may leave the store, `.` and a slash at the
/// end have meanings of their own, and something may be mounted on the way. The kernel also has to see watched paths.
fn place_on_mount(directory: c_int, path: &[u8], touch: Touch) -> Option<(Ino, &[u8])> {
    let (ino, rest, start) = match path.first()? {
        b'/' => (Ino::ROOT, session::below_root(path)?, None),
        _ => {
            let (ino, found) = directory_inode(directory)?;
            (ino, path.strip_prefix(b"./").unwrap_or(path), Some(found))
        }
    };
    if watches::are_any() || !mounts::are_plain() || start.is_some_and(|found| !mounts::reach(&found)) {
        return None;
    }
    if rest.is_empty() {
        return (touch != Touch::Name).then_some((ino, rest));
    }
    let is_plain = rest.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."));
    is_plain.then_some((ino, rest))
}

/// The inode of a directory of the mount, and the kernel's other attributes of the directory. The server is not asked.
fn directory_inode(directory: c_int) -> Option<(Ino, libc::statx)> {
    let is_working = directory == libc::AT_FDCWD;
    let (path, known_foreign) = if is_working {
        (c".", working_directory::is_outside_mount())
    } else {
        (c"", table::is_foreign(directory))
    };
    if known_foreign {
        return None;
    }
    let device = session::device()?;
    let mask = libc::STATX_INO | libc::STATX_TYPE | libc::STATX_MNT_ID;
    let found = kernel::identify(directory, path, mask).ok()?;
    let is_ours = kernel::device_of(&found) == device;
    if is_working {
        working_directory::note_mount(is_ours);
    } else if !is_ours {
        table::mark_foreign(directory);
    }
    let is_directory = libc::mode_t::from(found.stx_mode) & libc::S_IFMT == libc::S_IFDIR;
    (is_ours && is_directory).then_some((Ino(found.stx_ino), found))
}

/// Does a call on one path: `operate` where the path leads into the store, else `pass` with the path to use.
///
/// # Safety
/// `path` is null or ends with a zero byte.
pub(crate) unsafe fn call<T, R: Failure>(
    (directory, path): (c_int, *const c_char),
    touch: Touch,
    kind: Call,
    operate: impl FnOnce(&Store, Place<'_>) -> weir_client::Result<T>,
    convert: impl FnOnce(T) -> R,
    pass: impl FnOnce(c_int, *const c_char) -> R,
) -> R {
    if session::mode() == Mode::Off {
        return pass(directory, path);
    }
    // SAFETY: as the caller promises.
    let Some(bytes) = (unsafe { text(path) }).filter(|bytes| is_candidate(directory, bytes)) else {
        return pass(directory, path);
    };
    let mut elsewhere = None;
    let outcome = attempt(|| match locate(directory, bytes, touch) {
        Located::Host => None,
        Located::Elsewhere(host) => {
            elsewhere = Some(host);
            None
        }
        Located::Store(ino, rest) => {
            sharing::publish_everything();
            let store = match identity::store()? {
                Ok(store) => store,
                Err(number) => return Some(Err(number)),
            };
            let result = operate(store, Place { ino, path: &rest });
            if result.is_ok() {
                counters::served(kind);
            }
            resolved(result, &mut elsewhere)
        }
    });
    let outcome = without_directory(outcome, &[(directory, bytes)]);
    finish(outcome, convert, || match &elsewhere {
        Some(host) => pass(libc::AT_FDCWD, host.as_ptr()),
        None => pass(directory, path),
    })
}

/// The outcome of a call on a path. Without a mount, a symbolic link out of the store goes on at `elsewhere`.
pub(crate) fn resolved<T>(result: weir_client::Result<T>, elsewhere: &mut Option<CString>) -> Outcome<T> {
    match result {
        Err(ClientError::Outside { path, .. }) if session::mode() == Mode::Prefix => {
            *elsewhere = CString::new(path).ok();
            if elsewhere.is_none() {
                return Some(Err(libc::ENOENT));
            }
            None
        }
        other => session::outcome(other),
    }
}

fn starts_nowhere(directory: c_int, path: &[u8]) -> bool {
    directory == libc::AT_FDCWD && !path.starts_with(b"/")
}

/// Corrects the error of a call on `path` that failed in the kernel: the kernel may not have heard yet that the working
/// directory was removed.
pub(crate) fn correct_stale(directory: c_int, path: Option<&[u8]>) {
    let is_stale = session::mode() != Mode::Off && guard::errno() == libc::ESTALE;
    if is_stale && path.is_some_and(|path| starts_nowhere(directory, path)) {
        guard::set_errno(libc::ENOENT);
    }
}

/// The outcome of a call on paths: ENOENT where a path starts at a removed working directory.
pub(crate) fn without_directory<T>(outcome: Outcome<T>, paths: &[(c_int, &[u8])]) -> Outcome<T> {
    match outcome {
        Some(Err(libc::ESTALE)) if paths.iter().any(|(at, path)| starts_nowhere(*at, path)) => {
            Some(Err(libc::ENOENT))
        }
        other => other,
    }
}

/// Whether a path leads below the prefix, where only this library knows the names.
fn leads_below_prefix(directory: c_int, path: &[u8]) -> bool {
    let lies_in_store = || Some(Ok(matches!(locate(directory, path, Touch::Name), Located::Store(..))));
    session::mode() == Mode::Prefix
        && is_candidate(directory, path)
        && attempt(lies_in_store) == Some(Ok(true))
}

/// Does a call on two paths, which the client carries only where both lead into the store.
///
/// # Safety
/// Both paths are null or end with a zero byte.
pub(crate) unsafe fn call_two<R: Failure>(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    kind: Call,
    operate: impl FnOnce(&Store, Place<'_>, Place<'_>) -> weir_client::Result<()>,
    done: R,
    pass: impl FnOnce() -> R,
) -> R {
    if session::mode() == Mode::Off {
        return pass();
    }
    // SAFETY: as the caller promises.
    let names = unsafe { (text(from.1), addresses::string(to.1, limits::PATH_BYTES)) };
    let (first, second) = match names {
        (Some(first), Ok(second)) => (first, second),
        // The kernel would look for the first name, which it does not know, before it looks at the second.
        (Some(first), Err(number)) if leads_below_prefix(from.0, first) => return guard::fail(number),
        _ => return pass(),
    };
    if !is_candidate(from.0, first) && !is_candidate(to.0, second) {
        return pass();
    }
    let outcome = attempt(|| {
        let (first, second) = (locate(from.0, first, Touch::Name), locate(to.0, second, Touch::Name));
        match (first, second) {
            (Located::Store(first, from), Located::Store(second, to)) => {
                sharing::publish_everything();
                let store = match identity::store()? {
                    Ok(store) => store,
                    Err(number) => return Some(Err(number)),
                };
                let first = Place { ino: first, path: &from };
                let result = operate(store, first, Place { ino: second, path: &to });
                if result.is_ok() {
                    counters::served(kind);
                }
                session::outcome(result)
            }
            (Located::Store(..), _) | (_, Located::Store(..)) if session::mode() == Mode::Prefix => {
                Some(Err(libc::EXDEV))
            }
            _ => None,
        }
    });
    let outcome = without_directory(outcome, &[(from.0, first), (to.0, second)]);
    finish(outcome, |()| done, pass)
}
