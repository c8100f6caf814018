//! `freopen` of streams that lead, or are to lead, to files of the store without a mount.

use crate::calls::{close, duplicate, open, standard_streams, store_streams};
use crate::files::prefix;
use crate::files::streams::CREATED_MODE;
use crate::host::guard::{self, fail};
use crate::host::real;
use libc::{c_char, c_int, FILE};
use std::ffi::CStr;
use std::io::Write;

/// `/proc/self/fd/`, the digits of a number and the zero byte fit.
const DESCRIPTOR_NAME_BYTES: usize = 32;

/// Lets the file at `opened` stand at `number`, as `freopen` does.
fn move_to(opened: c_int, number: c_int, flags: c_int) {
    if opened != number {
        // SAFETY: no memory is passed.
        unsafe {
            duplicate::dup3(opened, number, flags & libc::O_CLOEXEC);
            close::close(opened);
        }
    }
}

/// `freopen` of a stream of this library, whose number stays. The new file may be one of the host.
///
/// # Safety
/// As for `freopen(3)`; the stream is one of this library.
pub(crate) unsafe fn reopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE {
    let Some(number) = store_streams::number_of(file) else { return fail(libc::EBADF) };
    let mut name = [0_u8; DESCRIPTOR_NAME_BYTES];
    // SAFETY: as the caller promises. libc's buffers are written first, as by libc.
    unsafe {
        real::fflush(file);
        let path = if path.is_null() {
            // The buffer has room for every number.
            let _ = write!(&mut name[..], "/proc/self/fd/{number}");
            name.as_ptr().cast()
        } else {
            path
        };
        let (opened, flags) = match store_streams::known_flags(CStr::from_ptr(mode).to_bytes()) {
            Ok(flags) => (open::open(path, flags, CREATED_MODE), flags),
            Err(number) => (fail(number), 0),
        };
        if opened < 0 {
            let before = guard::errno();
            store_streams::abandon(file);
            close::close(number);
            return fail(before);
        }
        move_to(opened, number, flags);
        store_streams::begin_anew(file, flags);
        if prefix::holds(number) {
            store_streams::note_writes(number, flags);
        }
        store_streams::start_at_end(number, flags);
        file
    }
}

/// `freopen` of the standard stream `number`, which is libc's own, to a file of the store with these open flags. The program's
/// variable then leads to a stream of this library, which is answered. `closed` ends a call that failed.
///
/// # Safety
/// `path` ends with a zero byte.
pub(crate) unsafe fn reopen_standard(
    number: c_int,
    path: *const c_char,
    flags: c_int,
    closed: impl FnOnce(c_int) -> *mut FILE,
) -> *mut FILE {
    // SAFETY: as the caller promises.
    unsafe {
        real::fflush(standard_streams::stream(number));
        let opened = open::open(path, flags, CREATED_MODE);
        if opened < 0 {
            return closed(guard::errno());
        }
        move_to(opened, number, flags);
        let stream = standard_streams::stream(number);
        if store_streams::is_ours(stream) {
            store_streams::begin_anew(stream, flags);
            store_streams::start_at_end(number, flags);
        }
        stream
    }
}
