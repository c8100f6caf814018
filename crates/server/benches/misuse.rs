//! The loss of other clients by clients that misuse a server: `stalled-senders` and `slow-readers`.
//!
//! The last line on stdout is one JSON object.

use std::time::{Duration, Instant};
use weir_testing::{claims, dir, head, key, server_toml, Cluster, File, Line, Transport, READ_WRITE};
use weir_wire::{limits, Claims, Credential, Extent, Fence, IdentityId, Reply, Request, RequestId};

const MIB: usize = 1 << 20;
/// Connections that announce a write of the longest kind and send nothing of it.
const STALLED: usize = 300;
/// Connections of the victim, and how long its writes of 1 MiB are counted, in turn with and without its neighbours.
const WRITERS: usize = 2;
const WRITING: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;
/// Connections that ask for as many of the longest reads as they may and take no reply, and for how long.
const READERS: usize = 50;
const READING: Duration = Duration::from_secs(6);

fn main() {
    // `cargo test` runs benchmarks too, without this flag, only to see that they are built.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    match std::env::args().nth(1).as_deref() {
        Some("stalled-senders") => stalled_senders(),
        Some("slow-readers") => slow_readers(),
        _ => eprintln!("which: stalled-senders or slow-readers"),
    }
}

fn job(name: &str, nodes: u32) -> Credential {
    key().mint(Claims { job: name.into(), nodes, ..claims(1000 + nodes) })
}

fn write(file: &File, length: usize) -> Request {
    let (capability, target, epoch) = (file.capability, file.layout.targets()[0], file.epoch);
    let extents = vec![Extent { offset: 0, length: length as u32 }];
    Request::Write { fence: Fence::NONE, capability, target, epoch, extents, publication: None }
}

/// Writes of a job of 64 nodes beside senders that send nothing, over the same alone.
fn stalled_senders() {
    let target = "backend = \"ram\"\ncapacity = \"256MiB\"";
    let cluster = Cluster::start(&format!("policy = \"size-fair\"\n{}", server_toml(1, target)));
    let mut rounds: Vec<(f64, f64)> = Vec::new();
    for _ in 0..ROUNDS {
        let alone = writes_per_second(&cluster);
        let stalled = stall(&cluster);
        let beside = writes_per_second(&cluster);
        drop(stalled);
        cluster.await_figure(0, "outstanding", 0);
        println!("{alone:.0} writes of 1 MiB a second alone, {beside:.0} beside {STALLED} stalled senders");
        rounds.push((alone, beside));
    }
    let mut ratios: Vec<f64> = rounds.iter().map(|(alone, beside)| beside / alone).collect();
    ratios.sort_by(f64::total_cmp);
    println!("{{\"stalled_senders_victim_ratio\": {:.3}}}", ratios[ROUNDS / 2]);
}

fn stall(cluster: &Cluster) -> Vec<Line> {
    let stall = |_| {
        let mut line = cluster.line(0, Transport::Unix, &job("stalled", 1));
        let file = line.open("stalled", READ_WRITE).expect("opened");
        let head =
            head(RequestId(1), IdentityId(0), &write(&file, limits::PAYLOAD_BYTES), limits::PAYLOAD_BYTES);
        line.connection.send_bytes(&head);
        line
    };
    (0..STALLED).map(stall).collect()
}

fn writes_per_second(cluster: &Cluster) -> f64 {
    let began = Instant::now();
    let keep_writing = |number: usize| {
        let mut line = cluster.line(0, Transport::Unix, &job("victim", 64));
        let file = line.open(&format!("victim-{number}"), READ_WRITE).expect("opened");
        let (request, payload) = (write(&file, MIB), vec![7; MIB]);
        let mut count = 0;
        while began.elapsed() < WRITING {
            assert!(matches!(line.call(&request, &payload).0, Reply::Written { .. }));
            count += 1;
        }
        count
    };
    let count: usize = std::thread::scope(|scope| {
        let keep_writing = &keep_writing;
        let workers: Vec<_> = (0..WRITERS).map(|number| scope.spawn(move || keep_writing(number))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
    });
    count as f64 / began.elapsed().as_secs_f64()
}

/// Growth of a server above directories, while nobody takes its replies.
fn slow_readers() {
    let cluster = Cluster::start(&dir(1));
    let mut root = cluster.root(0);
    let mut file = root.open("large", READ_WRITE).expect("opened");
    root.write(&mut file, 0, &vec![3; limits::PAYLOAD_BYTES]).expect("written");
    let before = cluster.memory_kib(0, "VmRSS");
    let ask = |number: usize| {
        let mut line = cluster.line(0, Transport::Unix, &job(&format!("slow-{}", number % 5), 1));
        let file = line.open("large", weir_wire::OpenFlags { write: false, create: false, ..READ_WRITE });
        let file = file.expect("opened");
        let extents = vec![Extent { offset: 0, length: MIB as u32 }; limits::PAYLOAD_BYTES / MIB];
        let (capability, target) = (file.capability, file.layout.targets()[0]);
        let read = Request::Read { fence: Fence::NONE, capability, target, epoch: 0, extents };
        for _ in 0..limits::OUTSTANDING_PER_CONNECTION {
            line.send(&read, &[]);
        }
        line
    };
    let slow: Vec<Line> = (0..READERS).map(ask).collect();
    std::thread::sleep(READING);
    let grown = cluster.memory_kib(0, "VmHWM").saturating_sub(before) as f64 / 1024.0;
    let asked = slow.len() * limits::OUTSTANDING_PER_CONNECTION * limits::PAYLOAD_BYTES / MIB;
    println!("{READERS} connections asked for {asked} MiB and took nothing for {READING:?}");
    println!("{{\"slow_readers_memory_mib\": {grown:.1}}}");
}
