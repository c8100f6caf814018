//! Restarts keep replies for resends, files that are open without a name, and unfinished truncations.

use super::super::errno::{ENOENT, ESTALE};
use super::super::{Caller, Change, Verdict};
use super::cluster::{root, snapshot, writing, Cluster};
use weir_wire::{
    At, AttributeChange, Capability, ClientId, HandleId, Ino, JobId, NodeKind, OpenFlags, Publication, Reply,
    Request, RequestId,
};

fn make(name: &str) -> Request {
    Request::Make { at: At::new(Ino::ROOT, name), kind: NodeKind::Regular, permissions: 0o644 }
}

fn create(name: &str) -> Request {
    let flags = OpenFlags { create: true, exclusive: true, ..writing() };
    Request::Open { at: At::new(Ino::ROOT, name), flags, permissions: 0o644, layout: None }
}

fn resend(cluster: &mut Cluster, id: u64, request: &Request) -> Reply {
    cluster.send_as(0, (ClientId(1), RequestId(id)), &root(), request, &[]).expect("it succeeds").0
}

/// A reply without the version, which each start raises.
fn unversioned(mut reply: Reply) -> Reply {
    if let Reply::Attributes(attributes) | Reply::Opened { attributes, .. } = &mut reply {
        attributes.version = 0;
    }
    reply
}

/// Opens a new file, writes to it and removes its name.
fn nameless(cluster: &mut Cluster) -> (Ino, HandleId, Capability) {
    let opened = cluster.send(0, &root(), &create("gone")).unwrap();
    let Reply::Opened { attributes, handle, capability, .. } = opened else { panic!("{opened:?}") };
    let publication = Publication { end: 10, written_bytes: 10, epoch: 0, reserved_end: 0 };
    cluster.send(0, &root(), &Request::Publish { capability, publication }).unwrap();
    let unlink = Request::Unlink { at: At::new(Ino::ROOT, "gone"), directory: false };
    cluster.send(0, &root(), &unlink).unwrap();
    (attributes.ino, handle, capability)
}

#[test]
fn a_resend_gets_the_answer_of_the_original_also_after_a_restart() {
    let mut cluster = Cluster::new(1);
    let made = resend(&mut cluster, 1000, &make("file"));
    assert_eq!(resend(&mut cluster, 1000, &make("file")), made);
    let opened = resend(&mut cluster, 1001, &create("open"));
    cluster.restart(0);
    assert_eq!(unversioned(resend(&mut cluster, 1000, &make("file"))), unversioned(made));
    let again = resend(&mut cluster, 1001, &create("open"));
    let Reply::Opened { handle, attributes, capability, layout, .. } = opened else { panic!("{opened:?}") };
    // The server makes the right to the bytes anew; all other parts of the reply are as before.
    let Reply::Opened { capability: renewed, created: true, .. } = again else { panic!("{again:?}") };
    let expected = Reply::Opened { handle, attributes, capability: renewed, layout, created: true };
    assert_eq!(unversioned(again), unversioned(expected));
    assert_eq!((renewed.handle, renewed.uid, renewed.rights), (handle, capability.uid, capability.rights));
    assert_eq!(cluster.servers[0].files().description(handle).map(|(ino, _)| ino), Some(attributes.ino));
    cluster.check();
}

#[test]
fn a_plain_open_sent_twice_is_one_description() {
    let mut cluster = Cluster::new(1);
    resend(&mut cluster, 1000, &make("file"));
    let open =
        Request::Open { at: At::new(Ino::ROOT, "file"), flags: writing(), permissions: 0, layout: None };
    let journaled = cluster.journals[0].len();
    let opened = resend(&mut cluster, 1001, &open);
    assert_eq!(resend(&mut cluster, 1001, &open), opened);
    assert_eq!(cluster.journals[0].len(), journaled, "descriptions are not journaled");
}

#[test]
fn replies_are_kept_for_a_bounded_number_of_requests() {
    let mut cluster = Cluster::new(1);
    for id in 1..2000 {
        resend(&mut cluster, id, &make(&format!("file-{id}")));
    }
    let remembered = snapshot(&mut cluster.servers[0].clone())
        .iter()
        .filter(|change| matches!(change, Change::Remembered { .. }))
        .count();
    assert!((1..=256).contains(&remembered), "{remembered}");
    let forget = cluster.servers[0].forget_client(ClientId(1));
    cluster.servers[0].apply(&forget);
    assert_eq!(cluster.servers[0].remembered_clients().count(), 0);
}

#[test]
fn an_open_file_without_a_name_lives_until_its_last_close() {
    let mut cluster = Cluster::new(1);
    let inodes = cluster.inodes();
    let (ino, handle, _) = nameless(&mut cluster);
    assert_eq!(
        cluster.attributes(&root(), At::inode(ino), false).map(|node| (node.links, node.size_bytes)),
        Ok((0, 10))
    );
    cluster.close(ino, handle);
    assert_eq!(cluster.inodes(), inodes);
    assert_eq!(cluster.attributes(&root(), At::inode(ino), false), Err(ESTALE));
    cluster.close(ino, handle);
    cluster.check();
}

#[test]
fn an_open_file_without_a_name_ends_with_its_clients_session() {
    let mut cluster = Cluster::new(1);
    let inodes = cluster.inodes();
    let (_, _, capability) = nameless(&mut cluster);
    let who = root();
    let child = Caller {
        client: ClientId(2),
        request: RequestId(1),
        acknowledged: RequestId(0),
        who: &who,
        job: JobId::default(),
        trusted: false,
    };
    // After fork and exec another client holds the same description.
    assert_eq!(cluster.servers[0].reclaim(&child, &[capability]), Ok(()));
    let departure = cluster.servers[0].drop_client(ClientId(1));
    cluster.commit(0, &departure.decision);
    assert_eq!(cluster.inodes(), inodes + 1);
    let departure = cluster.servers[0].drop_client(ClientId(2));
    cluster.commit(0, &departure.decision);
    assert_eq!(cluster.inodes(), inodes);
    cluster.check();
}

#[test]
fn a_restart_keeps_files_without_a_name_until_the_grace_period_ends() {
    let mut cluster = Cluster::new(1);
    let inodes = cluster.inodes();
    let (kept, handle, capability) = nameless(&mut cluster);
    let (_, _, lost_capability) = nameless(&mut cluster);
    cluster.restart(0);
    // A file that is unlinked now may be open too: its clients have not come back yet.
    cluster.send(0, &root(), &make("late")).unwrap();
    cluster.send(0, &root(), &Request::Unlink { at: At::new(Ino::ROOT, "late"), directory: false }).unwrap();
    let who = root();
    let caller = Caller {
        client: ClientId(1),
        request: RequestId(1),
        acknowledged: RequestId(0),
        who: &who,
        job: JobId::default(),
        trusted: false,
    };
    assert_eq!(cluster.servers[0].reclaim(&caller, &[capability]), Ok(()));
    assert_eq!(cluster.inodes(), inodes + 3);
    cluster.end_grace(0);
    assert_eq!(cluster.inodes(), inodes + 1);
    let late = cluster.servers[0].reclaim(&caller, &[lost_capability]);
    assert_eq!(late, Err(ESTALE));
    assert!(cluster.attributes(&root(), At::inode(kept), false).is_ok());
    cluster.close(kept, handle);
    assert_eq!(cluster.inodes(), inodes);
    assert!(cluster.is_settled());
    cluster.check();
}

#[test]
fn the_description_of_an_open_that_failed_keeps_no_file() {
    let mut cluster = Cluster::new(1);
    let inodes = cluster.inodes();
    let who = root();
    let (client, request, acknowledged) = (ClientId(1), RequestId(1_000_000), RequestId(0));
    let caller = Caller { client, request, acknowledged, who: &who, job: JobId::default(), trusted: false };
    let opened = cluster.servers[0].decide(&caller, &create("file"), &[], cluster.now);
    let Ok(Verdict::Done(opened)) = opened else { panic!("{opened:?}") };
    cluster.commit(0, &opened);
    let unlink = Request::Unlink { at: At::new(Ino::ROOT, "file"), directory: false };
    cluster.send(0, &root(), &unlink).unwrap();
    assert_eq!(cluster.inodes(), inodes + 1, "the description keeps the file");
    let gone = cluster.servers[0].close_failed(&opened).expect("the file goes");
    cluster.commit(0, &gone);
    assert_eq!(cluster.inodes(), inodes);
    cluster.check();
}

#[test]
fn handles_and_inodes_of_a_server_that_kept_nothing_are_never_given_out_again() {
    let mut first = Cluster::new(1);
    let (old, old_handle, old_capability) = nameless(&mut first);
    let mut second = Cluster::new(1);
    second.journals[0].clear();
    second.restart(0);
    let (new, new_handle, _) = nameless(&mut second);
    assert!(old != new && old_handle != new_handle);
    let who = root();
    let caller = Caller {
        client: ClientId(1),
        request: RequestId(1),
        acknowledged: RequestId(0),
        who: &who,
        job: JobId::default(),
        trusted: false,
    };
    assert_eq!(second.servers[0].reclaim(&caller, &[old_capability]), Err(ESTALE));
}

#[test]
fn a_truncation_that_was_cut_short_is_finished_by_the_next_start() {
    let mut cluster = Cluster::new(2);
    let opened = cluster.send(0, &root(), &create("file")).unwrap();
    let Reply::Opened { attributes, capability, .. } = opened else { panic!("{opened:?}") };
    let publication = Publication { end: 100_000, written_bytes: 100_000, epoch: 0, reserved_end: 0 };
    cluster.send(0, &root(), &Request::Publish { capability, publication }).unwrap();
    cluster.holds_effects = true;
    let change = AttributeChange { size_bytes: Some(5000), ..Default::default() };
    let truncate = Request::Change { at: At::inode(attributes.ino), follow: false, change };
    cluster.send_as(0, (ClientId(1), RequestId(500)), &root(), &truncate, &[]).unwrap();
    assert!(cluster.objects.is_empty() && !cluster.is_settled());
    assert_eq!(
        cluster.servers[0].files().size_and_epoch(attributes.ino),
        None,
        "nobody learns the new epoch yet"
    );
    cluster.holds_effects = false;
    cluster.restart(0);
    let now = cluster.attributes(&root(), At::inode(attributes.ino), false).unwrap();
    assert_eq!((now.size_bytes, now.epoch), (5000, 1));
    assert_eq!(cluster.objects.len(), 3, "one object of each target of the layout was cut");
    let again = resend(&mut cluster, 500, &truncate);
    assert!(matches!(again, Reply::Attributes(node) if node.epoch == 1), "{again:?}");
    cluster.check();
}

#[test]
fn a_cut_under_way_in_an_older_journal_leaves_its_file_an_epoch_that_all_objects_take() {
    let mut cluster = Cluster::new(2);
    let opened = cluster.send(0, &root(), &create("file")).unwrap();
    let Reply::Opened { attributes, capability, .. } = opened else { panic!("{opened:?}") };
    let publication = Publication { end: 100_000, written_bytes: 100_000, epoch: 0, reserved_end: 0 };
    cluster.send(0, &root(), &Request::Publish { capability, publication }).unwrap();
    let truncated = |cluster: &mut Cluster, size_bytes: u64| {
        let change = AttributeChange { size_bytes: Some(size_bytes), ..Default::default() };
        let truncate = Request::Change { at: At::inode(attributes.ino), follow: false, change };
        cluster.send(0, &root(), &truncate).unwrap();
    };
    cluster.holds_effects = true;
    truncated(&mut cluster, 5000);
    let backup = cluster.journals[0].clone();
    cluster.holds_effects = false;
    cluster.catch_up(0);
    truncated(&mut cluster, 4000);
    truncated(&mut cluster, 3000);
    cluster.journals[0] = backup;
    cluster.restore(0);
    let now = cluster.attributes(&root(), At::inode(attributes.ino), false).unwrap();
    assert_eq!(now.size_bytes, 5000);
    let greatest = cluster.objects.values().map(|&(_, epoch)| epoch).max();
    assert!(greatest >= Some(3) && Some(now.epoch) > greatest, "{} of {greatest:?}", now.epoch);
    cluster.check();
}

#[test]
fn a_file_removed_while_it_is_cut_goes_when_the_cut_is_done() {
    let mut cluster = Cluster::new(2);
    let inodes = cluster.inodes();
    let opened = cluster.send(0, &root(), &create("file")).unwrap();
    let Reply::Opened { attributes, capability, handle, .. } = opened else { panic!("{opened:?}") };
    let publication = Publication { end: 100_000, written_bytes: 100_000, epoch: 0, reserved_end: 0 };
    cluster.send(0, &root(), &Request::Publish { capability, publication }).unwrap();
    cluster.holds_effects = true;
    let change = AttributeChange { size_bytes: Some(0), ..Default::default() };
    cluster
        .send(0, &root(), &Request::Change { at: At::inode(attributes.ino), follow: false, change })
        .unwrap();
    let unlink = Request::Unlink { at: At::new(Ino::ROOT, "file"), directory: false };
    cluster.send(0, &root(), &unlink).unwrap();
    cluster.close(attributes.ino, handle);
    assert_eq!(cluster.inodes(), inodes + 1);
    cluster.holds_effects = false;
    cluster.catch_up(0);
    assert_eq!(cluster.inodes(), inodes);
    assert!(cluster.is_settled() && cluster.objects.is_empty());
    assert_eq!(cluster.attributes(&root(), At::new(Ino::ROOT, "file"), false), Err(ENOENT));
    cluster.check();
}
