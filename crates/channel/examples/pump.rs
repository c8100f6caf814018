//! The cost of a sealed channel: 1 MiB writes and 4 KiB reads over loopback TCP, with the channel and without it, in turns.
//!
//! `cargo run --release -p weir-channel --example pump -- SECONDS` prints one line of JSON: rates in calls a second, and the ratios of
//! the median round, sealed over plain. No server works behind the socket, so a store's own ratio is nearer to 1.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weir_channel::SealedStream;
use weir_placement::ServerId;
use weir_wire::{Claims, Credential, Role, SiteKey};

/// Turns of each kind: the median of them counts, because the machine may be busy with other work.
const ROUNDS: usize = 7;
/// Bytes of a request and of a reply without data, as those of the protocol with a capability.
const SMALL_BYTES: usize = 128;
const SERVER: ServerId = ServerId(0);

/// A call: bytes that are sent, and bytes that are received.
#[derive(Clone, Copy)]
struct Call {
    name: &'static str,
    sent: usize,
    received: usize,
}

const CALLS: [Call; 2] = [
    Call { name: "write", sent: SMALL_BYTES + (1 << 20), received: SMALL_BYTES },
    Call { name: "read_4k", sent: SMALL_BYTES, received: SMALL_BYTES + 4096 },
];

trait Line: Read + Write + Send {}
impl<T: Read + Write + Send> Line for T {}

fn key() -> SiteKey {
    SiteKey::new([7; 32])
}

fn credential() -> Credential {
    key().mint(Claims {
        job: "pump".into(),
        user: "user".into(),
        group: "group".into(),
        uid: 1000,
        gid: 1000,
        groups: Vec::new(),
        nodes: 1,
        priority: 1,
        role: Role::User,
        issued_seconds: 0,
        expires_seconds: u64::MAX,
    })
}

/// Both ends of a fresh connection.
fn pair(is_sealed: bool) -> std::io::Result<(Box<dyn Line>, Box<dyn Line>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    if !is_sealed {
        return Ok((Box::new(client), Box::new(server)));
    }
    let accepting = std::thread::spawn(move || SealedStream::accept(server, Vec::new(), SERVER, &key()));
    let client = SealedStream::open(client, SERVER, &credential())?;
    let (server, _) = accepting.join().map_err(|_| std::io::ErrorKind::Other)??;
    Ok((Box::new(client), Box::new(server)))
}

/// Calls a second over one connection.
fn rate(call: Call, is_sealed: bool, span: Duration) -> std::io::Result<f64> {
    let (mut client, mut server) = pair(is_sealed)?;
    std::thread::spawn(move || {
        let (mut request, reply) = (vec![0; call.sent], vec![1; call.received]);
        while server.read_exact(&mut request).and_then(|()| server.write_all(&reply)).is_ok() {}
    });
    let (request, mut reply) = (vec![1; call.sent], vec![0; call.received]);
    let (began, mut calls) = (Instant::now(), 0);
    while began.elapsed() < span {
        client.write_all(&request)?;
        client.read_exact(&mut reply)?;
        calls += 1;
    }
    Ok(f64::from(calls) / began.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> std::io::Result<()> {
    let seconds: f64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(14.0);
    let span = Duration::from_secs_f64(seconds / (2 * CALLS.len() * ROUNDS) as f64);
    let mut fields = Vec::new();
    for call in CALLS {
        let (mut plain, mut sealed, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            plain.push(rate(call, false, span)?);
            sealed.push(rate(call, true, span)?);
            ratios.push(sealed[sealed.len() - 1] / plain[plain.len() - 1]);
        }
        let Call { name, .. } = call;
        let (plain, sealed, ratio) = (median(plain), median(sealed), median(ratios));
        fields.push(format!(
            "\"plain_{name}_per_second\":{plain:.0},\"sealed_{name}_per_second\":{sealed:.0},\"sealed_{name}_ratio\":{ratio:.3}"
        ));
    }
    println!("{{{}}}", fields.join(","));
    Ok(())
}
