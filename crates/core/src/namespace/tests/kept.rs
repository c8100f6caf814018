//! The account of use and memory: whatever happens, it is what a count of everything finds; and whatever a user makes the server
//! keep ends at a bound.

use super::super::errno::{EDQUOT, EEXIST, ENFILE, ENOSPC};
use super::super::intents::Intent;
use super::super::Namespace;
use super::cluster::{root, user, writing, Cluster};
use std::collections::{BTreeMap, HashMap};
use weir_wire::{
    At, AttributeChange, ClientId, Errno, FileKind, Ino, NodeKind, OpenFlags, QuotaLimits, QuotaOwner,
    QuotaTable, QuotaUse, RenameMode, Request, RequestId, XattrMode,
};

/// Memory of an entry and of an attribute without their texts, as the account estimates them.
const NAME_BYTES: u64 = 192;
const ATTRIBUTE_BYTES: u64 = 128;
/// Bytes of names and attributes that come with an inode.
const INCLUDED_BYTES: u64 = 1024;
const PAGE_BYTES: u64 = 4096;

/// Checks that the accounted use and memory of every owner are those that a count of inodes, entries and intents finds.
pub(super) fn check_use(namespace: &Namespace) {
    let files = namespace.files();
    let mut names: HashMap<Ino, u64> = HashMap::new();
    for (&holder, inode) in files.inodes().iter() {
        for (name, entry) in inode.directory().into_iter().flat_map(|directory| directory.after(0)) {
            let is_file = files.get(entry.ino).is_some_and(|inode| inode.kind() != FileKind::Directory);
            let owner = match entry.kind {
                _ if is_file => entry.ino,
                FileKind::Directory if entry.ino.home() != holder.home() => holder,
                // A directory here has its own name.
                _ => continue,
            };
            *names.entry(owner).or_default() += NAME_BYTES + name.len() as u64;
        }
    }
    let mut used: BTreeMap<QuotaOwner, QuotaUse> = BTreeMap::new();
    let mut kept: BTreeMap<u32, u64> = BTreeMap::new();
    for (ino, inode) in files.inodes().iter() {
        let own_name = inode.directory().map_or(0, |directory| NAME_BYTES + directory.name.len() as u64);
        let target = match inode.kind() {
            FileKind::Symlink => inode.attributes(*ino).size_bytes,
            _ => 0,
        };
        let xattrs =
            inode.xattrs.iter().flat_map(|xattrs| xattrs.names().map(|name| (name, xattrs.get(name))));
        let attribute = |(name, value): (&Vec<u8>, Option<&Vec<u8>>)| {
            ATTRIBUTE_BYTES + (name.len() + value.map_or(0, Vec::len)) as u64
        };
        let described =
            names.get(ino).copied().unwrap_or(0) + own_name + target + xattrs.map(attribute).sum::<u64>();
        let awaited = files.cut_of(*ino).and_then(|id| match namespace.intents.get(id) {
            Some(Intent::Cut { size_bytes, .. }) => Some(size_bytes.next_multiple_of(PAGE_BYTES)),
            _ => None,
        });
        let data = inode.regular().map_or(0, |file| {
            file.size_bytes.next_multiple_of(PAGE_BYTES).max(file.allocated_bytes).max(awaited.unwrap_or(0))
        });
        let described_pages = described.saturating_sub(INCLUDED_BYTES).next_multiple_of(PAGE_BYTES);
        for owner in [QuotaOwner::User(inode.uid), QuotaOwner::Group(inode.gid)] {
            let used = used.entry(owner).or_default();
            used.bytes += data + described_pages;
            used.inodes += 1;
        }
        *kept.entry(inode.uid).or_default() += inode.kept_bytes() - inode.described_bytes() + described;
        let moving = files.moves().get(*ino).map_or(0, |record| record.moves.len());
        assert_eq!(inode.regular().map_or(0, |file| file.moving_objects as usize), moving, "{ino}");
    }
    for (uid, intent) in namespace.intents.owned() {
        *kept.entry(*uid).or_default() += intent.kept_bytes();
    }
    let usage = files.inodes().usage();
    let accounted = usage.owners().filter(|(_, used)| *used != QuotaUse::default());
    assert_eq!(accounted.collect::<BTreeMap<_, _>>(), used);
    assert_eq!(usage.kept_by_users(), kept);
    assert_eq!(usage.kept_bytes(), kept.values().sum::<u64>());
}

const ALICE: u32 = 1000;
const BOB: u32 = 1001;
/// Memory that the server may keep beside that of an empty store.
const BOUND_BYTES: u64 = 1 << 20;
/// More steps than fit into the bound, whatever each of them keeps.
const STEPS: usize = 100_000;

/// The memory that the server keeps after a request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// No more than before, or nothing once it is answered.
    Nothing,
    /// Something with a bound of its own, which this names.
    Bounded(&'static str),
    /// Memory of the account: a user who sends such requests without end meets the bound.
    Account(Flood),
}

/// Requests without end that each have the server keep more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flood {
    Nodes,
    Opened,
    Unnamed,
    Symlinks,
    Links,
    LongNames,
    Attributes,
    Layouts,
    Descriptions,
}

const FLOODS: [Flood; 9] = [
    Flood::Nodes,
    Flood::Opened,
    Flood::Unnamed,
    Flood::Symlinks,
    Flood::Links,
    Flood::LongNames,
    Flood::Attributes,
    Flood::Layouts,
    Flood::Descriptions,
];

/// The table of doors. A new message has no entry, and this does not compile.
fn kept_by(request: &Request) -> Kept {
    match request {
        Request::Make { .. } => Kept::Account(Flood::Nodes),
        Request::Open { flags: OpenFlags { unnamed: true, .. }, .. } => Kept::Account(Flood::Unnamed),
        Request::Open { flags: OpenFlags { create: true, .. }, .. } => Kept::Account(Flood::Opened),
        Request::Open { .. } | Request::Reclaim { .. } => Kept::Account(Flood::Descriptions),
        Request::Symlink { .. } => Kept::Account(Flood::Symlinks),
        Request::Link { .. } => Kept::Account(Flood::Links),
        Request::Rename { .. } => Kept::Account(Flood::LongNames),
        Request::XattrSet { name, .. } if name == b"weir.layout" => Kept::Account(Flood::Layouts),
        Request::XattrSet { .. } => Kept::Account(Flood::Attributes),
        Request::Hello { .. } | Request::Prove { .. } => {
            Kept::Bounded("clients, in the account: links/clients.rs")
        }
        Request::Identify { .. } => Kept::Bounded("identities of root's mount: IDENTITIES_PER_CONNECTION"),
        Request::Lock { .. } => Kept::Bounded("locks: locks/file.rs"),
        Request::Watch { .. } => Kept::Bounded("leases: namespace/files/leases.rs"),
        Request::Invalidations { .. } => Kept::Bounded("moves that a mount is told of: requests/recalls.rs"),
        Request::MoveBegin { .. } => Kept::Bounded("moves, in the account: MOVES_MAX"),
        Request::AppendBegin { .. } => {
            Kept::Bounded("turns of open descriptions: namespace/appends/turns.rs")
        }
        Request::Write { .. } | Request::Append { .. } => {
            Kept::Bounded("a slot of a connection: links/executed.rs")
        }
        // An intent for each object of a file, until it is carried out.
        Request::Change { .. } | Request::Detour { .. } => {
            Kept::Bounded("intents, in the account: one for a file")
        }
        Request::Unlink { .. } | Request::XattrRemove { .. } | Request::Close { .. } => Kept::Nothing,
        Request::Ping
        | Request::Fence
        | Request::Cluster
        | Request::Statistics
        | Request::Attributes { .. }
        | Request::Access { .. }
        | Request::ReadLink { .. }
        | Request::XattrGet { .. }
        | Request::XattrList { .. }
        | Request::SyncMetadata { .. }
        | Request::Layout { .. }
        | Request::List { .. }
        | Request::TestLock { .. }
        | Request::Publish { .. }
        | Request::AppendEnd { .. }
        | Request::AppendRenew { .. }
        | Request::Read { .. }
        | Request::Reserve { .. }
        | Request::ObjectSeek { .. }
        | Request::SyncObject { .. }
        | Request::ObjectChanges { .. }
        | Request::CancelLock { .. }
        | Request::ReleaseLocks { .. }
        | Request::MoveFreeze { .. }
        | Request::MoveEnd { .. }
        | Request::Unwatch { .. }
        | Request::Follow { .. } => Kept::Nothing,
        Request::Peer(_) => Kept::Bounded(
            "a directory for a user of another server, in the account: namespace/names/peers.rs",
        ),
    }
}

impl Flood {
    /// Something that must be there before the step, if anything, and the step.
    fn step(self, step: usize) -> (Option<Request>, Request, Vec<u8>) {
        let at = |name: String| At::new(Ino::ROOT, name);
        let make = |name: String, kind| Request::Make { at: at(name), kind, permissions: 0o755 };
        let made = |name: &str| Some(make(name.into(), NodeKind::Regular));
        let open =
            |name: String, flags| Request::Open { at: at(name), flags, permissions: 0o644, layout: None };
        let creating = OpenFlags { create: true, ..writing() };
        match self {
            Flood::Nodes => {
                let kind = if step.is_multiple_of(2) { NodeKind::Directory } else { NodeKind::Fifo };
                (None, make(format!("node-{step}"), kind), Vec::new())
            }
            Flood::Opened => (None, open(format!("opened-{step}"), creating), Vec::new()),
            Flood::Unnamed => {
                let flags = OpenFlags { unnamed: true, ..writing() };
                (None, open(String::new(), flags), Vec::new())
            }
            Flood::Symlinks => (
                None,
                Request::Symlink { at: at(format!("link-{step}")), target: vec![b'a'; 4000] },
                Vec::new(),
            ),
            Flood::Links => {
                let to = at(format!("name-{step}"));
                (made("file"), Request::Link { from: at("file".into()), follow: false, to }, Vec::new())
            }
            Flood::LongNames => {
                let (from, to) = (at(format!("short-{step}")), at(format!("{step:0>250}")));
                let mode = RenameMode::Replace;
                (made(&format!("short-{step}")), Request::Rename { from, to, mode }, Vec::new())
            }
            Flood::Attributes => {
                let name = format!("user.{}", step % 4).into_bytes();
                let place = at(format!("file-{}", step / 4));
                let set = Request::XattrSet { at: place, follow: false, name, mode: XattrMode::Set };
                (made(&format!("file-{}", step / 4)), set, vec![7; 50_000])
            }
            Flood::Layouts => {
                let place = at(format!("directory-{step}"));
                let name = b"weir.layout".to_vec();
                let set = Request::XattrSet { at: place, follow: false, name, mode: XattrMode::Set };
                let directory = make(format!("directory-{step}"), NodeKind::Directory);
                (Some(directory), set, b"-E 1M -c 1 -E 2M -c 2 -E -1 -o 0.0,0.1".to_vec())
            }
            Flood::Descriptions => (made("file"), open("file".into(), writing()), Vec::new()),
        }
    }
}

fn new_file(name: &str) -> Request {
    Request::Make { at: At::new(Ino::ROOT, name), kind: NodeKind::Regular, permissions: 0o644 }
}

/// Sends steps of a flood until one is refused.
fn flood(cluster: &mut Cluster, flood: Flood, next: &mut u64) -> Errno {
    let who = user(ALICE);
    let mut send = |request: &Request, payload: &[u8]| {
        *next += 1;
        cluster.send_as(0, (ClientId(7), RequestId(*next)), &who, request, payload)
    };
    for step in 0..STEPS {
        let (first, request, payload) = flood.step(step);
        assert_eq!(kept_by(&request), Kept::Account(flood));
        let before = first.map_or(Ok(()), |first| match send(&first, &[]) {
            Ok(_) | Err(EEXIST) => Ok(()),
            Err(errno) => Err(errno),
        });
        if let Err(errno) = before.and_then(|()| send(&request, &payload).map(|_| ())) {
            return errno;
        }
    }
    panic!("{flood:?}: {STEPS} steps were not refused");
}

/// One user filled the server's memory by names, attributes or whatever else had no bound, and the server ended with all jobs.
#[test]
fn whatever_a_user_sends_without_end_meets_a_bound_and_leaves_others_room() {
    for kind in FLOODS {
        let mut cluster = Cluster::new(1);
        let base = cluster.servers[0].kept_memory().bytes;
        cluster.servers[0].kept_bytes_max = base + BOUND_BYTES;
        let mut next = 0;
        let errno = flood(&mut cluster, kind, &mut next);
        let expected = if kind == Flood::Descriptions { ENFILE } else { EDQUOT };
        assert_eq!(errno, expected, "{kind:?}");
        let kept = cluster.servers[0].kept_memory();
        assert!(kept.bytes <= kept.bytes_max, "{kind:?}: {kept:?}");
        assert!(kept.bytes - base > BOUND_BYTES / 4, "{kind:?}: a user alone has about half: {kept:?}");
        // Others go on: another user, and the administrator until nothing is left.
        cluster.send(0, &user(BOB), &new_file("of-bob")).expect("room is left for others");
        let last =
            (0..STEPS).find_map(|step| cluster.send(0, &root(), &new_file(&format!("root-{step}"))).err());
        assert_eq!(last, Some(ENOSPC), "{kind:?}");
        let refused = cluster.send(0, &user(BOB), &new_file("more-of-bob"));
        assert!(matches!(refused, Err(ENOSPC | EDQUOT)), "{kind:?}: {refused:?}");
        assert!(cluster.attributes(&user(BOB), At::new(Ino::ROOT, "of-bob"), false).is_ok());
        // A start with less memory than is kept is one that takes no more.
        cluster.restart(0);
        cluster.servers[0].kept_bytes_max = base;
        assert_eq!(cluster.send(0, &user(BOB), &new_file("more-of-bob")), Err(ENOSPC), "{kind:?}");
        cluster.end_grace(0);
        for entry in cluster.list(&root(), Ino::ROOT, 4096).expect("listed") {
            let directory = entry.kind == FileKind::Directory;
            if !entry.name.starts_with(b".") {
                let at = At::new(Ino::ROOT, entry.name);
                cluster.send(0, &root(), &Request::Unlink { at, directory }).expect("removals go on");
            }
        }
        assert_eq!(cluster.servers[0].files().inodes().usage().kept_by(ALICE), 0, "{kind:?}");
        cluster.check();
    }
}

fn limit(cluster: &mut Cluster, bytes: u64) {
    let mut table = QuotaTable::default();
    table
        .decide(QuotaOwner::User(ALICE), Some(QuotaLimits { bytes: Some(bytes), inodes: None }), 1, 0)
        .unwrap();
    cluster.servers[0].files_mut().quotas_mut().set(&table);
}

fn used_bytes(cluster: &Cluster, uid: u32) -> u64 {
    cluster.servers[0].files().inodes().usage().of(QuotaOwner::User(uid)).bytes
}

/// A user with a full quota made 758 MiB of extended attributes.
#[test]
fn names_and_attributes_beyond_what_comes_with_an_inode_are_charged_in_pages() {
    let mut cluster = Cluster::new(1);
    let alice = user(ALICE);
    limit(&mut cluster, 3 * PAGE_BYTES);
    cluster.send(0, &alice, &new_file("file")).unwrap();
    let mut next = 1 << 20;
    let mut set = |cluster: &mut Cluster, name: &str, value: Option<usize>| {
        next += 1;
        let (at, name) = (At::new(Ino::ROOT, "file"), name.as_bytes().to_vec());
        let request = match value {
            Some(_) => Request::XattrSet { at, follow: false, name, mode: XattrMode::Set },
            None => Request::XattrRemove { at, follow: false, name },
        };
        let value = vec![7; value.unwrap_or(0)];
        cluster.send_as(0, (ClientId(7), RequestId(next)), &user(ALICE), &request, &value).map(|_| ())
    };
    set(&mut cluster, "user.small", Some(200)).unwrap();
    assert_eq!(used_bytes(&cluster, ALICE), 0, "small ones come with the inode");
    set(&mut cluster, "user.large", Some(8000)).unwrap();
    assert_eq!(used_bytes(&cluster, ALICE), 2 * PAGE_BYTES);
    assert_eq!(set(&mut cluster, "user.more", Some(8000)), Err(EDQUOT));
    let symlink = Request::Symlink { at: At::new(Ino::ROOT, "link"), target: vec![b'a'; 4000] };
    cluster.send(0, &alice, &symlink).unwrap();
    assert_eq!(used_bytes(&cluster, ALICE), 3 * PAGE_BYTES);
    let links = (0..STEPS).find_map(|step| {
        let (from, to) = (At::new(Ino::ROOT, "file"), At::new(Ino::ROOT, format!("{step:0>200}")));
        cluster.send(0, &alice, &Request::Link { from, follow: false, to }).err()
    });
    assert_eq!(links, Some(EDQUOT));
    set(&mut cluster, "user.large", Some(100)).expect("less than before is no growth");
    let given = AttributeChange { uid: Some(BOB), ..Default::default() };
    let held = used_bytes(&cluster, ALICE) - PAGE_BYTES;
    let change = Request::Change { at: At::new(Ino::ROOT, "file"), follow: false, change: given };
    cluster.send(0, &root(), &change).unwrap();
    assert_eq!((used_bytes(&cluster, ALICE), used_bytes(&cluster, BOB)), (PAGE_BYTES, held));
    let back = AttributeChange { uid: Some(ALICE), ..Default::default() };
    let change = Request::Change { at: At::new(Ino::ROOT, "file"), follow: false, change: back };
    cluster.send(0, &root(), &change).unwrap();
    set(&mut cluster, "user.large", None).unwrap();
    set(&mut cluster, "user.small", None).unwrap();
    cluster.check();
}
