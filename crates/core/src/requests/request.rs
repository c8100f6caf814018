//! A request in hand: its sender, its message, and the stage that it has reached.

use super::arrival::{Arrival, Sink};
use crate::links::connection::{Frame, Tail};
use crate::links::link::{Acting, LinkKey};
use crate::namespace::{errno, Caller};
use crate::storage::{Target, TargetFailure};
use crate::unpublished::Charge;
use std::rc::Rc;
use weir_device::{Device, Work};
use weir_fairshare::{Dispatch, Nanos};
use weir_wire::{ClientId, Errno, Header, Ino, JobId, Reply, Request, RequestId};

/// The right to take a request to its next stage.
///
/// Each request in hand has one. The step or the list that has the token has the request, so two steps cannot answer one
/// request, and a step without the token cannot be written. [`super::Requests`] makes and takes back all tokens.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Token(pub(super) usize);

impl Token {
    /// The number of the request, for lists that name it without having it.
    pub(crate) fn number(&self) -> usize {
        self.0
    }
}

/// The sender of a request.
pub(crate) struct Sender {
    pub(crate) link: LinkKey,
    pub(crate) client: ClientId,
    pub(crate) acting: Rc<Acting>,
    /// The connection's own job, which the memory of the request is charged to.
    pub(crate) session_job: JobId,
}

/// A request in hand.
pub(crate) struct InHand {
    pub(crate) sender: Sender,
    pub(crate) header: Header,
    pub(crate) request: Request,
    pub(crate) payload: Vec<u8>,
    /// The payload that is still in the socket.
    pub(crate) arrival: Arrival,
    /// The account with the device that serves the request; none before a device is chosen, and for a request that never
    /// waits behind others.
    pub(crate) account: Option<Account>,
    /// Memory of the server that the request takes.
    held_bytes: usize,
    arrived: Nanos,
    pub(super) stage: Stage,
    /// The request is in the list of requests with payload that is awaited or received.
    pub(super) is_listed: bool,
    /// The moment since which the request waits for room on its target.
    roomless_since: Option<Nanos>,
    /// The times that room had been given when a worker took the request on, as [`Room`](super::room::Room) counts them.
    given_before: Option<u64>,
    /// Nobody is about to give the request room: it is refused if it finds none now.
    is_last_try: bool,
    /// The charge for bytes behind the paid end of an object; absent until the request was looked at.
    charge: Option<Option<Charge>>,
    /// The write may have left bytes, so that its charge stays.
    keeps_charge: bool,
    /// The homes have said which bytes of its user are paid for: it is refused if it is over a limit still.
    is_settled: bool,
    /// The link is gone: the request goes on to its end without an answer.
    pub(super) is_abandoned: bool,
}

/// The stage of a request.
pub(crate) enum Stage {
    /// A step, a worker, a peer or another client has the token.
    Held,
    /// The home of its file is asked about its capability.
    Unconfirmed,
    /// It waits for payload in its socket: it is not queued, and has no slot.
    Awaiting,
    /// It waits for its turn at its device.
    Queued,
    /// Its payload is received.
    Receiving,
    /// Its payload is here; the emulated device is not done yet.
    Ready,
    /// It is carried out; the emulated device is not done yet.
    Finished(Box<Outcome>),
}

/// The account of a request with its device.
pub(crate) struct Account {
    device: usize,
    work: Work,
    dispatch: Option<Dispatch>,
    /// The moment at which the emulated device is done.
    finish: Option<Nanos>,
    /// Time that the device really worked on the request since it was dispatched.
    spent: Nanos,
    /// The moment since which the request is carried out; that time is not in `spent` yet.
    executing: Option<Nanos>,
    /// The charge for parts that were served before the sender paused.
    charged: Option<Nanos>,
}

/// The answer to a request that is carried out.
pub(crate) struct Outcome {
    pub(crate) reply: Reply,
    pub(crate) payload: Vec<u8>,
    pub(crate) tail: Option<Tail>,
    /// Kernel pages that other mounts drop before the reply is sent.
    pub(crate) drops: Drops,
}

/// Kernel pages that a reply waits for: each watcher, the file, and the sequence of the change.
pub(crate) type Drops = Vec<(ClientId, Ino, u64)>;

/// The result of one step of a request.
#[must_use]
#[expect(
    clippy::large_enum_variant,
    reason = "most steps end with an outcome, and a box would be an allocation for each"
)]
pub(crate) enum Step {
    /// The request is carried out.
    Done(Token, Outcome),
    /// A worker, a peer or a list has the token now, and brings it back.
    Away,
}

impl InHand {
    /// A request that was just read.
    pub(crate) fn new(
        sender: Sender,
        held_bytes: usize,
        frame: Frame,
        request: Request,
        now: Nanos,
    ) -> InHand {
        InHand {
            sender,
            header: frame.header,
            request,
            payload: frame.payload,
            arrival: Arrival::new(frame.detached_bytes, now),
            account: None,
            held_bytes,
            arrived: now,
            stage: Stage::Held,
            is_listed: false,
            roomless_since: None,
            given_before: None,
            is_last_try: false,
            charge: None,
            keeps_charge: false,
            is_settled: false,
            is_abandoned: false,
        }
    }

    /// The namespace's view of the sender.
    pub(crate) fn caller(&self) -> Caller<'_> {
        Caller {
            client: self.sender.client,
            request: self.header.request,
            acknowledged: self.header.acknowledged,
            who: &self.sender.acting.who,
            job: self.sender.acting.job,
            trusted: self.sender.acting.trusted,
        }
    }

    /// The client and the number of the request, which a resend of it has in common with it.
    pub(crate) fn key(&self) -> (ClientId, RequestId) {
        (self.sender.client, self.header.request)
    }

    /// The device that serves the request; none for a request that never waits behind others.
    pub(crate) fn device(&self) -> Option<usize> {
        self.account.as_ref().map(|account| account.device)
    }

    /// The number of the metadata device grew to this one.
    pub(crate) fn renumber_metadata(&mut self, metadata: usize) {
        if let Some(account) = self.account.as_mut().filter(|account| account.device + 1 == metadata) {
            account.device = metadata;
        }
    }

    /// Whether the request has a slot of its device.
    pub(crate) fn has_slot(&self) -> bool {
        self.account.as_ref().is_some_and(|account| account.dispatch.is_some())
    }

    /// Whether the emulated device, if there is one, is done with the request.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.account.as_ref().and_then(|account| account.finish).is_none_or(|finish| finish <= now)
    }

    /// Whether the link of the request is gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    /// The moment at which the request, with enough of its payload, was there.
    pub(crate) fn arrived(&self) -> Nanos {
        self.arrived
    }

    /// Whether the request waits for payload that its sender does not send.
    pub(crate) fn is_starved(&self) -> bool {
        matches!(self.stage, Stage::Awaiting | Stage::Receiving)
    }

    /// Whether the request receives payload.
    pub(crate) fn is_receiving(&self) -> bool {
        matches!(self.stage, Stage::Receiving)
    }

    /// Frees the memory of a target that was to take the rest of the payload.
    pub(crate) fn drop_sink(&mut self, targets: &mut [Target]) {
        let target = self.device().and_then(|device| targets.get_mut(device));
        self.arrival.abandon(target.and_then(Target::memory));
    }

    /// Throws the rest of the payload away. The request is answered with `failure` once all of that has come.
    pub(crate) fn discard(&mut self, failure: Reply, targets: &mut [Target]) {
        self.drop_sink(targets);
        self.arrival.open(Sink::Discard { failure });
    }

    /// Counts more memory for the request than it was read with.
    pub(crate) fn hold(&mut self, bytes: usize) {
        self.held_bytes += bytes;
    }

    /// Memory of the server that the request takes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Enough of the payload is here: the time before is the sender's own.
    pub(crate) fn note_arrived(&mut self, now: Nanos) {
        self.arrived = now;
    }

    /// The request tries for room once more, and is refused if it finds none.
    pub(crate) fn try_last(&mut self) {
        self.is_last_try = true;
    }

    /// Notes the charge for the bytes of a write, which is none where they are paid for.
    pub(crate) fn charge(&mut self, charge: Option<Charge>) {
        self.charge = Some(charge);
    }

    /// Whether the bytes of the write were looked at.
    pub(crate) fn is_charged(&self) -> bool {
        self.charge.is_some()
    }

    /// The charge for the bytes of the write.
    pub(crate) fn charged(&self) -> Option<Charge> {
        self.charge.flatten()
    }

    /// The write may have left bytes.
    pub(crate) fn keep_charge(&mut self) {
        self.keeps_charge = true;
    }

    /// The charge of a write that left no bytes.
    pub(crate) fn charge_to_take_back(&self) -> Option<Charge> {
        self.charged().filter(|_| !self.keeps_charge)
    }

    /// The homes are asked which bytes of the request's user are paid for, once.
    pub(crate) fn note_settled(&mut self) {
        self.is_settled = true;
    }

    /// Whether the homes were asked.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// The device that serves the request now, the work, and how long the device has been at it. The part of a worker counts
    /// when it is done, because it may wait for a worker before.
    pub(crate) fn in_service(&self, devices: &[Device], now: Nanos) -> Option<(usize, Work, Nanos)> {
        let account = self.account.as_ref().filter(|account| account.dispatch.is_some())?;
        let service = match account.finish {
            Some(finish) => devices.get(account.device)?.served_of(account.work, finish, now),
            None => account.spent,
        };
        Some((account.device, account.work, service))
    }

    /// A worker takes the request on, and room was given this many times before.
    pub(crate) fn note_try(&mut self, given: u64) {
        self.given_before = Some(given);
    }

    /// Whether room was given while the worker had the request, so that it may find some now.
    pub(crate) fn is_room_new(&mut self, given: u64) -> bool {
        self.given_before.take().is_some_and(|before| before != given)
    }

    /// Counts the request as waiting for room since `now`, or since an earlier moment. Returns that moment, or none where
    /// the request does not wait any longer.
    pub(crate) fn want_room(&mut self, now: Nanos, wait: Nanos) -> Option<Nanos> {
        let since = *self.roomless_since.get_or_insert(now);
        (now.saturating_since(since) <= wait).then_some(since)
    }

    /// Whether the request is refused if it finds no room now.
    pub(crate) fn is_last_try(&self) -> bool {
        self.is_last_try
    }
}

impl Account {
    /// An account for `work` at `device`, with nothing on it.
    pub(crate) fn new(device: usize, work: Work) -> Account {
        Account {
            device,
            work,
            dispatch: None,
            finish: None,
            spent: Nanos::ZERO,
            executing: None,
            charged: None,
        }
    }

    /// The number of the device.
    pub(crate) fn device(&self) -> usize {
        self.device
    }

    /// The work of the whole request.
    pub(crate) fn work(&self) -> Work {
        self.work
    }

    /// Whether a part of the request was served and charged before.
    pub(crate) fn is_begun(&self) -> bool {
        self.charged.is_some()
    }

    /// The request has a slot from now on; an emulated device says when it is done with the whole request.
    pub(crate) fn begin(&mut self, dispatch: Dispatch, device: &mut Device, arrived: Nanos) {
        self.dispatch = Some(dispatch);
        if self.charged.is_none() {
            self.finish = device.emulate(&dispatch, self.work, arrived);
        }
    }

    /// The request is carried out from now on.
    pub(crate) fn begin_execution(&mut self, now: Nanos) {
        self.executing = Some(now);
    }

    /// Counts the time since the request began to be carried out.
    pub(crate) fn end_execution(&mut self, now: Nanos) {
        if let Some(since) = self.executing.take() {
            self.spent = self.spent + now.saturating_since(since);
        }
    }

    /// A worker carries the request out, and says itself how long that took.
    pub(crate) fn hand_to_worker(&mut self) {
        self.executing = None;
    }

    /// Counts time that the device worked on the request.
    pub(crate) fn spend(&mut self, time: Nanos) {
        self.spent = self.spent + time;
    }

    /// Gives up the slot before the request is served; answers the charge, or none where the request had no slot.
    pub(super) fn interrupt(&mut self, device: &mut Device, now: Nanos) -> Option<Nanos> {
        let dispatch = self.dispatch.take()?;
        let service = std::mem::replace(&mut self.spent, Nanos::ZERO);
        let spent = device.interrupt(&dispatch, self.work, (service, self.charged), now);
        self.charged = Some(self.charged.unwrap_or(Nanos::ZERO) + spent);
        Some(spent)
    }

    /// Gives up the slot of a served request; answers the charge, or none where the request had no slot.
    pub(super) fn complete(&mut self, device: &mut Device, now: Nanos, ended: Nanos) -> Option<Nanos> {
        let dispatch = self.dispatch.take()?;
        self.end_execution(ended);
        Some(device.complete(&dispatch, self.work, (self.spent, self.charged), now))
    }
}

impl Outcome {
    /// Only a reply.
    pub(crate) fn of(reply: Reply) -> Outcome {
        Outcome { reply, payload: Vec::new(), tail: None, drops: Drops::new() }
    }

    /// The bytes of a read.
    pub(crate) fn of_bytes(bytes: Vec<u8>) -> Outcome {
        Outcome { tail: Some(Tail::Bytes(bytes)), ..Outcome::of(Reply::Data { size: None }) }
    }

    /// A failure.
    pub(crate) fn failed(errno: Errno) -> Outcome {
        Outcome::of(Reply::Failed(errno))
    }

    /// Whether the target had no room.
    pub(crate) fn is_full(&self) -> bool {
        self.reply == Reply::Failed(errno::ENOSPC)
    }
}

impl From<TargetFailure> for Outcome {
    fn from(failure: TargetFailure) -> Outcome {
        match failure {
            TargetFailure::Stale(stale) => Outcome::of(Reply::StaleEpoch { epoch: stale.0 }),
            other => Outcome::failed(other.errno()),
        }
    }
}
