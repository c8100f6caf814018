//! Quotas: every way to take room is refused beyond a limit, and no refused call takes any. All other tests of this folder check
//! after every step that the accounted use is the use that a count finds.

use super::super::errno::{EDQUOT, EPERM};
use super::super::{Caller, InlineAppend};
use super::cluster::{root, user, writing, Cluster};
use weir_placement::ServerId;
use weir_wire::{
    At, AttributeChange, Capability, ClientId, Errno, Identity, Ino, JobId, NodeKind, OpenFlags, Publication,
    QuotaLimits, QuotaOwner, QuotaReport, QuotaTable, QuotaUse, Reply, Request, RequestId,
};

const ALICE: u32 = 1000;
const PAGE: u64 = 4096;

fn limit(cluster: &mut Cluster, owner: QuotaOwner, bytes: Option<u64>, inodes: Option<u64>) {
    let mut table = QuotaTable::default();
    table.decide(owner, Some(QuotaLimits { bytes, inodes }), 1, 0).unwrap();
    cluster.servers.iter_mut().for_each(|server| server.files_mut().quotas_mut().set(&table));
}

fn make(cluster: &mut Cluster, who: &Identity, name: &str) -> Result<Capability, Errno> {
    let flags = OpenFlags { create: true, ..writing() };
    match cluster.open(who, At::new(Ino::ROOT, name), flags)? {
        Reply::Opened { capability, .. } => Ok(capability),
        other => panic!("{other:?}"),
    }
}

/// Publishes a write up to `end` with the epoch of now.
fn publish(cluster: &mut Cluster, who: &Identity, capability: Capability, end: u64) -> Result<Reply, Errno> {
    publish_reserved(cluster, who, capability, (end, 0))
}

fn publish_reserved(
    cluster: &mut Cluster,
    who: &Identity,
    capability: Capability,
    (end, reserved_end): (u64, u64),
) -> Result<Reply, Errno> {
    let (_, epoch) = cluster.servers[0].files().size_and_epoch(capability.ino).expect("a file at rest");
    let publication = Publication { end, written_bytes: 1, epoch, reserved_end };
    cluster.send(0, who, &Request::Publish { capability, publication })
}

fn change(cluster: &mut Cluster, who: &Identity, ino: Ino, change: AttributeChange) -> Result<Reply, Errno> {
    cluster.send(0, who, &Request::Change { at: At::inode(ino), follow: false, change })
}

fn resize(cluster: &mut Cluster, who: &Identity, ino: Ino, size_bytes: u64) -> Result<Reply, Errno> {
    change(cluster, who, ino, AttributeChange { size_bytes: Some(size_bytes), ..Default::default() })
}

fn used(cluster: &Cluster, owner: QuotaOwner) -> QuotaUse {
    let lines = cluster.servers[0].files().quota_lines();
    lines.iter().find(|line| line.owner == owner).map_or(QuotaUse::default(), |line| line.here)
}

fn size(cluster: &Cluster, ino: Ino) -> u64 {
    cluster.servers[0].files().size_and_epoch(ino).expect("a file at rest").0
}

#[test]
fn a_write_beyond_the_limit_is_refused_and_leaves_no_bytes_behind_the_end() {
    let mut cluster = Cluster::new(1);
    let alice = user(ALICE);
    limit(&mut cluster, QuotaOwner::User(ALICE), Some(3 * PAGE), None);
    let capability = make(&mut cluster, &alice, "file").unwrap();
    publish(&mut cluster, &alice, capability, 2 * PAGE + 1).unwrap();
    assert_eq!(used(&cluster, QuotaOwner::User(ALICE)), QuotaUse { bytes: 3 * PAGE, inodes: 1 });
    // Bytes of two writers lie behind the end; the second one would have fitted.
    for object in cluster.objects.values_mut() {
        object.0 = 100 * PAGE;
    }
    assert_eq!(publish(&mut cluster, &alice, capability, 3 * PAGE + 1), Err(EDQUOT));
    let longest = cluster.objects.values().map(|object| object.0).max();
    assert!(longest <= Some(2 * PAGE + 1), "{longest:?}");
    assert_eq!(size(&cluster, capability.ino), 2 * PAGE + 1);
    publish(&mut cluster, &alice, capability, 3 * PAGE).unwrap();
    // Overwriting costs nothing, also for an owner that has nothing left.
    publish(&mut cluster, &alice, capability, PAGE).unwrap();
    assert_eq!(cluster.servers[0].files().may_grow(&capability, 3 * PAGE), Ok(()));
    assert_eq!(cluster.servers[0].files().may_grow(&capability, 3 * PAGE + 1), Err(EDQUOT));
    let (target, epoch) = (cluster.objects.keys().next().expect("an object").1, 1);
    let reach = |end: u64| cluster.servers[0].files().may_reach(&capability, target, epoch, end);
    assert_eq!(reach(PAGE), Ok(()), "one object of two");
    for end in [3 * PAGE, 1 << 40, 1 << 62, u64::MAX] {
        assert_eq!(reach(end), Err(EDQUOT), "{end}");
    }
    cluster.check();
}

#[test]
fn appends_truncations_and_reservations_beyond_the_limit_are_refused() {
    let mut cluster = Cluster::new(1);
    let alice = user(ALICE);
    limit(&mut cluster, QuotaOwner::AnyUser, Some(2 * PAGE), None);
    let capability = make(&mut cluster, &alice, "file").unwrap();
    let ino = capability.ino;
    assert_eq!(resize(&mut cluster, &alice, ino, 2 * PAGE + 1), Err(EDQUOT));
    assert_eq!(publish_reserved(&mut cluster, &alice, capability, (0, 3 * PAGE)), Err(EDQUOT));
    publish_reserved(&mut cluster, &alice, capability, (0, 2 * PAGE)).unwrap();
    assert_eq!(used(&cluster, QuotaOwner::User(ALICE)).bytes, 2 * PAGE);
    // The file grows into its own reservation.
    publish(&mut cluster, &alice, capability, PAGE).unwrap();
    assert_eq!(used(&cluster, QuotaOwner::User(ALICE)).bytes, 2 * PAGE);
    resize(&mut cluster, &alice, ino, 2 * PAGE).unwrap();
    let caller = Caller {
        client: ClientId(1),
        request: RequestId(1 << 40),
        acknowledged: RequestId(0),
        who: &alice,
        job: JobId::default(),
        trusted: false,
    };
    let appended = cluster.servers[0].append_inline(&caller, &capability, 1);
    assert!(matches!(appended, Err(EDQUOT)), "{appended:?}");
    assert!(matches!(cluster.servers[0].append_begin(&caller, &capability), Err(EDQUOT)));
    resize(&mut cluster, &alice, ino, 1).unwrap();
    assert_eq!(used(&cluster, QuotaOwner::User(ALICE)).bytes, PAGE, "a cut gives reservations back, too");
    let appended = cluster.servers[0].append_inline(&caller, &capability, 1);
    assert!(!matches!(appended, Err(_) | Ok(InlineAppend::Done(_))), "{appended:?}");
    cluster.check();
}

#[test]
fn inodes_of_every_kind_count_until_they_are_gone() {
    let mut cluster = Cluster::new(1);
    let alice = user(ALICE);
    limit(&mut cluster, QuotaOwner::User(ALICE), None, Some(3));
    let held = make(&mut cluster, &alice, "one").unwrap();
    let directory =
        Request::Make { at: At::new(Ino::ROOT, "two"), kind: NodeKind::Directory, permissions: 0o755 };
    cluster.send(0, &alice, &directory).unwrap();
    let link = Request::Symlink { at: At::new(Ino::ROOT, "three"), target: b"x".to_vec() };
    cluster.send(0, &alice, &link).unwrap();
    assert_eq!(make(&mut cluster, &alice, "four"), Err(EDQUOT));
    let fifo = Request::Make { at: At::new(Ino::ROOT, "four"), kind: NodeKind::Fifo, permissions: 0o644 };
    assert_eq!(cluster.send(0, &alice, &fifo), Err(EDQUOT));
    let flags = OpenFlags { unnamed: true, ..writing() };
    assert_eq!(cluster.open(&alice, At::inode(Ino::ROOT), flags), Err(EDQUOT));
    let hard =
        Request::Link { from: At::new(Ino::ROOT, "one"), follow: false, to: At::new(Ino::ROOT, "four") };
    cluster.send(0, &alice, &hard).unwrap();
    for name in ["four", "one"] {
        let unlink = Request::Unlink { at: At::new(Ino::ROOT, name), directory: false };
        cluster.send(0, &alice, &unlink).unwrap();
    }
    assert_eq!(make(&mut cluster, &alice, "four"), Err(EDQUOT), "the file is still open");
    cluster.close(held.ino, held.handle);
    make(&mut cluster, &alice, "four").unwrap();
    cluster.check();
}

#[test]
fn a_change_of_owners_moves_the_cost_and_needs_room() {
    let mut cluster = Cluster::new(1);
    let alice = user(ALICE);
    limit(&mut cluster, QuotaOwner::Group(2000), Some(PAGE), None);
    let capability = make(&mut cluster, &alice, "file").unwrap();
    let ino = capability.ino;
    publish(&mut cluster, &alice, capability, 2 * PAGE).unwrap();
    let to_group = AttributeChange { gid: Some(2000), ..Default::default() };
    assert_eq!(change(&mut cluster, &alice, ino, to_group), Err(EDQUOT));
    let away = AttributeChange { uid: Some(ALICE + 1), ..Default::default() };
    assert_eq!(change(&mut cluster, &alice, ino, away), Err(EPERM), "only root gives files away");
    resize(&mut cluster, &alice, ino, PAGE).unwrap();
    change(&mut cluster, &alice, ino, to_group).unwrap();
    assert_eq!(used(&cluster, QuotaOwner::Group(2000)), QuotaUse { bytes: PAGE, inodes: 1 });
    assert_eq!(used(&cluster, QuotaOwner::Group(ALICE)), QuotaUse::default());
    assert_eq!(publish(&mut cluster, &alice, capability, PAGE + 1), Err(EDQUOT), "the group's limit");
    change(&mut cluster, &root(), ino, away).unwrap();
    assert_eq!(used(&cluster, QuotaOwner::User(ALICE + 1)), QuotaUse { bytes: PAGE, inodes: 1 });
    cluster.check();
}

#[test]
fn the_use_of_other_servers_counts_as_they_told_it_last() {
    let mut cluster = Cluster::new(2);
    let alice = user(ALICE);
    let owner = QuotaOwner::User(ALICE);
    limit(&mut cluster, owner, Some(10 * PAGE), None);
    let capability = make(&mut cluster, &alice, "file").unwrap();
    let told = |pages: u64, is_whole| QuotaReport {
        is_whole,
        owners: vec![(owner, QuotaUse { bytes: pages * PAGE, inodes: 1 })],
        limits_digest: 0,
    };
    let other = ServerId(1);
    cluster.servers[0].files_mut().quotas_mut().note(other, 1, &told(9, true));
    assert_eq!(publish(&mut cluster, &alice, capability, 2 * PAGE), Err(EDQUOT));
    publish(&mut cluster, &alice, capability, PAGE).unwrap();
    let nothing = QuotaReport { owners: Vec::new(), ..told(0, false) };
    cluster.servers[0].files_mut().quotas_mut().note(other, 1, &nothing);
    assert_eq!(publish(&mut cluster, &alice, capability, 2 * PAGE), Err(EDQUOT), "a part leaves the rest");
    // Another start tells all anew.
    cluster.servers[0].files_mut().quotas_mut().note(other, 2, &nothing);
    publish(&mut cluster, &alice, capability, 2 * PAGE).unwrap();
}

/// The guide promises administrators this bound.
#[test]
fn homes_together_exceed_a_limit_by_no_more_than_the_room_that_each_further_home_knew_of() {
    let mut cluster = Cluster::new(2);
    let alice = user(ALICE);
    let owner = QuotaOwner::User(ALICE);
    limit(&mut cluster, owner, Some(10 * PAGE), None);
    let mut files = Vec::new();
    for number in 0.. {
        let at = At::new(Ino::ROOT, format!("{number}"));
        let make = |at| Request::Make { at, kind: NodeKind::Directory, permissions: 0o755 };
        cluster.follow(&alice, at, &[], make).unwrap();
        let flags = OpenFlags { create: true, ..writing() };
        let opened = cluster.open(&alice, At::new(Ino::ROOT, format!("{number}/file")), flags).unwrap();
        let Reply::Opened { capability, .. } = opened else { panic!("{opened:?}") };
        if files.iter().all(|file: &Capability| file.ino.home() != capability.ino.home()) {
            files.push(capability);
        }
        if files.len() == 2 {
            break;
        }
    }
    let grow = |cluster: &mut Cluster, most: u64| {
        for file in &files {
            let home = usize::from(file.ino.home().0);
            loop {
                let (size, epoch) =
                    cluster.servers[home].files().size_and_epoch(file.ino).expect("a file at rest");
                let publication =
                    Publication { end: size + PAGE, written_bytes: PAGE, epoch, reserved_end: 0 };
                let request = Request::Publish { capability: *file, publication };
                if size >= most * PAGE || cluster.send(home, &alice, &request).is_err() {
                    break;
                }
            }
        }
        let use_of = |server: &super::super::Namespace| {
            let lines = server.files().quota_lines();
            lines.iter().find(|line| line.owner == owner).map_or(0, |line| line.here.bytes / PAGE)
        };
        cluster.servers.iter().map(use_of).sum::<u64>()
    };
    let exchange = |cluster: &mut Cluster| {
        for (from, to) in [(0, 1), (1, 0)] {
            let news = cluster.servers[from].files_mut().take_quota_news();
            cluster.servers[to].files_mut().quotas_mut().note(ServerId(from as u16), 1, &news);
        }
    };
    assert_eq!(grow(&mut cluster, 3), 6);
    exchange(&mut cluster);
    assert_eq!(grow(&mut cluster, u64::MAX >> 20), 10 + 4, "each home gave the four pages that were left");
    exchange(&mut cluster);
    assert_eq!(grow(&mut cluster, u64::MAX >> 20), 10 + 4, "the exchange stops both");
    cluster.check();
}

#[test]
fn a_server_with_many_owners_tells_the_changed_ones_first_and_all_in_turn() {
    let mut cluster = Cluster::new(1);
    let owners = weir_wire::quota::OWNERS_TOLD as u32;
    for number in 0..owners {
        make(&mut cluster, &user(10_000 + number), &format!("{number}")).unwrap();
    }
    let mut heard = super::super::Namespace::new(super::cluster::settings(1, 2));
    let rounds = 6;
    for _ in 0..rounds {
        let news = cluster.servers[0].files_mut().take_quota_news();
        assert!(!news.is_whole && news.owners.len() <= owners as usize);
        heard.files_mut().quotas_mut().note(ServerId(0), 1, &news);
    }
    let table = {
        let mut table = QuotaTable::default();
        table.decide(QuotaOwner::AnyUser, Some(QuotaLimits { bytes: None, inodes: Some(1) }), 1, 0).unwrap();
        table
    };
    heard.files_mut().quotas_mut().set(&table);
    for number in 0..owners {
        let uid = 10_000 + number;
        assert_eq!(heard.files().admit_inode(uid, uid, uid), Err(EDQUOT), "user {uid} was never told");
    }
    make(&mut cluster, &user(10_000), "another").unwrap();
    let news = cluster.servers[0].files_mut().take_quota_news();
    assert!(news.owners.contains(&(QuotaOwner::User(10_000), QuotaUse { bytes: 0, inodes: 2 })));
}

#[test]
fn root_passes_over_limits_and_its_files_count() {
    let mut cluster = Cluster::new(1);
    limit(&mut cluster, QuotaOwner::User(0), Some(PAGE), Some(1));
    let capability = make(&mut cluster, &root(), "file").unwrap();
    publish(&mut cluster, &root(), capability, 2 * PAGE).unwrap();
    assert_eq!(used(&cluster, QuotaOwner::User(0)), QuotaUse { bytes: 2 * PAGE, inodes: 2 });
}

#[test]
fn everybody_reads_the_own_quotas_from_an_attribute_that_nobody_writes() {
    let mut cluster = Cluster::new(1);
    limit(&mut cluster, QuotaOwner::User(ALICE), Some(PAGE), None);
    make(&mut cluster, &user(ALICE), "file").unwrap();
    let read = |at: At| Request::XattrGet { at, follow: true, name: b"weir.quota".to_vec() };
    let (_, value) = cluster.follow(&user(ALICE), At::inode(Ino::ROOT), &[], read).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&value).unwrap();
    let expected = serde_json::json!({
        "id": ALICE, "bytes": 0, "inodes": 1, "bytes_max": PAGE, "inodes_max": null,
    });
    assert_eq!(value["user"], expected);
    assert_eq!(value["groups"].as_array().map(Vec::len), Some(2), "{value}");
    let write = |at: At| Request::XattrSet {
        at,
        follow: true,
        name: b"weir.quota".to_vec(),
        mode: weir_wire::XattrMode::Set,
    };
    assert_eq!(cluster.follow(&root(), At::inode(Ino::ROOT), b"x", write).map(|_| ()), Err(EPERM));
}
