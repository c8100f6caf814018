//! The epoch protocol, several targets at once and paths, against scripted servers.

use crate::scripted_server::*;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use weir_client::wire::*;
use weir_client::{Caller, ClientError, File, Place};
use weir_placement::{Layout, ServerId};

const SILENCE: Duration = Duration::from_secs(5);
const CALLER: Caller = Caller::own();

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn one_target() -> Layout {
    Layout::striped(4096, vec![target(0, 0)]).expect("well formed")
}

/// Two servers with a target each, the file at home on server 0.
fn two_targets() -> Layout {
    Layout::striped(4096, vec![target(0, 0), target(1, 0)]).expect("well formed")
}

#[test]
fn a_stale_write_is_repeated_under_the_new_epoch() {
    let folder = folder();
    let fake = FakeServer::start(folder.path(), 0, |arrived| match &arrived.request {
        Request::Write { epoch: 1, .. } => Reply::StaleEpoch { epoch: 2 }.into(),
        Request::Write { epoch: 2, publication: Some(publication), .. } => {
            Reply::Written { size: Some((publication.end, 2)) }.into()
        }
        Request::Attributes { .. } => Reply::Attributes(attributes(Ino(7), FileKind::Regular, 10, 2)).into(),
        other => panic!("unexpected {other:?}"),
    });
    let store = store(folder.path(), &[&fake], SILENCE);
    let file = File::from_state(&store, state(Ino(7), one_target(), 500, 1));
    let written = file.write_at(&CALLER, &[IoSlice::new(b"hello "), IoSlice::new(b"world")], 100);
    assert_eq!(written.expect("written"), 11);
    assert_eq!((file.state().size_bytes, file.state().epoch), (111, 2));
    let last = fake.log.lock().expect("whole").last().cloned().expect("a write");
    assert_eq!(last.payload, b"hello world");
    let expected = Publication { end: 111, written_bytes: 11, epoch: 2, reserved_end: 0 };
    assert!(matches!(last.request, Request::Write { publication: Some(found), .. } if found == expected));
}

/// A reader that follows a growing file must see its end, never zeros behind it.
#[test]
fn reads_end_at_the_size_of_the_home() {
    let folder = folder();
    let size = Arc::new(AtomicU64::new(5));
    let told = size.clone();
    let fake = FakeServer::start(folder.path(), 0, move |arrived| match &arrived.request {
        Request::Read { extents, .. } => {
            let size = told.load(Ordering::SeqCst);
            let bytes = extents.iter().flat_map(|extent| {
                (extent.offset..extent.offset + u64::from(extent.length)).map(|at| {
                    if at < size {
                        b'a' + at as u8
                    } else {
                        0
                    }
                })
            });
            Answer::Send(Reply::Data { size: Some((size, 1)) }, bytes.collect())
        }
        Request::Attributes { .. } => {
            let size = told.load(Ordering::SeqCst);
            Reply::Attributes(attributes(Ino(7), FileKind::Regular, size, 1)).into()
        }
        other => panic!("unexpected {other:?}"),
    });
    let store = store(folder.path(), &[&fake], SILENCE);
    let file = File::from_state(&store, state(Ino(7), one_target(), 5, 1));
    let read = |offset| {
        let (mut first, mut second) = ([0; 3], [0; 5]);
        let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        let count = file.read_at(&CALLER, &mut buffers, offset).expect("read");
        [&first[..], &second[..]].concat()[..count].to_vec()
    };
    assert_eq!(read(0), b"abcde");
    assert_eq!(read(5), b"");
    size.store(7, Ordering::SeqCst);
    assert_eq!(read(4), b"efg");
    assert_eq!(read(100), b"");
    let asked = fake.requests().into_iter().filter_map(|request| match request {
        Request::Read { extents, .. } => Some(extents.iter().map(|extent| extent.length).sum::<u32>()),
        _ => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), [5, 1, 3], "no more than was known to be there");
}

#[test]
fn a_write_over_two_targets_publishes_when_both_have_it() {
    let folder = folder();
    let other = FakeServer::start(folder.path(), 1, |arrived| match &arrived.request {
        Request::Write { publication: None, .. } => Reply::Written { size: None }.into(),
        other => panic!("unexpected {other:?}"),
    });
    let home = FakeServer::start(folder.path(), 0, |arrived| match &arrived.request {
        Request::Write { publication: None, .. } => Reply::Written { size: None }.into(),
        Request::Publish { publication, .. } => Reply::Written { size: Some((publication.end, 1)) }.into(),
        other => panic!("unexpected {other:?}"),
    });
    let store = store(folder.path(), &[&home, &other], SILENCE);
    let file = File::from_state(&store, state(Ino(7), two_targets(), 0, 1));
    let data: Vec<u8> = (0..20_000u32).map(|index| (index / 256 + index) as u8).collect();
    assert_eq!(file.write_at(&CALLER, &[IoSlice::new(&data)], 0).expect("written"), 20_000);
    let payload = |fake: &FakeServer| fake.log.lock().expect("whole")[0].payload.clone();
    let stripes: Vec<&[u8]> = data.chunks(4096).collect();
    assert_eq!(payload(&home), [stripes[0], stripes[2], stripes[4]].concat());
    assert_eq!(payload(&other), [stripes[1], stripes[3]].concat());
    assert_eq!(home.requests().len(), 2, "one write and one publication");
    assert_eq!(file.state().size_bytes, 20_000);
}

#[test]
fn a_full_target_reports_what_stands_before_it_and_frees_what_stands_behind() {
    let folder = folder();
    let full = FakeServer::start(folder.path(), 1, |arrived| match &arrived.request {
        Request::Write { .. } => Reply::Failed(Errno(libc::ENOSPC as u16)).into(),
        other => panic!("unexpected {other:?}"),
    });
    let home = FakeServer::start(folder.path(), 0, |arrived| match &arrived.request {
        Request::Write { .. } => Reply::Written { size: None }.into(),
        Request::Publish { publication, .. } => Reply::Written { size: Some((publication.end, 1)) }.into(),
        // The home alone knows the bytes that others published meanwhile: it cuts off those that nobody did.
        Request::Detour { full, .. } if full.is_empty() => {
            Reply::Layout { layout: two_targets(), layout_epoch: 0, size_bytes: 4096, epoch: 2 }.into()
        }
        Request::Detour { .. } => Reply::Failed(Errno(libc::ENOSPC as u16)).into(),
        other => panic!("unexpected {other:?}"),
    });
    let store = store(folder.path(), &[&home, &full], SILENCE);
    let file = File::from_state(&store, state(Ino(7), two_targets(), 0, 1));
    let data = vec![1; 3 * 4096];
    assert_eq!(file.write_at(&CALLER, &[IoSlice::new(&data)], 0).expect("a part"), 4096);
    assert_eq!(file.state().size_bytes, 4096);
    let cuts_off = |request: &Request| matches!(request, Request::Detour { full, .. } if full.is_empty());
    assert_eq!(home.requests().iter().filter(|request| cuts_off(request)).count(), 1);
    let error = file.write_at(&CALLER, &[IoSlice::new(&data)], 4096).expect_err("nothing");
    assert_eq!(error.errno(), libc::ENOSPC);
}

/// The kernel may begin to hold pages while a write is on its way to two servers. The write was once short then, although the mount
/// takes all of it.
#[test]
fn a_write_of_which_one_server_refuses_a_part_goes_through_the_mount_as_a_whole() {
    let folder = folder();
    let holding = FakeServer::start(folder.path(), 1, |arrived| match &arrived.request {
        Request::Write { .. } => Reply::PagesHeld.into(),
        other => panic!("unexpected {other:?}"),
    });
    let home = FakeServer::start(folder.path(), 0, |arrived| match &arrived.request {
        Request::Write { .. } | Request::Publish { .. } => Reply::Written { size: None }.into(),
        Request::Detour { .. } => {
            Reply::Layout { layout: two_targets(), layout_epoch: 0, size_bytes: 0, epoch: 1 }.into()
        }
        other => panic!("unexpected {other:?}"),
    });
    let store = store(folder.path(), &[&home, &holding], SILENCE);
    let file = File::from_state(&store, state(Ino(7), two_targets(), 0, 0));
    let refused = file.write_at(&CALLER, &[IoSlice::new(&[1; 2 * 4096])], 0);
    assert!(matches!(refused, Err(weir_client::ClientError::PagesHeld)), "{refused:?}");
}

#[test]
fn an_append_that_does_not_fit_takes_a_turn_and_ends_it() {
    let folder = folder();
    let other = FakeServer::start(folder.path(), 1, |arrived| match &arrived.request {
        Request::Write { .. } => Reply::Written { size: None }.into(),
        other => panic!("unexpected {other:?}"),
    });
    let home = FakeServer::start(folder.path(), 0, |arrived| match &arrived.request {
        Request::AppendBegin { .. } => Reply::Turn { turn: Sequence(4), offset: 4000, epoch: 3 }.into(),
        Request::Write { epoch: 3, publication: None, .. } => Reply::Written { size: None }.into(),
        Request::AppendEnd { turn: Sequence(4), publication: Some(found), .. } => {
            assert_eq!(*found, Publication { end: 4200, written_bytes: 200, epoch: 3, reserved_end: 0 });
            Reply::Written { size: Some((4200, 3)) }.into()
        }
        other => panic!("unexpected {other:?}"),
    });
    let store = store(folder.path(), &[&home, &other], SILENCE);
    let file = File::from_state(&store, state(Ino(7), two_targets(), 4000, 3));
    assert_eq!(file.append(&CALLER, &[IoSlice::new(&[5; 200])]).expect("appended"), (4000, 200));
    assert_eq!(other.log.lock().expect("whole")[0].payload.len(), 104);
}

/// The part of a target that went silent may be carried out later. A client that gave its turn back once let the next appender
/// begin at the same place, and the late part lay over that appender's bytes.
#[test]
fn an_append_to_a_silent_target_leaves_its_turn_to_the_lease() {
    let folder = folder();
    let silent = FakeServer::start(folder.path(), 1, |arrived| match &arrived.request {
        Request::Write { .. } => Answer::Silence,
        other => panic!("unexpected {other:?}"),
    });
    let home = FakeServer::start(folder.path(), 0, |arrived| match &arrived.request {
        Request::AppendBegin { .. } => Reply::Turn { turn: Sequence(4), offset: 4000, epoch: 3 }.into(),
        Request::Write { .. } => Reply::Written { size: None }.into(),
        Request::AppendRenew { .. } => Reply::Done.into(),
        Request::Publish { publication, .. } => {
            assert_eq!(publication.end, 0, "nothing was appended");
            Reply::Written { size: Some((4000, 3)) }.into()
        }
        other => panic!("unexpected {other:?}"),
    });
    let store = store(folder.path(), &[&home, &silent], SILENCE);
    let file = File::from_state(&store, state(Ino(7), two_targets(), 4000, 3));
    let error =
        file.append(&CALLER, &[IoSlice::new(&[5; 200])]).expect_err("its end is on the silent target");
    assert_eq!(error.errno(), libc::EIO);
}

#[test]
fn paths_follow_redirects_remember_them_and_forget_stale_ones() {
    let folder = folder();
    let project = Ino::new(ServerId(1), 50);
    let moved = Ino::new(ServerId(1), 60);
    let renamed = Arc::new(AtomicU64::new(0));
    let (asked_root, asked_home) = (renamed.clone(), renamed.clone());
    let root = FakeServer::start(folder.path(), 0, move |arrived| {
        let Request::Attributes { at, .. } = &arrived.request else { panic!("unexpected") };
        if at.path == b"link/x" {
            return Reply::Escape { path: b"/weir/project/x".to_vec(), hops: 1 }.into();
        }
        if at.path == b"up/../../tmp/x" {
            return Reply::Redirect { at: At::new(Ino::ROOT, *b"../tmp/x") }.into();
        }
        if at.path == b"away" {
            return Reply::Escape { path: b"/etc/passwd".to_vec(), hops: 1 }.into();
        }
        assert_eq!(at.path, b"project/x");
        let ino = if asked_root.load(Ordering::SeqCst) == 0 { project } else { moved };
        let anchor = Some(b"project".to_vec().into());
        Reply::Redirect { at: At { hops: at.hops, anchor, ..At::new(ino, *b"x") } }.into()
    });
    let home = FakeServer::start(folder.path(), 1, move |arrived| {
        let Request::Attributes { at, .. } = &arrived.request else { panic!("unexpected") };
        let current = if asked_home.load(Ordering::SeqCst) == 0 { project } else { moved };
        if at.anchor.is_some() && at.ino != current {
            return Reply::Stale.into();
        }
        assert_eq!((at.ino, at.path.as_slice()), (current, &b"x"[..]));
        Reply::Attributes(attributes(Ino::new(ServerId(1), 51), FileKind::Regular, 0, 0)).into()
    });
    let store = store(folder.path(), &[&root, &home], SILENCE);
    let stat = |path: &[u8]| store.attributes(&CALLER, Place::root(path), true);
    stat(b"project/x").expect("through a redirect");
    stat(b"/project//x").expect("through the anchor");
    assert_eq!(root.requests().len(), 1, "the second one went home at once");
    renamed.store(1, Ordering::SeqCst);
    stat(b"project/x").expect("after the anchor went stale");
    stat(b"link/x").expect("through an absolute link");
    for (path, leads_to) in [(&b"away"[..], &b"/etc/passwd"[..]), (b"up/../../tmp/x", b"/tmp/x")] {
        match stat(path) {
            Err(ClientError::Outside { path, .. }) => assert_eq!(path, leads_to),
            other => panic!("expected the way out, got {other:?}"),
        }
    }
}

#[test]
fn a_rename_between_homes_is_refused() {
    let folder = folder();
    let answer = |arrived: &Arrived| match &arrived.request {
        Request::Rename { from, .. } => Reply::Redirect { at: from.clone() }.into(),
        Request::Attributes { at, .. } => {
            let home = ServerId(u16::from(at.path.starts_with(b"b")));
            Reply::Attributes(attributes(Ino::new(home, 9), FileKind::Directory, 0, 0)).into()
        }
        other => panic!("unexpected {other:?}"),
    };
    let (root, home) =
        (FakeServer::start(folder.path(), 0, answer), FakeServer::start(folder.path(), 1, answer));
    let store = store(folder.path(), &[&root, &home], SILENCE);
    let error = store
        .rename(&CALLER, Place::root(b"a/x"), Place::root(b"b/x"), RenameMode::Replace)
        .expect_err("other homes");
    assert_eq!(error.errno(), libc::EXDEV);
}

#[test]
fn a_caller_is_made_known_once_per_connection() {
    let folder = folder();
    let fake = FakeServer::start(folder.path(), 0, |arrived| match &arrived.request {
        Request::Identify { .. } => Reply::Done.into(),
        Request::Access { .. } => {
            assert_eq!(arrived.identity, 1);
            Reply::Done.into()
        }
        other => panic!("unexpected {other:?}"),
    });
    let store = store(folder.path(), &[&fake], SILENCE);
    let names = AccountNames { user: "five".into(), group: "six".into() };
    let caller = store.caller(Identity { uid: 5, gid: 6, groups: vec![7] }, names, None);
    for _ in 0..3 {
        store.access(&caller, Place::root(b"x"), 4, true).expect("allowed");
    }
    let identified = |request: &&Request| matches!(request, Request::Identify { .. });
    assert_eq!(fake.requests().iter().filter(identified).count(), 1);
}
