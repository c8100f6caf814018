//! Open directories and their listings.

use crate::abi::{Dirent, Fixed, FsyncIn, OpenOut, ReadIn, ReleaseIn};
use crate::call::{Answer, Call, Failure, Reply};
use crate::filesystem::Filesystem;
use crate::handles::{Listed, OpenDirectory};
use std::sync::{Mutex, PoisonError};
use weir_client::wire::{limits, DirectoryEntry, HandleId, Ino, OpenFlags};
use weir_client::{type_bits, Caller, Place};

/// Most bytes of entries in one answer of a server: some hundred names, one small frame.
const LISTING_BYTES: u32 = limits::INLINE_PAYLOAD_BYTES as u32;
impl Filesystem {
    pub(crate) fn open_directory(&self, call: &mut Call<'_>) -> Answer {
        let opener = self.caller(&call.header);
        let flags = OpenFlags { read: true, directory: true, ..OpenFlags::default() };
        let opened = self.store.open(&opener, Place::inode(call.node()), flags, 0)?;
        let handle = self.handles.insert_directory(OpenDirectory {
            ino: call.node(),
            handle: opened.handle,
            opener,
            listed: Mutex::default(),
        });
        Reply::of(&OpenOut { handle, ..OpenOut::default() })
    }

    pub(crate) fn release_directory(&self, call: &mut Call<'_>) -> Answer {
        let asked: ReleaseIn = call.take()?;
        let open = self.handles.remove_directory(asked.handle)?;
        self.store.close(&open.opener, open.ino, open.handle)?;
        Ok(Reply::Done)
    }

    pub(crate) fn sync_directory(&self, call: &mut Call<'_>) -> Answer {
        let asked: FsyncIn = call.take()?;
        let open = self.handles.directory(asked.handle)?;
        self.store.sync_metadata(&open.opener, open.ino)?;
        Ok(Reply::Done)
    }

    pub(crate) fn read_directory(&self, call: &mut Call<'_>) -> Answer {
        let asked: ReadIn = call.take()?;
        let open = self.handles.directory(asked.handle)?;
        let room = asked.size as usize;
        let mut out = Vec::with_capacity(room.min(LISTING_BYTES as usize));
        let mut cookie = asked.offset;
        let mut listed = open.listed.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // A listing from the start is a fresh one, as after rewinddir(3).
            if cookie == 0 || listed.position(cookie).is_none() {
                *listed = self.list(&open, cookie)?;
            }
            let from = listed.position(cookie).unwrap_or(listed.entries.len());
            for entry in &listed.entries[from..] {
                let kind = type_bits(entry.kind) >> 12;
                if !put(&mut out, room, entry.ino.0, entry.cookie, kind, &entry.name) {
                    return Ok(Reply::Bytes(out));
                }
                cookie = entry.cookie;
            }
            if listed.end || listed.entries.is_empty() {
                return Ok(Reply::Bytes(out));
            }
        }
    }

    /// The entry of a name, by a listing of its directory.
    pub(super) fn named(
        &self,
        caller: &Caller,
        directory: Ino,
        name: &[u8],
    ) -> Result<Option<DirectoryEntry>, Failure> {
        let flags = OpenFlags { read: true, directory: true, ..OpenFlags::default() };
        let handle = self.store.open(caller, Place::inode(directory), flags, 0)?.handle;
        let found = self.found_in(caller, (directory, handle), name);
        self.store.close(caller, directory, handle)?;
        found
    }

    fn found_in(
        &self,
        caller: &Caller,
        (directory, handle): (Ino, HandleId),
        name: &[u8],
    ) -> Result<Option<DirectoryEntry>, Failure> {
        let mut cookie = 0;
        loop {
            let listing = self.store.list(caller, directory, handle, cookie, LISTING_BYTES, false)?;
            let Some(last) = listing.entries.last() else { return Ok(None) };
            cookie = last.cookie;
            let found = listing.entries.into_iter().find(|entry| entry.name == name);
            if found.is_some() || listing.end {
                return Ok(found);
            }
        }
    }

    fn list(&self, open: &OpenDirectory, cookie: u64) -> Result<Listed, Failure> {
        let listing = self.store.list(&open.opener, open.ino, open.handle, cookie, LISTING_BYTES, false)?;
        Ok(Listed { from: cookie, entries: listing.entries, end: listing.end })
    }
}

impl Listed {
    /// The place in this part at which the listing after `cookie` goes on; `None` when this part does not hold it.
    fn position(&self, cookie: u64) -> Option<usize> {
        if self.entries.is_empty() {
            return (self.end && self.from == cookie && cookie != 0).then_some(0);
        }
        if self.from == cookie {
            return Some(0);
        }
        let found = self.entries.iter().position(|entry| entry.cookie == cookie)? + 1;
        (found < self.entries.len() || self.end).then_some(found)
    }
}

/// Appends an entry; `false` when `room` is used up.
fn put(out: &mut Vec<u8>, room: usize, ino: u64, next: u64, kind: u32, name: &[u8]) -> bool {
    let bytes = (Dirent::BYTES + name.len()).next_multiple_of(8);
    if out.len() + bytes > room {
        return false;
    }
    let end = out.len() + bytes;
    Dirent { ino, offset: next, name_length: name.len() as u32, kind }.put(out);
    out.extend_from_slice(name);
    out.resize(end, 0);
    true
}
