//! Files of tests, through the client.

#![allow(dead_code)]

use std::io::IoSliceMut;
use weir_client::wire::*;
use weir_client::{Caller, File, Place, Store};

/// This process.
pub(crate) const CALLER: Caller = Caller::own();
/// To read and write, made where it is not there.
const READ_WRITE: OpenFlags = OpenFlags {
    read: true,
    write: true,
    create: true,
    exclusive: false,
    truncate: false,
    directory: false,
    no_follow: false,
    unnamed: false,
};

/// The file of this path.
pub(crate) fn open(store: &Store, path: &str, append: bool) -> File {
    let opened = store.open(&CALLER, Place::root(path.as_bytes()), READ_WRITE, 0o644).expect("opened");
    File::new(store, opened, append).expect("a regular file")
}

/// A directory whose files get `layout`.
pub(crate) fn make_directory(store: &Store, path: &str, layout: &str) {
    let place = Place::root(path.as_bytes());
    store.make(&CALLER, place, NodeKind::Directory, 0o755).expect("made");
    store
        .set_xattr(&CALLER, place, true, b"weir.layout", layout.as_bytes(), XattrMode::Set)
        .expect("laid out");
}

/// Up to `length` bytes from the start.
pub(crate) fn read_all(file: &File, length: usize) -> Vec<u8> {
    let mut bytes = vec![0xEE; length];
    let mut filled = 0;
    while filled < length {
        let read = file.read_at(&CALLER, &mut [IoSliceMut::new(&mut bytes[filled..])], filled as u64);
        match read.expect("read") {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    bytes
}
