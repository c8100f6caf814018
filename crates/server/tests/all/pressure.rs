//! Many at once, slow ones, stalled ones and dead ones: memory stays bounded and the others are served.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_testing::{
    assert_held, claims, flood, head, key, ram, server_toml, wait_until, Cluster, File, Line, Transport,
    PATIENCE, READ_WRITE,
};
use weir_wire::{
    limits, Extent, Fence, IdentityId, LockKind, LockOwner, LockRange, LockType, Publication, Reply, Request,
    RequestId,
};

const MIB: usize = 1 << 20;

#[test]
fn a_thousand_connections_with_ten_requests_each_are_all_answered_in_bounded_memory() {
    let cluster = flood::slow_server("800MB/s");
    let flood = flood::run(&cluster, 1_000, 10);
    println!(
        "{} requests in hand at most, {} MiB more memory at the peak, {:.1} s",
        flood.outstanding_max,
        flood.growth_kib >> 10,
        flood.seconds
    );
    // The payloads of the writes alone are 312 MiB.
    assert!(flood.growth_kib < 256 << 10, "{} KiB", flood.growth_kib);
    cluster.await_figure(0, "outstanding", 0);
    cluster.await_figure(0, "connections", 0);
}

/// Payloads of one job once took all the memory there is for them, and nobody else was read until it had drained.
#[test]
fn a_job_that_fills_the_memory_for_payloads_delays_nobody_else() {
    // Four requests a second: hardly any is served while the victim asks.
    let cluster = flood::slow_server("256kB/s");
    let mut root = cluster.root(0);
    root.open("file", READ_WRITE).expect("opened");
    let file = root.open("flooded", READ_WRITE).expect("opened");
    let (is_filled, begun) = (AtomicBool::new(false), Instant::now());
    let lines: Vec<Line> = std::thread::scope(|scope| {
        let fill = || {
            let mut line = cluster.line(0, Transport::Unix, &flood::flooder());
            line.connection.set_write_timeout(Duration::from_millis(300));
            let (write, payload) = flood::request(&file, 0);
            let bytes = weir_testing::frame(RequestId(1), IdentityId(0), &write, &payload);
            let mut sent = 0;
            // A busy server leaves sockets unread for longer than the timeout while it has memory still.
            while !is_filled.load(Ordering::Relaxed) && begun.elapsed() < PATIENCE {
                let more = std::io::Write::write(&mut line.connection, &bytes[sent..]);
                sent = (sent + more.unwrap_or(0)) % bytes.len();
            }
            line
        };
        let workers: Vec<_> = (0..60).map(|_| scope.spawn(fill)).collect();
        wait_until("over 900 requests of 64 KiB are in hand", || cluster.figure(0, "outstanding") > 900);
        is_filled.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let filled = cluster.figure(0, "outstanding");
    let mut victim = cluster.root(0);
    for _ in 0..50 {
        assert_eq!(victim.reply(&Request::Ping), Reply::Done);
        assert!(victim.attributes("file").is_ok());
    }
    let (write, payload) = flood::request(&file, 0);
    victim.call(&write, &payload);
    let left = cluster.figure(0, "outstanding");
    assert!(left > filled / 2, "the victim waited until {filled} requests had become {left}");
    drop(lines);
    wait_until("what the flood had in hand is given up", || cluster.figure(0, "outstanding") <= 1);
    cluster.await_figure(0, "connections", 2);
    assert!(matches!(victim.call(&write, &payload).0, Reply::Written { .. }));
}

/// A write of `length` bytes at the begin of the first object, announced and begun.
fn begin_write(line: &mut Line, file: &File, length: usize, sent: &[u8]) {
    let (capability, target, epoch) = (file.capability, file.layout.targets()[0], file.epoch);
    let extents = vec![Extent { offset: 0, length: length as u32 }];
    let publication =
        Some(Publication { end: length as u64, written_bytes: length as u64, epoch, reserved_end: 0 });
    let write = Request::Write { fence: Fence::NONE, capability, target, epoch, extents, publication };
    line.connection.send_bytes(&head(RequestId(900), IdentityId(0), &write, length));
    line.connection.send_bytes(sent);
}

#[test]
fn a_stalled_sender_loses_its_slot_and_goes_on_later() {
    // One slot, as the target is emulated, and more stalled senders than any device has slots.
    let target = "backend = \"ram\"\ncapacity = \"64MiB\"\nspeed = { fixed = \"1ms\" }";
    let cluster = Cluster::start(&server_toml(1, target));
    let mut stalled: Vec<(Line, File)> = (0..10)
        .map(|number| {
            let mut line = cluster.root(0);
            let file = line.open(&format!("stalled-{number}"), READ_WRITE).expect("opened");
            begin_write(&mut line, &file, MIB, &[9; 1000]);
            (line, file)
        })
        .collect();
    let mut good = cluster.root(0);
    let mut file = good.open("good", READ_WRITE).expect("opened");
    for round in 0..20 {
        good.write(&mut file, 0, &[round; 100_000]).expect("written while others stall");
        assert_eq!(good.read(&file, 0, 100_000).expect("read"), [round; 100_000]);
    }
    for (line, _) in &mut stalled {
        line.connection.send_bytes(&[9; MIB - 1000]);
    }
    for (line, file) in &mut stalled {
        let (request, reply, _) = line.receive();
        assert_eq!(request, RequestId(900));
        assert_eq!(reply, Reply::Written { size: Some((MIB as u64, 0)) });
        assert!(line.read(file, 0, MIB).expect("read") == [9; MIB]);
    }
    cluster.await_figure(0, "outstanding", 0);
}

#[test]
fn a_sender_that_dies_in_mid_payload_frees_what_it_had() {
    let cluster = Cluster::start(&ram(1, "64MiB"));
    let mut root = cluster.root(0);
    let mut other = root.open("other", READ_WRITE).expect("opened");
    root.write(&mut other, 0, &[5; MIB]).expect("written");
    let used = cluster.used_bytes(0);
    for transport in Transport::BOTH {
        let mut dying = cluster.line(0, transport, &key().mint(claims(0)));
        let file = dying.open("new", READ_WRITE).expect("opened");
        begin_write(&mut dying, &file, 2 * MIB, &[9; MIB]);
        wait_until("its pages are staged", || cluster.used_bytes(0) > used);
        drop(dying);
        wait_until("its pages are free again", || cluster.used_bytes(0) == used);
    }
    assert_eq!(root.attributes("new").expect("still there").size_bytes, 0, "nothing of it is in the file");
    assert!(root.read(&other, 0, MIB).expect("read") == [5; MIB], "other files have their bytes");
    assert_eq!(root.unlink("new", false), Reply::Done);
    root.close(&other);
    assert_eq!(root.unlink("other", false), Reply::Done);
    wait_until("all is free", || cluster.used_bytes(0) == 0);
    cluster.await_figure(0, "outstanding", 0);
}

/// Bytes of a write that went over old ones are as in any torn write: some are new, the others old, the rest untouched.
#[test]
fn a_sender_that_dies_while_overwriting_leaves_old_and_new_bytes_only_in_its_range() {
    let cluster = Cluster::start(&ram(1, "64MiB"));
    let mut root = cluster.root(0);
    let mut file = root.open("file", READ_WRITE).expect("opened");
    root.write(&mut file, 0, &[5; MIB]).expect("written");
    let used = cluster.used_bytes(0);
    let mut dying = cluster.root(0);
    let same = dying.open("file", READ_WRITE).expect("opened");
    begin_write(&mut dying, &same, MIB / 2, &[9; MIB / 4]);
    wait_until("some of it has arrived", || root.read(&file, 0, 1).expect("read") == [9]);
    drop(dying);
    cluster.await_figure(0, "outstanding", 0);
    let bytes = root.read(&file, 0, MIB).expect("read");
    let new = bytes.iter().take_while(|&&byte| byte == 9).count();
    assert!((1..=MIB / 4).contains(&new), "{new} new bytes");
    assert!(bytes[new..].iter().all(|&byte| byte == 5));
    let attributes = root.attributes("file").expect("there");
    assert_eq!(attributes.size_bytes, MIB as u64);
    assert_eq!(cluster.used_bytes(0), used);
}

/// A connection with as many requests in hand as it may have is not read, so its end was once not noticed, and what
/// its client held was held for ever.
#[test]
fn a_client_that_dies_with_every_request_waiting_lets_go_of_its_locks() {
    let cluster = Cluster::start(&ram(1, "64MiB"));
    let (mut dead, mut holder, mut heir) = (cluster.root(0), cluster.root(0), cluster.root(0));
    let lock = |line: &mut Line, (file, wait): (&File, bool), first: u64| {
        let (ino, handle, kind, lock) = (file.ino, file.handle, LockKind::Posix, LockType::Write);
        let range = LockRange { first, last: first };
        let owner = LockOwner(1);
        line.send(&Request::Lock { ino, handle, owner, pid: 1, kind, lock, range, wait, reclaim: None }, &[])
    };
    let files =
        [&mut dead, &mut holder, &mut heir].map(|line| line.open("file", READ_WRITE).expect("opened"));
    lock(&mut holder, (&files[1], false), 0);
    assert_held(&holder.receive().1);
    lock(&mut dead, (&files[0], false), 1);
    assert_held(&dead.receive().1);
    let waiting = lock(&mut heir, (&files[2], true), 1);
    for _ in 0..2 * limits::OUTSTANDING_PER_CONNECTION {
        lock(&mut dead, (&files[0], true), 0);
    }
    let full = limits::OUTSTANDING_PER_CONNECTION as u64 + 1;
    cluster.await_figure(0, "outstanding", full);
    drop(dead);
    let (granted, reply, _) = heir.receive();
    assert_eq!(granted, waiting);
    assert_held(&reply);
    cluster.await_figure(0, "outstanding", 0);
}

/// The listener reports each arrival once, so connections that found no descriptor once waited for ever.
#[test]
fn connections_that_found_no_descriptor_are_taken_when_there_is_one() {
    let mut cluster = Cluster::start_within(&ram(1, "64MiB"), "-n 64");
    let credential = key().mint(claims(0));
    for transport in Transport::BOTH {
        let many: Vec<_> = (0..100).map(|_| cluster.connection(0, transport)).collect();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                Line::prove(cluster.connection(0, transport), &credential, weir_testing::random_client())
            });
            std::thread::sleep(Duration::from_millis(100));
            drop(many);
            assert!(waiting.join().expect("no panic").is_ok(), "welcome at last");
        });
    }
    cluster.assert_running(0);
    cluster.await_figure(0, "connections", 0);
}

/// The program's own figures, to be looked at rather than judged: machines differ.
#[test]
fn an_idle_server_is_looked_at() {
    let cluster = Cluster::start(&ram(2, "64MiB"));
    let lines: Vec<Line> = (0..50).map(|_| cluster.root(0)).collect();
    let before = (ticks(&cluster), switches(&cluster));
    std::thread::sleep(Duration::from_secs(5));
    let after = (ticks(&cluster), switches(&cluster));
    println!(
        "idle for 5 s with {} connections and a peer: {} ticks of processor time, {} context switches",
        lines.len(),
        after.0 - before.0,
        after.1 - before.1
    );
    assert_eq!(cluster.figure(0, "outstanding"), 0);
}

/// Ticks that a server's threads have run, in user and kernel mode (proc_pid_stat(5), fields 14 and 15).
fn ticks(cluster: &Cluster) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", cluster.pid(0))).expect("a running server");
    let (_, fields) = text.rsplit_once(") ").expect("a name in brackets");
    fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("ticks")).sum()
}

/// Context switches of all threads.
fn switches(cluster: &Cluster) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", cluster.pid(0))).expect("a running server");
    let of_task = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let counts = text.lines().filter(|line| line.contains("ctxt_switches"));
        counts.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>()
    };
    tasks.filter_map(Result::ok).map(of_task).sum()
}

#[test]
fn a_read_of_the_largest_size_by_a_slow_taker_does_not_hold_the_others() {
    let cluster = Cluster::start(&ram(1, "64MiB"));
    let mut slow = cluster.root(0);
    let mut file = slow.open("file", READ_WRITE).expect("opened");
    slow.write(&mut file, 0, &vec![3; limits::PAYLOAD_BYTES]).expect("written");
    let read = Request::Read {
        fence: Fence::NONE,
        capability: file.capability,
        target: file.layout.targets()[0],
        epoch: 0,
        extents: vec![Extent { offset: 0, length: limits::PAYLOAD_BYTES as u32 }],
    };
    for _ in 0..limits::OUTSTANDING_PER_CONNECTION {
        slow.send(&read, &[]);
    }
    let mut good = cluster.root(0);
    for _ in 0..20 {
        assert_eq!(good.read(&file, 0, 10).expect("read"), [3; 10]);
    }
    // Its answers name pages of the file: they stay until it took them, or is gone.
    assert_eq!(good.unlink("file", false), Reply::Done);
    drop(slow);
    wait_until("all is free", || cluster.used_bytes(0) == 0);
    cluster.await_figure(0, "outstanding", 0);
}
