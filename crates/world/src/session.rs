//! The client's side of a connection: it greets, claims what the client held, sends one request at a time, and sends it again
//! over a new connection where one broke.

use super::agenda::{Agenda, Happening, Side};
use super::client::{Claim, Shared, Ticket};
use super::network::Network;
use std::collections::VecDeque;
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_wire::{
    decode_body, encode_body, Capability, Credential, Errno, Fence, Header, IdentityId, Kind, Nonce, Reply,
    Request, RequestId, SessionBinding, HEADER_BYTES, UNSEALED,
};

/// How long a server may be silent while a request waits, as for clients and peers of the product.
const SILENCE: Nanos = Nanos::from_millis(5_000);
/// The longest pause before connecting again.
const PAUSE: Nanos = Nanos::from_millis(20);

/// The answer to a call that was not sent, as the lock of its description is lost. No server answers it.
pub(super) const LOCK_LOST: Errno = Errno(u16::MAX);

/// The identity of a client at a server.
pub(super) struct Identity {
    pub(super) credential: Credential,
    pub(super) client: Shared,
    pub(super) slot: u16,
}

enum Stage {
    Down,
    Greeting(Nonce),
    Proving(SessionBinding),
    Claiming(VecDeque<Claim>),
    Ready,
}

/// A request, and whether its answer is awaited on the connection that holds.
struct Call {
    ticket: Ticket,
    message: Request,
    payload: Vec<u8>,
    /// Its number and bytes, from its first sending on.
    framed: Option<(RequestId, Vec<u8>)>,
    is_sent: bool,
}

/// A slot of a client for one server, with one call at a time.
pub(super) struct Session {
    number: usize,
    server: usize,
    identity: Identity,
    network: Network,
    agenda: Agenda,
    connection: Option<usize>,
    /// The start of the server that has the connection.
    boot: u64,
    stage: Stage,
    input: Vec<u8>,
    call: Option<Call>,
    /// The moment of the next try, or of the end of a silence.
    look_at: Nanos,
}

/// The reply to a call, with its payload.
pub(super) type Answered = (Reply, Vec<u8>);

impl Session {
    pub(super) fn new(
        number: usize,
        server: usize,
        identity: Identity,
        (network, agenda): (&Network, &Agenda),
    ) -> Session {
        Session {
            number,
            server,
            identity,
            network: network.clone(),
            agenda: agenda.clone(),
            connection: None,
            boot: 0,
            stage: Stage::Down,
            input: Vec::new(),
            call: None,
            look_at: Nanos::ZERO,
        }
    }

    /// Begins a call.
    pub(super) fn begin(&mut self, ticket: Ticket, message: Request, payload: Vec<u8>) {
        assert!(self.call.is_none(), "one call at a time");
        self.call = Some(Call { ticket, message, payload, framed: None, is_sent: false });
        self.go_on();
    }

    /// Whether the slot has no call.
    pub(super) fn is_free(&self) -> bool {
        self.call.is_none()
    }

    /// Whether the slot has a connection that takes calls.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    /// Gives the call and its connection up.
    pub(super) fn give_up(&mut self) {
        if let Some(call) = self.call.take() {
            self.identity.client.borrow_mut().is_answered(call.ticket);
        }
        self.drop_connection();
    }

    /// Bytes arrived, the connection broke, or a moment has come.
    pub(super) fn look(&mut self) -> Option<(Ticket, Answered)> {
        let mut answered = None;
        if let Some(connection) = self.connection {
            let (bytes, has_ended) = self.network.receive_by_client(connection);
            self.input.extend(bytes);
            while let Some((request, reply, payload)) = self.next_frame() {
                self.rest(SILENCE);
                answered = self.take(request, reply, payload).or(answered);
            }
            let is_silent = self.agenda.now() >= self.look_at && self.awaits();
            if self.connection.is_some() && (has_ended || is_silent) {
                self.drop_connection();
            }
        }
        self.go_on();
        answered.or_else(|| self.refuse_if_lost())
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

    fn awaits(&self) -> bool {
        !matches!(self.stage, Stage::Ready | Stage::Down)
            || self.call.as_ref().is_some_and(|call| call.is_sent)
    }

    fn drop_connection(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.network.close(connection, Side::Client);
            self.identity.client.borrow_mut().broke(self.server);
        }
        if matches!(self.stage, Stage::Claiming(_)) {
            self.identity.client.borrow_mut().claims_end(self.server);
        }
        self.stage = Stage::Down;
        self.input.clear();
        if let Some(call) = &mut self.call {
            call.is_sent = false;
        }
        let pause = Nanos(1 + self.agenda.below(PAUSE.0));
        self.rest(pause);
    }

    fn rest(&mut self, length: Nanos) {
        self.look_at = self.agenda.now() + length;
        self.agenda.add(self.look_at, Happening::Look { session: self.number });
    }

    /// Does whatever can be done without an answer.
    fn go_on(&mut self) {
        match (&self.stage, &mut self.call) {
            (Stage::Down, Some(_)) if self.agenda.now() >= self.look_at => self.connect(),
            (Stage::Ready, Some(call)) if !call.is_sent => {
                let mut client = self.identity.client.borrow_mut();
                let capability = of_bytes(&call.message);
                if capability.is_some_and(|of| client.has_lost(of)) {
                    // The next look tells the task.
                    return self.agenda.add(self.agenda.now(), Happening::Look { session: self.number });
                }
                call.is_sent = true;
                let (_, frame) = call.framed.get_or_insert_with(|| {
                    let request = client.take_request(call.ticket, self.server);
                    let fence = capability.map(|of| client.fence(usize::from(of.ino.home().0)));
                    show_fence(&mut call.message, fence.unwrap_or(Fence::NONE));
                    let numbers = (request, client.lowest_waiting(self.server));
                    (request, framed(numbers, &call.message, &call.payload))
                });
                if let Some(connection) = self.connection {
                    self.network.send_by_client(connection, frame);
                }
                drop(client);
                self.rest(SILENCE);
            }
            _ => {}
        }
    }

    fn connect(&mut self) {
        let (client, is_new) = {
            let client = self.identity.client.borrow();
            (client.id, !client.has_met(self.server))
        };
        self.connection = Some(self.network.connect(self.server, client, self.number));
        let nonce = self.draw();
        let (slot, claims) = (self.identity.slot, self.identity.credential.claims.clone());
        self.stage = Stage::Greeting(nonce);
        self.send(&Request::Hello { client, slot, claims, nonce, has_mount: false, is_new });
        self.rest(SILENCE);
    }

    fn draw(&self) -> Nonce {
        let mut nonce = [0; 32];
        nonce.fill_with(|| self.agenda.below(256) as u8);
        nonce
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

    /// Takes a reply of the handshake, or to the call.
    fn take(&mut self, request: RequestId, reply: Reply, payload: Vec<u8>) -> Option<(Ticket, Answered)> {
        match (&mut self.stage, reply) {
            (Stage::Greeting(nonce), Reply::Challenge { server, boot, nonce: theirs }) => {
                assert_eq!(server, ServerId(self.server as u16));
                self.boot = boot;
                let session = SessionBinding::new(server, boot, (&*nonce, &theirs), &UNSEALED);
                let proof = self.identity.credential.prove(&session);
                self.stage = Stage::Proving(session);
                self.send(&Request::Prove { proof });
            }
            (Stage::Proving(session), Reply::Welcome { proof, is_known }) => {
                assert!(self.identity.credential.server_is_genuine(session, &proof));
                let mut client = self.identity.client.borrow_mut();
                // From now on a reply of an earlier start gives nothing that would not be claimed.
                client.meets(self.server, self.boot);
                let claims = if is_known { VecDeque::new() } else { client.claims(self.server) };
                client.claims_begin(self.server);
                drop(client);
                self.stage = Stage::Claiming(claims);
                self.claim();
            }
            (Stage::Claiming(claims), reply) => {
                if let Some(claim) = claims.pop_front() {
                    self.identity.client.borrow_mut().claimed(self.server, &claim, &reply);
                }
                self.claim();
            }
            (Stage::Ready, reply) => {
                // Another connection has found a later start, and claimed there what the client held without this.
                let is_holding = matches!(reply, Reply::Opened { .. } | Reply::Held { .. });
                if is_holding && self.identity.client.borrow().boot(self.server) != Some(self.boot) {
                    self.drop_connection();
                    return None;
                }
                // An answer of a request that was given up is of no use.
                let is_it = self.call.as_ref().is_some_and(|call| {
                    call.is_sent && call.framed.as_ref().is_some_and(|(number, _)| *number == request)
                });
                if let Some(call) = self.call.take_if(|_| is_it) {
                    self.identity.client.borrow_mut().is_answered(call.ticket);
                    return Some((call.ticket, (reply, payload)));
                }
            }
            // A credential of another start: the peer, or this one, began anew.
            (_, _) => self.drop_connection(),
        }
        None
    }

    /// Sends the next claim, or is ready.
    fn claim(&mut self) {
        let Stage::Claiming(claims) = &self.stage else { return };
        match claims.front().map(Claim::request) {
            Some(claim) => self.send(&claim),
            None => {
                self.identity.client.borrow_mut().claims_end(self.server);
                self.stage = Stage::Ready;
            }
        }
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
