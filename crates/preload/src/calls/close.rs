//! The close of descriptors.

use crate::calls::locks;
use crate::files::stand_ins::{self, Locked};
use crate::files::table::{self, Entry};
use crate::files::{locked_files, prefix, promotion, sharing};
use crate::host::guard::{self, attempt, fail, quietly, returned, Outcome};
use crate::host::{kernel, real};
use crate::store::session::{self, Mode};
use crate::{observation, recorder};
use libc::{c_int, c_uint};

/// `close_range(2)`: the thread gets a table of its own first.
const CLOSE_RANGE_UNSHARE: c_uint = 2;
/// `close_range(2)`: the call marks descriptors instead of closing them.
const CLOSE_RANGE_CLOEXEC: c_uint = 4;

/// Whether `descriptor` is the library's own. Programs may not close or overwrite it.
pub(crate) fn is_protected(descriptor: c_int) -> bool {
    weir_client::is_own_descriptor(descriptor) && !guard::is_inside()
}

/// Forgets a number that the kernel gave to a file outside the store.
pub(crate) fn note_foreign(opened: c_int) {
    if opened >= 0 && (table::is_known(opened) || table::is_foreign(opened)) && !guard::is_inside() {
        quietly(|| promotion::forget(opened));
    }
}

/// Publishes pending times of a descriptor that is about to be closed, and forgets its number.
pub(crate) fn release(descriptor: c_int) {
    observation::closing(descriptor);
    recorder::closing(descriptor);
    if prefix::may_hold(descriptor) {
        quietly(|| release_placeholder(descriptor));
        return;
    }
    if !table::is_known(descriptor) && !table::is_foreign(descriptor) {
        return;
    }
    quietly(|| {
        if let Some(description) = table::forget(descriptor) {
            if description.is_abandoned() {
                description.end();
            } else {
                // Other numbers of the description need the kernel's offset after this close.
                description.settle_opened(descriptor);
            }
        }
    });
}

/// Forgets a placeholder that is about to be closed. The last descriptor ends its description. The close of any descriptor of
/// a file releases the process's locks on the file (POSIX).
pub(crate) fn release_placeholder(descriptor: c_int) {
    let Some(description) = promotion::discovered(descriptor) else {
        drop(table::forget(descriptor));
        return;
    };
    table::forget(descriptor);
    locks::release_process_locks(&description);
    if description.is_abandoned() {
        description.publish();
        if let Some(placeholder) = description.placeholder() {
            placeholder.close(description.file_in_use());
        }
    }
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
    if stand_ins::hold(descriptor) {
        observation::closing(descriptor);
        recorder::closing(descriptor);
        if let Some(Ok(())) = attempt(|| close_stand_in(descriptor)) {
            return 0;
        }
    }
    release(descriptor);
    // SAFETY: see `openat`.
    unsafe { real::close(descriptor) }
}

/// Closes a stand-in. `None` where the kernel has to: it opened the file meanwhile, or its process locks on the file go with the
/// close of any descriptor.
fn close_stand_in(descriptor: c_int) -> Outcome<()> {
    let locked = Locked::take()?;
    let Entry::Known(description) = table::look_up(descriptor) else { return None };
    let ino = description.ino_beside_kernel()?;
    if locked_files::hold(ino) {
        drop(locked);
        description.settle(descriptor);
        return None;
    }
    table::forget(descriptor);
    kernel::close(descriptor);
    drop(locked);
    if description.is_abandoned() {
        description.end();
    }
    Some(Ok(()))
}

/// `close_range(2)`, around the library's own descriptors.
pub(crate) unsafe fn close_range(first: c_uint, last: c_uint, flags: c_uint) -> c_int {
    let raw = |first: c_uint, last: c_uint| -> c_int {
        // SAFETY: no memory is passed.
        returned(unsafe {
            kernel::raw(libc::SYS_close_range, [first as usize, last as usize, flags as usize, 0, 0, 0])
        })
    };
    let is_followed = session::mode() != Mode::Off || recorder::is_on() || observation::is_on();
    if !is_followed || guard::is_inside() || first > last {
        return raw(first, last);
    }
    if flags & CLOSE_RANGE_UNSHARE != 0 {
        // The table becomes this thread's own: the library cannot tell the numbers of other threads from its numbers.
        sharing::leave_fast_path();
        return raw(first, last);
    }
    let highest = last.min(c_int::MAX as c_uint) as c_int;
    if flags & CLOSE_RANGE_CLOEXEC == 0 {
        let known = table::highest().max(recorder::highest()).max(observation::highest());
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
