//! Locks that a client lost, and the fences that it shows, against scripted servers.

use crate::scripted_server::*;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use weir_client::wire::*;
use weir_client::{Caller, ClientError, File, LockRequest, Store};
use weir_placement::Layout;

const CALLER: Caller = Caller::own();
const SILENCE: Duration = Duration::from_secs(5);

fn lock(lock: LockType) -> LockRequest {
    let (owner, range) = (LockOwner(1), LockRange { first: 0, last: u64::MAX });
    LockRequest { owner, pid: 1, kind: LockKind::Posix, lock, range }
}

/// A description of file 9, whose home is server 0.
fn description(store: &Store, handle: u64, object_at: u16) -> File {
    let layout = Layout::striped(4096, vec![target(object_at, 0)]).expect("well formed");
    let handle = HandleId(handle);
    let state = state(Ino(9), layout, 10, 0);
    let state = weir_client::HandleState { handle, capability: capability(Ino(9), handle), ..state };
    File::from_state(store, state)
}

fn write(file: &File) -> Result<usize, ClientError> {
    file.write_at(&CALLER, &[IoSlice::new(b"x")], 0)
}

fn read(file: &File) -> Result<usize, ClientError> {
    file.read_at(&CALLER, &mut [IoSliceMut::new(&mut [0])], 0)
}

fn fence_of(request: &Request) -> Option<Fence> {
    match request {
        Request::Read { fence, .. } | Request::Write { fence, .. } | Request::Reserve { fence, .. } => {
            Some(*fence)
        }
        _ => None,
    }
}

fn served(request: &Request) -> Answer {
    let size = Some((10, 0));
    match request {
        Request::Attributes { .. } => Reply::Attributes(attributes(Ino(9), FileKind::Regular, 10, 0)).into(),
        Request::Read { .. } => Answer::Send(Reply::Data { size }, vec![b'y']),
        Request::Write { .. } => Reply::Written { size }.into(),
        request => carried_out(request),
    }
}

/// A program that goes on under a lock that another one has by now once wrote over the other's bytes.
#[test]
fn nothing_is_read_or_written_through_a_description_whose_lock_is_lost() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let breaks = Arc::new(AtomicBool::new(false));
    let is_broken = breaks.clone();
    let fake = FakeServer::start(folder.path(), 0, move |arrived| match &arrived.request {
        Request::Lock { reclaim: Some(_), .. } => Reply::Failed(Errno(libc::ENOLCK as u16)).into(),
        Request::Write { .. } if is_broken.swap(false, Ordering::SeqCst) => Answer::HangUp,
        request => served(request),
    });
    let store = store(folder.path(), &[&fake], SILENCE);
    let (locked, other) = (description(&store, 3, 0), description(&store, 4, 0));
    locked.try_lock(&CALLER, &lock(LockType::Write)).expect("granted");
    write(&locked).expect("under the lock");

    // The connection breaks with a write under way: it is not sent again.
    fake.boot.store(2, Ordering::SeqCst);
    breaks.store(true, Ordering::SeqCst);
    let lost = write(&locked).expect_err("the lock is lost");
    assert!(matches!(lost, ClientError::LockLost(_)), "{lost}");
    assert_eq!(lost.errno(), libc::EIO);
    let sent = fake.requests().iter().filter(|request| fence_of(request).is_some()).count();
    assert_eq!(sent, 2);
    for outcome in [write(&locked), read(&locked)] {
        assert_eq!(outcome.expect_err("it stays lost").errno(), libc::EIO);
    }
    let cut = locked.truncate(&CALLER, 0).expect_err("it changes bytes, too");
    assert_eq!(cut.errno(), libc::EIO);
    locked.size(&CALLER).expect("it tells of no bytes");
    write(&other).expect("it was never locked");
    locked.try_lock(&CALLER, &lock(LockType::Write)).expect("granted again");
    write(&locked).expect("under a lock that holds");
    fake.boot.store(3, Ordering::SeqCst);
    breaks.store(true, Ordering::SeqCst);
    write(&locked).expect_err("lost again");
    locked.try_lock(&CALLER, &lock(LockType::Unlock)).expect("given back");
    write(&locked).expect("without a lock");
}

/// A target that heard of another fence refuses, and takes the same request under the home's present one.
#[test]
fn a_client_shows_the_fence_that_the_home_tells() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let present = Arc::new(AtomicU64::new(5));
    let (at_home, at_target) = (present.clone(), present.clone());
    let held = move || Reply::Held { fence: Fence(at_home.load(Ordering::SeqCst)) };
    let home = FakeServer::start(folder.path(), 0, move |arrived| match &arrived.request {
        Request::Lock { .. } | Request::Fence => held().into(),
        request => served(request),
    });
    let target = FakeServer::start(folder.path(), 1, move |arrived| match fence_of(&arrived.request) {
        Some(Fence(shown)) if ![0, at_target.load(Ordering::SeqCst)].contains(&shown) => {
            Reply::StaleFence.into()
        }
        _ => served(&arrived.request),
    });
    let store = store(folder.path(), &[&home, &target], SILENCE);
    let file = description(&store, 3, 1);
    let shown = || -> Vec<Fence> { target.requests().iter().filter_map(fence_of).collect() };
    write(&file).expect("without locks");
    assert_eq!(shown(), [Fence::NONE]);
    file.try_lock(&CALLER, &lock(LockType::Write)).expect("granted");
    write(&file).expect("under the lock");
    present.store(6, Ordering::SeqCst);
    write(&file).expect("under the next fence");
    assert_eq!(read(&file).expect("under the same fence"), 1);
    assert_eq!(shown(), [Fence::NONE, Fence(5), Fence(5), Fence(6), Fence(6)]);
}
