//! Standard streams at whose descriptors placeholders stand.

use crate::calls::store_streams;
use crate::files::description::STANDARD_STREAMS;
use crate::files::prefix;
use crate::host::{guard, real};
use crate::store::session::{self, Mode};
use libc::{c_int, FILE};
use std::sync::atomic::{AtomicBool, Ordering};

extern "C" {
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

static REPLACED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Lets a standard stream go through this library from now on, because a placeholder stands at its descriptor. The stream
/// serves every later file at that descriptor, too.
pub(crate) fn adopt_stream(descriptor: c_int) {
    let Ok(index) = usize::try_from(descriptor) else { return };
    if REPLACED.get(index).is_none_or(|replaced| replaced.swap(true, Ordering::AcqRel)) {
        return;
    }
    // SAFETY: libc lets programs assign its standard streams. The buffered bytes were written before.
    unsafe {
        let stream = place(descriptor);
        replace(stream, descriptor, if descriptor == libc::STDIN_FILENO { c"r" } else { c"w" });
        if descriptor == libc::STDERR_FILENO {
            real::setvbuf(*stream, std::ptr::null_mut(), libc::_IONBF, 0);
        }
    }
}

/// # Safety
/// `stream` is the place of a standard stream.
unsafe fn replace(stream: *mut *mut FILE, descriptor: c_int, mode: &std::ffi::CStr) {
    // SAFETY: as the caller promises.
    unsafe {
        let made = store_streams::stream_of(descriptor, mode.as_ptr());
        if !made.is_null() {
            *stream = made;
        }
    }
}

/// The place of a standard stream.
fn place(descriptor: c_int) -> *mut *mut FILE {
    match descriptor {
        libc::STDIN_FILENO => &raw mut stdin,
        libc::STDOUT_FILENO => &raw mut stdout,
        _ => &raw mut stderr,
    }
}

/// The number of a standard stream.
pub(crate) fn number_of(wanted: *mut FILE) -> Option<c_int> {
    STANDARD_STREAMS.into_iter().find(|number| !wanted.is_null() && stream(*number) == wanted)
}

/// The stream that the program finds by the variable of the standard stream `number`.
pub(crate) fn stream(number: c_int) -> *mut FILE {
    // SAFETY: libc sets the places before the program starts.
    unsafe { *place(number) }
}

/// Writes the bytes that libc holds for a standard descriptor, before another file comes to stand there.
pub(crate) fn flush_standard(descriptor: c_int) {
    // SAFETY: the standard streams are open or null.
    unsafe {
        let stream = match descriptor {
            libc::STDOUT_FILENO => stdout,
            libc::STDERR_FILENO => stderr,
            _ => return,
        };
        if !stream.is_null() {
            real::fflush(stream);
        }
    }
}

/// Writes the bytes that libc holds for `descriptor`, because another file is about to stand there.
pub(crate) fn before_standard(descriptor: c_int) {
    if session::mode() == Mode::Prefix && !guard::is_inside() {
        flush_standard(descriptor);
    }
}

/// Gives a placeholder that came to stand at a standard `descriptor` a stream of this library.
pub(crate) fn after_standard(descriptor: c_int) {
    if STANDARD_STREAMS.contains(&descriptor) && prefix::holds(descriptor) {
        adopt_stream(descriptor);
    }
}

/// Looks at the standard descriptors of a process that starts: they may be placeholders that a shell opened.
pub(crate) fn look_at_standard() {
    STANDARD_STREAMS.for_each(after_standard);
}
