//! Streams. With a mount they are libc's own, and the library follows their descriptors. Without a mount they are streams of
//! this library.

use crate::calls::{close, copies, data, open, reopening, standard_streams, store_streams};
use crate::files::paths::{self, Touch};
use crate::files::streams::CREATED_MODE;
use crate::files::table::{self, Entry};
use crate::files::tree::{self, Located};
use crate::files::{generation, prefix, sharing, streams};
use crate::host::guard::{self, attempt, fail, quietly};
use crate::host::{kernel, real};
use crate::store::session::{self, Mode};
use crate::{observation, placement, recorder};
use libc::{c_char, c_int, c_void, FILE};
use std::ffi::CStr;
use std::io::Write;

/// `/proc/self/fd/`, the digits of a number and the zero byte fit.
const DESCRIPTOR_NAME_BYTES: usize = 32;

/// Enters the descriptor of a stream that libc opened by `path`.
///
/// # Safety
/// `stream` is null or open; `path` ends with a zero byte.
unsafe fn note_stream(stream: *mut FILE, path: *const c_char, generation: u32) {
    if stream.is_null() || session::mode() != Mode::Mount || guard::is_inside() {
        return;
    }
    // SAFETY: as the caller promises.
    let (descriptor, text) = unsafe { (streams::stream_descriptor(stream), paths::text(path)) };
    let text = text.filter(|text| paths::is_candidate(libc::AT_FDCWD, text));
    open::note_opened(descriptor, text, 0, generation);
    share_with_stream(descriptor);
}

fn share_with_stream(descriptor: c_int) {
    if table::is_known(descriptor) {
        quietly(|| {
            if let Entry::Known(description) = table::look_up(descriptor) {
                description.note_stream(descriptor);
            }
        });
    }
}

/// `fopen(3)`.
pub(crate) unsafe fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    let generation = generation::generation();
    // SAFETY: the program's own promises, here and in all functions below.
    unsafe {
        if session::mode() == Mode::Prefix && !guard::is_inside() {
            let is_candidate = paths::text(path).is_some_and(|text| tree::is_candidate(libc::AT_FDCWD, text));
            if is_candidate && !mode.is_null() {
                return open_stream(path, mode);
            }
        }
        settle_named(path);
        let before = opening(path, mode);
        let stream = placement::open_stream(path, mode, |mode| real::fopen(path, mode));
        note_stream(stream, path, generation);
        note_recorded(stream, path, before);
        stream
    }
}

/// Prepares libc's own open of a path, which may be the name of a stand-in.
unsafe fn settle_named(path: *const c_char) {
    // SAFETY: see `fopen`.
    if let Some(text) = unsafe { paths::text(path) } {
        sharing::settle_named(text);
    }
}

/// The recorder's state of a file before a stream is opened.
unsafe fn opening(path: *const c_char, mode: *const c_char) -> Option<recorder::Before> {
    if mode.is_null() {
        return None;
    }
    // SAFETY: see `fopen`.
    unsafe { open::before_opening(libc::AT_FDCWD, path, streams::flags_of(CStr::from_ptr(mode).to_bytes())?) }
}

/// Tells the recorder of a stream that libc opened.
unsafe fn note_recorded(stream: *mut FILE, path: *const c_char, before: Option<recorder::Before>) {
    if recorder::is_on() && !stream.is_null() {
        // SAFETY: see `fopen`.
        unsafe {
            let descriptor = streams::stream_descriptor(stream);
            recorder::opened(descriptor, (libc::AT_FDCWD, path), before);
            recorder::streamed(descriptor, stream);
        }
    }
}

unsafe fn open_stream(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: see `fopen`.
    unsafe {
        let text = CStr::from_ptr(mode).to_bytes();
        let Some(flags) = streams::flags_of(text) else { return fail(libc::EINVAL) };
        let is_refused = store_streams::known_flags(text).is_err();
        // A refused mode makes and empties no file.
        let wanted = if is_refused { flags & !(libc::O_CREAT | libc::O_TRUNC) } else { flags };
        let descriptor = open::open(path, wanted, CREATED_MODE);
        if descriptor < 0 {
            if is_refused && flags & libc::O_CREAT != 0 && guard::errno() == libc::ENOENT {
                // Libc would have made the file.
                return fail(libc::EOPNOTSUPP);
            }
            return std::ptr::null_mut();
        }
        let stream = fdopen(descriptor, mode);
        if stream.is_null() {
            let before = guard::errno();
            close::close(descriptor);
            guard::set_errno(before);
        } else if prefix::holds(descriptor) {
            store_streams::start_at_end(descriptor, flags);
        }
        stream
    }
}

/// `fdopen(3)`.
pub(crate) unsafe fn fdopen(descriptor: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: see `fopen`.
    unsafe {
        if prefix::holds(descriptor) {
            return store_streams::stream_of(descriptor, mode);
        }
        share_with_stream(descriptor);
        let stream = real::fdopen(descriptor, mode);
        recorder::streamed(descriptor, stream);
        stream
    }
}

/// Reads of wide characters. libc converts inside libc, so a stream of this library refuses them: the end of the file would be
/// the wrong answer.
pub(crate) unsafe fn wide<R: guard::Failure>(stream: *mut FILE, pass: impl FnOnce() -> R) -> R {
    // SAFETY: see `fopen`.
    if session::mode() == Mode::Prefix && unsafe { store_streams::refuse(stream) } {
        return fail(libc::EOPNOTSUPP);
    }
    pass()
}

/// Writes the bytes that libc holds for a stream which it is about to close, so that the recorder sees the file's last size.
/// Bytes for reads stay with libc.
///
/// # Errors
/// The number of a failed write. libc forgets bytes that it could not write, so a later `fclose` would not tell the failure.
unsafe fn write_pending(stream: *mut FILE) -> Result<(), c_int> {
    // SAFETY: see `fopen`.
    unsafe {
        if recorder::is_on() && real::__fpending(stream) > 0 && real::fflush(stream) != 0 {
            return Err(guard::errno());
        }
    }
    Ok(())
}

/// `fclose(3)`. libc closes the descriptor without a call that the library sees.
pub(crate) unsafe fn fclose(stream: *mut FILE) -> c_int {
    // SAFETY: see `fopen`.
    unsafe {
        let is_followed = session::mode() == Mode::Mount || recorder::is_on() || observation::is_on();
        if !is_followed || stream.is_null() {
            return real::fclose(stream);
        }
        let written = write_pending(stream);
        close::release(streams::stream_descriptor(stream));
        let closed = real::fclose(stream);
        match written {
            Err(number) if closed == 0 => fail(number),
            _ => closed,
        }
    }
}

/// `freopen(3)`. Without a mount, only a standard stream of libc can become a stream of this library, because programs find it by a
/// variable. Another stream of libc gets a copy of the bytes for reads, and for writes it cannot lead into the store.
pub(crate) unsafe fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
    let generation = generation::generation();
    // SAFETY: see `fopen`.
    unsafe {
        let descriptor = if stream.is_null() { -1 } else { streams::stream_descriptor(stream) };
        if session::mode() == Mode::Prefix && !guard::is_inside() {
            let text = paths::text(path);
            if store_streams::is_ours(stream) && !mode.is_null() {
                return reopening::reopen(path, mode, stream);
            }
            if text.is_some_and(|text| tree::is_candidate(libc::AT_FDCWD, text)) && !mode.is_null() {
                return reopen_in_store(path, mode, stream);
            }
        }
        if !stream.is_null() {
            let before = guard::errno();
            // POSIX: a failure of this write is ignored.
            let _ = write_pending(stream);
            guard::set_errno(before);
        }
        settle_named(path);
        close::release(descriptor);
        let before = opening(path, mode);
        let reopened = real::freopen(path, mode, stream);
        if !path.is_null() {
            note_stream(reopened, path, generation);
            note_recorded(reopened, path, before);
        }
        reopened
    }
}

/// `freopen` of a stream of libc to a path that may lead into the store.
unsafe fn reopen_in_store(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
    // SAFETY: see `fopen`.
    unsafe {
        let located = attempt(|| match paths::locate(libc::AT_FDCWD, paths::text(path)?, Touch::Target) {
            Located::Store(..) => Some(Ok(())),
            Located::Host | Located::Elsewhere(_) => None,
        });
        match located {
            None => return real::freopen(path, mode, stream),
            Some(Err(number)) => return closed(stream, number),
            Some(Ok(())) => {}
        }
        let flags = streams::flags_of(CStr::from_ptr(mode).to_bytes());
        if let (Some(number), Some(flags)) = (standard_streams::number_of(stream), flags) {
            return reopening::reopen_standard(number, path, flags, |number| closed(stream, number));
        }
        if flags.map(|flags| flags & !libc::O_CLOEXEC) != Some(libc::O_RDONLY) {
            return closed(stream, libc::EOPNOTSUPP);
        }
        let opened = open::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0);
        if opened < 0 {
            return closed(stream, guard::errno());
        }
        // A symbolic link out of the store was opened by the kernel.
        let copy = if prefix::holds(opened) { attempt(|| copies::copy_of(opened)) } else { Some(Ok(opened)) };
        let reopened = match copy {
            Some(Ok(readable)) => {
                let mut name = [0_u8; DESCRIPTOR_NAME_BYTES];
                // The buffer has room for every number.
                let _ = write!(&mut name[..], "/proc/self/fd/{readable}");
                let reopened = real::freopen(name.as_ptr().cast(), mode, stream);
                if readable != opened {
                    kernel::close(readable);
                }
                reopened
            }
            Some(Err(number)) => closed(stream, number),
            None => closed(stream, libc::EIO),
        };
        let before = guard::errno();
        close::close(opened);
        guard::set_errno(before);
        reopened
    }
}

/// Ends a `freopen` that failed. The call closes the stream all the same, as libc does for the empty path.
unsafe fn closed(stream: *mut FILE, number: c_int) -> *mut FILE {
    // SAFETY: see `fopen`.
    unsafe { real::freopen(c"".as_ptr(), c"r".as_ptr(), stream) };
    fail(number)
}

/// `vdprintf(3)`, and `dprintf(3)` by its trampoline. libc would write inside libc, at the kernel's offset. `list` is the C
/// compiler's list of arguments, which travels as an address on both architectures.
pub(crate) unsafe extern "C" fn print_to(
    descriptor: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> c_int {
    // SAFETY: see `fopen`. The text comes from libc's heap.
    unsafe {
        if !table::is_known(descriptor) && !prefix::holds(descriptor) {
            let printed = real::vdprintf(descriptor, format, list);
            recorder::wrote(descriptor, printed as isize);
            return printed;
        }
        let mut text: *mut c_char = std::ptr::null_mut();
        let length = real::vasprintf(&raw mut text, format, list);
        let Ok(total) = usize::try_from(length) else { return -1 };
        let done = data::write_fully(descriptor, text.cast(), total);
        libc::free(text.cast());
        if done == total {
            length
        } else {
            -1
        }
    }
}
