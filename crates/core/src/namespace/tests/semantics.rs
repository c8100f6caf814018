//! Behaviour without a counterpart in the kernel: epochs, appends, cookies, layouts, paths that leave the server.

use super::super::errno::{E2BIG, EACCES, EBADF, EBUSY, EINVAL, ELOOP, ENOSPC, ENXIO, EOPNOTSUPP, EPERM};
use super::super::{Appender, Caller, Change, InlineAppend, NextTurn, TurnReply, Verdict};
use super::cluster::{root, settings, user, writing, Cluster};
use std::collections::BTreeSet;
use weir_wire::{
    At, AttributeChange, Capability, ClientId, DirectoryEntry, Errno, HandleId, Ino, JobId, NodeKind,
    OpenFlags, Publication, Reply, Request, RequestId, XattrMode,
};

fn create(cluster: &mut Cluster, name: &str) -> (Ino, HandleId, Capability) {
    let flags = OpenFlags { create: true, ..writing() };
    match cluster.open(&root(), At::new(Ino::ROOT, name), flags) {
        Ok(Reply::Opened { attributes, handle, capability, .. }) => (attributes.ino, handle, capability),
        other => panic!("{other:?}"),
    }
}

fn publish(cluster: &mut Cluster, capability: Capability, end: u64, epoch: u64) -> Result<Reply, Errno> {
    let publication = Publication { end, written_bytes: 100, epoch, reserved_end: 0 };
    cluster.send(0, &root(), &Request::Publish { capability, publication })
}

fn truncate(cluster: &mut Cluster, ino: Ino, size_bytes: u64) -> Result<Reply, Errno> {
    let change = AttributeChange { size_bytes: Some(size_bytes), ..Default::default() };
    cluster.send(0, &root(), &Request::Change { at: At::inode(ino), follow: false, change })
}

fn set_xattr(cluster: &mut Cluster, at: At, name: &str, value: &[u8]) -> Result<Reply, Errno> {
    let (name, mode) = (name.as_bytes().to_vec(), XattrMode::Set);
    let request = |at| Request::XattrSet { at, follow: true, name: name.clone(), mode };
    cluster.follow(&root(), at, value, request).map(|(reply, _)| reply)
}

fn xattr(cluster: &mut Cluster, at: At, name: &str) -> Result<String, Errno> {
    let request = |at| Request::XattrGet { at, follow: true, name: name.as_bytes().to_vec() };
    let (_, value) = cluster.follow(&root(), at, &[], request)?;
    Ok(String::from_utf8(value).expect("text"))
}

fn caller(who: &weir_wire::Identity, client: u64, request: u64) -> Caller<'_> {
    Caller {
        client: ClientId(client),
        request: RequestId(request),
        acknowledged: RequestId(0),
        who,
        job: JobId::default(),
        trusted: false,
    }
}

#[test]
fn every_change_of_size_begins_an_epoch_and_cuts_every_object() {
    let mut cluster = Cluster::new(2);
    let (ino, _, capability) = create(&mut cluster, "file");
    assert_eq!(publish(&mut cluster, capability, 50_000, 0), Ok(Reply::Written { size: Some((50_000, 0)) }));
    truncate(&mut cluster, ino, 5000).unwrap();
    assert_eq!(publish(&mut cluster, capability, 60_000, 0), Ok(Reply::StaleEpoch { epoch: 1 }));
    let lengths: Vec<(u64, u64)> = cluster.objects.values().copied().collect();
    assert_eq!(lengths, [(0, 1), (0, 1), (0, 1)], "the test's objects begin empty");
    // A file that grows is cut, too: bytes that a dying writer left behind the old size must not appear.
    truncate(&mut cluster, ino, 9000).unwrap();
    assert_eq!(cluster.servers[0].files().size_and_epoch(ino), Some((9000, 2)));
    truncate(&mut cluster, ino, 9000).unwrap();
    assert_eq!(cluster.servers[0].files().size_and_epoch(ino), Some((9000, 2)), "nothing to cut");
    cluster.check();
}

#[test]
fn a_file_that_was_never_written_needs_no_work_on_targets() {
    let mut cluster = Cluster::new(2);
    let work = |cluster: &Cluster| {
        let begun = |change: &&Change| {
            matches!(change, Change::Resized { cut: Some(_), .. } | Change::Disposed { removal: Some(_), .. })
        };
        cluster.journals[0].iter().filter(begun).count()
    };
    let (ino, handle, _) = create(&mut cluster, "file");
    cluster.close(ino, handle);
    let flags = OpenFlags { truncate: true, ..writing() };
    cluster.open(&root(), At::new(Ino::ROOT, "file"), flags).unwrap();
    assert_eq!(work(&cluster), 0);
    let departure = cluster.servers[0].drop_client(cluster.client);
    cluster.commit(0, &departure.decision);
    truncate(&mut cluster, ino, 0).unwrap();
    assert_eq!(work(&cluster), 1, "its writer was lost, and may have written");

    let (ino, handle, _) = create(&mut cluster, "other");
    cluster.close(ino, handle);
    let unlink = Request::Unlink { at: At::new(Ino::ROOT, "other"), directory: false };
    cluster.send(0, &root(), &unlink).unwrap();
    assert_eq!(work(&cluster), 1);
    let (ino, handle, capability) = create(&mut cluster, "written");
    publish(&mut cluster, capability, 10, 0).unwrap();
    cluster.close(ino, handle);
    let unlink = Request::Unlink { at: At::new(Ino::ROOT, "written"), directory: false };
    cluster.send(0, &root(), &unlink).unwrap();
    assert_eq!(work(&cluster), 2);
}

#[test]
fn a_capability_decides_over_truncation_of_an_open_file() {
    let mut cluster = Cluster::new(1);
    let (ino, _, of_root) = create(&mut cluster, "file");
    let alice = user(1000);
    let permit = |permissions| AttributeChange { permissions: Some(permissions), ..Default::default() };
    let chmod =
        |permissions| Request::Change { at: At::inode(ino), follow: false, change: permit(permissions) };
    cluster.send(0, &root(), &chmod(0o666)).unwrap();
    let opened = cluster.open(&alice, At::new(Ino::ROOT, "file"), writing()).unwrap();
    let Reply::Opened { capability, .. } = opened else { panic!("{opened:?}") };
    cluster.send(0, &root(), &chmod(0o600)).unwrap();
    let change = |capability| AttributeChange { size_bytes: Some(7), capability, ..Default::default() };
    let ask = |change| Request::Change { at: At::inode(ino), follow: false, change };
    assert!(cluster.send(0, &alice, &ask(change(None))).is_err());
    assert!(cluster.send(0, &alice, &ask(change(Some(capability)))).is_ok());
    let mut reading = capability;
    reading.rights.write = false;
    assert!(cluster.send(0, &alice, &ask(change(Some(reading)))).is_err());
    assert_eq!(cluster.send(0, &alice, &ask(change(Some(of_root)))), Err(EACCES), "another user's");
}

#[test]
fn appends_take_turns() {
    let mut cluster = Cluster::new(2);
    let (ino, _, capability) = create(&mut cluster, "log");
    let who = root();
    let space = &mut cluster.servers[0];
    let now = cluster.now;
    let InlineAppend::Here { turn, offset: 0, epoch: 0, .. } =
        space.append_inline(&caller(&who, 1, 900), &capability, 100).unwrap()
    else {
        panic!("the first stripe is here")
    };
    let second = space.append_inline(&caller(&who, 2, 900), &capability, 100).unwrap();
    assert!(matches!(second, InlineAppend::Elsewhere), "{second:?}");
    assert_eq!(space.append_begin(&caller(&who, 2, 901), &capability), Ok(TurnReply::Later));
    assert_eq!(space.append_begin(&caller(&who, 3, 901), &capability), Ok(TurnReply::Later));
    let publication = Publication { end: 100, written_bytes: 100, epoch: 0, reserved_end: 0 };
    let written = space.append_written(&caller(&who, 1, 900), &capability, turn, &publication, now).unwrap();
    let Verdict::Done(decision) = written else { panic!("{written:?}") };
    space.commit(&decision);
    let reply = space.answer(decision.answer, 0, now).0;
    assert_eq!(reply, Reply::Appended { offset: 0, size_bytes: 100, epoch: 0 });
    let again = space.append_inline(&caller(&who, 1, 900), &capability, 100).unwrap();
    let InlineAppend::Done(recalled) = again else { panic!("a resend appends nothing: {again:?}") };
    assert_eq!(space.answer(recalled.answer, 0, now).0, reply);

    let NextTurn::Granted(grant) = space.next_turn(&caller(&who, 1, 900), ino, turn) else {
        panic!("a client waits")
    };
    assert_eq!(grant.appender.client, ClientId(2));
    let Reply::Turn { turn: theirs, offset: 100, epoch: 0 } = grant.reply else { panic!("{grant:?}") };
    assert_eq!(
        space.append_end(&caller(&who, 3, 902), &capability, theirs, Some(&publication), now).unwrap_err(),
        EBADF
    );
    let departure = space.drop_client(ClientId(2));
    let [NextTurn::Granted(grant)] = &departure.turns[..] else { panic!("{:?}", departure.turns) };
    assert_eq!(grant.appender.client, ClientId(3));
    let Reply::Turn { turn: last, offset: 100, .. } = grant.reply else { panic!() };
    let publication = Publication { end: 9000, written_bytes: 8900, epoch: 0, reserved_end: 0 };
    let ended = space.append_end(&caller(&who, 3, 903), &capability, last, Some(&publication), now).unwrap();
    let Verdict::Done(decision) = ended else { panic!("{ended:?}") };
    space.commit(&decision);
    assert_eq!(space.next_turn(&caller(&who, 3, 903), ino, last), NextTurn::Nobody);
    assert_eq!(space.files().size_and_epoch(ino), Some((9000, 0)));
    let spread = space.append_inline(&caller(&who, 1, 904), &capability, 9000).unwrap();
    assert!(matches!(spread, InlineAppend::Elsewhere), "more than one object");
}

/// An appender that was given back its turn in the midst of a cut once passed it on at the new end. The next appender wrote to an
/// object that the cut had not reached yet, and the cut took those bytes away before they were published.
#[test]
fn a_turn_passes_on_only_after_a_cut() {
    let mut cluster = Cluster::new(2);
    let (ino, _, capability) = create(&mut cluster, "file");
    publish(&mut cluster, capability, 9000, 0).unwrap();
    let who = root();
    let caller = |client: u64| Caller {
        client: ClientId(client),
        request: RequestId(900),
        acknowledged: RequestId(0),
        who: &who,
        job: JobId::default(),
        trusted: true,
    };
    let Ok(TurnReply::Now(Reply::Turn { turn, .. })) =
        cluster.servers[0].append_begin(&caller(1), &capability)
    else {
        panic!("the file is free")
    };
    assert_eq!(cluster.servers[0].append_begin(&caller(2), &capability), Ok(TurnReply::Later));
    cluster.holds_effects = true;
    truncate(&mut cluster, ino, 100).unwrap();
    let NextTurn::AfterCut(cut, waiting) = cluster.servers[0].next_turn(&caller(1), ino, turn) else {
        panic!("the objects are not cut yet")
    };
    assert_eq!(waiting, [Appender { client: ClientId(2), request: RequestId(900) }]);
    assert_eq!(cluster.servers[0].append_begin(&caller(2), &capability), Ok(TurnReply::Wait(cut)));
    cluster.holds_effects = false;
    cluster.catch_up(0);
    let granted = cluster.servers[0].append_begin(&caller(2), &capability);
    assert!(matches!(granted, Ok(TurnReply::Now(Reply::Turn { offset: 100, epoch: 1, .. }))), "{granted:?}");
    assert_eq!(cluster.servers[0].appends().held_by(ClientId(2)), [ino]);
    assert_eq!(cluster.servers[0].appends().held_by(ClientId(1)), []);
}

/// A client once freed the bytes that it had written beyond the size that it knew, and with them the bytes that others had
/// published there since.
#[test]
fn bytes_behind_a_failed_write_are_cut_off_by_the_home_which_knows_the_size() {
    let mut cluster = Cluster::new(2);
    let (ino, _, capability) = create(&mut cluster, "file");
    publish(&mut cluster, capability, 9000, 0).unwrap();
    let cut_off = Request::Detour { capability, layout_epoch: 0, full: Vec::new() };
    let reply = cluster.send(0, &root(), &cut_off).unwrap();
    let Reply::Layout { size_bytes: 9000, epoch: 1, layout_epoch: 0, .. } = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(publish(&mut cluster, capability, 20_000, 0), Ok(Reply::StaleEpoch { epoch: 1 }));
    let file = cluster.servers[0].files().regular(ino).unwrap();
    let lengths: Vec<u64> = (0..3).map(|object| file.layout.object_bytes(object, 9000)).collect();
    assert_eq!(lengths.iter().sum::<u64>(), 9000);
    assert!(cluster.objects.values().all(|&(_, epoch)| epoch == 1), "{:?}", cluster.objects);
    cluster.check();
}

#[test]
fn each_surviving_entry_of_a_large_directory_is_listed_once() {
    const ENTRIES: u32 = 100_000;
    let mut cluster = Cluster::new(1);
    let directory =
        Request::Make { at: At::new(Ino::ROOT, "d"), kind: NodeKind::Directory, permissions: 0o755 };
    let Ok(Reply::Attributes(directory)) = cluster.send(0, &root(), &directory) else { panic!() };
    let name = |number: u32| format!("entry-{number:06}");
    for number in 0..ENTRIES {
        let at = At::new(directory.ino, name(number));
        cluster.send(0, &root(), &Request::Make { at, kind: NodeKind::Fifo, permissions: 0o644 }).unwrap();
    }
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let mut removed = BTreeSet::new();
    let mut cookie = 0;
    let mut number = 7;
    loop {
        let list = Request::List {
            ino: directory.ino,
            handle: HandleId(0),
            cookie,
            bytes: 65_536,
            attributes: false,
        };
        let id = (ClientId(1), RequestId(1_000_000 + cookie));
        let (reply, payload) = cluster.send_as(0, id, &root(), &list, &[]).unwrap();
        let page: Vec<DirectoryEntry> = postcard::from_bytes(&payload).unwrap();
        cookie = page.last().map_or(cookie, |entry| entry.cookie);
        seen.extend(page.into_iter().map(|entry| entry.name));
        for _ in 0..500 {
            number = (number * 31 + 17) % ENTRIES;
            if removed.insert(number) {
                let at = At::new(directory.ino, name(number));
                cluster.send(0, &root(), &Request::Unlink { at, directory: false }).unwrap();
            }
        }
        if reply == (Reply::Listing { end: true }) {
            break;
        }
    }
    let unique: BTreeSet<&Vec<u8>> = seen.iter().collect();
    assert_eq!(unique.len(), seen.len(), "no entry twice");
    assert!(removed.len() > 1000);
    for number in (0..ENTRIES).filter(|number| !removed.contains(number)) {
        assert!(unique.contains(&name(number).into_bytes()), "{number} is missing");
    }
    cluster.check();
}

#[test]
fn layouts_are_inherited_but_spreading_is_not() {
    let mut cluster = Cluster::new(2);
    assert_eq!(xattr(&mut cluster, At::inode(Ino::ROOT), "weir.layout").unwrap(), "-c 3 -S 4k spread=no");
    set_xattr(&mut cluster, At::inode(Ino::ROOT), "weir.layout", b"-S 64k -c 2 spread=yes").unwrap();
    let make = Request::Make { at: At::new(Ino::ROOT, "d"), kind: NodeKind::Directory, permissions: 0o755 };
    cluster.send(0, &root(), &make).unwrap();
    let layout = xattr(&mut cluster, At::new(Ino::ROOT, "d"), "weir.layout").unwrap();
    assert_eq!(layout, "-c 2 -S 64k spread=no");
    let flags = OpenFlags { create: true, ..writing() };
    let opened = cluster.open(&root(), At::new(Ino::ROOT, "d/file"), flags).unwrap();
    let Reply::Opened { attributes, layout: Some(layout), .. } = opened else { panic!("{opened:?}") };
    assert_eq!((layout.components()[0].stripe_bytes, layout.targets().len()), (65_536, 2));
    assert_eq!(layout.targets()[0].server, attributes.ino.home());
    let text = xattr(&mut cluster, At::inode(attributes.ino), "weir.layout").unwrap();
    assert!(text.starts_with("-o ") && text.ends_with(" -S 64k"), "{text}");
    let file = At::inode(attributes.ino);
    assert_eq!(set_xattr(&mut cluster, file, "weir.layout", b"spread=no"), Err(EINVAL));
    assert_eq!(set_xattr(&mut cluster, At::inode(Ino::ROOT), "weir.layout", b"-S 5"), Err(EINVAL));
}

/// A root that names a target which is not there would refuse every new file of the store.
#[test]
fn a_directory_takes_no_layout_whose_targets_the_store_has_not() {
    let mut cluster = Cluster::new(2);
    let directory = || At::inode(Ino::ROOT);
    for wrong in ["-o 9.9", "-o 0.0,9.9", "-E 1M -c 1 -E -1 -o 0.99"] {
        assert_eq!(
            set_xattr(&mut cluster, directory(), "weir.layout", wrong.as_bytes()),
            Err(ENXIO),
            "{wrong}"
        );
    }
    assert_eq!(xattr(&mut cluster, directory(), "weir.layout").unwrap(), "-c 3 -S 4k spread=no");
    assert_eq!(set_xattr(&mut cluster, directory(), "weir.layout", b"-o 0.0"), Ok(Reply::Done));
    let flags = OpenFlags { create: true, ..writing() };
    assert!(cluster.open(&root(), At::new(Ino::ROOT, "file"), flags).is_ok());
}

/// The store gives an empty file another layout, as `lfs setstripe` does.
#[test]
fn a_file_that_holds_nothing_and_is_open_nowhere_can_be_laid_out() {
    let mut cluster = Cluster::new(2);
    let file = || At::new(Ino::ROOT, "file");
    let make = Request::Make { at: file(), kind: NodeKind::Regular, permissions: 0o644 };
    cluster.send(0, &root(), &make).unwrap();
    assert_eq!(set_xattr(&mut cluster, file(), "weir.layout", b"-c 1 -S 64k"), Ok(Reply::Done));
    let text = xattr(&mut cluster, file(), "weir.layout").unwrap();
    assert!(text.ends_with(" -S 64k") && !text.contains(','), "{text}");
    assert_eq!(set_xattr(&mut cluster, file(), "weir.layout", b"-o 9.9"), Err(ENXIO));
    assert_eq!(set_xattr(&mut cluster, file(), "weir.layout", b"-c 1 spread=yes"), Err(EINVAL));
    let opened = cluster.open(&root(), file(), writing()).unwrap();
    let Reply::Opened { attributes, handle, .. } = opened else { panic!("{opened:?}") };
    assert_eq!(set_xattr(&mut cluster, file(), "weir.layout", b"-c 2"), Err(EBUSY));
    cluster.send(0, &root(), &Request::Close { ino: attributes.ino, handle }).unwrap();
    assert_eq!(set_xattr(&mut cluster, file(), "weir.layout", b"-c 2"), Ok(Reply::Done));
    cluster.check();
}

#[test]
fn extended_attributes_are_bounded() {
    let mut cluster = Cluster::new(1);
    create(&mut cluster, "file");
    let file = || At::new(Ino::ROOT, "file");
    let value = vec![0; 64 * 1024];
    assert_eq!(set_xattr(&mut cluster, file(), "user.large", &[&value[..], b"x"].concat()), Err(E2BIG));
    for number in 0..3 {
        assert_eq!(set_xattr(&mut cluster, file(), &format!("user.{number}"), &value), Ok(Reply::Done));
    }
    assert_eq!(set_xattr(&mut cluster, file(), "user.3", &value), Err(ENOSPC));
    assert_eq!(set_xattr(&mut cluster, file(), "system.posix_acl_access", b""), Err(EOPNOTSUPP));
    let set = Request::XattrSet {
        at: file(),
        follow: true,
        name: b"trusted.secret".to_vec(),
        mode: XattrMode::Set,
    };
    assert_eq!(cluster.send(0, &user(1000), &set), Err(EPERM));
    assert_eq!(cluster.send(0, &root(), &set), Ok(Reply::Done));
    let list = Request::XattrList { at: file(), follow: true };
    let id = (ClientId(5), RequestId(1));
    let (_, names) = cluster.send_as(0, id, &user(1000), &list, &[]).unwrap();
    assert_eq!(names, b"user.0\0user.1\0user.2\0");
    cluster.check();
}

#[test]
fn paths_that_leave_the_server_are_handed_to_the_client() {
    let mut cluster = Cluster::new(1);
    let link = |name: &str, target: &str| Request::Symlink {
        at: At::new(Ino::ROOT, name),
        target: target.as_bytes().to_vec(),
    };
    let look = |path: &str| Request::Attributes { at: At::new(Ino::ROOT, path), follow: true };
    cluster.send(0, &root(), &link("out", "/home/alice")).unwrap();
    cluster.send(0, &root(), &link("loop", "loop")).unwrap();
    let escape = cluster.send(0, &root(), &look("out/data/x")).unwrap();
    assert_eq!(escape, Reply::Escape { path: b"/home/alice/data/x".to_vec(), hops: 1 });
    assert_eq!(cluster.send(0, &root(), &look("loop/x")), Err(ELOOP));
    let above = cluster.send(0, &root(), &look("../etc")).unwrap();
    let Reply::Redirect { at } = above else { panic!("{above:?}") };
    assert_eq!((at.ino, at.path, at.hops), (Ino::ROOT, b"../etc".to_vec(), 1));
}

#[test]
fn the_root_stays_searchable_and_the_memory_of_inodes_is_bounded() {
    let mut cluster = Cluster::new(1);
    let change = |permissions| AttributeChange { permissions: Some(permissions), ..Default::default() };
    let ask = |permissions| Request::Change {
        at: At::inode(Ino::ROOT),
        follow: false,
        change: change(permissions),
    };
    assert_eq!(cluster.send(0, &root(), &ask(0o700)), Err(EPERM));
    assert!(cluster.send(0, &root(), &ask(0o755)).is_ok());
    let mut settings = settings(0, 1);
    settings.kept_bytes_max = 1024;
    let mut small = super::super::Namespace::new(settings);
    let start = small.start(0, cluster.now);
    small.apply(&start);
    let who = root();
    let make = Request::Make { at: At::new(Ino::ROOT, "x"), kind: NodeKind::Fifo, permissions: 0 };
    assert_eq!(small.decide(&caller(&who, 1, 1), &make, &[], cluster.now).unwrap_err(), ENOSPC);
}
