//! Calls of the client that are several requests each: opens with flags of `os`, whole files, copies and listings.

use super::attributes::{row, Row};
use std::ffi::OsString;
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::ffi::OsStringExt;
use weir_client::wire::{limits, FileKind, OpenFlags};
use weir_client::{type_bits, Caller, ClientError, File, Opened, Place, Result, Store};

/// Bytes of one part of a listing.
const LISTING_BYTES: u32 = limits::INLINE_PAYLOAD_BYTES as u32;

/// The caller of every request: the bearer of the client's credential.
pub(crate) const CALLER: Caller = Caller::own();

/// A name in a directory, the type of its node as in `st_mode`, and its attributes where the same server holds them.
pub(crate) type Entry = (OsString, u32, Option<Row>);

/// The flags of `open(2)` as the home server takes them.
fn open_flags(flags: i32) -> OpenFlags {
    let access = flags & libc::O_ACCMODE;
    OpenFlags {
        read: access != libc::O_WRONLY,
        write: access != libc::O_RDONLY,
        create: flags & libc::O_CREAT != 0,
        exclusive: flags & libc::O_EXCL != 0,
        truncate: flags & libc::O_TRUNC != 0,
        ..OpenFlags::default()
    }
}

/// Opens a regular file.
pub(crate) fn opened(store: &Store, place: Place<'_>, flags: i32, permissions: u16) -> Result<File> {
    let opened = regular(store, store.open(&CALLER, place, open_flags(flags), permissions)?)?;
    File::new(store, opened, flags & libc::O_APPEND != 0)
}

/// Opens a regular file to read it. Answers the file and its size.
pub(crate) fn opened_to_read(store: &Store, place: Place<'_>) -> Result<(File, i64)> {
    let opened = regular(store, store.open(&CALLER, place, open_flags(libc::O_RDONLY), 0)?)?;
    let size = opened.attributes.size_bytes;
    Ok((File::new(store, opened, false)?, size as i64))
}

/// The open file, where it is one with bytes.
fn regular(store: &Store, opened: Opened) -> Result<Opened> {
    let number = match opened.attributes.kind {
        FileKind::Regular => return Ok(opened),
        FileKind::Directory => libc::EISDIR,
        // Pipes, sockets and devices live in a kernel.
        _ => libc::ENXIO,
    };
    store.close(&CALLER, opened.attributes.ino, opened.handle)?;
    Err(ClientError::number(number))
}

/// Reads until the room is full or the file ends.
pub(crate) fn read_fully(file: &File, room: &mut [u8], offset: u64) -> Result<usize> {
    let mut done = 0;
    while done < room.len() {
        match file.read_at(&CALLER, &mut [IoSliceMut::new(&mut room[done..])], offset + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

/// Writes all bytes from the begin of the file.
pub(crate) fn write_fully(file: &File, bytes: &[u8]) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += file.write_at(&CALLER, &[IoSlice::new(&bytes[done..])], done as u64)?;
    }
    Ok(())
}

/// Copies the bytes of a file to another one, which is made or replaced. Answers their number.
pub(crate) fn copy(store: &Store, from: Place<'_>, to: Place<'_>, permissions: u16) -> Result<u64> {
    let source = opened(store, from, libc::O_RDONLY, 0)?;
    let copied = opened(store, to, libc::O_WRONLY | libc::O_CREAT, permissions).and_then(|target| {
        // The target is not emptied by its open, because it may be the source.
        let copied = if source.ino() == target.ino() {
            Err(ClientError::number(libc::EINVAL))
        } else {
            target.truncate(&CALLER, 0).and_then(|()| copy_bytes(&source, &target))
        };
        target.close(&CALLER).and(copied)
    });
    source.close(&CALLER).and(copied)
}

fn copy_bytes(source: &File, target: &File) -> Result<u64> {
    let mut done = 0;
    loop {
        match source.copy_range(&CALLER, done, target, done, limits::FILE_BYTES)? {
            0 => return Ok(done),
            count => done += count,
        }
    }
}

/// The entries of a directory without `.` and `..`.
pub(crate) fn listed(store: &Store, place: Place<'_>) -> Result<Vec<Entry>> {
    let flags = OpenFlags { directory: true, ..open_flags(libc::O_RDONLY) };
    let opened = store.open(&CALLER, place, flags, 0)?;
    let ino = opened.attributes.ino;
    let mut found = Vec::new();
    let mut cookie = 0;
    let outcome = loop {
        match store.list(&CALLER, ino, opened.handle, cookie, LISTING_BYTES, true) {
            Ok(listing) => {
                cookie = listing.entries.last().map_or(cookie, |entry| entry.cookie);
                let named =
                    listing.entries.into_iter().filter(|entry| entry.name != b"." && entry.name != b"..");
                found.extend(named.map(|entry| {
                    let attributes = entry.attributes.as_ref().map(row);
                    (OsString::from_vec(entry.name), type_bits(entry.kind), attributes)
                }));
                if listing.end {
                    break Ok(found);
                }
            }
            Err(error) => break Err(error),
        }
    };
    store.close(&CALLER, ino, opened.handle).and(outcome)
}
