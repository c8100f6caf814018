//! `FILE` streams on placeholders. libc's own streams would read and write inside libc, where the library sees no call.
//!
//! The streams are libc's cookie streams: the buffers, modes and pointers are those of any file (`fileops.c`), and reads,
//! writes, seeks and the close come back to this library. Two things that libc does for files alone are done here:
//! a write moves the offset that the stream remembers (else a later seek leads to an old place, and bytes are lost), and a
//! stream that only appends starts at the end.

use crate::calls::{close, data, locks, seek};
use crate::files::streams;
use crate::host::guard::{self, fail, quietly};
use crate::host::real::{self, CookieFunctions};
use libc::{c_char, c_int, c_void, off_t, size_t, ssize_t, FILE};
use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::sync::OnceLock;

/// The flags of [`Header`] that a mode decides.
const NO_READS: c_int = 0x4;
const NO_WRITES: c_int = 0x8;
const APPENDS: c_int = 0x1000;
const ERROR: c_int = 0x20;
/// The word in the upper half of the flags of every stream.
const MAGIC: c_int = 0xfbad_0000_u32 as c_int;
const MAGIC_MASK: c_int = 0xffff_0000_u32 as c_int;
/// A number that no descriptor has.
const PROBE_DESCRIPTOR: c_int = c_int::MAX - 7;
/// The flags that tell the end, an error, a kind of buffer, or the last direction.
const STATE: c_int = 0x10 | ERROR | 0x2 | 0x200 | 0x800;

/// `struct _IO_FILE` on 64-bit machines, as far as it is used here. The structure is part of libc's ABI, because programs read
/// it through macros (`bits/types/struct_FILE.h`).
#[repr(C)]
struct Header {
    flags: c_int,
    /// The areas for reads and writes, and the buffer.
    pointers: [*mut c_char; 8],
    /// The area for `ungetc`.
    backup: [*mut c_char; 3],
    markers: *mut c_void,
    chain: *mut c_void,
    descriptor: c_int,
    flags2: c_int,
    old_offset: libc::c_long,
    column: u16,
    vtable_offset: i8,
    short_buffer: [c_char; 1],
    lock: *mut c_void,
    /// The kernel's offset as libc remembers it, negative where libc does not know it.
    offset: off_t,
    codecvt: *mut c_void,
    /// The state of wide characters, which libc gives no cookie stream. libc still reads it for wide input.
    wide: *const c_void,
}

/// Bytes that libc may read of the state of wide characters: more than any C library has.
const WIDE_BYTES: usize = 1024;

/// A state of wide characters that holds none: wide input ends at once, where it would lead to a bad address.
#[repr(align(16))]
struct NoWide([u8; WIDE_BYTES]);
static NO_WIDE: NoWide = NoWide([0; WIDE_BYTES]);

const _: () =
    assert!(std::mem::offset_of!(Header, descriptor) == 112 && std::mem::offset_of!(Header, offset) == 144);

/// A stream of this library: the cookie of libc's stream. A closed stream's node is used again and never freed, so the list
/// needs no lock, also in a child of `fork`.
struct Stream {
    /// libc's stream, null for a node that is free.
    file: AtomicPtr<FILE>,
    descriptor: AtomicI32,
    next: *mut Stream,
}

static STREAMS: AtomicPtr<Stream> = AtomicPtr::new(std::ptr::null_mut());
static FUNCTIONS: CookieFunctions = CookieFunctions { read, write, seek, close };

/// The place of a node that is made and not yet used.
const RESERVED: *mut FILE = std::ptr::without_provenance_mut(1);

fn each() -> impl Iterator<Item = &'static Stream> {
    let first = STREAMS.load(Ordering::Acquire);
    // SAFETY: nodes are never freed, and their links never change.
    std::iter::successors(unsafe { first.as_ref() }, |node| unsafe { node.next.as_ref() })
}

/// The stream of this library behind a `FILE`.
fn find(file: *mut FILE) -> Option<&'static Stream> {
    each().find(|node| node.file.load(Ordering::Acquire) == file)
}

/// Whether a stream is one of this library.
pub(crate) fn is_ours(file: *mut FILE) -> bool {
    !file.is_null() && find(file).is_some()
}

/// Notes an error in a stream, if it is one of this library. Answers whether it is.
///
/// # Safety
/// `file` is null or an open stream.
pub(crate) unsafe fn refuse(file: *mut FILE) -> bool {
    let is_refused = is_ours(file);
    if is_refused {
        // SAFETY: the stream is open.
        unsafe { (*file.cast::<Header>()).flags |= ERROR };
    }
    is_refused
}

/// A node for a new stream.
fn node(descriptor: c_int) -> &'static Stream {
    let take = |node: &&Stream| {
        let free = std::ptr::null_mut();
        node.file.compare_exchange(free, RESERVED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    };
    if let Some(node) = each().find(take) {
        node.descriptor.store(descriptor, Ordering::Release);
        return node;
    }
    let made = Stream {
        file: AtomicPtr::new(RESERVED),
        descriptor: AtomicI32::new(descriptor),
        next: std::ptr::null_mut(),
    };
    let made = Box::into_raw(Box::new(made));
    let mut first = STREAMS.load(Ordering::Acquire);
    loop {
        // SAFETY: no other thread has seen the node.
        unsafe { (*made).next = first };
        match STREAMS.compare_exchange(first, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: the node is leaked.
            Ok(_) => return unsafe { &*made },
            Err(other) => first = other,
        }
    }
}

/// The stream of a cookie.
///
/// # Safety
/// libc passes the cookie that [`stream_of`] gave.
unsafe fn stream<'a>(cookie: *mut c_void) -> &'a Stream {
    // SAFETY: as the caller promises. Nodes are never freed.
    unsafe { &*cookie.cast::<Stream>() }
}

/// Moves the offset that a stream remembers behind bytes that were written.
///
/// # Safety
/// The stream is open, and the caller holds its lock.
unsafe fn note_written(file: *mut FILE, count: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        let header = file.cast::<Header>();
        if (*header).offset >= 0 {
            (*header).offset += count as off_t;
        }
    }
}

extern "C" fn read(cookie: *mut c_void, buffer: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: libc passes its own buffer and the cookie.
    unsafe { data::read(stream(cookie).descriptor.load(Ordering::Acquire), buffer.cast(), size) }
}

extern "C" fn write(cookie: *mut c_void, buffer: *const c_char, size: size_t) -> ssize_t {
    // SAFETY: see `read`. libc holds the stream's lock.
    unsafe {
        let stream = stream(cookie);
        let done = data::write_fully(stream.descriptor.load(Ordering::Acquire), buffer.cast(), size);
        note_written(stream.file.load(Ordering::Acquire), done);
        // fopencookie(3): 0 means an error.
        done as ssize_t
    }
}

extern "C" fn seek(cookie: *mut c_void, offset: *mut off_t, whence: c_int) -> c_int {
    // SAFETY: libc passes the place of its own offset.
    unsafe {
        let position = seek::lseek(stream(cookie).descriptor.load(Ordering::Acquire), *offset, whence);
        if position < 0 {
            return -1;
        }
        *offset = position;
    }
    0
}

extern "C" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: no memory is passed.
    unsafe {
        let stream = stream(cookie);
        let descriptor = stream.descriptor.swap(-1, Ordering::AcqRel);
        stream.file.store(std::ptr::null_mut(), Ordering::Release);
        if descriptor < 0 {
            0
        } else {
            close::close(descriptor)
        }
    }
}

/// The flags of a mode, whose open flags are `flags`.
fn mode_flags(flags: c_int) -> c_int {
    let access = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => NO_WRITES,
        libc::O_WRONLY => NO_READS,
        _ => 0,
    };
    access | if flags & libc::O_APPEND == 0 { 0 } else { APPENDS }
}

/// Prepares a placeholder for a stream with the open flags of a mode, as `fdopen` does.
fn prepare(descriptor: c_int, flags: c_int) -> Result<(), c_int> {
    // SAFETY: no memory is passed.
    let Some(present) = (unsafe { locks::fcntl(descriptor, libc::F_GETFL, 0) }) else {
        return Err(libc::EBADF);
    };
    if present < 0 {
        return Err(guard::errno());
    }
    let (has, wants) = (present & libc::O_ACCMODE, flags & libc::O_ACCMODE);
    if has != libc::O_RDWR && has != wants {
        return Err(libc::EINVAL);
    }
    if flags & libc::O_APPEND != 0 && present & libc::O_APPEND == 0 {
        // SAFETY: see above.
        unsafe { locks::fcntl(descriptor, libc::F_SETFL, (present | libc::O_APPEND).into()) };
        start_at_end(descriptor, flags);
    }
    Ok(())
}

/// Goes to the end, where a stream with these open flags only appends.
pub(crate) fn start_at_end(descriptor: c_int, flags: c_int) {
    if flags & libc::O_APPEND != 0 && flags & libc::O_ACCMODE == libc::O_WRONLY {
        // SAFETY: no memory is passed. A failure leaves the offset, which no append uses.
        unsafe { seek::lseek(descriptor, 0, libc::SEEK_END) };
    }
}

/// The stream of `fdopen` on a placeholder. Null with errno where libc has no memory, or other streams than this library knows, or
/// where the descriptor is not open for `mode`.
///
/// # Safety
/// `mode` ends with a zero byte.
pub(crate) unsafe fn stream_of(descriptor: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: as the caller promises.
    let flags = match known_flags(unsafe { CStr::from_ptr(mode).to_bytes() }) {
        Ok(flags) => flags,
        Err(number) => return fail(number),
    };
    match prepare(descriptor, flags) {
        Ok(()) => made(descriptor, flags),
        Err(number) => fail(number),
    }
}

/// The open flags of a mode that a stream of this library can have. A stream with a character set of its own converts inside
/// libc, past this library.
///
/// # Errors
/// EINVAL for a mode that libc refuses, EOPNOTSUPP for a character set, and where libc's streams are not known.
pub(crate) fn known_flags(mode: &[u8]) -> Result<c_int, c_int> {
    if mode.windows(5).any(|part| part == b",ccs=") || !libc_is_known() {
        return Err(libc::EOPNOTSUPP);
    }
    streams::flags_of(mode).ok_or(libc::EINVAL)
}

/// Bytes in memory, under the stream that shows how this process's libc behaves.
struct Probe {
    file: *mut FILE,
    bytes: [u8; 8],
    position: usize,
}

impl Probe {
    const FUNCTIONS: CookieFunctions =
        CookieFunctions { read: Probe::read, write: Probe::write, seek: Probe::seek, close: Probe::close };

    extern "C" fn read(_cookie: *mut c_void, _buffer: *mut c_char, _size: size_t) -> ssize_t {
        0
    }

    extern "C" fn write(cookie: *mut c_void, buffer: *const c_char, size: size_t) -> ssize_t {
        // SAFETY: libc passes the cookie and its own buffer.
        let (probe, given) =
            unsafe { (&mut *cookie.cast::<Probe>(), std::slice::from_raw_parts(buffer.cast::<u8>(), size)) };
        let Some(room) = probe.bytes.get_mut(probe.position..probe.position + size) else { return 0 };
        room.copy_from_slice(given);
        probe.position += size;
        // SAFETY: libc holds the stream's lock.
        unsafe { note_written(probe.file, size) };
        size as ssize_t
    }

    extern "C" fn seek(cookie: *mut c_void, offset: *mut off_t, whence: c_int) -> c_int {
        // SAFETY: libc passes the cookie and the place of its own offset.
        unsafe {
            let probe = &mut *cookie.cast::<Probe>();
            let base = match whence {
                libc::SEEK_CUR => probe.position,
                libc::SEEK_END => probe.bytes.len(),
                _ => 0,
            };
            *offset += base as off_t;
            match usize::try_from(*offset) {
                Ok(position) => probe.position = position,
                Err(_) => return -1,
            }
        }
        0
    }

    extern "C" fn close(_cookie: *mut c_void) -> c_int {
        0
    }

    /// Whether a stream has the form that this library changes, obeys the flags, and writes where it was told to.
    fn behaves() -> bool {
        let mut probe = Probe { file: std::ptr::null_mut(), bytes: [0; 8], position: 0 };
        let cookie = &raw mut probe;
        // SAFETY: the probe outlives its stream. Nobody else knows the stream. The structure is at least as long as the one
        // that is part of libc's ABI.
        unsafe {
            let file = real::fopencookie(cookie.cast(), c"r+".as_ptr(), Probe::FUNCTIONS);
            if file.is_null() {
                return false;
            }
            (*cookie).file = file;
            let header = file.cast::<Header>();
            let known = (*header).flags & (MAGIC_MASK | NO_READS | NO_WRITES | APPENDS | ERROR) == MAGIC
                && (*header).offset == -1
                && ((*header).wide.is_null() || (*header).wide as isize == -1);
            let descriptor = std::mem::replace(&mut (*header).descriptor, PROBE_DESCRIPTOR);
            let mut behaves = known && real::fileno(file) == PROBE_DESCRIPTOR;
            (*header).flags |= NO_READS | NO_WRITES;
            behaves &= libc::fgetc(file) == libc::EOF && libc::fputc(0, file) == libc::EOF;
            (*header).flags &= !(NO_READS | NO_WRITES | STATE);
            for (place, text) in [(0, c"12345678"), (2, c"ab"), (6, c"cd")] {
                behaves &=
                    libc::fseek(file, place, libc::SEEK_SET) == 0 && libc::fputs(text.as_ptr(), file) >= 0;
            }
            behaves &= libc::ftell(file) == 8;
            (*header).descriptor = descriptor;
            real::fclose(file) == 0 && behaves && &(*cookie).bytes == b"12ab56cd"
        }
    }
}

/// Whether this process's libc has streams as this library knows them, which is found out once.
fn libc_is_known() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    let before = guard::errno();
    let known = KNOWN.get().copied().unwrap_or_else(Probe::behaves);
    let _ = KNOWN.set(known);
    guard::set_errno(before);
    known
}

/// A stream on a placeholder that is open with these flags.
fn made(descriptor: c_int, flags: c_int) -> *mut FILE {
    let mut cookie = None;
    quietly(|| cookie = Some(node(descriptor)));
    let Some(stream) = cookie else { return fail(libc::ENOMEM) };
    // The flags of the mode are set below: libc looks for `+` at two places alone.
    // SAFETY: the functions and the node live as long as the library.
    unsafe {
        let cookie = std::ptr::from_ref(stream).cast_mut().cast();
        let file = real::fopencookie(cookie, c"r+".as_ptr(), FUNCTIONS);
        if file.is_null() {
            stream.file.store(std::ptr::null_mut(), Ordering::Release);
            return file;
        }
        let header = file.cast::<Header>();
        (*header).flags |= mode_flags(flags);
        (*header).descriptor = descriptor;
        (*header).wide = NO_WIDE.0.as_ptr().cast();
        stream.file.store(file, Ordering::Release);
        note_writes(descriptor, flags);
        file
    }
}

/// Notes that a stream of `descriptor` may hold bytes that are not written, where it is open for writes.
pub(crate) fn note_writes(descriptor: c_int, flags: c_int) {
    if flags & libc::O_ACCMODE != libc::O_RDONLY {
        quietly(|| locks::note_streamed(descriptor));
    }
}

/// The number of a stream's descriptor.
pub(crate) fn number_of(file: *mut FILE) -> Option<c_int> {
    find(file).map(|stream| stream.descriptor.load(Ordering::Acquire))
}

/// Notes that a stream has no descriptor any more.
pub(crate) fn abandon(file: *mut FILE) {
    if let Some(stream) = find(file) {
        stream.descriptor.store(-1, Ordering::Release);
    }
}

/// Gives a stream the state of one that was just opened with these flags.
///
/// # Safety
/// The stream is one of this library. Its buffer holds no bytes that are to be written.
pub(crate) unsafe fn begin_anew(file: *mut FILE, flags: c_int) {
    // SAFETY: as the caller promises. Without a buffer, libc forgets the program's buffer and frees its own.
    unsafe {
        real::__fpurge(file);
        real::setvbuf(file, std::ptr::null_mut(), libc::_IONBF, 0);
        let header = file.cast::<Header>();
        (*header).pointers = [std::ptr::null_mut(); 8];
        (*header).flags &= !(STATE | NO_READS | NO_WRITES | APPENDS);
        (*header).flags |= mode_flags(flags);
        (*header).offset = -1;
    }
}
