//! The turn of a request at its device: its payload is awaited, it is queued, it has a slot, its payload is received, and it is
//! carried out.
//!
//! A step is given the links, the memory and the time that it needs, and answers what comes [`Next`].

#[cfg(test)]
mod tests;

use super::arrival::{Look, Sink};
use super::devices::Devices;
use super::request::{Account, InHand, Outcome, Stage, Token};
use super::Requests;
use crate::accounts::Accounts;
use crate::clock::Clock;
use crate::links::Links;
use crate::namespace::errno;
use crate::storage::Target;
use weir_device::Work;
use weir_fairshare::{Dispatch, Nanos};
use weir_wire::{Reply, Request};

/// The next step of a request.
pub(crate) enum Next {
    /// It waits for an event.
    Wait,
    /// Its payload is received, by its number.
    Receive(usize),
    /// The memory of its target has no room for its payload.
    NoRoom(Token),
    /// Its payload is here, and it is carried out now.
    Execute(Token),
    /// It is carried out, its emulated device is done, and it is answered now.
    Conclude(Token, Box<Outcome>),
    /// Its device takes no more requests.
    Refuse(Token),
    /// Its link is gone before it had a slot: it is answered to nobody.
    Drop(Token),
    /// Its link is gone in the midst of its service, which ends.
    Fail(Token),
    /// Its link is to be closed, by the link's number.
    Close(usize),
}

impl Requests {
    /// The devices at which requests have their turns.
    pub(crate) fn devices(&self) -> &Devices {
        &self.devices
    }

    /// The devices, to account, divide and change them.
    pub(crate) fn devices_mut(&mut self) -> &mut Devices {
        &mut self.devices
    }

    /// Takes in the device of one more target. The metadata device has another number from then on.
    pub(crate) fn add_device(&mut self, speed: Option<&crate::config::SpeedConfig>, boot: u64) {
        self.devices.add(speed, boot);
        let metadata = self.devices.metadata();
        self.in_hand.iter_mut().for_each(|(_, request)| request.renumber_metadata(metadata));
    }

    /// Brings a request to its device: it is queued when enough of its payload is here.
    pub(crate) fn bring(
        &mut self,
        token: Token,
        (device, work): (usize, Work),
        links: &mut Links,
        now: Nanos,
    ) -> Next {
        let request = &mut self[&token];
        request.account = Some(Account::new(device, work));
        match request.arrival.is_complete() {
            true => self.enqueue(token, now),
            false => self.await_payload(token, links, now),
        }
    }

    /// Queues a request at its device, for all that is left to do.
    pub(crate) fn enqueue(&mut self, token: Token, now: Nanos) -> Next {
        if !self.devices.enqueue(token.number(), &self.in_hand[token.0], now) {
            return Next::Refuse(token);
        }
        self.park(token, Stage::Queued);
        Next::Wait
    }

    /// Waits for payload: a request is queued when its bytes are there, so that no slot is ever given to a sender that
    /// has sent nothing.
    fn await_payload(&mut self, token: Token, links: &mut Links, now: Nanos) -> Next {
        let number = token.number();
        self[&token].arrival.begin_wait();
        self.park(token, Stage::Awaiting);
        self.look_for_payload(number, links, now)
    }

    /// Queues a request that awaits payload, if enough of that has arrived.
    pub(crate) fn look_for_payload(&mut self, number: usize, links: &mut Links, now: Nanos) -> Next {
        let Some(token) = self.claim_awaiting(number) else { return Next::Wait };
        let request = &mut self.in_hand[number];
        let key = request.sender.link;
        // A link that closes takes its requests along.
        let Some(link) = links.of(key) else { return Next::Drop(token) };
        match request.arrival.look(link.connection().arrived(), now) {
            Look::Enough => {
                request.note_arrived(now);
                self.enqueue(token, now)
            }
            Look::Few { is_first } => {
                self.park(token, Stage::Awaiting);
                if is_first {
                    self.note_slow_sender(number, now);
                }
                match link.connection().has_ended() {
                    true => Next::Close(key.index),
                    false => Next::Wait,
                }
            }
        }
    }

    /// Bytes came on a link with a request that awaits or receives payload.
    pub(crate) fn payload_arrived(&mut self, number: usize, links: &mut Links, now: Nanos) -> Next {
        let request = self.in_hand.get(number).filter(|request| request.is_starved());
        let Some(request) = request else { return Next::Wait };
        match (request.has_slot(), request.is_receiving()) {
            (_, false) => self.look_for_payload(number, links, now),
            (true, true) => Next::Receive(number),
            // A request without a slot takes its turn among the links.
            (false, true) => {
                links.make_ready(request.sender.link.index);
                Next::Wait
            }
        }
    }

    /// A request has its turn and its slot. The place is chosen that the detached payload of a write goes to.
    pub(crate) fn start(
        &mut self,
        device: usize,
        dispatch: Dispatch,
        targets: &mut [Target],
        accounts: &mut Accounts,
        clock: &Clock,
    ) -> Next {
        let number = dispatch.token.0 as usize;
        let Some(token) = self.claim_queued(number) else {
            self.devices.withdraw(device, &dispatch, clock.now());
            return Next::Wait;
        };
        let request = &mut self.in_hand[number];
        let is_begun = request.account.as_ref().is_some_and(Account::is_begun);
        self.devices.begin(request, dispatch, accounts);
        if request.arrival.is_complete() {
            self.park(token, Stage::Ready);
            return self.advance(number, targets, clock);
        }
        request.arrival.begin_receiving(clock.within_step());
        if !is_begun && !open_sink(request, targets) {
            return Next::NoRoom(token);
        }
        self.park(token, Stage::Receiving);
        Next::Receive(number)
    }

    /// Receives the payload of a write for which memory has no room: into a buffer, where it may wait for room, else it is thrown
    /// away.
    pub(crate) fn receive_without_room(&mut self, token: Token, may_wait: bool, links: &mut Links) -> Next {
        let (number, request) = (token.number(), &mut self[&token]);
        match may_wait {
            true => {
                let left = request.arrival.left();
                request.arrival.open_buffer();
                request.hold(left);
                links.hold_memory(request.sender.link.index, request.sender.session_job, left);
            }
            false => request.arrival.open(Sink::Discard { failure: Reply::Failed(errno::ENOSPC) }),
        }
        self.park(token, Stage::Receiving);
        Next::Receive(number)
    }

    /// Receives the bytes of a detached payload that have arrived, since a moment `before`.
    pub(crate) fn receive(
        &mut self,
        token: Token,
        before: Nanos,
        links: &mut Links,
        targets: &mut [Target],
        clock: &Clock,
    ) -> Next {
        let (number, request) = (token.number(), &mut self.in_hand[token.0]);
        let key = request.sender.link;
        let Some(link) = links.of(key) else { return Next::Fail(token) };
        let target = request.device().and_then(|device| targets.get_mut(device));
        let received = request.arrival.receive(link.connection(), target.and_then(Target::memory), before);
        let is_complete = request.arrival.is_complete();
        if let Some(account) = &mut request.account {
            account.spend(clock.within_step().saturating_since(before));
        }
        if received.is_err() {
            self.park(token, Stage::Receiving);
            return Next::Close(key.index);
        }
        self.devices.note_pause(number, request, !is_complete);
        if !is_complete {
            self.park(token, Stage::Receiving);
            return Next::Wait;
        }
        link.end_receiving();
        links.make_ready(key.index);
        self.park(token, Stage::Ready);
        self.advance(number, targets, clock)
    }

    /// Carries a request on as far as it goes: it is executed when its payload is there, and answered when the emulated device is
    /// done. A `dir` target works while its emulated time runs; memory is read and written at the end of it.
    pub(crate) fn advance(&mut self, number: usize, targets: &[Target], clock: &Clock) -> Next {
        let device = self.in_hand.get(number).and_then(InHand::device);
        let target = device.and_then(|device| targets.get(device));
        let runs_ahead = target.and_then(Target::directory).is_some();
        let next = self.claim_due(number, clock.now(), runs_ahead);
        if let Next::Execute(token) = &next {
            if let Some(account) = &mut self[token].account {
                account.begin_execution(clock.within_step());
            }
        }
        next
    }

    /// Claims a request for which its emulated device is done; `runs_ahead` says whether the request is carried out before.
    fn claim_due(&mut self, number: usize, now: Nanos, runs_ahead: bool) -> Next {
        let Some(request) = self.in_hand.get_mut(number) else { return Next::Wait };
        let is_due = request.is_due(now);
        match std::mem::replace(&mut request.stage, Stage::Held) {
            Stage::Ready if is_due || runs_ahead => Next::Execute(Token(number)),
            Stage::Finished(outcome) if is_due => Next::Conclude(Token(number), outcome),
            stage => {
                request.stage = stage;
                Next::Wait
            }
        }
    }

    /// Takes a slot from a sender that has paused while others wait for one; an emulated device finishes its work
    /// first. The rest of the payload is queued again when it arrives. None where no slot is freed.
    pub(crate) fn free_slot(
        &mut self,
        device: usize,
        links: &mut Links,
        accounts: &mut Accounts,
        now: Nanos,
    ) -> Option<Next> {
        let is_done = |&number: &usize| self.in_hand.get(number).is_some_and(|request| request.is_due(now));
        let number = self.devices.idle_slots(device).find(is_done)?;
        let token = self.claim_receiving(number)?;
        match self.interrupt(&token, accounts, now) {
            true => Some(self.await_payload(token, links, now)),
            false => {
                self.park(token, Stage::Receiving);
                None
            }
        }
    }

    /// Takes the slot of a request that cannot go on now; false where it has none.
    pub(crate) fn interrupt(&mut self, token: &Token, accounts: &mut Accounts, now: Nanos) -> bool {
        self.devices.interrupt(&mut self.in_hand[token.0], accounts, now)
    }

    /// Frees the slot of a request, if it has one, and accounts the time that it took.
    pub(crate) fn end_service(&mut self, token: &Token, accounts: &mut Accounts, clock: &Clock) {
        self.devices.complete(&mut self.in_hand[token.0], accounts, clock);
    }

    /// The link of a request is gone: takes the request out of its queue, or lets a step that is under way end unanswered. Answers
    /// the request where it is to be ended now, and whether it is in the midst of its service.
    pub(crate) fn give_up(
        &mut self,
        number: usize,
        targets: &mut [Target],
        now: Nanos,
    ) -> Option<(Token, bool)> {
        let (token, stage) = self.abandon(number)?;
        self[&token].drop_sink(targets);
        if matches!(stage, Stage::Queued) {
            self.devices.cancel(number, &self.in_hand[number], now);
        }
        Some((token, matches!(stage, Stage::Receiving)))
    }
}

/// Chooses the place that the detached payload of a write goes to; false where memory has no room for it.
fn open_sink(request: &mut InHand, targets: &mut [Target]) -> bool {
    let target = request.device().and_then(|device| targets.get_mut(device));
    let sink = match (target.and_then(Target::memory), &request.request) {
        (Some(ram), Request::Write { capability, target, epoch, extents, .. }) => {
            match ram.begin_write(capability.ino.object_on(*target), *epoch, extents) {
                Ok(plan) => Sink::Arena { plan, region: 0, within: 0 },
                Err(failure) => match Outcome::from(failure).reply {
                    Reply::Failed(errno::ENOSPC) => return false,
                    failure => Sink::Discard { failure },
                },
            }
        }
        _ => {
            request.arrival.open_buffer();
            return true;
        }
    };
    request.arrival.open(sink);
    true
}
