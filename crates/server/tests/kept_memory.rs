//! Memory that a server keeps between requests: the counted bytes are no less than the bytes that it takes.
//!
//! The bounds are numbers of things (descriptions, gone clients, jobs) and, for locks, bytes. Unit tests show that no more of
//! them are kept; these measure that one of each takes no more than is said of it, in a process without other tests.

use std::sync::{Mutex, PoisonError};
use weir_core::locks::{LockRequest, LockTable, Outcome};
use weir_testing::{assert_held, claims, key, ram, Cluster, Line, Transport, READ_WRITE};
use weir_wire::{
    At, Claims, ClientId, Fence, HandleId, Ino, LockKind, LockOwner, LockRange, LockType, NodeKind, Reply,
    Request, RequestId,
};

/// The bytes that an allocator and a busy server may keep beside it.
const SLACK_BYTES: usize = 6 << 20;
/// Bytes of an open description: as `namespace/files/open.rs` says.
const DESCRIPTION_BYTES: usize = 300;
/// Bytes of a gone client with a remembered reply, as `clients.rs` says, of a job with its waits, and of an inode.
const CLIENT_BYTES: usize = 1024;
const JOB_BYTES: usize = 12 << 10;
const INODE_BYTES: usize = 1024;
const USER: u32 = 1000;
/// Requests that are sent before the first reply is taken.
const IN_FLIGHT: usize = 32;

/// A test's right to the process's memory: what others take meanwhile would count as its own.
static ALONE: Mutex<()> = Mutex::new(());

/// Resident memory of this process (proc_pid_status(5)).
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").expect("a Linux system");
    let line = text.lines().find(|line| line.starts_with("VmRSS")).expect("a line of that name");
    let kib: usize = line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number");
    kib << 10
}

fn lock(number: u64, ino: u64, kind: LockKind, first: u64) -> LockRequest {
    LockRequest {
        client: ClientId(1),
        uid: USER,
        request: RequestId(number),
        ino: Ino(ino),
        handle: HandleId(number),
        owner: LockOwner(if kind == LockKind::Posix { first } else { 0 }),
        pid: 1,
        kind,
        lock: LockType::Read,
        range: LockRange { first, last: first },
        wait: false,
        reclaim: None,
    }
}

/// A file with one lock was counted as a range of 100 bytes, and took more than ten times that.
#[test]
fn locks_of_every_shape_take_no_more_than_they_are_counted_for() {
    const FILES: u64 = 20_000;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let shapes: [(&str, &dyn Fn(u64) -> LockRequest); 4] = [
        ("a file each, held by a process", &|number| lock(number, number, LockKind::Posix, 0)),
        ("a file each, held by a description", &|number| lock(number, number, LockKind::Flock, 0)),
        ("a process each on one file", &|number| lock(number, 7, LockKind::Posix, number)),
        ("a range each of one process", &|number| LockRequest {
            owner: LockOwner(0),
            ..lock(number, 7, LockKind::Posix, number * 2)
        }),
    ];
    // All are kept, so that none finds memory that another one gave back.
    let mut tables = Vec::new();
    for (shape, asked) in shapes {
        let mut table = LockTable::new(Fence(1));
        let before = resident_bytes();
        for number in 0..FILES {
            assert_eq!(table.acquire(&asked(number)).0, Outcome::Granted, "{shape}");
        }
        let (counted, taken) = (table.bytes(), resident_bytes().saturating_sub(before));
        println!("{shape}: {} bytes counted, {} taken, for each", counted / 20_000, taken / 20_000);
        assert!(taken <= counted + (1 << 20), "{shape}: {taken} bytes for {counted}");
        assert!(counted < 1 << 26, "{shape}: {counted} bytes would leave nobody any locks");
        tables.push(table);
    }
}

/// Sends requests and takes their replies, some at a time.
fn all(line: &mut Line, requests: impl Iterator<Item = Request>, mut each: impl FnMut(Reply)) {
    let mut in_flight = 0;
    for request in requests {
        line.send(&request, &[]);
        in_flight += 1;
        if in_flight == IN_FLIGHT {
            each(line.receive().1);
            in_flight -= 1;
        }
    }
    for _ in 0..in_flight {
        each(line.receive().1);
    }
}

/// One user opens, locks, and comes as one job and one client after the other: what the server keeps of it is within what is
/// said of each thing.
#[test]
fn what_a_user_makes_a_server_keep_is_within_its_bounds() {
    const OPENED: usize = 20_000;
    const GONE: usize = 600;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = Cluster::start(&ram(1, "64MiB"));
    let user = key().mint(claims(USER));
    let mut line = cluster.line(0, Transport::Unix, &user);
    let file = line.open("file", READ_WRITE).expect("opened");
    let mut before = cluster.memory_kib(0, "RssAnon") as usize;
    let mut grown = |what: &str, bound: usize| {
        let now = cluster.memory_kib(0, "RssAnon") as usize;
        let bytes = now.saturating_sub(before) << 10;
        println!("{what}: {} KiB more, {} KiB allowed", bytes >> 10, bound >> 10);
        assert!(bytes <= bound + SLACK_BYTES, "{what}: {bytes} bytes of memory where {bound} are the bound");
        before = now;
    };

    let open =
        Request::Open { at: At::new(Ino::ROOT, "file"), flags: READ_WRITE, permissions: 0o644, layout: None };
    let mut handles = Vec::with_capacity(OPENED);
    all(&mut line, std::iter::repeat_n(open, OPENED), |reply| match reply {
        Reply::Opened { handle, .. } => handles.push(handle),
        other => panic!("{other:?}"),
    });
    grown("descriptions", OPENED * DESCRIPTION_BYTES);

    let counted = {
        let mut table = LockTable::new(Fence(1));
        for number in 0..OPENED as u64 {
            table.acquire(&lock(number, 7, LockKind::Flock, 0));
        }
        table.bytes()
    };
    let shared = |&handle: &HandleId| Request::Lock {
        ino: file.ino,
        handle,
        owner: LockOwner(0),
        pid: 1,
        kind: LockKind::Flock,
        lock: LockType::Read,
        range: LockRange { first: 0, last: u64::MAX },
        wait: false,
        reclaim: None,
    };
    all(&mut line, handles.iter().map(shared), |reply| assert_held(&reply));
    grown("locks", counted);

    for number in 0..GONE {
        let job = key().mint(Claims { job: format!("job-{number}"), ..claims(USER) });
        let mut line = cluster.line(0, Transport::Unix, &job);
        let make = Request::Make {
            at: At::new(Ino::ROOT, format!("made-{number}")),
            kind: NodeKind::Directory,
            permissions: 0o755,
        };
        assert!(matches!(line.reply(&make), Reply::Attributes(_)));
    }
    grown("jobs and clients that are gone", GONE * (CLIENT_BYTES + JOB_BYTES + INODE_BYTES));
}

/// The account of kept memory estimates: a server that takes more than it counts would end before it refuses.
#[test]
fn names_and_attributes_take_no_more_than_they_are_counted_for() {
    const EACH: usize = 20_000;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = Cluster::start(&ram(1, "64MiB"));
    let mut line = cluster.root(0);
    let at = |kind: &str, number: usize| At::new(Ino::ROOT, format!("{kind}-{number:0>40}"));
    let make = |kind| move |number| Request::Make { at: at("node", number), kind, permissions: 0o755 };
    let link = |number| Request::Link { from: at("node", 0), follow: false, to: at("link", number) };
    let symlink = |number| Request::Symlink { at: at("symlink", number), target: vec![b'a'; 1000] };
    let flags = weir_wire::OpenFlags { unnamed: true, write: true, ..Default::default() };
    let open = |_| Request::Open { at: At::inode(Ino::ROOT), flags, permissions: 0o644, layout: None };
    let set = |number| Request::XattrSet {
        at: at("node", number / 8),
        follow: false,
        name: format!("user.{number}").into_bytes(),
        mode: weir_wire::XattrMode::Set,
    };
    type Asked<'a> = &'a dyn Fn(usize) -> Request;
    let kinds: [(&str, Asked<'_>, usize); 6] = [
        ("files", &make(NodeKind::Regular), 0),
        ("links", &link, 0),
        ("symbolic links", &symlink, 0),
        ("small attributes", &set, 10),
        ("attributes of a kibibyte", &set, 1024),
        ("open files without a name", &open, 0),
    ];
    for (kind, request, value_bytes) in kinds {
        let resident = || cluster.memory_kib(0, "RssAnon") << 10;
        let (before, counted_before) = (resident(), cluster.figure(0, "kept_bytes"));
        for number in 0..EACH {
            let reply = line.call(&request(number), &vec![7; value_bytes]).0;
            assert!(!matches!(reply, Reply::Failed(_)), "{kind}: {reply:?}");
        }
        let (taken, counted) = (resident() - before, cluster.figure(0, "kept_bytes") - counted_before);
        println!("{kind}: {} bytes counted, {} taken, for each", counted / EACH as u64, taken / EACH as u64);
        assert!(taken <= counted + SLACK_BYTES as u64, "{kind}: {taken} bytes taken, {counted} counted");
    }
}
