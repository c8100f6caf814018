//! Duplicates of descriptors, and `fcntl`.

use crate::calls::open_beside_kernel::LARGE_FILE;
use crate::calls::{close, locks, standard_streams};
use crate::files::stand_ins::{self, Locked};
use crate::files::table::{self, Entry};
use crate::files::{description, prefix, promotion, sharing};
use crate::host::guard::{self, attempt, fail, quietly, returned};
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
            table::enter(new, Arc::clone(&description));
            description.note_standard_stream(new);
        });
        standard_streams::after_standard(new);
    }
}

/// Makes a duplicate of a stand-in, which no other thread has the kernel open meanwhile. `None` for another descriptor.
fn duplicate_stand_in(old: c_int, make: impl FnOnce() -> isize) -> Option<c_int> {
    if !stand_ins::hold(old) {
        return None;
    }
    let outcome = attempt(|| {
        let description = promotion::described(old)?;
        let locked = Locked::take()?;
        if !description.is_stand_in() {
            return None;
        }
        let new = match kernel::checked(make()) {
            Ok(new) => new as c_int,
            Err(number) => return Some(Err(number)),
        };
        promotion::forget(new);
        table::enter(new, Arc::clone(&description));
        drop(locked);
        description.note_standard_stream(new);
        Some(Ok(new))
    });
    let new = match outcome? {
        Ok(new) => new,
        Err(number) => return Some(fail(number)),
    };
    Some(duplicated(old, new))
}

/// `dup(2)`.
pub(crate) unsafe fn dup(old: c_int) -> c_int {
    // SAFETY: no memory is passed.
    let make = || unsafe { kernel::raw(libc::SYS_dup, [old as usize, 0, 0, 0, 0, 0]) };
    if let Some(new) = duplicate_stand_in(old, make) {
        return new;
    }
    let description = shared_with(old);
    let new = returned(make());
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
    // SAFETY: no memory is passed.
    let make =
        || unsafe { kernel::raw(libc::SYS_dup3, [old as usize, new as usize, flags as usize, 0, 0, 0]) };
    let description = shared_with(old);
    if !guard::is_inside() && kernel::status_flags(old).is_ok() {
        close::release(new);
    }
    if let Some(made) = duplicate_stand_in(old, make) {
        return made;
    }
    let made = returned(make());
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
    if stand_ins::hold(descriptor) {
        if let Some(result) = fcntl_stand_in(descriptor, command, argument) {
            return result;
        }
    }
    let description = if is_duplicate { shared_with(descriptor) } else { None };
    if matches!(command, libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW) {
        // The next owner of the lock sees the times of the writes under the lock.
        sharing::settle(descriptor);
    }
    if matches!(command, libc::F_SETLK | libc::F_SETLKW) {
        locks::note_kernels(descriptor);
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

/// `fcntl` on a stand-in. `None` where the kernel does the call, which has opened the file then, if the call needs that.
fn fcntl_stand_in(descriptor: c_int, command: c_int, argument: c_long) -> Option<c_int> {
    match command {
        libc::F_GETFD | libc::F_SETFD => None,
        libc::F_GETFL => {
            let flags = attempt(|| Some(Ok(promotion::described(descriptor)?.flags() | LARGE_FILE)));
            flags?.ok()
        }
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            let arguments = [descriptor as usize, command as usize, argument as usize, 0, 0, 0];
            // SAFETY: no memory is passed.
            duplicate_stand_in(descriptor, || unsafe { kernel::raw(libc::SYS_fcntl, arguments) })
        }
        _ => {
            sharing::settle(descriptor);
            None
        }
    }
}
