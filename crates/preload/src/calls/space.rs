//! Durability and space of files: `fsync`, `fallocate`, and advice about pages.

use crate::files::{prefix, promotion, sharing, stand_ins};
use crate::host::guard::{attempt, fail, finish, Outcome};
use crate::host::{file_size, real};
use crate::store::counters::{self, Call};
use crate::store::session::{self, CALLER};
use libc::{c_int, off_t, size_t, ssize_t};

/// `fsync(2)` and `fdatasync(2)`. With a mount the kernel does the call, and also writes back mapped pages.
pub(crate) unsafe fn fsync(descriptor: c_int, data_only: bool) -> c_int {
    sharing::settle(descriptor);
    let outcome = if prefix::may_hold(descriptor) { attempt(|| sync(descriptor, data_only)) } else { None };
    finish(
        outcome,
        |()| 0,
        || {
            // SAFETY: no memory is passed.
            unsafe {
                if data_only {
                    real::fdatasync(descriptor)
                } else {
                    real::fsync(descriptor)
                }
            }
        },
    )
}

/// `fsync` on a placeholder: the bytes become durable, or a directory's metadata.
pub(crate) fn sync(descriptor: c_int, data_only: bool) -> Outcome<()> {
    let description = promotion::discovered(descriptor)?;
    let placeholder = description.placeholder()?;
    counters::served(Call::Sync);
    if let Some(file) = description.file(descriptor) {
        return session::outcome(file.sync(&CALLER, data_only));
    }
    if placeholder.is_path_only() {
        return Some(Err(libc::EBADF));
    }
    session::outcome(session::store()?.sync_metadata(&CALLER, placeholder.ino()))
}

/// `fallocate` on a placeholder.
pub(crate) fn allocate(descriptor: c_int, mode: c_int, offset: off_t, length: off_t) -> Outcome<()> {
    let description = promotion::discovered(descriptor)?;
    description.placeholder()?;
    let (Ok(offset), Ok(length)) = (u64::try_from(offset), u64::try_from(length)) else {
        return Some(Err(libc::EINVAL));
    };
    if length == 0 {
        return Some(Err(libc::EINVAL));
    }
    let Some(file) = description.file(descriptor).filter(|_| description.is_writable()) else {
        return Some(Err(libc::EBADF));
    };
    let keep = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
    if let Some(Err(number)) = (!keep).then(|| file_size::check(offset.saturating_add(length))) {
        return Some(Err(number));
    }
    counters::served(Call::Allocate);
    session::outcome(match mode & !libc::FALLOC_FL_KEEP_SIZE {
        0 => file.reserve(&CALLER, offset, length, keep),
        libc::FALLOC_FL_PUNCH_HOLE if keep => file.punch(&CALLER, offset, length),
        libc::FALLOC_FL_ZERO_RANGE => file.zero(&CALLER, offset, length, keep),
        _ => return Some(Err(libc::EOPNOTSUPP)),
    })
}

/// Allocates space of a placeholder. The kernel answers for another descriptor, whose pending times are published first.
fn allocated(descriptor: c_int, mode: c_int, offset: off_t, length: off_t) -> Outcome<()> {
    sharing::settle(descriptor);
    if !prefix::may_hold(descriptor) {
        return None;
    }
    attempt(|| allocate(descriptor, mode, offset, length))
}

/// `fallocate(2)`.
pub(crate) unsafe fn fallocate(descriptor: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
    let outcome = allocated(descriptor, mode, offset, length);
    finish(
        outcome,
        |()| 0,
        || {
            // SAFETY: no memory is passed.
            unsafe { real::fallocate(descriptor, mode, offset, length) }
        },
    )
}

/// `posix_fallocate(3)`, whose result is an error number.
pub(crate) unsafe fn posix_fallocate(descriptor: c_int, offset: off_t, length: off_t) -> c_int {
    match allocated(descriptor, 0, offset, length) {
        Some(Ok(())) => 0,
        Some(Err(number)) => number,
        // SAFETY: no memory is passed.
        None => unsafe { real::posix_fallocate(descriptor, offset, length) },
    }
}

/// `posix_fadvise(2)`, whose result is an error number: advice about the kernel's pages. The kernel has no pages of a file that it has
/// not opened, and good advice succeeds, as on a file system that ignores it.
pub(crate) unsafe fn advise(descriptor: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int {
    let is_known = (libc::POSIX_FADV_NORMAL..=libc::POSIX_FADV_NOREUSE).contains(&advice);
    let without_pages = if stand_ins::hold(descriptor) { Some(false) } else { is_path_only(descriptor) };
    match without_pages {
        Some(true) => libc::EBADF,
        Some(false) if length < 0 || !is_known => libc::EINVAL,
        Some(false) => 0,
        // SAFETY: no memory is passed.
        None => unsafe { real::posix_fadvise(descriptor, offset, length, advice) },
    }
}

/// Whether a placeholder is of an `O_PATH` descriptor; `None` for other descriptors.
fn is_path_only(descriptor: c_int) -> Option<bool> {
    if !prefix::may_hold(descriptor) {
        return None;
    }
    let answer = attempt(|| Some(Ok(promotion::discovered(descriptor)?.placeholder()?.is_path_only())));
    answer?.ok()
}

/// `readahead(2)`, as [`advise`].
pub(crate) unsafe fn read_ahead(descriptor: c_int, offset: off_t, count: size_t) -> ssize_t {
    sharing::settle_stand_in(descriptor);
    match is_path_only(descriptor) {
        Some(true) => fail(libc::EBADF),
        Some(false) => 0,
        // SAFETY: no memory is passed.
        None => unsafe { real::readahead(descriptor, offset, count) },
    }
}
