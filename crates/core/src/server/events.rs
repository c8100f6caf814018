//! Events from other threads, and everything that is due at a moment.

use super::waiting::HELD_LOOK;
use super::Server;
use crate::control::question::Question;
use crate::errands::Errand;
use crate::events::{Event, Worked};
use crate::membership::{Asker, Wanted};
use crate::namespace::PeerFailure;
use crate::notices::warning;
use crate::peers::line::Answer;
use crate::peers::Asked;
use crate::requests::order::Begun;
use crate::storage::{Target, TargetFailure, TargetOutput, TargetWork, PAGE_BYTES};
use crate::work::WorkOutput;
use weir_fairshare::Nanos;

/// Bytes of memory that a target asks for ahead in each interval of expiry, while nothing is written.
const AHEAD_PER_INTERVAL: u64 = 32 << 20;

impl Server {
    /// Begins a turn of the loop. What has arrived is told between this and [`Server::end_turn`].
    pub fn begin_turn(&mut self) {
        self.read_clock();
        self.observe();
    }

    /// Ends a turn of the loop: links are read, devices served, and replies sent.
    pub fn end_turn(&mut self) {
        self.read_links();
        self.queue_slow_senders();
        self.serve_devices();
        self.tick();
        self.go_on_with_snapshot();
        self.tell_of_names();
        self.show();
        self.flush_links();
    }

    /// Takes up an event from another thread.
    pub fn handle_event(&mut self, event: Event) {
        match event {
            Event::Worked(worked) => self.worked(worked),
            Event::Peer { question, answer } => self.peer_answered(question, answer),
            Event::Control(question) => self.answer_question(question),
            Event::Stop => {}
        }
        self.take_on_woken();
    }

    /// Whether the next turn of the loop has something to do even if nothing arrives.
    pub fn has_work(&self) -> bool {
        self.links.has_work()
            || self.requests.devices().is_unserved()
            || self.requests.has_woken()
            || self.showing.is_copying()
            || self.durability.is_showing()
    }

    /// The next moment at which something has to be done even if nothing arrives.
    pub fn next_deadline(&self) -> Nanos {
        let due = self.showing.due().chain(self.durability.due()).chain(self.requests.next_slow_sender());
        let due = self.requests.devices().deadlines().chain(due);
        let mut deadline = due.fold(self.clock.next_expiry(), Nanos::min);
        if self.is_exchanging() {
            deadline = deadline.min(self.exchange.next());
        }
        let is_looking = self.requests.pages_here().has_held() || self.requests.awaits_vacancy();
        if is_looking || self.links.is_short_of_memory() {
            deadline = deadline.min(self.clock.now() + HELD_LOOK);
        }
        deadline
    }

    /// An idle single server needs no interval; with peers the exchange is also the sign of life.
    fn is_exchanging(&self) -> bool {
        self.membership.config().servers.len() > 1
            || self.requests.len() > 0
            || self.requests.devices().was_busy()
    }

    /// Does everything that is due.
    pub(crate) fn tick(&mut self) {
        let now = self.clock.now();
        self.exchange_if_due();
        if self.requests.pages_here().has_held() {
            self.requests.release_pages(self.clock.now());
        }
        self.links.retry_held_back(now);
        self.ask_for_vacancy();
        self.sync_if_due();
        self.take_up_held_back();
        if self.clock.take_expiry() {
            self.expire(now);
        }
        if self.take_on_woken() {
            // These requests may stand in the queues of devices, which have had their turn.
            self.requests.devices_mut().leave_unserved();
        }
    }

    fn expire(&mut self, now: Nanos) {
        let effects = self.membership.end_lease_if_due(now);
        self.put_in_force(effects);
        self.expire_clients();
        self.requests.expire_continued(now);
        self.expire_turns();
        self.expire_moves();
        self.repeat_effects();
        self.remove_leftovers();
        self.expire_senders();
        self.expire_holders();
        self.peers.confirmations().expire(now);
        self.requests.pages().recalls().expire(now);
        self.end_unpublished();
        for token in self.overdue_unsettled() {
            self.route(token);
        }
        let kept = Nanos::from(self.membership.config().finished_jobs_kept);
        // A request may be in hand for longer than a finished job is kept, and its job is not finished.
        for account in self.requests.iter().filter_map(|request| request.sender.acting.account.as_ref()) {
            self.accounts.jobs().meet_again(account, now);
        }
        for job in self.accounts.jobs().expire(now, kept) {
            self.requests.devices_mut().remove_job(job, now);
            self.links.visits().remove_job(job, now);
        }
        for key in self.links.admission().overdue(now) {
            self.close_link(key.index);
        }
        self.notices.end_intervals(now);
        self.expire_grace();
        self.write_journal_anew();
        self.refill_journal();
        self.expire_roomless();
        self.expire_unplaced();
        self.ask_memory_ahead();
        self.sync_mark();
        self.heed_home();
    }

    /// Has targets in memory ready for a burst, a little at a time: a store that soon ends has asked for little.
    fn ask_memory_ahead(&mut self) {
        for memory in self.targets.iter_mut().filter_map(Target::memory) {
            memory.ask_ahead(AHEAD_PER_INTERVAL / PAGE_BYTES);
        }
    }

    /// A worker is done.
    fn worked(&mut self, worked: Worked) {
        let Some((errand, begun)) = self.errands.end(worked.number) else { return };
        match (errand, worked.output) {
            (errand, WorkOutput::OnTarget(seen, outcome)) => {
                let now = self.clock.now();
                let outcome = match self.targets.get_mut(seen.target()) {
                    Some(target) => target.end(seen, outcome, now),
                    None => outcome,
                };
                self.worked_on_target((errand, begun.as_ref()), outcome, worked.service);
            }
            (errand, WorkOutput::WithoutDescriptor(mut work)) => {
                if let Some(directory) = self.targets.get_mut(work.target()).and_then(Target::directory_mut) {
                    directory.begin_again(&mut work);
                }
                return self.errands.submit_begun(errand, begun, *work);
            }
            (Errand::Settings, WorkOutput::Settings(result)) => self.settings_kept(result),
            (Errand::Opening, WorkOutput::Opened(result)) => self.target_opened(*result),
            (Errand::Refill(of), WorkOutput::Refilled(refilled)) => self.refilled(of, refilled),
            (Errand::Slice, WorkOutput::Slice(written)) => {
                self.durability.end_slice(written, &mut self.namespace);
                self.tell_of_names();
            }
            (Errand::Snapshot, WorkOutput::Snapshot(result)) => self.durability.end_snapshot(result),
            (Errand::Names, WorkOutput::Names(begun)) => {
                self.durability.names_begun(*begun, &mut self.namespace);
                self.tell_of_names();
            }
            (Errand::Departure, WorkOutput::Snapshot(result)) => {
                self.durability.names_written(result);
                self.tell_of_names();
            }
            (Errand::Renewal, WorkOutput::Snapshot(result)) => {
                let works = self.durability.end_renewal(result);
                if works {
                    self.sync_again();
                }
            }
            (Errand::Sync(waiting), WorkOutput::Synced(ticket, synced)) => {
                if let Some(waiting) = self.end_sync(waiting, *ticket, synced) {
                    self.carry_out_durable(waiting);
                }
                self.sync_again();
            }
            // Each other piece of work has its own output, and a mark has nothing to say.
            _ => {}
        }
        // Another change of the same bytes begins when the end of this one is noted.
        begun.into_iter().for_each(|begun| self.leave_object(begun));
    }

    /// A worker is done with work on a target, whose end the target has taken up.
    fn worked_on_target(
        &mut self,
        (errand, begun): (Errand, Option<&Begun>),
        outcome: Result<TargetOutput, TargetFailure>,
        service: Nanos,
    ) {
        match (errand, outcome) {
            (errand, Ok(TargetOutput::Unsynced { with_epoch })) => {
                if let Some(begun) = begun {
                    let work = TargetWork::SyncCut { with_epoch };
                    self.errands.submit_beside(errand, begun.place(), work, &mut self.targets);
                }
            }
            (Errand::Request(token), outcome) => {
                let step = self.request_worked(token, outcome, service);
                self.end_step(step);
            }
            (Errand::ObjectSync(token, dispatch), outcome) => {
                let step = self.object_synced(token, &dispatch, outcome, service);
                self.end_step(step);
            }
            (Errand::PeerObject(token), outcome) => {
                let step = self.object_effect_served(token, outcome.map(|_| ()));
                self.end_step(step);
            }
            (Errand::Effect(effect), outcome) => self.effect_worked(*effect, outcome),
            (Errand::Stray(ino), Err(failure)) => {
                warning!("object {ino}, which no file needs, stays: errno {}", failure.errno().0);
            }
            (Errand::Listing(target), outcome) => self.listed(target, outcome),
            (Errand::Discard, outcome) => self.discarded(outcome),
            _ => {}
        }
    }

    /// A peer answered, or did not in time.
    fn peer_answered(&mut self, question: u64, answer: Answer) {
        match self.peers.take_asked(question) {
            Some(Asked::Exchange(server)) => self.exchanged(server, answer),
            Some(Asked::Confirm(home, capabilities)) => {
                for (token, word) in self.confirmed(home, &capabilities, &answer) {
                    match word {
                        Ok(()) => self.route(token),
                        Err(reply) => self.answer_unserved(token, reply),
                    }
                }
            }
            Some(Asked::ObjectsHeld(home, news)) => {
                for token in self.told(home, &news, &answer) {
                    self.route(token);
                }
            }
            Some(Asked::Room(question)) => self.room_answered(question, &answer),
            Some(Asked::Vacancy(question)) => self.vacancy_answered(question, &answer),
            Some(Asked::Effect(effect)) => match answer {
                Ok(_) => self.effect_done(*effect, Ok(())),
                Err(PeerFailure::Refused(errno)) => self.effect_done(*effect, Err(errno)),
                Err(PeerFailure::Unreachable) => self.carry_out_now(*effect),
            },
            Some(Asked::Request(token, continuation)) => {
                let step = self.resume(token, *continuation, answer);
                self.end_step(step);
            }
            None => {}
        }
    }

    /// Answers the control API.
    fn answer_question(&mut self, question: Question) {
        match question {
            Question::Show(shown) => self.showing.ask(shown),
            Question::SetPolicy(policy, algorithm, answer) => {
                self.change(Wanted::Sharing(policy, algorithm), Asker::OfSharing(answer));
            }
            Question::Lease(answer) => _ = answer.try_send(self.membership.lease_told(self.clock.now())),
            Question::SetLease(wanted, answer) => _ = answer.try_send(self.set_lease(*wanted)),
            Question::SetAllocator(name, answer) => {
                self.change(Wanted::Allocator(name), Asker::Of(answer));
            }
            Question::SetServerState(server, state, answer) => {
                self.change(Wanted::ServerState(server, state), Asker::Of(answer));
            }
            Question::KeepNames(server, answer) => self.keep_names(server, answer),
            Question::AddServer(server, config, answer) => {
                self.change(Wanted::Server(server, config), Asker::Of(answer));
            }
            Question::AddTarget(target, config, answer) => {
                self.change(Wanted::Target(target, config), Asker::Of(answer));
            }
            Question::SetTargetState(target, state, answer) => {
                self.change(Wanted::TargetState(target, state), Asker::Of(answer));
            }
            Question::Objects(answer) => _ = answer.try_send(self.listed_objects()),
            Question::Files(part, answer) => {
                let _ = answer.try_send(self.namespace.inventoried(|ino| part.has(ino)));
            }
            Question::FileEntries(inos, answer) => {
                let _ = answer.try_send(self.namespace.file_entries(&inos));
            }
            Question::Numbers(part, answer) => {
                let _ = answer.try_send(self.namespace.files().numbers(|ino| part.has(ino)));
            }
            Question::Examine(inos, after, answer) => {
                let _ = answer.try_send(self.namespace.names().examine(&inos, after));
            }
            Question::Positions(inos, answer) => _ = answer.try_send(self.namespace.names().positions(&inos)),
            Question::Entries(questions, answer) => {
                let _ = answer.try_send(self.namespace.names().entries(&questions));
            }
            Question::BeginRecount(answer) => _ = answer.try_send(self.namespace.files_mut().begin_recount()),
            Question::GoOnRecount(id, inos, answer) => {
                let _ = answer.try_send(self.namespace.files_mut().go_on_recount(id, &inos));
            }
            Question::EndRecount(id, answer) => {
                _ = answer.try_send(self.namespace.files_mut().end_recount(id))
            }
            Question::Mend(order, answer) => _ = answer.try_send(self.mend(&order)),
            Question::Places(inos, answer) => _ = answer.try_send(self.namespace.names().places(&inos)),
            Question::Quotas(answer) => _ = answer.try_send(self.quotas()),
            Question::Windows(after, answer) => _ = answer.try_send(self.observed(after)),
            Question::SetQuota(owner, limits, answer) => {
                self.change(Wanted::Quota(owner, limits), Asker::Of(answer));
            }
            Question::SetSpeed(target, speed, answer) => {
                let _ = answer.try_send(self.set_speed(target, speed));
            }
        }
    }
}
