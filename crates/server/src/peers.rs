//! The other servers: one thread each that carries requests over a blocking connection.
//!
//! Peers are few and their requests small, so a thread a peer keeps the event loop free of a second protocol role.

use crate::published;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_channel::SealedStream;
use weir_core::error::ServerError;
use weir_core::events::{Event, Events};
use weir_core::namespace::PeerFailure;
use weir_core::peers::line::{Ask, Lines, PeerAccess};
use weir_placement::ServerId;
use weir_wire::{
    decode_body, encode_body, limits, ChannelBinding, Header, IdentityId, Kind, Reply, Request, RequestId,
    ServerAddress, SessionBinding, HEADER_BYTES, UNSEALED,
};

/// Requests that may wait for one peer; beyond it the caller is told to try again.
const QUEUE_MAX: usize = 4096;
/// How long a peer may be silent before the connection counts as lost.
const SILENCE: Duration = Duration::from_secs(5);
/// Pause before connecting again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);
const STACK_BYTES: usize = 256 * 1024;

/// The lines of a server, by threads.
pub(crate) struct Threads {
    /// Folder of the whole store, where servers on this host leave their addresses.
    home: PathBuf,
    events: Events,
    peers: HashMap<ServerId, Peer>,
}

/// The sending side of one peer's thread.
struct Peer {
    queue: SyncSender<Waiting>,
    place: Place,
}

/// A question, and the moment at which tries end.
struct Waiting {
    ask: Ask,
    until: Instant,
}

/// The means of one peer's thread.
struct Means {
    server: ServerId,
    home: PathBuf,
    access: PeerAccess,
    place: Place,
    events: Events,
}

/// The address of a peer, which may change while its thread runs.
#[derive(Clone)]
struct Place(Arc<Mutex<Option<String>>>);

impl Place {
    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, address: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }
}

enum Line {
    Tcp(Box<SealedStream<TcpStream>>),
    Unix(UnixStream),
}

impl Threads {
    /// No line is open. Answers go to `events`.
    pub(crate) fn new(home: &Path, events: Events) -> Threads {
        Threads { home: home.to_path_buf(), events, peers: HashMap::new() }
    }
}

impl Lines for Threads {
    fn open(&mut self, server: ServerId, access: PeerAccess) -> Result<(), ServerError> {
        let (queue, receiver) = sync_channel(QUEUE_MAX);
        let place = Place(Arc::new(Mutex::new(access.configured.clone())));
        let (home, events) = (self.home.clone(), self.events.clone());
        let means = Means { server, home, access, place: place.clone(), events };
        std::thread::Builder::new()
            .name(format!("peer-{server}"))
            .stack_size(STACK_BYTES)
            .spawn(move || serve(&means, &receiver))
            .map_err(|source| ServerError::Loop { what: "start a peer thread", source })?;
        self.peers.insert(server, Peer { queue, place });
        Ok(())
    }

    fn redirect(&mut self, server: ServerId, address: String) {
        if let Some(peer) = self.peers.get(&server) {
            peer.place.set(address);
        }
    }

    fn ask(&mut self, server: ServerId, ask: Ask) {
        let question = ask.question;
        let until = Instant::now() + ask.patience;
        let queued = self.peers.get(&server).map(|peer| peer.queue.try_send(Waiting { ask, until }));
        if !matches!(queued, Some(Ok(()))) {
            self.events.send(Event::Peer { question, answer: Err(PeerFailure::Unreachable) });
        }
    }

    fn announced(&self, server: ServerId) -> Option<ServerAddress> {
        announced(&self.home, server).ok()
    }
}

fn serve(means: &Means, receiver: &Receiver<Waiting>) {
    let mut line: Option<Line> = None;
    let mut next = 1;
    while let Ok(Waiting { ask, until }) = receiver.recv() {
        let request = RequestId(next);
        next += 1;
        let answer = loop {
            if line.is_none() {
                line = connect(means).ok();
            }
            if let Some(connected) = &mut line {
                match exchange(connected, request, &Request::Peer(ask.request.clone()), &ask.payload) {
                    Ok((Reply::Peer(reply), payload)) => break Ok((reply, payload)),
                    Ok((Reply::Failed(errno), _)) => break Err(PeerFailure::Refused(errno)),
                    _ => line = None,
                }
            }
            if Instant::now() + RECONNECT_PAUSE >= until {
                break Err(PeerFailure::Unreachable);
            }
            std::thread::sleep(RECONNECT_PAUSE);
        };
        means.events.send(Event::Peer { question: ask.question, answer });
    }
}

/// The addresses of server `server` of the store in `home`, as it said itself.
///
/// # Errors
/// It has not started yet, or its file cannot be read.
fn announced(home: &Path, server: ServerId) -> io::Result<ServerAddress> {
    let text = std::fs::read_to_string(home.join(format!("servers/{server}/address.json")))?;
    serde_json::from_str(&text).map_err(io::Error::from)
}

fn connect(means: &Means) -> io::Result<Line> {
    let Means { server, home, access, place, .. } = means;
    let server = *server;
    let announced = announced(home, server).ok();
    if let Some(path) = announced.as_ref().and_then(|address| address.unix.as_ref()) {
        // A server that announced a Unix socket is reached there: whoever holds its port instead is not asked.
        return greeted(connect_unix(path)?, server, access);
    }
    // The file of the store says where `weir` found a server that has not told this one yet that it is elsewhere.
    let known = [announced.map(|address| address.tcp), place.get()];
    let listed = || published::listed(home, server);
    let mut tried: Vec<String> = Vec::new();
    let mut failure = io::ErrorKind::NotFound.into();
    for address in known.into_iter().flatten().chain(std::iter::from_fn(listed).take(1)) {
        if tried.contains(&address) {
            continue;
        }
        match connect_tcp(&address, server, access).and_then(|line| greeted(line, server, access)) {
            Ok(line) => return Ok(line),
            Err(error) => failure = error,
        }
        tried.push(address);
    }
    Err(failure)
}

fn greeted(mut line: Line, server: ServerId, access: &PeerAccess) -> io::Result<Line> {
    greet(&mut line, server, access)?;
    Ok(line)
}

fn connect_unix(path: &str) -> io::Result<Line> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    // The kernel tells who listens: the owner of this store, or the system that listens for it (systemd.socket(5)).
    let listener = crate::ports::peer_user(&stream)?;
    if listener != rustix::process::geteuid().as_raw() && listener != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(Line::Unix(stream))
}

fn connect_tcp(address: &str, server: ServerId, access: &PeerAccess) -> io::Result<Line> {
    let stream = TcpStream::connect_timeout(&crate::ports::resolve(address)?, SILENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    Ok(Line::Tcp(Box::new(SealedStream::open(stream, server, &access.credential)?)))
}

fn greet(line: &mut Line, server: ServerId, access: &PeerAccess) -> io::Result<()> {
    let mut nonce = [0; 32];
    rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
    let claims = access.credential.claims.clone();
    let hello =
        Request::Hello { client: access.client, slot: 0, claims, nonce, has_mount: false, is_new: true };
    let session = match exchange(line, RequestId(0), &hello, &[])?.0 {
        // At the address of a server that went elsewhere, another one may listen.
        Reply::Challenge { server: found, boot, nonce: theirs } if found == server => {
            SessionBinding::new(server, boot, (&nonce, &theirs), &line.binding())
        }
        _ => return Err(io::ErrorKind::PermissionDenied.into()),
    };
    let prove = Request::Prove { proof: access.credential.prove(&session) };
    match exchange(line, RequestId(0), &prove, &[])?.0 {
        Reply::Welcome { proof, .. } if access.credential.server_is_genuine(&session, &proof) => Ok(()),
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

fn exchange(
    line: &mut Line,
    request: RequestId,
    message: &Request,
    payload: &[u8],
) -> io::Result<(Reply, Vec<u8>)> {
    let mut frame = vec![0; HEADER_BYTES];
    let body_bytes = encode_body(message, &mut frame) as u32;
    let payload_bytes = payload.len() as u32;
    let identity = IdentityId(0);
    let header =
        Header { kind: Kind::Request, body_bytes, payload_bytes, identity, request, acknowledged: request };
    frame[..HEADER_BYTES].copy_from_slice(&header.encode());
    frame.extend_from_slice(payload);
    line.write_all(&frame)?;

    let invalid = |error: weir_wire::WireError| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut header_bytes = [0; HEADER_BYTES];
    line.read_exact(&mut header_bytes)?;
    let header = Header::decode(&header_bytes).map_err(invalid)?;
    if header.kind != Kind::Reply || header.payload_bytes as usize > limits::PAYLOAD_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; header.body_bytes as usize];
    line.read_exact(&mut body)?;
    let mut payload = vec![0; header.payload_bytes as usize];
    line.read_exact(&mut payload)?;
    Ok((decode_body(&body, "reply").map_err(invalid)?, payload))
}

impl Line {
    fn binding(&self) -> ChannelBinding {
        match self {
            Line::Tcp(stream) => *stream.binding(),
            Line::Unix(_) => UNSEALED,
        }
    }
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Line::Tcp(stream) => stream.read(buffer),
            Line::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Line {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Line::Tcp(stream) => stream.write(buffer),
            Line::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
