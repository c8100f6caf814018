//! Operations on paths, carried out on a cluster in memory or on the kernel, with results that compare.

use super::cluster::Cluster;
use proptest::prelude::*;
use rustix::fs::{self, AtFlags, Mode, OFlags, Timespec, Timestamps, XattrFlags};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use weir_wire::{
    At, AttributeChange, Attributes, Errno, FileKind, Identity, Ino, Moment, NodeKind, OpenFlags,
    Publication, RenameMode, Reply, Request, XattrMode,
};

/// The answer of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Nothing,
    /// Kind, permissions, links, owner, group, and the size of a node that has one.
    Node(FileKind, u16, u32, u32, u32, u64),
    Bytes(Vec<u8>),
    Names(Vec<Vec<u8>>),
}

/// An operation on paths relative to a base directory.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Make(String, NodeKind, u16),
    Open(String, OpenFlags, u16),
    Symlink(String, String),
    Link(String, String, bool),
    Unlink(String),
    RemoveDirectory(String),
    Rename(String, String, RenameMode),
    ChangeMode(String, u16),
    ChangeOwner(String, Option<u32>, Option<u32>, bool),
    Truncate(String, u64),
    Write(String, u64, u32),
    Times(String, Option<Option<Moment>>, Option<Option<Moment>>),
    Access(String, u8),
    Stat(String, bool),
    ReadLink(String),
    List(String),
    SetXattr(String, String, Vec<u8>, XattrMode),
    Xattr(String, String),
    Xattrs(String),
    RemoveXattr(String, String),
    /// An operation of the store alone: new subdirectories get homes on all servers.
    Spread(String),
}

fn path() -> impl Strategy<Value = String> {
    let component = prop_oneof![
        12 => Just("a"), 12 => Just("b"), 8 => Just("c"), 4 => Just("d"), 1 => Just("."), 2 => Just(".."),
    ];
    let long = Just("x".repeat(300));
    let usual = (proptest::collection::vec(component, 1..4), prop::bool::weighted(0.08))
        .prop_map(|(names, slash)| names.join("/") + if slash { "/" } else { "" });
    prop_oneof![60 => usual, 1 => long]
}

fn permissions() -> impl Strategy<Value = u16> {
    prop_oneof![
        6 => Just(0o755), 4 => Just(0o777), 2 => Just(0o644), 1 => Just(0o700), 1 => Just(0o000),
        2 => Just(0o2775), 2 => Just(0o1777), 1 => Just(0o6777), 1 => Just(0o2745), 1 => 0u16..0o10000,
    ]
}

fn owner() -> impl Strategy<Value = Option<u32>> {
    prop_oneof![Just(None), Just(Some(0)), Just(Some(1000)), Just(Some(1001)), Just(Some(2000))]
}

fn flags() -> impl Strategy<Value = OpenFlags> {
    let access = prop_oneof![Just((true, false)), Just((false, true)), Just((true, true))];
    (access, any::<[bool; 5]>()).prop_map(
        |((read, write), [create, exclusive, truncate, directory, no_follow])| OpenFlags {
            read,
            write,
            create,
            exclusive: exclusive && create,
            truncate,
            // Before 6.4 Linux did not refuse the two together.
            directory: directory && !create,
            no_follow,
            unnamed: false,
        },
    )
}

fn time() -> impl Strategy<Value = Option<Option<Moment>>> {
    let set = Moment { seconds: 1_000_000_000, nanoseconds: 5 };
    prop_oneof![Just(None), Just(Some(None)), Just(Some(Some(set)))]
}

/// One random operation.
pub(super) fn operation() -> impl Strategy<Value = Operation> {
    let kind = prop_oneof![
        8 => Just(NodeKind::Directory), 3 => Just(NodeKind::Regular), 1 => Just(NodeKind::Fifo),
        1 => Just(NodeKind::Socket),
    ];
    let target = prop_oneof![
        Just("a"),
        Just("b"),
        Just("../a"),
        Just("../b/c"),
        Just("a/b"),
        Just("."),
        Just(".."),
        Just("nowhere"),
        Just("c/"),
    ];
    let mode = prop_oneof![3 => Just(RenameMode::Replace), 1 => Just(RenameMode::NoReplace), 1 => Just(RenameMode::Exchange)];
    let name =
        prop_oneof![4 => Just("user.one"), 2 => Just("user.two"), 1 => Just("user."), 1 => Just("nonsense")];
    let setting = prop_oneof![Just(XattrMode::Set), Just(XattrMode::Create), Just(XattrMode::Replace)];
    let value = proptest::collection::vec(any::<u8>(), 0..20);
    let name = move || name.clone().prop_map(str::to_owned);
    prop_oneof![
        10 => (path(), kind, permissions()).prop_map(|(at, kind, mode)| Operation::Make(at, kind, mode)),
        10 => (path(), flags(), permissions()).prop_map(|(at, flags, mode)| Operation::Open(at, flags, mode)),
        3 => (target, path()).prop_map(|(target, at)| Operation::Symlink(target.to_owned(), at)),
        4 => (path(), path(), any::<bool>()).prop_map(|(from, to, follow)| Operation::Link(from, to, follow)),
        4 => path().prop_map(Operation::Unlink),
        4 => path().prop_map(Operation::RemoveDirectory),
        10 => (path(), path(), mode).prop_map(|(from, to, mode)| Operation::Rename(from, to, mode)),
        5 => (path(), permissions()).prop_map(|(at, mode)| Operation::ChangeMode(at, mode)),
        4 => (path(), owner(), owner(), any::<bool>())
            .prop_map(|(at, uid, gid, follow)| Operation::ChangeOwner(at, uid, gid, follow)),
        3 => (path(), 0u64..20_000).prop_map(|(at, size)| Operation::Truncate(at, size)),
        4 => (path(), 0u64..20_000, 1u32..9000).prop_map(|(at, to, length)| Operation::Write(at, to, length)),
        3 => (path(), time(), time()).prop_map(|(at, read, written)| Operation::Times(at, read, written)),
        2 => (path(), 0u8..8).prop_map(|(at, mask)| Operation::Access(at, mask)),
        3 => (path(), any::<bool>()).prop_map(|(at, follow)| Operation::Stat(at, follow)),
        1 => path().prop_map(Operation::ReadLink),
        2 => path().prop_map(Operation::List),
        2 => (path(), name(), value, setting)
            .prop_map(|(at, name, value, mode)| Operation::SetXattr(at, name, value, mode)),
        1 => (path(), name()).prop_map(|(at, name)| Operation::Xattr(at, name)),
        1 => path().prop_map(Operation::Xattrs),
        1 => (path(), name()).prop_map(|(at, name)| Operation::RemoveXattr(at, name)),
        1 => path().prop_map(Operation::Spread),
    ]
}

impl Operation {
    /// An operation without sticky bits, as their meaning in the kernel depends on its settings.
    pub(super) fn without_sticky(self) -> Operation {
        match self {
            Operation::Make(at, kind, mode) => Operation::Make(at, kind, mode & !0o1000),
            Operation::Open(at, flags, mode) => Operation::Open(at, flags, mode & !0o1000),
            Operation::ChangeMode(at, mode) => Operation::ChangeMode(at, mode & !0o1000),
            other => other,
        }
    }

    pub(super) fn on_cluster(&self, cluster: &mut Cluster, who: &Identity, base: Ino) -> Result<Seen, Errno> {
        let at = |path: &str| At::new(base, path);
        let plain = |cluster: &mut Cluster, path: &str, request: &dyn Fn(At) -> Request| {
            cluster.follow(who, at(path), &[], request)
        };
        let nothing = |_| Seen::Nothing;
        let change = |cluster: &mut Cluster, path: &str, follow, change| {
            plain(cluster, path, &|at| Request::Change { at, follow, change }).map(nothing)
        };
        match self {
            Operation::Make(path, kind, permissions) => {
                let (kind, permissions) = (*kind, *permissions);
                plain(cluster, path, &|at| Request::Make { at, kind, permissions }).map(nothing)
            }
            Operation::Open(path, flags, permissions) => {
                let (flags, permissions) = (*flags, *permissions);
                let opened =
                    plain(cluster, path, &|at| Request::Open { at, flags, permissions, layout: None })?;
                let Reply::Opened { attributes, handle, .. } = opened.0 else { panic!("{opened:?}") };
                cluster.close(attributes.ino, handle);
                Ok(Seen::Nothing)
            }
            Operation::Symlink(target, path) => {
                let target = target.as_bytes();
                plain(cluster, path, &|at| Request::Symlink { at, target: target.to_vec() }).map(nothing)
            }
            Operation::Link(from, to, follow) => {
                let (_, from) = cluster.found(who, at(from), *follow)?;
                let to = cluster.parent(who, &at(to))?;
                let server = usize::from(to.ino.home().0);
                cluster.send(server, who, &Request::Link { from, follow: *follow, to }).map(|_| Seen::Nothing)
            }
            Operation::Unlink(path) => {
                plain(cluster, path, &|at| Request::Unlink { at, directory: false }).map(nothing)
            }
            Operation::RemoveDirectory(path) => {
                plain(cluster, path, &|at| Request::Unlink { at, directory: true }).map(nothing)
            }
            Operation::Rename(from, to, mode) => {
                let from = cluster.parent(who, &at(from))?;
                let to = cluster.parent(who, &at(to))?;
                let server = usize::from(from.ino.home().0);
                cluster.send(server, who, &Request::Rename { from, to, mode: *mode }).map(|_| Seen::Nothing)
            }
            Operation::ChangeMode(path, permissions) => {
                let permissions = Some(*permissions);
                change(cluster, path, true, AttributeChange { permissions, ..Default::default() })
            }
            Operation::ChangeOwner(path, uid, gid, follow) => {
                let (uid, gid) = (*uid, *gid);
                change(cluster, path, *follow, AttributeChange { uid, gid, ..Default::default() })
            }
            Operation::Truncate(path, size) => {
                let size_bytes = Some(*size);
                change(cluster, path, true, AttributeChange { size_bytes, ..Default::default() })
            }
            Operation::Write(path, offset, length) => write(cluster, who, at(path), *offset, *length),
            Operation::Times(path, accessed, modified) => {
                let (accessed, modified) = (*accessed, *modified);
                change(cluster, path, true, AttributeChange { accessed, modified, ..Default::default() })
            }
            Operation::Access(path, mask) => {
                let mask = *mask;
                plain(cluster, path, &|at| Request::Access { at, mask, follow: true }).map(nothing)
            }
            Operation::Stat(path, follow) => {
                cluster.attributes(who, at(path), *follow).map(|node| seen(&node))
            }
            Operation::ReadLink(path) => match plain(cluster, path, &|at| Request::ReadLink { at })?.0 {
                Reply::Link { target } => Ok(Seen::Bytes(target)),
                other => panic!("{other:?}"),
            },
            Operation::List(path) => {
                let flags = OpenFlags { read: true, directory: true, ..OpenFlags::default() };
                let opened = cluster.open(who, at(path), flags)?;
                let Reply::Opened { attributes, handle, .. } = opened else { panic!("{opened:?}") };
                let listed = cluster.list(who, attributes.ino, 4096)?;
                cluster.close(attributes.ino, handle);
                Ok(Seen::Names(sorted(listed.into_iter().map(|entry| entry.name).collect())))
            }
            Operation::SetXattr(path, name, value, mode) => {
                let (name, mode) = (name.as_bytes(), *mode);
                let request = |at| Request::XattrSet { at, follow: true, name: name.to_vec(), mode };
                cluster.follow(who, at(path), value, request).map(nothing)
            }
            Operation::Xattr(path, name) => {
                let name = name.as_bytes();
                plain(cluster, path, &|at| Request::XattrGet { at, follow: true, name: name.to_vec() })
                    .map(|(_, value)| Seen::Bytes(value))
            }
            Operation::Xattrs(path) => plain(cluster, path, &|at| Request::XattrList { at, follow: true })
                .map(|(_, names)| Seen::Names(user_names(&names))),
            Operation::RemoveXattr(path, name) => {
                let name = name.as_bytes();
                plain(cluster, path, &|at| Request::XattrRemove { at, follow: true, name: name.to_vec() })
                    .map(nothing)
            }
            Operation::Spread(path) => {
                let (name, mode) = (b"weir.layout".to_vec(), XattrMode::Set);
                let request = |at| Request::XattrSet { at, follow: true, name: name.clone(), mode };
                cluster.follow(who, at(path), b"spread=yes", request).map(nothing)
            }
        }
    }

    /// Carries the operation out on the kernel, as the user of the thread.
    pub(super) fn on_kernel(&self, base: BorrowedFd<'_>) -> Result<Seen, Errno> {
        self.try_kernel(base).map_err(|error| Errno(error.raw_os_error().unwrap_or(0) as u16))
    }

    fn try_kernel(&self, base: BorrowedFd<'_>) -> io::Result<Seen> {
        // There are no xattr calls relative to a directory.
        let full = |path: &str| format!("/proc/self/fd/{}/{path}", base.as_raw_fd());
        let mode = |bits: &u16| Mode::from_raw_mode(u32::from(*bits));
        let follow = |follow: bool| if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        match self {
            Operation::Make(path, NodeKind::Directory, bits) => fs::mkdirat(base, path.as_str(), mode(bits))?,
            Operation::Make(path, kind, bits) => {
                let kind = match kind {
                    NodeKind::Fifo => fs::FileType::Fifo,
                    NodeKind::Socket => fs::FileType::Socket,
                    _ => fs::FileType::RegularFile,
                };
                fs::mknodat(base, path.as_str(), kind, mode(bits), 0)?;
            }
            Operation::Open(path, flags, bits) => {
                drop(fs::openat(base, path.as_str(), kernel_flags(*flags), mode(bits))?);
            }
            Operation::Symlink(target, path) => fs::symlinkat(target.as_str(), base, path.as_str())?,
            Operation::Link(from, to, followed) => {
                let flags = if *followed { AtFlags::SYMLINK_FOLLOW } else { AtFlags::empty() };
                fs::linkat(base, from.as_str(), base, to.as_str(), flags)?;
            }
            Operation::Unlink(path) => fs::unlinkat(base, path.as_str(), AtFlags::empty())?,
            Operation::RemoveDirectory(path) => fs::unlinkat(base, path.as_str(), AtFlags::REMOVEDIR)?,
            Operation::Rename(from, to, mode) => {
                let flags = match mode {
                    RenameMode::Replace => fs::RenameFlags::empty(),
                    RenameMode::NoReplace => fs::RenameFlags::NOREPLACE,
                    RenameMode::Exchange => fs::RenameFlags::EXCHANGE,
                };
                fs::renameat_with(base, from.as_str(), base, to.as_str(), flags)?;
            }
            Operation::ChangeMode(path, bits) => {
                fs::chmodat(base, path.as_str(), mode(bits), AtFlags::empty())?
            }
            Operation::ChangeOwner(path, uid, gid, followed) => {
                let (uid, gid) = (uid.map(fs::Uid::from_raw), gid.map(fs::Gid::from_raw));
                fs::chownat(base, path.as_str(), uid, gid, follow(*followed))?;
            }
            Operation::Truncate(path, size) => {
                fs::ftruncate(kernel_writer(base, path)?, *size)?;
            }
            Operation::Write(path, offset, length) => {
                let file = kernel_writer(base, path)?;
                rustix::io::pwrite(file, &vec![1; *length as usize], *offset)?;
            }
            Operation::Times(path, accessed, modified) => {
                let times =
                    Timestamps { last_access: timespec(*accessed), last_modification: timespec(*modified) };
                fs::utimensat(base, path.as_str(), &times, AtFlags::empty())?;
            }
            Operation::Access(path, mask) => {
                let access = fs::Access::from_bits_retain(u32::from(*mask));
                fs::accessat(base, path.as_str(), access, AtFlags::empty())?;
            }
            Operation::Stat(path, followed) => {
                return Ok(seen_by_kernel(&fs::statat(base, path.as_str(), follow(*followed))?));
            }
            Operation::ReadLink(path) => {
                return Ok(Seen::Bytes(fs::readlinkat(base, path.as_str(), Vec::new())?.into_bytes()));
            }
            Operation::List(path) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let directory = fs::openat(base, path.as_str(), flags, Mode::empty())?;
                return Ok(Seen::Names(sorted(names_of(directory)?)));
            }
            Operation::SetXattr(path, name, value, mode) => {
                let flags = match mode {
                    XattrMode::Set => XattrFlags::empty(),
                    XattrMode::Create => XattrFlags::CREATE,
                    XattrMode::Replace => XattrFlags::REPLACE,
                };
                fs::setxattr(full(path), name.as_str(), value, flags)?;
            }
            Operation::Xattr(path, name) => {
                let mut value = vec![0; 4096];
                let length = fs::getxattr(full(path), name.as_str(), &mut value[..])?;
                value.truncate(length);
                return Ok(Seen::Bytes(value));
            }
            Operation::Xattrs(path) => {
                let mut names = vec![0; 4096];
                let length = fs::listxattr(full(path), &mut names[..])?;
                return Ok(Seen::Names(user_names(&names[..length])));
            }
            Operation::RemoveXattr(path, name) => fs::removexattr(full(path), name.as_str())?,
            Operation::Spread(_) => {}
        }
        Ok(Seen::Nothing)
    }
}

fn write(cluster: &mut Cluster, who: &Identity, at: At, offset: u64, length: u32) -> Result<Seen, Errno> {
    let opened = cluster.open(who, at, super::cluster::writing())?;
    let Reply::Opened { attributes, handle, capability, .. } = opened else { panic!("{opened:?}") };
    let ino = attributes.ino;
    let publication = Publication {
        end: offset + u64::from(length),
        written_bytes: u64::from(length),
        epoch: attributes.epoch,
        reserved_end: 0,
    };
    let published = Request::Publish { capability, publication };
    let reply = cluster.send(usize::from(ino.home().0), who, &published)?;
    assert!(matches!(reply, Reply::Written { .. }), "{reply:?}");
    cluster.close(ino, handle);
    Ok(Seen::Nothing)
}

fn kernel_writer(base: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(fs::openat(base, path, flags, Mode::empty())?)
}

fn kernel_flags(flags: OpenFlags) -> OFlags {
    let mut bits = match (flags.read, flags.write) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    } | OFlags::CLOEXEC
        | OFlags::NONBLOCK;
    let each = [
        (flags.create, OFlags::CREATE),
        (flags.exclusive, OFlags::EXCL),
        (flags.truncate, OFlags::TRUNC),
        (flags.directory, OFlags::DIRECTORY),
        (flags.no_follow, OFlags::NOFOLLOW),
    ];
    for (set, bit) in each {
        bits.set(bit, set);
    }
    bits
}

fn timespec(time: Option<Option<Moment>>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT },
        Some(None) => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW },
        Some(Some(at)) => Timespec { tv_sec: at.seconds, tv_nsec: i64::from(at.nanoseconds) },
    }
}

fn seen(node: &Attributes) -> Seen {
    let sized = matches!(node.kind, FileKind::Regular | FileKind::Symlink);
    let size = if sized { node.size_bytes } else { 0 };
    Seen::Node(node.kind, node.permissions, node.links, node.uid, node.gid, size)
}

fn seen_by_kernel(stat: &fs::Stat) -> Seen {
    let kind = match fs::FileType::from_raw_mode(stat.st_mode) {
        fs::FileType::Directory => FileKind::Directory,
        fs::FileType::Symlink => FileKind::Symlink,
        fs::FileType::Fifo => FileKind::Fifo,
        fs::FileType::Socket => FileKind::Socket,
        _ => FileKind::Regular,
    };
    let sized = matches!(kind, FileKind::Regular | FileKind::Symlink);
    let size = if sized { stat.st_size as u64 } else { 0 };
    let permissions = (stat.st_mode & 0o7777) as u16;
    Seen::Node(kind, permissions, stat.st_nlink as u32, stat.st_uid, stat.st_gid, size)
}

fn user_names(names: &[u8]) -> Vec<Vec<u8>> {
    let user = names.split(|&byte| byte == 0).filter(|name| name.starts_with(b"user."));
    sorted(user.map(<[u8]>::to_vec).collect())
}

fn sorted(mut names: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    names.sort();
    names
}

fn names_of(directory: OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in fs::Dir::new(directory)? {
        names.push(entry?.file_name().to_bytes().to_vec());
    }
    Ok(names)
}

/// A whole tree by path, with a number for each inode in the order of its first path.
pub(super) type Tree = BTreeMap<Vec<u8>, (Seen, usize)>;

pub(super) fn tree_of_cluster(cluster: &mut Cluster, base: Ino) -> Tree {
    let who = super::cluster::root();
    let mut tree = Tree::new();
    let mut numbers = BTreeMap::new();
    let mut pending = vec![(Vec::new(), base)];
    while let Some((path, ino)) = pending.pop() {
        let node = cluster.attributes(&who, At::inode(ino), false).expect("an entry leads to an inode");
        let next = numbers.len();
        let number = *numbers.entry(ino).or_insert(next);
        if node.kind == FileKind::Directory {
            let listed = cluster.list(&who, ino, 512).expect("root lists");
            let mut inside: Vec<_> =
                listed.into_iter().filter(|entry| !entry.name.starts_with(b".")).collect();
            inside.sort_by(|left, right| right.name.cmp(&left.name));
            pending
                .extend(inside.into_iter().map(|entry| ([&path[..], b"/", &entry.name].concat(), entry.ino)));
        }
        tree.insert(path, (seen(&node), number));
    }
    tree
}

pub(super) fn tree_of_kernel(base: BorrowedFd<'_>) -> Tree {
    let mut tree = Tree::new();
    let mut numbers = BTreeMap::new();
    let mut pending: Vec<Vec<u8>> = vec![Vec::new()];
    while let Some(path) = pending.pop() {
        let relative = if path.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(&path[1..]) };
        let stat = fs::statat(base, relative, AtFlags::SYMLINK_NOFOLLOW).expect("an entry is there");
        let next = numbers.len();
        let number = *numbers.entry(stat.st_ino).or_insert(next);
        if fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = fs::openat(base, relative, flags, Mode::empty()).expect("root opens");
            let names = sorted(names_of(directory).expect("root lists"));
            let inside = names.into_iter().rev().filter(|name| !name.starts_with(b"."));
            pending.extend(inside.map(|name| [&path[..], b"/", &name].concat()));
        }
        tree.insert(path, (seen_by_kernel(&stat), number));
    }
    tree
}

/// Opens a directory for use as a base.
pub(super) fn directory(path: &std::path::Path) -> OwnedFd {
    fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .expect("it was just made")
}

/// A thread that is `who` and carries out operations relative to `base`.
pub(super) struct Actor {
    pub(super) who: Identity,
    operations: std::sync::mpsc::SyncSender<Operation>,
    results: std::sync::mpsc::Receiver<Result<Seen, Errno>>,
}

impl Actor {
    /// Starts the thread, which needs root if `who` is another user. Only the new thread changes its identity.
    pub(super) fn new(who: Identity, base: &OwnedFd) -> Actor {
        let (operations, inbox) = std::sync::mpsc::sync_channel::<Operation>(1);
        let (outbox, results) = std::sync::mpsc::sync_channel(1);
        let base = base.try_clone().expect("a descriptor can be duplicated");
        let own = rustix::process::getuid().as_raw();
        let them = who.clone();
        std::thread::spawn(move || {
            if them.uid != own {
                let groups: Vec<fs::Gid> = them.groups.iter().copied().map(fs::Gid::from_raw).collect();
                let (uid, gid) = (fs::Uid::from_raw(them.uid), fs::Gid::from_raw(them.gid));
                rustix::thread::set_thread_groups(&groups).expect("root sets groups");
                rustix::thread::set_thread_res_gid(gid, gid, gid).expect("root sets its group");
                rustix::thread::set_thread_res_uid(uid, uid, uid).expect("root sets its user");
            }
            for operation in inbox {
                if outbox.send(operation.on_kernel(base.as_fd())).is_err() {
                    return;
                }
            }
        });
        Actor { who, operations, results }
    }

    pub(super) fn carry_out(&self, operation: &Operation) -> Result<Seen, Errno> {
        self.operations.send(operation.clone()).expect("the thread runs");
        self.results.recv().expect("the thread runs")
    }
}
