//! Requests of the namespace: decided, journaled, applied, their effects carried out, then answered.

use crate::error::ServerError;
use crate::events::WorkOutput;
use crate::journal::{DirectoryStorage, Journal, JournalError, Losses, Recovered, SnapshotDone};
use crate::namespace::{
    errno, Caller, Change, Continuation, Decision, Effect, IntentId, PeerFailure, Verdict,
};
use crate::notices::notice;
use crate::peers;
use crate::requests::data::Errand;
use crate::requests::durability::Deferred;
use crate::requests::service::{Outcome, Pending, Stage};
use crate::server::Server;
use crate::storage::Reserve;
use crate::storage::Settled;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use weir_fairshare::Nanos;
use weir_placement::{ServerId, TargetId};
use weir_wire::{Capability, ClientId, Errno, Ino, PeerReply, PeerRequest, Publication, Reply, Request};

/// Version of the journal's records.
const JOURNAL_SCHEMA: u32 = 4;
/// How long another server may take to do its part of a request that a client waits for: above it the client
/// is told EIO, while it would itself wait for ten seconds of silence.
const QUESTION_PATIENCE: Duration = Duration::from_secs(5);
/// How long a request waits for an intent to be settled: long enough for a server that is restarted at once.
const SETTLEMENT_WAIT: Nanos = Nanos::from_millis(10_000);

/// What goes on when an intent is settled.
pub(crate) enum Continued {
    /// A request whose turn at its device it was.
    Execute(usize),
    /// A request that is served at once.
    AtOnce(usize),
    /// The publication of a write that is done.
    Publish(usize, Box<Outcome>),
    /// A reply, which may wait for more intents.
    Reply(usize, Box<Outcome>, Box<Decision>),
}

/// A question to a peer, by what its answer is for.
pub(crate) enum Asked {
    /// The lambda exchange.
    Exchange(ServerId),
    /// An effect of a decision.
    Effect(Box<Effect>),
    /// What capabilities of its files are worth.
    Confirm(ServerId, Vec<Capability>),
    /// Whether files of which objects were made here are there.
    ObjectsMade(ServerId, Vec<Ino>),
    /// Whether removals decided there are about to give room here, by the number of the question.
    Room(u64),
    /// A request that depends on the answer.
    Request(usize, Box<Continuation>),
}

impl Continued {
    fn token(&self) -> usize {
        match self {
            Continued::Execute(token)
            | Continued::AtOnce(token)
            | Continued::Publish(token, _)
            | Continued::Reply(token, _, _) => *token,
        }
    }
}

/// Where the result of a snapshot comes back.
pub(crate) type SnapshotEnd = Receiver<Result<SnapshotDone, JournalError>>;

/// The namespace's view of who asks.
pub(crate) fn caller(pending: &Pending) -> Caller<'_> {
    Caller {
        client: pending.client,
        request: pending.header.request,
        acknowledged: pending.header.acknowledged,
        who: &pending.acting.who,
        trusted: pending.acting.trusted,
    }
}

impl Server {
    /// Opens the journal of a durable store and brings the namespace to where it was.
    ///
    /// # Errors
    /// [`ServerError::Journal`] when it is damaged or in use.
    pub(crate) fn recover(&mut self, folder: &Path, losses: Losses) -> Result<(), ServerError> {
        let mut returned = false;
        if self.config.is_durable() {
            let place = folder.join("journal");
            let storage = DirectoryStorage::open(&place)?;
            let namespace = &mut self.namespace;
            let (journal, recovered) =
                Journal::open_accepting(storage, JOURNAL_SCHEMA, losses, |change| namespace.apply(&change))?;
            for notice in &recovered.notices {
                notice!("{notice}");
            }
            returned = recovered.groups > 0 || recovered.snapshot_records > 0;
            self.journal = Some(journal);
            self.settle_targets(&place, &recovered)?;
            self.namespace.index();
        }
        let start = self.namespace.start(self.moment());
        self.record(std::slice::from_ref(&start)).map_err(|errno| ServerError::Io {
            what: "record the start in",
            path: folder.join("journal"),
            source: std::io::Error::from_raw_os_error(i32::from(errno.0)),
        })?;
        if returned {
            self.begin_grace();
        } else {
            self.expire_orphans();
        }
        Ok(())
    }

    /// Brings the objects here to what the journal knows of their files.
    fn settle_targets(&mut self, journal: &Path, recovered: &Recovered) -> Result<(), ServerError> {
        // After a restored copy or an accepted loss the records may be somewhere else: their objects stay.
        let lost_power = recovered.lost_power && !recovered.accepted_loss;
        let device = std::fs::metadata(journal).map(|metadata| metadata.dev()).unwrap_or(0);
        for (index, target) in self.targets.iter().enumerate() {
            let Some(dir) = target.directory() else { continue };
            let target = TargetId { server: self.id, index: index as u16 };
            let settled = dir.settle(|ino| self.namespace.known(ino, lost_power)).map_err(|source| {
                let path = journal.with_file_name(format!("target {target}"));
                ServerError::Io { what: "bring to what the journal knows", path, source }
            })?;
            if settled != Settled::default() {
                notice!(
                    "target {target}: of changes that a power loss took, {} emptied objects have their \
                     bytes again, and {} objects of files that were never durable are removed",
                    settled.restored,
                    settled.removed
                );
            }
            dir.raise_known_epochs(self.namespace.epochs_on(target));
            self.is_apart[index] = dir.device().map_or(true, |other| other != device);
        }
        Ok(())
    }

    /// Carries out what was left unfinished by an earlier start.
    pub(crate) fn resume_effects(&mut self) {
        if let Some(abandoned) = self.namespace.abandon_moves() {
            // Where it cannot be recorded now, the next start gives them up.
            let _ = self.record(&abandoned.changes);
        }
        for effect in self.namespace.pending_effects() {
            self.carry_out(effect);
        }
    }

    /// Decides a request of the namespace and follows the decision.
    pub(crate) fn execute_namespace(&mut self, token: usize) {
        let moment = self.moment();
        let Some(pending) = self.pending.get_mut(token) else { return };
        pending.stage = Stage::Elsewhere;
        let pending = &self.pending[token];
        if let Some(&first) = self.unfinished.get(&pending.key()).filter(|&&first| first != token) {
            self.followers.entry(first).or_default().push(token);
            return self.end_service(token);
        }
        let caller = caller(pending);
        if pending.request.places().any(|at| at.proof.is_some()) {
            self.namespace.note_passes(&caller, &pending.request, moment);
        }
        if let Request::AppendEnd { capability, turn, publication } = &pending.request {
            let (ino, turn, acting) = (capability.ino, *turn, Rc::clone(&pending.acting));
            let verdict = self.namespace.append_end(&caller, capability, turn, publication.as_ref(), moment);
            let caller = Caller { who: &acting.who, ..caller };
            if let Ok(Verdict::Wait(intent)) = verdict {
                return self.continue_after(intent, Continued::AtOnce(token));
            }
            self.follow(token, verdict, Outcome::of(Reply::Done));
            let grant = self.namespace.next_turn(&caller, ino, turn);
            return self.grant_turn(grant);
        }
        let verdict = self.namespace.decide(&caller, &pending.request, &pending.payload, moment);
        self.follow(token, verdict, Outcome::of(Reply::Done));
    }

    /// Publishes what a write wrote; the reply of the write tells the size.
    pub(crate) fn publish(
        &mut self,
        token: usize,
        capability: Capability,
        publication: Publication,
        outcome: Outcome,
    ) {
        let moment = self.moment();
        let Some(pending) = self.pending.get(token) else { return };
        let request = Request::Publish { capability, publication };
        match self.namespace.decide(&caller(pending), &request, &[], moment) {
            Ok(Verdict::Wait(intent)) => {
                self.continue_after(intent, Continued::Publish(token, Box::new(outcome)))
            }
            verdict => self.follow(token, verdict, outcome),
        }
    }

    /// Does what a verdict says; `outcome` carries what the reply needs beside the decision's answer.
    pub(crate) fn follow(&mut self, token: usize, verdict: Result<Verdict, Errno>, outcome: Outcome) {
        match verdict {
            Err(errno) => self.finish(token, Outcome { reply: Reply::Failed(errno), ..outcome }),
            Ok(Verdict::Wait(intent)) => {
                let at_once = self.pending.get(token).is_some_and(|pending| pending.device.is_none());
                let continued = if at_once { Continued::AtOnce(token) } else { Continued::Execute(token) };
                self.continue_after(intent, continued);
            }
            Ok(Verdict::Ask(question)) => {
                if let Err(errno) = self.record(&question.changes) {
                    return self.finish(token, Outcome::failed(errno));
                }
                self.begin_wait(token);
                let asked = Asked::Request(token, Box::new(question.continuation));
                self.ask_peer(question.server, question.request, Vec::new(), QUESTION_PATIENCE, asked);
            }
            Ok(Verdict::Done(decision)) => {
                if let Err(errno) = self.commit(&decision) {
                    return self.finish(token, Outcome::failed(errno));
                }
                let settled: Vec<IntentId> = decision.settled().collect();
                self.reply_when_settled(token, outcome, decision);
                self.go_on_after(&settled);
            }
        }
    }

    /// Replies once every intent of the decision is settled.
    fn reply_when_settled(&mut self, token: usize, mut outcome: Outcome, decision: Decision) {
        let open = decision.wait.iter().copied().find(|&intent| !self.namespace.is_settled(intent));
        if let Some(intent) = open {
            let continued = Continued::Reply(token, Box::new(outcome), Box::new(decision));
            return self.continue_after(intent, continued);
        }
        let was_cut = !decision.wait.is_empty();
        let uid = self.pending.get(token).map_or(u32::MAX, |pending| pending.acting.who.uid);
        let (reply, payload) = self.namespace.answer(decision.answer, uid, self.moment());
        if let (true, Some(pending)) = (was_cut, self.pending.get(token)) {
            let file = match (&reply, &pending.request) {
                (Reply::Attributes(attributes) | Reply::Opened { attributes, .. }, _) => Some(attributes.ino),
                // Where the bytes go next no server knows of the pages that mounts hold.
                (Reply::Frozen { .. }, Request::MoveFreeze { ino, .. }) => Some(*ino),
                _ => None,
            };
            if let Some(ino) = file {
                outcome.drops.extend(self.watches.changed(pending.client, ino));
            }
        }
        if !matches!(reply, Reply::Done) || matches!(outcome.reply, Reply::Done) {
            outcome.reply = reply;
        }
        outcome.payload = payload;
        self.finish(token, outcome);
    }

    /// Goes on when the intent is settled, or now if it is.
    pub(crate) fn continue_after(&mut self, intent: IntentId, continued: Continued) {
        if self.namespace.is_settled(intent) {
            return self.go_on(continued);
        }
        self.begin_wait(continued.token());
        let since = self.now();
        self.continued.entry(intent).or_default().push((since, continued));
    }

    /// A request waits for others: its service slot is free, and a resend of it joins it.
    fn begin_wait(&mut self, token: usize) {
        self.end_service(token);
        if let Some(pending) = self.pending.get(token) {
            self.unfinished.insert(pending.key(), token);
        }
    }

    /// Tells those EIO whose intent a lost server has kept from being settled for too long. The intent stays, and is
    /// settled when the server is back.
    pub(crate) fn expire_waits(&mut self, now: Nanos) {
        let mut overdue = Vec::new();
        for waiting in self.continued.values_mut() {
            let is_overdue = |since: Nanos| now.saturating_since(since) > SETTLEMENT_WAIT;
            overdue
                .extend(waiting.iter().filter(|(since, _)| is_overdue(*since)).map(|(_, one)| one.token()));
            waiting.retain(|(since, _)| !is_overdue(*since));
        }
        for token in overdue {
            self.finish(token, Outcome::failed(errno::EIO));
        }
    }

    /// What waits for these intents goes on.
    fn go_on_after(&mut self, settled: &[IntentId]) {
        for intent in settled {
            for (_, continued) in self.continued.remove(intent).unwrap_or_default() {
                self.go_on(continued);
            }
        }
    }

    pub(crate) fn go_on(&mut self, continued: Continued) {
        match continued {
            Continued::Execute(token) => self.execute(token),
            Continued::AtOnce(token) => self.serve_at_once(token),
            Continued::Reply(token, outcome, decision) => self.reply_when_settled(token, *outcome, *decision),
            Continued::Publish(token, outcome) => {
                let Some(Request::Write { capability, publication: Some(publication), .. }) =
                    self.pending.get(token).map(|pending| &pending.request)
                else {
                    return;
                };
                let (capability, publication) = (*capability, *publication);
                self.publish(token, capability, publication, *outcome);
            }
        }
    }

    /// Writes changes to the journal and applies them.
    ///
    /// # Errors
    /// What to answer where the journal does not take them: nothing changes then.
    pub(crate) fn record(&mut self, changes: &[Change]) -> Result<(), Errno> {
        self.append(changes)?;
        for change in changes {
            self.namespace.apply(change);
        }
        Ok(())
    }

    /// Journals and applies a decision and starts its effects.
    ///
    /// # Errors
    /// As [`Server::record`].
    pub(crate) fn commit(&mut self, decision: &Decision) -> Result<(), Errno> {
        self.append(&decision.changes)?;
        for effect in self.namespace.commit(decision) {
            self.carry_out(effect);
        }
        Ok(())
    }

    fn append(&mut self, changes: &[Change]) -> Result<(), Errno> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let reserve = self.reserve.as_ref();
        let is_given = || reserve.is_some_and(Reserve::is_given);
        if is_given() && !self.namespace.frees(changes) {
            return Err(errno::ENOSPC);
        }
        let mut appended = journal.append(changes);
        while matches!(&appended, Err(error) if error.is_full())
            && self.namespace.frees(changes)
            && reserve.is_some_and(Reserve::give)
        {
            appended = journal.append(changes);
        }
        let is_full = is_given() || matches!(&appended, Err(error) if error.is_full());
        let was_full = std::mem::replace(&mut self.is_journal_full, is_full);
        match appended {
            Err(error) => {
                // Told once: who fills a disk is refused more often than a log can take. So it is when the journal stops.
                if !(is_full && was_full || matches!(error, JournalError::Stopped)) {
                    notice!("{error}");
                }
                Err(error.errno())
            }
            Ok(_) => Ok(()),
        }
    }

    /// A peer answered, or did not in time.
    pub(crate) fn peer_answered(&mut self, question: u64, answer: peers::Answer) {
        match self.asked.try_remove(question as usize) {
            Some(Asked::Exchange(server)) => self.exchanged(server, answer),
            Some(Asked::Confirm(home, capabilities)) => self.confirmed(home, &capabilities, &answer),
            Some(Asked::ObjectsMade(home, inos)) => self.told(home, inos, &answer),
            Some(Asked::Room(question)) => self.room_answered(question, &answer),
            Some(Asked::Effect(effect)) => match answer {
                Ok(_) => self.effect_done(*effect, Ok(())),
                Err(PeerFailure::Refused(errno)) => self.effect_done(*effect, Err(errno)),
                Err(PeerFailure::Unreachable) => self.carry_out_now(*effect),
            },
            Some(Asked::Request(token, continuation)) => {
                let answer = answer.map(|(reply, _)| reply);
                let verdict = self.namespace.resume(*continuation, answer, self.moment());
                let settled: Vec<IntentId> = match &verdict {
                    Verdict::Done(decision) => decision.settled().collect(),
                    Verdict::Ask(_) | Verdict::Wait(_) => Vec::new(),
                };
                self.follow(token, Ok(verdict), Outcome::of(Reply::Done));
                self.go_on_after(&settled);
            }
            None => {}
        }
    }

    /// Another server's part of an operation on directories.
    pub(crate) fn serve_directory_request(&mut self, token: usize, request: &PeerRequest) {
        let Some(from) = self.pending.get(token).and_then(|pending| self.peer_of(pending.link)) else {
            return self.finish(token, Outcome::failed(errno::EPERM));
        };
        // What is gone comes back with a power loss that its record does not survive: until then no bytes of it are removed.
        let reply = match self.namespace.decide_peer(from, request, self.moment()) {
            Ok(decision) => match self.record(&decision.changes) {
                Ok(()) => Reply::Peer(decision.reply),
                Err(errno) => Reply::Failed(errno),
            },
            Err(errno) => Reply::Failed(errno),
        };
        let is_of_gone =
            matches!(&reply, Reply::Peer(PeerReply::Confirmed { holds }) if holds.contains(&false));
        if is_of_gone && self.journal.is_some() && matches!(request, PeerRequest::ObjectsMade { .. }) {
            return self.defer(Deferred::Word { token, reply: Box::new(reply) }, true);
        }
        self.finish(token, Outcome::of(reply));
    }

    /// Takes back descriptions of a client that connected again.
    pub(crate) fn reclaim(&mut self, token: usize, handles: &[Capability]) -> Reply {
        match self.pending.get(token) {
            Some(pending) => self.namespace.reclaim(&caller(pending), handles),
            None => Reply::Failed(errno::EIO),
        }
    }

    /// Ends the grace period: files without a name that nobody reclaimed go.
    pub(crate) fn expire_orphans(&mut self) {
        while let Some(decision) = self.namespace.expire_orphans() {
            if self.commit(&decision).is_err() {
                return;
            }
        }
    }

    /// Gives up the ends of moves that keep others waiting for too long.
    pub(crate) fn expire_moves(&mut self) {
        let Some(decision) = self.namespace.expire_moves(self.moment()) else { return };
        if self.commit(&decision).is_ok() {
            let settled: Vec<IntentId> = decision.settled().collect();
            self.go_on_after(&settled);
        }
    }

    /// Releases the open files and turns of a client that is gone.
    pub(crate) fn drop_from_namespace(&mut self, client: ClientId) {
        let departure = self.namespace.drop_client(client);
        if self.commit(&departure.decision).is_ok() {
            let settled: Vec<IntentId> = departure.decision.settled().collect();
            self.go_on_after(&settled);
        }
        for (ino, handle) in departure.closed {
            let answers = self.locks.close(ino, handle);
            self.answer_locks(answers);
        }
        for grant in departure.grants {
            self.grant_turn(Some(grant));
        }
    }

    /// Replaces a long journal by a snapshot.
    pub(crate) fn compact_journal(&mut self) {
        let Some(journal) = self.journal.as_mut().filter(|journal| journal.wants_snapshot()) else { return };
        let begun = journal.snapshot_begin().and_then(|writer| {
            let Some(mut writer) = writer else { return Ok(None) };
            for change in self.namespace.snapshot() {
                if let Err(error) = writer.push(&change) {
                    journal.snapshot_abandon(writer);
                    return Err(error);
                }
            }
            Ok(Some(journal.snapshot_seal(writer)))
        });
        match begun {
            Ok(Some(ticket)) => {
                let (sender, receiver) = std::sync::mpsc::sync_channel(1);
                self.submit(Errand::Snapshot(receiver), move || {
                    // The loop holds the receiving side until this errand has come back.
                    let _ = sender.try_send(ticket.run());
                    Ok(WorkOutput::Done)
                });
            }
            Ok(None) => {}
            Err(error) => notice!("{error}"),
        }
    }

    /// A snapshot ended.
    pub(crate) fn journal_compacted(&mut self, end: &SnapshotEnd) {
        if let (Some(journal), Ok(result)) = (&mut self.journal, end.try_recv()) {
            if let Err(error) = journal.snapshot_complete(result) {
                notice!("{error}");
            }
        }
    }

    /// A clean stop leaves nothing unsynced.
    pub(crate) fn close_journal(&mut self) {
        if let Some(Err(error)) = self.journal.as_mut().map(Journal::sync) {
            notice!("{error}");
        }
    }
}
