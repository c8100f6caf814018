//! Calls that change permissions, owners, times and size.

use crate::calls::stat;
use crate::files::description::Description;
use crate::files::paths::{self, Touch};
use crate::files::{prefix, promotion, sharing, stand_ins, table};
use crate::host::guard::{attempt, fail, finish, returned, Outcome};
use crate::host::{addresses, file_size, kernel, real};
use crate::store::counters::{self, Call};
use crate::store::identity;
use crate::store::session::{self, Mode, CALLER};
use libc::{c_char, c_int, gid_t, mode_t, off_t, timespec, timeval, uid_t, utimbuf};
use weir_client::wire::{AttributeChange, FileKind, Moment};
use weir_client::{Place, Store};

/// Nanoseconds of a microsecond.
const NANOSECONDS: i64 = 1000;

/// Changes attributes of a path.
///
/// # Safety
/// `path` is null or ends with a zero byte.
unsafe fn change(
    at: (c_int, *const c_char),
    follow: bool,
    kind: Call,
    change: AttributeChange,
    pass: impl FnOnce(c_int, *const c_char) -> c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        paths::call(
            at,
            Touch::following(follow),
            kind,
            |store, place| store.change(&CALLER, place, follow, change),
            |_| 0,
            pass,
        )
    }
}

/// Runs `operate` on the inode of a descriptor, where no kernel knows the store. With a mount the kernel gets pending times
/// first, and then does the call.
pub(crate) fn on_descriptor<T>(
    descriptor: c_int,
    kind: Call,
    operate: impl FnOnce(&Store, Place<'_>) -> weir_client::Result<T>,
) -> Outcome<T> {
    sharing::publish_stand_in(descriptor);
    if !prefix::may_hold(descriptor) && !stand_ins::hold(descriptor) {
        return None;
    }
    let outcome = attempt(|| {
        let ino = promotion::discovered(descriptor)?.ino_beside_kernel()?;
        let store = match identity::store()? {
            Ok(store) => store,
            // These calls depend on the file's owner, not on the mode of the descriptor.
            Err(number) => {
                return Some(Err(if matches!(kind, Call::Change) { libc::EPERM } else { number }));
            }
        };
        let result = operate(store, Place::inode(ino));
        if result.is_ok() {
            counters::served(kind);
        }
        session::outcome(result)
    });
    if outcome.is_none() {
        sharing::settle(descriptor);
    }
    outcome
}

fn change_descriptor(descriptor: c_int, change: AttributeChange, pass: impl FnOnce() -> c_int) -> c_int {
    let changed =
        on_descriptor(descriptor, Call::Change, |store, place| store.change(&CALLER, place, true, change));
    finish(changed, |_| 0, pass)
}

/// `fchmodat(3)`.
pub(crate) unsafe fn fchmodat(directory: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int {
    // SAFETY: the program's own promises, here and in all functions below.
    unsafe {
        change_mode((directory, path), mode, flags, |directory, path| {
            if flags != 0 {
                // libc knows the newer call of the kernel that understands the flags.
                return real::fchmodat(directory, path, mode, flags);
            }
            let arguments = [directory as usize, path as usize, mode as usize, 0, 0, 0];
            returned(kernel::raw(libc::SYS_fchmodat, arguments))
        })
    }
}

/// `fchmodat2(2)`, for which libc has no name.
pub(crate) unsafe fn fchmodat2(directory: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int {
    // SAFETY: see `fchmodat`.
    unsafe {
        if flags & libc::AT_EMPTY_PATH != 0 && names_descriptor(directory, path) {
            return change_mode_of(directory, mode);
        }
        change_mode((directory, path), mode, flags, |directory, path| {
            let arguments = [directory as usize, path as usize, mode as usize, flags as usize, 0, 0];
            returned(kernel::raw(libc::SYS_fchmodat2, arguments))
        })
    }
}

/// # Safety
/// `path` is null or ends with a zero byte.
unsafe fn change_mode(
    at: (c_int, *const c_char),
    mode: mode_t,
    flags: c_int,
    pass: impl FnOnce(c_int, *const c_char) -> c_int,
) -> c_int {
    if flags & !libc::AT_SYMLINK_NOFOLLOW != 0 || (flags != 0 && session::mode() == Mode::Mount) {
        sharing::settle(at.0);
        return pass(at.0, at.1);
    }
    let follow = flags == 0;
    let wanted = AttributeChange { permissions: Some((mode & 0o7777) as u16), ..Default::default() };
    // SAFETY: as the caller promises.
    unsafe {
        paths::call(
            at,
            Touch::following(follow),
            Call::Change,
            |store, place| {
                if !follow && store.attributes(&CALLER, place, false)?.kind == FileKind::Symlink {
                    // A symbolic link has no permissions of its own, as on Linux.
                    return Err(session::failed(libc::EOPNOTSUPP));
                }
                store.change(&CALLER, place, follow, wanted)
            },
            |_| 0,
            pass,
        )
    }
}

/// `fchmod(2)`.
pub(crate) unsafe fn fchmod(descriptor: c_int, mode: mode_t) -> c_int {
    if prefix::is_place(descriptor) {
        return fail(libc::EBADF);
    }
    change_mode_of(descriptor, mode)
}

fn change_mode_of(descriptor: c_int, mode: mode_t) -> c_int {
    let wanted = AttributeChange { permissions: Some((mode & 0o7777) as u16), ..Default::default() };
    change_descriptor(descriptor, wanted, || {
        // SAFETY: no memory is passed.
        returned(unsafe { kernel::raw(libc::SYS_fchmod, [descriptor as usize, mode as usize, 0, 0, 0, 0]) })
    })
}

/// Whether an empty path means a placeholder. The kernel would change the memfd behind the placeholder.
///
/// # Safety
/// `path` is null or ends with a zero byte.
unsafe fn names_descriptor(descriptor: c_int, path: *const c_char) -> bool {
    // SAFETY: as the caller promises.
    prefix::holds(descriptor) && unsafe { paths::text(path) }.is_some_and(<[u8]>::is_empty)
}

fn owners(uid: uid_t, gid: gid_t) -> AttributeChange {
    let wanted = |number: u32| (number != u32::MAX).then_some(number);
    AttributeChange { uid: wanted(uid), gid: wanted(gid), ..Default::default() }
}

/// `fchownat(2)`.
pub(crate) unsafe fn fchownat(
    directory: c_int,
    path: *const c_char,
    uid: uid_t,
    gid: gid_t,
    flags: c_int,
) -> c_int {
    let pass = |directory: c_int, path: *const c_char| {
        let arguments = [directory as usize, path as usize, uid as usize, gid as usize, flags as usize, 0];
        // SAFETY: see `fchmodat`.
        returned(unsafe { kernel::raw(libc::SYS_fchownat, arguments) })
    };
    if flags & libc::AT_EMPTY_PATH != 0 {
        // SAFETY: see `fchmodat`.
        if unsafe { names_descriptor(directory, path) } {
            return change_owners_of(directory, uid, gid);
        }
        sharing::settle(directory);
        return pass(directory, path);
    }
    if flags & !libc::AT_SYMLINK_NOFOLLOW != 0 {
        return pass(directory, path);
    }
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    // SAFETY: see `fchmodat`.
    unsafe { change((directory, path), follow, Call::Change, owners(uid, gid), pass) }
}

/// `fchown(2)`.
pub(crate) unsafe fn fchown(descriptor: c_int, uid: uid_t, gid: gid_t) -> c_int {
    if prefix::is_place(descriptor) {
        return fail(libc::EBADF);
    }
    change_owners_of(descriptor, uid, gid)
}

fn change_owners_of(descriptor: c_int, uid: uid_t, gid: gid_t) -> c_int {
    change_descriptor(descriptor, owners(uid, gid), || {
        let arguments = [descriptor as usize, uid as usize, gid as usize, 0, 0, 0];
        // SAFETY: no memory is passed.
        returned(unsafe { kernel::raw(libc::SYS_fchown, arguments) })
    })
}

/// The times that `utimensat` sets. `None` for times that the kernel refuses.
///
/// # Safety
/// `times` is null or points to two elements.
unsafe fn wanted_times(times: *const timespec) -> Option<AttributeChange> {
    if times.is_null() {
        return Some(AttributeChange { accessed: Some(None), modified: Some(None), ..Default::default() });
    }
    if !addresses::can_read(times, 2) {
        return None;
    }
    // SAFETY: as the caller promises.
    let (accessed, modified) = unsafe { (*times, *times.add(1)) };
    let wanted = |time: timespec| match time.tv_nsec {
        libc::UTIME_OMIT => Some(None),
        libc::UTIME_NOW => Some(Some(None)),
        nanoseconds @ 0..=999_999_999 => {
            Some(Some(Some(Moment { seconds: time.tv_sec, nanoseconds: nanoseconds as u32 })))
        }
        _ => None,
    };
    Some(AttributeChange { accessed: wanted(accessed)?, modified: wanted(modified)?, ..Default::default() })
}

/// `utimensat(2)`. A null path means the descriptor.
pub(crate) unsafe fn utimensat(
    directory: c_int,
    path: *const c_char,
    times: *const timespec,
    flags: c_int,
) -> c_int {
    let pass = |directory: c_int, path: *const c_char| {
        sharing::settle_stand_in(directory);
        let arguments = [directory as usize, path as usize, times as usize, flags as usize, 0, 0];
        // SAFETY: see `fchmodat`.
        returned(unsafe { kernel::raw(libc::SYS_utimensat, arguments) })
    };
    // SAFETY: see `fchmodat`.
    let Some(wanted) = (unsafe { wanted_times(times) }) else {
        // Linux looks for the file before it refuses the times.
        if session::mode() != Mode::Prefix || !addresses::can_read(times, 2) {
            return pass(directory, path);
        }
        if path.is_null() {
            return if prefix::holds(directory) { fail(libc::EINVAL) } else { pass(directory, path) };
        }
        // SAFETY: see `fchmodat`. Zeros are valid for the structure of numbers.
        return unsafe {
            let mut found: libc::stat = std::mem::zeroed();
            let looked = stat::fstatat(directory, path, &raw mut found, flags);
            if looked == 0 {
                fail(libc::EINVAL)
            } else {
                looked
            }
        };
    };
    // Linux does not even look at the path.
    if wanted == AttributeChange::default() {
        return 0;
    }
    // SAFETY: see `fchmodat`.
    let is_descriptor =
        path.is_null() || (flags & libc::AT_EMPTY_PATH != 0 && unsafe { names_descriptor(directory, path) });
    if path.is_null() && prefix::is_place(directory) {
        return fail(libc::EBADF);
    }
    if is_descriptor {
        return change_descriptor(directory, wanted, || pass(directory, path));
    }
    if flags & !libc::AT_SYMLINK_NOFOLLOW != 0 {
        sharing::settle(directory);
        return pass(directory, path);
    }
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    // SAFETY: see `fchmodat`.
    unsafe { change((directory, path), follow, Call::Change, wanted, pass) }
}

/// `futimens(3)`.
pub(crate) unsafe fn futimens(descriptor: c_int, times: *const timespec) -> c_int {
    if descriptor < 0 {
        return fail(libc::EBADF);
    }
    // SAFETY: see `fchmodat`.
    unsafe { utimensat(descriptor, std::ptr::null(), times, 0) }
}

/// Microseconds in the form of the kernel's newer calls. `None` for times out of range.
///
/// # Safety
/// `times` points to two elements.
unsafe fn precise(times: *const timeval) -> Option<[timespec; 2]> {
    // SAFETY: as the caller promises.
    let both = unsafe { [*times, *times.add(1)] };
    let valid = both.iter().all(|time| (0..1_000_000).contains(&time.tv_usec));
    valid.then(|| both.map(|time| timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_usec * NANOSECONDS }))
}

/// `futimesat(2)` and, with flags, `lutimes(3)`.
pub(crate) unsafe fn utimes_at(
    directory: c_int,
    path: *const c_char,
    times: *const timeval,
    flags: c_int,
) -> c_int {
    if times.is_null() {
        // SAFETY: see `fchmodat`.
        return unsafe { utimensat(directory, path, std::ptr::null(), flags) };
    }
    // SAFETY: see `fchmodat`.
    match unsafe { precise(times) } {
        // SAFETY: see `fchmodat`.
        Some(both) => unsafe { utimensat(directory, path, both.as_ptr(), flags) },
        None => fail(libc::EINVAL),
    }
}

/// `utime(2)`.
pub(crate) unsafe fn utime(path: *const c_char, times: *const utimbuf) -> c_int {
    // SAFETY: see `fchmodat`.
    unsafe {
        if times.is_null() {
            return utimensat(libc::AT_FDCWD, path, std::ptr::null(), 0);
        }
        let whole = |seconds| timespec { tv_sec: seconds, tv_nsec: 0 };
        let both = [whole((*times).actime), whole((*times).modtime)];
        utimensat(libc::AT_FDCWD, path, both.as_ptr(), 0)
    }
}

/// `truncate(2)`. With a mount the kernel, which may hold pages of the file, does the call, as it does `ftruncate`.
pub(crate) unsafe fn truncate(path: *const c_char, length: off_t) -> c_int {
    let pass = |_: c_int, path: *const c_char| {
        // SAFETY: see `fchmodat`.
        returned(unsafe { kernel::raw(libc::SYS_truncate, [path as usize, length as usize, 0, 0, 0, 0]) })
    };
    if session::mode() == Mode::Mount {
        // Only the kernel knows that a file is being executed, and refuses to cut it.
        sharing::publish_everything();
        return pass(libc::AT_FDCWD, path);
    }
    let Ok(size_bytes) = u64::try_from(length) else { return pass(libc::AT_FDCWD, path) };
    let wanted = AttributeChange { size_bytes: Some(size_bytes), ..Default::default() };
    // SAFETY: see `fchmodat`.
    unsafe {
        paths::call(
            (libc::AT_FDCWD, path),
            Touch::Target,
            Call::Truncate,
            |store, place| {
                if file_size::limit().is_some()
                    && store.attributes(&CALLER, place, true)?.size_bytes < size_bytes
                {
                    file_size::check(size_bytes).map_err(session::failed)?;
                }
                store.change(&CALLER, place, true, wanted)
            },
            |_| 0,
            pass,
        )
    }
}

/// `ftruncate(2)`.
pub(crate) unsafe fn ftruncate(descriptor: c_int, length: off_t) -> c_int {
    let is_ours = table::is_known(descriptor) || prefix::may_hold(descriptor);
    let outcome = if is_ours {
        attempt(|| {
            let description = promotion::discovered(descriptor)?;
            description.publish();
            if description.is_stand_in() {
                return truncate_stand_in(&description, descriptor, length);
            }
            let placeholder = description.placeholder()?;
            if placeholder.is_path_only() {
                return Some(Err(libc::EBADF));
            }
            let (Some(file), Ok(size_bytes)) = (description.promoted(descriptor), u64::try_from(length))
            else {
                return Some(Err(libc::EINVAL));
            };
            if !description.is_writable() {
                return Some(Err(libc::EINVAL));
            }
            if file_size::limit().is_some() {
                let size = session::outcome(file.size(&CALLER))?;
                let allowed =
                    size.and_then(
                        |size| if size_bytes > size { file_size::check(size_bytes) } else { Ok(()) },
                    );
                if let Err(number) = allowed {
                    return Some(Err(number));
                }
            }
            counters::served(Call::Truncate);
            session::outcome(file.truncate(&CALLER, size_bytes))
        })
    } else {
        None
    };
    finish(
        outcome,
        |()| 0,
        || {
            sharing::settle_stand_in(descriptor);
            // SAFETY: no memory is passed.
            returned(unsafe {
                kernel::raw(libc::SYS_ftruncate, [descriptor as usize, length as usize, 0, 0, 0, 0])
            })
        },
    )
}

/// `ftruncate` on a stand-in. `None` where the kernel has pages of the file, or a limit to keep.
fn truncate_stand_in(description: &Description, descriptor: c_int, length: off_t) -> Outcome<()> {
    let file = description.promoted(descriptor).filter(|_| file_size::limit().is_none())?;
    let Some(size_bytes) = u64::try_from(length).ok().filter(|_| description.is_writable()) else {
        return Some(Err(libc::EINVAL));
    };
    counters::served(Call::Truncate);
    description.answer(file.truncate(&CALLER, size_bytes))
}
