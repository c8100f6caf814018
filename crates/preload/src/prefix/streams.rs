//! `FILE` streams on placeholders: libc's own would read and write inside libc, out of our sight.

use crate::guard::quietly;
use crate::prefix::locks;
use crate::{data, descriptors, real};
use libc::{c_char, c_int, c_void, off_t, size_t, ssize_t, FILE};
use std::sync::atomic::{AtomicBool, Ordering};

/// Where `struct _IO_FILE` keeps the descriptor on 64-bit machines; the structure is part of libc's ABI, because
/// old programs read it through macros.
const FILENO_OFFSET: usize = 112;

/// `cookie_io_functions_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CookieFunctions {
    read: extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: extern "C" fn(*mut c_void, *mut off_t, c_int) -> c_int,
    close: extern "C" fn(*mut c_void) -> c_int,
}

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
    let mut done = 0;
    while done < size {
        // SAFETY: libc passes its own buffer.
        let count = unsafe { data::write(descriptor_of(cookie), buffer.add(done).cast(), size - done) };
        match usize::try_from(count) {
            Ok(count) if count > 0 => done += count,
            _ => break,
        }
    }
    // fopencookie(3): 0 means an error.
    done as ssize_t
}

extern "C" fn seek(cookie: *mut c_void, offset: *mut off_t, whence: c_int) -> c_int {
    // SAFETY: libc passes the place of its own offset.
    unsafe {
        let position = descriptors::lseek(descriptor_of(cookie), *offset, whence);
        if position < 0 {
            return -1;
        }
        *offset = position;
    }
    0
}

extern "C" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: no memory is passed.
    unsafe { descriptors::close(descriptor_of(cookie)) }
}

/// A stream on a placeholder; null with errno where libc has no memory or does not know `mode`.
///
/// # Safety
/// `mode` ends with a zero byte.
pub(crate) unsafe fn stream_of(descriptor: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: as the caller promises; the functions live as long as the library.
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

/// The descriptor of any stream; -1 where it has none.
///
/// # Safety
/// `stream` is an open stream.
pub(crate) unsafe fn stream_descriptor(stream: *mut FILE) -> c_int {
    let before = crate::guard::errno();
    // SAFETY: as the caller promises.
    let descriptor = unsafe { real::fileno(stream) };
    crate::guard::set_errno(before);
    descriptor
}

/// A placeholder stands at a standard descriptor: from now on the standard stream goes through this library, for
/// whatever stands there.
pub(crate) fn adopt_stream(descriptor: c_int) {
    let Ok(index) = usize::try_from(descriptor) else { return };
    if REPLACED.get(index).is_none_or(|replaced| replaced.swap(true, Ordering::AcqRel)) {
        return;
    }
    // SAFETY: libc lets programs assign its standard streams; what was buffered is written first.
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

/// What libc buffered for a standard descriptor is written before something else comes to stand there.
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
