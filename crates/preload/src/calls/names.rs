//! Calls that make, move and remove names.

use crate::calls::stat;
use crate::files::paths::{self, Touch};
use crate::files::{prefix, sharing, tree};
use crate::host::guard::{self, fail, returned};
use crate::host::{addresses, kernel, umask};
use crate::placement;
use crate::recorder;
use crate::store::counters::Call;
use crate::store::session::{self, Mode, CALLER};
use libc::{c_char, c_int, c_long, c_uint, dev_t, mode_t, size_t, ssize_t};
use std::ffi::CString;
use weir_client::node_of;
use weir_client::wire::RenameMode;

/// `umask(2)`. The library remembers the mask for files that the client makes.
pub(crate) unsafe fn umask(mask: mode_t) -> mode_t {
    umask::remember(mask);
    // SAFETY: no memory is passed, and it cannot fail.
    unsafe { kernel::raw(libc::SYS_umask, [mask as usize, 0, 0, 0, 0, 0]) as mode_t }
}

/// `mkdirat(2)`.
pub(crate) unsafe fn mkdirat(directory: c_int, path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the program's own promises, here and in all functions below.
    unsafe {
        paths::call(
            (directory, path),
            Touch::Name,
            Call::Make,
            |store, place| {
                let kind = placement::directory_kind(directory, paths::text(path).unwrap_or_default());
                store.make(&CALLER, place, kind, umask::masked(mode))
            },
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

/// `mknodat(2)`. The kernel refuses a kind that does not exist.
pub(crate) unsafe fn mknodat(directory: c_int, path: *const c_char, mode: mode_t, device: dev_t) -> c_int {
    let kind = node_of(mode, device);
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
            |store, place| store.make(&CALLER, place, kind, umask::masked(mode)),
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
        if !matches!(guard::errno(), libc::EISDIR | libc::EPERM) {
            return -1;
        }
        unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR)
    }
}

/// Leaves a call on two paths to the kernel.
///
/// # Safety
/// As for the system call `number`.
unsafe fn pass_two(
    number: c_long,
    (from_directory, from): (c_int, *const c_char),
    (to_directory, to): (c_int, *const c_char),
    flags: usize,
) -> c_int {
    let arguments = [from_directory as usize, from as usize, to_directory as usize, to as usize, flags, 0];
    // SAFETY: as the caller promises.
    returned(unsafe { kernel::raw(number, arguments) })
}

/// `renameat2(2)`. The kernel refuses white-outs.
pub(crate) unsafe fn renameat2(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    let pass = || {
        // SAFETY: see `mkdirat`.
        unsafe { pass_two(libc::SYS_renameat2, (from_directory, from), (to_directory, to), flags as usize) }
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
        // Linux looks at both parents before it answers EXDEV.
        if renamed < 0 && guard::errno() == libc::EXDEV && session::mode() == Mode::Prefix {
            let missing =
                [(from_directory, from), (to_directory, to)].into_iter().find_map(|at| parent_refusal(at));
            guard::set_errno(missing.unwrap_or(libc::EXDEV));
        }
        recorder::renamed((from_directory, from), (to_directory, to), renamed)
    }
}

/// `linkat(2)`. The kernel makes links to descriptors (`AT_EMPTY_PATH`, `/proc/self/fd`).
pub(crate) unsafe fn linkat(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    sharing::settle_stand_in(from_directory);
    let pass = || {
        // SAFETY: see `mkdirat`.
        unsafe { pass_two(libc::SYS_linkat, (from_directory, from), (to_directory, to), flags as usize) }
    };
    if flags & !libc::AT_SYMLINK_FOLLOW != 0 {
        // SAFETY: see `mkdirat`.
        let is_open_file =
            flags & libc::AT_EMPTY_PATH != 0 && unsafe { is_of_descriptor(from_directory, from) };
        return if is_open_file { fail(libc::ENOENT) } else { pass() };
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
        if linked < 0 && is_of_descriptor(from_directory, from) {
            // No kernel knows the file, and the servers give a file without a name none.
            return fail(libc::ENOENT);
        }
        let is_half_seen = matches!(guard::errno(), libc::EXDEV | libc::EFAULT);
        if linked < 0 && is_half_seen && session::mode() == Mode::Prefix {
            return fail(refusal_of_half_seen_link((from_directory, from, follow), (to_directory, to)));
        }
        linked
    }
}

/// Whether a path names a placeholder by its number.
///
/// # Safety
/// `path` is null or ends with a zero byte.
unsafe fn is_of_descriptor(directory: c_int, path: *const c_char) -> bool {
    // SAFETY: as the caller promises.
    let Some(text) = (unsafe { paths::text(path) }) else { return false };
    let number = if text.is_empty() { Some(directory) } else { tree::descriptor_named(text) };
    number.is_some_and(prefix::holds)
}

/// The error of a link between the store and the host, or to a bad address. Linux looks at the first name before the second,
/// and at both before it answers EXDEV.
///
/// # Safety
/// Both paths end with a zero byte.
unsafe fn refusal_of_half_seen_link(
    (from_directory, from, follow): (c_int, *const c_char, bool),
    (to_directory, to): (c_int, *const c_char),
) -> c_int {
    // SAFETY: as the caller promises. Zeros are valid for the structure of numbers.
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
        parent_refusal((to_directory, to)).unwrap_or(libc::EXDEV)
    }
}

/// The error of the way to the directory in which a path's last name lies.
///
/// # Safety
/// The path is null or ends with a zero byte.
unsafe fn parent_refusal((directory, path): (c_int, *const c_char)) -> Option<c_int> {
    // SAFETY: as the caller promises. Zeros are valid for the structure of numbers.
    unsafe {
        let text = paths::text(path)?;
        if text.is_empty() {
            return Some(libc::ENOENT);
        }
        let name_end = text.iter().rposition(|byte| *byte != b'/')?;
        let parent = match text[..name_end].iter().rposition(|byte| *byte == b'/') {
            Some(end) => &text[..=end],
            None => b".",
        };
        let parent = CString::new(parent).ok()?;
        let mut found: libc::stat = std::mem::zeroed();
        (stat::fstatat(directory, parent.as_ptr(), &raw mut found, 0) != 0).then(guard::errno)
    }
}

/// `symlinkat(2)`. The kernel refuses a target that is empty, too long or unreadable.
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
    // SAFETY: see `mkdirat`. The copy stays inside the buffer.
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
