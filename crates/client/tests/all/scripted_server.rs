//! A server whose answers a test scripts: real frames over a real Unix socket, with the real handshake.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_client::wire::*;
use weir_client::{Settings, Store};
use weir_placement::{Layout, ServerId, TargetId};
use weir_testing::{claims, key, write_private};

/// The action of a script for a request.
pub(crate) enum Answer {
    /// Sends a reply with a payload.
    Send(Reply, Vec<u8>),
    /// Stays silent for a while, then replies.
    Late(Duration, Reply),
    /// Stays silent until the flag is set, then replies.
    Once(Arc<AtomicBool>, Reply),
    /// Stays silent.
    Silence,
    /// Closes the connection.
    HangUp,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer::Send(reply, Vec::new())
    }
}

/// The answer of a server that carries everything out which has no content to answer.
pub(crate) fn carried_out(request: &Request) -> Answer {
    match request {
        Request::Lock { .. } | Request::Reclaim { .. } | Request::Fence => {
            Reply::Held { fence: Fence(1) }.into()
        }
        _ => Reply::Done.into(),
    }
}

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) client: ClientId,
    pub(crate) connection: u64,
    pub(crate) id: u64,
    pub(crate) acknowledged: u64,
    pub(crate) identity: u32,
    pub(crate) request: Request,
    pub(crate) payload: Vec<u8>,
}

type Script = dyn Fn(&Arrived) -> Answer + Send + Sync;

pub(crate) struct FakeServer {
    pub(crate) server: ServerId,
    pub(crate) path: PathBuf,
    pub(crate) boot: Arc<AtomicU64>,
    pub(crate) log: Arc<Mutex<Vec<Arrived>>>,
}

impl FakeServer {
    pub(crate) fn start(
        folder: &Path,
        number: u16,
        script: impl Fn(&Arrived) -> Answer + Send + Sync + 'static,
    ) -> FakeServer {
        FakeServer::start_with_key(folder, number, key(), script)
    }

    pub(crate) fn start_with_key(
        folder: &Path,
        number: u16,
        key: SiteKey,
        script: impl Fn(&Arrived) -> Answer + Send + Sync + 'static,
    ) -> FakeServer {
        let path = folder.join(format!("server-{number}"));
        let listener = UnixListener::bind(&path).expect("a fresh path");
        let (boot, log) = (Arc::new(AtomicU64::new(1)), Arc::new(Mutex::new(Vec::new())));
        let fake = FakeServer { server: ServerId(number), path, boot: boot.clone(), log: log.clone() };
        let script: Arc<Script> = Arc::new(script);
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let Ok(stream) = stream else { return };
                let (boot, log, script, key) = (boot.clone(), log.clone(), script.clone(), key.clone());
                std::thread::spawn(move || {
                    let _ = serve(stream, connection as u64, ServerId(number), &key, &boot, &log, &*script);
                });
            }
        });
        fake
    }

    /// The requests that arrived after the handshakes.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log
            .lock()
            .expect("no panic in the server")
            .iter()
            .map(|arrived| arrived.request.clone())
            .collect()
    }
}

fn serve(
    mut stream: UnixStream,
    connection: u64,
    server: ServerId,
    key: &SiteKey,
    boot: &AtomicU64,
    log: &Mutex<Vec<Arrived>>,
    script: &Script,
) -> std::io::Result<()> {
    let mut hello = None;
    let server_nonce = [5; 32];
    loop {
        let (header, request, payload) = receive(&mut stream)?;
        let answer: Answer = match (&request, &hello) {
            (Request::Hello { client, claims, nonce, .. }, _) => {
                let boot = boot.load(Ordering::SeqCst);
                let session = SessionBinding::new(server, boot, (nonce, &server_nonce), &UNSEALED);
                hello = Some((*client, claims.clone(), boot, session));
                Reply::Challenge { server, boot, nonce: server_nonce }.into()
            }
            (Request::Prove { proof }, Some((_, claims, boot, session))) => {
                if *proof == key.expected_proof(claims, session) {
                    let proof = key.server_proof(claims, session);
                    Reply::Welcome { proof, is_known: *boot == 1 }.into()
                } else {
                    Reply::Failed(Errno(libc::EACCES as u16)).into()
                }
            }
            (_, Some((client, ..))) => {
                let arrived = Arrived {
                    client: *client,
                    connection,
                    id: header.request.0,
                    acknowledged: header.acknowledged.0,
                    identity: header.identity.0,
                    request: request.clone(),
                    payload,
                };
                if !matches!(request, Request::Ping) {
                    log.lock().expect("no panic in the server").push(arrived.clone());
                }
                script(&arrived)
            }
            _ => Answer::HangUp,
        };
        match answer {
            Answer::Send(reply, payload) => send(&mut stream, header.request, &reply, &payload)?,
            Answer::Late(delay, reply) => {
                std::thread::sleep(delay);
                send(&mut stream, header.request, &reply, &[])?;
            }
            Answer::Once(flag, reply) => {
                while !flag.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(2));
                }
                send(&mut stream, header.request, &reply, &[])?;
            }
            Answer::Silence => {}
            Answer::HangUp => return Ok(()),
        }
    }
}

fn receive(stream: &mut UnixStream) -> std::io::Result<(Header, Request, Vec<u8>)> {
    let mut bytes = [0; HEADER_BYTES];
    stream.read_exact(&mut bytes)?;
    let header = Header::decode(&bytes).expect("the client sends proper headers");
    assert_eq!(header.kind, Kind::Request);
    let mut body = vec![0; header.body_bytes as usize];
    stream.read_exact(&mut body)?;
    let mut payload = vec![0; header.payload_bytes as usize];
    stream.read_exact(&mut payload)?;
    Ok((header, decode_body(&body, "request").expect("the client sends proper requests"), payload))
}

fn send(stream: &mut UnixStream, request: RequestId, reply: &Reply, payload: &[u8]) -> std::io::Result<()> {
    let mut frame = vec![0; HEADER_BYTES];
    let body_bytes = encode_body(reply, &mut frame) as u32;
    let header = Header {
        kind: Kind::Reply,
        body_bytes,
        payload_bytes: payload.len() as u32,
        identity: IdentityId(0),
        request,
        acknowledged: RequestId(0),
    };
    frame[..HEADER_BYTES].copy_from_slice(&header.encode());
    frame.extend_from_slice(payload);
    stream.write_all(&frame)
}

/// A store of these servers with this bound on their silence.
pub(crate) fn store(folder: &Path, servers: &[&FakeServer], silence: Duration) -> Store {
    let owner = rustix::process::geteuid().as_raw();
    let listed: Vec<String> = servers
        .iter()
        .map(|fake| {
            format!(
                r#"{{"server":{},"tcp":"127.0.0.1:1","unix":"{}","owner":{owner},"control":"127.0.0.1:1"}}"#,
                fake.server,
                fake.path.display()
            )
        })
        .collect();
    let cluster = folder.join("cluster.json");
    std::fs::write(&cluster, format!(r#"{{"version":1,"servers":[{}]}}"#, listed.join(",")))
        .expect("written");
    let credential = folder.join("credential.json");
    let claims = Claims { role: Role::Mount, ..claims(1000) };
    write_private(&credential, &key().mint(claims).to_json(), None);
    let mut settings = Settings::explicit(cluster, credential, Some("/weir".into()));
    settings.silence = silence;
    Store::new(settings)
}

pub(crate) fn target(server: u16, index: u16) -> TargetId {
    TargetId { server: ServerId(server), index }
}

pub(crate) fn attributes(ino: Ino, kind: FileKind, size_bytes: u64, epoch: u64) -> Attributes {
    let moment = Moment { seconds: 0, nanoseconds: 0 };
    Attributes {
        ino,
        kind,
        permissions: 0o644,
        links: 1,
        uid: 0,
        gid: 0,
        device: 0,
        size_bytes,
        allocated_bytes: 0,
        accessed: moment,
        modified: moment,
        changed: moment,
        created: moment,
        epoch,
        layout_epoch: 0,
        version: 0,
    }
}

/// The right of root to read and write a file through a description.
pub(crate) fn capability(ino: Ino, handle: HandleId) -> weir_client::wire::Capability {
    key().capability(Description { ino, handle, uid: 0 }, Rights { read: true, write: true }, 0)
}

/// The state of a file as a mount would hand it over.
pub(crate) fn state(ino: Ino, layout: Layout, size_bytes: u64, epoch: u64) -> weir_client::HandleState {
    weir_client::HandleState {
        ino,
        handle: HandleId(3),
        capability: capability(ino, HandleId(3)),
        layout,
        append: false,
        layout_epoch: 0,
        size_bytes,
        epoch,
    }
}
