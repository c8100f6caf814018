//! `statfs` and `statvfs`: the figures of the store.

use crate::files::paths::{self, Touch};
use crate::files::{prefix, promotion, sharing};
use crate::host::guard::{attempt, finish, returned, Outcome};
use crate::host::{addresses, kernel, real};
use crate::store::counters::Call;
use crate::store::session::{self, CALLER};
use libc::{c_char, c_int};
use weir_client::StoreStatistics;

/// `f_type`: "WEIR".
const FILE_SYSTEM: i64 = 0x5745_4952;
/// Unit of the counts of `statfs`.
const STATISTICS_UNIT: u64 = 4096;

/// The figures of the store, if `descriptor` is a placeholder.
pub(crate) fn statistics_of(descriptor: c_int) -> Outcome<StoreStatistics> {
    sharing::settle_stand_in(descriptor);
    if !prefix::may_hold(descriptor) {
        return None;
    }
    attempt(|| {
        promotion::discovered(descriptor)?;
        session::outcome(session::store()?.statistics(&CALLER))
    })
}

/// The figures in the form of `statfs`.
pub(crate) fn statfs_of(statistics: &StoreStatistics) -> libc::statfs {
    // SAFETY: every field of the structure is a number, for which zeros are valid.
    let mut answer: libc::statfs = unsafe { std::mem::zeroed() };
    answer.f_type = FILE_SYSTEM;
    answer.f_bsize = i64::from(session::block_bytes().max(STATISTICS_UNIT as u32));
    answer.f_frsize = STATISTICS_UNIT as i64;
    answer.f_blocks = statistics.room.capacity_bytes / STATISTICS_UNIT;
    answer.f_bfree = statistics.room.free_bytes / STATISTICS_UNIT;
    answer.f_bavail = answer.f_bfree;
    answer.f_files = statistics.inodes + statistics.inodes_free;
    answer.f_ffree = statistics.inodes_free;
    answer.f_namelen = 255;
    answer
}

/// Gives the figures of the store for a path in it, where no kernel knows the store.
///
/// # Safety
/// `path` is null or ends with a zero byte.
unsafe fn statistics_at(
    path: *const c_char,
    convert: impl FnOnce(StoreStatistics) -> c_int,
    pass: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    if session::mode() != session::Mode::Prefix {
        return pass(path);
    }
    // SAFETY: as the caller promises.
    unsafe {
        paths::call(
            (libc::AT_FDCWD, path),
            Touch::Target,
            Call::Statistics,
            |store, place| {
                store.attributes(&CALLER, place, true)?;
                store.statistics(&CALLER)
            },
            convert,
            |_, path| pass(path),
        )
    }
}

/// `statfs(2)`.
pub(crate) unsafe fn statfs(path: *const c_char, answer: *mut libc::statfs) -> c_int {
    // SAFETY: the program's own promises.
    unsafe {
        statistics_at(
            path,
            |statistics| addresses::tell(answer, statfs_of(&statistics)),
            |path| returned(kernel::raw(libc::SYS_statfs, [path as usize, answer as usize, 0, 0, 0, 0])),
        )
    }
}

/// `fstatfs(2)`.
pub(crate) unsafe fn fstatfs(descriptor: c_int, answer: *mut libc::statfs) -> c_int {
    let statistics = statistics_of(descriptor);
    // SAFETY: the program's own promises.
    unsafe {
        finish(
            statistics,
            |statistics| addresses::tell(answer, statfs_of(&statistics)),
            || returned(kernel::raw(libc::SYS_fstatfs, [descriptor as usize, answer as usize, 0, 0, 0, 0])),
        )
    }
}

/// `statvfs(3)`.
pub(crate) unsafe fn statvfs(path: *const c_char, answer: *mut libc::statvfs) -> c_int {
    // SAFETY: the program's own promises.
    unsafe {
        statistics_at(
            path,
            |statistics| addresses::tell(answer, statvfs_of(&statfs_of(&statistics))),
            |path| real::statvfs(path, answer),
        )
    }
}

/// `fstatvfs(3)`.
pub(crate) unsafe fn fstatvfs(descriptor: c_int, answer: *mut libc::statvfs) -> c_int {
    finish(
        statistics_of(descriptor),
        |statistics| addresses::tell(answer, statvfs_of(&statfs_of(&statistics))),
        // SAFETY: the program's own promises.
        || unsafe { real::fstatvfs(descriptor, answer) },
    )
}

fn statvfs_of(found: &libc::statfs) -> libc::statvfs {
    // SAFETY: every field of the structure is a number, for which zeros are valid.
    let mut answer: libc::statvfs = unsafe { std::mem::zeroed() };
    answer.f_bsize = found.f_bsize as u64;
    answer.f_frsize = if found.f_frsize > 0 { found.f_frsize as u64 } else { found.f_bsize as u64 };
    answer.f_blocks = found.f_blocks;
    answer.f_bfree = found.f_bfree;
    answer.f_bavail = found.f_bavail;
    answer.f_files = found.f_files;
    answer.f_ffree = found.f_ffree;
    answer.f_favail = found.f_ffree;
    answer.f_namemax = found.f_namelen as u64;
    answer
}
