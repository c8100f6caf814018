//! The journal's way to stable storage, and everything that waits for it: requests (fsync), effects that destroy bytes, and
//! objects that were set aside.
//!
//! A sync that fails stops the journal. Everything then waits until the journal has begun anew, from the state in memory.

mod departure;
mod writing;

pub(crate) use departure::{Asker, NamesBegun, NamesTicket};
pub(crate) use writing::{Purpose, Slice};

use crate::clock::seconds;
use crate::control::status::JournalStatus;
use crate::journal::{
    Journal, JournalError, Losses, MarkTicket, Recovered, SnapshotDone, SnapshotTicket, SnapshotWriter,
    Storage, SyncTicket,
};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::{errno, Change, Effect, IntentId, Namespace, When};
use crate::notices::{notice, warning};
use crate::requests::request::Token;
use crate::storage::{Aside, Cut, RefillTicket, Refilled, Reserve};
use departure::Departure;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_wire::{Errno, Ino, Reply};
use writing::{Shown, Writing};

/// Version of the journal's records.
pub const JOURNAL_SCHEMA: u32 = 7;
/// How long an effect that nobody waits for may wait for a sync of its own: so a program that removes files all the time
/// costs the device five syncs a second, and a removed file's space is free a moment later.
const FREE_PAUSE: Nanos = Nanos::from_millis(200);
/// Frees that are put off before a sync is made for them at once: as many as the worker pool takes in about a second.
const FREES_MAX: usize = 8192;
/// The longest time for which a change may be off stable storage although nobody asks for a sync.
const UNSYNCED_MAX: Nanos = Nanos::from_millis(5_000);
/// Bytes of changes off stable storage for which a sync begins at once.
const UNSYNCED_BYTES: u64 = 16 << 20;
/// Bytes of changes off stable storage beyond which changes that take room wait for the device: else the system would have the loop
/// wait in the midst of a write, with everybody else.
const UNSYNCED_BYTES_MAX: u64 = 64 << 20;
/// Memory of records that a snapshot shows before their subjects change, beyond which such changes wait for the device.
const SHOWN_BYTES_MAX: u64 = 16 << 20;
/// Pause between two tries to begin the journal anew: each writes the whole state.
const RENEWAL_PAUSE: Nanos = Nanos::from_millis(1_000);

/// A journal of the namespace, on a local file system.
type OwnJournal = Journal<Change>;
/// A snapshot of the namespace that a worker writes.
pub(crate) type Ticket = SnapshotTicket<Change>;

/// The journal of a server, and everything that waits for it.
#[derive(Default)]
pub(crate) struct Durability {
    /// None where the store keeps nothing, unless this server is about to go to another host.
    journal: Option<OwnJournal>,
    /// The store keeps nothing, and the journal goes with the server to another host.
    is_for_a_move: bool,
    departure: Departure,
    /// Room for removals and for a start.
    reserve: Option<Reserve>,
    /// The journal's file system had no room at the last record.
    is_full: bool,
    /// Targets that lie on another device than the journal.
    apart: HashSet<usize>,
    is_syncing: bool,
    waiting: Waiting,
    /// The moment at which a sync is due for deferred work.
    due: Option<Nanos>,
    /// The moment of the first change that no sync under way covers.
    unsynced_since: Option<Nanos>,
    writing: Option<Writing>,
    trouble: Option<Trouble>,
    /// The journal's folder is gone: nothing is made in its place.
    is_gone: bool,
    failures: u64,
    /// Intents with effects that are done, of which the journal took no record.
    effects_to_repeat: Vec<IntentId>,
    /// Removals of objects that their targets refused.
    failed_removals: VecDeque<Effect>,
    /// Whether files without a name stay that nobody has open, as the journal took no record of their end.
    leftovers: bool,
}

/// Everything that waits for one sync.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Requests that are answered once everything journaled so far is durable.
    pub(crate) requests: Vec<Token>,
    pub(crate) deferred: Vec<Deferred>,
}

/// A failed sync.
struct Trouble {
    since: Nanos,
    error: String,
    /// The next renewal.
    next: Nanos,
}

/// Work that is done once the journal is durable.
pub(crate) enum Deferred {
    /// The removal of the object that a late writer made of a file which is gone.
    Stray { target: usize, object: Ino },
    /// The word to another server that files are gone, upon which it removes their objects.
    Word { token: Token, reply: Box<Reply> },
    /// An effect that destroys bytes.
    Effect(Effect),
    /// The removal of the bytes of an emptied object of this target.
    Discard { target: usize, aside: Aside },
    /// Nothing: somebody looks whether the journal is durable so far.
    Look,
}

/// Work of a snapshot for a worker.
pub(crate) enum SnapshotStep {
    /// Frames are to be written.
    Slice(Slice),
    /// The rest, which puts the snapshot in force.
    Seal(Ticket, Purpose),
}

/// The beginning of a synchronisation.
pub(crate) enum SyncStart {
    /// Nothing waits, or a sync is under way.
    None,
    /// The journal is stopped, and these requests fail.
    Stopped(Vec<Token>),
    /// Everything is durable already.
    Durable(Waiting),
    /// A worker runs the ticket.
    Begun(SyncTicket, Waiting),
}

impl Deferred {
    /// The server with the targets on which this work gives room.
    pub(crate) fn gives_room_at(&self, here: ServerId) -> Option<ServerId> {
        match self {
            Deferred::Effect(effect) => gives_room_at(effect),
            Deferred::Discard { .. } => Some(here),
            Deferred::Stray { .. } | Deferred::Word { .. } | Deferred::Look => None,
        }
    }

    /// The rest of a cut on target `target`, after a worker has done the undoable part; none where nothing is left.
    pub(crate) fn after_cut(target: usize, cut: Cut, effect: &Effect) -> Option<Deferred> {
        match cut {
            Cut::Done => None,
            Cut::SetAside(aside) => Some(Deferred::Discard { target, aside }),
            Cut::NotYet => Some(Deferred::Effect(effect.clone())),
        }
    }
}

/// The server with the targets on which an effect gives room.
pub(crate) fn gives_room_at(effect: &Effect) -> Option<ServerId> {
    (effect.when == When::DurableInTime).then_some(effect.server)
}

impl Durability {
    /// No journal is open. Removals and starts have the room of `reserve`.
    pub(crate) fn new(reserve: Option<Reserve>) -> Durability {
        Durability { reserve, ..Durability::default() }
    }

    /// Opens the journal in `storage` and replays it into the namespace. Changes up to `witnessed` were on stable storage.
    ///
    /// # Errors
    /// The journal is damaged or in use.
    pub(crate) fn open(
        &mut self,
        storage: Arc<dyn Storage>,
        (losses, witnessed): (Losses, u64),
        namespace: &mut Namespace,
    ) -> Result<Recovered, JournalError> {
        let (journal, recovered) =
            Journal::open_accepting(storage, JOURNAL_SCHEMA, (losses, witnessed), |change| {
                namespace.apply(&change)
            })?;
        self.journal = Some(journal);
        Ok(recovered)
    }

    /// Whether the store keeps its metadata.
    pub(crate) fn is_durable(&self) -> bool {
        self.journal.is_some() && !self.is_for_a_move
    }

    /// A target lies on another device than the journal: a sync brings its objects that were set aside to stable storage, too.
    pub(crate) fn note_apart(&mut self, target: usize) {
        self.apart.insert(target);
    }

    /// Whether a target lies on another device than the journal.
    pub(crate) fn is_apart(&self, target: usize) -> bool {
        self.apart.contains(&target)
    }

    /// Whether the journal takes no changes.
    pub(crate) fn is_read_only(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::is_stopped)
    }

    /// Whether the journal's file system has no room.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The numbers of the last change, and of the last one on stable storage; none where the store keeps nothing.
    pub(crate) fn progress(&self) -> Option<(u64, u64)> {
        self.journal
            .as_ref()
            .filter(|_| self.is_durable())
            .map(|journal| (journal.appended().0, journal.durable().0))
    }

    /// Writes changes to the journal. On a full file system only changes that free something are taken.
    ///
    /// # Errors
    /// The error number to answer where the journal does not take them.
    pub(crate) fn append(
        &mut self,
        changes: &[Change],
        namespace: &Namespace,
        now: Nanos,
    ) -> Result<(), Errno> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::JournalSkipped) && journal.appended().0 % 16 == 15 {
            return Ok(());
        }
        let is_given = |reserve: &Option<Reserve>| reserve.as_ref().is_some_and(Reserve::is_given);
        if is_given(&self.reserve) && !namespace.files().frees(changes) {
            return Err(errno::ENOSPC);
        }
        let mut appended = journal.append(changes);
        while matches!(&appended, Err(error) if error.is_full())
            && namespace.files().frees(changes)
            && self.reserve.as_mut().is_some_and(Reserve::give)
        {
            appended = journal.append(changes);
        }
        let is_full = is_given(&self.reserve) || matches!(&appended, Err(error) if error.is_full());
        let was_full = std::mem::replace(&mut self.is_full, is_full);
        match appended {
            Err(error) => {
                // A full disk and a stopped journal are said once: they refuse more often than a log can take.
                if !(is_full && was_full || matches!(error, JournalError::Stopped)) {
                    warning!("{error}");
                }
                Err(error.errno())
            }
            Ok(_) => {
                if !changes.is_empty() && !self.is_for_a_move {
                    let since = *self.unsynced_since.get_or_insert(now);
                    let is_much = journal.unsynced_bytes() > UNSYNCED_BYTES;
                    let due = if is_much { now } else { since + UNSYNCED_MAX };
                    self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
                }
                Ok(())
            }
        }
    }

    /// Whether the device is so far behind that changes which take room have to wait.
    pub(crate) fn is_behind(&self, namespace: &Namespace) -> bool {
        let Some(journal) = self.journal.as_ref().filter(|journal| !journal.is_stopped()) else {
            return false;
        };
        !self.is_for_a_move
            && (journal.unsynced_bytes() > UNSYNCED_BYTES_MAX
                || namespace.files().inodes().shown_bytes() > SHOWN_BYTES_MAX)
    }

    /// The moment at which a sync is due.
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.due.filter(|_| !self.is_syncing && self.trouble.is_none())
    }

    /// Work that waits for a sync that has not begun.
    pub(crate) fn deferred(&self) -> &[Deferred] {
        &self.waiting.deferred
    }

    /// A request waits for the next sync.
    pub(crate) fn add_request(&mut self, token: Token) {
        self.waiting.requests.push(token);
    }

    /// Puts work off until the journal is durable; `is_awaited` says whether somebody waits for it.
    pub(crate) fn defer(&mut self, deferred: Deferred, is_awaited: bool, now: Nanos) {
        self.waiting.deferred.push(deferred);
        let is_urgent = is_awaited || self.waiting.deferred.len() >= FREES_MAX;
        let due = if is_urgent { now } else { now + FREE_PAUSE };
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// The deferred work is done with the next sync, which is due now.
    pub(crate) fn hurry(&mut self, now: Nanos) {
        self.due = Some(now);
    }

    /// Begins a synchronisation, where something waits for one.
    pub(crate) fn begin_sync(&mut self, now: Nanos) -> SyncStart {
        let Some(journal) = &mut self.journal else { return SyncStart::None };
        let is_idle = self.waiting.requests.is_empty() && self.waiting.deferred.is_empty();
        let is_due = self.due.is_some_and(|due| due <= now);
        if self.is_syncing || (is_idle && !is_due) {
            return SyncStart::None;
        }
        if journal.is_stopped() {
            return SyncStart::Stopped(std::mem::take(&mut self.waiting.requests));
        }
        (self.due, self.unsynced_since) = (None, None);
        let waiting = std::mem::take(&mut self.waiting);
        match journal.sync_begin() {
            Some(ticket) => {
                self.is_syncing = true;
                SyncStart::Begun(ticket, waiting)
            }
            None => SyncStart::Durable(waiting),
        }
    }

    /// Ends a synchronisation: answers everything that waited for it, or the requests that fail and their error number.
    ///
    /// # Errors
    /// The sync failed. Deferred work waits for the next one.
    pub(crate) fn end_sync(
        &mut self,
        waiting: Waiting,
        (ticket, result): (SyncTicket, std::io::Result<()>),
        now: Nanos,
    ) -> Result<Waiting, (Vec<Token>, Errno)> {
        self.is_syncing = false;
        let Some(journal) = &mut self.journal else { return Ok(waiting) };
        #[cfg(any(test, feature = "world"))]
        let result = if mutants::is(Mutant::FailedSyncIgnored) { Ok(()) } else { result };
        match journal.sync_complete(ticket, result) {
            Ok(()) => Ok(waiting),
            Err(error) => {
                self.fail(&error, now);
                self.waiting.deferred.extend(waiting.deferred);
                Err((waiting.requests, error.errno()))
            }
        }
    }

    /// The journal stopped: reads go on, changes answer EROFS, and it is tried to begin the journal anew.
    fn fail(&mut self, error: &JournalError, now: Nanos) {
        let error = error.to_string();
        warning!(
            "{error}; reads go on, changes answer EROFS until the journal could be written anew, which is \
             tried every {} s",
            RENEWAL_PAUSE.0 / 1_000_000_000
        );
        self.failures += 1;
        self.trouble = Some(Trouble { since: now, error, next: now + RENEWAL_PAUSE });
    }

    /// Takes notice whether the journal's folder is gone, and why: then changes answer EROFS until it is back, and written anew.
    pub(crate) fn note_gone(&mut self, gone: Option<String>, now: Nanos) {
        self.is_gone = gone.is_some();
        let Some(journal) = self.journal.as_mut().filter(|_| !self.is_for_a_move) else { return };
        if let Some(words) = gone.filter(|_| !journal.is_stopped()) {
            journal.stop();
            let source = std::io::Error::new(std::io::ErrorKind::NotFound, words);
            self.fail(&JournalError::io("find", "the journal's folder")(source), now);
        }
    }

    /// A ticket that brings the durable mark to stable storage, where it is behind.
    pub(crate) fn begin_mark(&mut self) -> Option<MarkTicket> {
        self.journal.as_mut().and_then(Journal::mark_begin)
    }

    /// The journal in `/v1/status`; none where the store keeps nothing.
    pub(crate) fn status(&self, now: Nanos) -> Option<JournalStatus> {
        let journal = self.journal.as_ref().filter(|_| self.is_durable())?;
        let trouble = self.trouble.as_ref();
        Some(JournalStatus {
            state: if trouble.is_some() { "stopped" } else { "works" },
            error: trouble.map(|trouble| trouble.error.clone()),
            stopped_seconds: trouble.map(|trouble| seconds(now.saturating_since(trouble.since))),
            sync_failures: self.failures,
            appended: journal.appended().0,
            durable: journal.durable().0,
            log_bytes: journal.log_bytes(),
        })
    }

    /// Begins a snapshot with which a stopped journal begins anew, where a try is due.
    pub(crate) fn begin_renewal(&mut self, namespace: &mut Namespace, now: Nanos) {
        let is_gone = self.is_gone;
        let trouble = self.trouble.as_mut().filter(|trouble| trouble.next <= now && !is_gone);
        let Some(trouble) = trouble else { return };
        trouble.next = now + RENEWAL_PAUSE;
        let Some(journal) = self.journal.as_mut().filter(|_| self.writing.is_none()) else { return };
        let begun = journal.renewal_begin();
        self.begin_writing(begun, Purpose::Renewal, namespace);
    }

    /// Begins a snapshot that replaces a long journal, where one is worth it.
    pub(crate) fn begin_compaction(&mut self, namespace: &mut Namespace) {
        let state_bytes = namespace.journaled_bytes();
        let journal = self.journal.as_mut().filter(|journal| journal.wants_snapshot(state_bytes));
        if let Some(journal) = journal {
            let begun = journal.snapshot_begin();
            self.begin_writing(begun, Purpose::Compaction, namespace);
        }
    }

    fn begin_writing(
        &mut self,
        begun: Result<Option<SnapshotWriter<Change>>, JournalError>,
        purpose: Purpose,
        namespace: &mut Namespace,
    ) {
        let writer = match begun {
            Ok(Some(writer)) => writer,
            Ok(None) => return,
            Err(error) => return self.fail_snapshot(purpose, error),
        };
        match Writing::begin(writer, purpose, namespace) {
            Ok(writing) => self.writing = Some(writing),
            Err((writer, error)) => self.abandon(writer, purpose, error, namespace),
        }
    }

    /// Whether a snapshot has records to show.
    pub(crate) fn is_showing(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| !writing.is_away())
    }

    /// Shows records of a snapshot until the turn is over; answers the work for a worker.
    pub(crate) fn go_on_writing(
        &mut self,
        namespace: &mut Namespace,
        is_over: impl Fn() -> bool,
    ) -> Option<SnapshotStep> {
        let writing = self.writing.as_mut().filter(|writing| !writing.is_away())?;
        let shown = writing.show(namespace, is_over);
        match shown {
            Ok(Shown::Some) => None,
            Ok(Shown::Slice(slice)) => Some(SnapshotStep::Slice(slice)),
            Ok(Shown::All) => {
                namespace.end_snapshot();
                let (writer, purpose) = self.writing.take()?.into_parts();
                let journal = self.journal.as_mut()?;
                let ticket = match purpose {
                    Purpose::Compaction | Purpose::Departure => journal.snapshot_seal(writer),
                    Purpose::Renewal => journal.renewal_seal(writer),
                };
                Some(SnapshotStep::Seal(ticket, purpose))
            }
            Err(error) => {
                self.give_up_writing(error, namespace);
                None
            }
        }
    }

    /// A slice of a snapshot was written, or not.
    pub(crate) fn end_slice(&mut self, written: Result<(), JournalError>, namespace: &mut Namespace) {
        let Some(writing) = &mut self.writing else { return };
        writing.came_back();
        if let Err(error) = written {
            self.give_up_writing(error, namespace);
        }
    }

    fn give_up_writing(&mut self, error: JournalError, namespace: &mut Namespace) {
        if let Some(writing) = self.writing.take() {
            let (writer, purpose) = writing.into_parts();
            self.abandon(writer, purpose, error, namespace);
        }
    }

    fn abandon(
        &mut self,
        writer: SnapshotWriter<Change>,
        purpose: Purpose,
        error: JournalError,
        namespace: &mut Namespace,
    ) {
        namespace.end_snapshot();
        if let Some(journal) = &mut self.journal {
            journal.snapshot_abandon(writer);
        }
        self.fail_snapshot(purpose, error);
    }

    fn fail_snapshot(&mut self, purpose: Purpose, error: JournalError) {
        match purpose {
            Purpose::Compaction => warning!("{error}"),
            Purpose::Renewal => self.fail_renewal(&error),
            Purpose::Departure => self.end_departure(Err(error)),
        }
    }

    /// A renewal ended: where it succeeded, everything goes on; answers whether it did.
    pub(crate) fn end_renewal(&mut self, result: Result<SnapshotDone, JournalError>) -> bool {
        let Some(journal) = &mut self.journal else { return false };
        if let Err(error) = journal.renewal_complete(result) {
            self.fail_renewal(&error);
            return false;
        }
        self.trouble = None;
        notice!("the journal was written anew and works again; nothing that was answered is lost");
        true
    }

    fn fail_renewal(&mut self, error: &JournalError) {
        let Some(trouble) = &mut self.trouble else { return };
        let error = error.to_string();
        if trouble.error != error {
            warning!("the journal still does not work: {error}");
            trouble.error = error;
        }
    }

    /// A snapshot ended.
    pub(crate) fn end_snapshot(&mut self, result: Result<SnapshotDone, JournalError>) {
        if let Some(journal) = &mut self.journal {
            if let Err(error) = journal.snapshot_complete(result) {
                warning!("{error}");
            }
        }
    }

    /// A ticket that fills the reserve again once there is room, where some of it is missing or the file system was full.
    pub(crate) fn begin_refill(&mut self) -> Option<RefillTicket> {
        let is_full = self.is_full;
        self.reserve.as_mut().filter(|reserve| is_full || !reserve.is_whole())?.refill_begin()
    }

    /// A ticket was run.
    pub(crate) fn end_refill(&mut self, refilled: Refilled) {
        if let Some(reserve) = &mut self.reserve {
            self.is_full &= !reserve.refill_complete(refilled);
        }
    }

    /// The effects of an intent are done, and the journal did not take that: they are repeated later.
    pub(crate) fn repeat_later(&mut self, intent: IntentId) {
        self.effects_to_repeat.push(intent);
    }

    /// The intents with effects that are to be repeated now.
    pub(crate) fn take_to_repeat(&mut self) -> Vec<IntentId> {
        match self.is_read_only() {
            true => Vec::new(),
            false => std::mem::take(&mut self.effects_to_repeat),
        }
    }

    /// A removal failed: it is tried again later.
    pub(crate) fn remove_later(&mut self, removal: Effect) {
        self.failed_removals.push_back(removal);
    }

    /// Takes failed removals, `count_max` at most, those that failed longest ago.
    pub(crate) fn take_failed_removals(&mut self, count_max: usize) -> Vec<Effect> {
        let count = self.failed_removals.len().min(count_max);
        self.failed_removals.drain(..count).collect()
    }

    /// The ends of files without a name could not be recorded now.
    pub(crate) fn note_leftovers(&mut self) {
        self.leftovers = true;
    }

    /// Whether files without a name are to be looked for now that nobody has open.
    pub(crate) fn take_leftovers(&mut self) -> bool {
        !self.is_read_only() && std::mem::take(&mut self.leftovers)
    }

    /// A clean stop leaves nothing unsynced.
    pub(crate) fn close(&mut self) {
        if let Some(Err(error)) = self.journal.as_mut().map(Journal::sync) {
            warning!("{error}");
        }
    }
}

/// Reads the names that came from another host.
///
/// # Errors
/// They are damaged.
pub(crate) fn read_names(storage: Arc<dyn Storage>, namespace: &mut Namespace) -> Result<(), JournalError> {
    OwnJournal::open(storage, JOURNAL_SCHEMA, |change| namespace.apply(&change)).map(|_| ())
}
