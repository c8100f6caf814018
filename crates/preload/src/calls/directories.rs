//! Directory streams on placeholders. With a mount the streams are libc's own, because descriptors are the kernel's.

use crate::calls::{close, open, seek};
use crate::files::placeholder::Placeholder;
use crate::files::state::Kind;
use crate::files::{paths, prefix, promotion, tree};
use crate::host::guard::{self, attempt, fail, Outcome};
use crate::host::{addresses, kernel, real};
use crate::store::counters::{self, Call};
use crate::store::session::{self, CALLER};
use libc::{c_char, c_int, c_long, c_void, dirent, size_t, ssize_t, DIR};
use std::collections::VecDeque;
use weir_client::wire::{DirectoryEntry, FileKind};

/// First word of this library's streams. libc's streams begin with a descriptor number, which is never so large.
const MAGIC: u64 = u64::from_le_bytes(*b"weir-dir");
/// Bytes of one listing of the server: about a thousand entries, and one frame.
const LISTING_BYTES: u32 = 64 * 1024;
/// Fixed part of `struct dirent`.
const HEAD_BYTES: usize = std::mem::offset_of!(dirent, d_name);

/// A directory stream of this library.
#[repr(C)]
struct Stream {
    magic: u64,
    descriptor: c_int,
    entries: VecDeque<DirectoryEntry>,
    is_at_end: bool,
    entry: dirent,
}

/// The stream of this library behind a `DIR`, if there is one.
///
/// # Safety
/// `directory` is null or an open stream of libc or of this library. No other thread uses the stream, as POSIX demands.
unsafe fn ours<'a>(directory: *mut DIR) -> Option<&'a mut Stream> {
    if session::mode() != session::Mode::Prefix || directory.is_null() {
        return None;
    }
    // SAFETY: both kinds of stream are longer than their first word, and have its alignment.
    unsafe {
        if directory.cast::<u64>().read() != MAGIC {
            return None;
        }
        Some(&mut *directory.cast::<Stream>())
    }
}

/// `opendir(3)`.
pub(crate) unsafe fn opendir(path: *const c_char) -> *mut DIR {
    // SAFETY: the program's own promises, here and in all functions below.
    unsafe {
        let is_candidate = paths::text(path).is_some_and(|text| tree::is_candidate(libc::AT_FDCWD, text));
        if session::mode() != session::Mode::Prefix || guard::is_inside() || !is_candidate {
            return real::opendir(path);
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        let descriptor = open::open(path, flags, 0);
        if descriptor < 0 {
            return std::ptr::null_mut();
        }
        fdopendir(descriptor)
    }
}

/// `fdopendir(3)`.
pub(crate) unsafe fn fdopendir(descriptor: c_int) -> *mut DIR {
    if !prefix::may_hold(descriptor) {
        // SAFETY: see `opendir`.
        return unsafe { real::fdopendir(descriptor) };
    }
    let kind = attempt(|| {
        let description = promotion::discovered(descriptor)?;
        Some(Ok(matches!(description.placeholder()?.state().kind, Kind::Directory(..))))
    });
    match kind {
        Some(Ok(true)) => {
            // SAFETY: zeros are valid for the structure of numbers.
            let entry = unsafe { std::mem::zeroed() };
            let stream =
                Stream { magic: MAGIC, descriptor, entries: VecDeque::new(), is_at_end: false, entry };
            Box::into_raw(Box::new(stream)).cast()
        }
        Some(_) => fail(libc::ENOTDIR),
        // SAFETY: see `opendir`.
        None => unsafe { real::fdopendir(descriptor) },
    }
}

/// `closedir(3)`.
pub(crate) unsafe fn closedir(directory: *mut DIR) -> c_int {
    // SAFETY: see `opendir`. The streams of this library are boxes.
    unsafe {
        let Some(stream) = ours(directory) else { return real::closedir(directory) };
        let descriptor = stream.descriptor;
        stream.magic = 0;
        drop(Box::from_raw(directory.cast::<Stream>()));
        close::close(descriptor)
    }
}

/// `dirfd(3)`.
pub(crate) unsafe fn dirfd(directory: *mut DIR) -> c_int {
    // SAFETY: see `opendir`.
    unsafe {
        match ours(directory) {
            Some(stream) => stream.descriptor,
            None => real::dirfd(directory),
        }
    }
}

/// The entries of a directory from `cookie` on, and whether no entries follow.
fn list(placeholder: &Placeholder, cookie: u64) -> Outcome<(Vec<DirectoryEntry>, bool)> {
    let Kind::Directory(handle, _) = placeholder.state().kind else { return Some(Err(libc::ENOTDIR)) };
    let store = session::store()?;
    placeholder.adopt_directory(store);
    counters::served(Call::List);
    let listed = store.list(&CALLER, placeholder.ino(), handle, cookie, LISTING_BYTES, false);
    Some(session::outcome(listed)?.map(|listing| (listing.entries, listing.end)))
}

fn fill(entry: &DirectoryEntry) -> dirent {
    // SAFETY: zeros are valid for the structure of numbers. The name then ends with a zero byte.
    let mut answer: dirent = unsafe { std::mem::zeroed() };
    let length = entry.name.len().min(answer.d_name.len() - 1);
    answer.d_ino = entry.ino.0;
    answer.d_off = entry.cookie as i64;
    answer.d_type = kind_of(entry.kind);
    answer.d_reclen = record_length(length) as u16;
    for (place, byte) in answer.d_name.iter_mut().zip(&entry.name[..length]) {
        *place = *byte as c_char;
    }
    answer
}

fn record_length(name: usize) -> usize {
    (HEAD_BYTES + name + 1).next_multiple_of(align_of::<dirent>())
}

fn kind_of(kind: FileKind) -> u8 {
    match kind {
        FileKind::Regular => libc::DT_REG,
        FileKind::Directory => libc::DT_DIR,
        FileKind::Symlink => libc::DT_LNK,
        FileKind::Fifo => libc::DT_FIFO,
        FileKind::Socket => libc::DT_SOCK,
        FileKind::CharacterDevice => libc::DT_CHR,
        FileKind::BlockDevice => libc::DT_BLK,
    }
}

/// The next entry of a stream, `Ok(None)` at the end.
fn next(stream: &mut Stream) -> Result<Option<*mut dirent>, c_int> {
    let descriptor = stream.descriptor;
    let outcome = attempt(|| {
        let description = promotion::discovered(descriptor)?;
        let placeholder = description.placeholder()?;
        placeholder.with_offset(|offset| {
            if stream.entries.is_empty() && !stream.is_at_end {
                match list(placeholder, offset)? {
                    Ok((entries, end)) => {
                        stream.is_at_end = end || entries.is_empty();
                        stream.entries = entries.into();
                    }
                    Err(number) => return Some(Err(number)),
                }
            }
            Some(Ok(match stream.entries.pop_front() {
                Some(entry) => {
                    stream.entry = fill(&entry);
                    (entry.cookie, true)
                }
                None => (offset, false),
            }))
        })
    });
    match outcome {
        Some(Ok(true)) => Ok(Some(&raw mut stream.entry)),
        Some(Ok(false)) => Ok(None),
        Some(Err(number)) => Err(number),
        None => Err(libc::EBADF),
    }
}

/// `readdir(3)`.
pub(crate) unsafe fn readdir(directory: *mut DIR) -> *mut dirent {
    // SAFETY: see `opendir`.
    unsafe {
        let Some(stream) = ours(directory) else { return real::readdir(directory) };
        match next(stream) {
            Ok(entry) => entry.unwrap_or(std::ptr::null_mut()),
            Err(number) => fail(number),
        }
    }
}

/// `readdir_r(3)`.
pub(crate) unsafe fn readdir_r(directory: *mut DIR, entry: *mut dirent, result: *mut *mut dirent) -> c_int {
    // SAFETY: see `opendir`.
    unsafe {
        let Some(stream) = ours(directory) else { return real::readdir_r(directory, entry, result) };
        *result = std::ptr::null_mut();
        match next(stream) {
            Ok(Some(found)) => {
                *entry = *found;
                *result = entry;
                0
            }
            Ok(None) => 0,
            Err(number) => number,
        }
    }
}

/// `rewinddir(3)` and `seekdir(3)`.
pub(crate) unsafe fn seekdir(directory: *mut DIR, position: c_long, pass: impl FnOnce()) {
    // SAFETY: see `opendir`.
    let Some(stream) = (unsafe { ours(directory) }) else { return pass() };
    stream.entries.clear();
    stream.is_at_end = false;
    // SAFETY: no memory is passed.
    unsafe { seek::lseek(stream.descriptor, position, libc::SEEK_SET) };
}

/// `telldir(3)`.
pub(crate) unsafe fn telldir(directory: *mut DIR) -> c_long {
    // SAFETY: see `opendir`.
    unsafe {
        match ours(directory) {
            Some(stream) => seek::lseek(stream.descriptor, 0, libc::SEEK_CUR),
            None => real::telldir(directory),
        }
    }
}

/// `getdents64(2)`: it gives as many records as fit.
pub(crate) unsafe fn getdents64(descriptor: c_int, buffer: *mut c_void, size: size_t) -> ssize_t {
    let pass = || {
        let arguments = [descriptor as usize, buffer as usize, size, 0, 0, 0];
        // SAFETY: see `opendir`.
        guard::returned(unsafe { kernel::raw(libc::SYS_getdents64, arguments) })
    };
    if !prefix::may_hold(descriptor) {
        return pass();
    }
    let outcome = attempt(|| {
        let description = promotion::discovered(descriptor)?;
        let placeholder = description.placeholder()?;
        let size = addresses::taking(buffer, size);
        if size == 0 {
            return Some(Err(libc::EFAULT));
        }
        placeholder.with_offset(|offset| {
            let entries = match list(placeholder, offset)? {
                Ok((entries, _)) => entries,
                Err(number) => return Some(Err(number)),
            };
            // SAFETY: as the program promises. Every record ends inside the buffer.
            let (used, after) = unsafe { write_records(&entries, buffer.cast(), size, offset) };
            if used == 0 && !entries.is_empty() {
                return Some(Err(libc::EINVAL));
            }
            Some(Ok((after, used)))
        })
    });
    guard::finish(outcome, |used| used as ssize_t, pass)
}

/// Writes records while they fit. Answers the number of used bytes, and the cookie after the last record.
unsafe fn write_records(
    entries: &[DirectoryEntry],
    buffer: *mut u8,
    size: usize,
    start: u64,
) -> (usize, u64) {
    let (mut used, mut after) = (0, start);
    for entry in entries {
        let record = fill(entry);
        let length = usize::from(record.d_reclen);
        if used + length > size {
            break;
        }
        // SAFETY: the record ends inside the buffer, whose length the caller gave.
        unsafe { std::ptr::copy_nonoverlapping((&raw const record).cast::<u8>(), buffer.add(used), length) };
        used += length;
        after = entry.cookie;
    }
    (used, after)
}
