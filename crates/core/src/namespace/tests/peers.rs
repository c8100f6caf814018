//! Directories on several servers: their homes, and the traces of a lost server.

use super::super::errno::{EEXIST, EIO, ENOTEMPTY, EPERM, EXDEV};
use super::super::{Caller, Verdict};
use super::cluster::{root, user, Cluster};
use weir_placement::ServerId;
use weir_wire::{At, Identity, Ino, JobId, NodeKind, RenameMode, Reply, Request, RequestId};

/// The other server of a cluster of two.
const OTHER: ServerId = ServerId(1);

fn make(cluster: &mut Cluster, who: &Identity, at: At) -> Result<Ino, weir_wire::Errno> {
    let request = |at| Request::Make { at, kind: NodeKind::Directory, permissions: 0o755 };
    match cluster.follow(who, at, &[], request)?.0 {
        Reply::Attributes(node) => Ok(node.ino),
        other => panic!("{other:?}"),
    }
}

/// A name in the root; the ring gives its directory to the other server.
fn name_elsewhere(number: usize) -> String {
    let ring = weir_placement::Ring::new([ServerId(0), OTHER]);
    let names = (0..).map(|number| format!("project-{number}"));
    names
        .filter(|name| ring.server(Ino::ROOT.0, name.as_bytes()) == Some(OTHER))
        .nth(number)
        .expect("half of all names")
}

fn remove(cluster: &mut Cluster, who: &Identity, name: &str) -> Result<Reply, weir_wire::Errno> {
    cluster.send(0, who, &Request::Unlink { at: At::new(Ino::ROOT, name), directory: true })
}

fn rename(cluster: &mut Cluster, who: &Identity, from: &str, to: &str) -> Result<Reply, weir_wire::Errno> {
    let (from, to) = (At::new(Ino::ROOT, from), At::new(Ino::ROOT, to));
    cluster.send(0, who, &Request::Rename { from, to, mode: RenameMode::Replace })
}

#[test]
fn directories_in_the_root_have_homes_on_all_servers_and_their_trees_stay_together() {
    let mut cluster = Cluster::new(3);
    let mut homes = std::collections::BTreeSet::new();
    for number in 0..20 {
        let top = make(&mut cluster, &root(), At::new(Ino::ROOT, format!("top-{number}"))).unwrap();
        let below = make(&mut cluster, &root(), At::new(Ino::ROOT, format!("top-{number}/below"))).unwrap();
        assert_eq!(top.home(), below.home());
        homes.insert(top.home());
    }
    assert_eq!(homes.len(), 3);
    let node = cluster.attributes(&root(), At::inode(Ino::ROOT), false).unwrap();
    assert_eq!(node.links, 22);
    cluster.check();
}

#[test]
fn trees_of_many_foreseen_files_have_homes_of_their_own_and_small_ones_beside_them_count_little() {
    let mut cluster = Cluster::new(3);
    let mut home = |name: String, kind: NodeKind| {
        let request = |at| Request::Make { at, kind, permissions: 0o755 };
        match cluster.follow(&root(), At::new(Ino::ROOT, name), &[], request).unwrap().0 {
            Reply::Attributes(node) => node.ino.home(),
            other => panic!("{other:?}"),
        }
    };
    let mut large = std::collections::BTreeSet::new();
    for number in 0..3 {
        large.insert(home(format!("large-{number}"), NodeKind::Tree(4096)));
        for other in 0..9 {
            home(format!("small-{number}-{other}"), NodeKind::Tree(2));
        }
    }
    assert_eq!(large.len(), 3);
    // The name is taken, whatever its maker foresees.
    let taken = |at| Request::Make { at, kind: NodeKind::Tree(u32::MAX), permissions: 0o755 };
    assert_eq!(cluster.follow(&root(), At::new(Ino::ROOT, "large-1"), &[], taken).unwrap_err(), EEXIST);
    cluster.check();
}

#[test]
fn an_anchor_holds_until_the_directory_moves() {
    let mut cluster = Cluster::new(2);
    let (old, new) = (name_elsewhere(0), name_elsewhere(1));
    let ino = make(&mut cluster, &root(), At::new(Ino::ROOT, old.as_str())).unwrap();
    let anchored = |name: &str| {
        let at = At { anchor: Some(name.as_bytes().to_vec().into()), ..At::inode(ino) };
        Request::Attributes { at, follow: true }
    };
    let look = Request::Attributes { at: At::new(Ino::ROOT, old.as_str()), follow: true };
    let redirect = cluster.send(0, &root(), &look).unwrap();
    let Reply::Redirect { at } = redirect else { panic!("{redirect:?}") };
    assert_eq!(at.anchor.as_deref().map(|name| name.to_vec()), Some(old.clone().into_bytes()));
    assert!(matches!(cluster.send(1, &root(), &anchored(&old)), Ok(Reply::Attributes(_))));
    assert_eq!(rename(&mut cluster, &root(), &old, &new), Ok(Reply::Done));
    assert_eq!(cluster.send(1, &root(), &anchored(&old)), Ok(Reply::Stale));
    assert!(matches!(cluster.send(1, &root(), &anchored(&new)), Ok(Reply::Attributes(_))));
    cluster.check();
}

#[test]
fn nobody_is_sent_on_before_the_home_has_heard_of_a_move() {
    let mut cluster = Cluster::new(2);
    let (old, new) = (name_elsewhere(0), name_elsewhere(1));
    make(&mut cluster, &root(), At::new(Ino::ROOT, old.as_str())).unwrap();
    cluster.holds_effects = true;
    rename(&mut cluster, &root(), &old, &new).unwrap();
    let who = root();
    let (client, request, acknowledged) = (cluster.client, RequestId(9999), RequestId(0));
    let caller = Caller { client, request, acknowledged, who: &who, job: JobId::default(), trusted: false };
    let look = Request::Attributes { at: At::new(Ino::ROOT, new.as_str()), follow: true };
    let verdict = cluster.servers[0].decide(&caller, &look, &[], cluster.now);
    assert!(matches!(verdict, Ok(Verdict::Wait(_))), "{verdict:?}");
    cluster.holds_effects = false;
    cluster.catch_up(0);
    let verdict = cluster.servers[0].decide(&caller, &look, &[], cluster.now);
    assert!(matches!(verdict, Ok(Verdict::Done(_))), "{verdict:?}");
}

#[test]
fn a_directory_that_was_made_for_nothing_is_forgotten() {
    let mut cluster = Cluster::new(2);
    let inodes = cluster.inodes();
    let name = name_elsewhere(0);
    cluster.unreachable.insert(OTHER);
    assert_eq!(make(&mut cluster, &root(), At::new(Ino::ROOT, name.as_str())), Err(EIO));
    cluster.unreachable.clear();
    cluster.catch_up(0);
    assert!(cluster.is_settled());
    assert_eq!(cluster.inodes(), inodes);
    assert!(make(&mut cluster, &root(), At::new(Ino::ROOT, name.as_str())).is_ok());
    cluster.check();
}

#[test]
fn a_directory_made_before_its_entry_could_be_written_is_forgotten_after_a_restart() {
    let mut cluster = Cluster::new(2);
    let inodes = cluster.inodes();
    let name = name_elsewhere(0);
    let who = root();
    let asked = Request::Make {
        at: At::new(Ino::ROOT, name.as_str()),
        kind: NodeKind::Directory,
        permissions: 0o755,
    };
    let (client, request, acknowledged) = (cluster.client, RequestId(9999), RequestId(0));
    let caller = Caller { client, request, acknowledged, who: &who, job: JobId::default(), trusted: false };
    let verdict = cluster.servers[0].decide(&caller, &asked, &[], cluster.now).unwrap();
    let Verdict::Ask(question) = verdict else { panic!("{verdict:?}") };
    cluster.journals[0].extend(question.changes.iter().cloned());
    for change in &question.changes {
        cluster.servers[0].apply(change);
    }
    let second = Caller { request: RequestId(10_000), ..caller };
    let verdict = cluster.servers[0].decide(&second, &asked, &[], cluster.now);
    assert!(matches!(verdict, Ok(Verdict::Wait(_))), "two at once: {verdict:?}");
    let made = cluster.servers[1].decide_peer(ServerId(0), &question.request, cluster.now).unwrap();
    cluster.journals[1].extend(made.changes.iter().cloned());
    made.changes.iter().for_each(|change| cluster.servers[1].apply(change));
    let repeated = cluster.servers[1].decide_peer(ServerId(0), &question.request, cluster.now).unwrap();
    assert_eq!((repeated.changes.len(), repeated.reply), (0, made.reply));
    assert_eq!(cluster.inodes(), inodes + 1);
    cluster.restart(0);
    assert!(cluster.is_settled());
    assert_eq!(cluster.inodes(), inodes);
    cluster.check();
}

#[test]
fn a_removal_whose_answer_was_lost_is_finished_later() {
    let mut cluster = Cluster::new(2);
    let inodes = cluster.inodes();
    let name = name_elsewhere(0);
    let ino = make(&mut cluster, &root(), At::new(Ino::ROOT, name.as_str())).unwrap();
    let below = make(&mut cluster, &root(), At::new(ino, "below")).unwrap();
    assert_eq!(remove(&mut cluster, &root(), &name), Err(ENOTEMPTY));
    let inside = Request::Unlink { at: At::new(ino, "below"), directory: true };
    assert_eq!((below.home(), cluster.send(1, &root(), &inside)), (OTHER, Ok(Reply::Done)));
    cluster.unreachable.insert(OTHER);
    assert_eq!(remove(&mut cluster, &root(), &name), Err(EIO));
    cluster.unreachable.clear();
    cluster.catch_up(0);
    assert!(cluster.is_settled());
    assert_eq!(cluster.inodes(), inodes);
    assert!(cluster.list(&root(), Ino::ROOT, 4096).unwrap().len() == 2, "only the dots");
    cluster.check();
}

#[test]
fn a_directory_is_replaced_over_servers_only_when_it_is_empty() {
    let mut cluster = Cluster::new(2);
    let (first, second) = (name_elsewhere(0), name_elsewhere(1));
    let moved = make(&mut cluster, &root(), At::new(Ino::ROOT, first.as_str())).unwrap();
    let full = make(&mut cluster, &root(), At::new(Ino::ROOT, second.as_str())).unwrap();
    make(&mut cluster, &root(), At::new(full, "below")).unwrap();
    assert_eq!(rename(&mut cluster, &root(), &first, &second), Err(ENOTEMPTY));
    let inside = Request::Unlink { at: At::new(full, "below"), directory: true };
    cluster.send(1, &root(), &inside).unwrap();
    assert_eq!(rename(&mut cluster, &root(), &first, &second), Ok(Reply::Done));
    let node = cluster.attributes(&root(), At::new(Ino::ROOT, second.as_str()), true).unwrap();
    assert_eq!(node.ino, moved);
    assert!(cluster.is_settled());
    cluster.check();
}

#[test]
fn the_sticky_root_protects_directories_of_other_servers() {
    let mut cluster = Cluster::new(2);
    let (name, other) = (name_elsewhere(0), name_elsewhere(1));
    let (alice, bob) = (user(1000), user(1001));
    make(&mut cluster, &alice, At::new(Ino::ROOT, name.as_str())).unwrap();
    assert_eq!(rename(&mut cluster, &bob, &name, &other), Err(EPERM));
    assert_eq!(remove(&mut cluster, &bob, &name), Err(EPERM));
    assert_eq!(rename(&mut cluster, &alice, &name, &other), Ok(Reply::Done));
    assert_eq!(remove(&mut cluster, &alice, &other), Ok(Reply::Done));
    cluster.check();
}

#[test]
fn a_rename_whose_path_leaves_the_server_is_resolved_by_the_client() {
    let mut cluster = Cluster::new(2);
    let name = name_elsewhere(0);
    let top = make(&mut cluster, &root(), At::new(Ino::ROOT, name.as_str())).unwrap();
    make(&mut cluster, &root(), At::new(top, "old")).unwrap();
    let (old, new) = (format!("{name}/old"), format!("{name}/new"));
    let reply = rename(&mut cluster, &root(), &old, &new);
    assert!(matches!(reply, Ok(Reply::Redirect { .. })), "{reply:?}");
    let (from, to) = (At::new(top, "old"), At::new(top, "new"));
    let mode = RenameMode::Replace;
    assert_eq!(cluster.send(1, &root(), &Request::Rename { from: from.clone(), to, mode }), Ok(Reply::Done));
    let to = At::new(Ino::ROOT, "new");
    assert_eq!(cluster.send(1, &root(), &Request::Rename { from, to, mode }), Err(EXDEV));
}

#[test]
fn no_rename_makes_a_loop_over_servers() {
    let mut cluster = Cluster::new(2);
    let name = name_elsewhere(0);
    let top = make(&mut cluster, &root(), At::new(Ino::ROOT, name.as_str())).unwrap();
    let spread = |cluster: &mut Cluster, at: At| {
        let mode = weir_wire::XattrMode::Set;
        let set = |at| Request::XattrSet { at, follow: true, name: b"weir.layout".to_vec(), mode };
        cluster.follow(&root(), at, b"spread=yes", set).unwrap();
    };
    spread(&mut cluster, At::inode(top));
    // The path leads down to another server and back to the first.
    let mut path = vec![top];
    while path.len() < 30 {
        let parent = path[path.len() - 1];
        let child = make(&mut cluster, &root(), At::new(parent, format!("d{}", path.len()))).unwrap();
        spread(&mut cluster, At::inode(child));
        path.push(child);
    }
    let homes: std::collections::BTreeSet<ServerId> = path.iter().map(|ino| ino.home()).collect();
    assert_eq!(homes.len(), 2);
    for upper in 0..path.len() - 2 {
        for lower in upper + 2..path.len() {
            if path[upper].home() != path[lower].home() {
                continue;
            }
            let from = At::new(path[upper], format!("d{}", upper + 1));
            let to = At::new(path[lower], "loop");
            let server = usize::from(path[upper].home().0);
            let result =
                cluster.send(server, &root(), &Request::Rename { from, to, mode: RenameMode::Replace });
            assert!(result == Err(EXDEV) || result == Err(super::super::errno::EINVAL), "{result:?}");
        }
    }
    cluster.check();
}
