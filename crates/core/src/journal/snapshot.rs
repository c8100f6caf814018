//! A snapshot: the state as records, in place of all logs before the snapshot.
//!
//! The ticket writes the snapshot under another name, makes it durable together with the logs that go on beside it, and renames
//! it. Only then does the ticket remove the files that the snapshot replaces. A crash at any step leaves either the old files
//! or the new ones in force.
//!
//! Frames are written in slices, by tickets of their own, so that no push waits for a device and none takes much memory.

use super::error::JournalError;
use super::format::{self, FileHeader, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, GROUP_BYTES};
use super::name::{FileName, UNFINISHED_SUFFIX};
use super::storage::{File, Storage};
use serde::Serialize;
use std::marker::PhantomData;
use std::sync::Arc;

/// The writer ends a frame when it has grown to this length. In tests a record or two fill it, and a slice.
const FRAME_BYTES: usize = if cfg!(test) { 12 } else { 64 * 1024 } + FRAME_HEADER_BYTES;
/// Frames that are worth a slice of their own: few writes, little memory.
const SLICE_BYTES: usize = if cfg!(test) { 2 * FRAME_BYTES } else { 1024 * 1024 };
/// A slice that comes to a multiple of this length syncs the file, so that the last sync finds little left, and the system never
/// keeps writers from its memory until the device has caught up.
const SYNCED_BYTES: u64 = 16 * 1024 * 1024;

/// Takes the records of a snapshot. [`super::Journal::snapshot_begin`] makes the writer.
///
/// A push encodes its record. The owner has the encoded frames written by [`SnapshotWriter::take_slice`].
#[derive(Debug)]
pub struct SnapshotWriter<R> {
    pub(super) name: FileName,
    file: File,
    unfinished: String,
    described: String,
    /// The frame that takes records.
    buffer: Vec<u8>,
    /// Frames that are not written.
    ready: Vec<u8>,
    /// The offset of `ready` in the file.
    offset: u64,
    frames: u64,
    records: u64,
    of: PhantomData<fn(R)>,
}

/// Frames of a snapshot that any thread can write. [`SnapshotWriter::take_slice`] makes the ticket; the next one, and
/// [`super::Journal::snapshot_seal`], wait for its end.
#[derive(Debug)]
#[must_use = "a snapshot has all its frames only when every slice was run"]
pub struct SliceTicket {
    file: File,
    described: String,
    offset: u64,
    frames: Vec<u8>,
}

/// The blocking rest of a snapshot. [`super::Journal::snapshot_seal`] makes the ticket, any thread runs it.
#[derive(Debug)]
#[must_use = "the snapshot counts only when it was run and completed"]
pub struct SnapshotTicket<R> {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) writer: SnapshotWriter<R>,
    /// Logs whose records the snapshot may already show.
    pub(super) logs: Vec<File>,
    /// Files that the snapshot replaces.
    pub(super) replaced: Vec<String>,
}

/// A snapshot that is in force.
#[derive(Debug)]
pub struct SnapshotDone {
    pub(super) name: FileName,
    /// The length of the snapshot.
    pub bytes: u64,
    /// Replaced files that the ticket could not remove; the next start removes them.
    pub left: Vec<String>,
}

impl<R: Serialize> SnapshotWriter<R> {
    pub(super) fn create(
        storage: &dyn Storage,
        name: FileName,
        header: FileHeader,
    ) -> Result<SnapshotWriter<R>, JournalError> {
        let unfinished = format!("{name}{UNFINISHED_SUFFIX}");
        let described = storage.describe(&unfinished);
        let file = storage.create(&unfinished).map_err(JournalError::io("make", &*described))?;
        let written = file.write_all_at(&header.encode(), 0);
        written.map_err(JournalError::io("write", &*described))?;
        Ok(SnapshotWriter {
            name,
            file,
            unfinished,
            described,
            buffer: vec![0; FRAME_HEADER_BYTES],
            ready: Vec::new(),
            offset: FILE_HEADER_BYTES as u64,
            frames: 0,
            records: 0,
            of: PhantomData,
        })
    }

    /// Adds a record of the state.
    ///
    /// # Errors
    /// [`JournalError::TooLong`], [`JournalError::Encode`]: the caller must give the snapshot to [`super::Journal::snapshot_abandon`].
    pub fn push(&mut self, record: &R) -> Result<(), JournalError> {
        let before = self.buffer.len();
        format::encode(record, &mut self.buffer)?;
        let bytes = self.buffer.len() - before;
        if bytes > GROUP_BYTES - FRAME_BYTES {
            return Err(JournalError::TooLong { bytes, limit: GROUP_BYTES - FRAME_BYTES });
        }
        self.records += 1;
        if self.buffer.len() >= FRAME_BYTES {
            self.end_frame(0);
        }
        Ok(())
    }

    /// The frames that wait to be written, if they are worth it.
    pub fn take_slice(&mut self) -> Option<SliceTicket> {
        (self.ready.len() >= SLICE_BYTES).then(|| self.take_ready())
    }

    fn take_ready(&mut self) -> SliceTicket {
        let frames = std::mem::take(&mut self.ready);
        let offset = self.offset;
        self.offset += frames.len() as u64;
        SliceTicket { file: self.file.clone(), described: self.described.clone(), offset, frames }
    }

    pub(super) fn abandon(self, storage: &dyn Storage) {
        // If this fails, the next start removes the file.
        let _ = storage.remove(&self.unfinished);
    }

    fn end_frame(&mut self, durable: u64) {
        self.frames += 1;
        format::seal_frame(&mut self.buffer, self.name.salt, self.frames, durable);
        self.ready.extend_from_slice(&self.buffer);
        self.buffer.truncate(FRAME_HEADER_BYTES);
    }

    /// Writes the rest of the records and the end mark, which counts the records.
    fn finish(&mut self) -> Result<(), JournalError> {
        if self.buffer.len() > FRAME_HEADER_BYTES {
            self.end_frame(0);
        }
        self.end_frame(self.records);
        self.take_ready().run()?;
        self.file.sync().map_err(JournalError::io("sync", &*self.described))
    }
}

impl SliceTicket {
    /// Writes the frames. The call may block on the device.
    ///
    /// # Errors
    /// [`JournalError::Io`]: the snapshot is to be given to [`super::Journal::snapshot_abandon`].
    pub fn run(&self) -> Result<(), JournalError> {
        let written = self.file.write_all_at(&self.frames, self.offset);
        written.map_err(JournalError::io("write", &*self.described))?;
        let end = self.offset + self.frames.len() as u64;
        if end / SYNCED_BYTES > self.offset / SYNCED_BYTES {
            self.file.sync().map_err(JournalError::io("sync", &*self.described))?;
        }
        Ok(())
    }
}

impl<R: Serialize> SnapshotTicket<R> {
    /// Makes the snapshot durable and puts it in force. The call blocks on the device.
    ///
    /// # Errors
    /// [`JournalError::Io`]: the old files stay in force. Pass the result to [`super::Journal::snapshot_complete`] either way.
    pub fn run(mut self) -> Result<SnapshotDone, JournalError> {
        let result = self.put_in_force();
        if result.is_err() {
            self.writer.abandon(&*self.storage);
        }
        result
    }

    fn put_in_force(&mut self) -> Result<SnapshotDone, JournalError> {
        // Otherwise a power loss could leave a snapshot that shows half of a group, and take the record of the group.
        for log in &self.logs {
            log.sync().map_err(JournalError::io("sync", "the journal's log"))?;
        }
        let directory = || self.storage.describe("");
        self.storage.sync_directory().map_err(JournalError::io("sync", directory()))?;
        self.writer.finish()?;
        let renamed = self.storage.rename(&self.writer.unfinished, &self.writer.name.to_string());
        renamed.map_err(JournalError::io("rename", self.storage.describe(&self.writer.unfinished)))?;
        self.storage.sync_directory().map_err(JournalError::io("sync", directory()))?;
        let mut left = Vec::new();
        for name in &self.replaced {
            if let Err(error) = self.storage.remove(name) {
                left.push(format!("{}: {error}", self.storage.describe(name)));
            }
        }
        Ok(SnapshotDone { name: self.writer.name, bytes: self.writer.offset, left })
    }
}
