//! The journal: groups of records in an append-only log, beside a snapshot of what came before.
//!
//! One append is one group, written with one `write(2)`: it is replayed as a whole or not at all. It survives a killed
//! process when [`Journal::append`] returns, and a power loss once a sync that began later is complete. Waiting for the device
//! is split off as tickets that any thread can run, so the owner of the journal never blocks on it.

mod error;
mod format;
mod mark;
mod memory;
mod recovery;
mod renewal;
mod snapshot;
mod storage;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;

pub use error::JournalError;
pub use memory::MemoryStorage;
pub use recovery::{Losses, Recovered};
pub use snapshot::{SnapshotDone, SnapshotTicket, SnapshotWriter};
pub use storage::{DirectoryStorage, Storage, StorageFile};

use format::{Content, FileHeader, FILE_HEADER_BYTES, FRAME_HEADER_BYTES};
use mark::{Mark, MarkFile};
use recovery::{Found, Recovery};
use serde::{de::DeserializeOwned, Serialize};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use weir_wire::Sequence;

/// Longest group, encoded: 64 of the largest extended attributes. It bounds the memory of a replay.
pub const GROUP_BYTES: usize = 4 * 1024 * 1024;
/// Logs are not replaced by a snapshot below this: a replay of it takes well under a second.
pub const LOG_BYTES: u64 = 32 * 1024 * 1024;
/// Logs that may pile up, one for each start, before a snapshot replaces them.
pub const LOGS: usize = 64;

const UNFINISHED_SUFFIX: &str = ".unfinished";
/// Room kept in the buffer between appends: most groups are below 1 KiB.
const BUFFER_BYTES: usize = 64 * 1024;

/// A journal of records `R` in a storage `S`.
#[derive(Debug)]
pub struct Journal<R, S: Storage = DirectoryStorage> {
    storage: S,
    schema: u32,
    snapshot: Option<(FileName, u64)>,
    /// Logs before `current`, oldest first.
    old: Vec<OldLog<S::File>>,
    current: Log<S::File>,
    buffer: Vec<u8>,
    appended: u64,
    durable: u64,
    /// Names were made that no sync has covered yet.
    directory_changed: bool,
    sync_runs: bool,
    snapshot_runs: bool,
    /// After a failed snapshot: bytes of logs at which the next one is worth a try.
    retry_bytes: u64,
    /// A sync failed.
    stopped: bool,
    /// Absent where it could not be written when the journal was opened: an older one is still true.
    mark: Option<MarkFile<S::File>>,
    /// Marks written so far, and the durable sequence in the last one that was synced.
    marks: u64,
    mark_synced: u64,
    of: PhantomData<fn(R)>,
}

/// The blocking part of a sync; made by [`Journal::sync_begin`], run on any thread.
#[derive(Debug)]
#[must_use = "appends are durable only when the ticket was run and completed"]
pub struct SyncTicket<S: Storage> {
    storage: S,
    files: Vec<S::File>,
    directory: bool,
    through: u64,
    /// What is true once it was run, and the mark's turn.
    mark: Option<(MarkFile<S::File>, Mark, u64)>,
}

/// The blocking part of [`Journal::mark_begin`].
#[derive(Debug)]
#[must_use = "the mark is durable only when the ticket was run"]
pub struct MarkTicket<S: Storage>(MarkFile<S::File>);

/// Name of a file: what it holds, the first sequence in it (a log) or after it (a snapshot), and its checksums' salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileName {
    content: Content,
    first: u64,
    salt: u32,
}

/// The log that is appended to.
#[derive(Debug)]
struct Log<F> {
    name: FileName,
    file: F,
    /// A second descriptor: a write error is told once to each, so a snapshot cannot take it from a sync.
    twin: F,
    bytes: u64,
    /// A failed append may have left bytes behind `bytes`.
    is_ragged: bool,
}

#[derive(Debug)]
struct OldLog<F> {
    name: FileName,
    bytes: u64,
    /// Both descriptors, until a sync has covered it.
    unsynced: Option<(F, F)>,
}

impl FileName {
    fn parse(name: &str) -> Option<FileName> {
        let mut parts = name.split('-');
        let content = match parts.next()? {
            "log" => Content::Log,
            "snapshot" => Content::Snapshot,
            _ => return None,
        };
        let first = u64::from_str_radix(parts.next()?, 16).ok()?;
        let salt = u32::from_str_radix(parts.next()?, 16).ok()?;
        let parsed = FileName { content, first, salt };
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = match self.content {
            Content::Log => "log",
            Content::Snapshot => "snapshot",
        };
        write!(formatter, "{content}-{:016x}-{:08x}", self.first, self.salt)
    }
}

impl<S: Storage> SyncTicket<S> {
    /// Makes everything appended before the ticket durable. It blocks on the device; pass the result to
    /// [`Journal::sync_complete`].
    ///
    /// # Errors
    /// The system's.
    pub fn run(&self) -> io::Result<()> {
        for file in &self.files {
            file.sync()?;
        }
        if self.directory {
            self.storage.sync_directory()?;
        }
        if let Some((file, mark, turn)) = &self.mark {
            // Without it an older mark stays, which is true as well.
            let _ = file.write(*mark, *turn);
        }
        Ok(())
    }

    /// The last append that it makes durable.
    pub fn through(&self) -> Sequence {
        Sequence(self.through)
    }
}

impl<S: Storage> MarkTicket<S> {
    /// Brings the mark to stable storage. It blocks on the device.
    ///
    /// # Errors
    /// The system's; an older mark stays in force, which is true as well.
    pub fn run(&self) -> io::Result<()> {
        self.0.sync()
    }
}

impl<R: Serialize + DeserializeOwned, S: Storage> Journal<R, S> {
    /// Opens the journal, making it where there is none, and hands every record to `apply`: those of the snapshot first, then
    /// the groups in their order. `schema` is the version of `R`. It blocks on the device, also to sync what it found.
    ///
    /// # Errors
    /// [`JournalError::Damaged`] where durable records cannot be read, [`JournalError::Format`], [`JournalError::Io`].
    pub fn open(
        storage: S,
        schema: u32,
        apply: impl FnMut(R),
    ) -> Result<(Journal<R, S>, Recovered), JournalError> {
        Journal::open_accepting(storage, schema, Losses::Refused, apply)
    }

    /// As [`Journal::open`], for an owner who decides what becomes of a journal that lost changes.
    ///
    /// # Errors
    /// As [`Journal::open`]; a damaged snapshot is refused either way.
    pub fn open_accepting(
        storage: S,
        schema: u32,
        losses: Losses,
        mut apply: impl FnMut(R),
    ) -> Result<(Journal<R, S>, Recovered), JournalError> {
        let recovery = Recovery::new(&storage, schema, losses, &mut apply);
        let Found { snapshot, logs, next, mut recovered } = recovery.run()?;
        let durable = next - 1;
        let current = Log::create(&storage, schema, next, durable)?;
        let mark = current.mark(durable);
        let mark = MarkFile::begin(&storage, mark)
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

    /// Appends a group of records: all of them are replayed, or none. An empty group is nothing.
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
            self.current.append(&self.storage, &self.buffer)
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

    /// What has to be done to make all appends so far durable; none when they are, or while another ticket is out: what
    /// is appended meanwhile shares the next one.
    pub fn sync_begin(&mut self) -> Option<SyncTicket<S>> {
        if self.sync_runs || self.stopped || self.durable == self.appended {
            return None;
        }
        self.sync_runs = true;
        Some(self.ticket())
    }

    /// Takes the result of a ticket; [`Journal::durable`] has moved after it.
    ///
    /// # Errors
    /// [`JournalError::Io`] where the sync failed: Linux reports that once and forgets the bytes, so nothing is appended or
    /// synced any more ([`JournalError::Stopped`]) until the journal began anew ([`Journal::renewal_begin`]).
    pub fn sync_complete(
        &mut self,
        ticket: SyncTicket<S>,
        result: io::Result<()>,
    ) -> Result<(), JournalError> {
        self.sync_runs = false;
        if let Err(source) = result {
            self.stopped = true;
            return Err(JournalError::io("sync", self.storage.describe(&self.current.name.to_string()))(
                source,
            ));
        }
        self.is_durable_through(ticket.through);
        Ok(())
    }

    /// Makes all appends durable now, also while a ticket is out. It blocks on the device: for a clean stop.
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
            // The mark in force before it is true as well.
            let _ = ticket.run();
        }
        Ok(())
    }

    /// Brings the durable mark to stable storage; none where it is there. It may run beside anything.
    pub fn mark_begin(&mut self) -> Option<MarkTicket<S>> {
        if self.mark_synced == self.durable {
            return None;
        }
        self.mark_synced = self.durable;
        self.mark.clone().map(MarkTicket)
    }

    /// Whether the logs have outgrown the snapshot, so that a new one is worth its writes: a start then reads at most
    /// twice the state and [`LOG_BYTES`], and each byte is written about twice more.
    pub fn wants_snapshot(&self) -> bool {
        let snapshot_bytes = self.snapshot.map_or(0, |(_, bytes)| bytes);
        let bytes = self.log_bytes();
        let outgrown = bytes > LOG_BYTES.max(snapshot_bytes) || self.old.len() > LOGS;
        outgrown && bytes > self.retry_bytes && !self.snapshot_runs && !self.stopped
    }

    /// Bytes of all logs.
    pub fn log_bytes(&self) -> u64 {
        self.old.iter().map(|log| log.bytes).sum::<u64>() + self.current.bytes
    }

    /// Begins a snapshot of the state after the last append; later appends go to a new log. Nothing here blocks on a device.
    ///
    /// The records pushed to the writer, replayed on an empty state, must give the state as it is now. They may be pushed
    /// bit by bit while appends go on, as long as each shows what it describes as it is now, or later appends replayed over it
    /// give the same (records that set, rather than change, what they describe).
    ///
    /// # Errors
    /// [`JournalError::Io`]; the journal goes on without it. `None` while another snapshot is being made.
    pub fn snapshot_begin(&mut self) -> Result<Option<SnapshotWriter<R, S>>, JournalError> {
        if self.snapshot_runs || self.stopped {
            return Ok(None);
        }
        let begun = self.begin_log().and_then(|()| {
            let header = self.header(Content::Snapshot);
            let salt = salt(&self.storage)?;
            let name = FileName { content: Content::Snapshot, first: header.first, salt };
            SnapshotWriter::create(&self.storage, name, header)
        });
        match begun {
            Ok(writer) => {
                self.snapshot_runs = true;
                Ok(Some(writer))
            }
            Err(error) => {
                self.retry_bytes = self.log_bytes() + LOG_BYTES;
                Err(error)
            }
        }
    }

    /// All records were pushed: what is left is for [`SnapshotTicket::run`], on any thread.
    pub fn snapshot_seal(&mut self, writer: SnapshotWriter<R, S>) -> SnapshotTicket<R, S> {
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
    /// The ticket's: the journal goes on with the old snapshot and logs, and wants the next one when they have grown more.
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
                self.retry_bytes = self.log_bytes() + LOG_BYTES;
                Err(error)
            }
        }
    }

    /// Gives up a snapshot whose records cannot be pushed.
    pub fn snapshot_abandon(&mut self, writer: SnapshotWriter<R, S>) {
        self.snapshot_runs = false;
        self.retry_bytes = self.log_bytes() + LOG_BYTES;
        writer.abandon(&self.storage);
    }

    /// Replaces all logs by a snapshot of these records, which must be the state as it is now. It blocks on the device.
    ///
    /// # Errors
    /// [`JournalError::Io`], [`JournalError::TooLong`], [`JournalError::Encode`]: the old files stay in force.
    pub fn snapshot<'a>(&mut self, records: impl IntoIterator<Item = &'a R>) -> Result<(), JournalError>
    where
        R: 'a,
    {
        let Some(mut writer) = self.snapshot_begin()? else { return Ok(()) };
        for record in records {
            if let Err(error) = writer.push(record) {
                self.snapshot_abandon(writer);
                return Err(error);
            }
        }
        let result = self.snapshot_seal(writer).run();
        self.snapshot_complete(result).map(|_| ())
    }

    fn ticket(&mut self) -> SyncTicket<S> {
        let old = self.old.iter().filter_map(|log| log.unsynced.as_ref()).map(|(file, _)| file.clone());
        let files = old.chain([self.current.file.clone()]).collect();
        let directory = std::mem::take(&mut self.directory_changed);
        self.marks += 1;
        let mark = self.mark.clone().map(|file| (file, self.current.mark(self.appended), self.marks));
        SyncTicket { storage: self.storage.clone(), files, directory, through: self.appended, mark }
    }

    fn take_result(&mut self, ticket: &SyncTicket<S>, result: io::Result<()>) -> Result<(), JournalError> {
        if let Err(source) = result {
            self.stopped = true;
            return Err(JournalError::io("sync", self.storage.describe(&self.current.name.to_string()))(
                source,
            ));
        }
        if self.stopped {
            return Err(JournalError::Stopped);
        }
        self.is_durable_through(ticket.through);
        Ok(())
    }

    /// Goes on in a new log, so that all records before it can be replaced; nothing to do where there is none in this one.
    fn begin_log(&mut self) -> Result<(), JournalError> {
        let first = self.appended + 1;
        if self.current.name.first == first {
            return Ok(());
        }
        self.current.smooth(&self.storage)?;
        let next = Log::create(&self.storage, self.schema, first, self.durable)?;
        let log = std::mem::replace(&mut self.current, next);
        self.directory_changed = true;
        let unsynced = Some((log.file, log.twin));
        self.old.push(OldLog { name: log.name, bytes: log.bytes, unsynced });
        Ok(())
    }

    fn header(&self, content: Content) -> FileHeader {
        let (schema, boot) = (self.schema, self.storage.boot());
        FileHeader { content, schema, first: self.appended + 1, durable: self.durable, boot }
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

impl<F: StorageFile> Log<F> {
    fn create<S: Storage<File = F>>(
        storage: &S,
        schema: u32,
        first: u64,
        durable: u64,
    ) -> Result<Log<F>, JournalError> {
        let name = FileName { content: Content::Log, first, salt: salt(storage)? };
        let (text, described) = (name.to_string(), storage.describe(&name.to_string()));
        let file = storage.create(&text).map_err(JournalError::io("make", &*described))?;
        let header = FileHeader { content: Content::Log, schema, first, durable, boot: storage.boot() };
        let twin = format::write_all(&file, &header.encode(), 0).and_then(|()| storage.open(&text));
        match twin {
            Ok(twin) => Ok(Log { name, file, twin, bytes: FILE_HEADER_BYTES as u64, is_ragged: false }),
            Err(source) => {
                // An empty log means nothing: the next start removes it where this fails.
                let _ = storage.remove(&text);
                Err(JournalError::io("write", described)(source))
            }
        }
    }

    /// What is true once this log is on stable storage.
    fn mark(&self, through: u64) -> Mark {
        Mark { through, log: (self.name.first, self.name.salt), bytes: self.bytes }
    }

    /// Writes a frame at the end, or leaves the log as it was.
    fn append<S: Storage<File = F>>(&mut self, storage: &S, frame: &[u8]) -> Result<(), JournalError> {
        self.smooth(storage)?;
        if let Err(source) = format::write_all(&self.file, frame, self.bytes) {
            self.is_ragged = self.file.truncate(self.bytes).is_err();
            return Err(JournalError::io("append to", storage.describe(&self.name.to_string()))(source));
        }
        self.bytes += frame.len() as u64;
        Ok(())
    }

    /// Cuts off what a failed append left.
    fn smooth<S: Storage<File = F>>(&mut self, storage: &S) -> Result<(), JournalError> {
        if self.is_ragged {
            let cut = self.file.truncate(self.bytes);
            cut.map_err(JournalError::io("cut", storage.describe(&self.name.to_string())))?;
            self.is_ragged = false;
        }
        Ok(())
    }
}

fn salt<S: Storage>(storage: &S) -> Result<u32, JournalError> {
    storage.salt().map_err(JournalError::io("draw a random number for", storage.describe("")))
}
