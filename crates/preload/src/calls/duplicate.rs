//! Duplicates of descriptors, and `fcntl`.

use crate::calls::{close, locks, standard_streams};
use crate::files::table::{self, Entry};
use crate::files::{description, prefix, promotion, sharing};
use crate::host::guard::{self, fail, quietly, returned};
use crate::host::{kernel, real};
use crate::store::session::{self, Mode};
use crate::{observation, recorder};
use libc::{c_int, c_long};
use std::sync::Arc;

/// The description that a duplicate of `old` shares. The look-up comes before the kernel makes the duplicate.
fn shared_with(old: c_int) -> Option<Arc<description::Description>> {
    if !table::is_known(old) && !prefix::may_hold(old) {
        return None;
    }
    let mut found = None;
    quietly(|| {
        found = match session::mode() {
            Mode::Prefix => promotion::discovered(old),
            _ => promotion::described(old),
        }
    });
    found
}

/// Notes that the kernel made `new` a duplicate of `old`. Answers `new`.
fn duplicated(old: c_int, new: c_int) -> c_int {
    observation::duplicated(old, new);
    recorder::duplicated(old, new)
}

/// Enters `new`, which the kernel made a duplicate.
fn note_duplicate(new: c_int, description: Option<Arc<description::Description>>) {
    if new < 0 || guard::is_inside() {
        return;
    }
    close::note_foreign(new);
    if let Some(description) = description {
        quietly(|| {
            description.note_standard_stream(new);
            table::enter(new, description);
        });
        standard_streams::after_standard(new);
    }
}

/// `dup(2)`.
pub(crate) unsafe fn dup(old: c_int) -> c_int {
    let description = shared_with(old);
    // SAFETY: no memory is passed.
    let new = returned(unsafe { kernel::raw(libc::SYS_dup, [old as usize, 0, 0, 0, 0, 0]) });
    note_duplicate(new, description);
    duplicated(old, new)
}

/// `dup2(2)` and `dup3(2)`. `same` answers where both numbers are one.
unsafe fn dup_over(old: c_int, new: c_int, flags: c_int, same: impl FnOnce() -> c_int) -> c_int {
    if old == new {
        return same();
    }
    if close::is_protected(new) {
        // dup2(2) names EBUSY for a number that the kernel is about to give away.
        return fail(libc::EBUSY);
    }
    standard_streams::before_standard(new);
    let description = shared_with(old);
    if !guard::is_inside() && kernel::status_flags(old).is_ok() {
        close::release(new);
    }
    // SAFETY: no memory is passed.
    let made = returned(unsafe {
        kernel::raw(libc::SYS_dup3, [old as usize, new as usize, flags as usize, 0, 0, 0])
    });
    note_duplicate(made, description);
    duplicated(old, made)
}

/// `dup2(2)`.
pub(crate) unsafe fn dup2(old: c_int, new: c_int) -> c_int {
    // SAFETY: see `openat`.
    unsafe {
        dup_over(old, new, 0, || {
            let flags: c_int =
                returned(kernel::raw(libc::SYS_fcntl, [old as usize, libc::F_GETFD as usize, 0, 0, 0, 0]));
            if flags < 0 {
                -1
            } else {
                new
            }
        })
    }
}

/// `dup3(2)`.
pub(crate) unsafe fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    // SAFETY: see `openat`.
    unsafe { dup_over(old, new, flags, || fail(libc::EINVAL)) }
}

/// `fcntl(2)`. The library follows duplicates and status flags. With a mount, locks are the kernel's.
pub(crate) unsafe fn fcntl(descriptor: c_int, command: c_int, argument: c_long) -> c_int {
    let is_duplicate = matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC);
    if session::mode() == Mode::Off || guard::is_inside() {
        // SAFETY: see `openat`.
        let result = unsafe { real::fcntl(descriptor, command, argument) };
        return if is_duplicate { duplicated(descriptor, result) } else { result };
    }
    if prefix::may_hold(descriptor) {
        // SAFETY: see `openat`.
        if let Some(result) = unsafe { locks::fcntl(descriptor, command, argument) } {
            return result;
        }
    }
    let description = if is_duplicate { shared_with(descriptor) } else { None };
    if matches!(command, libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW) {
        // The next owner of the lock sees the times of the writes under the lock.
        sharing::settle(descriptor);
    }
    // SAFETY: see `openat`.
    let result = unsafe { real::fcntl(descriptor, command, argument) };
    if is_duplicate {
        note_duplicate(result, description);
        duplicated(descriptor, result);
    } else if command == libc::F_SETFL && result == 0 && table::is_known(descriptor) {
        quietly(|| {
            if let (Entry::Known(description), Ok(flags)) =
                (table::look_up(descriptor), kernel::status_flags(descriptor))
            {
                description.set_flags(flags);
            }
        });
    }
    result
}
