//! Requests with their guarantees: bounded silence, reconnection, resending under the same id, several requests at once.

use crate::connect::{connect_once, prepare, Unreached};
use crate::fence;
pub(crate) use crate::message::Message;
use crate::observer::Span;
use crate::pool::{look, owe, Lane, Lease, Link};
use crate::session::Environment;
use crate::transfer::{converse, encode_frame, Fault, Sink, Step, Transfer};
use crate::transport::timespec;
use crate::{Caller, ClientError, Counters, Result};
use rustix::event::{PollFd, PollFlags};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;
use weir_placement::ServerId;
use weir_session::{Approach, Break, Course, Delivery, Stall, Turn, Verdict};
use weir_wire::{Fence, Header, IdentityId, Ino, Kind, Reply, Request, RequestId};

/// One request, and the place for its reply.
#[derive(Debug)]
pub(crate) struct Call<'a, 'u> {
    pub(crate) server: ServerId,
    pub(crate) lane: Lane,
    pub(crate) message: Message<'a>,
    pub(crate) payload: &'a [IoSlice<'a>],
    pub(crate) sink: Sink<'a, 'u>,
}

/// The way in which a wait for other clients may end early.
pub(crate) struct Interruption<'a> {
    /// The place for the request's id, filled before the request is sent. `u64::MAX` there ends the call before.
    pub(crate) request: &'a AtomicU64,
    /// A question that is asked after each signal: `true` ends the wait.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
    /// The inode whose lock is waited for.
    pub(crate) ino: Ino,
}

/// A call in progress.
pub(crate) struct Exchange<'s> {
    link: &'s Link,
    lease: Lease<'s>,
    transfer: Transfer,
    request: u64,
    delivery: Delivery,
}

// The value lives on the stack of one call. A box would cost each reply an allocation.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Progress {
    Waiting { moved: bool, interrupted: bool },
    Replied(Reply, usize),
}

/// Sends one request and waits for its reply. Answers the reply and the length of its payload.
///
/// # Errors
/// A lost or refusing server; the number of a `Failed` reply.
pub(crate) fn call(
    environment: Environment<'_>,
    caller: &Caller,
    mut call: Call<'_, '_>,
) -> Result<(Reply, usize)> {
    let answer = converse_once(environment, caller, &mut call, None);
    again_if_unknown(environment, caller, &mut call, answer)
}

/// Makes the call again as its [`Course`] wants after an answer.
pub(crate) fn again_if_unknown(
    environment: Environment<'_>,
    caller: &Caller,
    call: &mut Call<'_, '_>,
    mut answer: Result<(Reply, usize)>,
) -> Result<(Reply, usize)> {
    let home = call.message.capability().map(|capability| capability.ino.home());
    let mut course = Course::new(call.server, home);
    loop {
        match course.judge(&answer) {
            Verdict::Done => return answer,
            Verdict::Fail => return Err(ClientError::number(libc::EIO)),
            Verdict::Ask(home) => {
                greet(environment, caller, home)?;
                answer = converse_once(environment, caller, call, None);
            }
        }
    }
}

/// Has the home of a file tell its fence. A new connection claims the client's descriptions and locks before.
fn greet(environment: Environment<'_>, caller: &Caller, home: ServerId) -> Result<()> {
    let message = Message::Plain(&Request::Fence);
    let mut greeting = Call { server: home, lane: Lane::Small, message, payload: &[], sink: Sink::None };
    if let (Reply::Held { fence }, _) = converse_once(environment, caller, &mut greeting, None)? {
        environment.link(home)?.standing.renew_fence(fence);
    }
    Ok(())
}

/// Does the work of [`call`], with a way to end a wait early.
pub(crate) fn call_interruptible(
    environment: Environment<'_>,
    caller: &Caller,
    mut call: Call<'_, '_>,
    interruption: Option<&Interruption<'_>>,
) -> Result<(Reply, usize)> {
    converse_once(environment, caller, &mut call, interruption)
}

fn converse_once(
    environment: Environment<'_>,
    caller: &Caller,
    call: &mut Call<'_, '_>,
    interruption: Option<&Interruption<'_>>,
) -> Result<(Reply, usize)> {
    let link = environment.link(call.server)?;
    let mut exchange = Exchange::connect(environment, link, caller, call)?;
    if let Some(interruption) = interruption {
        if !announce(interruption, exchange.request) {
            return Err(ClientError::number(libc::EINTR));
        }
    }
    loop {
        match exchange.step(environment, caller, call, true)? {
            Progress::Replied(reply, bytes) => return succeeded(reply, bytes),
            Progress::Waiting { interrupted: true, .. } => {
                if let Some(interruption) = interruption.filter(|how| (how.interrupted)()) {
                    // The server answers EINTR to the waiting request, or the lock if it granted the lock just now.
                    cancel(environment, caller, interruption.ino, exchange.request)?;
                }
            }
            Progress::Waiting { .. } => {}
        }
    }
}

/// Does the work of [`call`] for a request that only a server which remembers this client understands. The call fails once
/// [`weir_session::Standing::memory`] is no longer `memory`, also while it waits.
pub(crate) fn call_while_remembered(
    environment: Environment<'_>,
    mut call: Call<'_, '_>,
    memory: u64,
) -> Result<(Reply, usize)> {
    let caller = &Caller::own();
    let link = environment.link(call.server)?;
    let mut exchange = Exchange::connect(environment, link, caller, &call)?;
    exchange.delivery.send_once();
    while link.standing.memory() == memory {
        if let Progress::Replied(reply, bytes) = exchange.step(environment, caller, &mut call, true)? {
            return succeeded(reply, bytes);
        }
    }
    // The connection itself may be a good one: it only ends so that its late reply finds nobody.
    exchange.lease.disconnect();
    Err(environment.lost(link))
}

/// Ends the wait of the lock request `waiting`.
pub(crate) fn cancel(environment: Environment<'_>, caller: &Caller, ino: Ino, waiting: u64) -> Result<()> {
    let request = Request::CancelLock { ino, waiting: RequestId(waiting) };
    let cancel = Call {
        server: ino.home(),
        lane: Lane::Small,
        message: Message::Plain(&request),
        payload: &[],
        sink: Sink::None,
    };
    match call(environment, caller, cancel) {
        Ok(_) => Ok(()),
        // The request no longer waits.
        Err(ClientError::Failed(errno)) if i32::from(errno.0) == libc::ENOENT => Ok(()),
        Err(error) => Err(error),
    }
}

fn announce(interruption: &Interruption<'_>, request: u64) -> bool {
    interruption.request.compare_exchange(0, request, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

pub(crate) fn succeeded(reply: Reply, bytes: usize) -> Result<(Reply, usize)> {
    match reply {
        Reply::Failed(errno) => Err(ClientError::Failed(errno)),
        Reply::PagesHeld => Err(ClientError::PagesHeld),
        reply => Ok((reply, bytes)),
    }
}

pub(crate) fn lease<'s>(environment: Environment<'s>, link: &'s Link, lane: Lane) -> Result<Lease<'s>> {
    link.lease(lane, || {
        environment.check_generation()?;
        if link.standing.counts_as_lost(environment.now()) {
            return Err(environment.lose(link, Duration::ZERO));
        }
        Ok(())
    })
}

/// Waits up to a tick until one of several exchanges may go on.
pub(crate) fn wait_for_any(environment: Environment<'_>, exchanges: &[(usize, Exchange<'_>)]) {
    let mut ready: Vec<PollFd<'_>> =
        exchanges.iter().filter_map(|(_, exchange)| exchange.awaited()).collect();
    // The poll may be late or interrupted: the caller looks at every exchange in any case.
    let _ = rustix::event::poll(&mut ready, Some(&timespec(environment.tick())));
}

/// Renews an append turn, where that is due.
fn renew(environment: Environment<'_>, turn: &Turn) {
    let Some(request) = turn.renewal(environment.now()) else { return };
    if let Ok(link) = environment.link(turn.home()) {
        probe(environment, link, &request, environment.tick());
    }
}

impl<'s> Exchange<'s> {
    /// Finds a slot, connects it where needed, and begins the exchange.
    fn connect(
        environment: Environment<'s>,
        link: &'s Link,
        caller: &Caller,
        call: &Call<'_, '_>,
    ) -> Result<Exchange<'s>> {
        environment.check_silent(link)?;
        if link.owes.load(Ordering::Relaxed) {
            settle(environment, link)?;
        }
        let mut lease = lease(environment, link, call.lane)?;
        let now = environment.now();
        let delivery = Delivery::new(environment.bounds(), now);
        reach(environment, link, &mut lease, caller, delivery.approach(&link.standing, now))?;
        Exchange::begin(environment, link, lease, caller, call, delivery)
    }

    /// Writes the request into the buffer of a connected slot. Nothing is sent yet.
    pub(crate) fn begin(
        environment: Environment<'s>,
        link: &'s Link,
        mut lease: Lease<'s>,
        caller: &Caller,
        call: &Call<'_, '_>,
        mut delivery: Delivery,
    ) -> Result<Exchange<'s>> {
        let fence = fence::shown(environment, call.message)?;
        let session = environment.session();
        let request = lease.take_request_id(&session.next_request);
        let payload_bytes = call.payload.iter().map(|slice| slice.len()).sum::<usize>() as u32;
        let header = Header {
            kind: Kind::Request,
            body_bytes: 0,
            payload_bytes,
            identity: IdentityId(caller.number()),
            request: RequestId(request),
            acknowledged: RequestId(link.lowest_outstanding(session.next_request.load(Ordering::SeqCst))),
        };
        encode(&mut lease, header, call.message, fence);
        let transfer = Transfer::new(RequestId(request), &lease.state().send, call.payload);
        Counters::add(&environment.counters().requests, 1);
        delivery.connected(environment.now());
        Ok(Exchange { link, lease, transfer, request, delivery })
    }

    /// The readiness of the connection for which the exchange waits.
    fn awaited(&self) -> Option<PollFd<'_>> {
        let descriptor = self.lease.live()?.connection.readiness().ok()?;
        let events = if self.transfer.is_sending() { PollFlags::OUT } else { PollFlags::IN };
        Some(PollFd::from_borrowed_fd(descriptor, events))
    }

    /// Waits up to a tick. Answers whether the connection is ready.
    fn wait(&self, environment: Environment<'_>) -> bool {
        let Some(ready) = self.awaited() else { return false };
        rustix::event::poll(&mut [ready], Some(&timespec(environment.tick()))).is_ok_and(|count| count > 0)
    }

    /// Goes on as far as possible. With `block`, waits up to a tick.
    ///
    /// With an append turn no wait is longer than a tick, also where bytes move all the time, because the turn has to be
    /// renewed meanwhile.
    pub(crate) fn step(
        &mut self,
        environment: Environment<'s>,
        caller: &Caller,
        call: &mut Call<'_, '_>,
        block: bool,
    ) -> Result<Progress> {
        loop {
            let state = self.lease.state();
            match self.transfer.advance(
                state,
                call.payload,
                &mut call.sink,
                block && environment.turn().is_none(),
            ) {
                Ok(Step::Complete) => {
                    let ended = environment.heard(self.link);
                    let reply = self.transfer.reply(&self.lease.state().receive);
                    let (reply, bytes) = reply.map_err(|fault| self.fail(environment, fault))?;
                    if gives_holding(&reply) && self.is_of_earlier_start() {
                        self.resend(environment, caller, call.message)?;
                        continue;
                    }
                    self.count(environment, caller, call, (&reply, bytes), ended);
                    return Ok(Progress::Replied(reply, bytes));
                }
                Ok(Step::Stalled { moved, interrupted }) => {
                    if let Some(turn) = environment.turn() {
                        renew(environment, turn);
                        // This process may have been stopped: the bytes that came meanwhile count before the silence does.
                        if block && !moved && self.wait(environment) {
                            continue;
                        }
                    }
                    self.stalled(environment, moved)?;
                    return Ok(Progress::Waiting { moved, interrupted });
                }
                Err(Fault::Broken) => self.resend(environment, caller, call.message)?,
                // A credential that expired while connected may have been renewed in its file.
                Err(Fault::Refused(_)) if environment.renew(self.reading()) => {
                    self.resend(environment, caller, call.message)?
                }
                Err(fault) => return Err(self.fail(environment, fault)),
            }
        }
    }

    /// Counts the call, which ended at this moment of the session.
    fn count(
        &self,
        environment: Environment<'_>,
        caller: &Caller,
        call: &Call<'_, '_>,
        (reply, received): (&Reply, usize),
        ended: Duration,
    ) {
        let Some(observer) = environment.observer() else { return };
        let span = Span::ended_now(ended.saturating_sub(self.delivery.began()).as_nanos() as u64);
        let sent = call.payload.iter().map(|slice| slice.len()).sum();
        observer.count(caller, (call.message, call.server), (reply, sent, received), span);
    }

    /// Whether another connection has found a later start of the server. The client has claimed there what it held, without what
    /// the reply of an earlier start gives.
    fn is_of_earlier_start(&mut self) -> bool {
        let boot = self.link.standing.boot.load(Ordering::SeqCst);
        self.lease.state().live.as_ref().is_some_and(|live| live.boot != boot)
    }

    /// The number of the credential's reading with which the connection was made.
    fn reading(&mut self) -> usize {
        self.lease.state().live.as_ref().map_or(usize::MAX, |live| live.reading)
    }

    /// Connects again and starts the same request over.
    fn resend(&mut self, environment: Environment<'s>, caller: &Caller, message: Message<'_>) -> Result<()> {
        environment.check_generation()?;
        self.link.break_off(&mut self.lease);
        let approach = match self.delivery.broke(&self.link.standing, environment.now()) {
            Break::Resend(pause, approach) => {
                sleep(pause);
                approach
            }
            Break::Lost => return Err(environment.lose(self.link, Duration::ZERO)),
            Break::Fail => return Err(environment.lost(self.link)),
        };
        // The handshake uses the slot's buffers, so the frame is kept aside.
        let frame = std::mem::take(&mut self.lease.state().send);
        let reached = reach(environment, self.link, &mut self.lease, caller, approach);
        self.lease.state().send = frame;
        reached?;
        // The locks under which the request was sent may be lost. The fence that it showed stays.
        fence::shown(environment, message)?;
        Counters::add(&environment.counters().resends, 1);
        Counters::add(&environment.counters().requests, 1);
        self.transfer.restart();
        self.delivery.connected(environment.now());
        Ok(())
    }

    /// Asks after a stall whether the server lives, where the server has been silent for a while.
    fn stalled(&mut self, environment: Environment<'s>, moved: bool) -> Result<()> {
        if !moved {
            environment.check_generation()?;
        }
        match self.delivery.stalled(moved, &self.link.standing, environment.now()) {
            Stall::Wait => {}
            Stall::Probe(limit) => probe(environment, self.link, &Request::Ping, limit),
            Stall::Lost(quiet) => {
                self.link.break_off(&mut self.lease);
                return Err(environment.lose(self.link, quiet));
            }
        }
        Ok(())
    }

    fn fail(&mut self, environment: Environment<'s>, fault: Fault) -> ClientError {
        self.link.break_off(&mut self.lease);
        let server = self.link.server();
        match fault {
            Fault::Refused(reason) => ClientError::Refused { server, reason },
            Fault::Protocol(source) => ClientError::Protocol { server, source },
            // The server is well. Another connection would meet the same address.
            Fault::Address => ClientError::number(libc::EFAULT),
            Fault::Broken | Fault::Silent => environment.lose(self.link, Duration::ZERO),
        }
    }
}

/// Gives the lease a connection that knows `caller`, within the attempts of `approach`.
fn reach(
    environment: Environment<'_>,
    link: &Link,
    lease: &mut Lease<'_>,
    caller: &Caller,
    approach: Approach,
) -> Result<()> {
    prepare(environment, link, lease, caller, approach).map_err(|unreached| match unreached {
        Unreached::Final(error) => error,
        Unreached::Yet(waited) => environment.lose(link, waited),
    })
}

/// Whether a reply gives the client something that the server keeps for it.
fn gives_holding(reply: &Reply) -> bool {
    matches!(reply, Reply::Opened { .. } | Reply::Held { .. })
}

/// Sends the server a small request, unless another thread is doing so. The link notes the server's answer as a sign of
/// life.
fn probe(environment: Environment<'_>, link: &Link, request: &Request, limit: Duration) {
    let Some(mut lease) = link.try_lease(Lane::Probe) else { return };
    let until = environment.now() + limit;
    if lease.live().is_none() && connect_once(environment, link, &mut lease, until).is_err() {
        // The server may have refused at once. The pause keeps the caller from coming back before anything can change.
        sleep(environment.tick().min(limit));
        return;
    }
    let state = lease.state();
    let Some(live) = &mut state.live else { return };
    let connection = live.connection.as_mut();
    let deadline = environment.session().instant(until);
    match converse(connection, &mut state.send, &mut state.receive, request, deadline) {
        Ok(_) => _ = environment.heard(link),
        Err(_) => link.break_off(&mut lease),
    }
}

/// Tells a server the releases that it may not have heard of. They come before every further request, because a later release
/// would end a lock that its owner took again.
fn settle(environment: Environment<'_>, link: &Link) -> Result<()> {
    if !link.owes.swap(false, Ordering::SeqCst) {
        return Ok(());
    }
    let mut owed = look(&link.held).map(|mut held| held.take_owed()).unwrap_or_default().into_iter();
    while let Some(release) = owed.next() {
        let message = Message::Plain(&release);
        let mut call =
            Call { server: link.server(), lane: Lane::Small, message, payload: &[], sink: Sink::None };
        match converse_once(environment, &Caller::own(), &mut call, None) {
            Err(error) if error.is_open() => {
                let rest = std::iter::once(release).chain(owed).collect();
                owe(link, |held| held.put_back_owed(rest));
                return Err(error);
            }
            // A server that started anew knows neither the lock nor the description.
            _ => {}
        }
    }
    Ok(())
}

/// Tells the server that this client lives: a ping on the probe lane, bounded by a tick.
pub(crate) fn heartbeat(environment: Environment<'_>, link: &Link) {
    if link.owes.load(Ordering::Relaxed) {
        let _ = settle(environment.brief(), link);
    }
    if link.is_connected() {
        probe(environment, link, &Request::Ping, environment.tick());
    }
}

fn encode(lease: &mut Lease<'_>, header: Header, message: Message<'_>, fence: Fence) {
    let state = lease.state();
    let mut extents = std::mem::take(&mut state.extents);
    extents.clear();
    let owned = match message {
        Message::Plain(request) => {
            match request {
                Request::Reserve { .. } => encode_frame(&mut state.send, header, &under(request, fence)),
                request => encode_frame(&mut state.send, header, request),
            }
            state.extents = extents;
            return;
        }
        Message::Read { capability, target, epoch, extent } => {
            extents.push(extent);
            Request::Read { capability, target, epoch, fence, extents }
        }
        Message::Write { capability, target, epoch, extent, publication } => {
            extents.push(extent);
            Request::Write { capability, target, epoch, fence, extents, publication }
        }
    };
    encode_frame(&mut state.send, header, &owned);
    // The vector goes back to the slot: a read or write allocates nothing.
    if let Request::Read { extents, .. } | Request::Write { extents, .. } = owned {
        state.extents = extents;
    }
}

/// A request under the present fence, if it changes the room of an object: its maker leaves the fence open.
fn under(request: &Request, present: Fence) -> Request {
    let mut request = request.clone();
    if let Request::Reserve { fence, .. } = &mut request {
        *fence = present;
    }
    request
}
