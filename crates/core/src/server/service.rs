//! The turn of a request at its device: its payload is awaited, it is queued, it has a slot, its payload is received, and it
//! is carried out.

use super::Server;
use crate::namespace::errno;
use crate::requests::arrival::{Look, Sink};
use crate::requests::request::{Account, Outcome, Stage, Step, Token};
use crate::requests::Due;
use crate::storage::Target;
use weir_device::Work;
use weir_fairshare::Dispatch;
use weir_wire::{Errno, Reply, Request};

impl Server {
    /// Takes up the end of a step: a request that is carried out is answered.
    pub(super) fn end_step(&mut self, step: Step) {
        match step {
            Step::Done(token, outcome) => self.finish(token, outcome),
            Step::Away => {}
        }
    }

    /// Brings a request to its device: it is queued when enough of its payload is here.
    pub(super) fn bring_to_device(&mut self, token: Token, device: usize, work: Work) {
        let request = &mut self.requests[&token];
        request.account = Some(Account::new(device, work));
        if request.arrival.is_complete() {
            return self.enqueue(token);
        }
        self.await_payload(token);
    }

    /// Queues a request at its device, for all that is left to do.
    pub(super) fn enqueue(&mut self, token: Token) {
        if self.devices.enqueue(token.number(), &self.requests[&token], self.clock.now()) {
            self.requests.park(token, Stage::Queued);
        } else {
            self.answer_unserved(token, Reply::Failed(errno::EAGAIN));
        }
    }

    /// Waits for payload: a request is queued when its bytes are there, so that no slot is ever given to a sender that
    /// has sent nothing.
    fn await_payload(&mut self, token: Token) {
        let number = token.number();
        self.requests[&token].arrival.begin_wait();
        self.requests.park(token, Stage::Awaiting);
        self.look_for_payload(number);
    }

    /// Queues a request that awaits payload, if enough of that has arrived.
    pub(super) fn look_for_payload(&mut self, number: usize) {
        let now = self.clock.now();
        let Some(token) = self.requests.claim_awaiting(number) else { return };
        let request = &mut self.requests[&token];
        let index = request.sender.link.index;
        let Some(link) = self.links.of(request.sender.link) else {
            // A link that closes takes its requests along.
            return self.reply(token, Outcome::failed(errno::EIO));
        };
        match request.arrival.look(link.connection().arrived(), now) {
            Look::Enough => {
                request.note_arrived(now);
                self.enqueue(token);
            }
            Look::Few { is_first } => {
                let has_ended = link.connection().has_ended();
                self.requests.park(token, Stage::Awaiting);
                if is_first {
                    self.requests.note_slow_sender(number, now);
                }
                if has_ended {
                    self.close_link(index);
                }
            }
        }
    }

    /// Bytes came on a link with a request that awaits or receives payload.
    pub(super) fn payload_arrived(&mut self, number: usize) {
        let Some(request) = self.requests.get(number) else { return };
        if !request.is_starved() {
            return;
        }
        match (request.has_slot(), request.is_receiving()) {
            (_, false) => self.look_for_payload(number),
            (true, true) => self.receive(number),
            // A request without a slot takes its turn among the links.
            (false, true) => {
                let index = request.sender.link.index;
                self.links.make_ready(index);
            }
        }
    }

    /// Receives payload that needs no slot: it is thrown away, or comes from another server.
    pub(super) fn receive_unqueued(&mut self, number: usize) {
        let is_unqueued = self.requests.get(number).is_some_and(|request| !request.has_slot());
        if is_unqueued {
            self.receive(number);
        }
    }

    /// Queues requests of slow senders with the bytes that have arrived.
    pub(crate) fn queue_slow_senders(&mut self) {
        while let Some(number) = self.requests.take_slow_sender(self.clock.now()) {
            self.look_for_payload(number);
        }
    }

    /// Takes a slot from a sender that has paused while others wait for one; an emulated device finishes its work
    /// first. The rest of the payload is queued again when it arrives.
    pub(super) fn free_slot(&mut self, device: usize) -> bool {
        let now = self.clock.now();
        let is_done = |&number: &usize| self.requests.get(number).is_some_and(|request| request.is_due(now));
        let Some(number) = self.devices.idle_slots(device).find(is_done) else { return false };
        let Some(token) = self.requests.claim_receiving(number) else { return false };
        let is_free = self.devices.interrupt(&mut self.requests[&token], &mut self.accounts, now);
        match is_free {
            true => self.await_payload(token),
            false => self.requests.park(token, Stage::Receiving),
        }
        is_free
    }

    /// A request has its turn and its slot.
    pub(super) fn start(&mut self, device: usize, dispatch: Dispatch) {
        let number = dispatch.token.0 as usize;
        let Some(token) = self.requests.claim_queued(number) else {
            return self.devices.withdraw(device, &dispatch, self.clock.now());
        };
        let request = &mut self.requests[&token];
        let is_begun = request.account.as_ref().is_some_and(Account::is_begun);
        self.devices.begin(request, dispatch, &mut self.accounts);
        if request.arrival.is_complete() {
            self.requests.park(token, Stage::Ready);
            return self.advance(number);
        }
        request.arrival.begin_receiving(self.clock.within_step());
        if !is_begun {
            self.open_sink(&token);
        }
        self.requests.park(token, Stage::Receiving);
        self.receive(number);
    }

    /// Chooses the place that the detached payload of a write goes to. A payload that memory has no room for goes into a
    /// buffer, if it may wait for room.
    fn open_sink(&mut self, token: &Token) {
        let request = &mut self.requests[token];
        let target = request.device().and_then(|device| self.targets.get_mut(device));
        let sink = match (target.and_then(Target::memory), &request.request) {
            (Some(ram), Request::Write { capability, target, epoch, extents, .. }) => {
                match ram.begin_write(capability.ino.object_on(*target), *epoch, extents) {
                    Ok(plan) => Sink::Arena { plan, region: 0, within: 0 },
                    Err(failure) => Sink::Discard { failure: Outcome::from(failure).reply },
                }
            }
            _ => return request.arrival.open_buffer(),
        };
        let is_full = matches!(&sink, Sink::Discard { failure: Reply::Failed(errno::ENOSPC) });
        if !is_full || !self.room_may_come() {
            return self.requests[token].arrival.open(sink);
        }
        let request = &mut self.requests[token];
        let left = request.arrival.left();
        request.arrival.open_buffer();
        request.hold(left);
        self.links.hold_memory(request.sender.link.index, request.sender.session_job, left);
    }

    /// Receives the bytes of a detached payload that have arrived.
    pub(super) fn receive(&mut self, number: usize) {
        let Some(token) = self.requests.claim_receiving(number) else { return };
        let before = self.clock.within_step();
        self.discard_if_too_late(&token);
        let request = &mut self.requests[&token];
        let index = request.sender.link.index;
        let Some(link) = self.links.of(request.sender.link) else {
            return self.finish(token, Outcome::failed(errno::EIO));
        };
        let target = request.device().and_then(|device| self.targets.get_mut(device));
        let received = request.arrival.receive(link.connection(), target.and_then(Target::memory), before);
        let is_complete = request.arrival.is_complete();
        if let Some(account) = &mut request.account {
            account.spend(self.clock.within_step().saturating_since(before));
        }
        if received.is_err() {
            self.requests.park(token, Stage::Receiving);
            return self.close_link(index);
        }
        self.devices.note_pause(number, request, !is_complete);
        if !is_complete {
            return self.requests.park(token, Stage::Receiving);
        }
        link.end_receiving();
        self.links.make_ready(index);
        self.requests.park(token, Stage::Ready);
        self.advance(number);
    }

    /// Throws the rest of a payload away that goes to its place as it comes, once its request is not to be carried out.
    fn discard_if_too_late(&mut self, token: &Token) {
        if !self.requests[token].arrival.is_in_place() {
            return;
        }
        if let Some(outcome) = self.outcome_of_others(token) {
            self.requests[token].discard(outcome.reply, &mut self.targets);
        }
    }

    /// Carries a request on as far as it goes: executes it when its payload is there, answers it when the emulated device is
    /// done. A `dir` target works while its emulated time runs; memory is read and written at the end of it.
    pub(super) fn advance(&mut self, number: usize) {
        let device = self.requests.get(number).and_then(|request| request.device());
        let target = device.and_then(|device| self.targets.get(device));
        let runs_ahead = target.and_then(Target::directory).is_some();
        match self.requests.claim_due(number, self.clock.now(), runs_ahead) {
            Some(Due::Execute(token)) => {
                if let Some(account) = &mut self.requests[&token].account {
                    account.begin_execution(self.clock.within_step());
                }
                let step = self.execute(token);
                self.end_execution(step);
            }
            Some(Due::Conclude(token, outcome)) => self.conclude(token, *outcome),
            None => {}
        }
    }

    /// Counts the time of an execution, and takes up its end.
    fn end_execution(&mut self, step: Step) {
        if let Step::Done(token, _) = &step {
            if let Some(account) = &mut self.requests[token].account {
                account.end_execution(self.clock.within_step());
            }
        }
        self.end_step(step);
    }

    /// As [`Server::answer_unserved`], with a failure.
    pub(super) fn fail_unserved(&mut self, token: Token, errno: Errno) {
        self.answer_unserved(token, Reply::Failed(errno));
    }

    /// Answers a request that was never served; a detached payload is read and thrown away first.
    pub(super) fn answer_unserved(&mut self, token: Token, reply: Reply) {
        let request = &mut self.requests[&token];
        request.discard(reply.clone(), &mut self.targets);
        if request.arrival.is_complete() {
            return self.reply(token, Outcome::of(reply));
        }
        self.receive_now(token);
    }

    /// Another server knows many jobs: its report is received before it is taken.
    pub(super) fn receive_report(&mut self, token: Token) {
        self.requests[&token].arrival.open_buffer();
        self.receive_now(token);
    }

    fn receive_now(&mut self, token: Token) {
        let number = token.number();
        self.requests.park(token, Stage::Receiving);
        self.receive(number);
    }
}
