//! Somebody between clients and servers: whoever holds a dead server's port, or passes bytes on and alters them, becomes nobody.

use crate::files::{grant, open, read_all, CALLER};
use std::io::{IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_client::wire::*;
use weir_client::{File, Place, Settings, Store, TransportChoice};
use weir_placement::ServerId;
use weir_testing::{
    claims, key, random_client, servers, wait_until, Choices, Cluster, Connection, Line, READ_WRITE,
};

/// Bytes of a flight before the claims: the magic, the server's number, the length of the claims.
const NUMBER_AT: usize = 6;

/// The direction of bytes through a relay.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

/// A stranger who listens at one address, passes all bytes on to another, and may alter them: `alter` gets the way, the place of the
/// first byte in the connection's stream of that way, and the bytes.
struct Relay {
    address: String,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Relay {
    fn start(
        listener: TcpListener,
        to: String,
        alter: impl Fn(Way, usize, &mut [u8]) + Send + Sync + 'static,
    ) -> Relay {
        let address = listener.local_addr().expect("an address").to_string();
        let (seen, alter) = (Arc::new(Mutex::new(Vec::new())), Arc::new(alter));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&to) else { continue };
                let pairs = [
                    (Way::ToServer, client.try_clone(), server.try_clone()),
                    (Way::ToClient, Ok(server), Ok(client)),
                ];
                for (way, from, to) in pairs {
                    let (alter, log) = (Arc::clone(&alter), Arc::clone(&log));
                    let (from, to) = (from.expect("a socket"), to.expect("a socket"));
                    std::thread::spawn(move || pass_on(way, from, to, &*alter, &log));
                }
            }
        });
        Relay { address, seen }
    }

    /// A relay that alters nothing.
    fn honest(to: String) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        Relay::start(listener, to, |_, _, _| {})
    }
}

fn pass_on(
    way: Way,
    mut from: TcpStream,
    mut to: TcpStream,
    alter: &dyn Fn(Way, usize, &mut [u8]),
    log: &Mutex<Vec<u8>>,
) {
    let (mut buffer, mut place) = (vec![0; 64 * 1024], 0);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        log.lock().expect("no panic in a relay").extend_from_slice(&buffer[..count]);
        alter(way, place, &mut buffer[..count]);
        place += count;
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}

/// A store that finds its servers at these addresses, over TCP.
fn store_at(cluster: &Cluster, tcp: &[String], silence: Duration) -> Store {
    let addresses = tcp.iter().enumerate().map(|(server, tcp)| {
        serde_json::json!({ "server": server, "tcp": tcp, "unix": null, "owner": 0, "control": tcp })
    });
    let document = serde_json::json!({ "version": 1, "servers": addresses.collect::<Vec<_>>() });
    let path = cluster.folder().join("relayed.json");
    std::fs::write(&path, document.to_string()).expect("written");
    grant(cluster, "credential", u64::MAX / 2);
    let mut settings = Settings::explicit(path, cluster.folder().join("credential.json"), None);
    (settings.transport, settings.silence) = (TransportChoice::Tcp, silence);
    Store::new(settings)
}

/// Makes a call until it passes: each of its attempts may have met an alteration.
fn persist(what: &str, mut call: impl FnMut() -> weir_client::Result<()>) {
    wait_until(what, || match call() {
        Ok(()) => true,
        Err(error) if error.errno() == libc::EIO => false,
        Err(error) => panic!("{what}: {error}"),
    });
}

/// While server 1 is down, a user binds its port and passes everything on to server 0, as it is and with the number rewritten. No role
/// gets a session that way, and server 0 gives none to the user.
#[test]
fn whoever_holds_a_dead_servers_port_becomes_nobody() {
    let mut cluster = Cluster::start(&servers(2, 1, "ram", "64MiB"));
    let (dead, living) = (cluster.address(1).tcp, cluster.address(0).tcp);
    cluster.kill_server(1);
    let rewritten = Arc::new(AtomicBool::new(false));
    let rewrites = Arc::clone(&rewritten);
    let listener = TcpListener::bind(&dead).expect("the port of a dead server is anybody's");
    let relay = Relay::start(listener, living, move |way, place, bytes| {
        if rewrites.load(Ordering::SeqCst) && way == Way::ToServer && place == 0 {
            bytes[NUMBER_AT] = 0;
        }
    });
    for is_rewritten in [false, true] {
        rewritten.store(is_rewritten, Ordering::SeqCst);
        for role in [Role::Mount, Role::Server, Role::User] {
            let job = if role == Role::Server { "server-1" } else { "mount" };
            let credential = key().mint(Claims { role, job: job.into(), ..claims(0) });
            let connection = Connection::tcp(&relay.address, ServerId(1));
            let refused = Line::prove(connection, &credential, random_client()).err();
            assert_eq!(refused, Some(None), "{role:?}, rewritten: {is_rewritten}");
        }
    }
    let log = cluster.log(0);
    assert!(log.contains("the connection was meant for server 1, and this is server 0"), "{log}");
    assert!(log.contains("the other side does not know the key"), "{log}");
    let jobs = cluster.show(0, "/v1/jobs");
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(0), "a session was made: {jobs}");
}

/// A stranger's word at the port is no answer: calls wait for the server as if the port were dead, and go on when it is back.
#[test]
fn a_stranger_at_the_port_ends_no_wait() {
    let mut cluster = Cluster::start(&servers(1, 1, "ram", "64MiB"));
    let refusal = {
        let reason = b"the credential is forged, altered or expired";
        let header = Header {
            kind: Kind::Refusal,
            body_bytes: reason.len() as u32,
            payload_bytes: 0,
            identity: IdentityId(0),
            request: RequestId(0),
            acknowledged: RequestId(0),
        };
        [&header.encode()[..], reason].concat()
    };
    let stranger = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (at, living) = (stranger.local_addr().expect("an address").to_string(), cluster.address(0).tcp);
    let target = Arc::new(Mutex::new(None::<String>));
    let (now, met) = (Arc::clone(&target), Arc::new(AtomicU64::new(0)));
    let meetings = Arc::clone(&met);
    std::thread::spawn(move || {
        for client in stranger.incoming().map_while(Result::ok) {
            let to = now.lock().expect("no panic").clone();
            match to {
                None => {
                    meetings.fetch_add(1, Ordering::SeqCst);
                    let _ = (&client).write_all(&refusal);
                }
                Some(to) => {
                    let server = TcpStream::connect(to).expect("it listens");
                    let log = Mutex::new(Vec::new());
                    let (back, forth) = (server.try_clone(), client.try_clone());
                    let (back, forth) = (back.expect("a socket"), forth.expect("a socket"));
                    std::thread::spawn(move || pass_on(Way::ToClient, back, forth, &|_, _, _| {}, &log));
                    let log = Mutex::new(Vec::new());
                    std::thread::spawn(move || pass_on(Way::ToServer, client, server, &|_, _, _| {}, &log));
                }
            }
        }
    });
    let hasty = store_at(&cluster, std::slice::from_ref(&at), Duration::from_secs(1));
    let lost =
        hasty.attributes(&CALLER, Place::root(b"made"), true).expect_err("the server is away").to_string();
    assert!(lost.contains("what listens at its address did not prove to be this server"), "{lost}");
    let store = store_at(&cluster, &[at], Duration::from_secs(120));
    std::thread::scope(|scope| {
        let call =
            scope.spawn(|| store.make(&CALLER, Place::root(b"made"), NodeKind::Directory, 0o755).map(|_| ()));
        wait_until("the client has met the stranger twice", || {
            assert!(!call.is_finished(), "the stranger's word was taken");
            met.load(Ordering::SeqCst) >= 2
        });
        *target.lock().expect("no panic") = Some(living);
        call.join().expect("no panic").expect("the server is back");
    });
    cluster.assert_running(0);
}

/// A host in the middle alters single bits, at random places of both ways. Nothing that it altered is carried out or shown: the
/// connection ends, the client asks anew, and all bytes are those of a model at the end.
#[test]
fn altered_bits_are_neither_carried_out_nor_shown() {
    const ROUNDS: u64 = 60;
    const REACH: u64 = 600_000;
    let mut cluster = Cluster::start(&servers(2, 2, "ram", "64MiB"));
    let mut choices = Choices::new();
    let alterations = Arc::new(AtomicU64::new(0));
    let relays: Vec<Relay> = (0..2)
        .map(|server| {
            let (count, own) = (Arc::clone(&alterations), Mutex::new(choices.branch()));
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            Relay::start(listener, cluster.address(server).tcp, move |_, _, bytes| {
                let mut own = own.lock().expect("no panic");
                // Most bytes pass, or no call would ever end.
                if own.below(12) == 0 {
                    let at = own.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << own.below(8);
                    count.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let addresses: Vec<String> = relays.iter().map(|relay| relay.address.clone()).collect();
    let store = store_at(&cluster, &addresses, Duration::from_secs(120));
    let mut model = vec![0; REACH as usize];
    let mut opened = None;
    persist("the file is opened", || {
        opened = Some(store.open(&CALLER, Place::root(b"file"), READ_WRITE, 0o644)?);
        Ok(())
    });
    let file = File::new(&store, opened.expect("opened"), false).expect("a regular file");
    for _ in 0..ROUNDS {
        let offset = choices.below(REACH - 1);
        let length = 1 + choices.below((REACH - offset).min(200_000)) as usize;
        let data = choices.data(length);
        persist("a round writes", || {
            let written = file.write_at(&CALLER, &[IoSlice::new(&data)], offset)?;
            assert_eq!(written, length);
            Ok(())
        });
        model[offset as usize..offset as usize + length].copy_from_slice(&data);
    }
    let direct =
        store_at(&cluster, &[0, 1].map(|server| cluster.address(server).tcp), Duration::from_secs(120));
    let found = read_all(&open(&direct, "file", false), model.len() + 1);
    assert!(model.starts_with(&found), "bytes are there that nobody wrote");
    assert!(model[found.len()..].iter().all(|byte| *byte == 0), "bytes are lost");
    assert!(alterations.load(Ordering::SeqCst) > 0, "nothing was altered");
    for server in 0..2 {
        cluster.assert_running(server);
    }
}

/// Whoever reads along sees no byte of a file, no name and no credential.
#[test]
fn whoever_reads_along_learns_no_byte() {
    let cluster = Cluster::start(&servers(1, 1, "ram", "64MiB"));
    let relay = Relay::honest(cluster.address(0).tcp);
    let store = store_at(&cluster, std::slice::from_ref(&relay.address), Duration::from_secs(120));
    let secret = b"a secret that stands in a file, often enough to be found";
    let file = open(&store, "name-of-a-file", false);
    file.write_at(&CALLER, &[IoSlice::new(secret)], 0).expect("written");
    assert_eq!(read_all(&file, 100), secret);
    let seen = relay.seen.lock().expect("no panic");
    let contains = |part: &[u8]| seen.windows(part.len()).any(|window| window == part);
    assert!(contains(b"WeirS"), "the relay saw the connection");
    for part in [&secret[..16], b"name-of-a-file"] {
        assert!(!contains(part), "{:?} went over the network", String::from_utf8_lossy(part));
    }
}
