//! A snapshot: the state as records, in place of all logs before the snapshot.
//!
//! The ticket writes the snapshot under another name, makes it durable together with the logs that go on beside it, and renames
//! it. Only then does the ticket remove the files that the snapshot replaces. A crash at any step leaves either the old files
//! or the new ones in force.

use super::error::JournalError;
use super::format::{self, FileHeader, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, GROUP_BYTES};
use super::name::{FileName, UNFINISHED_SUFFIX};
use super::storage::{Storage, StorageFile};
use serde::Serialize;
use std::marker::PhantomData;

/// The writer writes a frame when it has grown to this length: few writes, little memory.
const FRAME_BYTES: usize = 64 * 1024;

/// Takes the records of a snapshot. [`super::Journal::snapshot_begin`] makes the writer.
///
/// A push encodes its record and, every 64 KiB, writes to the kernel's memory. No push waits for a device.
#[derive(Debug)]
pub struct SnapshotWriter<R, S: Storage> {
    pub(super) name: FileName,
    file: S::File,
    unfinished: String,
    described: String,
    buffer: Vec<u8>,
    offset: u64,
    frames: u64,
    records: u64,
    of: PhantomData<fn(R)>,
}

/// The blocking rest of a snapshot. [`super::Journal::snapshot_seal`] makes the ticket, any thread runs it.
#[derive(Debug)]
#[must_use = "the snapshot counts only when it was run and completed"]
pub struct SnapshotTicket<R, S: Storage> {
    pub(super) storage: S,
    pub(super) writer: SnapshotWriter<R, S>,
    /// Logs whose records the snapshot may already show.
    pub(super) logs: Vec<S::File>,
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

impl<R: Serialize, S: Storage> SnapshotWriter<R, S> {
    pub(super) fn create(
        storage: &S,
        name: FileName,
        header: FileHeader,
    ) -> Result<SnapshotWriter<R, S>, JournalError> {
        let unfinished = format!("{name}{UNFINISHED_SUFFIX}");
        let described = storage.describe(&unfinished);
        let file = storage.create(&unfinished).map_err(JournalError::io("make", &*described))?;
        let written = format::write_all(&file, &header.encode(), 0);
        written.map_err(JournalError::io("write", &*described))?;
        Ok(SnapshotWriter {
            name,
            file,
            unfinished,
            described,
            buffer: vec![0; FRAME_HEADER_BYTES],
            offset: FILE_HEADER_BYTES as u64,
            frames: 0,
            records: 0,
            of: PhantomData,
        })
    }

    /// Adds a record of the state.
    ///
    /// # Errors
    /// [`JournalError::Io`] if the storage is full or broken, [`JournalError::TooLong`], [`JournalError::Encode`]: the
    /// caller must give the snapshot to [`super::Journal::snapshot_abandon`].
    pub fn push(&mut self, record: &R) -> Result<(), JournalError> {
        let before = self.buffer.len();
        format::encode(record, &mut self.buffer)?;
        let bytes = self.buffer.len() - before;
        if bytes > GROUP_BYTES - FRAME_BYTES {
            return Err(JournalError::TooLong { bytes, limit: GROUP_BYTES - FRAME_BYTES });
        }
        self.records += 1;
        if self.buffer.len() >= FRAME_BYTES {
            self.write_frame(0)?;
        }
        Ok(())
    }

    pub(super) fn abandon(self, storage: &S) {
        // If this fails, the next start removes the file.
        let _ = storage.remove(&self.unfinished);
    }

    fn write_frame(&mut self, durable: u64) -> Result<(), JournalError> {
        self.frames += 1;
        format::seal_frame(&mut self.buffer, self.name.salt, self.frames, durable);
        let written = format::write_all(&self.file, &self.buffer, self.offset);
        written.map_err(JournalError::io("write", &*self.described))?;
        self.offset += self.buffer.len() as u64;
        self.buffer.truncate(FRAME_HEADER_BYTES);
        Ok(())
    }

    /// Writes the rest of the records and the end mark, which counts the records.
    fn finish(&mut self) -> Result<(), JournalError> {
        if self.buffer.len() > FRAME_HEADER_BYTES {
            self.write_frame(0)?;
        }
        self.write_frame(self.records)?;
        self.file.sync().map_err(JournalError::io("sync", &*self.described))
    }
}

impl<R: Serialize, S: Storage> SnapshotTicket<R, S> {
    /// Makes the snapshot durable and puts it in force. The call blocks on the device.
    ///
    /// # Errors
    /// [`JournalError::Io`]: the old files stay in force. Pass the result to [`super::Journal::snapshot_complete`] either way.
    pub fn run(mut self) -> Result<SnapshotDone, JournalError> {
        let result = self.put_in_force();
        if result.is_err() {
            self.writer.abandon(&self.storage);
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
