//! The journal's way to stable storage, and everything that waits for it: requests (fsync), effects that destroy bytes, objects
//! that were set aside. When a sync fails, all of it waits until the journal
//! has begun anew.

use crate::accounts::jobs::seconds;
use crate::control::JournalStatus;
use crate::events::WorkOutput;
use crate::journal::{DirectoryStorage, Journal, JournalError, SnapshotTicket, SyncTicket};
use crate::namespace::{errno, Answer, Change, Effect, Verdict};
use crate::notices::notice;
use crate::requests::data::Errand;
use crate::requests::metadata::SnapshotEnd;
use crate::requests::service::{Outcome, Sink};
use crate::server::Server;
use crate::storage::{Aside, Cut, Target, TargetFailure};
use std::sync::mpsc::Receiver;
use std::sync::Arc;
use weir_fairshare::Nanos;
use weir_wire::{Errno, Ino, Reply};

/// How long what nobody waits for may wait for a sync of its own: so a program that removes files all the time costs
/// the device five syncs a second, and what is removed is free a moment later.
const FREE_PAUSE: Nanos = Nanos::from_millis(200);
/// Frees that are put off before a sync is made for them at once: what the worker pool takes in about a second.
const FREES_MAX: usize = 8192;
/// Pause between two tries to begin the journal anew: each writes the whole state.
const RENEWAL_PAUSE: Nanos = Nanos::from_millis(1_000);

/// What waits for the journal.
#[derive(Default)]
pub(crate) struct Durability {
    syncing: bool,
    /// Requests that are answered once everything journaled so far is durable.
    requests: Vec<usize>,
    deferred: Vec<Deferred>,
    /// When a sync is due for what was deferred.
    due: Option<Nanos>,
    trouble: Option<Trouble>,
    failures: u64,
}

/// A failed sync, and what came of it.
struct Trouble {
    since: Nanos,
    error: String,
    /// The next renewal.
    next: Nanos,
}

/// What is carried out once the journal is durable.
pub(crate) enum Deferred {
    /// The object that a late writer made of a file which is gone.
    Stray {
        target: usize,
        ino: Ino,
    },
    /// The word to another server that files are gone: it removes their objects.
    Word {
        token: usize,
        reply: Box<Reply>,
    },
    Effect(Effect),
    /// The bytes of an object of this target that was emptied.
    Discard {
        target: usize,
        aside: Aside,
    },
}

/// Where the ticket of a synchronisation comes back, with its result.
pub(crate) type SyncEnd = Receiver<(SyncTicket<DirectoryStorage>, std::io::Result<()>)>;

/// What a synchronisation was for.
pub(crate) struct Synced {
    requests: Vec<usize>,
    deferred: Vec<Deferred>,
    ticket: SyncEnd,
}

impl Durability {
    /// When something has to be done.
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.due.filter(|_| !self.syncing && self.trouble.is_none())
    }

    /// What waits for a sync that has not begun.
    pub(crate) fn deferred(&self) -> &[Deferred] {
        &self.deferred
    }
}

impl Synced {
    /// What waits for this sync.
    pub(crate) fn deferred(&self) -> &[Deferred] {
        &self.deferred
    }
}

impl Server {
    /// Answers when everything in the journal so far is on stable storage; requests share one synchronisation.
    pub(crate) fn sync_metadata(&mut self, token: usize) {
        let Some(pending) = self.pending.get(token) else { return };
        let caller = crate::requests::metadata::caller(pending);
        match self.namespace.decide(&caller, &pending.request, &[], self.moment()) {
            Ok(Verdict::Done(decision)) => match decision.answer {
                Answer::Now(Reply::Done, _) => {}
                Answer::Now(reply, _) => return self.finish(token, Outcome::of(reply)),
                Answer::Then(_) => return self.finish(token, Outcome::failed(errno::EINVAL)),
            },
            Ok(_) => return self.finish(token, Outcome::failed(errno::EAGAIN)),
            Err(errno) => return self.finish(token, Outcome::failed(errno)),
        }
        if self.journal.is_none() {
            return self.finish(token, Outcome::of(Reply::Done));
        }
        self.durability.requests.push(token);
        self.start_sync();
    }

    /// Carries this out once the journal is durable; `is_awaited` says whether somebody waits for it.
    pub(crate) fn defer(&mut self, deferred: Deferred, is_awaited: bool) {
        self.durability.deferred.push(deferred);
        let is_urgent = is_awaited || self.durability.deferred.len() >= FREES_MAX;
        let due = if is_urgent { self.now() } else { self.now() + FREE_PAUSE };
        self.durability.due = Some(self.durability.due.map_or(due, |earlier| earlier.min(due)));
        self.sync_if_due();
    }

    /// Starts a synchronisation for what was deferred, at once where none is under way.
    pub(crate) fn sync_soon(&mut self) {
        self.durability.due = Some(self.now());
        self.sync_if_due();
    }

    /// Starts a synchronisation where one is due.
    pub(crate) fn sync_if_due(&mut self) {
        if self.durability.due().is_some_and(|due| due <= self.now()) {
            self.start_sync();
        }
    }

    fn start_sync(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        let waiting = &mut self.durability;
        if waiting.syncing || (waiting.requests.is_empty() && waiting.deferred.is_empty()) {
            return;
        }
        if journal.is_stopped() {
            let requests = std::mem::take(&mut waiting.requests);
            return self.answer_synced(requests, errno::EIO);
        }
        waiting.due = None;
        let requests = std::mem::take(&mut waiting.requests);
        let deferred = std::mem::take(&mut waiting.deferred);
        let Some(ticket) = journal.sync_begin() else { return self.synced(requests, deferred) };
        waiting.syncing = true;
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let apart: Vec<_> = self.dirs_apart();
        self.submit(Errand::Sync(Synced { requests, deferred, ticket: receiver }), move || {
            let result = apart.iter().try_for_each(|dir| dir.sync_asides()).and_then(|()| ticket.run());
            let failure = result.as_ref().err().and_then(std::io::Error::raw_os_error);
            // The loop holds the receiving side until this errand has come back.
            let _ = sender.try_send((ticket, result));
            failure.map_or(Ok(WorkOutput::Done), |raw| Err(TargetFailure::Device(raw)))
        });
    }

    /// Targets on another device than the journal.
    fn dirs_apart(&self) -> Vec<Arc<crate::storage::Dir>> {
        let dirs = self.targets.iter().zip(&self.is_apart).filter(|(_, &is_apart)| is_apart);
        dirs.filter_map(|(target, _)| target.directory().cloned()).collect()
    }

    /// A synchronisation ended.
    pub(crate) fn journal_synced(&mut self, synced: Synced) {
        self.durability.syncing = false;
        let Some(journal) = &mut self.journal else { return };
        let completed = match synced.ticket.try_recv() {
            Ok((ticket, result)) => journal.sync_complete(ticket, result),
            Err(_) => Err(JournalError::Stopped),
        };
        match completed {
            Ok(()) => self.synced(synced.requests, synced.deferred),
            Err(error) => {
                self.journal_failed(&error);
                self.durability.deferred.extend(synced.deferred);
                self.answer_synced(synced.requests, error.errno());
            }
        }
        self.start_sync();
    }

    /// Answers requests, and carries out what waited for a durable journal.
    fn synced(&mut self, requests: Vec<usize>, deferred: Vec<Deferred>) {
        for token in requests {
            self.finish(token, Outcome::of(Reply::Done));
        }
        for deferred in deferred {
            match deferred {
                Deferred::Effect(effect) => self.carry_out_now(effect),
                Deferred::Discard { target, aside } => self.discard(target, aside),
                Deferred::Stray { target, ino } => self.remove_stray(target, ino),
                Deferred::Word { token, reply } => self.finish(token, Outcome::of(*reply)),
            }
        }
    }

    fn answer_synced(&mut self, requests: Vec<usize>, errno: Errno) {
        for token in requests {
            self.finish(token, Outcome::failed(errno));
        }
    }

    fn discard(&mut self, target: usize, aside: Aside) {
        if let Some(dir) = self.targets.get(target).and_then(Target::directory).cloned() {
            self.submit(Errand::Discard, move || dir.discard(aside).map(|()| WorkOutput::Done));
        }
    }

    /// An object that was set aside is gone, or stays until the next start.
    pub(crate) fn discarded(&mut self, outcome: Result<WorkOutput, TargetFailure>) {
        if let Err(failure) = outcome {
            notice!("an emptied object stays on its target until the next start: {failure:?}");
        }
        self.try_roomless();
    }

    /// Brings the durable mark to stable storage, beside everything else.
    pub(crate) fn sync_mark(&mut self) {
        if let Some(ticket) = self.journal.as_mut().and_then(Journal::mark_begin) {
            self.submit(Errand::Mark, move || {
                // The mark before it is in force, and true as well.
                let _ = ticket.run();
                Ok(WorkOutput::Done)
            });
        }
    }

    /// The journal stopped: reads go on, changes answer EROFS, and it is tried to begin anew.
    fn journal_failed(&mut self, error: &JournalError) {
        let error = error.to_string();
        notice!(
            "{error}; reads go on, changes answer EROFS until the journal could be written anew, which is \
             tried every {} s",
            RENEWAL_PAUSE.0 / 1_000_000_000
        );
        let (since, next) = (self.now(), self.now() + RENEWAL_PAUSE);
        self.durability.failures += 1;
        self.durability.trouble = Some(Trouble { since, error, next });
    }

    /// Whether the journal takes no changes.
    pub(crate) fn is_read_only(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::is_stopped)
    }

    pub(crate) fn journal_status(&self) -> Option<JournalStatus> {
        let journal = self.journal.as_ref()?;
        let trouble = self.durability.trouble.as_ref();
        Some(JournalStatus {
            state: if trouble.is_some() { "stopped" } else { "works" },
            error: trouble.map(|trouble| trouble.error.clone()),
            stopped_seconds: trouble.map(|trouble| seconds(self.now().saturating_since(trouble.since))),
            sync_failures: self.durability.failures,
            appended: journal.appended().0,
            durable: journal.durable().0,
            log_bytes: journal.log_bytes(),
        })
    }

    /// Tries to begin a stopped journal anew, from the state in memory.
    pub(crate) fn renew_journal(&mut self) {
        let now = self.now();
        let Some(trouble) = self.durability.trouble.as_mut().filter(|trouble| trouble.next <= now) else {
            return;
        };
        trouble.next = now + RENEWAL_PAUSE;
        match self.begin_renewal() {
            Ok(Some(ticket)) => {
                let (sender, receiver) = std::sync::mpsc::sync_channel(1);
                self.submit(Errand::Renewal(receiver), move || {
                    // The loop holds the receiving side until this errand has come back.
                    let _ = sender.try_send(ticket.run());
                    Ok(WorkOutput::Done)
                });
            }
            Ok(None) => {}
            Err(error) => self.renewal_failed(&error),
        }
    }

    fn begin_renewal(&mut self) -> Result<Option<SnapshotTicket<Change, DirectoryStorage>>, JournalError> {
        let Some(journal) = &mut self.journal else { return Ok(None) };
        let Some(mut writer) = journal.renewal_begin()? else { return Ok(None) };
        for change in self.namespace.snapshot() {
            if let Err(error) = writer.push(&change) {
                journal.snapshot_abandon(writer);
                return Err(error);
            }
        }
        Ok(Some(journal.renewal_seal(writer)))
    }

    /// A renewal ended: where it succeeded, everything goes on.
    pub(crate) fn journal_renewed(&mut self, end: &SnapshotEnd) {
        let (Some(journal), Ok(result)) = (&mut self.journal, end.try_recv()) else { return };
        if let Err(error) = journal.renewal_complete(result) {
            return self.renewal_failed(&error);
        }
        self.durability.trouble = None;
        notice!("the journal was written anew and works again; nothing that was answered is lost");
        self.start_sync();
    }

    fn renewal_failed(&mut self, error: &JournalError) {
        let Some(trouble) = &mut self.durability.trouble else { return };
        let error = error.to_string();
        if trouble.error != error {
            notice!("the journal still does not work: {error}");
            trouble.error = error;
        }
    }

    /// A worker did what could be undone of a cut.
    pub(crate) fn cut_worked(&mut self, effect: Effect, target: usize, cut: Cut) {
        match cut {
            Cut::Done => self.effect_done(effect, Ok(())),
            Cut::SetAside(aside) => {
                self.defer(Deferred::Discard { target, aside }, false);
                self.effect_done(effect, Ok(()));
            }
            Cut::NotYet => self.defer(Deferred::Effect(effect), true),
        }
    }

    /// The bytes of a write that a worker gave back.
    pub(crate) fn give_back_bytes(&mut self, token: usize, bytes: Vec<u8>) {
        if let Some(pending) = self.pending.get_mut(token) {
            let filled = bytes.len();
            pending.sink = Sink::Buffer { bytes, filled };
        }
    }
}
