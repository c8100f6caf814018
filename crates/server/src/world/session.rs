//! The client's side of a connection: it greets, claims what it held, sends one request at a time, and sends it again over a
//! new connection where one broke.

use super::agenda::{Agenda, Happening};
use super::network::{Network, Side};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_wire::{
    decode_body, encode_body, Capability, ClientId, Credential, HandleId, Header, IdentityId, Ino, Kind,
    Nonce, Reply, Request, RequestId, SessionBinding, HEADER_BYTES, UNSEALED,
};

/// How long a server may be silent while a request waits, as for clients and peers of the product.
const SILENCE: Nanos = Nanos::from_millis(5_000);
/// The longest pause before connecting again.
const PAUSE: Nanos = Nanos::from_millis(20);

/// The descriptions that a client has open, by their files and handles.
pub(super) type Holdings = Rc<RefCell<BTreeMap<(Ino, HandleId), Capability>>>;

/// The identity of a client at a server.
pub(super) struct Identity {
    pub(super) credential: Credential,
    pub(super) client: ClientId,
    pub(super) slot: u16,
    pub(super) holdings: Holdings,
}

enum Stage {
    Down,
    Greeting(Nonce),
    Proving(SessionBinding),
    Claiming(VecDeque<Request>),
    Ready,
}

/// A request, and whether its answer is awaited on the connection that holds.
struct Call {
    request: RequestId,
    frame: Vec<u8>,
    is_sent: bool,
}

/// A client's line to one server.
pub(super) struct Session {
    number: usize,
    server: usize,
    identity: Identity,
    network: Network,
    agenda: Agenda,
    connection: Option<usize>,
    stage: Stage,
    input: Vec<u8>,
    call: Option<Call>,
    has_met: bool,
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
            stage: Stage::Down,
            input: Vec::new(),
            call: None,
            has_met: false,
            look_at: Nanos::ZERO,
        }
    }

    /// Begins a call.
    pub(super) fn begin(&mut self, request: RequestId, message: &Request, payload: &[u8]) {
        assert!(self.call.is_none(), "one call at a time");
        self.call = Some(Call { request, frame: framed(request, message, payload), is_sent: false });
        self.go_on();
    }

    /// Gives the call and its connection up.
    pub(super) fn give_up(&mut self) {
        self.call = None;
        self.drop_connection();
    }

    /// Bytes arrived, the connection broke, or a moment has come.
    pub(super) fn look(&mut self) -> Option<Answered> {
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
        answered
    }

    fn awaits(&self) -> bool {
        !matches!(self.stage, Stage::Ready | Stage::Down)
            || self.call.as_ref().is_some_and(|call| call.is_sent)
    }

    fn drop_connection(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.network.close(connection, Side::Client);
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
            (Stage::Down, Some(_)) if self.agenda.now() >= self.look_at => {
                self.connection = Some(self.network.connect(self.server, self.number));
                let nonce = self.draw();
                let Identity { credential, client, slot, .. } = &self.identity;
                let (client, slot, claims) = (*client, *slot, credential.claims.clone());
                let is_new = !self.has_met;
                self.stage = Stage::Greeting(nonce);
                self.send(&Request::Hello { client, slot, claims, nonce, has_mount: false, is_new });
                self.rest(SILENCE);
            }
            (Stage::Ready, Some(call)) if !call.is_sent => {
                call.is_sent = true;
                let frame = call.frame.clone();
                if let Some(connection) = self.connection {
                    self.network.send_by_client(connection, &frame);
                }
                self.rest(SILENCE);
            }
            _ => {}
        }
    }

    fn draw(&self) -> Nonce {
        let mut nonce = [0; 32];
        nonce.fill_with(|| self.agenda.below(256) as u8);
        nonce
    }

    fn send(&self, message: &Request) {
        if let Some(connection) = self.connection {
            self.network.send_by_client(connection, &framed(RequestId(0), message, &[]));
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
    fn take(&mut self, request: RequestId, reply: Reply, payload: Vec<u8>) -> Option<Answered> {
        match (&mut self.stage, reply) {
            (Stage::Greeting(nonce), Reply::Challenge { server, boot, nonce: theirs }) => {
                assert_eq!(server, ServerId(self.server as u16));
                let session = SessionBinding::new(server, boot, (&*nonce, &theirs), &UNSEALED);
                let proof = self.identity.credential.prove(&session);
                self.stage = Stage::Proving(session);
                self.send(&Request::Prove { proof });
            }
            (Stage::Proving(session), Reply::Welcome { proof, is_known }) => {
                assert!(self.identity.credential.server_is_genuine(session, &proof));
                self.has_met = true;
                let mut claims = VecDeque::new();
                if !is_known {
                    let held = self.identity.holdings.borrow();
                    let home = |capability: &&Capability| usize::from(capability.ino.home().0) == self.server;
                    let handles: Vec<Capability> = held.values().filter(home).copied().collect();
                    if !handles.is_empty() {
                        claims.push_back(Request::Reclaim { handles });
                    }
                    claims.push_back(Request::Reclaim { handles: Vec::new() });
                }
                self.stage = Stage::Claiming(claims);
                self.claim();
            }
            (Stage::Claiming(_), _) => self.claim(),
            (Stage::Ready, reply) => {
                let is_it = self.call.as_ref().is_some_and(|call| call.is_sent && call.request == request);
                // An answer of a request that was given up is of no use.
                if is_it {
                    self.call = None;
                    return Some((reply, payload));
                }
            }
            // A credential of another start: the peer, or this one, began anew.
            (_, _) => self.drop_connection(),
        }
        None
    }

    /// Sends the next claim, or is ready.
    fn claim(&mut self) {
        let Stage::Claiming(claims) = &mut self.stage else { return };
        match claims.pop_front() {
            Some(claim) => self.send(&claim),
            None => self.stage = Stage::Ready,
        }
    }
}

/// The frame of a request. Everything before it is answered, as there is one call at a time.
fn framed(request: RequestId, message: &Request, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES];
    let body_bytes = encode_body(message, &mut frame) as u32;
    let (identity, payload_bytes) = (IdentityId(0), payload.len() as u32);
    let header =
        Header { kind: Kind::Request, body_bytes, payload_bytes, identity, request, acknowledged: request };
    frame[..HEADER_BYTES].copy_from_slice(&header.encode());
    frame.extend_from_slice(payload);
    frame
}
