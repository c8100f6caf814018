//! A journal that begins anew after a failed sync.
//!
//! Nobody knows which bytes of its logs are stored, and a second sync that succeeds proves nothing. But the state is in memory,
//! whole: a snapshot of it in a new file, with a new log behind it, needs none of the old bytes. Until both are durable the
//! journal takes no append, so the state stands still meanwhile.

use super::format::Content;
use super::storage::Storage;
use super::{
    salt, FileName, Journal, JournalError, Log, OldLog, SnapshotDone, SnapshotTicket, SnapshotWriter,
};
use serde::{de::DeserializeOwned, Serialize};

impl<R: Serialize + DeserializeOwned, S: Storage> Journal<R, S> {
    /// Whether a sync failed: nothing can be appended until a renewal is complete.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Begins a snapshot of the state after the last append in files of its own. All of the state's records are to be
    /// pushed, then comes [`Journal::renewal_seal`]. None while a ticket or a snapshot of before is still out, or where
    /// nothing failed.
    ///
    /// # Errors
    /// [`JournalError::Io`]: the device does not work yet.
    pub fn renewal_begin(&mut self) -> Result<Option<SnapshotWriter<R, S>>, JournalError> {
        if !self.stopped || self.sync_runs || self.snapshot_runs {
            return Ok(None);
        }
        let first = self.appended + 1;
        let next = Log::create(&self.storage, self.schema, first, self.durable)?;
        let log = std::mem::replace(&mut self.current, next);
        if log.name.first == first {
            // Nothing is in it; where this fails the next start removes it.
            let _ = self.storage.remove(&log.name.to_string());
        } else {
            self.old.push(OldLog { name: log.name, bytes: log.bytes, unsynced: None });
        }
        let header = self.header(Content::Snapshot);
        let name = FileName { content: Content::Snapshot, first, salt: salt(&self.storage)? };
        let writer = SnapshotWriter::create(&self.storage, name, header)?;
        self.snapshot_runs = true;
        Ok(Some(writer))
    }

    /// All records were pushed: what is left is for [`SnapshotTicket::run`], on any thread.
    pub fn renewal_seal(&mut self, writer: SnapshotWriter<R, S>) -> SnapshotTicket<R, S> {
        let mut ticket = self.snapshot_seal(writer);
        ticket.logs = vec![self.current.twin.clone()];
        ticket
    }

    /// Takes the result of a renewal's ticket: the journal works again, with every append durable.
    ///
    /// # Errors
    /// The ticket's: the journal stays stopped, and the next renewal may be tried.
    pub fn renewal_complete(
        &mut self,
        result: Result<SnapshotDone, JournalError>,
    ) -> Result<(), JournalError> {
        let done = self.snapshot_complete(result)?;
        self.durable = self.durable.max(done.name.first - 1);
        self.directory_changed = false;
        self.stopped = false;
        Ok(())
    }
}
