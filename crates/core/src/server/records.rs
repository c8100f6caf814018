//! The journal: changes are recorded and applied, and work that destroys bytes waits for stable storage.

use super::Server;
use crate::durability::{Deferred, Purpose, SnapshotStep, SyncStart, Waiting};
use crate::errands::Errand;
use crate::journal::SyncTicket;
use crate::namespace::{errno, Change, Decision, Effect};
use crate::requests::continuation::Woken;
use crate::requests::request::Token;
use crate::storage::Target;
use crate::work::{Synced, Work};
use weir_fairshare::Nanos;
use weir_wire::Errno;

/// Records of a snapshot are shown for this long in one turn of the loop, as devices are served.
const SNAPSHOT_TURN: Nanos = Nanos::from_micros(500);

impl Server {
    /// Writes changes to the journal and applies them.
    ///
    /// # Errors
    /// The error number to answer where the journal does not take them: nothing changes then.
    pub(super) fn record(&mut self, changes: &[Change]) -> Result<(), Errno> {
        self.durability.append(changes, &self.namespace, self.clock.now())?;
        for change in changes {
            self.namespace.apply(change);
        }
        Ok(())
    }

    /// Journals and applies a decision; answers its effects, which are to be carried out.
    ///
    /// # Errors
    /// As [`Server::record`].
    pub(super) fn journal(&mut self, decision: &Decision) -> Result<Vec<Effect>, Errno> {
        self.durability.append(&decision.changes, &self.namespace, self.clock.now())?;
        Ok(self.namespace.commit(decision))
    }

    /// Puts work off until the journal is durable; `is_awaited` says whether somebody waits for it.
    pub(super) fn defer(&mut self, deferred: Deferred, is_awaited: bool) {
        self.durability.defer(deferred, is_awaited, self.clock.now());
        self.sync_if_due();
    }

    /// Starts a synchronisation for deferred work, at once where none is under way.
    pub(super) fn sync_soon(&mut self) {
        self.durability.hurry(self.clock.now());
        self.sync_if_due();
    }

    /// Starts a synchronisation where one is due.
    pub(super) fn sync_if_due(&mut self) {
        if self.durability.due().is_some_and(|due| due <= self.clock.now()) {
            self.start_sync();
        }
    }

    /// A request is answered when everything in the journal so far is on stable storage; requests share one synchronisation.
    pub(super) fn answer_when_durable(&mut self, token: Token) {
        self.durability.add_request(token);
        self.start_sync();
    }

    fn start_sync(&mut self) {
        match self.durability.begin_sync(self.clock.now()) {
            SyncStart::None => {}
            SyncStart::Stopped(requests) => self.requests.wake_failed(requests, errno::EIO),
            SyncStart::Durable(waiting) => self.requests.wake(Woken::Durable(waiting)),
            SyncStart::Begun(ticket, waiting) => {
                let targets = self.targets.iter_mut().enumerate();
                let apart = targets.filter(|(index, _)| self.durability.is_apart(*index));
                let asides = apart.filter_map(|(index, target)| target.directory_mut()?.asides_begin(index));
                let work = Work::Sync(asides.collect(), ticket);
                self.errands.submit(Errand::Sync(waiting), work);
            }
        }
    }

    /// A synchronisation ended. Answers everything that waited for it, where it succeeded.
    pub(super) fn end_sync(
        &mut self,
        waiting: Waiting,
        ticket: SyncTicket,
        Synced { asides: (asides, are_named), result }: Synced,
    ) -> Option<Waiting> {
        for ticket in asides {
            if let Some(directory) = self.targets.get_mut(ticket.target()).and_then(Target::directory_mut) {
                directory.asides_complete(ticket, are_named);
            }
        }
        match self.durability.end_sync(waiting, (ticket, result), self.clock.now()) {
            Ok(waiting) => Some(waiting),
            Err((requests, errno)) => {
                self.requests.wake_failed(requests, errno);
                None
            }
        }
    }

    /// Work that came during the last synchronisation waits for the next.
    pub(super) fn sync_again(&mut self) {
        self.start_sync();
    }

    /// Brings the durable mark to stable storage, beside everything else.
    pub(super) fn sync_mark(&mut self) {
        if let Some(ticket) = self.durability.begin_mark() {
            self.errands.submit(Errand::Mark, Work::Mark(ticket));
        }
    }

    /// Begins a stopped journal anew from the state in memory, or replaces a long one by a snapshot, where that is due.
    pub(super) fn write_journal_anew(&mut self) {
        self.durability.begin_compaction(&mut self.namespace);
        self.durability.begin_renewal(&mut self.namespace, self.clock.now());
    }

    /// Shows some records of a snapshot that is being written.
    pub(crate) fn go_on_with_snapshot(&mut self) {
        let limit = self.clock.limit(SNAPSHOT_TURN);
        let clock = &self.clock;
        let is_over = || clock.is_over(limit);
        let (errand, work) = match self.durability.go_on_writing(&mut self.namespace, is_over) {
            None => return,
            Some(SnapshotStep::Slice(slice)) => (Errand::Slice, Work::Slice(slice)),
            Some(SnapshotStep::Seal(ticket, purpose)) => {
                let errand = match purpose {
                    Purpose::Compaction => Errand::Snapshot,
                    Purpose::Renewal => Errand::Renewal,
                    Purpose::Departure => Errand::Departure,
                };
                (errand, Work::Snapshot(Box::new(ticket)))
            }
        };
        self.errands.submit(errand, work);
    }

    /// Has the reserve of the journal filled again where some of it is missing.
    pub(super) fn refill_journal(&mut self) {
        if let Some(ticket) = self.durability.begin_refill() {
            self.errands.submit(Errand::Refill(None), Work::Refill(ticket));
        }
    }

    /// Changes that waited for the device go on once it has caught up.
    pub(super) fn take_up_held_back(&mut self) {
        if self.requests.has_held_back() && !self.durability.is_behind(&self.namespace) {
            self.requests.go_on_held_back();
        }
    }
}
