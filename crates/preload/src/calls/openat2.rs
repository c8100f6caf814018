//! `openat2(2)` below the prefix.

use crate::calls::open;
use crate::files::resolution::{resolve, start_of, Rules};
use crate::files::{paths, prefix};
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
    let flags = c_int::try_from(how.flags).ok()?;
    let known = NO_DEVICES | NO_MAGIC | NO_LINKS | BENEATH | IN_ROOT | CACHED;
    let is_contrary = how.resolve & BENEATH != 0 && how.resolve & IN_ROOT != 0;
    let resolved = attempt(|| {
        let start = start_of(directory, bytes, how.resolve & (BENEATH | IN_ROOT) != 0)?;
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
        // The name may have become a link meanwhile, which was not looked at.
        // SAFETY: the path ends with a zero byte.
        Ok(found) if how.resolve != 0 => unsafe {
            open::openat(libc::AT_FDCWD, found.as_ptr(), flags | libc::O_NOFOLLOW, how.mode as mode_t)
        },
        // SAFETY: as the caller promises.
        Ok(_) => unsafe { open::openat(directory, path, flags, how.mode as mode_t) },
        Err(number) => guard::fail(number),
    })
}
