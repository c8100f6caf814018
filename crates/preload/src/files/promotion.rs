//! How a descriptor of the mount comes to the fast path: entered at its opening, promoted at its first data call.

use crate::files::description::Description;
use crate::files::placeholder::Placeholder;
use crate::files::table::{self, Entry};
use crate::host::kernel;
use crate::store::session;
use libc::c_int;
use std::sync::Arc;

/// The description behind `descriptor`, if it is the store's and still the one that was entered.
///
/// A number that libc or a raw system call closed out of our sight and that was opened again shows another inode:
/// it is forgotten.
pub(crate) fn described(descriptor: c_int) -> Option<Arc<Description>> {
    // Once the fast path has ended for the process, the kernel has all offsets.
    if session::mode() == session::Mode::Off {
        return None;
    }
    let Entry::Known(description) = table::look_up(descriptor) else { return None };
    if kernel::inode_of(descriptor) == Some(description.identity()) {
        return Some(description);
    }
    table::forget(descriptor);
    None
}

/// As [`described`], also looking at descriptors that the process did not open in our sight: those it inherited or
/// was sent.
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

/// Enters a descriptor that the kernel has just opened, if it is a regular file of the store.
pub(crate) fn enter_opened(descriptor: c_int, generation: u32) -> Option<Arc<Description>> {
    let ino = regular_file(descriptor)?;
    let flags = kernel::status_flags(descriptor).ok()?;
    let description = Arc::new(Description::of_kernel(ino, flags, generation));
    description.note_standard_stream(descriptor);
    table::enter(descriptor, Arc::clone(&description));
    Some(description)
}

/// The inode of a regular file of the store; the server is not asked.
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
