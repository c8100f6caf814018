//! `FILE` streams on placeholders. libc's own streams would read and write inside libc, where the library sees no call.

use crate::calls::{close, data, locks, seek};
use crate::files::description::STANDARD_STREAMS;
use crate::files::prefix;
use crate::host::guard::{self, quietly};
use crate::host::real::{self, CookieFunctions};
use crate::store::session::{self, Mode};
use libc::{c_char, c_int, c_void, off_t, size_t, ssize_t, FILE};
use std::sync::atomic::{AtomicBool, Ordering};

/// Offset of the descriptor in `struct _IO_FILE` on 64-bit machines. The structure is part of libc's ABI, because old programs
/// read it through macros.
const FILENO_OFFSET: usize = 112;

static FUNCTIONS: CookieFunctions = CookieFunctions { read, write, seek, close };

extern "C" {
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

static REPLACED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

fn descriptor_of(cookie: *mut c_void) -> c_int {
    cookie as usize as c_int
}

extern "C" fn read(cookie: *mut c_void, buffer: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: libc passes its own buffer.
    unsafe { data::read(descriptor_of(cookie), buffer.cast(), size) }
}

extern "C" fn write(cookie: *mut c_void, buffer: *const c_char, size: size_t) -> ssize_t {
    // fopencookie(3): 0 means an error.
    // SAFETY: libc passes its own buffer.
    unsafe { data::write_fully(descriptor_of(cookie), buffer.cast(), size) as ssize_t }
}

extern "C" fn seek(cookie: *mut c_void, offset: *mut off_t, whence: c_int) -> c_int {
    // SAFETY: libc passes the place of its own offset.
    unsafe {
        let position = seek::lseek(descriptor_of(cookie), *offset, whence);
        if position < 0 {
            return -1;
        }
        *offset = position;
    }
    0
}

extern "C" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: no memory is passed.
    unsafe { close::close(descriptor_of(cookie)) }
}

/// A stream on a placeholder. Null with errno where libc has no memory or does not know `mode`.
///
/// # Safety
/// `mode` ends with a zero byte.
pub(crate) unsafe fn stream_of(descriptor: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: as the caller promises. The functions live as long as the library.
    unsafe {
        let stream = real::fopencookie(descriptor as usize as *mut c_void, mode, FUNCTIONS);
        if !stream.is_null() {
            stream.cast::<u8>().add(FILENO_OFFSET).cast::<c_int>().write(descriptor);
            let mode = std::ffi::CStr::from_ptr(mode).to_bytes();
            if !mode.starts_with(b"r") || mode.contains(&b'+') {
                quietly(|| locks::note_streamed(descriptor));
            }
        }
        stream
    }
}

/// Lets a standard stream go through this library from now on, because a placeholder stands at its descriptor. The stream
/// serves every later file at that descriptor, too.
pub(crate) fn adopt_stream(descriptor: c_int) {
    let Ok(index) = usize::try_from(descriptor) else { return };
    if REPLACED.get(index).is_none_or(|replaced| replaced.swap(true, Ordering::AcqRel)) {
        return;
    }
    // SAFETY: libc lets programs assign its standard streams. The buffered bytes were written before.
    unsafe {
        match descriptor {
            libc::STDIN_FILENO => replace(&raw mut stdin, descriptor, c"r"),
            libc::STDOUT_FILENO => replace(&raw mut stdout, descriptor, c"w"),
            _ => {
                replace(&raw mut stderr, descriptor, c"w");
                real::setvbuf(stderr, std::ptr::null_mut(), libc::_IONBF, 0);
            }
        }
    }
}

/// # Safety
/// `stream` is the place of a standard stream.
unsafe fn replace(stream: *mut *mut FILE, descriptor: c_int, mode: &std::ffi::CStr) {
    // SAFETY: as the caller promises.
    unsafe {
        let made = stream_of(descriptor, mode.as_ptr());
        if !made.is_null() {
            *stream = made;
        }
    }
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
