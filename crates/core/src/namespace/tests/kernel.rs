//! Random operations by root and two users, on the kernel's file system and on the namespace: each answer and the
//! trees at the end must be the same.

use super::super::errno::{EINVAL, EOPNOTSUPP, EXDEV};
use super::cluster::{root, user, Cluster};
use super::model::{directory, operation, tree_of_cluster, tree_of_kernel, Actor, Operation};
use super::runner;
use proptest::prelude::*;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use weir_wire::{At, Capability, FileKind, Identity, Ino, NodeKind, OpenFlags, Reply, Request};

/// Directories above the base: more than any path or chain of links of the operations climbs.
const DEPTH: usize = 64;
/// The number of sequences, and of the operations in each.
const CASES: u32 = 400;
const OPERATIONS: usize = 60;

/// Operations between two restarts of a server.
const RESTART_EVERY: usize = 13;

/// The kernel's settings beyond POSIX.
#[derive(Clone, Copy)]
struct KernelSettings {
    protects_sticky: bool,
    protects_links: bool,
}

fn kernel_settings() -> KernelSettings {
    let value = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/fs/{name}")).unwrap_or_default();
        text.trim().parse::<u32>().unwrap_or(0)
    };
    let sticky = ["protected_regular", "protected_symlinks", "protected_fifos"];
    KernelSettings {
        protects_sticky: sticky.into_iter().any(|name| value(name) > 0),
        protects_links: value("protected_hardlinks") > 0,
    }
}

/// A file system that counts directories' links and exchanges names, as tmpfs does.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).expect("a directory in memory")
    } else {
        tempfile::tempdir().expect("a temporary directory")
    }
}

fn kernel_base(top: &Path) -> PathBuf {
    let mut path = top.to_owned();
    for _ in 0..DEPTH {
        path.push("n");
        std::fs::create_dir(&path).expect("a new directory");
        open_to_all(&path);
    }
    path
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("its owner may");
}

/// The directory in which both sides work, and the rights of the client's description of the directory.
fn cluster_base(cluster: &mut Cluster, owner: &Identity) -> (Ino, Capability) {
    let mut ino = Ino::ROOT;
    for _ in 0..DEPTH {
        let make = |at| Request::Make { at, kind: NodeKind::Directory, permissions: 0o777 };
        let (reply, _) = cluster.follow(owner, At::new(ino, "n"), &[], make).expect("a new directory");
        let Reply::Attributes(attributes) = reply else { panic!("{reply:?}") };
        ino = attributes.ino;
    }
    // The kernel's side holds a descriptor of the directory, too, so it may name the directory after any change above.
    let flags = OpenFlags { directory: true, ..OpenFlags::default() };
    match cluster.open(owner, At::inode(ino), flags) {
        Ok(Reply::Opened { capability, .. }) => (ino, capability),
        other => panic!("{other:?}"),
    }
}

fn supports_xattrs(base: &OwnedFd) -> bool {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", base.as_raw_fd());
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&path, "user.probe", b"", flags).is_ok()
        && rustix::fs::removexattr(&path, "user.probe").is_ok()
}

/// Operations whose answer differs by design.
fn is_skipped(operation: &Operation, who: &Identity, settings: KernelSettings, xattrs: bool) -> bool {
    match operation {
        // The kernel does not even look the file up.
        Operation::Times(_, None, None) => true,
        // A client has no change to send, but the kernel drops set-id bits even then.
        Operation::ChangeOwner(_, None, None, _) => true,
        Operation::Link(..) => !settings.protects_links && who.uid != 0,
        Operation::SetXattr(..)
        | Operation::Xattr(..)
        | Operation::Xattrs(..)
        | Operation::RemoveXattr(..) => !xattrs,
        _ => false,
    }
}

fn umask() -> u16 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u16::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0)
}

/// The client's part: the umask.
fn masked(operation: &Operation, umask: u16) -> Operation {
    match operation.clone() {
        Operation::Make(at, kind, mode) => Operation::Make(at, kind, mode & !umask),
        Operation::Open(at, flags, mode) => Operation::Open(at, flags, mode & !umask),
        other => other,
    }
}

fn compare(servers: u16, operations: &[(usize, Operation)]) -> Result<(), TestCaseError> {
    let scratch = scratch();
    let base = directory(&kernel_base(scratch.path()));
    let (settings, xattrs, umask) = (kernel_settings(), supports_xattrs(&base), umask());
    let own = Identity {
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        groups: rustix::process::getgroups().unwrap_or_default().iter().map(|gid| gid.as_raw()).collect(),
    };
    let everyone = if own.uid == 0 { vec![root(), user(1000), user(1001)] } else { vec![own.clone()] };
    let actors: Vec<Actor> = everyone.into_iter().map(|who| Actor::new(who, &base)).collect();
    let mut cluster = Cluster::new(servers);
    let (home, held) = cluster_base(&mut cluster, &own);
    for (number, (actor, operation)) in operations.iter().enumerate() {
        if number % RESTART_EVERY == RESTART_EVERY - 1 {
            let server = number / RESTART_EVERY % usize::from(servers);
            cluster.restart(server);
            if server == usize::from(home.home().0) {
                cluster.reclaim(&own, held);
            }
            if number % 2 == 0 {
                cluster.end_grace(server);
            }
        }
        let actor = &actors[actor % actors.len()];
        let operation =
            if settings.protects_sticky { operation.clone().without_sticky() } else { operation.clone() };
        if is_skipped(&operation, &actor.who, settings, xattrs) {
            continue;
        }
        let ours = masked(&operation, umask).on_cluster(&mut cluster, &actor.who, home);
        if matches!(operation, Operation::Spread(_)) || ours == Err(EXDEV) {
            continue;
        }
        if ours == Err(EOPNOTSUPP) && matches!(operation, Operation::Open(..) | Operation::Write(..)) {
            // Pipes are opened by the kernel of the client.
            continue;
        }
        if ours == Err(EINVAL) && matches!(operation, Operation::Truncate(..)) {
            // Here the kernel opens the pipe first, and answers about the opening.
            continue;
        }
        let theirs = actor.carry_out(&operation);
        prop_assert!(
            ours == theirs,
            "operation {number} by {}: {operation:?}\nours {ours:?}\nkernel {theirs:?}",
            actor.who.uid
        );
    }
    if own.uid == 0 {
        let ours = tree_of_cluster(&mut cluster, home);
        let theirs = tree_of_kernel(base.as_fd());
        prop_assert_eq!(ours, theirs);
    }
    (0..usize::from(servers)).for_each(|server| cluster.end_grace(server));
    cluster.check();
    assert!(cluster.is_settled());
    assert_no_leaks(&mut cluster);
    Ok(())
}

/// Checks that every inode has a way from the root, and that every object belongs to an inode.
fn assert_no_leaks(cluster: &mut Cluster) {
    let tree = tree_of_cluster(cluster, Ino::ROOT);
    let numbers: std::collections::BTreeSet<usize> = tree.values().map(|(_, number)| *number).collect();
    assert_eq!(cluster.inodes(), numbers.len() as u64);
}

fn run(servers: u16) {
    let operations = proptest::collection::vec((0usize..3, operation()), 1..OPERATIONS);
    let seed = weir_testing::seed();
    runner(CASES, seed)
        .run(&operations, |operations| compare(servers, &operations))
        .unwrap_or_else(|failure| panic!("WEIR_SEED={seed}\n{failure}"));
}

#[test]
fn one_server_answers_as_the_kernel_does() {
    run(1);
}

#[test]
fn several_servers_answer_as_the_kernel_does() {
    run(3);
}

#[test]
fn an_unnamed_file_can_be_given_a_name() {
    let mut cluster = Cluster::new(1);
    let flags = OpenFlags { write: true, unnamed: true, ..OpenFlags::default() };
    let opened = cluster.open(&root(), At::inode(Ino::ROOT), flags).unwrap();
    let Reply::Opened { attributes, handle, .. } = opened else { panic!("{opened:?}") };
    assert_eq!((attributes.links, attributes.kind), (0, FileKind::Regular));
    let link =
        Request::Link { from: At::inode(attributes.ino), follow: false, to: At::new(Ino::ROOT, "named") };
    assert!(matches!(cluster.send(0, &root(), &link), Ok(Reply::Attributes(node)) if node.links == 1));
    cluster.close(attributes.ino, handle);
    assert!(cluster.attributes(&root(), At::new(Ino::ROOT, "named"), true).is_ok());
    cluster.check();
}
