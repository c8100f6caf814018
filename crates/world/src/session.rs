//! The client's side of a connection: the product's values say when it connects, greets, claims, waits, asks and sends again, and
//! the session does it in virtual time, with one call at a time.
//!
//! A program whose call fails because its server is lost makes the same call again, under its number, as a mount does for pages.

use super::agenda::{Agenda, Happening, Side};
use super::client::{Shared, Ticket};
use super::network::Network;
use std::rc::Rc;
use std::time::Duration;
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_session::{Approach, Bounds, Break, Delivery, Failed, Greeted, Greeting, Guest, Stall, Standing};
use weir_wire::{
    decode_body, encode_body, Capability, Credential, Errno, Fence, Header, IdentityId, Kind, Nonce, Reply,
    Request, RequestId, HEADER_BYTES, UNSEALED,
};

/// The patience of clients and peers, as in the product.
const BOUNDS: Bounds = Bounds { silence: Duration::from_secs(5), tries_again: true };
/// The longest wait for bytes before the session looks for how long the server has been silent.
const TICK: Nanos = Nanos::from_millis(500);
/// The pause of a program before it makes a call again whose server was lost.
const AGAIN: Nanos = Nanos::from_millis(50);

/// The answer to a call that was not sent, as the lock of its description is lost. No server answers it.
pub(super) const LOCK_LOST: Errno = Errno(u16::MAX);
/// The answer to a long poll that a server may not understand any more.
const FORGOTTEN: Errno = Errno(5);

/// The identity of a client at a server.
pub(super) struct Identity {
    pub(super) credential: Rc<Credential>,
    pub(super) client: Shared,
    pub(super) slot: u16,
}

enum Stage {
    Down,
    /// The next attempt follows a pause.
    Paused(Approach),
    /// An attempt is under way, until a moment.
    Greeting(Box<Greeting<Rc<Credential>>>, Approach, Nanos),
    /// The connection is ready, with this start of the server.
    Ready(u64),
}

/// A request, and whether its answer is awaited on the connection that holds.
struct Call {
    ticket: Ticket,
    message: Request,
    payload: Vec<u8>,
    /// Its number and bytes, from its first sending on.
    framed: Option<(RequestId, Vec<u8>)>,
    is_sent: bool,
    delivery: Delivery,
    /// Bytes came since the last stall.
    has_moved: bool,
    /// The memory of the server of which the call is a question.
    memory: u64,
}

/// A slot of a client for one server.
pub(super) struct Session {
    number: usize,
    server: usize,
    identity: Identity,
    standing: Rc<Standing>,
    network: Network,
    agenda: Agenda,
    connection: Option<usize>,
    stage: Stage,
    input: Vec<u8>,
    call: Option<Call>,
    /// The server is asked until then whether it lives.
    probe_until: Option<Nanos>,
    is_asked: bool,
    /// The start of the server that told its fence as it took the client's claims, and the fence.
    told: Option<(u64, Fence)>,
    /// The moment of the next look.
    look_at: Nanos,
}

/// The reply to a call, with its payload.
pub(super) type Answered = (Reply, Vec<u8>);

/// The result of a look at a session.
pub(super) struct Seen {
    pub(super) answer: Option<(Ticket, Answered)>,
    /// The server has been silent for a while: the client's prober asks it, for this time at most.
    pub(super) silence: Option<Duration>,
    /// The start of the server that told its fence, and the fence.
    pub(super) told: Option<(u64, Fence)>,
}

impl Session {
    pub(super) fn new(
        number: usize,
        server: usize,
        identity: Identity,
        (network, agenda): (&Network, &Agenda),
    ) -> Session {
        let standing = identity.client.borrow_mut().standing(server);
        Session {
            number,
            server,
            identity,
            standing,
            network: network.clone(),
            agenda: agenda.clone(),
            connection: None,
            stage: Stage::Down,
            input: Vec::new(),
            call: None,
            probe_until: None,
            is_asked: false,
            told: None,
            look_at: Nanos::ZERO,
        }
    }

    fn now(&self) -> Duration {
        Duration::from(self.agenda.now())
    }

    /// Begins a call.
    pub(super) fn begin(&mut self, ticket: Ticket, message: Request, payload: Vec<u8>) {
        assert!(self.call.is_none(), "one call at a time");
        let delivery = Delivery::new(BOUNDS, self.now());
        let (framed, is_sent, has_moved) = (None, false, false);
        let memory = self.standing.memory();
        self.call = Some(Call { ticket, message, payload, framed, is_sent, delivery, has_moved, memory });
        self.go_on();
    }

    /// Asks the server whether it lives, unless it is being asked.
    pub(super) fn probe(&mut self, limit: Duration) {
        if self.probe_until.is_none() {
            self.probe_until = Some(self.agenda.now() + Nanos::from(limit));
            self.is_asked = false;
            self.go_on();
        }
    }

    pub(super) fn server(&self) -> usize {
        self.server
    }

    /// Whether the slot has no call.
    pub(super) fn is_free(&self) -> bool {
        self.call.is_none()
    }

    /// Whether the slot has a connection that takes calls.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready(_))
    }

    /// Gives the call, the question whether the server lives, and the connection up.
    pub(super) fn give_up(&mut self) {
        if let Some(call) = self.call.take() {
            self.identity.client.borrow_mut().is_answered(call.ticket);
        }
        self.probe_until = None;
        self.break_off();
    }

    /// Bytes arrived, the connection broke, or a moment has come.
    pub(super) fn look(&mut self) -> Seen {
        let mut answered = None;
        if let Some(connection) = self.connection {
            let (bytes, has_ended) = self.network.receive_by_client(connection);
            if let Some(call) = self.call.as_mut().filter(|_| !bytes.is_empty()) {
                call.has_moved = true;
            }
            self.input.extend(bytes);
            while self.connection == Some(connection) {
                let Some((request, reply, payload)) = self.next_frame() else { break };
                answered = self.take(request, reply, payload).or(answered);
            }
            if self.connection == Some(connection) && has_ended {
                self.broke();
            }
        }
        let silence = if self.agenda.now() >= self.look_at { self.look_at_silence() } else { None };
        self.go_on();
        let refused = answered.or_else(|| self.refuse_if_lost()).or_else(|| self.refuse_if_forgotten());
        Seen { answer: refused, silence, told: self.told.take() }
    }

    /// A call through a description whose lock is lost is not sent, nor sent again.
    fn refuse_if_lost(&mut self) -> Option<(Ticket, Answered)> {
        let mut client = self.identity.client.borrow_mut();
        let is_lost =
            |call: &mut Call| !call.is_sent && of_bytes(&call.message).is_some_and(|of| client.has_lost(of));
        let ticket = self.call.take_if(is_lost)?.ticket;
        client.is_answered(ticket);
        Some((ticket, (Reply::Failed(LOCK_LOST), Vec::new())))
    }

    /// Whether the call is the long poll of a mount, and the server may have forgotten what the mount has.
    fn is_forgotten(&self) -> bool {
        self.call.as_ref().is_some_and(|call| {
            matches!(call.message, Request::Invalidations { .. }) && call.memory != self.standing.memory()
        })
    }

    /// A long poll fails, and its connection ends with it, so that its late reply finds nobody.
    fn refuse_if_forgotten(&mut self) -> Option<(Ticket, Answered)> {
        if !self.is_forgotten() {
            return None;
        }
        let Call { ticket, is_sent, .. } = self.call.take()?;
        if is_sent {
            self.break_off();
        }
        self.identity.client.borrow_mut().is_answered(ticket);
        Some((ticket, (Reply::Failed(FORGOTTEN), Vec::new())))
    }

    /// Gives up what has waited for too long. Returns for how long the server is to be asked whether it lives.
    fn look_at_silence(&mut self) -> Option<Duration> {
        let now = self.agenda.now();
        if self.probe_until.is_some_and(|until| now >= until) {
            self.probe_until = None;
            self.break_off();
            return None;
        }
        if matches!(&self.stage, Stage::Greeting(_, _, until) if now >= *until) {
            self.broke();
            return None;
        }
        let call = self.call.as_mut().filter(|call| call.is_sent)?;
        let has_moved = std::mem::take(&mut call.has_moved);
        match call.delivery.stalled(has_moved, &self.standing, Duration::from(now)) {
            Stall::Wait => self.rest(TICK),
            Stall::Probe(limit) => {
                self.rest(TICK);
                return Some(limit);
            }
            Stall::Lost(quiet) => {
                self.break_off();
                self.lose(quiet);
            }
        }
        None
    }

    /// The call lost its server. The program makes the call again.
    fn lose(&mut self, waited: Duration) {
        let now = self.now();
        if let Some(call) = &mut self.call {
            self.standing.lose(now, waited);
            call.delivery = Delivery::new(BOUNDS, now);
        }
        self.probe_until = None;
        self.stage = Stage::Down;
        self.rest(AGAIN);
    }

    /// Closes the connection.
    fn break_off(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.network.close(connection, Side::Client);
        }
        if matches!(std::mem::replace(&mut self.stage, Stage::Down), Stage::Ready(_)) {
            self.identity.client.borrow_mut().disconnected(self.server, self.agenda.now());
        }
        self.input.clear();
        self.is_asked = false;
        self.look_at = self.agenda.now();
        if let Some(call) = &mut self.call {
            call.is_sent = false;
        }
    }

    /// The attempt at a connection failed, or the connection broke.
    fn broke(&mut self) {
        let is_sent = self.call.as_ref().is_some_and(|call| call.is_sent);
        match std::mem::replace(&mut self.stage, Stage::Down) {
            Stage::Greeting(_, mut approach, _) => {
                self.break_off();
                match approach.failed(self.now()) {
                    Failed::Pause(pause) => {
                        self.stage = Stage::Paused(approach);
                        self.rest(Nanos::from(pause));
                    }
                    Failed::Over(waited) => self.lose(waited),
                }
            }
            stage => {
                self.stage = stage;
                self.break_off();
                if is_sent {
                    self.send_again();
                }
            }
        }
    }

    /// The connection of a call broke after the call was sent.
    fn send_again(&mut self) {
        let now = self.now();
        let Some(call) = &mut self.call else { return };
        match call.delivery.broke(&self.standing, now) {
            Break::Resend(pause, approach) => {
                self.stage = Stage::Paused(approach);
                self.rest(Nanos::from(pause));
            }
            Break::Lost | Break::Fail => self.lose(Duration::ZERO),
        }
    }

    fn rest(&mut self, length: Nanos) {
        self.look_at = self.agenda.now() + length;
        self.agenda.add(self.look_at, Happening::Look { session: self.number });
    }

    /// Does whatever can be done without an answer.
    fn go_on(&mut self) {
        let now = self.agenda.now();
        match std::mem::replace(&mut self.stage, Stage::Down) {
            Stage::Down => self.approach(),
            Stage::Paused(approach) if now >= self.look_at => self.attempt(approach),
            stage => self.stage = stage,
        }
        if !self.is_ready() {
            return;
        }
        if self.probe_until.is_some() && !std::mem::replace(&mut self.is_asked, true) {
            self.send(&Request::Ping);
        }
        self.send_call();
    }

    /// Begins to connect for a call, or to ask whether the server lives.
    fn approach(&mut self) {
        let now = self.now();
        if let Some(until) = self.probe_until {
            let once = Bounds { tries_again: false, ..BOUNDS };
            let approach = Approach::new(once, &self.standing, now, Duration::from(until));
            return self.attempt(approach);
        }
        if self.agenda.now() < self.look_at {
            return;
        }
        let Some(call) = &self.call else { return };
        match self.standing.fails_at_once(now) {
            true => self.rest(AGAIN),
            false => {
                let approach = call.delivery.approach(&self.standing, now);
                self.attempt(approach);
            }
        }
    }

    fn attempt(&mut self, mut approach: Approach) {
        let until = approach.attempt(self.now());
        let client = self.identity.client.borrow().id;
        self.connection = Some(self.network.connect(self.server, client, self.number));
        let guest = Guest {
            client,
            credential: Rc::clone(&self.identity.credential),
            slot: self.identity.slot,
            has_mount: false,
            nonce: self.draw(),
            binding: UNSEALED,
        };
        let (greeting, next) = Greeting::new(guest, ServerId(self.server as u16), &self.standing);
        let until = Nanos::from(until);
        self.stage = Stage::Greeting(Box::new(greeting), approach, until);
        self.rest(until.saturating_since(self.agenda.now()));
        self.greet(next);
    }

    /// Takes the next steps of the greeting.
    fn greet(&mut self, mut next: Greeted) {
        loop {
            let Stage::Greeting(greeting, ..) = &mut self.stage else { return };
            next = match next {
                Greeted::Ask(request) => return self.send(&request),
                Greeted::Claim(boot) => {
                    // From now on a reply of an earlier start gives nothing that would not be claimed.
                    self.standing.note_start(boot);
                    let holdings = self.identity.client.borrow_mut().holdings(self.server);
                    greeting.claim(Some(holdings), &self.standing)
                }
                Greeted::Lost(lock) => {
                    self.identity.client.borrow_mut().lose(self.server, &lock);
                    greeting.go_on()
                }
                Greeted::Ready(_, boot, fence) => {
                    fence.into_iter().for_each(|fence| self.standing.renew_fence(fence));
                    let life = self.connection.map(|connection| self.network.life(connection));
                    self.told = life.zip(fence);
                    self.standing.note_start(boot);
                    let now = self.agenda.now();
                    self.identity.client.borrow_mut().connected(self.server, now);
                    self.stage = Stage::Ready(boot);
                    let now = self.now();
                    if let Some(call) = &mut self.call {
                        call.delivery.connected(now);
                    }
                    return;
                }
                // A credential of another start: the peer, or this one, began anew.
                Greeted::Another(_) | Greeted::Unproved(_) | Greeted::Failed(_) => return self.broke(),
            };
        }
    }

    fn draw(&self) -> Nonce {
        let mut nonce = [0; 32];
        nonce.fill_with(|| self.agenda.below(256) as u8);
        nonce
    }

    /// Sends the call over the connection that is ready, unless that was done.
    fn send_call(&mut self) {
        if self.is_forgotten() {
            // The next look tells the task.
            return self.agenda.add(self.agenda.now(), Happening::Look { session: self.number });
        }
        let Some(call) = self.call.as_mut().filter(|call| !call.is_sent) else { return };
        let mut client = self.identity.client.borrow_mut();
        let capability = of_bytes(&call.message);
        if capability.is_some_and(|of| client.has_lost(of)) {
            // The next look tells the task.
            return self.agenda.add(self.agenda.now(), Happening::Look { session: self.number });
        }
        call.is_sent = true;
        call.delivery.connected(Duration::from(self.agenda.now()));
        let (_, frame) = call.framed.get_or_insert_with(|| {
            let request = client.take_request(call.ticket, self.server);
            let home = capability.map(|of| usize::from(of.ino.home().0));
            show_fence(&mut call.message, home.map_or(Fence::NONE, |home| client.standing(home).fence()));
            let numbers = (request, client.lowest_waiting(self.server));
            (request, framed(numbers, &call.message, &call.payload))
        });
        if let Some(connection) = self.connection {
            self.network.send_by_client(connection, frame);
        }
        drop(client);
        self.rest(TICK);
    }

    fn send(&self, message: &Request) {
        if let Some(connection) = self.connection {
            self.network.send_by_client(connection, &framed((RequestId(0), RequestId(0)), message, &[]));
        }
    }

    fn next_frame(&mut self) -> Option<(RequestId, Reply, Vec<u8>)> {
        let header = Header::decode(self.input.first_chunk::<HEADER_BYTES>()?).expect("a header");
        let body_end = HEADER_BYTES + header.body_bytes as usize;
        let end = body_end + header.payload_bytes as usize;
        if self.input.len() < end {
            return None;
        }
        let frame: Vec<u8> = self.input.drain(..end).collect();
        let body = &frame[HEADER_BYTES..body_end];
        assert_eq!(header.kind, Kind::Reply, "refused: {}", String::from_utf8_lossy(body));
        Some((header.request, decode_body(body, "reply").expect("a reply"), frame[body_end..].to_vec()))
    }

    /// Takes a reply of the greeting, or to the call.
    fn take(&mut self, request: RequestId, reply: Reply, payload: Vec<u8>) -> Option<(Ticket, Answered)> {
        let boot = match &mut self.stage {
            Stage::Greeting(greeting, ..) => {
                let next = greeting.take(reply);
                self.greet(next);
                return None;
            }
            Stage::Ready(boot) => *boot,
            Stage::Down | Stage::Paused(_) => return None,
        };
        self.standing.note_heard(self.now());
        if request == RequestId(0) {
            self.probe_until = None;
            return None;
        }
        // Another connection has found a later start, and claimed there what the client held without this.
        let is_holding = matches!(reply, Reply::Opened { .. } | Reply::Held { .. });
        if is_holding && self.identity.client.borrow_mut().boot(self.server) != boot {
            self.broke();
            return None;
        }
        // An answer of a request that was given up is of no use.
        let is_it = self.call.as_ref().is_some_and(|call| {
            call.is_sent && call.framed.as_ref().is_some_and(|(number, _)| *number == request)
        });
        let call = self.call.take_if(|_| is_it)?;
        self.identity.client.borrow_mut().is_answered(call.ticket);
        Some((call.ticket, (reply, payload)))
    }
}
/// The right by which a request reads or changes bytes.
fn of_bytes(message: &Request) -> Option<Capability> {
    match message {
        Request::Read { capability, .. }
        | Request::Write { capability, .. }
        | Request::Append { capability }
        | Request::AppendBegin { capability }
        | Request::Reserve { capability, .. } => Some(*capability),
        _ => None,
    }
}

fn show_fence(message: &mut Request, shown: Fence) {
    if let Request::Read { fence, .. } | Request::Write { fence, .. } | Request::Reserve { fence, .. } =
        message
    {
        *fence = shown;
    }
}

/// The frame of a request with its number and the lowest one that its client waits for.
fn framed((request, acknowledged): (RequestId, RequestId), message: &Request, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES];
    let body_bytes = encode_body(message, &mut frame) as u32;
    let (identity, payload_bytes) = (IdentityId(0), payload.len() as u32);
    let header = Header { kind: Kind::Request, body_bytes, payload_bytes, identity, request, acknowledged };
    frame[..HEADER_BYTES].copy_from_slice(&header.encode());
    frame.extend_from_slice(payload);
    frame
}
