//! The turn of a request at its device, as its steps need more than the requests.

use super::Server;
use crate::namespace::errno;
use crate::requests::request::{Outcome, Stage, Step, Token};
use crate::requests::service::Next;
use weir_fairshare::Dispatch;
use weir_wire::{Errno, Reply};

impl Server {
    /// Takes up the end of a step: a request that is carried out is answered.
    pub(super) fn end_step(&mut self, step: Step) {
        match step {
            Step::Done(token, outcome) => self.finish(token, outcome),
            Step::Away => {}
        }
    }

    /// Takes the next step of a request.
    pub(super) fn pursue(&mut self, next: Next) {
        match next {
            Next::Wait => {}
            Next::Receive(number) => self.receive(number),
            Next::NoRoom(token) => {
                let may_wait = self.room_may_come();
                let next = self.requests.receive_without_room(token, may_wait, &mut self.links);
                self.pursue(next);
            }
            Next::Execute(token) => {
                let step = self.execute(token);
                self.end_execution(step);
            }
            Next::Conclude(token, outcome) => self.conclude(token, *outcome),
            Next::Refuse(token) => self.fail_unserved(token, errno::EAGAIN),
            Next::Drop(token) => self.reply(token, Outcome::failed(errno::EIO)),
            Next::Fail(token) => self.finish(token, Outcome::failed(errno::EIO)),
            Next::Close(link) => self.close_link(link),
        }
    }

    /// A request waits for its turn at its device no longer in vain: there may be room for it.
    pub(super) fn enqueue(&mut self, token: Token) {
        let next = self.requests.enqueue(token, self.clock.now());
        self.pursue(next);
    }

    /// Bytes came on a link with a request that awaits or receives payload.
    pub(super) fn payload_arrived(&mut self, number: usize) {
        let next = self.requests.payload_arrived(number, &mut self.links, self.clock.now());
        self.pursue(next);
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
        let now = self.clock.now();
        while let Some(number) = self.requests.take_slow_sender(now) {
            let next = self.requests.look_for_payload(number, &mut self.links, now);
            self.pursue(next);
        }
    }

    /// A request has its turn and its slot.
    pub(super) fn start(&mut self, device: usize, dispatch: Dispatch) {
        let Server { requests, targets, accounts, clock, .. } = self;
        let next = requests.start(device, dispatch, targets, accounts, clock);
        self.pursue(next);
    }

    /// Receives the bytes of a detached payload that have arrived. The rest of a payload that goes to its place as it comes is
    /// thrown away, once its request is not to be carried out.
    fn receive(&mut self, number: usize) {
        let Some(token) = self.requests.claim_receiving(number) else { return };
        let before = self.clock.within_step();
        if self.requests[&token].arrival.is_in_place() {
            if let Some(outcome) = self.outcome_of_others(&token) {
                self.requests[&token].discard(outcome.reply, &mut self.targets);
            }
        }
        let Server { requests, links, targets, clock, .. } = self;
        let next = requests.receive(token, before, links, targets, clock);
        self.pursue(next);
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
            return self.conclude(token, Outcome::of(reply));
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
