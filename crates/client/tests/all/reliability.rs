//! Broken connections, silent servers, restarts, wrong keys and forks, against scripted servers.

use crate::scripted_server;
use crate::scripted_server::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_client::wire::*;
use weir_client::{Caller, ClientError, Place};
use weir_placement::ServerId;
use weir_testing::{wait_until, Stop};

const CALLER: Caller = Caller::own();
const SILENCE: Duration = Duration::from_secs(5);

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn found() -> Answer {
    Reply::Attributes(attributes(Ino(9), FileKind::Regular, 0, 0)).into()
}

#[test]
fn a_request_whose_connection_broke_is_sent_again_under_its_id() {
    let folder = folder();
    let calls = AtomicU64::new(0);
    let fake = FakeServer::start(folder.path(), 0, move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Answer::HangUp,
        _ => Reply::Done.into(),
    });
    let store = store(folder.path(), &[&fake], SILENCE);
    store.unlink(&CALLER, Place::root(b"x"), false).expect("at the third attempt");
    let ids: Vec<u64> = fake.log.lock().expect("whole").iter().map(|arrived| arrived.id).collect();
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| *id == ids[0] && *id != 0));
    assert_eq!(store.counters().snapshot().resends, 2);
}

/// The server may forget the recorded replies of acknowledged requests, so the mark may never pass a request in flight.
#[test]
fn no_request_in_flight_is_acknowledged() {
    let folder = folder();
    let fake = FakeServer::start(folder.path(), 0, |_| found());
    let store = store(folder.path(), &[&fake], SILENCE);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    store.attributes(&CALLER, Place::root(b"x"), true).expect("answered");
                }
            });
        }
    });
    let log = fake.log.lock().expect("whole");
    assert_eq!(log.len(), 1600);
    let mut seen = 0;
    for arrived in log.iter() {
        assert!(arrived.acknowledged <= arrived.id);
        seen = seen.max(arrived.acknowledged);
    }
    assert!(seen > 1000, "the mark moves on: {seen}");
}

#[test]
fn after_a_restart_handles_and_locks_are_claimed_before_anything_else() {
    let folder = folder();
    let restarting = Arc::new(AtomicU64::new(0));
    let restarts = restarting.clone();
    let fake = FakeServer::start(folder.path(), 0, move |arrived| match &arrived.request {
        Request::Open { .. } => Reply::Opened {
            attributes: attributes(Ino(9), FileKind::Regular, 0, 0),
            handle: HandleId(77),
            capability: scripted_server::capability(Ino(9), HandleId(77)),
            layout: Some(weir_placement::Layout::striped(4096, vec![target(0, 0)]).expect("well formed")),
            created: false,
        }
        .into(),
        Request::Attributes { .. } if restarts.swap(0, Ordering::SeqCst) == 1 => Answer::HangUp,
        Request::Attributes { .. } => found(),
        request => carried_out(request),
    });
    let store = store(folder.path(), &[&fake], SILENCE);
    let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    let opened = store.open(&CALLER, Place::root(b"x"), flags, 0).expect("opened");
    let file = weir_client::File::new(&store, opened, false).expect("regular");
    let lock = weir_client::LockRequest {
        owner: LockOwner(1),
        pid: 1,
        kind: LockKind::Posix,
        lock: LockType::Write,
        range: LockRange { first: 0, last: 9 },
    };
    file.try_lock(&CALLER, &lock).expect("granted");
    restarting.store(1, Ordering::SeqCst);
    fake.boot.store(2, Ordering::SeqCst);
    file.size(&CALLER).expect("after the restart");
    let requests = fake.requests();
    let last: Vec<&Request> = requests.iter().rev().take(5).rev().collect();
    assert!(matches!(last[0], Request::Attributes { .. }), "the one that was cut off: {last:?}");
    assert!(matches!(last[1], Request::Reclaim { handles } if handles[0].handle == HandleId(77)), "{last:?}");
    assert!(matches!(last[2], Request::Lock { reclaim: Some(Fence(1)), wait: false, .. }), "{last:?}");
    assert!(matches!(last[3], Request::Reclaim { handles } if handles.is_empty()), "{last:?}");
    assert!(matches!(last[4], Request::Attributes { .. }), "{last:?}");
}

/// A mount that could not reach the home when a program closed its file once left the lock to the end of its own session, which
/// does not come: others waited for ever.
#[test]
fn a_release_that_the_home_did_not_hear_is_told_before_anything_else() {
    let folder = folder();
    let is_silent = Arc::new(AtomicBool::new(false));
    let silent = is_silent.clone();
    let fake = FakeServer::start(folder.path(), 0, move |arrived| match &arrived.request {
        _ if silent.load(Ordering::SeqCst) => Answer::Silence,
        Request::Attributes { .. } => found(),
        request => carried_out(request),
    });
    let store = store(folder.path(), &[&fake], Duration::from_millis(400));
    let layout = weir_placement::Layout::striped(4096, vec![target(0, 0)]).expect("well formed");
    let file = weir_client::File::from_state(&store, state(Ino(9), layout, 0, 0));
    let lock = |lock, first| weir_client::LockRequest {
        owner: LockOwner(1),
        pid: 1,
        kind: LockKind::Posix,
        lock,
        range: LockRange { first, last: first + 9 },
    };
    file.try_lock(&CALLER, &lock(LockType::Read, 0)).expect("granted");
    is_silent.store(true, Ordering::SeqCst);
    // Both the greater lock and the new one may have been granted: neither belongs to the program, which was told of an error.
    file.try_lock(&CALLER, &lock(LockType::Write, 0)).expect_err("silent");
    file.try_lock(&CALLER, &lock(LockType::Write, 100)).expect_err("silent");
    file.release_locks(&CALLER, LockOwner(7)).expect_err("silent");
    is_silent.store(false, Ordering::SeqCst);
    let before = fake.requests().len();
    wait_until("the server is asked again", || file.size(&CALLER).is_ok());
    let requests: Vec<Request> = fake.requests().split_off(before);
    let asked = requests.iter().position(|request| matches!(request, Request::Attributes { .. }));
    let told: Vec<&Request> = requests[..asked.expect("asked")]
        .iter()
        .filter(|request| {
            matches!(request, Request::Lock { reclaim: None, .. } | Request::ReleaseLocks { .. })
        })
        .collect();
    let kept = Request::Lock {
        ino: Ino(9),
        handle: file.state().handle,
        owner: LockOwner(1),
        pid: 1,
        kind: LockKind::Posix,
        lock: LockType::Read,
        range: LockRange { first: 0, last: 9 },
        wait: false,
        reclaim: None,
    };
    assert_eq!(told[0], &kept, "the lock of before");
    assert!(matches!(told[1], Request::Lock { lock: LockType::Unlock, .. }), "{:?}", told[1]);
    assert_eq!(told[2], &Request::ReleaseLocks { ino: Ino(9), owner: LockOwner(7) });
    assert_eq!(told.len(), 3, "{told:?}");
}

#[test]
fn a_server_that_accepts_and_never_answers_is_lost() {
    let folder = folder();
    let fake = FakeServer::start(folder.path(), 0, |_| Answer::Silence);
    let store = store(folder.path(), &[&fake], Duration::from_millis(400));
    let began = Instant::now();
    let error = store.attributes(&CALLER, Place::root(b"x"), true).expect_err("lost");
    assert!(matches!(error, ClientError::Lost { .. }), "{error}");
    assert_eq!(error.errno(), libc::EIO);
    assert!(began.elapsed() >= Duration::from_millis(400));
    assert_eq!(store.counters().snapshot().lost, 1);
}

/// Each connection that broke once gave the server its whole bound again, so a call waited for up to 18 of them.
#[test]
fn a_server_that_drops_its_connections_unanswered_is_lost_after_twice_the_bound() {
    let folder = folder();
    let silence = Duration::from_millis(800);
    let fake = FakeServer::start(folder.path(), 0, move |arrived| {
        if matches!(arrived.request, Request::Ping) {
            return Answer::Silence;
        }
        std::thread::sleep(silence / 4 * 3);
        Answer::HangUp
    });
    let store = store(folder.path(), &[&fake], silence);
    let error = store.attributes(&CALLER, Place::root(b"x"), true).expect_err("lost");
    assert!(matches!(error, ClientError::Lost { .. }), "{error}");
    let sent = fake.requests().len();
    assert!((1..=4).contains(&sent), "sent {sent} times in twice the bound");
}

#[test]
fn a_server_that_is_not_there_is_lost_and_found_again() {
    let folder = folder();
    let fake = FakeServer::start(folder.path(), 0, |_| found());
    let absent = FakeServer { path: folder.path().join("nothing"), server: ServerId(0), ..fake };
    let lost = store(folder.path(), &[&absent], Duration::from_millis(200));
    assert_eq!(lost.attributes(&CALLER, Place::root(b"x"), true).expect_err("lost").errno(), libc::EIO);
    std::os::unix::fs::symlink(folder.path().join("server-0"), &absent.path).expect("a fresh name");
    wait_until("service resumes", || lost.attributes(&CALLER, Place::root(b"x"), true).is_ok());
}

#[test]
fn a_throttled_request_waits_as_long_as_pings_are_answered() {
    let folder = folder();
    let fake = FakeServer::start(folder.path(), 0, |arrived| match &arrived.request {
        Request::Ping => Reply::Done.into(),
        _ => Answer::Late(
            Duration::from_millis(1500),
            Reply::Attributes(attributes(Ino(9), FileKind::Regular, 4, 0)),
        ),
    });
    let store = store(folder.path(), &[&fake], Duration::from_millis(300));
    let attributes = store.attributes(&CALLER, Place::root(b"x"), true).expect("after five times the bound");
    assert_eq!(attributes.size_bytes, 4);
    assert_eq!(store.counters().snapshot().resends, 0);
}

#[test]
fn keys_that_differ_are_refused_on_either_side() {
    let folder = folder();
    let fake = FakeServer::start_with_key(folder.path(), 0, SiteKey::new([1; 32]), |_| found());
    let store = store(folder.path(), &[&fake], SILENCE);
    let error = store.attributes(&CALLER, Place::root(b"x"), true).expect_err("refused");
    assert!(matches!(error, ClientError::Refused { .. }), "{error}");
    assert_eq!(error.errno(), libc::EACCES);
}

#[test]
fn forty_waiting_locks_do_not_keep_out_the_unlock() {
    let folder = folder();
    let ended = Arc::new(AtomicBool::new(false));
    let ends = ended.clone();
    let fake = FakeServer::start(folder.path(), 0, move |arrived| match &arrived.request {
        Request::Lock { wait: true, .. } => {
            Answer::Once(ends.clone(), Reply::Failed(Errno(libc::EINTR as u16)))
        }
        request => carried_out(request),
    });
    let store = store(folder.path(), &[&fake], Duration::from_millis(500));
    let layout = weir_placement::Layout::striped(4096, vec![target(0, 0)]).expect("well formed");
    let file = weir_client::File::from_state(&store, state(Ino(7), layout, 0, 1));
    let lock = |lock| weir_client::LockRequest {
        owner: LockOwner(1),
        pid: 1,
        kind: LockKind::Posix,
        lock,
        range: LockRange { first: 0, last: 9 },
    };
    let waits: Vec<weir_client::LockWait> = (0..40).map(|_| Default::default()).collect();
    std::thread::scope(|scope| {
        for wait in &waits {
            scope.spawn(|| {
                let error =
                    file.lock(&CALLER, &lock(LockType::Write), wait, &|| false).expect_err("cancelled");
                assert_eq!(error.errno(), libc::EINTR);
            });
        }
        let waiting =
            || fake.requests().iter().filter(|r| matches!(r, Request::Lock { wait: true, .. })).count();
        wait_until("every lock call waits", || waiting() == 40);
        file.try_lock(&CALLER, &lock(LockType::Unlock)).expect("not held up");
        for wait in &waits {
            file.cancel_lock(&CALLER, wait).expect("cancelled");
        }
        let cancelled = fake.requests().iter().filter(|r| matches!(r, Request::CancelLock { .. })).count();
        assert_eq!(cancelled, 40);
        ended.store(true, Ordering::SeqCst);
    });
}

/// A child has its own connections and client id, and leaves its parent's alone.
#[test]
fn parent_and_child_of_a_fork_go_on_each_for_itself() {
    let folder = folder();
    let fake = FakeServer::start(folder.path(), 0, |_| found());
    let store = store(folder.path(), &[&fake], SILENCE);
    let stat = || store.attributes(&CALLER, Place::root(b"x"), true).is_ok();
    assert!(stat());
    // SAFETY: the child only uses the store, which is made for it, and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        store.after_fork_in_child(|_| {});
        let went_well = (0..10).all(|_| stat());
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!went_well)) };
    }
    assert!((0..10).all(|_| stat()));
    let mut status = -1;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    let log = fake.log.lock().expect("whole");
    let clients: std::collections::BTreeSet<u64> = log.iter().map(|arrived| arrived.client.0).collect();
    assert_eq!(clients.len(), 2);
    let shared = log
        .iter()
        .any(|one| log.iter().any(|two| one.connection == two.connection && one.client != two.client));
    assert!(!shared, "no connection carries two clients");
}

/// Threads of the parent hold slots in the midst of calls; the child does without these and closes their sockets.
#[test]
fn a_child_works_whatever_the_threads_of_its_parent_were_doing() {
    let folder = folder();
    let fake = FakeServer::start(folder.path(), 0, |_| found());
    let store = store(folder.path(), &[&fake], SILENCE);
    let stat = || store.attributes(&CALLER, Place::root(b"x"), true).is_ok();
    let is_over = AtomicBool::new(false);
    let mut statuses = Vec::new();
    std::thread::scope(|scope| {
        let stopping = Stop::at_end(&is_over);
        for _ in 0..6 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    assert!(stat());
                }
            });
        }
        for _ in 0..20 {
            // SAFETY: the child only uses the store, which is made for it, and leaves by _exit.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: these sockets are the store's, whose child no longer uses them.
                store.after_fork_in_child(|descriptor| unsafe {
                    libc::close(descriptor);
                });
                let went_well = (0..10).all(|_| stat());
                // SAFETY: ends the child without the parent's exit handlers.
                unsafe { libc::_exit(i32::from(!went_well)) };
            }
            let mut status = -1;
            // SAFETY: waits for the child made above.
            unsafe { libc::waitpid(child, &mut status, 0) };
            statuses.push(status);
        }
        drop(stopping);
    });
    assert_eq!(statuses, [0; 20]);
}

/// A socket that takes connections and stays silent, as the socket of a stopped server does.
fn stopped_server(folder: &std::path::Path, number: u16) -> (FakeServer, std::os::unix::net::UnixListener) {
    let path = folder.join(format!("server-{number}"));
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a fresh path");
    let (boot, log) = Default::default();
    (FakeServer { server: ServerId(number), path, boot, log }, listener)
}

/// Each call of a command once waited anew for a server that had just been found silent: `ls` took 23 s of 10.
#[test]
fn calls_in_a_row_wait_once_for_a_silent_server() {
    let folder = folder();
    let fake = FakeServer::start(folder.path(), 0, |_| Answer::Silence);
    let store = store(folder.path(), &[&fake], Duration::from_secs(2));
    for _ in 0..40 {
        let error = store.attributes(&CALLER, Place::root(b"x"), true).expect_err("lost");
        assert!(matches!(error, ClientError::Lost { .. }), "{error}");
    }
    // A slow machine makes some calls after the moment in which calls fail at once, and these wait again.
    let waited = store.counters().snapshot().lost;
    assert!((1..20).contains(&waited), "{waited} of 40 calls waited");
}

#[test]
fn a_server_that_was_silent_is_found_again() {
    let folder = folder();
    let is_back = Arc::new(AtomicBool::new(false));
    let back = is_back.clone();
    let fake = FakeServer::start(folder.path(), 0, move |_| match back.load(Ordering::SeqCst) {
        true => found(),
        false => Answer::Silence,
    });
    let store = store(folder.path(), &[&fake], Duration::from_millis(500));
    assert!(store.attributes(&CALLER, Place::root(b"x"), true).is_err());
    is_back.store(true, Ordering::SeqCst);
    let began = Instant::now();
    while store.attributes(&CALLER, Place::root(b"x"), true).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "service does not resume");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A call once connected to the servers that it needs together one after the other, each for the whole bound. The capacity of
/// a store with lost servers came as late as any other call fails.
#[test]
fn silent_servers_are_waited_for_together() {
    const SERVERS: u16 = 8;
    let folder = folder();
    let silence = Duration::from_secs(4);
    // One after the other they take this long.
    let in_turn = silence * u32::from(SERVERS);
    let stopped: Vec<_> = (0..SERVERS).map(|number| stopped_server(folder.path(), number)).collect();
    let room = TargetRoom { capacity_bytes: 7, used_bytes: 2, disk: None };
    let fake = FakeServer::start(folder.path(), SERVERS, move |_| {
        Reply::Statistics(RoomReport { targets: vec![room], inodes: 1, inodes_free: 2 }).into()
    });
    let servers: Vec<&FakeServer> = stopped.iter().map(|(server, _)| server).chain([&fake]).collect();
    let store = store(folder.path(), &servers, silence);
    let began = Instant::now();
    assert_eq!(store.statistics(&CALLER).expect("one answers").room.capacity_bytes, 7);
    assert!(began.elapsed() < in_turn, "{:?} for {SERVERS} servers together", began.elapsed());

    let targets = (0..SERVERS).map(|server| target(server, 0)).collect();
    let layout = weir_placement::Layout::striped(4096, targets).expect("well formed");
    let file = weir_client::File::from_state(&store, state(Ino(7), layout, 1 << 20, 1));
    let began = Instant::now();
    let error = file.reserve(&CALLER, 0, 1 << 20, true).expect_err("none answers");
    assert!(matches!(error, ClientError::Lost { .. }), "{error}");
    assert!(began.elapsed() < in_turn, "{:?} for {SERVERS} servers together", began.elapsed());
}
