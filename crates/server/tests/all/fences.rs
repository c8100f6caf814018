//! Locks that a silent client lost: nothing that it sent under them changes what the next holder sees.

use std::time::Duration;
use weir_placement::TargetId;
use weir_testing::{
    assert_held, claims, dir, key, ram, wait_until, Cluster, File, Line, Transport, READ_WRITE,
};
use weir_wire::{ClientId, Errno, Extent, Fence, LockKind, LockOwner, LockRange, LockType, Reply, Request};

const USER: u32 = 1001;
const EIO: Errno = Errno(5);
const ENOLCK: Errno = Errno(37);
const ESTALE: Errno = Errno(116);
fn line(cluster: &Cluster, server: usize) -> Line {
    cluster.line(server, Transport::Unix, &key().mint(claims(USER)))
}

fn lock_request(file: &File, kind: LockKind, reclaim: Option<Fence>) -> Request {
    let range = LockRange { first: 0, last: u64::MAX };
    let (ino, handle, owner, lock) = (file.ino, file.handle, LockOwner(1), LockType::Write);
    Request::Lock { ino, handle, owner, pid: 1, kind, lock, range, wait: reclaim.is_none(), reclaim }
}

/// Waits for a lock of the whole file. Answers the fence under which it is held.
fn lock(line: &mut Line, file: &File, kind: LockKind) -> Fence {
    match line.reply(&lock_request(file, kind, None)) {
        Reply::Held { fence } => fence,
        other => panic!("{other:?}"),
    }
}

/// The holder of a lost lock reaches the home again: it gets its description back, and not its lock.
fn again(cluster: &Cluster, holder: ClientId, file: &File, (kind, held): (LockKind, Fence)) -> Line {
    let mut line = cluster.line_of(0, Transport::Unix, &key().mint(claims(USER)), holder);
    assert_held(&line.reply(&Request::Reclaim { handles: vec![file.capability] }));
    assert_eq!(line.reply(&lock_request(file, kind, Some(held))), Reply::Failed(ENOLCK));
    let told = format!("lost its lock on inode {}", file.ino.0);
    wait_until("the log tells of it", || cluster.log(0).contains(&told));
    line
}

fn target_at(file: &File, server: u16) -> TargetId {
    file.target_on(server).expect("it has one there")
}

/// A write to the beginning of a file.
fn write_of(bytes: usize, file: &File, target: TargetId, fence: Fence) -> Request {
    let (capability, epoch) = (file.capability, file.epoch);
    let extents = vec![Extent { offset: 0, length: bytes as u32 }];
    Request::Write { capability, target, epoch, fence, extents, publication: None }
}

/// A read of the beginning of a file.
fn read_of(bytes: usize, file: &File, target: TargetId, fence: Fence) -> Request {
    let (capability, epoch) = (file.capability, file.epoch);
    let extents = vec![Extent { offset: 0, length: bytes as u32 }];
    Request::Read { capability, target, epoch, fence, extents }
}

fn write(line: &mut Line, file: &File, fence: Fence, byte: u8) -> Reply {
    line.call(&write_of(1, file, target_at(file, 1), fence), &[byte]).0
}

fn read(line: &mut Line, file: &File, fence: Fence) -> (Reply, Vec<u8>) {
    line.call(&read_of(1, file, target_at(file, 1), fence), &[])
}

const WRITTEN: Reply = Reply::Written { size: None };
const DATA: Reply = Reply::Data { size: None };

/// The home of the lock is lost to the holder alone: the holder's connection to the target stays, with a write under way.
#[test]
fn a_write_under_a_lock_of_before_is_refused_once_the_next_holder_has_read() {
    for kind in [LockKind::Posix, LockKind::Flock] {
        let cluster = Cluster::start(&ram(2, "64MiB"));
        let (mut home, mut target) = (line(&cluster, 0), line(&cluster, 1));
        let file = home.make_on("counter", 1);
        let first = lock(&mut home, &file, kind);
        assert_eq!(write(&mut target, &file, first, 1), WRITTEN);

        let (mut next_home, mut next_target) = (line(&cluster, 0), line(&cluster, 1));
        let same = next_home.open("counter", READ_WRITE).expect("opened");
        let holder = home.client;
        drop(home);
        let second = lock(&mut next_home, &same, kind);
        assert_eq!(second, first.next());
        assert_eq!(read(&mut next_target, &same, second), (DATA, vec![1]));
        assert_eq!(write(&mut target, &file, first, 9), Reply::Failed(ESTALE), "{kind:?}");
        let _home = again(&cluster, holder, &file, (kind, first));
        assert_eq!(write(&mut target, &file, first, 9), Reply::StaleFence, "{kind:?}");
        assert_eq!(write(&mut next_target, &same, second, 2), WRITTEN);
        assert_eq!(read(&mut next_target, &same, second), (DATA, vec![2]));
        // Programs that use no locks are not concerned, and no stranger can put a fence of its own before the home's.
        assert_eq!(read(&mut line(&cluster, 1), &same, Fence::NONE), (DATA, vec![2]));
        assert_eq!(read(&mut line(&cluster, 1), &same, second.next()), (Reply::StaleFence, vec![]));
        assert_eq!(write(&mut next_target, &same, second, 3), WRITTEN);
    }
}

/// A large write under the lock before was under way when its sender was cut off: the rest comes behind the next holder's read.
#[test]
fn the_rest_of_a_large_write_is_too_late_for_a_lost_lock() {
    const BYTES: usize = 256 * 1024;
    let cluster = Cluster::start(&ram(2, "64MiB"));
    let (mut home, mut target) = (line(&cluster, 0), line(&cluster, 1));
    let file = home.make_on("counter", 1);
    let first = lock(&mut home, &file, LockKind::Posix);
    let large = write_of(BYTES, &file, target_at(&file, 1), first);
    assert_eq!(target.call(&large, &[1; BYTES]).0, WRITTEN);
    let (_, rest) = target.send_but(BYTES / 2, &large, &[9; BYTES]);

    let (mut next_home, mut next_target) = (line(&cluster, 0), line(&cluster, 1));
    let same = next_home.open("counter", READ_WRITE).expect("opened");
    drop(home);
    let second = lock(&mut next_home, &same, LockKind::Posix);
    let all = read_of(BYTES, &same, target_at(&same, 1), second);
    let (told, seen) = next_target.call(&all, &[]);
    assert_eq!(told, DATA);
    target.connection.send_bytes(&rest);
    assert_eq!(target.receive().1, Reply::StaleFence);
    assert!(next_target.call(&all, &[]).1 == seen);
}

/// A lock that its holder gave back is no loss, and neither is the end of a client that held none.
#[test]
fn a_lock_that_was_given_back_changes_no_fence() {
    let cluster = Cluster::start(&ram(1, "64MiB"));
    let (mut home, mut next) = (line(&cluster, 0), line(&cluster, 0));
    let file = home.open("file", READ_WRITE).expect("opened");
    let same = next.open("file", READ_WRITE).expect("opened");
    let first = lock(&mut home, &file, LockKind::Flock);
    home.close(&file);
    assert_eq!(lock(&mut next, &same, LockKind::Flock), first);
    let bystander = line(&cluster, 0);
    drop((home, bystander));
    let other = next.open("other", READ_WRITE).expect("opened");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(lock(&mut next, &other, LockKind::Posix), first);
}

/// The home starts anew while the holder does not reach it, and gives the lock to another client after the grace period.
#[test]
fn a_write_under_a_lock_of_an_earlier_start_is_refused() {
    let mut cluster = Cluster::start(&dir(2));
    let (mut home, mut target) = (line(&cluster, 0), line(&cluster, 1));
    let file = home.make_on("counter", 1);
    let first = lock(&mut home, &file, LockKind::Posix);
    assert_eq!(write(&mut target, &file, first, 1), WRITTEN);
    let holder = home.client;
    cluster.kill_server(0);
    assert_eq!(write(&mut target, &file, first, 2), WRITTEN, "no lock changes hands while its home is away");
    cluster.start_server(0);

    let (mut next_home, mut next_target) = (line(&cluster, 0), line(&cluster, 1));
    let same = next_home.open("counter", READ_WRITE).expect("opened");
    let second = lock(&mut next_home, &same, LockKind::Posix);
    assert_eq!(read(&mut next_target, &same, second), (DATA, vec![2]));
    let _home = again(&cluster, holder, &file, (LockKind::Posix, first));
    assert_eq!(write(&mut target, &file, first, 9), Reply::StaleFence);
    assert_eq!(read(&mut next_target, &same, second), (DATA, vec![2]));
    // A home that is away cannot tell of its fence. The last one goes on, and no other one does.
    cluster.kill_server(0);
    assert_eq!(write(&mut next_target, &same, second, 3), WRITTEN);
    assert_eq!(write(&mut target, &file, first, 9), Reply::Failed(EIO));
}

/// A client reaches a server again, and takes a description and its lock back.
fn claimed(cluster: &Cluster, client: ClientId, file: &File, held: Fence) -> (Line, Fence) {
    let mut line = cluster.line_of(0, Transport::Unix, &key().mint(claims(USER)), client);
    assert_held(&line.reply(&Request::Reclaim { handles: vec![file.capability] }));
    assert_held(&line.reply(&lock_request(file, LockKind::Posix, Some(held))));
    match line.reply(&Request::Reclaim { handles: vec![] }) {
        Reply::Held { fence } => (line, fence),
        other => panic!("{other:?}"),
    }
}

/// A client that lost its lock before the home started anew, or that missed a whole start of it, does not claim the lock in the
/// grace period: another one may have had it meanwhile.
#[test]
fn a_lock_that_others_may_have_had_is_not_claimed_after_a_restart() {
    let mut cluster = Cluster::start(&dir(1));
    let (mut home, mut next, mut other, mut idle) =
        (line(&cluster, 0), line(&cluster, 0), line(&cluster, 0), line(&cluster, 0));
    let file = home.open("counter", READ_WRITE).expect("opened");
    let first = lock(&mut home, &file, LockKind::Posix);
    let kept = other.open("kept", READ_WRITE).expect("opened");
    lock(&mut other, &kept, LockKind::Posix);
    let missed = idle.open("missed", READ_WRITE).expect("opened");
    lock(&mut idle, &missed, LockKind::Posix);
    let (holder, unharmed, absent) = (home.client, other.client, idle.client);
    drop(home);
    let same = next.open("counter", READ_WRITE).expect("opened");
    assert_eq!(lock(&mut next, &same, LockKind::Posix), first.next());
    next.close(&same);
    cluster.kill_server(0);
    cluster.start_server(0);

    let mut back = again(&cluster, holder, &file, (LockKind::Posix, first));
    assert_held(&back.reply(&Request::Reclaim { handles: vec![] }));
    let (_other, since) = claimed(&cluster, unharmed, &kept, first);
    assert!(since.start() > first.start());
    // It knows what it lost: the locks that it takes from now on are its own also after the next start.
    assert_eq!(lock(&mut back, &file, LockKind::Posix), since);
    cluster.kill_server(0);
    cluster.start_server(0);
    let (_back, _) = claimed(&cluster, holder, &file, since);
    let (_other, _) = claimed(&cluster, unharmed, &kept, since);
    again(&cluster, absent, &missed, (LockKind::Posix, first));
}

/// Writes under a lost lock that wait for their device do not come behind a read of the next holder: at the home itself they go
/// with the connection of their client, at another server with the fence.
#[test]
fn a_write_that_waits_for_its_device_is_too_late_for_a_lost_lock() {
    for server in [0, 1] {
        // On a busy machine all may be written before the lock is lost.
        let was_in_time = (0..5).any(|_| writes_wait_while_the_lock_is_lost(server));
        assert!(was_in_time, "at server {server}");
    }
}

/// Answers whether a write waited until the next holder had read.
fn writes_wait_while_the_lock_is_lost(server: u16) -> bool {
    const WRITES: u8 = 4;
    let cluster = Cluster::start(&ram(2, "64MiB"));
    let (mut home, mut next_home) = (line(&cluster, 0), line(&cluster, 0));
    let file = home.make_on("counter", server);
    let (target, server) = (target_at(&file, server), usize::from(server));
    let slow = cluster.put(server, &format!("/v1/targets/{target}/speed"), r#"{"fixed": "2500ms"}"#);
    assert_eq!(slow.status, 200);
    let first = lock(&mut home, &file, LockKind::Posix);
    let mut elsewhere = line(&cluster, 1);
    for byte in 1..=WRITES {
        let sender = if server == 0 { &mut home } else { &mut elsewhere };
        sender.send(&write_of(1, &file, target, first), &[byte]);
    }
    drop(home);
    let same = next_home.open("counter", READ_WRITE).expect("opened");
    let second = lock(&mut next_home, &same, LockKind::Posix);
    let mut next = if server == 0 { next_home } else { line(&cluster, 1) };
    let seen = next.call(&read_of(1, &same, target, second), &[]).1;
    wait_until("all are over", || cluster.figure(server, "outstanding") == 0);
    assert_eq!(next.call(&read_of(1, &same, target, second), &[]).1, seen, "at server {server}");
    // Nothing was written where the server met the end of the connection before the first write.
    seen.first().is_none_or(|&byte| byte < WRITES)
}
