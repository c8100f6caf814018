//! How a descriptor of the mount comes to the fast path: entered at its opening, promoted at its first data call.

use crate::description::Description;
use crate::kernel::{self, system_call};
use crate::table::{self, Entry};
use crate::{file_size, prefix, session};
use libc::c_int;
use std::sync::Arc;
use weir_client::{File, HandleState, HANDLE_STATE_BYTES};

/// `_IOR('W', 1, [u8; 4096])`: what the mount knows of an open regular file.
const WEIR_IOC_HANDLE: u64 = (2 << 30) | (4096 << 16) | ((b'W' as u64) << 8) | 1;
const ANSWER_BYTES: usize = 4096;
/// `_IO('W', 2)`: pages of the file are about to be mapped.
const WEIR_IOC_MAP: u64 = ((b'W' as u64) << 8) | 2;

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
    if inode(descriptor) == Some(description.identity()) {
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
                session::Mode::Prefix => prefix::recognise(descriptor),
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

/// Asks the mount for the handle of an open file.
pub(crate) fn promote(descriptor: c_int) -> Option<File> {
    let store = session::store()?;
    // The kernel enforces `ulimit -f`, with its signal.
    if file_size::limit().is_some() {
        return None;
    }
    let mut answer = [0_u8; ANSWER_BYTES];
    // SAFETY: the request's size is the buffer's.
    unsafe { system_call!(libc::SYS_ioctl, descriptor, WEIR_IOC_HANDLE, answer.as_mut_ptr()) }.ok()?;
    let length = usize::from(u16::from_le_bytes([answer[0], answer[1]]));
    if length > HANDLE_STATE_BYTES {
        return None;
    }
    let state = HandleState::decode(&answer[2..2 + length]).ok()?;
    Some(File::from_state(store, state))
}

/// Tells the mount that pages of an open file are about to be mapped: the servers then refuse to write beside it, also
/// before the first page is touched. A mount that cannot tell them learns it from the first page.
pub(crate) fn announce_pages(descriptor: c_int) {
    // SAFETY: no memory is passed.
    let _ = unsafe { system_call!(libc::SYS_ioctl, descriptor, WEIR_IOC_MAP, 0) };
}

fn inode(descriptor: c_int) -> Option<u64> {
    kernel::identify(descriptor, c"", libc::STATX_INO).ok().map(|found| found.stx_ino)
}

/// The inode of a regular file of the store; the server is not asked.
fn regular_file(descriptor: c_int) -> Option<u64> {
    let device = session::device()?;
    let found = kernel::identify(descriptor, c"", libc::STATX_INO | libc::STATX_TYPE).ok()?;
    let is_regular = libc::mode_t::from(found.stx_mode) & libc::S_IFMT == libc::S_IFREG;
    (is_regular && session::device_of(&found) == device).then_some(found.stx_ino)
}
