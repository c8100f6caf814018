//! The logs of a journal: the one that takes appends, and those before it.

use super::error::JournalError;
use super::format::{Content, FileHeader, FILE_HEADER_BYTES};
use super::mark::Mark;
use super::name::FileName;
use super::storage::{File, Storage};

/// The log that takes appends.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) name: FileName,
    pub(super) file: File,
    /// A second descriptor. The system tells each descriptor once of a write error, so a snapshot cannot take the error from
    /// a sync.
    pub(super) twin: File,
    pub(super) bytes: u64,
    /// The bytes that a sync has covered.
    pub(super) synced_bytes: u64,
    /// A failed append may have left bytes behind `bytes`.
    is_ragged: bool,
}

/// A log before the current one.
#[derive(Debug)]
pub(super) struct OldLog {
    pub(super) name: FileName,
    pub(super) bytes: u64,
    /// Both descriptors, until a sync has covered the log.
    pub(super) unsynced: Option<(File, File)>,
}

impl Log {
    pub(super) fn create(
        storage: &dyn Storage,
        schema: u32,
        first: u64,
        durable: u64,
    ) -> Result<Log, JournalError> {
        let name = FileName { content: Content::Log, first, salt: salt(storage)? };
        let (text, described) = (name.to_string(), storage.describe(&name.to_string()));
        let file = storage.create(&text).map_err(JournalError::io("make", &*described))?;
        let header = FileHeader { content: Content::Log, schema, first, durable, boot: storage.boot() };
        let twin = file.write_all_at(&header.encode(), 0).and_then(|()| storage.open(&text));
        let bytes = FILE_HEADER_BYTES as u64;
        match twin {
            Ok(twin) => Ok(Log { name, file, twin, bytes, synced_bytes: bytes, is_ragged: false }),
            Err(source) => {
                // An empty log means nothing: if this fails, the next start removes the log.
                let _ = storage.remove(&text);
                Err(JournalError::io("write", described)(source))
            }
        }
    }

    /// The mark that is true once this log is on stable storage.
    pub(super) fn mark(&self, through: u64) -> Mark {
        Mark { through, log: (self.name.first, self.name.salt), bytes: self.bytes }
    }

    /// Writes a frame at the end, or leaves the log as it was.
    pub(super) fn append(&mut self, storage: &dyn Storage, frame: &[u8]) -> Result<(), JournalError> {
        self.smooth(storage)?;
        if let Err(source) = self.file.write_all_at(frame, self.bytes) {
            self.is_ragged = self.file.truncate(self.bytes).is_err();
            return Err(JournalError::io("append to", storage.describe(&self.name.to_string()))(source));
        }
        self.bytes += frame.len() as u64;
        Ok(())
    }

    /// Cuts off the bytes that a failed append left.
    pub(super) fn smooth(&mut self, storage: &dyn Storage) -> Result<(), JournalError> {
        if self.is_ragged {
            let cut = self.file.truncate(self.bytes);
            cut.map_err(JournalError::io("cut", storage.describe(&self.name.to_string())))?;
            self.is_ragged = false;
        }
        Ok(())
    }
}

/// A salt for the checksums of a new file.
pub(super) fn salt(storage: &dyn Storage) -> Result<u32, JournalError> {
    storage.salt().map_err(JournalError::io("draw a random number for", storage.describe("")))
}
