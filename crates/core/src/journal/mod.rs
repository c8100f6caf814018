//! The journal: groups of records in an append-only log, beside a snapshot of all records before the log.
//!
//! One append is one group, written with one `write(2)`: a replay takes a group as a whole or not at all. A group survives a
//! killed process when [`Journal::append`] returns, and a power loss once a sync that began later is complete. Tickets, which
//! any thread can run, wait for the device, so the owner of the journal never blocks on the device.

mod error;
mod format;
mod log;
mod mark;
#[cfg(any(test, feature = "world"))]
mod memory;
mod name;
mod recovery;
mod snapshot;
mod storage;
mod ticket;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;

pub use error::JournalError;
pub use format::GROUP_BYTES;
#[cfg(any(test, feature = "world"))]
pub use memory::MemoryStorage;
pub use recovery::{Losses, Recovered};
pub use snapshot::{SliceTicket, SnapshotDone, SnapshotTicket, SnapshotWriter};
pub use storage::{File, Storage, StorageFile};
pub use ticket::{MarkTicket, SyncTicket};

use format::{Content, FileHeader, FRAME_HEADER_BYTES};
use log::{Log, OldLog};
use mark::MarkFile;
use name::FileName;
use recovery::{Found, Recovery};
use serde::{de::DeserializeOwned, Serialize};
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use weir_wire::Sequence;

/// A snapshot replaces no logs below this size: a replay of so many bytes takes well under a second.
pub const LOG_BYTES: u64 = 32 * 1024 * 1024;
/// Logs that may pile up, one for each start, before a snapshot replaces them.
pub const LOGS: usize = 64;
/// Bytes of logs from which on a journal that is far larger than its state is written anew. An idle server writes it once.
const GARBAGE_BYTES: u64 = 4096;

/// Whether a file of this name is the journal's own, and has records.
pub fn is_own_file(name: &str) -> bool {
    FileName::parse(name).is_some()
}

/// Room kept in the buffer between appends: most groups are below 1 KiB.
const BUFFER_BYTES: usize = 64 * 1024;

/// A journal of records `R` in a storage.
#[derive(Debug)]
pub struct Journal<R> {
    storage: Arc<dyn Storage>,
    schema: u32,
    /// The snapshot in force, and its length in bytes.
    snapshot: Option<(FileName, u64)>,
    /// Logs before `current`, oldest first.
    old: Vec<OldLog>,
    current: Log,
    buffer: Vec<u8>,
    appended: u64,
    durable: u64,
    /// Names were made that no sync has covered yet.
    directory_changed: bool,
    sync_runs: bool,
    snapshot_runs: bool,
    /// Bytes of logs at which the next snapshot is worth a try, after one that failed.
    retry_bytes: u64,
    /// A sync failed.
    stopped: bool,
    /// Absent if the mark could not be written when the journal was opened: an older mark is still true.
    mark: Option<MarkFile>,
    /// Marks written so far.
    marks: u64,
    /// The durable sequence in the last mark that was synced.
    mark_synced: u64,
    of: PhantomData<fn(R)>,
}

impl<R: Serialize + DeserializeOwned> Journal<R> {
    /// Opens the journal, making one if there is none, and hands every record to `apply`: first the records of the snapshot,
    /// then the groups in their order. `schema` is the version of `R`. The call blocks on the device, also to sync the files
    /// that it found.
    ///
    /// # Errors
    /// [`JournalError::Damaged`] if durable records cannot be read, [`JournalError::Format`], [`JournalError::Io`].
    pub fn open(
        storage: Arc<dyn Storage>,
        schema: u32,
        apply: impl FnMut(R),
    ) -> Result<(Journal<R>, Recovered), JournalError> {
        Journal::open_accepting(storage, schema, (Losses::Refused, 0), apply)
    }

    /// Opens the journal as [`Journal::open`] does. `losses` decides about a journal that lost changes. Changes up to `witnessed` were on
    /// stable storage, as others know.
    ///
    /// # Errors
    /// As [`Journal::open`]; a damaged snapshot is refused either way.
    pub fn open_accepting(
        storage: Arc<dyn Storage>,
        schema: u32,
        (losses, witnessed): (Losses, u64),
        mut apply: impl FnMut(R),
    ) -> Result<(Journal<R>, Recovered), JournalError> {
        let recovery = Recovery::new(&*storage, schema, (losses, witnessed), &mut apply);
        let Found { snapshot, logs, next, mut recovered } = recovery.run()?;
        let durable = next - 1;
        let current = Log::create(&*storage, schema, next, durable)?;
        let mark = current.mark(durable);
        let mark = MarkFile::begin(&*storage, mark)
            .inspect_err(|error| recovered.notices.push(error.to_string()))
            .ok();
        storage.sync_directory().map_err(JournalError::io("sync", storage.describe("")))?;
        let old =
            logs.iter().map(|log| OldLog { name: log.name, bytes: log.bytes, unsynced: None }).collect();
        let journal = Journal {
            storage,
            schema,
            snapshot,
            old,
            current,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            appended: durable,
            durable,
            directory_changed: false,
            sync_runs: false,
            snapshot_runs: false,
            retry_bytes: 0,
            stopped: false,
            mark,
            marks: 0,
            mark_synced: durable,
            of: PhantomData,
        };
        Ok((journal, recovered))
    }

    /// Appends a group of records: a replay finds all of them, or none. An empty group is not written.
    ///
    /// # Errors
    /// [`JournalError::Io`] (a full or broken device), [`JournalError::TooLong`], [`JournalError::Encode`]: the journal is as
    /// before, and the operation must fail. [`JournalError::Stopped`] after a failed sync.
    pub fn append(&mut self, group: &[R]) -> Result<Sequence, JournalError> {
        if group.is_empty() {
            return Ok(Sequence(self.appended));
        }
        if self.stopped {
            return Err(JournalError::Stopped);
        }
        self.buffer.clear();
        self.buffer.resize(FRAME_HEADER_BYTES, 0);
        for record in group {
            format::encode(record, &mut self.buffer)?;
        }
        let bytes = self.buffer.len() - FRAME_HEADER_BYTES;
        let written = if bytes > GROUP_BYTES {
            Err(JournalError::TooLong { bytes, limit: GROUP_BYTES })
        } else {
            format::seal_frame(&mut self.buffer, self.current.name.salt, self.appended + 1, self.durable);
            self.current.append(&*self.storage, &self.buffer)
        };
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES);
        written?;
        self.appended += 1;
        Ok(Sequence(self.appended))
    }

    /// The last append; it survives the process.
    pub fn appended(&self) -> Sequence {
        Sequence(self.appended)
    }

    /// The last append that survives a power loss.
    pub fn durable(&self) -> Sequence {
        Sequence(self.durable)
    }

    /// A ticket that makes all appends so far durable. There is none when they are durable, or while another ticket is out:
    /// later appends share the next ticket.
    pub fn sync_begin(&mut self) -> Option<SyncTicket> {
        if self.sync_runs || self.stopped || self.durable == self.appended {
            return None;
        }
        self.sync_runs = true;
        Some(self.ticket())
    }

    /// Takes the result of a ticket, which moves [`Journal::durable`] on.
    ///
    /// # Errors
    /// [`JournalError::Io`] if the sync failed. Linux reports a failed write once and forgets the bytes, so the journal appends
    /// and syncs nothing more ([`JournalError::Stopped`]) until it has begun anew ([`Journal::renewal_begin`]).
    pub fn sync_complete(&mut self, ticket: SyncTicket, result: io::Result<()>) -> Result<(), JournalError> {
        self.sync_runs = false;
        self.take_result(&ticket, result)
    }

    /// Makes all appends durable now, also while a ticket is out. The call blocks on the device; it is for a clean stop.
    ///
    /// # Errors
    /// As [`Journal::sync_complete`]; [`JournalError::Stopped`].
    pub fn sync(&mut self) -> Result<(), JournalError> {
        if self.stopped {
            return Err(JournalError::Stopped);
        }
        if self.durable == self.appended {
            return Ok(());
        }
        // A ticket that is out may not have come to the directory yet.
        let ticket = SyncTicket { directory: true, ..self.ticket() };
        let result = ticket.run();
        self.take_result(&ticket, result)?;
        if let Some(ticket) = self.mark_begin() {
            // If this fails, the mark before it stays in force, which is true as well.
            let _ = ticket.run();
        }
        Ok(())
    }

    /// A ticket that brings the durable mark to stable storage; none if the mark is there. The ticket may run beside all
    /// others.
    pub fn mark_begin(&mut self) -> Option<MarkTicket> {
        if self.mark_synced == self.durable {
            return None;
        }
        self.mark_synced = self.durable;
        self.mark.clone().map(MarkTicket)
    }

    /// Whether a new snapshot is worth its writes: the logs have outgrown the last one, or most of the journal is about things that
    /// are gone. `state_bytes` is no less than the length of a snapshot of the present state. So a start reads at most twice the
    /// state and [`LOG_BYTES`], and each byte is written about twice more.
    pub fn wants_snapshot(&self, state_bytes: u64) -> bool {
        let snapshot_bytes = self.snapshot.map_or(0, |(_, bytes)| bytes);
        let bytes = self.log_bytes();
        let is_garbage = bytes > GARBAGE_BYTES && snapshot_bytes + bytes > LOG_BYTES + 2 * state_bytes;
        let outgrown = bytes > LOG_BYTES.max(snapshot_bytes) || self.old.len() > LOGS;
        (outgrown || is_garbage) && bytes > self.retry_bytes && !self.snapshot_runs && !self.stopped
    }

    /// Bytes of appends that no sync has covered.
    pub fn unsynced_bytes(&self) -> u64 {
        let old = self.old.iter().filter(|log| log.unsynced.is_some()).map(|log| log.bytes);
        old.sum::<u64>() + self.current.bytes - self.current.synced_bytes
    }

    /// Bytes of all logs.
    pub fn log_bytes(&self) -> u64 {
        self.old.iter().map(|log| log.bytes).sum::<u64>() + self.current.bytes
    }

    /// Begins a snapshot of the state after the last append; later appends go to a new log. The call does not block on a
    /// device.
    ///
    /// A replay of the pushed records on an empty state must give the present state. The owner may push them bit by bit while
    /// appends go on. Then each record shows its subject as the subject is when the record is pushed, or a replay of the later
    /// appends over the record gives the same (such records set their subject and do not change it).
    ///
    /// # Errors
    /// [`JournalError::Io`]; the journal goes on without the snapshot. `None` while another snapshot is being made.
    pub fn snapshot_begin(&mut self) -> Result<Option<SnapshotWriter<R>>, JournalError> {
        if self.snapshot_runs || self.stopped {
            return Ok(None);
        }
        match self.begin_log().and_then(|()| self.begin_snapshot()) {
            Ok(writer) => Ok(Some(writer)),
            Err(error) => {
                self.put_off_snapshot();
                Err(error)
            }
        }
    }

    /// Ends the pushing of records: [`SnapshotTicket::run`] does the rest, on any thread.
    pub fn snapshot_seal(&mut self, writer: SnapshotWriter<R>) -> SnapshotTicket<R> {
        let unsynced = self.old.iter().filter_map(|log| log.unsynced.as_ref()).map(|(_, twin)| twin.clone());
        let logs = unsynced.chain([self.current.twin.clone()]).collect();
        let first = writer.name.first;
        let old = self.old.iter().map(|log| log.name).filter(|name| name.first < first);
        let replaced = old.chain(self.snapshot.map(|(name, _)| name)).map(|name| name.to_string()).collect();
        SnapshotTicket { storage: self.storage.clone(), writer, logs, replaced }
    }

    /// Takes the result of a snapshot's ticket.
    ///
    /// # Errors
    /// The ticket's error: the journal goes on with the old snapshot and logs, and wants the next snapshot when the logs have
    /// grown more.
    pub fn snapshot_complete(
        &mut self,
        result: Result<SnapshotDone, JournalError>,
    ) -> Result<SnapshotDone, JournalError> {
        self.snapshot_runs = false;
        match result {
            Ok(done) => {
                self.old.retain(|log| log.name.first >= done.name.first);
                self.snapshot = Some((done.name, done.bytes));
                self.retry_bytes = 0;
                self.is_durable_through(done.name.first - 1);
                Ok(done)
            }
            Err(error) => {
                self.put_off_snapshot();
                Err(error)
            }
        }
    }

    /// Gives up a snapshot if its records cannot be pushed.
    pub fn snapshot_abandon(&mut self, writer: SnapshotWriter<R>) {
        self.snapshot_runs = false;
        self.put_off_snapshot();
        writer.abandon(&*self.storage);
    }

    /// Replaces all logs by a snapshot of these records, which must be the present state. The call blocks on the device.
    ///
    /// # Errors
    /// [`JournalError::Io`], [`JournalError::TooLong`], [`JournalError::Encode`]: the old files stay in force.
    pub fn snapshot<'a>(&mut self, records: impl IntoIterator<Item = &'a R>) -> Result<(), JournalError>
    where
        R: 'a,
    {
        let Some(mut writer) = self.snapshot_begin()? else { return Ok(()) };
        for record in records {
            let pushed =
                writer.push(record).and_then(|()| writer.take_slice().map_or(Ok(()), |slice| slice.run()));
            if let Err(error) = pushed {
                self.snapshot_abandon(writer);
                return Err(error);
            }
        }
        let result = self.snapshot_seal(writer).run();
        self.snapshot_complete(result).map(|_| ())
    }

    /// Takes no append until a renewal is complete: its files are gone.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Whether a sync failed: the journal takes no append until a renewal is complete.
    ///
    /// After a failed sync nobody knows which bytes of the logs are stored, and a second sync that succeeds proves nothing. But
    /// the whole state is in memory: a snapshot of the state in a new file, with a new log behind it, needs none of the old
    /// bytes. The state stands still until both are durable, as the journal takes no append.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Begins a snapshot of the state after the last append in files of its own. The owner pushes all records of the state,
    /// then calls [`Journal::renewal_seal`]. The answer is `None` while an earlier ticket or snapshot is still out, or if
    /// nothing failed.
    ///
    /// # Errors
    /// [`JournalError::Io`]: the device does not work yet.
    pub fn renewal_begin(&mut self) -> Result<Option<SnapshotWriter<R>>, JournalError> {
        if !self.stopped || self.sync_runs || self.snapshot_runs {
            return Ok(None);
        }
        let first = self.appended + 1;
        let next = Log::create(&*self.storage, self.schema, first, self.durable)?;
        let log = std::mem::replace(&mut self.current, next);
        if log.name.first == first {
            // The log is empty. If this fails, the next start removes the log.
            let _ = self.storage.remove(&log.name.to_string());
        } else {
            self.old.push(OldLog { name: log.name, bytes: log.bytes, unsynced: None });
        }
        self.begin_snapshot().map(Some)
    }

    /// Ends the pushing of records: [`SnapshotTicket::run`] does the rest, on any thread.
    pub fn renewal_seal(&mut self, writer: SnapshotWriter<R>) -> SnapshotTicket<R> {
        let mut ticket = self.snapshot_seal(writer);
        ticket.logs = vec![self.current.twin.clone()];
        ticket
    }

    /// Takes the result of a renewal's ticket: the journal works again, with every append durable.
    ///
    /// # Errors
    /// The ticket's error: the journal stays stopped, and the owner may try the next renewal.
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

    fn ticket(&mut self) -> SyncTicket {
        let old = self.old.iter().filter_map(|log| log.unsynced.as_ref()).map(|(file, _)| file.clone());
        let files = old.chain([self.current.file.clone()]).collect();
        let directory = std::mem::take(&mut self.directory_changed);
        self.marks += 1;
        let mark = self.mark.clone().map(|file| (file, self.current.mark(self.appended), self.marks));
        let log = (self.current.name.first, self.current.bytes);
        SyncTicket { storage: self.storage.clone(), files, directory, through: self.appended, log, mark }
    }

    fn take_result(&mut self, ticket: &SyncTicket, result: io::Result<()>) -> Result<(), JournalError> {
        if let Err(source) = result {
            self.stopped = true;
            return Err(JournalError::io("sync", self.storage.describe(&self.current.name.to_string()))(
                source,
            ));
        }
        if ticket.log.0 == self.current.name.first {
            self.current.synced_bytes = ticket.log.1;
        }
        self.is_durable_through(ticket.through);
        Ok(())
    }

    /// Goes on in a new log, so that a snapshot can replace all records before it. An empty log stays.
    fn begin_log(&mut self) -> Result<(), JournalError> {
        let first = self.appended + 1;
        if self.current.name.first == first {
            return Ok(());
        }
        self.current.smooth(&*self.storage)?;
        let next = Log::create(&*self.storage, self.schema, first, self.durable)?;
        let log = std::mem::replace(&mut self.current, next);
        self.directory_changed = true;
        let unsynced = Some((log.file, log.twin));
        self.old.push(OldLog { name: log.name, bytes: log.bytes, unsynced });
        Ok(())
    }

    /// Makes the file of a snapshot of the state after the last append.
    fn begin_snapshot(&mut self) -> Result<SnapshotWriter<R>, JournalError> {
        let (content, first, boot) = (Content::Snapshot, self.appended + 1, self.storage.boot());
        let header = FileHeader { content, schema: self.schema, first, durable: self.durable, boot };
        let name = FileName { content, first, salt: log::salt(&*self.storage)? };
        let writer = SnapshotWriter::create(&*self.storage, name, header)?;
        self.snapshot_runs = true;
        Ok(writer)
    }

    /// Puts the next snapshot off after a failed one, until the logs have grown by [`LOG_BYTES`].
    fn put_off_snapshot(&mut self) {
        self.retry_bytes = self.log_bytes() + LOG_BYTES;
    }

    fn is_durable_through(&mut self, through: u64) {
        self.durable = self.durable.max(through);
        // A log ends where the next one begins.
        let ends = self.old.iter().map(|log| log.name.first).skip(1).chain([self.current.name.first]);
        let ends: Vec<u64> = ends.collect();
        for (log, end) in self.old.iter_mut().zip(ends) {
            if end <= self.durable + 1 {
                log.unsynced = None;
            }
        }
    }
}
