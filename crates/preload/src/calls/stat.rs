//! `stat`, `statx` and `access` under all their names.

use crate::files::paths::{self, Touch};
use crate::files::{prefix, promotion, sharing, table};
use crate::host::guard::{self, attempt, fail, finish, returned, Outcome};
use crate::host::{addresses, kernel, real};
use crate::store::counters::{self, Call};
use crate::store::session::{self, CALLER};
use libc::{c_char, c_int, c_uint};
use weir_client::mode_of;
use weir_client::wire::{Attributes, Moment};

/// Bytes of the unit of `st_blocks`.
const BLOCK_UNIT: u64 = 512;
/// The attributes that the client can tell through `statx`. Requests for others go to the kernel.
const STATX_TOLD: c_uint = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
/// Flags of `fstatat` and `statx` that Linux knows. Linux refuses other flags before it looks at the path.
const STAT_FLAGS: c_int =
    libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_EMPTY_PATH | libc::AT_STATX_SYNC_TYPE;
/// `STATX__RESERVED`: Linux refuses a mask with it.
const STATX_RESERVED: c_uint = 0x8000_0000;

/// The attributes in the form of `stat`, with the same device and block size as through the mount.
pub(crate) fn stat_of(attributes: &Attributes) -> libc::stat {
    // SAFETY: every field of the structure is a number, for which zeros are valid.
    let mut answer: libc::stat = unsafe { std::mem::zeroed() };
    answer.st_dev = session::device().unwrap_or(0);
    answer.st_ino = attributes.ino.0;
    answer.st_mode = mode_of(attributes);
    answer.st_nlink = attributes.links.into();
    answer.st_uid = attributes.uid;
    answer.st_gid = attributes.gid;
    answer.st_rdev = attributes.device;
    answer.st_size = attributes.size_bytes as i64;
    answer.st_blksize = session::block_bytes().into();
    answer.st_blocks = attributes.allocated_bytes.div_ceil(BLOCK_UNIT) as i64;
    (answer.st_atime, answer.st_atime_nsec) =
        (attributes.accessed.seconds, attributes.accessed.nanoseconds.into());
    (answer.st_mtime, answer.st_mtime_nsec) =
        (attributes.modified.seconds, attributes.modified.nanoseconds.into());
    (answer.st_ctime, answer.st_ctime_nsec) =
        (attributes.changed.seconds, attributes.changed.nanoseconds.into());
    answer
}

fn statx_of(attributes: &Attributes) -> libc::statx {
    let time = |moment: Moment| {
        // SAFETY: every field of the structure is a number, for which zeros are valid.
        let mut stamp: libc::statx_timestamp = unsafe { std::mem::zeroed() };
        (stamp.tv_sec, stamp.tv_nsec) = (moment.seconds, moment.nanoseconds);
        stamp
    };
    // SAFETY: as for the time.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    let device = session::device().unwrap_or(0);
    answer.stx_mask = STATX_TOLD;
    answer.stx_blksize = session::block_bytes();
    answer.stx_nlink = attributes.links;
    answer.stx_uid = attributes.uid;
    answer.stx_gid = attributes.gid;
    answer.stx_mode = mode_of(attributes) as u16;
    answer.stx_ino = attributes.ino.0;
    answer.stx_size = attributes.size_bytes;
    answer.stx_blocks = attributes.allocated_bytes.div_ceil(BLOCK_UNIT);
    answer.stx_atime = time(attributes.accessed);
    answer.stx_mtime = time(attributes.modified);
    answer.stx_ctime = time(attributes.changed);
    answer.stx_btime = time(attributes.created);
    (answer.stx_dev_major, answer.stx_dev_minor) = (libc::major(device), libc::minor(device));
    (answer.stx_rdev_major, answer.stx_rdev_minor) =
        (libc::major(attributes.device), libc::minor(attributes.device));
    answer
}

/// The attributes of an open description, if the client can tell them.
fn described(descriptor: c_int) -> Outcome<Attributes> {
    if !table::is_known(descriptor) && !prefix::may_hold(descriptor) {
        return None;
    }
    attempt(|| {
        let description = promotion::discovered(descriptor)?;
        let attributes = match (description.promoted(descriptor), description.placeholder()) {
            (Some(file), _) => description.answer(file.attributes(&CALLER)),
            (None, Some(placeholder)) => placeholder.attributes(),
            (None, None) => None,
        };
        if matches!(attributes, Some(Ok(_))) {
            counters::served(Call::Stat);
        }
        attributes
    })
}

/// Gives the attributes of a path, or of `directory` itself for the empty path where the flags allow that.
///
/// # Safety
/// `path` is null or ends with a zero byte.
unsafe fn attributes_at<R: guard::Failure>(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    convert: impl FnOnce(Attributes) -> R,
    pass: impl FnOnce(c_int, *const c_char) -> R,
) -> R {
    if flags & !STAT_FLAGS != 0 || session::mode() == session::Mode::Off {
        return pass(directory, path);
    }
    let names_directory = || {
        // SAFETY: as the caller promises.
        directory != libc::AT_FDCWD && (path.is_null() || unsafe { paths::text(path) } == Some(b""))
    };
    if flags & libc::AT_EMPTY_PATH != 0 && names_directory() {
        return finish(described(directory), convert, || {
            sharing::settle(directory);
            pass(directory, path)
        });
    }
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    // SAFETY: as the caller promises.
    unsafe {
        paths::call(
            (directory, path),
            Touch::following(follow),
            Call::Stat,
            |store, place| store.attributes(&CALLER, place, follow),
            convert,
            pass,
        )
    }
}

/// `fstatat(2)`.
pub(crate) unsafe fn fstatat(
    directory: c_int,
    path: *const c_char,
    answer: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: the program's own promises. The kernel's `struct stat` is the C library's on 64-bit machines.
    unsafe {
        let fill = |attributes: Attributes| addresses::tell(answer, stat_of(&attributes));
        attributes_at(directory, path, flags, fill, |directory, path| {
            returned(kernel::raw(
                libc::SYS_newfstatat,
                [directory as usize, path as usize, answer as usize, flags as usize, 0, 0],
            ))
        })
    }
}

/// `stat(2)`.
pub(crate) unsafe fn stat(path: *const c_char, answer: *mut libc::stat) -> c_int {
    // SAFETY: the program's own promises.
    unsafe { fstatat(libc::AT_FDCWD, path, answer, 0) }
}

/// `lstat(2)`.
pub(crate) unsafe fn lstat(path: *const c_char, answer: *mut libc::stat) -> c_int {
    // SAFETY: the program's own promises.
    unsafe { fstatat(libc::AT_FDCWD, path, answer, libc::AT_SYMLINK_NOFOLLOW) }
}

/// `fstat(2)`.
pub(crate) unsafe fn fstat(descriptor: c_int, answer: *mut libc::stat) -> c_int {
    // SAFETY: the program's own promises.
    unsafe {
        let fill = |attributes: Attributes| addresses::tell(answer, stat_of(&attributes));
        finish(described(descriptor), fill, || {
            sharing::settle(descriptor);
            returned(kernel::raw(libc::SYS_fstat, [descriptor as usize, answer as usize, 0, 0, 0, 0]))
        })
    }
}

/// `statx(2)`.
pub(crate) unsafe fn statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    answer: *mut libc::statx,
) -> c_int {
    // SAFETY: the program's own promises.
    unsafe {
        let kernel = |directory: c_int, path: *const c_char| {
            returned(kernel::raw(
                libc::SYS_statx,
                [directory as usize, path as usize, flags as usize, mask as usize, answer as usize, 0],
            ))
        };
        let is_refused =
            mask & STATX_RESERVED != 0 || flags & libc::AT_STATX_SYNC_TYPE == libc::AT_STATX_SYNC_TYPE;
        if is_refused || (mask & !STATX_TOLD != 0 && session::mode() == session::Mode::Mount) {
            sharing::settle(directory);
            return kernel(directory, path);
        }
        let fill = |attributes: Attributes| addresses::tell(answer, statx_of(&attributes));
        attributes_at(directory, path, flags, fill, kernel)
    }
}

/// Whether a path leads to anything; errno stays as it was.
///
/// # Safety
/// `path` ends with a zero byte.
pub(crate) unsafe fn exists(directory: c_int, path: *const c_char) -> bool {
    let before = guard::errno();
    let mut answer = std::mem::MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: as the caller promises. The answer has the size of the kernel's structure.
    let found = unsafe { statx(directory, path, 0, libc::STATX_TYPE, answer.as_mut_ptr()) };
    guard::set_errno(before);
    found == 0
}

/// `faccessat(3)`. `flags` may ask for the effective user, for whom the client always asks.
pub(crate) unsafe fn faccessat(directory: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    let known = libc::AT_EACCESS | libc::AT_SYMLINK_NOFOLLOW;
    let mask = u8::try_from(mode).ok().filter(|mask| *mask <= 7);
    let Some(mask) = mask.filter(|_| flags & !known == 0) else {
        if flags & libc::AT_EMPTY_PATH != 0 {
            sharing::settle_stand_in(directory);
            if prefix::holds(directory) {
                return fail(libc::EOPNOTSUPP);
            }
        }
        // SAFETY: the program's own promises.
        return unsafe { real::faccessat(directory, path, mode, flags) };
    };
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    // SAFETY: the program's own promises.
    unsafe {
        paths::call(
            (directory, path),
            Touch::following(follow),
            Call::Access,
            |store, place| store.access(&CALLER, place, mask, follow),
            |()| 0,
            |directory, path| {
                if flags == 0 {
                    let arguments = [directory as usize, path as usize, mode as usize, 0, 0, 0];
                    returned(kernel::raw(libc::SYS_faccessat, arguments))
                } else {
                    real::faccessat(directory, path, mode, flags)
                }
            },
        )
    }
}

/// `euidaccess(3)`.
pub(crate) unsafe fn euidaccess(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the program's own promises.
    let pass = |path: *const c_char| unsafe { real::euidaccess(path, mode) };
    let Some(mask) = u8::try_from(mode).ok().filter(|mask| *mask <= 7) else { return pass(path) };
    // SAFETY: the program's own promises.
    unsafe {
        paths::call(
            (libc::AT_FDCWD, path),
            Touch::Target,
            Call::Access,
            |store, place| store.access(&CALLER, place, mask, true),
            |()| 0,
            |_, path| pass(path),
        )
    }
}

/// Whether a version of the `__xstat` family means the kernel's structure. The C library knows no other version.
pub(crate) fn is_known_version(version: c_int) -> bool {
    let known = version == 0 || (cfg!(target_arch = "x86_64") && version == 1);
    if !known {
        let _: c_int = fail(libc::EINVAL);
    }
    known
}
