//! Calls that make, move and remove names.

use crate::counters::Call;
use crate::guard::{self, fail, returned};
use crate::paths::{self, Touch};
use crate::recorder;
use crate::session::{self, Mode, CALLER};
use crate::stat;
use crate::{addresses, kernel};
use libc::{c_char, c_int, c_uint, dev_t, mode_t, size_t, ssize_t};
use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering};
use weir_client::wire::{NodeKind, RenameMode};

/// No file mode creation mask has this value: it is not known yet.
const UMASK_UNKNOWN: u32 = u32::MAX;
static UMASK: AtomicU32 = AtomicU32::new(UMASK_UNKNOWN);

/// `umask(2)`, remembered for what the client makes.
pub(crate) unsafe fn umask(mask: mode_t) -> mode_t {
    UMASK.store(mask & 0o777, Ordering::Release);
    // SAFETY: no memory is passed, and it cannot fail.
    unsafe { kernel::raw(libc::SYS_umask, [mask as usize, 0, 0, 0, 0, 0]) as mode_t }
}

/// Permission bits less the process's mask.
pub(crate) fn masked(permissions: mode_t) -> u16 {
    (permissions & !current_umask() & 0o7777) as u16
}

/// The mask can be read without changing it (for other threads) only from the process status; where that is missing,
/// setting it twice has to do.
fn current_umask() -> u32 {
    let known = UMASK.load(Ordering::Acquire);
    if known != UMASK_UNKNOWN {
        return known;
    }
    let told = std::fs::read_to_string("/proc/thread-self/status").ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
        u32::from_str_radix(line.trim(), 8).ok()
    });
    let mask = told.unwrap_or_else(|| {
        // SAFETY: no memory is passed, and neither can fail.
        unsafe {
            let mask = kernel::raw(libc::SYS_umask, [0o077, 0, 0, 0, 0, 0]);
            kernel::raw(libc::SYS_umask, [mask as usize, 0, 0, 0, 0, 0]);
            mask as u32
        }
    });
    UMASK.store(mask, Ordering::Release);
    mask
}

/// `mkdirat(2)`.
pub(crate) unsafe fn mkdirat(directory: c_int, path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the program's own promises, here and in all functions below.
    unsafe {
        paths::call(
            (directory, path),
            Touch::Name,
            Call::Make,
            |store, place| store.make(&CALLER, place, NodeKind::Directory, masked(mode)),
            |_| 0,
            |directory, path| {
                returned(kernel::raw(
                    libc::SYS_mkdirat,
                    [directory as usize, path as usize, mode as usize, 0, 0, 0],
                ))
            },
        )
    }
}

/// `mknodat(2)`. A kind that does not exist is the kernel's to refuse.
pub(crate) unsafe fn mknodat(directory: c_int, path: *const c_char, mode: mode_t, device: dev_t) -> c_int {
    let kind = match mode & libc::S_IFMT {
        0 | libc::S_IFREG => Some(NodeKind::Regular),
        libc::S_IFIFO => Some(NodeKind::Fifo),
        libc::S_IFSOCK => Some(NodeKind::Socket),
        libc::S_IFCHR => Some(NodeKind::CharacterDevice(device)),
        libc::S_IFBLK => Some(NodeKind::BlockDevice(device)),
        _ => None,
    };
    let pass = |directory: c_int, path: *const c_char| {
        let arguments = [directory as usize, path as usize, mode as usize, device as usize, 0, 0];
        // SAFETY: see `mkdirat`.
        returned(unsafe { kernel::raw(libc::SYS_mknodat, arguments) })
    };
    let Some(kind) = kind else { return pass(directory, path) };
    // SAFETY: see `mkdirat`.
    unsafe {
        paths::call(
            (directory, path),
            Touch::Name,
            Call::Make,
            |store, place| store.make(&CALLER, place, kind, masked(mode)),
            |_| 0,
            pass,
        )
    }
}

/// `unlinkat(2)`.
pub(crate) unsafe fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    let pass = |directory: c_int, path: *const c_char| {
        let arguments = [directory as usize, path as usize, flags as usize, 0, 0, 0];
        // SAFETY: see `mkdirat`.
        returned(unsafe { kernel::raw(libc::SYS_unlinkat, arguments) })
    };
    if flags & !libc::AT_REMOVEDIR != 0 {
        return pass(directory, path);
    }
    let is_directory = flags & libc::AT_REMOVEDIR != 0;
    // SAFETY: see `mkdirat`.
    unsafe {
        let removed = paths::call(
            (directory, path),
            Touch::Name,
            Call::Unlink,
            |store, place| store.unlink(&CALLER, place, is_directory),
            |()| 0,
            pass,
        );
        if is_directory {
            removed
        } else {
            recorder::unlinked(directory, path, removed)
        }
    }
}

/// `remove(3)`: `unlink`, and `rmdir` for a directory.
pub(crate) unsafe fn remove(path: *const c_char) -> c_int {
    // SAFETY: see `mkdirat`.
    unsafe {
        if unlinkat(libc::AT_FDCWD, path, 0) == 0 {
            return 0;
        }
        // Linux says EISDIR, POSIX EPERM.
        if !matches!(crate::guard::errno(), libc::EISDIR | libc::EPERM) {
            return -1;
        }
        unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR)
    }
}

/// `renameat2(2)`. White-outs are the kernel's to refuse.
pub(crate) unsafe fn renameat2(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    let pass = || {
        let arguments =
            [from_directory as usize, from as usize, to_directory as usize, to as usize, flags as usize, 0];
        // SAFETY: see `mkdirat`.
        returned(unsafe { kernel::raw(libc::SYS_renameat2, arguments) })
    };
    let mode = match flags {
        0 => RenameMode::Replace,
        libc::RENAME_NOREPLACE => RenameMode::NoReplace,
        libc::RENAME_EXCHANGE => RenameMode::Exchange,
        _ => return pass(),
    };
    // SAFETY: see `mkdirat`.
    unsafe {
        let renamed = paths::call_two(
            (from_directory, from),
            (to_directory, to),
            Call::Rename,
            |store, from, to| store.rename(&CALLER, from, to, mode),
            0,
            pass,
        );
        recorder::renamed((from_directory, from), (to_directory, to), renamed)
    }
}

/// `linkat(2)`. Links to descriptors (`AT_EMPTY_PATH`, `/proc/self/fd`) are the kernel's.
pub(crate) unsafe fn linkat(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    let pass = || {
        let arguments =
            [from_directory as usize, from as usize, to_directory as usize, to as usize, flags as usize, 0];
        // SAFETY: see `mkdirat`.
        returned(unsafe { kernel::raw(libc::SYS_linkat, arguments) })
    };
    if flags & !libc::AT_SYMLINK_FOLLOW != 0 {
        return pass();
    }
    let follow = flags & libc::AT_SYMLINK_FOLLOW != 0;
    // SAFETY: see `mkdirat`.
    unsafe {
        let linked = paths::call_two(
            (from_directory, from),
            (to_directory, to),
            Call::Link,
            |store, from, to| store.link(&CALLER, from, follow, to).map(drop),
            0,
            pass,
        );
        // Neither the kernel nor the servers saw both names.
        let is_half_seen = matches!(guard::errno(), libc::EXDEV | libc::EFAULT);
        if linked < 0 && is_half_seen && session::mode() == Mode::Prefix {
            return fail(refusal_of_half_seen_link((from_directory, from, follow), (to_directory, to)));
        }
        linked
    }
}

/// Why a link between the store and the host, or to a bad address, fails: Linux looks at the first name before it minds
/// the second, and at both before it says EXDEV.
///
/// # Safety
/// Both paths end with a zero byte.
unsafe fn refusal_of_half_seen_link(
    (from_directory, from, follow): (c_int, *const c_char, bool),
    (to_directory, to): (c_int, *const c_char),
) -> c_int {
    // SAFETY: as the caller promises; zeros are valid for the structure of numbers.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
        if stat::fstatat(from_directory, from, &raw mut found, flags) != 0 {
            return guard::errno();
        }
        if stat::fstatat(to_directory, to, &raw mut found, libc::AT_SYMLINK_NOFOLLOW) == 0 {
            return libc::EEXIST;
        }
        if guard::errno() != libc::ENOENT {
            return guard::errno();
        }
        let parent = paths::text(to).and_then(|to| {
            let end = to.iter().rposition(|byte| *byte == b'/')?;
            CString::new(&to[..=end]).ok()
        });
        match parent {
            Some(parent) if stat::fstatat(to_directory, parent.as_ptr(), &raw mut found, 0) != 0 => {
                guard::errno()
            }
            _ => libc::EXDEV,
        }
    }
}

/// `symlinkat(2)`. Limits on the target's length are the kernel's to enforce.
pub(crate) unsafe fn symlinkat(target: *const c_char, directory: c_int, path: *const c_char) -> c_int {
    let pass = |directory: c_int, path: *const c_char| {
        let arguments = [target as usize, directory as usize, path as usize, 0, 0, 0];
        // SAFETY: see `mkdirat`.
        returned(unsafe { kernel::raw(libc::SYS_symlinkat, arguments) })
    };
    // SAFETY: see `mkdirat`.
    let Some(bytes) = unsafe { paths::text(target) }.filter(|bytes| !bytes.is_empty()) else {
        return pass(directory, path);
    };
    // SAFETY: see `mkdirat`.
    unsafe {
        paths::call(
            (directory, path),
            Touch::Name,
            Call::Link,
            |store, place| store.symlink(&CALLER, place, bytes),
            |_| 0,
            pass,
        )
    }
}

/// `readlinkat(2)`.
pub(crate) unsafe fn readlinkat(
    directory: c_int,
    path: *const c_char,
    buffer: *mut c_char,
    size: size_t,
) -> ssize_t {
    let pass = |directory: c_int, path: *const c_char| {
        let arguments = [directory as usize, path as usize, buffer as usize, size, 0, 0];
        // SAFETY: see `mkdirat`.
        returned(unsafe { kernel::raw(libc::SYS_readlinkat, arguments) })
    };
    if buffer.is_null() || size == 0 {
        return pass(directory, path);
    }
    // SAFETY: see `mkdirat`; the copy stays inside the buffer.
    unsafe {
        paths::call(
            (directory, path),
            Touch::Node,
            Call::ReadLink,
            |store, place| store.read_link(&CALLER, place),
            |target| {
                let length = target.len().min(size);
                if !addresses::can_write(buffer, length) {
                    return fail(libc::EFAULT);
                }
                std::ptr::copy_nonoverlapping(target.as_ptr().cast(), buffer, length);
                length as ssize_t
            },
            pass,
        )
    }
}

/// `mkfifoat(3)`.
pub(crate) unsafe fn mkfifoat(directory: c_int, path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: see `mkdirat`.
    unsafe { mknodat(directory, path, mode | libc::S_IFIFO, 0) }
}

/// `__xmknodat` of the C libraries before 2.33.
pub(crate) unsafe fn xmknodat(
    version: c_int,
    directory: c_int,
    path: *const c_char,
    mode: mode_t,
    device: *const dev_t,
) -> c_int {
    if version != 0 {
        return fail(libc::EINVAL);
    }
    // SAFETY: see `mkdirat`.
    unsafe { mknodat(directory, path, mode, *device) }
}
