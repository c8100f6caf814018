//! The way of a descriptor to the fast path: the opening enters the descriptor, the first data call promotes it.

use crate::files::description::Description;
use crate::files::placeholder::Placeholder;
use crate::files::table::{self, Entry};
use crate::files::unopened::Locked;
use crate::host::kernel;
use crate::store::session;
use libc::c_int;
use std::sync::Arc;

/// The description behind `descriptor`, if it is the store's and still the description that was entered.
///
/// A number that libc or a raw system call closed, and that was opened again, shows another inode. It is forgotten. So does, for
/// a moment, a stand-in that another thread has the kernel open.
pub(crate) fn described(descriptor: c_int) -> Option<Arc<Description>> {
    // Once the fast path has ended for the process, the kernel has all offsets.
    if session::mode() == session::Mode::Off {
        return None;
    }
    let Entry::Known(description) = table::look_up(descriptor) else { return None };
    let shows_it = || kernel::inode_of(descriptor) == Some(description.identity());
    if shows_it() || Locked::take().is_some_and(|_locked| shows_it()) {
        return Some(description);
    }
    forget(descriptor);
    None
}

/// Forgets a number that stands for something else now. What the client opened for its description is closed with its last number.
pub(crate) fn forget(descriptor: c_int) {
    if let Some(description) = table::forget(descriptor) {
        if description.is_abandoned() && description.placeholder().is_none() {
            description.end();
        }
    }
}

/// The description behind `descriptor`, also behind a descriptor whose opening the library did not see: an inherited or
/// received one.
pub(crate) fn discovered(descriptor: c_int) -> Option<Arc<Description>> {
    match table::look_up(descriptor) {
        Entry::Known(_) => described(descriptor),
        Entry::Foreign => None,
        Entry::Unknown => {
            let found = match session::mode() {
                session::Mode::Mount => regular_file(descriptor).and_then(|ino| {
                    let flags = kernel::status_flags(descriptor).ok()?;
                    Some(Arc::new(Description::of_kernel(ino, flags, 0)))
                }),
                session::Mode::Prefix => recognise(descriptor),
                session::Mode::Off => None,
            };
            match &found {
                Some(description) => drop(table::enter(descriptor, Arc::clone(description))),
                None => table::mark_foreign(descriptor),
            }
            found
        }
    }
}

/// Enters a descriptor that the kernel has just opened, if it stands for a regular file of the store.
pub(crate) fn enter_opened(descriptor: c_int, generation: u32) -> Option<Arc<Description>> {
    let ino = regular_file(descriptor)?;
    let flags = kernel::status_flags(descriptor).ok()?;
    let description = Arc::new(Description::of_kernel(ino, flags, generation));
    description.note_standard_stream(descriptor);
    table::enter(descriptor, Arc::clone(&description));
    Some(description)
}

/// The inode behind `descriptor`, if it is a regular file of the store. The server is not asked.
fn regular_file(descriptor: c_int) -> Option<u64> {
    let device = session::device()?;
    let found = kernel::identify(descriptor, c"", libc::STATX_INO | libc::STATX_TYPE).ok()?;
    let is_regular = libc::mode_t::from(found.stx_mode) & libc::S_IFMT == libc::S_IFREG;
    (is_regular && kernel::device_of(&found) == device).then_some(found.stx_ino)
}

/// The description behind a placeholder that this process inherited.
pub(crate) fn recognise(descriptor: c_int) -> Option<Arc<Description>> {
    let (placeholder, identity) = Placeholder::recognise(descriptor)?;
    Some(Arc::new(Description::of_placeholder(identity, placeholder, None)))
}
