//! The check of the tree against a naive one, and its repair: after any operations and crashes the tree is whole, each damage is found, and
//! what is mended is whole again.

use super::super::names::hexadecimal;
use super::super::quotas::Charge;
use super::super::{
    AwayEntry, Birth, BirthNode, Bytes, Change, Fault, FaultKind, Inode, IntentId, Namespace, Order, Position,
};
use super::cluster::{root, user, writing, Cluster, Fate};
use super::model::{operation, tree_of_cluster, Operation};
use super::runner;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use weir_placement::ServerId;
use weir_wire::{At, FileKind, Ino, Moment, NodeKind, OpenFlags};

const CASES: u32 = 128;
const STEPS: usize = 80;

/// Rounds of a repair: faults hide others.
const ROUNDS: usize = 12;
/// The sum that a damaged file is charged.
const CHARGED: u64 = 1 << 40;

/// One step of a law.
#[derive(Clone, Debug)]
enum Step {
    Do(usize, Operation),
    /// Opens a file, and keeps it open while its name goes.
    Hold(String),
    /// The client that holds files ends.
    Leave,
    Restart(usize),
    EndGrace(usize),
    CatchUp(usize),
    Fates(Vec<Fate>),
}

fn step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        3 => Just(Fate::Answered), 1 => Just(Fate::Lost), 1 => Just(Fate::AnswerLost), 1 => Just(Fate::Crash)
    ];
    let name = prop_oneof![Just("a"), Just("b"), Just("a/b"), Just("b/c"), Just("held")];
    prop_oneof![
        24 => (0usize..2, operation()).prop_map(|(who, operation)| Step::Do(who, operation)),
        2 => name.prop_map(|name| Step::Hold(name.to_owned())),
        1 => Just(Step::Leave),
        1 => (0usize..3).prop_map(Step::Restart),
        1 => (0usize..3).prop_map(Step::EndGrace),
        2 => (0usize..3).prop_map(Step::CatchUp),
        3 => proptest::collection::vec(fate, 1..4).prop_map(Step::Fates),
    ]
}

/// Carries steps out, some of them in the root, where directories get homes on all servers; then all servers are well again.
fn carry_out(cluster: &mut Cluster, steps: &[Step]) {
    let count = cluster.servers.len();
    let people = [root(), user(1000)];
    for step in steps {
        match step {
            Step::Do(who, operation) => {
                _ = operation.clone().without_sticky().on_cluster(cluster, &people[*who], Ino::ROOT);
            }
            Step::Hold(name) => {
                let flags = OpenFlags { create: true, ..writing() };
                let opened = cluster.open(&root(), At::new(Ino::ROOT, name.as_str()), flags);
                if opened.is_ok() {
                    _ = Operation::Unlink(name.clone()).on_cluster(cluster, &root(), Ino::ROOT);
                }
            }
            Step::Leave => leave(cluster),
            Step::Restart(server) => cluster.restart(server % count),
            Step::EndGrace(server) => cluster.end_grace(server % count),
            Step::CatchUp(server) => cluster.catch_up(server % count),
            Step::Fates(fates) => cluster.fates.extend(fates),
        }
    }
    cluster.fates.clear();
    while !cluster.undone.is_empty() {
        (0..count).for_each(|server| cluster.catch_up(server));
    }
    (0..count).for_each(|server| cluster.end_grace(server));
    leave(cluster);
    while !cluster.undone.is_empty() {
        (0..count).for_each(|server| cluster.catch_up(server));
    }
}

fn leave(cluster: &mut Cluster) {
    for server in 0..cluster.servers.len() {
        let departure = cluster.servers[server].drop_client(cluster.client);
        cluster.commit(server, &departure.decision);
    }
}

/// Every rule of a whole tree, judged over all servers at once from entries and inodes alone.
fn naive(servers: &[Namespace]) -> Vec<String> {
    let inodes: BTreeMap<Ino, &Inode> = servers
        .iter()
        .flat_map(|server| server.files().inodes().iter().map(|(ino, inode)| (*ino, inode)))
        .collect();
    let mut names: BTreeMap<Ino, Vec<(Ino, Vec<u8>)>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (holder, inode) in &inodes {
        for (name, entry) in inode.directory().into_iter().flat_map(|directory| directory.after(0)) {
            names.entry(entry.ino).or_default().push((*holder, name.to_vec()));
            let kind = inodes.get(&entry.ino).map(|inode| inode.kind());
            let is_near = entry.kind == FileKind::Directory || entry.ino.home() == holder.home();
            if kind != Some(entry.kind) || !is_near || entry.ino == Ino::ROOT {
                wrong.push(format!("entry {name:?} of {holder} leads to {} of {kind:?}", entry.ino));
            }
        }
    }
    for (ino, inode) in inodes.iter().filter(|(ino, _)| **ino != Ino::ROOT) {
        let places = names.get(ino).map_or(&[][..], Vec::as_slice);
        if inode.names as usize != places.len() {
            wrong.push(format!("{ino} counts {} names and has {places:?}", inode.names));
        }
        let own = inode.directory().map(|directory| (directory.parent, directory.name.to_vec()));
        if own.is_some_and(|own| inode.names > 0 && places != [own]) {
            wrong.push(format!("directory {ino} is not where it says: {places:?}"));
        }
        if inode.names == 0 && inode.directory().is_some_and(|directory| !directory.is_empty()) {
            wrong.push(format!("directory {ino} has entries and no name"));
        }
    }
    let (mut reached, mut next) = (BTreeSet::new(), vec![Ino::ROOT]);
    while let Some(ino) = next.pop() {
        if reached.insert(ino) {
            let directory = inodes.get(&ino).and_then(|inode| inode.directory());
            next.extend(directory.into_iter().flat_map(|held| held.after(0).map(|(_, entry)| entry.ino)));
        }
    }
    // In the grace period after a start clients may still come back for files without names.
    let is_awaited = |ino: &Ino, inode: &Inode| {
        inode.names == 0 && servers[usize::from(ino.home().0)].files().is_in_grace()
    };
    let lost = inodes.iter().filter(|(ino, inode)| !reached.contains(ino) && !is_awaited(ino, inode));
    wrong.extend(lost.map(|(ino, _)| format!("nothing leads from the root to {ino}")));
    wrong.extend(
        servers.iter().flat_map(|server| server.files().use_faults()).map(|fault| format!("{fault:?}")),
    );
    wrong
}

/// The findings of the check at each server, a few inodes at a time.
fn examined(server: &Namespace) -> (Vec<Fault>, Vec<AwayEntry>, Vec<Position>) {
    let mut inos = server.files().numbers(|_| true);
    inos.sort_unstable();
    let (mut faults, mut away, mut tops) = (Vec::new(), Vec::new(), Vec::new());
    for batch in inos.chunks(7) {
        let found = server.names().examine(batch, 0);
        assert_eq!(found.done, batch.len(), "small directories are judged at once");
        faults.extend(found.faults);
        away.extend(found.away);
        tops.extend(found.tops);
    }
    faults.sort();
    (faults, away, tops)
}

/// The faults of all servers; and whether the directories of two servers agree.
fn found(cluster: &Cluster) -> (Vec<Fault>, bool) {
    let all: Vec<_> = cluster.servers.iter().map(examined).collect();
    let away: BTreeSet<_> = all
        .iter()
        .flat_map(|(_, away, _)| away)
        .collect::<Vec<_>>()
        .into_iter()
        .map(|entry| (entry.parent, entry.name.clone(), entry.ino.unwrap_or(0)))
        .collect();
    let tops: BTreeSet<_> =
        all.iter().flat_map(|(_, _, tops)| tops).map(|top| (top.parent, top.name.clone(), top.ino)).collect();
    (all.into_iter().flat_map(|(faults, ..)| faults).collect(), away == tops)
}

/// Judges clusters after steps, with records that a damage may be made of.
fn law(servers: u16, judge: impl Fn(&mut Cluster, &[Record]) -> Result<(), TestCaseError>) {
    let given = (proptest::collection::vec(step(), 1..STEPS), records());
    let seed = weir_testing::seed();
    runner(CASES, seed)
        .run(&given, |(steps, records)| {
            let mut cluster = Cluster::new(servers);
            carry_out(&mut cluster, &steps);
            judge(&mut cluster, &records)
        })
        .unwrap_or_else(|failure| panic!("WEIR_SEED={seed} with {servers} servers\n{failure}"));
}

#[test]
fn a_tree_is_whole_after_any_operations_and_crashes() {
    for servers in 1..=3 {
        law(servers, |cluster, _| {
            prop_assert_eq!(naive(&cluster.servers), Vec::<String>::new());
            prop_assert_eq!(found(cluster), (Vec::new(), true));
            cluster.check();
            Ok(())
        });
    }
}

/// A record that no decision makes: its kind, two inodes, and a name, each by a number.
type Record = (u8, usize, usize, usize);

fn records() -> impl Strategy<Value = Vec<Record>> {
    proptest::collection::vec((0u8..8, 0usize..64, 0usize..64, 0usize..6), 1..4)
}

/// Records of damage that fit into the tree of a server.
fn fitting(cluster: &Cluster, server: usize, records: &[Record]) -> Vec<Change> {
    let space = &cluster.servers[server];
    let mut inos = space.files().numbers(|ino| ino != Ino::ROOT);
    inos.sort_unstable();
    let directories: Vec<Ino> = space
        .files()
        .numbers(|ino| space.files().directory(ino).is_some())
        .into_iter()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    if inos.is_empty() || directories.is_empty() {
        return Vec::new();
    }
    let (at, kinds) = (cluster.now, [FileKind::Directory, FileKind::Regular, FileKind::Fifo]);
    let change = |&(kind, one, other, name): &Record| {
        let (ino, parent) = (inos[one % inos.len()], directories[other % directories.len()]);
        let held = space.files().inode(ino).expect("it is numbered").kind();
        let other_ino = inos[other % inos.len()];
        let name = Bytes::from(["a", "b", "c", "d", "held", "new"][name].as_bytes());
        match kind {
            0 => Change::Linked { parent, name, ino, kind: held, at },
            1 => Change::Linked { parent, name, ino, kind: kinds[other % kinds.len()], at },
            2 => Change::Linked { parent, name, ino: Ino(4711 + one as u64), kind: FileKind::Regular, at },
            3 => Change::Unlinked { parent, name, at },
            4 => Change::NamesCounted { ino, names: (other % 4) as u32 },
            5 => Change::Disposed { ino, removal: None },
            6 => {
                let intent =
                    space.files().directory(ino).map_or(IntentId(0), |directory| directory.placed_by);
                Change::Reparented { ino, intent, parent: other_ino, name }
            }
            _ => Change::Moved {
                from: parent,
                from_name: name.clone(),
                to: directories[one % directories.len()],
                to_name: name,
                exchange: false,
                reparents: [None, None],
                at,
            },
        }
    };
    records.iter().map(change).collect()
}

#[test]
fn any_damage_is_seen_as_by_a_naive_check_and_mended_without_a_loss() {
    law(1, |cluster, records| {
        let changes = fitting(cluster, 0, records);
        damage(cluster, 0, changes);
        let (faults, agree) = found(cluster);
        let wrong = naive(&cluster.servers);
        prop_assert_eq!(faults.is_empty() && agree, wrong.is_empty(), "{:?} {:?}", faults, wrong);
        let before: BTreeSet<Ino> = cluster.servers[0].files().numbers(|_| true).into_iter().collect();
        mend_all(cluster);
        prop_assert_eq!(found(cluster), (Vec::new(), true));
        prop_assert_eq!(naive(&cluster.servers), Vec::<String>::new());
        let after: BTreeSet<Ino> = cluster.servers[0].files().numbers(|_| true).into_iter().collect();
        prop_assert!(after.is_superset(&before), "a repair removes no inode");
        cluster.end_grace(0);
        cluster.check();
        Ok(())
    });
}

/// A power loss takes the newest records of one server, which others acted on, or which ask others to act.
#[test]
fn lost_records_of_one_of_several_servers_are_seen_as_by_a_naive_check() {
    for servers in 2..=3 {
        law(servers, |cluster, records| {
            let server = records[0].1 % cluster.servers.len();
            let journal = &mut cluster.journals[server];
            let kept = journal.len() - records[0].2 % journal.len();
            journal.truncate(kept.max(1));
            damage(cluster, server, Vec::new());
            let effects = cluster.servers[server].pending_effects();
            cluster.undone.extend(effects.into_iter().map(|effect| (server, effect)));
            while !cluster.undone.is_empty() {
                (0..cluster.servers.len()).for_each(|server| cluster.catch_up(server));
            }
            let (faults, agree) = found(cluster);
            let wrong = naive(&cluster.servers);
            prop_assert_eq!(faults.is_empty() && agree, wrong.is_empty(), "{:?} {:?}", faults, wrong);
            Ok(())
        });
    }
}

/// A tree of one server: `/a/b`, `/a/file` with a second name `/a/twin`, `/c`, `/a/link`.
struct Sample {
    cluster: Cluster,
    at: Moment,
    a: Ino,
    b: Ino,
    c: Ino,
    file: Ino,
    link: Ino,
}

impl Sample {
    fn new() -> Sample {
        let mut cluster = Cluster::new(1);
        let directory = |cluster: &mut Cluster, path: &str| {
            let made = Operation::Make(path.to_owned(), NodeKind::Directory, 0o755);
            made.on_cluster(cluster, &root(), Ino::ROOT).expect("it is made");
        };
        for path in ["a", "a/b", "c"] {
            directory(&mut cluster, path);
        }
        let others = [
            Operation::Make("a/file".into(), NodeKind::Regular, 0o644),
            Operation::Write("a/file".into(), 0, 5000),
            Operation::Link("a/file".into(), "a/twin".into(), false),
            Operation::Symlink("file".into(), "a/link".into()),
        ];
        for operation in others {
            operation.on_cluster(&mut cluster, &root(), Ino::ROOT).expect("it is made");
        }
        let mut ino = |path: &str| {
            cluster.attributes(&root(), At::new(Ino::ROOT, path), false).expect("it is there").ino
        };
        let (a, b, c, file, link) = (ino("a"), ino("a/b"), ino("c"), ino("a/file"), ino("a/link"));
        Sample { at: cluster.now, cluster, a, b, c, file, link }
    }

    fn damage(&mut self, changes: Vec<Change>) {
        damage(&mut self.cluster, 0, changes);
    }

    fn entry(&self, kind: FaultKind, (parent, name): (Ino, &str), ino: Ino) -> Fault {
        let (parent, name) = (Some(parent.0), Some(hexadecimal(name.as_bytes())));
        Fault { kind, ino: ino.0, parent, name, recorded: None, counted: None }
    }

    fn linked(&self, parent: Ino, name: &str, ino: Ino, kind: FileKind) -> Change {
        Change::Linked { parent, name: Bytes::from(name.as_bytes()), ino, kind, at: self.at }
    }
}

/// Writes records into the journal of a killed server, and starts it.
fn damage(cluster: &mut Cluster, server: usize, changes: Vec<Change>) {
    cluster.journals[server].extend(changes);
    let mut fresh = Namespace::new(super::cluster::settings(server as u16, cluster.servers.len() as u16));
    cluster.journals[server].iter().for_each(|change| fresh.apply(change));
    fresh.index();
    cluster.now.seconds += 10;
    let start = fresh.start(0, cluster.now);
    fresh.apply(&start);
    cluster.journals[server].push(start);
    cluster.replace(server, fresh);
}

/// The order that mends a fault, as `weir fsck` gives it.
fn order(fault: &Fault, shelter: u64) -> Order {
    let (ino, parent) = (fault.ino, fault.parent.unwrap_or(0));
    let name = fault.name.clone().unwrap_or_default();
    match fault.kind {
        FaultKind::Unreachable => Order::Name { ino, shelter, place: None },
        FaultKind::Dangling | FaultKind::Doubled => Order::Unname { parent, name, ino },
        FaultKind::Mistyped => Order::Retype { parent, name, ino },
        FaultKind::Links => Order::Count { ino },
        FaultKind::Parent => Order::Place { ino, parent, name },
        FaultKind::Cycle => Order::Cut { ino, shelter },
        FaultKind::Leftover => Order::Dispose { ino },
    }
}

/// Mends all faults of the first server as the check does: round by round, those of an inode that another fault explains in a later one.
fn mend_all(cluster: &mut Cluster) {
    let shelter = mend(cluster, &Order::Shelter).expect("a shelter");
    for _ in 0..ROUNDS {
        let (faults, _) = found(cluster);
        let explains = |fault: &Fault| matches!(fault.kind, FaultKind::Parent | FaultKind::Mistyped);
        let explained: BTreeSet<u64> =
            faults.iter().filter(|fault| explains(fault)).map(|fault| fault.ino).collect();
        for fault in faults.iter().filter(|fault| explains(fault) || !explained.contains(&fault.ino)) {
            // An order before it may have mended this fault, too.
            _ = mend(cluster, &order(fault, shelter.0));
        }
    }
}

fn mend(cluster: &mut Cluster, order: &Order) -> Result<Ino, &'static str> {
    let (decision, ino) = cluster.servers[0].mend(order, cluster.now)?;
    cluster.commit(0, &decision);
    Ok(ino)
}

/// A damage: its name, the records that make it, and the faults that are found.
type Damage = (&'static str, fn(&Sample) -> Vec<Change>, fn(&Sample) -> Vec<Fault>);

/// Each kind of fault at least once.
const DAMAGES: &[Damage] = &[
    (
        "an entry that leads nowhere",
        |sample| vec![sample.linked(sample.c, "nowhere", Ino(4711), FileKind::Regular)],
        |sample| vec![sample.entry(FaultKind::Dangling, (sample.c, "nowhere"), Ino(4711))],
    ),
    (
        "a file of another server",
        |sample| vec![sample.linked(sample.c, "far", Ino::new(ServerId(7), 9), FileKind::Regular)],
        |sample| vec![sample.entry(FaultKind::Dangling, (sample.c, "far"), Ino::new(ServerId(7), 9))],
    ),
    (
        "a file and a directory that were made in a directory which is gone",
        |sample| {
            let birth = |node| Birth { node, permissions: 0o644, uid: 1000, gid: 1000 };
            let made = |ino, node| Change::Created {
                parent: Ino(4711),
                name: Bytes::from(&b"lost"[..]),
                ino: Ino(ino),
                birth: birth(node),
                at: sample.at,
            };
            let symlink = BirthNode::Symlink { target: Bytes::from(&b"x"[..]) };
            vec![made(5001, symlink), made(5002, BirthNode::Directory { request: Default::default() })]
        },
        |sample| {
            let file = Fault {
                parent: None,
                name: None,
                ..sample.entry(FaultKind::Unreachable, (Ino(0), ""), Ino(5001))
            };
            vec![file, sample.entry(FaultKind::Unreachable, (Ino(4711), "lost"), Ino(5002))]
        },
    ),
    (
        "a name that was taken by another inode",
        |sample| vec![sample.linked(sample.a, "link", sample.file, FileKind::Regular)],
        |sample| {
            let fault = sample.entry(FaultKind::Unreachable, (Ino(0), ""), sample.link);
            vec![Fault { parent: None, name: None, ..fault }]
        },
    ),
    (
        "an entry of another kind",
        |sample| {
            let (parent, name) = (sample.a, Bytes::from(&b"twin"[..]));
            let unlinked = Change::Unlinked { parent, name, at: sample.at };
            vec![unlinked, sample.linked(sample.a, "twin", sample.file, FileKind::Fifo)]
        },
        |sample| vec![sample.entry(FaultKind::Mistyped, (sample.a, "twin"), sample.file)],
    ),
    (
        "too few names",
        |sample| vec![Change::NamesCounted { ino: sample.file, names: 1 }],
        |sample| vec![links(sample.file, 1, 2)],
    ),
    (
        "too many names",
        |sample| vec![Change::NamesCounted { ino: sample.file, names: 9 }],
        |sample| vec![links(sample.file, 9, 2)],
    ),
    (
        "a file that counts no name and would go",
        |sample| vec![Change::NamesCounted { ino: sample.link, names: 0 }],
        |sample| vec![links(sample.link, 0, 1)],
    ),
    (
        "a directory that counts no name and would go",
        |sample| vec![Change::NamesCounted { ino: sample.c, names: 0 }],
        |sample| vec![links(sample.c, 0, 1)],
    ),
    (
        "a directory with another parent",
        |sample| vec![reparented(sample, sample.b, sample.c, "elsewhere")],
        |sample| {
            vec![
                sample.entry(FaultKind::Unreachable, (sample.c, "elsewhere"), sample.b),
                sample.entry(FaultKind::Parent, (sample.a, "b"), sample.b),
            ]
        },
    ),
    (
        "a directory with two entries",
        |sample| vec![sample.linked(sample.c, "second", sample.b, FileKind::Directory)],
        |sample| vec![sample.entry(FaultKind::Doubled, (sample.a, "b"), sample.b)],
    ),
    (
        "an entry that leads to the root",
        |sample| {
            let root = reparented(sample, Ino::ROOT, Ino::ROOT, "");
            vec![sample.linked(sample.c, "up", Ino::ROOT, FileKind::Directory), root]
        },
        |sample| vec![sample.entry(FaultKind::Doubled, (sample.c, "up"), Ino::ROOT)],
    ),
    (
        "a directory in itself",
        |sample| {
            vec![Change::Moved {
                from: Ino::ROOT,
                from_name: Bytes::from(&b"a"[..]),
                to: sample.b,
                to_name: Bytes::from(&b"ring"[..]),
                exchange: false,
                reparents: [None, None],
                at: sample.at,
            }]
        },
        |sample| vec![sample.entry(FaultKind::Cycle, (sample.b, "ring"), sample.a)],
    ),
];

fn links(ino: Ino, recorded: u64, counted: u64) -> Fault {
    let (recorded, counted) = (Some(recorded), Some(counted));
    Fault { kind: FaultKind::Links, ino: ino.0, parent: None, name: None, recorded, counted }
}

fn reparented(sample: &Sample, ino: Ino, parent: Ino, name: &str) -> Change {
    let intent = sample.cluster.servers[0].files().directory(ino).expect("a directory").placed_by;
    Change::Reparented { ino, intent, parent, name: Bytes::from(name.as_bytes()) }
}

/// Records after which a file is charged for bytes that it does not have: its cut is pending while something else takes the cut's place.
#[test]
fn each_damage_is_found_alone_and_mended() {
    for (what, damage, faults) in DAMAGES {
        let mut sample = Sample::new();
        let before = tree_of_cluster(&mut sample.cluster, Ino::ROOT);
        let (damage, mut faults) = (damage(&sample), faults(&sample));
        faults.sort();
        sample.damage(damage);
        assert!(!naive(&sample.cluster.servers).is_empty(), "{what}");
        assert_eq!(found(&sample.cluster), (faults, true), "{what}");
        mend_all(&mut sample.cluster);
        assert_eq!(found(&sample.cluster), (Vec::new(), true), "{what}");
        assert_eq!(naive(&sample.cluster.servers), Vec::<String>::new(), "{what}");
        sample.cluster.end_grace(0);
        sample.cluster.check();
        if *what != "a directory in itself" && *what != "a name that was taken by another inode" {
            let mut after = tree_of_cluster(&mut sample.cluster, Ino::ROOT);
            after.retain(|path, _| before.contains_key(path) || *what == "a directory with two entries");
            let kept = before.keys().filter(|path| after.contains_key(*path)).count();
            assert!(kept + 1 >= before.len(), "{what}");
        }
    }
}

#[test]
fn sums_that_are_wrong_are_found_and_mended_while_inodes_come_and_change() {
    let mut sample = Sample::new();
    // No record makes sums wrong: they follow every change of an inode.
    let charge = Charge { uid: 0, gid: 0, bytes: CHARGED, kept_bytes: 0 };
    sample.cluster.servers[0].files_mut().misjudge(charge);
    sample.cluster.is_damaged = true;
    let uses = |server: &Namespace| server.files().use_faults();
    let wrong = uses(&sample.cluster.servers[0]);
    assert_eq!(wrong.len(), 2, "a user and a group: {wrong:?}");
    assert!(wrong.iter().all(|fault| fault.accounted.bytes - fault.counted.bytes > CHARGED / 2));
    let (id, mut inos) = sample.cluster.servers[0].files_mut().begin_recount();
    inos.sort_unstable();
    for (number, batch) in inos.chunks(1).enumerate() {
        assert!(sample.cluster.servers[0].files_mut().go_on_recount(id, batch));
        let others = [
            Operation::Make(format!("new-{number}"), NodeKind::Regular, 0o644),
            Operation::Write(format!("new-{number}"), 0, 9000),
            Operation::Write("a/file".into(), 9000 * number as u64, 9000),
            Operation::ChangeOwner("a/twin".into(), Some(1000), Some(1000), true),
            Operation::Unlink("a/link".into()),
        ];
        for operation in others {
            _ = operation.on_cluster(&mut sample.cluster, &root(), Ino::ROOT);
        }
    }
    assert_eq!(sample.cluster.servers[0].files_mut().end_recount(id), Some(uses(&sample.cluster.servers[0])));
    assert_eq!(sample.cluster.servers[0].files_mut().end_recount(id), None, "a count ends once");
    mend(&mut sample.cluster, &Order::Sums).expect("sums can always be counted");
    sample.cluster.is_damaged = false;
    assert_eq!(uses(&sample.cluster.servers[0]), []);
    sample.cluster.check();
}

#[test]
fn a_shelter_of_another_user_is_refused_and_a_fault_that_is_gone_too() {
    let mut sample = Sample::new();
    let now = sample.cluster.now;
    let refused = |sample: &Sample, order: &Order| sample.cluster.servers[0].mend(order, now).err();
    for order in [
        Order::Name { ino: sample.file.0, shelter: sample.c.0, place: None },
        Order::Name { ino: sample.b.0, shelter: sample.c.0, place: None },
        Order::Name { ino: 1, shelter: sample.c.0, place: None },
        Order::Cut { ino: sample.a.0, shelter: sample.c.0 },
        Order::Unname { parent: 1, name: hexadecimal(b"a"), ino: sample.a.0 },
        Order::Unname { parent: sample.a.0, name: hexadecimal(b"file"), ino: sample.file.0 },
        Order::Retype { parent: sample.a.0, name: hexadecimal(b"file"), ino: sample.file.0 },
        Order::Place { ino: sample.b.0, parent: 1, name: hexadecimal(b"c") },
        Order::Count { ino: sample.file.0 },
        Order::Dispose { ino: sample.file.0 },
        Order::EnterShelter { parent: 1, name: hexadecimal(b"x"), ino: sample.file.0 },
    ] {
        assert!(refused(&sample, &order).is_some(), "{order:?}");
    }
    let made = Operation::Make("lost+found".into(), NodeKind::Directory, 0o700);
    made.on_cluster(&mut sample.cluster, &user(1000), Ino::ROOT).expect("everyone makes names in the root");
    assert!(refused(&sample, &Order::Shelter).is_some_and(|why| why.contains("another name")));
}

#[test]
fn a_large_directory_is_judged_in_pieces() {
    let mut sample = Sample::new();
    let names = 3 * 2048;
    let changes: Vec<Change> = (0..names)
        .map(|number| sample.linked(sample.c, &format!("{number}"), sample.file, FileKind::Regular))
        .collect();
    sample.damage(changes);
    let (server, mut after, mut faults, mut calls) = (&sample.cluster.servers[0], 0, Vec::new(), 0);
    loop {
        let found = server.names().examine(&[sample.c, sample.file], after);
        faults.extend(found.faults);
        calls += 1;
        if found.done > 0 {
            break;
        }
        assert!(found.after > after, "each call goes on");
        after = found.after;
    }
    assert!(calls >= 3 && faults.is_empty(), "{calls} {faults:?}");
}
