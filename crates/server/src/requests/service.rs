//! The way of a request through a device: queued, dispatched, its payload received, carried out, answered.

mod arrival;

use crate::links::connection::{Frame, Tail};
use crate::links::{Acting, LinkKey};
use crate::namespace::{errno, Caller};
use crate::peers::confirmations::{object_capability, Standing};
use crate::requests::watch::Drops;
use crate::server::Server;
use crate::storage::{Target, TargetFailure, WritePlan};
use std::rc::Rc;
use weir_device::{Device, Work};
use weir_fairshare::{Direction, Dispatch, Nanos};
use weir_wire::{ClientId, Errno, Extent, Header, Ino, JobId, PeerRequest, Reply, Request, RequestId};

/// Devices are served for this long in one turn of the loop; then connections are read again, so that who comes new
/// stands in the queues before many more have been served.
const SERVE_TURN: Nanos = Nanos::from_micros(500);

/// A request in hand.
pub(crate) struct Pending {
    pub(crate) link: LinkKey,
    pub(crate) client: ClientId,
    pub(crate) acting: Rc<Acting>,
    /// The connection's own job, which the memory of the request is charged to, and that memory.
    pub(crate) session_job: JobId,
    pub(crate) held_bytes: usize,
    pub(crate) header: Header,
    pub(crate) request: Request,
    pub(crate) payload: Vec<u8>,
    pub(crate) detached_bytes: usize,
    /// Device that serves it, and the work it is there.
    pub(crate) device: Option<(usize, Work)>,
    pub(crate) arrived: Nanos,
    pub(crate) dispatch: Option<Dispatch>,
    /// When the emulated device is done with it.
    finish: Option<Nanos>,
    /// Where its detached payload goes.
    pub(crate) sink: Sink,
    /// Awaited payload in the socket when it was last looked at, and since when there is some.
    bytes_here: usize,
    here_since: Nanos,
    /// Last moment at which payload bytes arrived.
    progress: Nanos,
    /// Time the device really worked on it, since it was dispatched.
    pub(crate) service: Nanos,
    /// What it was charged before its sender paused.
    charged: Option<Nanos>,
    /// While it is carried out: since when, and what `service` was then.
    executing: Option<(Nanos, Nanos)>,
    pub(crate) stage: Stage,
    /// Since when it waits for room on its target.
    pub(crate) roomless_since: Option<Nanos>,
    /// Nobody is about to give it room: it is refused if it finds none now.
    pub(crate) is_last_try: bool,
    /// The link is gone: carry on to the end without an answer.
    pub(crate) abandoned: bool,
}

/// How far a request is.
pub(crate) enum Stage {
    /// Waiting for its turn.
    Queued,
    /// Waiting for payload in its socket: it is not queued, and has no slot.
    Awaiting,
    /// Its payload is received.
    Receiving,
    /// Everything is here.
    Ready,
    /// A worker, a peer or another client has it.
    Elsewhere,
    /// Carried out; the emulated device is not done yet.
    Finished(Box<Outcome>),
}

/// What a request came to.
pub(crate) struct Outcome {
    pub(crate) reply: Reply,
    pub(crate) payload: Vec<u8>,
    pub(crate) tail: Option<Tail>,
    /// Kernel pages that others must drop before the reply.
    pub(crate) drops: Drops,
}

/// Where a detached payload goes.
pub(crate) enum Sink {
    /// Not decided yet.
    None,
    /// Straight into a `ram` target.
    Arena { plan: WritePlan, region: usize, within: usize },
    /// Into a buffer, for a worker.
    Buffer { bytes: Vec<u8>, filled: usize },
    /// Nowhere: the request has failed already.
    Discard { failure: Reply, left: usize },
}

impl Pending {
    pub(crate) fn new(
        link: LinkKey,
        client: ClientId,
        (acting, session_job, held_bytes): (Rc<Acting>, JobId, usize),
        frame: Frame,
        request: Request,
        now: Nanos,
    ) -> Pending {
        Pending {
            link,
            client,
            acting,
            session_job,
            held_bytes,
            header: frame.header,
            request,
            payload: frame.payload,
            detached_bytes: frame.detached_bytes,
            device: None,
            arrived: now,
            dispatch: None,
            finish: None,
            sink: Sink::None,
            bytes_here: 0,
            here_since: now,
            progress: now,
            service: Nanos::ZERO,
            charged: None,
            executing: None,
            stage: Stage::Queued,
            roomless_since: None,
            is_last_try: false,
            abandoned: false,
        }
    }

    /// Whether it waits for payload that its sender does not send.
    pub(crate) fn is_starved(&self) -> bool {
        matches!(self.stage, Stage::Awaiting | Stage::Receiving)
    }

    /// The device that is at it, the work, and how long it has been. A worker's part counts when it is done: it may wait
    /// for a worker before.
    pub(crate) fn in_service(&self, devices: &[Device], now: Nanos) -> Option<(usize, Work, Nanos)> {
        let (device, work) = self.device.filter(|_| self.dispatch.is_some())?;
        let service = match self.finish {
            Some(finish) => devices.get(device)?.served_of(work, finish, now),
            None => self.service,
        };
        Some((device, work, service))
    }

    /// What a resend of this request has in common with it.
    pub(crate) fn key(&self) -> (ClientId, RequestId) {
        (self.client, self.header.request)
    }
}

impl Outcome {
    /// Only a reply.
    pub(crate) fn of(reply: Reply) -> Outcome {
        Outcome { reply, payload: Vec::new(), tail: None, drops: Drops::new() }
    }

    /// A failure.
    pub(crate) fn failed(errno: Errno) -> Outcome {
        Outcome::of(Reply::Failed(errno))
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

/// Lets a `ram` target reuse what a reply held.
pub(crate) fn release_tail(targets: &mut [Target], tail: Tail) {
    if let Tail::Arena { target, plan } = tail {
        if let Some(ram) = targets.get_mut(target).and_then(Target::memory) {
            ram.finish_read(&plan);
        }
    }
}

/// Bytes of a list of extents.
pub(crate) fn total_bytes(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| u64::from(extent.length)).sum()
}

impl Server {
    /// Sends a request to the device that serves it, or answers it at once.
    pub(crate) fn route(&mut self, token: usize) {
        let Some(pending) = self.pending.get(token) else { return };
        match &pending.request {
            _ if pending.detached_bytes == 0 => {}
            Request::Write { .. } => {}
            Request::Peer(PeerRequest::Exchange) if self.peer_of(pending.link).is_some() => {
                return self.receive_report(token);
            }
            _ => return self.pending_failed(token, errno::EINVAL),
        }
        if let Some(capability) = object_capability(&pending.request).copied() {
            let acting = Rc::clone(&pending.acting);
            let caller = Caller { who: &acting.who, ..crate::requests::metadata::caller(pending) };
            match self.standing(&caller, &capability) {
                Standing::Holds => {}
                Standing::Refused(errno) => return self.pending_failed(token, errno),
                Standing::Unknown => return self.confirm_first(token, &capability),
            }
        }
        let Some(pending) = self.pending.get(token) else { return };
        let (client, request) = pending.key();
        let file = overwritten(&pending.request).filter(|ino| self.watches.others_hold(client, *ino));
        // Nobody writes pages back for who has no right to change the file.
        let file = file.filter(|_| match &pending.request {
            Request::Change { at, change, .. } => self.namespace.may_resize(
                &crate::requests::metadata::caller(pending),
                at,
                change,
                self.moment(),
            ),
            _ => true,
        });
        if let Some(ino) = file.filter(|_| !self.namespace.remembers(client, request)) {
            if self.has_mount(client) {
                return self.pending_answered(token, Reply::PagesHeld);
            }
            return self.hold_for_write_back(token, client, ino);
        }
        self.send_to_device(token);
    }

    /// The pages of others that a request would have changed are written back.
    pub(crate) fn route_written_back(&mut self, token: usize) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        if pending.abandoned {
            // Its payload went with its link.
            return self.reply(token, Outcome::failed(errno::EIO));
        }
        pending.stage = Stage::Queued;
        self.send_to_device(token);
    }

    fn send_to_device(&mut self, token: usize) {
        let Some(pending) = self.pending.get(token) else { return };
        match self.device_of(pending) {
            Ok(Some(served)) => {
                let is_here = pending.detached_bytes == 0;
                if let Some(pending) = self.pending.get_mut(token) {
                    pending.device = Some(served);
                }
                if is_here {
                    self.enqueue(token);
                } else {
                    self.await_payload(token);
                }
            }
            Ok(None) => self.serve_at_once(token),
            Err(errno) => self.pending_failed(token, errno),
        }
    }

    /// Queues a request at its device, for all that is left to do.
    pub(crate) fn enqueue(&mut self, token: usize) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        let Some((device, work)) = pending.device else { return };
        let bytes = if pending.charged.is_some() { pending.detached_bytes as u64 } else { work.bytes };
        let (attributes, arrived) = (pending.acting.attributes, pending.arrived);
        pending.stage = Stage::Queued;
        if self.devices[device].enqueue(attributes, token as u64, Work { bytes, ..work }, arrived) {
            self.busy_devices = true;
        } else {
            self.pending_failed(token, errno::EAGAIN);
        }
    }

    /// The device of a request and the work it is there; none for what never waits behind others.
    fn device_of(&self, pending: &Pending) -> Result<Option<(usize, Work)>, Errno> {
        let metadata = self.devices.len() - 1;
        let work = |direction, bytes| Work { direction, bytes };
        Ok(Some(match &pending.request {
            Request::Read { target, extents, .. } => (
                self.check_data(pending, *target, extents, false)?,
                work(Direction::Read, total_bytes(extents)),
            ),
            Request::Write { target, extents, .. } => (
                self.check_data(pending, *target, extents, true)?,
                work(Direction::Write, total_bytes(extents)),
            ),
            Request::Reserve { target, .. } => {
                (self.check_data(pending, *target, &[], true)?, work(Direction::Write, 0))
            }
            Request::ObjectSeek { target, .. } => {
                (self.check_data(pending, *target, &[], false)?, work(Direction::Read, 0))
            }
            Request::Append { .. } => {
                let device = self.append_device(pending).unwrap_or(metadata);
                (device, work(Direction::Write, pending.payload.len() as u64))
            }
            Request::Attributes { .. }
            | Request::Layout { .. }
            | Request::Access { .. }
            | Request::ReadLink { .. }
            | Request::List { .. }
            | Request::XattrGet { .. }
            | Request::XattrList { .. } => (metadata, work(Direction::Read, 0)),
            Request::Change { .. }
            | Request::MoveBegin { .. }
            | Request::Detour { .. }
            | Request::Open { .. }
            | Request::Make { .. }
            | Request::Symlink { .. }
            | Request::Link { .. }
            | Request::Unlink { .. }
            | Request::Rename { .. }
            | Request::XattrSet { .. }
            | Request::XattrRemove { .. } => (metadata, work(Direction::Write, 0)),
            _ => return Ok(None),
        }))
    }

    /// Serves devices until none can go on now, or their time in this turn is over; the next turn begins where this one
    /// ended.
    pub(crate) fn serve_devices(&mut self) {
        let until = self.clock_now() + SERVE_TURN;
        let count = self.devices.len();
        let mut idle = 0;
        self.unserved = false;
        while idle < count && !self.unserved {
            let device = self.next_device;
            self.next_device = (device + 1) % count;
            idle = if self.serve_device(device, until) { 0 } else { idle + 1 };
        }
    }

    /// Serves one device; answers whether anything was done.
    fn serve_device(&mut self, device: usize, until: Nanos) -> bool {
        let now = self.now();
        let mut was_served = false;
        while let Some(token) = self.devices[device].finished(now) {
            was_served = true;
            self.advance(token as usize);
        }
        loop {
            match self.devices[device].dispatch(now) {
                Some(dispatch) => self.start(device, dispatch),
                None if self.free_slot(device) => {}
                None => return was_served,
            }
            was_served = true;
            if self.clock_now() >= until {
                self.unserved = true;
                return was_served;
            }
        }
    }

    /// Takes a slot from a sender that has paused while others wait for one; an emulated device finishes first what it
    /// was given. What is left of the payload is queued again when it arrives.
    fn free_slot(&mut self, device: usize) -> bool {
        let now = self.now();
        let is_done = |pending: &Pending| pending.finish.is_none_or(|finish| finish <= now);
        let paused = self.devices[device].idle_slots().iter().map(|&token| token as usize);
        let found = paused.into_iter().find(|&token| self.pending.get(token).is_some_and(is_done));
        let Some(token) = found else { return false };
        let is_free = self.leave_slot(token);
        if is_free {
            self.await_payload(token);
        }
        is_free
    }

    /// Gives up the slot of a request that cannot go on now; when it can it is queued again. False where it has none.
    pub(crate) fn leave_slot(&mut self, token: usize) -> bool {
        let now = self.now();
        let Some(pending) = self.pending.get_mut(token) else { return false };
        let (Some((device, work)), Some(dispatch)) = (pending.device, pending.dispatch.take()) else {
            return false;
        };
        let service = std::mem::replace(&mut pending.service, Nanos::ZERO);
        let spent = self.devices[device].interrupt(&dispatch, work, (service, pending.charged), now);
        pending.charged = Some(pending.charged.unwrap_or(Nanos::ZERO) + spent);
        let job = pending.acting.job;
        if let Some(job) = self.jobs.job_mut(job) {
            job.spend(device, spent);
        }
        self.busy_devices = true;
        true
    }

    fn start(&mut self, device: usize, dispatch: Dispatch) {
        let token = dispatch.token.0 as usize;
        let now = self.clock_now();
        let Some(pending) = self.pending.get_mut(token) else { return };
        pending.dispatch = Some(dispatch);
        if pending.charged.is_none() {
            pending.finish = pending
                .device
                .and_then(|(_, work)| self.devices[device].emulate(&dispatch, work, pending.arrived));
        }
        if let Some(job) = self.jobs.job_mut(pending.acting.job) {
            job.dispatched(&dispatch);
        }
        if pending.detached_bytes > 0 {
            pending.progress = now;
            pending.stage = Stage::Receiving;
            let is_begun = pending.charged.is_some();
            self.receiving.insert(token);
            if !is_begun {
                self.open_sink(token);
            }
            self.receive(token);
        } else {
            pending.stage = Stage::Ready;
            self.advance(token);
        }
    }

    /// Carries a request on as far as it goes: executes it when its payload is there, concludes it when the
    /// emulated device is done.
    pub(crate) fn advance(&mut self, token: usize) {
        let (now, clock_now) = (self.now(), self.clock_now());
        let Some(pending) = self.pending.get_mut(token) else { return };
        let is_due = pending.finish.is_none_or(|finish| finish <= now);
        match std::mem::replace(&mut pending.stage, Stage::Elsewhere) {
            Stage::Ready if is_due || self.runs_ahead(token) => {
                if let Some(pending) = self.pending.get_mut(token) {
                    pending.executing = Some((clock_now, pending.service));
                }
                self.execute(token);
                if let Some(pending) = self.pending.get_mut(token) {
                    pending.executing = None;
                }
            }
            Stage::Finished(outcome) if is_due => self.conclude(token, *outcome),
            stage => pending_stage(&mut self.pending, token, stage),
        }
    }

    /// A `dir` target works while its emulated time runs; memory is read and written at the end of it.
    fn runs_ahead(&self, token: usize) -> bool {
        let device = self.pending.get(token).and_then(|pending| pending.device);
        let target = device.and_then(|(device, _)| self.targets.get(device));
        target.and_then(Target::directory).is_some()
    }

    /// A request was carried out: answers it, and resends that joined it, now or when the emulated device is done.
    pub(crate) fn finish(&mut self, token: usize, outcome: Outcome) {
        if !self.unfinished.is_empty() {
            self.finish_followers(token, &outcome);
        }
        pending_stage(&mut self.pending, token, Stage::Finished(Box::new(outcome)));
        self.advance(token);
    }

    fn finish_followers(&mut self, token: usize, outcome: &Outcome) {
        if let Some(key) = self.pending.get(token).map(Pending::key) {
            if self.unfinished.get(&key) == Some(&token) {
                self.unfinished.remove(&key);
            }
        }
        for follower in self.followers.remove(&token).unwrap_or_default() {
            let payload = outcome.payload.clone();
            self.finish(follower, Outcome { payload, ..Outcome::of(outcome.reply.clone()) });
        }
    }

    /// Ends the service of a request and answers it.
    fn conclude(&mut self, token: usize, outcome: Outcome) {
        self.end_service(token);
        if outcome.drops.is_empty() {
            self.reply(token, outcome);
        } else {
            let now = self.now();
            self.hold_for_drops(token, outcome, now);
        }
    }

    /// Frees the service slot of a request, if it has one, and accounts what it took.
    pub(crate) fn end_service(&mut self, token: usize) {
        let (now, clock_now) = (self.now(), self.clock_now());
        let Some(pending) = self.pending.get_mut(token) else { return };
        if let (Some((device, work)), Some(dispatch)) = (pending.device, pending.dispatch.take()) {
            // It ends while it is carried out, so the time of that is not counted yet.
            if let Some((since, before)) = pending.executing.take() {
                pending.service = before + clock_now.saturating_since(since);
            }
            let times = (pending.service, pending.charged);
            let actual = self.devices[device].complete(&dispatch, work, times, now);
            self.busy_devices = true;
            self.account_if_due(device);
            let Some(pending) = self.pending.get(token) else { return };
            if let Some(job) = self.jobs.job_mut(pending.acting.job) {
                job.spend(device, actual);
                job.operations += 1;
                match pending.request {
                    Request::Read { .. } => job.bytes_read += work.bytes,
                    Request::Write { .. } | Request::Append { .. } => job.bytes_written += work.bytes,
                    _ => {}
                }
            }
        }
    }

    /// Sends the reply and forgets the request.
    pub(crate) fn reply(&mut self, token: usize, outcome: Outcome) {
        let Some(pending) = self.pending.try_remove(token) else { return };
        self.release_memory(pending.link, pending.session_job, pending.held_bytes);
        let link = self.links.get_mut(pending.link.index).filter(|link| link.serial == pending.link.serial);
        match link {
            Some(link) if !pending.abandoned => {
                link.requests.remove(&token);
                link.connection.reply(pending.header.request, &outcome.reply, &outcome.payload, outcome.tail);
                self.dirty.push(pending.link.index);
                self.count_buffers(pending.link.index);
            }
            _ => {
                if let Some(tail) = outcome.tail {
                    release_tail(&mut self.targets, tail);
                }
            }
        }
    }

    /// As [`Server::pending_answered`], with a failure.
    pub(crate) fn pending_failed(&mut self, token: usize, errno: Errno) {
        self.pending_answered(token, Reply::Failed(errno));
    }

    /// Answers a request that never reached a device; a detached payload is read and thrown away first.
    fn pending_answered(&mut self, token: usize, reply: Reply) {
        self.drop_sink(token);
        let Some(pending) = self.pending.get_mut(token) else { return };
        if pending.detached_bytes == 0 {
            return self.reply(token, Outcome::of(reply));
        }
        pending.sink = Sink::Discard { failure: reply, left: pending.detached_bytes };
        pending.stage = Stage::Receiving;
        self.receiving.insert(token);
        self.receive(token);
    }

    /// Another server knows many jobs: its report is received before it is taken.
    fn receive_report(&mut self, token: usize) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        pending.sink = Sink::Buffer { bytes: vec![0; pending.detached_bytes], filled: 0 };
        pending.stage = Stage::Receiving;
        self.receiving.insert(token);
        self.receive(token);
    }

    /// The link of a request is gone: takes it out of its queue, or lets what is under way end unanswered.
    pub(crate) fn give_up(&mut self, token: usize) {
        self.drop_sink(token);
        let Some(pending) = self.pending.get_mut(token) else { return };
        pending.abandoned = true;
        match pending.stage {
            Stage::Queued => {
                let job = pending.acting.attributes.job;
                let cancelled =
                    pending.device.is_some_and(|(device, _)| self.devices[device].cancel(job, token as u64));
                if cancelled || pending.device.is_none() {
                    self.reply(token, Outcome::failed(errno::EIO));
                }
            }
            Stage::Awaiting => {
                self.receiving.remove(&token);
                self.reply(token, Outcome::failed(errno::EIO));
            }
            Stage::Receiving => {
                self.receiving.remove(&token);
                self.finish(token, Outcome::failed(errno::EIO));
            }
            _ => {}
        }
    }
}

/// The file whose bytes a request changes where mounts may hold pages of them.
fn overwritten(request: &Request) -> Option<Ino> {
    match request {
        Request::Write { capability, .. }
        | Request::Append { capability }
        | Request::Reserve { capability, punch: true, .. } => Some(capability.ino),
        Request::Change { at, change, .. } if change.size_bytes.is_some() && at.path.is_empty() => {
            Some(at.ino)
        }
        _ => None,
    }
}

fn pending_stage(pending: &mut slab::Slab<Pending>, token: usize, stage: Stage) {
    if let Some(pending) = pending.get_mut(token) {
        pending.stage = stage;
    }
}
