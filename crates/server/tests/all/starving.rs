//! A client that pays nothing costs the others nothing: each slot, turn of the loop and byte of memory is charged to a job.

use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use std::time::{Duration, Instant};
use weir_testing::{
    claims, dir, frame, head, key, server_toml, wait_until, Cluster, File, Line, Transport, READ_WRITE,
};
use weir_wire::{
    limits, Claims, Credential, Extent, Fence, IdentityId, OpenFlags, Reply, Request, RequestId, Sequence,
};

const MIB: usize = 1 << 20;
/// The server's bound on the time for which a connection keeps memory that others wait for.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// A credential of a job of one node, and of one of 64.
fn small(name: &str) -> Credential {
    key().mint(Claims { job: name.into(), ..claims(2000) })
}

fn large(name: &str) -> Credential {
    key().mint(Claims { job: name.into(), nodes: 64, ..claims(1000) })
}

/// A figure of a job in `/v1/jobs`; 0 where the job is not listed.
fn figure(cluster: &Cluster, job: &str, name: &str) -> f64 {
    let jobs = cluster.show(0, "/v1/jobs");
    let found = jobs["jobs"].as_array().expect("jobs").iter().find(|entry| entry["job"] == job);
    found.map_or(0.0, |entry: &Value| entry[name].as_f64().expect("a number"))
}

/// Announces a write of `length` bytes and sends the first `sent` of them.
fn announce(line: &mut Line, file: &File, length: usize, sent: usize) {
    let (capability, target, epoch) = (file.capability, file.layout.targets()[0], file.epoch);
    let extents = vec![Extent { offset: 0, length: length as u32 }];
    let write = Request::Write { fence: Fence::NONE, capability, target, epoch, extents, publication: None };
    line.connection.send_bytes(&head(RequestId(900), IdentityId(0), &write, length));
    line.connection.send_bytes(&vec![9; sent]);
}

/// Each of 300 connections that announced 4 MiB and sent nothing once held a service slot for 50 ms, uncharged, and cut
/// the writes of a job of 64 nodes from 431 to 18 a second.
#[test]
fn senders_that_send_nothing_are_given_no_slot() {
    let target = "backend = \"ram\"\ncapacity = \"64MiB\"";
    let cluster = Cluster::start(&server_toml(1, target));
    let mut senders: Vec<Line> =
        (0..300).map(|_| cluster.line(0, Transport::Unix, &small("silent"))).collect();
    let file = senders[0].open("announced", READ_WRITE).expect("opened");
    let before = figure(&cluster, "silent", "charged_seconds");
    for line in &mut senders {
        announce(line, &file, limits::PAYLOAD_BYTES, 0);
    }
    cluster.await_figure(0, "outstanding", 300);
    let mut victim = cluster.line(0, Transport::Unix, &large("victim"));
    let mut own = victim.open("own", READ_WRITE).expect("opened");
    for round in 0..50 {
        victim.write(&mut own, 0, &[round; 4 * MIB / 16]).expect("written beside those who send nothing");
    }
    assert_eq!(figure(&cluster, "silent", "charged_seconds"), before, "nobody was dispatched");
    assert_eq!(cluster.used_bytes(0) as usize, 4 * MIB / 16, "no page waits for bytes that nobody sends");
    drop(senders);
    cluster.await_figure(0, "outstanding", 0);
}

/// A sender that paused in mid-payload kept its slot for 50 ms, and every pause was another 50 ms.
#[test]
fn senders_that_pause_are_charged_and_go_on_in_their_turn() {
    for target in ["backend = \"ram\"\ncapacity = \"64MiB\"", "backend = \"dir\"\ncapacity = \"64MiB\""] {
        let cluster = Cluster::start(&server_toml(1, target));
        let mut paused: Vec<(Line, File)> = (0..12)
            .map(|number| {
                let mut line = cluster.line(0, Transport::Unix, &small("paused"));
                let file = line.open(&format!("paused-{number}"), READ_WRITE).expect("opened");
                announce(&mut line, &file, MIB, 100_000);
                (line, file)
            })
            .collect();
        let mut victim = cluster.line(0, Transport::Unix, &large("victim"));
        let mut own = victim.open("own", READ_WRITE).expect("opened");
        let mut write = |round: u8| {
            victim.write(&mut own, 0, &[round; 200_000]).expect("written");
            assert_eq!(victim.read(&own, 0, 200_000).expect("read"), [round; 200_000]);
        };
        // Every pause takes and loses a slot; the bytes go where they belong all the same.
        for part in 1..10 {
            write(part);
            for (line, _) in &mut paused {
                line.connection.send_bytes(&[9; 100_000]);
            }
        }
        write(10);
        assert!(figure(&cluster, "paused", "charged_seconds") > 0.0);
        for (line, _) in &mut paused {
            line.connection.send_bytes(&[9; MIB - 1_000_000]);
        }
        for (line, file) in &mut paused {
            let (request, reply, _) = line.receive();
            assert_eq!(request, RequestId(900));
            assert!(matches!(reply, Reply::Written { .. }), "{reply:?}");
            assert!(line.read(file, 0, MIB).expect("read") == [9; MIB]);
        }
        cluster.await_figure(0, "outstanding", 0);
        // Opened once, written once, read once: a request that had several turns is one operation.
        assert_eq!(figure(&cluster, "paused", "operations"), 36.0);
    }
}

/// Pages that were to take the rest of a payload come back wherever its sender was: not begun, queued, or in service.
#[test]
fn senders_that_die_anywhere_leave_no_page_behind() {
    let cluster = Cluster::start(&server_toml(1, "backend = \"ram\"\ncapacity = \"64MiB\""));
    let mut lines = Vec::new();
    for sent in [0, 1, 70_000, 150_000, 400_000].repeat(4) {
        let mut line = cluster.line(0, Transport::Unix, &small("dying"));
        let file = line.open("dying", READ_WRITE).expect("opened");
        announce(&mut line, &file, MIB, sent);
        lines.push(line);
    }
    let mut victim = cluster.line(0, Transport::Unix, &large("victim"));
    let mut own = victim.open("own", READ_WRITE).expect("opened");
    for round in 0..20 {
        victim.write(&mut own, 0, &[round; MIB]).expect("written");
    }
    drop(lines);
    cluster.await_figure(0, "outstanding", 0);
    assert_eq!(victim.unlink("own", false), Reply::Done);
    assert_eq!(victim.unlink("dying", false), Reply::Failed(weir_wire::Errno(1)), "the root is sticky");
    victim.close(&own);
    wait_until("all is free", || cluster.used_bytes(0) == 0);
}

/// A server that stands still while requests are sent to it, so that it finds all of them at once.
fn while_stopped(cluster: &Cluster, send: impl FnOnce()) {
    let pid = Pid::from_raw(cluster.pid(0) as i32).expect("a process");
    kill_process(pid, Signal::STOP).expect("stopped");
    send();
    kill_process(pid, Signal::CONT).expect("goes on");
}

/// Requests that cost no device time were served as they came, so a job with twenty connections had twenty times the
/// turns of one with one.
#[test]
fn a_job_has_its_share_of_the_loop_whatever_the_number_of_its_connections() {
    const CONNECTIONS: usize = 20;
    const EACH: usize = 200;
    let config = format!("policy = \"job-fair\"\n{}", weir_testing::ram(1, "64MiB"));
    let cluster = Cluster::start(&config);
    let open = |credential: &Credential, name: &str| {
        let mut line = cluster.line(0, Transport::Unix, credential);
        let files: Vec<File> = (0..EACH)
            .map(|number| line.open(&format!("{name}-{number}"), READ_WRITE).expect("opened"))
            .collect();
        (line, files)
    };
    let mut crowd: Vec<_> =
        (0..CONNECTIONS).map(|number| open(&small("crowd"), &format!("crowd-{number}"))).collect();
    let mut single = open(&large("single"), "single");
    // Turns of appends are numbered over all files: they tell in which order requests were served.
    let ask = |(line, files): &mut (Line, Vec<File>)| {
        for file in files {
            line.send(&Request::AppendBegin { capability: file.capability }, &[]);
        }
    };
    while_stopped(&cluster, || {
        crowd.iter_mut().for_each(ask);
        ask(&mut single);
    });
    let turns = |(line, files): &mut (Line, Vec<File>)| -> Vec<u64> {
        let turn = |_: &File| match line.receive().1 {
            Reply::Turn { turn: Sequence(turn), .. } => turn,
            other => panic!("{other:?}"),
        };
        files.iter().map(turn).collect()
    };
    let others: Vec<u64> = crowd.iter_mut().flat_map(turns).collect();
    let last = turns(&mut single).into_iter().max().expect("some turns");
    let before = others.iter().filter(|&&turn| turn < last).count();
    println!(
        "{before} of {} requests of the crowd were served before the last of the single one",
        others.len()
    );
    assert!(before < CONNECTIONS * EACH / 2, "{before} were served before it");
}

const READ: OpenFlags = OpenFlags { write: false, create: false, ..READ_WRITE };
/// Address space of a server under test, in KiB: its program, the stacks of its threads, the account of its memory, and
/// as much again.
const ADDRESS_SPACE: &str = "-v 1500000";

/// A server with `dir` targets and little memory, and a file of the longest read that everybody may read.
fn tight_server() -> Cluster {
    let cluster = Cluster::start_within(&dir(1), ADDRESS_SPACE);
    let mut root = cluster.root(0);
    let mut file = root.open("large", READ_WRITE).expect("opened");
    root.write(&mut file, 0, &vec![3; limits::PAYLOAD_BYTES]).expect("written");
    cluster
}

/// As many reads of the longest kind as a connection may have outstanding; nobody takes their replies.
fn ask_and_take_nothing(cluster: &Cluster, credential: &Credential) -> Line {
    let mut line = cluster.line(0, Transport::Unix, credential);
    let file = line.open("large", READ).expect("opened");
    let piece = file.layout.pieces(0, limits::PAYLOAD_BYTES as u64).next().expect("a piece");
    let extents = vec![Extent { offset: piece.object_offset, length: piece.length as u32 }];
    let read = Request::Read {
        fence: Fence::NONE,
        capability: file.capability,
        target: file.layout.targets()[0],
        epoch: 0,
        extents,
    };
    for _ in 0..limits::OUTSTANDING_PER_CONNECTION {
        line.send(&read, &[]);
    }
    line
}

/// Replies that nobody took were kept without a bound: 1.7 GB after 12 s, and under a limit the server aborted.
#[test]
fn replies_that_nobody_takes_are_bounded_and_cost_the_others_nothing() {
    let mut cluster = tight_server();
    let before = cluster.memory_kib(0, "VmRSS");
    let slow: Vec<Line> = (0..60).map(|_| ask_and_take_nothing(&cluster, &small("slow"))).collect();
    let mut good = cluster.line(0, Transport::Unix, &small("good"));
    let file = good.open("large", READ).expect("opened");
    for _ in 0..20 {
        assert_eq!(good.read(&file, 0, MIB).expect("read"), vec![3; MIB]);
    }
    // A request beside them for the same job waits for memory, but a request that needs none is served at once.
    let mut sibling = cluster.line(0, Transport::Unix, &small("slow"));
    let own = sibling.open("large", READ).expect("opened");
    assert_eq!(sibling.reply(&Request::Ping), Reply::Done);
    sibling.close(&own);
    let held = cluster.figure(0, "held_bytes") >> 20;
    let growth = cluster.memory_kib(0, "VmHWM").saturating_sub(before) >> 10;
    println!("{held} MiB are held, {growth} MiB more memory at the peak");
    assert!(held <= 140, "{held} MiB held");
    assert!(growth < 400, "{growth} MiB more than before");
    cluster.assert_running(0);
    drop(slow);
    cluster.await_figure(0, "outstanding", 0);
    cluster.await_figure(0, "held_bytes", 0);
}

/// A connection that takes no replies costs its own job no more than itself.
#[test]
fn a_connection_that_takes_no_replies_gives_way_to_others_of_its_job() {
    let cluster = tight_server();
    let slow: Vec<Line> = (0..10).map(|_| ask_and_take_nothing(&cluster, &small("job"))).collect();
    wait_until("the job has taken its memory", || cluster.figure(0, "held_bytes") > 48 << 20);
    let mut good = cluster.line(0, Transport::Unix, &small("job"));
    let file = good.open("large", READ).expect("opened");
    for _ in 0..10 {
        assert_eq!(good.read(&file, 0, MIB).expect("read"), vec![3; MIB]);
    }
    assert!(cluster.log(0).contains("kept memory"), "nobody was told");
    drop(slow);
    cluster.await_figure(0, "held_bytes", 0);
}

/// Buffers for payloads that do not come were made for every writer.
#[test]
fn writers_that_stall_above_a_directory_take_bounded_memory() {
    let mut cluster = tight_server();
    let mut stalled: Vec<Line> = (0..400)
        .map(|number| {
            let mut line = cluster.line(0, Transport::Unix, &small("stalled"));
            let file = line.open(&format!("stalled-{number}"), READ_WRITE).expect("opened");
            announce(&mut line, &file, limits::PAYLOAD_BYTES, MIB / 10);
            line
        })
        .collect();
    let mut good = cluster.line(0, Transport::Unix, &small("good"));
    let mut file = good.open("good", READ_WRITE).expect("opened");
    for round in 0..20 {
        good.write(&mut file, 0, &vec![round; MIB]).expect("written");
    }
    let held = cluster.figure(0, "held_bytes") >> 20;
    assert!(held <= 140, "{held} MiB held");
    cluster.assert_running(0);
    // A client that goes on is served: no request is lost.
    let mut line = stalled.swap_remove(0);
    line.connection.send_bytes(&vec![9; limits::PAYLOAD_BYTES - MIB / 10]);
    assert!(matches!(line.receive().1, Reply::Written { .. }));
    drop((line, stalled));
    cluster.await_figure(0, "held_bytes", 0);
}

/// Frames that never end: each held 80 KiB, and a server takes 16,384 connections.
#[test]
fn frames_that_never_end_take_bounded_memory_and_keep_nobody_waiting() {
    let cluster = tight_server();
    let mut begun: Vec<(Instant, Line)> = Vec::new();
    for number in 0..1_500 {
        let mut line = cluster.line(0, Transport::Unix, &small("begun"));
        let file = match number {
            0 => line.open("begun", READ_WRITE).expect("opened"),
            _ => line.open("begun", OpenFlags { create: false, ..READ_WRITE }).expect("opened"),
        };
        let (capability, target) = (file.capability, file.layout.targets()[0]);
        let extents = vec![Extent { offset: 0, length: limits::INLINE_PAYLOAD_BYTES as u32 }];
        let write =
            Request::Write { fence: Fence::NONE, capability, target, epoch: 0, extents, publication: None };
        let bytes = frame(RequestId(900), IdentityId(0), &write, &vec![9; limits::INLINE_PAYLOAD_BYTES]);
        line.connection.send_bytes(&bytes[..bytes.len() - 1]);
        begun.push((Instant::now(), line));
    }
    let held = cluster.figure(0, "held_bytes") >> 20;
    println!("{held} MiB are held for {} begun frames", begun.len());
    assert!(held <= 140, "{held} MiB held");
    let mut good = cluster.line(0, Transport::Unix, &small("good"));
    let mut file = good.open("good", READ_WRITE).expect("opened");
    for round in 0..20 {
        good.write(&mut file, 0, &vec![round; MIB]).expect("written");
    }
    // Clients that end their frames are answered, whichever client had memory before. A server may close a connection that
    // kept memory for too long.
    for (_, line) in begun.iter_mut().rev().take(700) {
        line.connection.send_bytes(&[9]);
    }
    for (since, line) in begun.iter_mut().rev().take(700) {
        match line.try_receive() {
            Some((_, reply, _)) => assert!(matches!(reply, Reply::Written { .. })),
            None => assert!(since.elapsed() > IDLE_MAX, "closed after {:?}", since.elapsed()),
        }
    }
    drop(begun);
    cluster.await_figure(0, "held_bytes", 0);
}
