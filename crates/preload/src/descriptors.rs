//! Opening, duplicating and closing: what keeps the table of descriptors true.

use crate::counters::{self, Call};
use crate::guard::{self, attempt, fail, finish, quietly, returned};
use crate::kernel;
use crate::session::{self, Mode, CALLER};
use crate::table::{self, Entry};
use crate::{paths, placement, prefix, promotion, real, recorder, sharing};
use libc::{c_char, c_int, c_long, c_uint, mode_t, off_t};
use std::sync::Arc;
use weir_client::wire::Seek;

/// `close_range(2)`: the process stops sharing its table first.
const CLOSE_RANGE_UNSHARE: c_uint = 2;
/// `close_range(2)`: marks instead of closing.
const CLOSE_RANGE_CLOEXEC: c_uint = 4;
/// The mode that the fortified forms, which make no file, hand on.
const CREATED_MODE: mode_t = 0o666;

/// Whether `descriptor` is the library's own, which programs may not close or overwrite.
pub(crate) fn is_protected(descriptor: c_int) -> bool {
    weir_client::is_own_descriptor(descriptor) && !guard::is_inside()
}

/// `openat(2)` and every other name of it; `mode` counts only where a file may be made.
pub(crate) unsafe fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the program's own promises, here and in all functions below.
    unsafe {
        let before = recorder::opening(directory, path, flags);
        let opened = open_by_mode(directory, path, flags, mode);
        recorder::opened(opened, (directory, path), before);
        opened
    }
}

unsafe fn open_by_mode(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    match session::mode() {
        // SAFETY: see `openat`.
        Mode::Off => unsafe {
            placement::open(directory, path, flags, mode, |flags| real::openat(directory, path, flags, mode))
        },
        // SAFETY: see above.
        Mode::Prefix => unsafe {
            prefix::open(directory, path, flags, mode, |directory, path| {
                let pass = |flags| real::openat(directory, path, flags, mode);
                let opened = placement::open(directory, path, flags, mode, pass);
                note_foreign(opened);
                opened
            })
        },
        Mode::Mount => {
            let generation = sharing::generation();
            // SAFETY: see above.
            let opened = unsafe {
                placement::open(directory, path, flags, mode, |flags| {
                    real::openat(directory, path, flags, mode)
                })
            };
            if guard::is_inside() {
                return opened;
            }
            // SAFETY: see above.
            let text = unsafe { paths::text(path) };
            if opened >= 0 {
                let text = text.filter(|text| paths::is_candidate(directory, text));
                note_opened(opened, text, flags, generation);
            } else {
                paths::correct_stale(directory, text);
            }
            opened
        }
    }
}

/// `open(2)`.
pub(crate) unsafe fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: see `openat`.
    unsafe { openat(libc::AT_FDCWD, path, flags, mode) }
}

/// `__open_2` and `__openat_2`: the fortified forms, which may not make a file.
pub(crate) unsafe fn openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    if flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE {
        // libc ends the program, because the mode is missing.
        // SAFETY: see `openat`.
        return unsafe { real::__openat_2(directory, path, flags) };
    }
    // SAFETY: see `openat`.
    unsafe { openat(directory, path, flags, CREATED_MODE) }
}

/// The kernel opened a descriptor: enters it where `path`, not absent, may lead into the store.
pub(crate) fn note_opened(opened: c_int, path: Option<&[u8]>, flags: c_int, generation: u32) {
    if table::is_known(opened) || table::is_foreign(opened) {
        quietly(|| drop(table::forget(opened)));
    }
    if path.is_some() && flags & (libc::O_PATH | libc::O_DIRECTORY) == 0 {
        quietly(|| {
            if promotion::enter_opened(opened, generation).is_some() {
                counters::served(Call::Open);
            }
        });
    }
}

/// The kernel gave a number to something else than a file of the store.
pub(crate) fn note_foreign(opened: c_int) {
    if opened >= 0 && (table::is_known(opened) || table::is_foreign(opened)) && !guard::is_inside() {
        quietly(|| drop(table::forget(opened)));
    }
}

/// `descriptor` is about to be closed, by whomever: pending times are published, and its number is forgotten.
pub(crate) fn release(descriptor: c_int) {
    recorder::closing(descriptor);
    if prefix::may_hold(descriptor) {
        quietly(|| prefix::release(descriptor));
        return;
    }
    if !table::is_known(descriptor) && !table::is_foreign(descriptor) {
        return;
    }
    quietly(|| {
        if let Some(description) = table::forget(descriptor) {
            if description.is_abandoned() {
                description.publish();
            } else {
                // The kernel's offset must outlive this number for those who use another one.
                description.settle(descriptor);
            }
        }
    });
}

/// `close(2)`.
pub(crate) unsafe fn close(descriptor: c_int) -> c_int {
    if is_protected(descriptor) {
        return fail(libc::EBADF);
    }
    if guard::is_inside() {
        // SAFETY: no memory is passed.
        return returned(unsafe { kernel::raw(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) });
    }
    release(descriptor);
    // SAFETY: see `openat`.
    unsafe { real::close(descriptor) }
}

/// `close_range(2)`, around the library's own descriptors.
pub(crate) unsafe fn close_range(first: c_uint, last: c_uint, flags: c_uint) -> c_int {
    let raw = |first: c_uint, last: c_uint| -> c_int {
        // SAFETY: no memory is passed.
        returned(unsafe {
            kernel::raw(libc::SYS_close_range, [first as usize, last as usize, flags as usize, 0, 0, 0])
        })
    };
    let is_followed = session::mode() != Mode::Off || recorder::is_on();
    if !is_followed || guard::is_inside() || first > last {
        return raw(first, last);
    }
    if flags & CLOSE_RANGE_UNSHARE != 0 {
        // The table becomes this thread's own: what other threads do with the same numbers is out of sight.
        leave_fast_path();
        return raw(first, last);
    }
    let highest = last.min(c_int::MAX as c_uint) as c_int;
    if flags & CLOSE_RANGE_CLOEXEC == 0 {
        let known = table::highest().max(recorder::highest());
        (first as c_int..=highest.min(known)).for_each(release);
    }
    let mut start = first;
    for own in own_descriptors(first as c_int, highest) {
        if own as c_uint > start && raw(start, own as c_uint - 1) != 0 {
            return -1;
        }
        start = own as c_uint + 1;
    }
    if start <= last {
        raw(start, last)
    } else {
        0
    }
}

/// The library's own descriptors between two numbers.
fn own_descriptors(first: c_int, last: c_int) -> Vec<c_int> {
    let mut found = Vec::new();
    if weir_client::own_descriptors().next().is_none() {
        return found;
    }
    quietly(|| {
        let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
        let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<c_int>().ok());
        found = numbers
            .filter(|number| (first..=last).contains(number) && weir_client::is_own_descriptor(*number))
            .collect();
        found.sort_unstable();
    });
    found
}

/// `closefrom(3)`.
pub(crate) unsafe fn closefrom(first: c_int) {
    // SAFETY: see `openat`.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// The description that a duplicate of `old` shares; looked up before the kernel makes it.
fn shared_with(old: c_int) -> Option<Arc<crate::description::Description>> {
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

/// The kernel made `new` a duplicate.
fn note_duplicate(new: c_int, description: Option<Arc<crate::description::Description>>) {
    if new < 0 || guard::is_inside() {
        return;
    }
    note_foreign(new);
    if let Some(description) = description {
        quietly(|| {
            description.note_standard_stream(new);
            table::enter(new, description);
        });
        prefix::after_standard(new);
    }
}

/// `dup(2)`.
pub(crate) unsafe fn dup(old: c_int) -> c_int {
    let description = shared_with(old);
    // SAFETY: no memory is passed.
    let new = returned(unsafe { kernel::raw(libc::SYS_dup, [old as usize, 0, 0, 0, 0, 0]) });
    note_duplicate(new, description);
    recorder::duplicated(old, new)
}

/// `dup3(2)`; `same` is what it answers where both numbers are one.
unsafe fn dup_over(old: c_int, new: c_int, flags: c_int, same: impl FnOnce() -> c_int) -> c_int {
    if old == new {
        return same();
    }
    if is_protected(new) {
        // dup2(2) names EBUSY for a number that the kernel is about to give away.
        return fail(libc::EBUSY);
    }
    prefix::before_standard(new);
    let description = shared_with(old);
    if !guard::is_inside() && kernel::status_flags(old).is_ok() {
        release(new);
    }
    // SAFETY: no memory is passed.
    let made = returned(unsafe {
        kernel::raw(libc::SYS_dup3, [old as usize, new as usize, flags as usize, 0, 0, 0])
    });
    note_duplicate(made, description);
    recorder::duplicated(old, made)
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

/// `fcntl(2)`: duplicates and status flags are followed; locks are the kernel's where a mount is.
pub(crate) unsafe fn fcntl(descriptor: c_int, command: c_int, argument: c_long) -> c_int {
    let is_duplicate = matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC);
    if session::mode() == Mode::Off || guard::is_inside() {
        // SAFETY: see `openat`.
        let result = unsafe { real::fcntl(descriptor, command, argument) };
        return if is_duplicate { recorder::duplicated(descriptor, result) } else { result };
    }
    if prefix::may_hold(descriptor) {
        // SAFETY: see `openat`.
        if let Some(result) = unsafe { prefix::fcntl(descriptor, command, argument) } {
            return result;
        }
    }
    let description = if is_duplicate { shared_with(descriptor) } else { None };
    if matches!(command, libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW) {
        // Whoever gets the lock next sees the times of what was written under it.
        sharing::settle(descriptor);
    }
    // SAFETY: see `openat`.
    let result = unsafe { real::fcntl(descriptor, command, argument) };
    if is_duplicate {
        note_duplicate(result, description);
        recorder::duplicated(descriptor, result);
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

/// `lseek(2)`.
pub(crate) unsafe fn lseek(descriptor: c_int, offset: off_t, whence: c_int) -> off_t {
    recorder::before_move(descriptor);
    let is_ours = table::is_known(descriptor) || prefix::may_hold(descriptor);
    let outcome = if is_ours { attempt(|| seek(descriptor, offset, whence)) } else { None };
    finish(
        outcome,
        |position| position as off_t,
        || {
            // SAFETY: no memory is passed.
            returned(unsafe {
                kernel::raw(libc::SYS_lseek, [descriptor as usize, offset as usize, whence as usize, 0, 0, 0])
            })
        },
    )
}

fn seek(descriptor: c_int, offset: off_t, whence: c_int) -> guard::Outcome<u64> {
    let description = match session::mode() {
        Mode::Prefix => promotion::discovered(descriptor)?,
        _ => promotion::described(descriptor)?,
    };
    let Some(file) = description.promoted(descriptor) else {
        return description.placeholder()?.seek_other(offset, whence);
    };
    let moved =
        |base: u64| base.checked_add_signed(offset).filter(|to| *to <= i64::MAX as u64).ok_or(libc::EINVAL);
    let result = description.with_offset(descriptor, |current| {
        let target = match whence {
            libc::SEEK_SET => moved(0),
            libc::SEEK_CUR => moved(current),
            libc::SEEK_END => match description.answer(file.size(&CALLER))? {
                Ok(size) => moved(size),
                Err(number) => Err(number),
            },
            libc::SEEK_DATA | libc::SEEK_HOLE => match u64::try_from(offset) {
                Ok(from) => {
                    let wanted = if whence == libc::SEEK_DATA { Seek::Data } else { Seek::Hole };
                    description.answer(file.seek(&CALLER, from, wanted))?
                }
                Err(_) => Err(libc::ENXIO),
            },
            _ => Err(libc::EINVAL),
        };
        Some(target.map(|target| (target, target)))
    });
    if matches!(result, Some(Ok(_))) {
        counters::served(Call::Seek);
    }
    result
}

/// `fsync(2)` and `fdatasync(2)`: with a mount the kernel, which also writes back mapped pages, does it.
pub(crate) unsafe fn fsync(descriptor: c_int, data_only: bool) -> c_int {
    sharing::settle(descriptor);
    let outcome =
        if prefix::may_hold(descriptor) { attempt(|| prefix::sync(descriptor, data_only)) } else { None };
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

/// The fast path ends for this process: offsets and times are given to the kernel first.
pub(crate) fn leave_fast_path() {
    if session::mode() == Mode::Mount {
        quietly(|| {
            sharing::settle_everything();
            session::leave();
        });
    }
}
