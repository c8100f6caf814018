//! `dir` servers that are killed: every acknowledged change is there, a resend is not applied twice, locks and unlinked
//! files can be reclaimed, and a journal that is being compacted loses nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_testing::{
    assert_held, claims, dir, key, wait_until, Choices, Cluster, File, Line, Transport, PATIENCE, READ_WRITE,
};
use weir_wire::{
    At, ClientId, Errno, Fence, HandleId, Ino, LockKind, LockOwner, LockRange, LockType, NodeKind, OpenFlags,
    RenameMode, Reply, Request, RequestId, XattrMode,
};

const ENOLCK: Errno = Errno(37);
const EAGAIN: Errno = Errno(11);

fn at(path: &str) -> At {
    At::new(Ino::ROOT, path)
}

/// A connection of the client that was there before.
fn again(cluster: &Cluster, client: ClientId, transport: Transport) -> Line {
    cluster.line_of(0, transport, &key().mint(claims(0)), client)
}

fn restart(cluster: &mut Cluster) {
    cluster.kill_server(0);
    cluster.start_server(0);
}

/// The acknowledged work of one writer: the bytes of its file, and the names that it made.
#[derive(Default)]
struct Acknowledged {
    bytes: Vec<u8>,
    names: Vec<String>,
}

/// Writes into a file and makes names until the server is gone.
fn work(mut line: Line, file: &File, writer: usize, mut choices: Choices, done: &AtomicU64) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    loop {
        if choices.below(3) == 0 {
            let name = format!("name-{writer}-{}", acknowledged.names.len());
            let make = Request::Make { at: at(&name), kind: NodeKind::Regular, permissions: 0o600 };
            match line.try_call(&make, &[]) {
                Some((Reply::Attributes(_), _)) => acknowledged.names.push(name),
                Some((other, _)) => panic!("{other:?}"),
                None => return acknowledged,
            }
        } else {
            let length = *choices.one_of(&[10, 4_096, 70_000, 1 << 20]);
            let bytes = vec![1 + choices.below(255) as u8; length];
            let offset = acknowledged.bytes.len() as u64;
            for (request, range) in Line::write_requests(file, offset, length) {
                match line.try_call(&request, &bytes[range.clone()]) {
                    Some((Reply::Written { .. }, _)) => acknowledged.bytes.extend_from_slice(&bytes[range]),
                    Some((other, _)) => panic!("{other:?}"),
                    None => return acknowledged,
                }
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    const WRITERS: usize = 5;
    let mut choices = Choices::new();
    for round in 0..3 {
        let mut cluster = Cluster::start(&dir(1));
        let done = AtomicU64::new(0);
        let moment = 50 + choices.below(150);
        let pid = cluster.pid(0);
        let acknowledged: Vec<Acknowledged> = std::thread::scope(|scope| {
            let spawn = |writer| {
                // Connected and opened here: the server may be killed before the thread first runs.
                let mut line = cluster.line(0, Transport::BOTH[writer % 2], &key().mint(claims(0)));
                let file = line.open(&format!("file-{writer}"), READ_WRITE).expect("a file");
                let (choices, done) = (choices.branch(), &done);
                scope.spawn(move || work(line, &file, writer, choices, done))
            };
            let writers: Vec<_> = (0..WRITERS).map(spawn).collect();
            wait_until("they are at work", || done.load(Ordering::Relaxed) >= moment);
            kill(pid);
            writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
        });
        restart(&mut cluster);
        let mut line = cluster.root(0);
        for (writer, acknowledged) in acknowledged.iter().enumerate() {
            let file = line.open(&format!("file-{writer}"), READ_WRITE).expect("opened");
            let length = acknowledged.bytes.len();
            assert!(file.size_bytes >= length as u64, "round {round}: {} of {length} bytes", file.size_bytes);
            for (index, expected) in acknowledged.bytes.chunks(1 << 20).enumerate() {
                let found = line.read(&file, (index as u64) << 20, expected.len()).expect("read");
                assert!(found == expected, "round {round}, writer {writer}: other bytes in MiB {index}");
            }
            for name in &acknowledged.names {
                assert!(line.attributes(name).is_ok(), "round {round}: {name} is gone");
            }
        }
    }
}

/// Sends SIGKILL; the starter of the child waits for it.
fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("own child");
}

/// Requests that change something, each with the files that must be there before it.
fn mutations() -> Vec<(&'static str, Request, Vec<u8>)> {
    let exclusive = OpenFlags { exclusive: true, ..READ_WRITE };
    let make = |path: &str, kind| Request::Make { at: at(path), kind, permissions: 0o700 };
    let rename = |from: &str, to: &str, mode| Request::Rename { from: at(from), to: at(to), mode };
    let xattr = |mode| Request::XattrSet { at: at("a"), follow: true, name: b"user.x".to_vec(), mode };
    let remove = Request::XattrRemove { at: at("a"), follow: true, name: b"user.x".to_vec() };
    vec![
        ("mkdir", make("directory", NodeKind::Directory), vec![]),
        ("mknod", make("fifo", NodeKind::Fifo), vec![]),
        ("open", Request::Open { at: at("new"), flags: exclusive, permissions: 0o600, layout: None }, vec![]),
        ("symlink", Request::Symlink { at: at("soft"), target: b"a".to_vec() }, vec![]),
        ("link", Request::Link { from: at("a"), follow: false, to: at("hard") }, vec![]),
        ("setxattr", xattr(XattrMode::Create), b"value".to_vec()),
        ("removexattr", remove, vec![]),
        ("rename", rename("a", "b", RenameMode::NoReplace), vec![]),
        ("exchange", rename("b", "c", RenameMode::Exchange), vec![]),
        ("unlink", Request::Unlink { at: at("c"), directory: false }, vec![]),
        ("rmdir", Request::Unlink { at: at("directory"), directory: true }, vec![]),
    ]
}

#[test]
fn a_resend_is_answered_as_the_original_and_not_applied_twice() {
    let mut cluster = Cluster::start(&dir(1));
    let mut line = cluster.root(0);
    let client = line.client;
    for name in ["a", "c"] {
        let file = line.open(name, READ_WRITE).expect("made");
        line.close(&file);
    }
    for (number, (name, request, payload)) in mutations().into_iter().enumerate() {
        let id = RequestId(1_000 + 10 * number as u64);
        let ask = |line: &mut Line, id| {
            line.resend(id, &request, &payload);
            line.receive().1
        };
        let mut line = again(&cluster, client, Transport::Unix);
        let reply = ask(&mut line, id);
        assert!(!matches!(reply, Reply::Failed(_)), "{name}: {reply:?}");
        let listed = names(&mut line);
        let mut line = again(&cluster, client, Transport::Tcp);
        assert_eq!(ask(&mut line, id), reply, "{name} over another connection");
        restart(&mut cluster);
        let mut line = again(&cluster, client, Transport::Unix);
        let mut late = ask(&mut line, id);
        if let (Reply::Attributes(late), Reply::Attributes(reply)) = (&mut late, &reply) {
            assert!(late.version > reply.version, "each start raises the version");
            late.version = reply.version;
        }
        let same_kind = std::mem::discriminant(&late) == std::mem::discriminant(&reply);
        assert!(late == reply || name == "open" && same_kind, "{name}: {reply:?}, after a restart {late:?}");
        assert_eq!(names(&mut line), listed, "{name} was applied twice");
        // Under a new id it is a new request, which would fail now, or take place once more.
        let anew = ask(&mut line, RequestId(id.0 + 1));
        if name == "exchange" {
            assert_eq!((anew, ask(&mut line, RequestId(id.0 + 2))), (Reply::Done, Reply::Done));
        } else {
            assert!(matches!(anew, Reply::Failed(_)), "{name} a second time: {anew:?}");
        }
    }
}

/// The names in the root directory.
fn names(line: &mut Line) -> Vec<Vec<u8>> {
    let flags = OpenFlags { read: true, directory: true, ..Default::default() };
    let open = Request::Open { at: At::inode(Ino::ROOT), flags, permissions: 0, layout: None };
    let Reply::Opened { handle, .. } = line.reply(&open) else { panic!("the root opens") };
    let list = Request::List { ino: Ino::ROOT, handle, cookie: 0, bytes: 1 << 20, attributes: false };
    let (_, payload) = line.call(&list, &[]);
    let entries: Vec<weir_wire::DirectoryEntry> =
        weir_wire::decode_body(&payload, "listing").expect("entries");
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

/// One client goes on through kills at random moments: it sends every request without an answer again, and each
/// mutation takes place once.
#[test]
fn a_client_that_resends_through_kills_sees_each_mutation_once() {
    const KILLS: usize = 8;
    let mut choices = Choices::new();
    let mut cluster = Cluster::start(&dir(1));
    let mut line = cluster.root(0);
    let client = line.client;
    let mut next = 1_000;
    for kill_number in 0..KILLS {
        let pid = cluster.pid(0);
        let killer = std::thread::spawn({
            let wait = Duration::from_micros(choices.below(40_000));
            move || {
                std::thread::sleep(wait);
                kill(pid);
            }
        });
        let mut step = 0;
        let mut pending: Option<(RequestId, Request)> = None;
        let mut restarted = false;
        // The steps after the restart end with a whole round, so that each round finds the root as it was.
        while !(restarted && step % 3 == 0 && pending.is_none()) {
            let (id, request) = pending.take().unwrap_or_else(|| {
                next += 1;
                let request = match step % 3 {
                    0 => Request::Make { at: at("x"), kind: NodeKind::Directory, permissions: 0o700 },
                    1 => Request::Rename { from: at("x"), to: at("y"), mode: RenameMode::NoReplace },
                    _ => Request::Unlink { at: at("y"), directory: true },
                };
                (RequestId(next), request)
            });
            line.resend(id, &request, &[]);
            match line.try_receive() {
                Some((answered, reply, _)) => {
                    assert_eq!(answered, id);
                    assert!(
                        !matches!(reply, Reply::Failed(_)),
                        "kill {kill_number}: {request:?} gave {reply:?}"
                    );
                    step += 1;
                }
                None => {
                    assert!(!std::mem::replace(&mut restarted, true), "one kill a round");
                    restart(&mut cluster);
                    line = again(&cluster, client, *choices.one_of(&Transport::BOTH));
                    pending = Some((id, request));
                }
            }
        }
        killer.join().expect("no panic");
    }
    assert_eq!(names(&mut line), [b".".to_vec(), b"..".to_vec()]);
}

fn lock(file: &File, range: (u64, u64), reclaim: Option<Fence>) -> Request {
    Request::Lock {
        ino: file.ino,
        handle: file.handle,
        owner: LockOwner(1),
        pid: 1,
        kind: LockKind::Posix,
        lock: LockType::Write,
        range: LockRange { first: range.0, last: range.1 },
        wait: false,
        reclaim,
    }
}

#[test]
fn locks_and_unlinked_files_are_reclaimed_before_others_come() {
    let mut cluster = Cluster::start(&dir(1));
    let (mut holder, mut other) = (cluster.root(0), cluster.root(0));
    let mut file = holder.open("file", READ_WRITE).expect("opened");
    let same = other.open("file", READ_WRITE).expect("opened");
    let Reply::Held { fence: held } = holder.reply(&lock(&file, (0, 99), None)) else {
        panic!("a free lock")
    };
    assert_eq!(other.reply(&lock(&same, (50, 60), None)), Reply::Failed(EAGAIN));
    holder.write(&mut file, 0, b"kept").expect("written");
    assert_eq!(holder.unlink("file", false), Reply::Done);
    let mut lost = holder.open("lost", READ_WRITE).expect("opened");
    holder.write(&mut lost, 0, &[1; 1 << 20]).expect("written");
    assert_eq!(holder.unlink("lost", false), Reply::Done);
    assert_eq!(cluster.figure(0, "inodes"), 3);
    let (holder_id, other_id, boot) = (holder.client, other.client, holder.boot);
    restart(&mut cluster);

    let mut holder = again(&cluster, holder_id, Transport::Unix);
    let mut other = again(&cluster, other_id, Transport::Tcp);
    assert_ne!(holder.boot, boot, "a client sees that it restarted");
    // A lock of a newcomer waits for the end of the grace period, even where it would be refused.
    other.reply(&Request::Reclaim { handles: vec![same.capability] });
    let early = other.send(&lock(&same, (50, 60), None), &[]);
    let reclaimed = holder.reply(&Request::Reclaim { handles: vec![file.capability] });
    assert_held(&reclaimed);
    assert_held(&holder.reply(&lock(&file, (0, 99), Some(held))));
    assert_eq!(cluster.figure(0, "outstanding"), 1, "the other one still waits");
    let mut thief = cluster.root(0);
    thief.reply(&Request::Reclaim { handles: vec![file.capability] });
    assert_eq!(
        thief.reply(&lock(&file, (0, 0), Some(held))),
        Reply::Failed(ENOLCK),
        "reclaimed by its holder"
    );
    assert_eq!(holder.read(&file, 0, 4).expect("read"), b"kept");

    assert_eq!(other.receive().0, early);
    assert_eq!(other.reply(&lock(&same, (50, 60), None)), Reply::Failed(EAGAIN), "the lock is still held");
    assert_held(&other.reply(&lock(&same, (100, 100), None)));
    assert_eq!(
        other.reply(&lock(&same, (0, 0), Some(held))),
        Reply::Failed(ENOLCK),
        "the time to reclaim is over"
    );
    cluster.await_figure(0, "inodes", 2);
    wait_until("what nobody reclaimed is free", || cluster.used_bytes(0) <= 8192);
    let stale = holder.reply(&Request::Reclaim { handles: vec![lost.capability] });
    assert!(matches!(stale, Reply::Failed(Errno(116))), "{stale:?}");
    close(&mut holder, file.ino, file.handle);
    close(&mut other, file.ino, same.handle);
    close(&mut thief, file.ino, file.handle);
    cluster.await_figure(0, "inodes", 1);
    wait_until("all is free", || cluster.used_bytes(0) == 0);
}

fn close(line: &mut Line, ino: Ino, handle: HandleId) {
    assert_eq!(line.reply(&Request::Close { ino, handle }), Reply::Done);
}

/// A server that keeps nothing says so: handles and files of an earlier start are stale.
#[test]
fn a_server_in_memory_forgets_and_says_so() {
    let mut cluster = Cluster::start(&weir_testing::ram(1, "64MiB"));
    let mut line = cluster.root(0);
    let mut file = line.open("file", READ_WRITE).expect("opened");
    line.write(&mut file, 0, b"gone").expect("written");
    let (client, boot) = (line.client, line.boot);
    restart(&mut cluster);
    let mut line = again(&cluster, client, Transport::Unix);
    assert_ne!(line.boot, boot);
    let stale = Reply::Failed(Errno(116));
    assert_eq!(line.reply(&Request::Reclaim { handles: vec![file.capability] }), stale);
    assert_eq!(line.attributes("file"), Err(Errno(2)));
    let publication = weir_wire::Publication { end: 9, written_bytes: 1, epoch: 0, reserved_end: 0 };
    assert_eq!(line.reply(&Request::Publish { capability: file.capability, publication }), stale);
}

#[test]
fn a_journal_that_is_compacted_under_load_loses_nothing() {
    const FILES: usize = 40;
    const VALUE_BYTES: usize = 60_000;
    /// Journal above which the load is light: a device that is busy with other things takes its time for a snapshot.
    const SLOW_BYTES: u64 = 80 << 20;
    let mut choices = Choices::new();
    let mut cluster = Cluster::start(&dir(1));
    let journal = cluster.home_of(0).join("journal");
    let journal_bytes = || {
        let files = std::fs::read_dir(&journal).expect("a journal");
        files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.len()).sum::<u64>()
    };
    let mut values = [0_u8; FILES];
    let mut made = 0;
    for round in 0..2 {
        let mut line = cluster.root(0);
        let (mut largest, mut compactions, begun) = (0, 0, Instant::now());
        while compactions == 0 || choices.below(50) > 0 {
            let number = choices.below(FILES as u64) as usize;
            let path = format!("file-{number}");
            let file = line.open(&path, READ_WRITE).expect("opened");
            line.close(&file);
            values[number] = values[number].wrapping_add(1);
            let name = b"user.value".to_vec();
            let set = Request::XattrSet { at: at(&path), follow: true, name, mode: XattrMode::Set };
            assert_eq!(line.call(&set, &vec![values[number]; VALUE_BYTES]).0, Reply::Done);
            assert!(matches!(line.make_directory(&format!("made-{made}")), Reply::Attributes(_)));
            made += 1;
            let now = journal_bytes();
            if now + (8 << 20) < largest {
                (largest, compactions) = (now, compactions + 1);
            }
            largest = largest.max(now);
            if now > SLOW_BYTES {
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(begun.elapsed() < PATIENCE, "{now} bytes of journal are never compacted");
        }
        restart(&mut cluster);
        let mut line = cluster.root(0);
        for (number, &value) in values.iter().enumerate().filter(|(_, &value)| value > 0) {
            let name = b"user.value".to_vec();
            let get = Request::XattrGet { at: at(&format!("file-{number}")), follow: true, name };
            let (reply, payload) = line.call(&get, &[]);
            assert_eq!(reply, Reply::Value, "round {round}: file-{number}");
            assert!(payload == vec![value; VALUE_BYTES], "round {round}: an old value in file-{number}");
        }
        for number in 0..made {
            assert!(
                line.attributes(&format!("made-{number}")).is_ok(),
                "round {round}: made-{number} is gone"
            );
        }
    }
}

/// An idle server said for minutes that changes were not on stable storage yet.
#[test]
fn changes_that_nobody_syncs_are_on_stable_storage_soon() {
    let cluster = Cluster::start(&dir(1));
    let mut root = cluster.root(0);
    for number in 0..100 {
        let file = root.open(&format!("file-{number}"), READ_WRITE).expect("opened");
        root.close(&file);
    }
    wait_until("nothing is left to sync", || {
        let journal = cluster.status(0)["journal"].clone();
        journal["appended"].as_u64() > Some(100) && journal["appended"] == journal["durable"]
    });
}
