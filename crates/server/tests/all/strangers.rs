//! Every message, sent by a local user without a right to the things that it names: it is refused, and nothing changes.
//!
//! `docs/reference/messages.md` holds the same table for readers. A message without a rule does not compile here, one that
//! is not sent fails, and so does one that the table does not list.

use std::collections::BTreeSet;
use weir_placement::{LayoutRequest, ServerId, TargetId};
use weir_testing::{
    assert_held, claims, key, ram, random_client, unix_seconds, Cluster, File, Line, Transport, READ_WRITE,
};
use weir_wire::{
    AccountNames, At, AttributeChange, Capability, Claims, Description, Errno, Extent, Fence, HandleId,
    HeldObject, Identity, IdentityId, Ino, LockKind, LockOwner, LockRange, LockType, Moment, NodeKind,
    ObjectMove, OpenFlags, PeerRequest, Publication, RenameMode, Reply, Request, RequestId, Rights, Role,
    Seek, Sequence, SiteKey, XattrMode,
};

/// The victim, the stranger, and the witness that looks whether anything changed.
const VICTIM: u32 = 1000;
const STRANGER: u32 = 2000;
const EACCES: Errno = Errno(13);
const EIO: Errno = Errno(5);
const ESTALE: Errno = Errno(116);

/// The ground on which a message's sender is entitled to the things that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Part of the handshake: nothing is named yet.
    Handshake,
    /// Only a mount of the administrator.
    Mount,
    /// Everyone with a credential: the answer is no secret, and the message changes nothing.
    Everyone,
    /// Permissions along the path, from the root, an inode that the caller may name, or an anchor.
    Path,
    /// A description that the sender's client holds.
    Held,
    /// The capability of an open description of the sender's user.
    Capability,
    /// The sender's client itself began the thing: nobody else's can be named.
    Own,
    /// Only another server.
    Server,
}

/// The table. The reference page has the same names.
fn rule(request: &Request) -> (&'static str, Rule) {
    match request {
        Request::Hello { .. } => ("Hello", Rule::Handshake),
        Request::Prove { .. } => ("Prove", Rule::Handshake),
        Request::Identify { .. } => ("Identify", Rule::Mount),
        Request::Ping => ("Ping", Rule::Everyone),
        Request::Fence => ("Fence", Rule::Everyone),
        Request::Cluster => ("Cluster", Rule::Everyone),
        Request::Statistics => ("Statistics", Rule::Everyone),
        Request::Attributes { .. } => ("Attributes", Rule::Path),
        Request::Access { .. } => ("Access", Rule::Path),
        Request::Change { .. } => ("Change", Rule::Path),
        Request::Open { .. } => ("Open", Rule::Path),
        Request::Make { .. } => ("Make", Rule::Path),
        Request::Symlink { .. } => ("Symlink", Rule::Path),
        Request::ReadLink { .. } => ("ReadLink", Rule::Path),
        Request::Link { .. } => ("Link", Rule::Path),
        Request::Unlink { .. } => ("Unlink", Rule::Path),
        Request::Rename { .. } => ("Rename", Rule::Path),
        Request::XattrGet { .. } => ("XattrGet", Rule::Path),
        Request::XattrSet { .. } => ("XattrSet", Rule::Path),
        Request::XattrList { .. } => ("XattrList", Rule::Path),
        Request::XattrRemove { .. } => ("XattrRemove", Rule::Path),
        Request::SyncMetadata { .. } => ("SyncMetadata", Rule::Path),
        Request::Layout { .. } => ("Layout", Rule::Path),
        Request::MoveBegin { .. } => ("MoveBegin", Rule::Path),
        Request::List { .. } => ("List", Rule::Held),
        Request::Close { .. } => ("Close", Rule::Held),
        Request::Lock { .. } => ("Lock", Rule::Held),
        Request::TestLock { .. } => ("TestLock", Rule::Held),
        Request::Reclaim { .. } => ("Reclaim", Rule::Capability),
        Request::Publish { .. } => ("Publish", Rule::Capability),
        Request::Append { .. } => ("Append", Rule::Capability),
        Request::AppendBegin { .. } => ("AppendBegin", Rule::Capability),
        Request::AppendEnd { .. } => ("AppendEnd", Rule::Capability),
        Request::Read { .. } => ("Read", Rule::Capability),
        Request::Write { .. } => ("Write", Rule::Capability),
        Request::Reserve { .. } => ("Reserve", Rule::Capability),
        Request::ObjectSeek { .. } => ("ObjectSeek", Rule::Capability),
        Request::SyncObject { .. } => ("SyncObject", Rule::Capability),
        Request::ObjectChanges { .. } => ("ObjectChanges", Rule::Capability),
        Request::AppendRenew { .. } => ("AppendRenew", Rule::Capability),
        Request::Detour { .. } => ("Detour", Rule::Capability),
        Request::Watch { .. } => ("Watch", Rule::Capability),
        Request::CancelLock { .. } => ("CancelLock", Rule::Own),
        Request::ReleaseLocks { .. } => ("ReleaseLocks", Rule::Own),
        Request::MoveFreeze { .. } => ("MoveFreeze", Rule::Own),
        Request::MoveEnd { .. } => ("MoveEnd", Rule::Own),
        Request::Unwatch { .. } => ("Unwatch", Rule::Own),
        Request::Follow { .. } => ("Follow", Rule::Own),
        Request::Invalidations { .. } => ("Invalidations", Rule::Own),
        Request::Peer(request) => (peer_name(request), Rule::Server),
    }
}

fn peer_name(request: &PeerRequest) -> &'static str {
    match request {
        PeerRequest::Exchange => "Peer Exchange",
        PeerRequest::TruncateObject { .. } => "Peer TruncateObject",
        PeerRequest::RemoveObject { .. } => "Peer RemoveObject",
        PeerRequest::MakeDirectory { .. } => "Peer MakeDirectory",
        PeerRequest::ForgetDirectory { .. } => "Peer ForgetDirectory",
        PeerRequest::RemoveDirectory { .. } => "Peer RemoveDirectory",
        PeerRequest::Reparent { .. } => "Peer Reparent",
        PeerRequest::FenceObject { .. } => "Peer FenceObject",
        PeerRequest::MayMove { .. } => "Peer MayMove",
        PeerRequest::Confirm { .. } => "Peer Confirm",
        PeerRequest::ObjectsHeld { .. } => "Peer ObjectsHeld",
        PeerRequest::Room => "Peer Room",
        PeerRequest::Vacancy => "Peer Vacancy",
    }
}

/// A store with a private directory, and a file in it that is open, locked, appended to and being moved.
struct Scene {
    cluster: Cluster,
    root: Line,
    victim: Line,
    secret: File,
    directory: Ino,
    listed: HandleId,
    waiting: RequestId,
    turn: Sequence,
    moving: Sequence,
}

const WHOLE: LockRange = LockRange { first: 0, last: u64::MAX };
const LENGTH: usize = 4096;

fn lock(file: &File, kind: LockKind, lock: LockType, owner: u64, wait: bool) -> Request {
    let (ino, handle, owner) = (file.ino, file.handle, LockOwner(owner));
    Request::Lock { ino, handle, owner, pid: 7, kind, lock, range: WHOLE, wait, reclaim: None }
}

impl Scene {
    fn new() -> Scene {
        let cluster = Cluster::start(&ram(1, "64MiB"));
        let root = cluster.root(0);
        let mut victim = cluster.line(0, Transport::Unix, &key().mint(claims(VICTIM)));
        let kind = NodeKind::Directory;
        let make = Request::Make { at: At::new(Ino::ROOT, "private"), kind, permissions: 0o700 };
        assert!(matches!(victim.reply(&make), Reply::Attributes(_)));
        let flags = OpenFlags { read: true, directory: true, ..OpenFlags::default() };
        let at = At::new(Ino::ROOT, "private");
        let opened = victim.reply(&Request::Open { at, flags, permissions: 0, layout: None });
        let Reply::Opened { attributes, handle: listed, .. } = opened else { panic!("{opened:?}") };
        let directory = attributes.ino;
        let layout = Some("-c 1 -o 0.0".parse().expect("a layout"));
        let at = At::new(Ino::ROOT, "private/secret");
        let opened = victim.reply(&Request::Open { at, flags: READ_WRITE, permissions: 0o666, layout });
        let Reply::Opened { attributes, handle, capability, layout, .. } = opened else {
            panic!("{opened:?}")
        };
        let layout = layout.expect("a regular file");
        let mut secret = File { ino: attributes.ino, handle, capability, layout, size_bytes: 0, epoch: 0 };
        victim.write(&mut secret, 0, &[7; LENGTH]).expect("written");
        assert_held(&victim.reply(&lock(&secret, LockKind::Posix, LockType::Write, 1, false)));
        assert_held(&victim.reply(&lock(&secret, LockKind::Flock, LockType::Write, 1, false)));
        let (moves, at) = (vec![ObjectMove { from: target_of(0), to: target_of(1) }], At::inode(secret.ino));
        let begun = victim.reply(&Request::MoveBegin { at, moves });
        let Reply::Moving { moving, epoch, .. } = begun else { panic!("{begun:?}") };
        secret.epoch = epoch;
        let begun = victim.reply(&Request::AppendBegin { capability: secret.capability });
        let Reply::Turn { turn, .. } = begun else { panic!("{begun:?}") };
        assert_eq!(victim.reply(&Request::Watch { capability: secret.capability }), Reply::Done);
        // Another process of the victim waits for the first one's lock.
        let waiting = victim.send(&lock(&secret, LockKind::Posix, LockType::Read, 2, true), &[]);
        Scene { cluster, root, victim, secret, directory, listed, waiting, turn, moving }
    }

    fn stranger(&self) -> Line {
        self.cluster.line(0, Transport::Unix, &key().mint(claims(STRANGER)))
    }

    /// Everything that a stranger might have changed.
    fn state(&mut self) -> String {
        let root = &mut self.root;
        let mut told = Vec::new();
        let named = |path: &str| At::new(Ino::ROOT, path);
        for path in ["", "private", "private/secret"] {
            let request = Request::Attributes { at: named(path), follow: false };
            told.push(format!("{:?}", root.reply(&request)));
            told.push(format!(
                "{:?}",
                root.call(&Request::XattrList { at: named(path), follow: false }, &[])
            ));
        }
        for (ino, handle) in [(Ino::ROOT, HandleId::NONE), (self.directory, HandleId::NONE)] {
            let list = Request::List { ino, handle, cookie: 0, bytes: 60_000, attributes: true };
            told.push(format!("{:?}", root.call(&list, &[])));
        }
        told.push(format!(
            "{:?}",
            self.victim.read(&self.secret, 0, LENGTH).map(|bytes| bytes == [7; LENGTH])
        ));
        let file = root.open("private/secret", OpenFlags { create: false, ..READ_WRITE }).expect("root may");
        for kind in [LockKind::Posix, LockKind::Flock] {
            let (ino, handle, owner, lock, range) =
                (file.ino, file.handle, LockOwner(9), LockType::Write, WHOLE);
            let test = Request::TestLock { ino, handle, owner, kind, lock, range };
            told.push(format!("{:?}", root.reply(&test)));
        }
        root.close(&file);
        told.push(format!("{:?}", root.reply(&Request::Statistics)));
        told.join("\n")
    }
}

fn names() -> AccountNames {
    AccountNames { user: "victim".into(), group: "victims".into() }
}

fn target_of(index: u16) -> TargetId {
    TargetId { server: ServerId(0), index }
}

/// Ways to name the victim's file without a right to it.
fn places(scene: &Scene, stranger: &Capability) -> Vec<At> {
    let ino = scene.secret.ino;
    let of = Description { ino, handle: scene.secret.handle, uid: STRANGER };
    let rights = Rights { read: true, write: true };
    let forged = SiteKey::new([9; 32]).capability(of, rights, unix_seconds());
    let old_pass = key().pass(ino, STRANGER, unix_seconds() - 3600);
    let other_pass = key().pass(ino, VICTIM, unix_seconds());
    let proved = |proof| At { proof: Some(proof), ..At::inode(ino) };
    let anchored = |name: &str| At { anchor: Some(name.as_bytes().to_vec().into()), ..At::inode(ino) };
    vec![
        At::new(Ino::ROOT, "private/secret"),
        At::new(Ino::ROOT, "private/../private/secret"),
        At::inode(ino),
        At::new(scene.directory, "secret"),
        At::new(ino, "../secret"),
        anchored("private"),
        At { anchor: Some(b"private".to_vec().into()), ..At::new(scene.directory, "secret") },
        proved(forged),
        proved(scene.secret.capability),
        proved(*stranger),
        proved(old_pass),
        proved(other_pass),
        At::inode(Ino(ino.0 + 1)),
    ]
}

/// Capabilities to which the stranger has no right, or which are worth nothing any more.
fn capabilities(scene: &Scene, closed: &Capability) -> Vec<Capability> {
    let of = |uid| Description { ino: scene.secret.ino, handle: scene.secret.handle, uid };
    let rights = Rights { read: true, write: true };
    let (mut altered, mut renamed) = (*closed, scene.secret.capability);
    altered.ino = scene.secret.ino;
    renamed.uid = STRANGER;
    vec![
        scene.secret.capability,
        SiteKey::new([9; 32]).capability(of(STRANGER), rights, unix_seconds()),
        renamed,
        altered,
        *closed,
        key().pass(scene.secret.ino, STRANGER, unix_seconds()),
    ]
}

/// Every message in every way in which a stranger could send it, with its payload.
fn attacks(scene: &Scene, closed: &Capability) -> Vec<(Request, Vec<u8>)> {
    let none = || Vec::new();
    let mut all: Vec<(Request, Vec<u8>)> = Vec::new();
    let name = || b"user.mark".to_vec();
    for at in places(scene, closed) {
        let mine = At::new(Ino::ROOT, "of-the-stranger");
        let change = |change| Request::Change { at: at.clone(), follow: true, change };
        let below = At { path: [&at.path[..], b"/x"].concat(), ..at.clone() };
        let flags = [
            OpenFlags::default(),
            OpenFlags { read: true, ..OpenFlags::default() },
            OpenFlags { write: true, truncate: true, ..OpenFlags::default() },
        ];
        for flags in flags {
            all.push((Request::Open { at: at.clone(), flags, permissions: 0, layout: None }, none()));
        }
        let through = Some(scene.secret.capability);
        let size_bytes = Some(1);
        let moves = vec![ObjectMove { from: target_of(0), to: target_of(1) }];
        for request in [
            Request::Attributes { at: at.clone(), follow: true },
            Request::Access { at: at.clone(), mask: 0, follow: true },
            change(AttributeChange { permissions: Some(0o777), ..Default::default() }),
            change(AttributeChange { uid: Some(STRANGER), ..Default::default() }),
            change(AttributeChange { size_bytes, ..Default::default() }),
            change(AttributeChange { size_bytes, capability: through, ..Default::default() }),
            change(AttributeChange { size_bytes, capability: Some(*closed), ..Default::default() }),
            change(AttributeChange { modified: Some(None), accessed: Some(None), ..Default::default() }),
            Request::Make { at: below.clone(), kind: NodeKind::Regular, permissions: 0o644 },
            Request::Symlink { at: below, target: b"x".to_vec() },
            Request::ReadLink { at: at.clone() },
            Request::Link { from: at.clone(), follow: false, to: mine.clone() },
            Request::Unlink { at: at.clone(), directory: false },
            Request::Rename { from: at.clone(), to: mine, mode: RenameMode::Replace },
            Request::XattrGet { at: at.clone(), follow: true, name: b"weir.layout".to_vec() },
            Request::XattrList { at: at.clone(), follow: true },
            Request::XattrRemove { at: at.clone(), follow: true, name: name() },
            Request::SyncMetadata { at: at.clone() },
            Request::Layout { at: at.clone() },
            Request::MoveBegin { at: at.clone(), moves },
        ] {
            all.push((request, none()));
        }
        all.push((Request::XattrSet { at, follow: true, name: name(), mode: XattrMode::Set }, b"1".to_vec()));
    }
    all.extend(with_capabilities(scene, closed));
    all.extend(with_numbers(scene).into_iter().map(|request| (request, none())));
    all
}

fn with_capabilities(scene: &Scene, closed: &Capability) -> Vec<(Request, Vec<u8>)> {
    let mut all: Vec<(Request, Vec<u8>)> = Vec::new();
    let (target, epoch, fence) = (target_of(0), scene.secret.epoch, Fence::NONE);
    let publication = Publication { end: 1 << 20, written_bytes: 1, epoch, reserved_end: 0 };
    let extents = vec![Extent { offset: 0, length: 8 }];
    for capability in capabilities(scene, closed) {
        for punch in [false, true] {
            let reserve =
                Request::Reserve { capability, target, epoch, fence, offset: 0, length: 4096, punch };
            all.push((reserve, Vec::new()));
        }
        for publication in [None, Some(publication)] {
            let extents = extents.clone();
            let write =
                Request::Write { fence: Fence::NONE, capability, target, epoch, extents, publication };
            all.push((write, b"attacked".to_vec()));
            all.push((Request::AppendEnd { capability, turn: scene.turn, publication }, Vec::new()));
        }
        all.push((Request::Append { capability }, b"attacked".to_vec()));
        for request in [
            Request::Reclaim { handles: vec![capability] },
            Request::Publish { capability, publication },
            Request::AppendBegin { capability },
            Request::Read { fence: Fence::NONE, capability, target, epoch, extents: extents.clone() },
            Request::ObjectSeek { capability, target, epoch, offset: 0, seek: Seek::Data },
            Request::SyncObject { capability, target },
            Request::ObjectChanges { capability, target, tracking: 1, round: 0 },
            Request::AppendRenew { capability, turn: scene.turn },
            Request::Detour { capability, layout_epoch: epoch, full: vec![target] },
            Request::Watch { capability },
        ] {
            all.push((request, Vec::new()));
        }
    }
    all
}

/// Messages that name numbers which can be guessed: handles, locks, turns and moves of others.
fn with_numbers(scene: &Scene) -> Vec<Request> {
    let (ino, handle) = (scene.secret.ino, scene.secret.handle);
    let invented = File { ino: Ino(ino.0 + 77), ..scene.secret.clone() };
    let mut all = Vec::new();
    for file in [&scene.secret, &invented] {
        for kind in [LockKind::Posix, LockKind::Description, LockKind::Flock] {
            for wanted in [LockType::Read, LockType::Write, LockType::Unlock] {
                all.push(lock(file, kind, wanted, 1, false));
            }
            let (ino, handle, owner) = (file.ino, file.handle, LockOwner(1));
            all.push(Request::TestLock { ino, handle, owner, kind, lock: LockType::Read, range: WHOLE });
        }
        let (ino, handle, owner, kind) = (file.ino, file.handle, LockOwner(1), LockKind::Posix);
        let (lock, reclaim) = (LockType::Write, Some(Fence(1)));
        all.push(Request::Lock { ino, handle, owner, pid: 1, kind, lock, range: WHOLE, wait: true, reclaim });
    }
    for (ino, handle) in [(ino, handle), (scene.directory, scene.listed), (scene.directory, handle)] {
        all.push(Request::Close { ino, handle });
    }
    for handle in [scene.listed, HandleId::NONE, HandleId(u64::MAX)] {
        let ino = scene.directory;
        all.push(Request::List { ino, handle, cookie: 0, bytes: 4096, attributes: true });
    }
    all.extend([
        Request::CancelLock { ino, waiting: scene.waiting },
        Request::ReleaseLocks { ino, owner: LockOwner(1) },
        Request::MoveFreeze { ino, moving: scene.moving },
        Request::MoveEnd { ino, moving: scene.moving, commit: false },
        Request::MoveEnd { ino, moving: scene.moving, commit: true },
        Request::Unwatch { ino },
        Request::Follow { ino, handle: scene.secret.handle, is_followed: false },
        Request::Identify {
            identity: IdentityId(1),
            who: Identity { uid: VICTIM, gid: VICTIM, groups: vec![] },
            names: names(),
            job: None,
        },
    ]);
    all.extend(as_server(scene).into_iter().map(Request::Peer));
    all
}

fn as_server(scene: &Scene) -> Vec<PeerRequest> {
    let (ino, target, epoch) = (scene.secret.ino, target_of(0), u64::MAX / 2);
    let who = Identity { uid: VICTIM, gid: VICTIM, groups: vec![] };
    let client = random_client();
    let held =
        HeldObject { ino, place: target, uid: STRANGER, client, end: epoch, bytes: epoch, is_left: true };
    vec![
        PeerRequest::Exchange,
        PeerRequest::TruncateObject { ino, target, length: 0, epoch },
        PeerRequest::FenceObject { ino, target, length: 0, epoch },
        PeerRequest::RemoveObject { ino, target },
        PeerRequest::MakeDirectory {
            intent: 1,
            parent: Ino::new(ServerId(1), 5),
            name: b"made".to_vec(),
            permissions: 0o777,
            uid: STRANGER,
            gid: STRANGER,
            layout: LayoutRequest::default(),
            moment: Moment::default(),
            settled: u64::MAX,
        },
        PeerRequest::ForgetDirectory { intent: 1 },
        PeerRequest::RemoveDirectory { ino: scene.directory, owner_only: None },
        PeerRequest::Reparent {
            intent: u64::MAX,
            ino: scene.directory,
            parent: Ino::ROOT,
            name: b"moved".to_vec(),
        },
        PeerRequest::MayMove { ino: scene.directory, who, owner: false, write: true },
        PeerRequest::Confirm { capabilities: vec![scene.secret.capability] },
        PeerRequest::ObjectsHeld { objects: vec![held] },
        PeerRequest::Room,
        PeerRequest::Vacancy,
    ]
}

/// A description that the stranger itself closed is worth as little as one that it never had.
fn closed_by(stranger: &mut Line) -> Capability {
    let gone = stranger.open("gone", READ_WRITE).expect("the root is open to all");
    assert_eq!(stranger.unlink("gone", false), Reply::Done);
    stranger.close(&gone);
    gone.capability
}

#[test]
fn a_stranger_is_refused_by_every_message_and_changes_nothing() {
    let mut scene = Scene::new();
    let mut stranger = scene.stranger();
    let closed = closed_by(&mut stranger);
    let before = scene.state();
    let (mut sent, mut refused, mut names) = (0, 0, BTreeSet::new());
    for (request, payload) in attacks(&scene, &closed) {
        let (name, rule) = rule(&request);
        names.insert(name);
        let (reply, bytes) = stranger.call(&request, &payload);
        let is_refusal = match (&reply, rule) {
            (Reply::Failed(_) | Reply::Stale, _) => true,
            // The stranger has no such thing, and the victim's is not touched: the state below says so.
            (Reply::Done, Rule::Own) => true,
            (Reply::Done, Rule::Held) => matches!(request, Request::Close { .. }),
            _ => false,
        };
        assert!(is_refusal, "{request:?} was answered {reply:?} with {} bytes", bytes.len());
        let now = scene.state();
        assert_eq!(now, before, "{request:?}, answered {reply:?}, changed the victim's");
        sent += 1;
        refused += usize::from(is_refusal);
    }
    // A message that tells no secret and changes nothing is answered, so that a user can find the store and its free space.
    for request in [Request::Ping, Request::Fence, Request::Cluster, Request::Statistics] {
        names.insert(rule(&request).0);
        assert_eq!(rule(&request).1, Rule::Everyone);
        assert!(!matches!(stranger.reply(&request), Reply::Failed(_)), "{request:?}");
        assert_eq!(scene.state(), before, "{request:?}");
    }
    let (ended, and_refused) = those_that_end_a_connection(&mut scene, &before, &mut names);
    (sent, refused) = (sent + ended, refused + and_refused);
    is_listed(&names);
    println!("strangers: {{\"stranger_messages\": {sent}, \"stranger_messages_refused\": {refused}}}");
}

/// A greeting as somebody else, and the long poll for news of the victim's file: neither is answered with anything.
fn those_that_end_a_connection(
    scene: &mut Scene,
    before: &str,
    names: &mut BTreeSet<&'static str>,
) -> (usize, usize) {
    let (mut sent, mut refused) = (0, 0);
    let hello = Request::Hello {
        client: scene.victim.client,
        slot: 0,
        claims: claims(VICTIM),
        nonce: [0; 32],
        has_mount: false,
        is_new: false,
    };
    for request in [hello, Request::Prove { proof: [0; 32] }] {
        names.insert(rule(&request).0);
        let mut stranger = scene.stranger();
        stranger.send(&request, &[]);
        let (refusals, replies) = stranger.connection.drain();
        assert!(refusals.len() == 1 && replies == 0, "{request:?} was answered");
        (sent, refused) = (sent + 1, refused + 1);
        assert_eq!(scene.state(), before, "{request:?}");
    }
    let poll = Request::Invalidations { done: Sequence(u64::MAX) };
    names.insert(rule(&poll).0);
    let mut stranger = scene.stranger();
    let (first, second) = (stranger.send(&poll, &[]), stranger.send(&poll, &[]));
    // Only the second poll of the same client answers the first one, and it names no file.
    let answered = stranger.receive();
    assert_eq!((answered.0, &answered.1), (first, &Reply::Done), "{second:?}");
    assert_eq!(scene.state(), before);
    (sent + 1, refused + 1)
}

fn is_listed(sent: &BTreeSet<&'static str>) {
    let page = include_str!("../../../../docs/reference/messages.md");
    let listed = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: BTreeSet<&str> = listed.map(|(name, _)| name).collect();
    assert_eq!(*sent, listed, "sent here, and listed in docs/reference/messages.md");
}

#[test]
fn an_expired_credential_is_worth_nothing_on_an_open_connection() {
    let scene = Scene::new();
    let mut requests: Vec<(Request, Vec<u8>)> = Vec::new();
    let mut known = BTreeSet::new();
    for (request, payload) in attacks(&scene, &scene.secret.capability) {
        if known.insert(rule(&request).0) {
            requests.push((request, payload));
        }
    }
    requests.push((Request::Ping, Vec::new()));
    // On a busy machine the connections may take longer than the credential lives.
    for lifetime in [5, 20, 60] {
        let expires_seconds = unix_seconds() + lifetime;
        let credential = key().mint(Claims { expires_seconds, ..claims(VICTIM) });
        let open = || {
            let connection = scene.cluster.connection(0, Transport::Unix);
            Line::prove(connection, &credential, random_client()).ok()
        };
        let Some(mut lines) = requests.iter().map(|_| open()).collect::<Option<Vec<Line>>>() else {
            continue;
        };
        while unix_seconds() <= expires_seconds + 1 {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        for ((request, payload), line) in requests.iter().zip(&mut lines) {
            line.send(request, payload);
            let (refusals, replies) = line.connection.drain();
            let says_why = refusals.iter().all(|reason| reason.contains("the credential has expired"));
            assert!(refusals.len() == 1 && says_why && replies == 0, "{request:?}: {refusals:?}, {replies}");
        }
        return;
    }
    panic!("no connection was made within a minute");
}

#[test]
fn a_client_is_its_users_alone() {
    let scene = Scene::new();
    let connection = scene.cluster.connection(0, Transport::Unix);
    let credential = key().mint(claims(STRANGER));
    let refused = Line::prove(connection, &credential, scene.victim.client).err();
    assert_eq!(
        refused,
        Some(Some(Reply::Failed(EACCES))),
        "its locks and descriptions would be the stranger's"
    );
    assert!(Line::prove(
        scene.cluster.connection(0, Transport::Unix),
        &key().mint(claims(VICTIM)),
        scene.victim.client
    )
    .is_ok());
}

/// The right of an open description dies with it, also at targets of other servers, and bytes that came too late go.
#[test]
fn a_closed_description_of_a_removed_file_writes_nothing_that_stays() {
    let cluster = Cluster::start(&ram(2, "64MiB"));
    let mut home = cluster.line(0, Transport::Unix, &key().mint(claims(STRANGER)));
    let mut other = cluster.line(1, Transport::Unix, &key().mint(claims(STRANGER)));
    let file = home.open("gone", READ_WRITE).expect("opened");
    let (capability, epoch) = (file.capability, file.epoch);
    let write = |target| {
        let extents = vec![Extent { offset: 0, length: 1 << 20 }];
        Request::Write { fence: Fence::NONE, capability, target, epoch, extents, publication: None }
    };
    let target_at = |server| file.target_on(server).expect("it has one there");
    // Bytes that are never told of are removed with their file, too.
    assert_eq!(other.call(&write(target_at(1)), &vec![1; 1 << 20]).0, Reply::Written { size: None });
    assert_eq!(home.call(&write(target_at(0)), &vec![1; 1 << 20]).0, Reply::Written { size: None });
    weir_testing::wait_until("the home knows of the object", || cluster.used_bytes(1) > 0);
    assert_eq!(home.unlink("gone", false), Reply::Done);
    home.close(&file);
    assert_eq!(home.call(&write(target_at(0)), &vec![2; 1 << 20]).0, Reply::Failed(ESTALE));
    let late = other.call(&write(target_at(1)), &vec![2; 1 << 20]).0;
    assert!(matches!(late, Reply::Failed(ESTALE) | Reply::Written { .. }), "{late:?}");
    weir_testing::wait_until("nothing stays", || cluster.used_bytes(0) == 0 && cluster.used_bytes(1) == 0);
    // An old token of a removed file is asked about, and the home does not know it.
    let old = key().capability(file.description(STRANGER), capability.rights, unix_seconds() - 3600);
    let extents = vec![Extent { offset: 0, length: 1 }];
    let stale = Request::Write {
        fence: Fence::NONE,
        capability: old,
        target: target_at(1),
        epoch,
        extents,
        publication: None,
    };
    assert_eq!(other.call(&stale, b"x").0, Reply::Failed(ESTALE));
    assert_eq!(home.reply(&Request::Reclaim { handles: vec![capability] }), Reply::Failed(ESTALE));
    weir_testing::wait_until("nothing stays", || cluster.used_bytes(0) == 0 && cluster.used_bytes(1) == 0);
}

/// A description that stays open keeps its right at other servers, however long ago it was opened.
#[test]
fn an_open_description_is_confirmed_by_its_home() {
    let mut cluster = Cluster::start(&ram(2, "64MiB"));
    let mut home = cluster.line(0, Transport::Unix, &key().mint(claims(STRANGER)));
    let mut other = cluster.line(1, Transport::Unix, &key().mint(claims(STRANGER)));
    let file = home.open("file", READ_WRITE).expect("opened");
    let capability =
        key().capability(file.description(STRANGER), file.capability.rights, unix_seconds() - 3600);
    let target = file.target_on(1).expect("one");
    let extents = vec![Extent { offset: 0, length: 100_000 }];
    let write = Request::Write {
        fence: Fence::NONE,
        capability,
        target,
        epoch: file.epoch,
        extents,
        publication: None,
    };
    assert_eq!(other.call(&write, &vec![1; 100_000]).0, Reply::Written { size: None });
    let extents = vec![Extent { offset: 0, length: 4 }];
    let read = Request::Read { fence: Fence::NONE, capability, target, epoch: file.epoch, extents };
    assert_eq!(other.call(&read, &[]), (Reply::Data { size: None }, vec![1; 4]));
    home.close(&file);
    // The home confirms a closed description as little as a description that never was.
    let again = home.open("file", READ_WRITE).expect("opened");
    let never = key().capability(
        Description { handle: HandleId(again.handle.0 + 5), ..again.description(STRANGER) },
        capability.rights,
        unix_seconds() - 3600,
    );
    let extents = vec![Extent { offset: 0, length: 4 }];
    let read = Request::Read { fence: Fence::NONE, capability: never, target, epoch: file.epoch, extents };
    assert_eq!(other.call(&read, &[]).0, Reply::Failed(ESTALE));
    // A home that is away can say nothing.
    cluster.kill_server(0);
    let alone = key().capability(again.description(STRANGER), capability.rights, unix_seconds() - 3600);
    let extents = vec![Extent { offset: 0, length: 4 }];
    let read = Request::Read { fence: Fence::NONE, capability: alone, target, epoch: file.epoch, extents };
    assert_eq!(other.call(&read, &[]).0, Reply::Failed(EIO));
}

/// A user that may not walk to a directory does not get below it by its number; a user that may, may name it by number too.
#[test]
fn a_number_leads_nowhere_that_a_path_does_not() {
    let scene = Scene::new();
    let mut mount = scene.cluster.line(
        0,
        Transport::Unix,
        &key().mint(Claims { role: Role::Mount, job: "mount".into(), ..claims(0) }),
    );
    let look = |ino| Request::Attributes { at: At::inode(ino), follow: false };
    let who = Identity { uid: STRANGER, gid: STRANGER, groups: vec![] };
    assert_eq!(
        mount.reply(&Request::Identify { identity: IdentityId(1), who, names: names(), job: None }),
        Reply::Done
    );
    mount.identity = IdentityId(1);
    assert!(
        matches!(mount.reply(&look(scene.secret.ino)), Reply::Attributes(_)),
        "its kernel has walked there as the caller"
    );
    let mut victim = scene.cluster.line(0, Transport::Unix, &key().mint(claims(VICTIM)));
    assert!(matches!(victim.reply(&look(scene.secret.ino)), Reply::Attributes(_)), "it could walk there");
    let mut stranger = scene.stranger();
    assert_eq!(stranger.reply(&look(scene.secret.ino)), Reply::Failed(EACCES));
    // A second name in an open directory is a second way.
    let to = At::new(Ino::ROOT, "shown");
    let link = Request::Link { from: At::inode(scene.secret.ino), follow: false, to };
    assert!(matches!(victim.reply(&link), Reply::Attributes(_)));
    assert!(matches!(stranger.reply(&look(scene.secret.ino)), Reply::Attributes(_)));
    assert_eq!(victim.unlink("shown", false), Reply::Done);
    assert_eq!(stranger.reply(&look(scene.secret.ino)), Reply::Failed(EACCES));
}
