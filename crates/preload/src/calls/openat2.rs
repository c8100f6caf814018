//! `openat2(2)` below the prefix.

use crate::calls::open;
use crate::files::resolution::{resolve, start_of, Rules};
use crate::files::{paths, prefix, promotion};
use crate::host::addresses;
use crate::host::guard::{self, attempt};
use crate::store::{identity, session};
use libc::{c_char, c_int, mode_t};
use std::ffi::CString;

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

/// Flags of an open that follows no link at its path's end, because the name has to be new.
const MAKES_ANEW: c_int = libc::O_CREAT | libc::O_EXCL;

impl How {
    /// The error of a request that no walk along `path` can fulfil.
    fn refusal(&self, path: &[u8]) -> Option<c_int> {
        let known = NO_DEVICES | NO_MAGIC | NO_LINKS | BENEATH | IN_ROOT | CACHED;
        let is_contrary = self.resolve & BENEATH != 0 && self.resolve & IN_ROOT != 0;
        if self.resolve & !known != 0 || is_contrary || self.mode & !0o7777 != 0 {
            return Some(libc::EINVAL);
        }
        if path.is_empty() {
            return Some(libc::ENOENT);
        }
        if self.resolve & CACHED != 0 {
            return Some(libc::EAGAIN);
        }
        // The way begins at the host's root, on another device.
        let is_from_host = path.starts_with(b"/") && self.resolve & IN_ROOT == 0;
        (self.resolve & NO_DEVICES != 0 && is_from_host).then_some(libc::EXDEV)
    }

    fn rules(&self, flags: c_int) -> Rules {
        Rules {
            no_links: self.resolve & NO_LINKS != 0,
            beneath: self.resolve & BENEATH != 0,
            in_root: self.resolve & IN_ROOT != 0,
            keeps_last: flags & libc::O_NOFOLLOW != 0 || flags & MAKES_ANEW == MAKES_ANEW,
            makes_last: flags & libc::O_CREAT != 0,
        }
    }
}

/// `openat2(2)`. `None` where the kernel has to answer. The names of the way are looked at one after the other, so a name that
/// changes meanwhile is not noticed. The last name is opened as it was found, or not at all.
///
/// # Safety
/// `path` and `how` are the program's own, or bad addresses.
pub(crate) unsafe fn open_how(
    directory: c_int,
    path: *const c_char,
    how: *const u8,
    size: usize,
) -> Option<c_int> {
    if !prefix::is_in_use() || size < size_of::<How>() || !addresses::can_read(how.cast::<How>(), 1) {
        return None;
    }
    // SAFETY: the structure was found readable, and the path is as the caller promises.
    let (how, bytes) = unsafe { (how.cast::<How>().read_unaligned(), paths::text(path)?) };
    if !paths::is_candidate(directory, bytes) && !prefix::holds(directory) {
        return None;
    }
    if !bytes.is_empty() && !bytes.starts_with(b"/") && prefix::is_file(directory) {
        return Some(guard::fail(libc::ENOTDIR));
    }
    let flags = c_int::try_from(how.flags).ok()?;
    let resolved = attempt(|| {
        let start = start_of(directory, bytes, how.resolve & (BENEATH | IN_ROOT) != 0)?;
        if let Some(number) = how.refusal(bytes) {
            return Some(Err(number));
        }
        let store = match identity::store()? {
            Ok(store) => store,
            Err(number) => return Some(Err(number)),
        };
        let found = resolve(store, &start, bytes, how.rules(flags));
        Some(found.and_then(|found| {
            if how.resolve != 0 && flags & libc::O_CREAT != 0 && bytes.ends_with(b"/") {
                return Err(libc::EISDIR);
            }
            CString::new([session::root(), b"/", &found[..]].concat()).map_err(|_| libc::ENOENT)
        }))
    });
    Some(match resolved? {
        Ok(found) if how.resolve != 0 => {
            // The name may have become a link meanwhile, which was not looked at. A slash at its end asks for a directory.
            let is_directory = bytes.ends_with(b"/");
            let added = libc::O_NOFOLLOW | if is_directory { libc::O_DIRECTORY } else { 0 };
            // SAFETY: the path ends with a zero byte.
            let opened =
                unsafe { open::openat(libc::AT_FDCWD, found.as_ptr(), flags | added, how.mode as mode_t) };
            if opened >= 0 {
                forget_flags(opened, added & !flags);
            }
            opened
        }
        // SAFETY: as the caller promises.
        Ok(_) => unsafe { open::openat(directory, path, flags, how.mode as mode_t) },
        Err(number) => guard::fail(number),
    })
}

/// Takes flags away that the program did not name, so that `F_GETFL` does not show them.
fn forget_flags(opened: c_int, added: c_int) {
    guard::quietly(|| {
        let description = promotion::discovered(opened);
        if let Some(placeholder) = description.as_ref().and_then(|found| found.placeholder()) {
            placeholder.forget_flags(added);
        }
    });
}
