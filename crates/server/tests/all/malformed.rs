//! Bytes that are no frames, and frames that no client sends: 2,000 in each state of a connection. Nothing crashes,
//! nothing leaks, and a good client is served all the time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weir_placement::{ServerId, TargetId};
use weir_testing::{claims, dir, frame, head, key, ram, random_client, wait_until, Stop};
use weir_testing::{Choices, Cluster, Connection, File, Line, Transport, PATIENCE, READ_WRITE};
use weir_wire::{
    decode_body, encode_body, limits, AccountNames, At, AttributeChange, Capability, ClientId, Credential,
    Extent, Fence, HandleId, Header, Identity, IdentityId, Ino, Kind, LockKind, LockOwner, LockRange,
    LockType, NodeKind, ObjectMove, PeerRequest, Publication, RenameMode, Reply, Request, RequestId, Seek,
    Sequence, XattrMode, HEADER_BYTES, ROUND_LAST, VERSION,
};

const FRAMES: usize = 2_000;
/// User of the connections that send them, so that well-formed ones cannot reach the good client's file.
const STRANGER: u32 = 4_321;
/// The most that all of it may add to the server's own memory: remembered replies, and the allocator's slack.
const GROWTH_KIB_MAX: u64 = 64 << 10;
const TARGET: TargetId = TargetId { server: ServerId(0), index: 0 };

/// A server, and a file that a stranger may write.
struct Scene {
    cluster: Cluster,
    stranger: Credential,
    file: File,
}

impl Scene {
    fn new() -> Scene {
        Scene::on(&ram(1, "256MiB"))
    }

    fn on(toml: &str) -> Scene {
        let cluster = Cluster::start(toml);
        let at = At::new(Ino::ROOT, "shared");
        let make = Request::Make { at, kind: NodeKind::Directory, permissions: 0o777 };
        assert!(matches!(cluster.root(0).reply(&make), Reply::Attributes(_)));
        let stranger = key().mint(claims(STRANGER));
        let file =
            cluster.line(0, Transport::Unix, &stranger).open("shared/file", READ_WRITE).expect("opened");
        Scene { cluster, stranger, file }
    }

    /// A connection that sent Hello and was challenged.
    fn challenged(&self, transport: Transport) -> Connection {
        let connection = self.cluster.connection(0, transport);
        let mut connection = connection.sealed(&self.stranger).expect("its own credential");
        let claims = self.stranger.claims.clone();
        let hello = Request::Hello {
            client: random_client(),
            slot: 0,
            claims,
            nonce: [3; 32],
            has_mount: false,
            is_new: true,
        };
        let reply = connection.ask(RequestId(0), &hello);
        assert!(matches!(reply, Some(Reply::Challenge { .. })), "{reply:?}");
        connection
    }

    /// A connection with a payload that the server waits for the rest of.
    fn in_mid_payload(&self, transport: Transport, choices: &mut Choices) -> (Connection, usize) {
        let mut line = self.cluster.line(0, transport, &self.stranger);
        let whole = limits::INLINE_PAYLOAD_BYTES + 1 + choices.below(100_000) as usize;
        let extent = Extent { offset: choices.below(1 << 20), length: whole as u32 };
        let (capability, epoch) = (self.file.capability, self.file.epoch);
        let extents = vec![extent];
        let write = Request::Write {
            fence: Fence::NONE,
            capability,
            target: TARGET,
            epoch,
            extents,
            publication: None,
        };
        line.connection.send_bytes(&head(RequestId(1), IdentityId(0), &write, whole));
        let sent = choices.below(whole as u64) as usize;
        line.connection.send_bytes(&choices.bytes(sent));
        (line.connection, whole - sent)
    }

    /// Runs `attack` for each frame while a good client works, and looks at the memory that is left.
    fn attack(&self, choices: &mut Choices, mut attack: impl FnMut(&Scene, &mut Choices, Transport)) {
        let baseline = self.cluster.figure(0, "connections");
        let used_before = self.cluster.used_bytes(0);
        let memory_before = self.cluster.memory_kib(0, "RssAnon");
        let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let stopping = Stop::at_end(&stop);
            let good = scope.spawn(|| self.work(&stop, &rounds));
            for number in 0..FRAMES {
                attack(self, choices, Transport::BOTH[number % 2]);
                assert!(!good.is_finished(), "the good client is not served");
            }
            let done = rounds.load(Ordering::Relaxed);
            wait_until("the good client is served", || rounds.load(Ordering::Relaxed) > done + 1);
            drop(stopping);
        });
        self.cluster.await_figure(0, "connections", baseline);
        self.cluster.await_figure(0, "outstanding", 0);
        let grown = self.cluster.memory_kib(0, "RssAnon").saturating_sub(memory_before);
        assert!(grown < GROWTH_KIB_MAX, "the server's memory grew by {grown} KiB");

        let mut owner = self.cluster.line(0, Transport::Unix, &self.stranger);
        remove_below(&mut owner, b"shared");
        wait_until("what the frames wrote is gone", || self.cluster.used_bytes(0) <= used_before);
    }

    /// A good client: writes and reads its own file until told to stop.
    fn work(&self, stop: &AtomicBool, rounds: &AtomicU64) {
        let mut line = self.cluster.root(0);
        let mut file = line.open("good", READ_WRITE).expect("opened");
        let mut round = 0_u8;
        while !stop.load(Ordering::Relaxed) {
            round = round.wrapping_add(1);
            let bytes = vec![round; 100_000];
            line.write(&mut file, 0, &bytes).expect("written");
            assert!(line.read(&file, 0, bytes.len()).expect("read") == bytes);
            rounds.fetch_add(1, Ordering::Relaxed);
        }
        line.close(&file);
        assert_eq!(line.unlink("good", false), Reply::Done);
    }
}

/// Removes everything below a directory of the root.
fn remove_below(line: &mut Line, top: &[u8]) {
    let mut paths = vec![top.to_vec()];
    while let Some(path) = paths.last().cloned() {
        let directory = weir_wire::OpenFlags { read: true, directory: true, ..Default::default() };
        let request = Request::Open {
            at: At::new(Ino::ROOT, path.clone()),
            flags: directory,
            permissions: 0,
            layout: None,
        };
        let reply = line.reply(&request);
        let Reply::Opened { attributes, handle, .. } = reply else {
            panic!("{}: {reply:?}", path.escape_ascii())
        };
        let list = Request::List { ino: attributes.ino, handle, cookie: 0, bytes: 60_000, attributes: false };
        let (reply, payload) = line.call(&list, &[]);
        assert!(matches!(reply, Reply::Listing { .. }), "{reply:?}");
        line.reply(&Request::Close { ino: attributes.ino, handle });
        let entries = entries_of(&payload);
        for (name, is_directory) in &entries {
            let child = [path.as_slice(), b"/", name].concat();
            let at = At::new(Ino::ROOT, child.clone());
            if line.reply(&Request::Unlink { at, directory: *is_directory }) != Reply::Done && *is_directory {
                paths.push(child);
            }
        }
        if entries.is_empty() {
            paths.pop();
            if !paths.is_empty() {
                assert_eq!(
                    line.reply(&Request::Unlink { at: At::new(Ino::ROOT, path), directory: true }),
                    Reply::Done
                );
            }
        }
    }
}

fn entries_of(payload: &[u8]) -> Vec<(Vec<u8>, bool)> {
    let entries: Vec<weir_wire::DirectoryEntry> = decode_body(payload, "listing").expect("entries");
    let named = entries.into_iter().filter(|entry| entry.name != b"." && entry.name != b"..");
    named.map(|entry| (entry.name, entry.kind == weir_wire::FileKind::Directory)).collect()
}

/// Numbers at the edges of a field.
fn edge(choices: &mut Choices) -> u64 {
    let edges = [0, 1, 4095, 4096, 1 << 32, 1 << 48, i64::MAX as u64, 1 << 63, u64::MAX];
    let edge: u64 = *choices.one_of(&edges);
    match choices.below(3) {
        0 => edge,
        1 => edge.wrapping_add(choices.below(5000)),
        _ => edge.wrapping_sub(choices.below(5000)),
    }
}

/// A capability that may be the right one, one of another file, one that was altered, or one of another site.
fn any_capability(choices: &mut Choices, file: &File) -> Capability {
    let mut capability = file.capability;
    match choices.below(4) {
        0 => capability.ino = Ino(edge(choices)),
        1 => {
            capability =
                weir_wire::SiteKey::new([9; 32]).capability(file.description(0), capability.rights, 1)
        }
        _ => {}
    }
    capability
}

fn any_extents(choices: &mut Choices) -> Vec<Extent> {
    let count = *choices.one_of(&[0, 1, 2, 5, limits::EXTENTS as u64, limits::EXTENTS as u64 + 1]);
    let overlapping = edge(choices);
    let extent = |choices: &mut Choices| Extent {
        offset: if choices.below(2) == 0 { overlapping } else { edge(choices) },
        length: *choices.one_of(&[0, 0, 1, 100, 4096, 65_536, limits::PAYLOAD_BYTES as u32, u32::MAX]),
    };
    (0..count).map(|_| extent(choices)).collect()
}

fn any_target(choices: &mut Choices) -> TargetId {
    let server = ServerId(*choices.one_of(&[0, 0, 0, 1, u16::MAX]));
    TargetId { server, index: *choices.one_of(&[0, 0, 1, 2, u16::MAX]) }
}

fn any_at(choices: &mut Choices, file: &File) -> At {
    let ino = *choices.one_of(&[Ino::ROOT, file.ino, Ino(0), Ino(u64::MAX), Ino(1 << 48), Ino(77)]);
    let path = match choices.below(6) {
        0 => Vec::new(),
        1 => b"shared/file".to_vec(),
        2 => choices.bytes(300),
        3 => b"../".repeat(1300),
        4 => b"shared/x\0y".to_vec(),
        _ => format!("shared/{}", choices.below(20)).into_bytes(),
    };
    let anchor = (choices.below(4) == 0).then(|| choices.bytes(5).into());
    let proof = (choices.below(3) == 0).then(|| any_capability(choices, file));
    At { ino, path, anchor, hops: *choices.one_of(&[0, 0, 0, 40, 255]), proof }
}

/// Requests that decode, with numbers and names that no client sends; and the payload that goes with them.
fn hostile(choices: &mut Choices, file: &File) -> (Request, Vec<u8>) {
    let capability = any_capability(choices, file);
    let target = any_target(choices);
    let epoch = *choices.one_of(&[0, 0, 1, u64::MAX]);
    let handle = *choices.one_of(&[file.handle, HandleId(0), HandleId(u64::MAX)]);
    let ino = *choices.one_of(&[file.ino, Ino(0), Ino(u64::MAX)]);
    let publication = Publication {
        end: edge(choices),
        written_bytes: edge(choices),
        epoch: choices.below(2),
        reserved_end: 0,
    };
    let (offset, length) = (edge(choices), edge(choices));
    let at = any_at(choices, file);
    let range = LockRange { first: edge(choices), last: edge(choices) };
    let kind = *choices.one_of(&[LockKind::Posix, LockKind::Description, LockKind::Flock]);
    let lock = *choices.one_of(&[LockType::Read, LockType::Write, LockType::Unlock]);
    let owner = LockOwner(edge(choices));
    let change = AttributeChange { size_bytes: Some(edge(choices)), ..Default::default() };
    let payload = choices.below(3000) as usize;
    let payload = choices.bytes(payload);
    let extents = any_extents(choices);
    let request = match choices.below(33) {
        0 => Request::Read { fence: Fence::NONE, capability, target, epoch, extents },
        1 => {
            let bytes = extents.iter().map(|extent| extent.length as usize).sum::<usize>();
            let publication = (choices.below(2) == 0).then_some(publication);
            let write =
                Request::Write { fence: Fence::NONE, capability, target, epoch, extents, publication };
            return (write, vec![1; if bytes <= 200_000 { bytes } else { 7 }]);
        }
        2 => Request::Reserve { fence: Fence::NONE, capability, target, epoch, offset, length, punch: false },
        3 => Request::Reserve { fence: Fence::NONE, capability, target, epoch, offset, length, punch: true },
        4 => Request::ObjectSeek { capability, target, epoch, offset, seek: Seek::Data },
        5 => Request::ObjectSeek { capability, target, epoch, offset, seek: Seek::Hole },
        6 => Request::SyncObject { capability, target },
        7 => Request::Publish { capability, publication },
        8 => Request::Append { capability },
        9 => Request::AppendBegin { capability },
        10 => {
            Request::AppendEnd { capability, turn: Sequence(edge(choices)), publication: Some(publication) }
        }
        11 => Request::Lock { ino, handle, owner, pid: 1, kind, lock, range, wait: true, reclaim: None },
        12 => Request::Lock {
            ino,
            handle,
            owner,
            pid: 1,
            kind,
            lock,
            range,
            wait: false,
            reclaim: Some(Fence(1)),
        },
        13 => Request::TestLock { ino, handle, owner, kind, lock, range },
        14 => Request::Reclaim { handles: vec![capability; choices.below(200) as usize] },
        15 => Request::List { ino, handle, cookie: edge(choices), bytes: u32::MAX, attributes: true },
        16 => Request::Change { at, follow: true, change },
        17 => Request::Rename { from: at.clone(), to: any_at(choices, file), mode: RenameMode::Exchange },
        18 => Request::Link { from: at.clone(), follow: true, to: any_at(choices, file) },
        19 => Request::Symlink { at, target: choices.bytes(5000) },
        20 => Request::XattrSet { at, follow: true, name: choices.bytes(300), mode: XattrMode::Set },
        21 => Request::Invalidations { done: Sequence(edge(choices)) },
        22 => Request::Watch { capability },
        23 => Request::CancelLock { ino, waiting: RequestId(edge(choices)) },
        24 => Request::Peer(PeerRequest::RemoveObject { ino, target }),
        25 => Request::Layout { at },
        26 => {
            let one = ObjectMove { from: target, to: any_target(choices) };
            Request::MoveBegin { at, moves: vec![one; choices.below(3) as usize] }
        }
        27 => Request::MoveFreeze { ino, moving: Sequence(edge(choices)) },
        28 => Request::MoveEnd { ino, moving: Sequence(edge(choices)), commit: choices.below(2) == 0 },
        29 => {
            let round = *choices.one_of(&[0, 1, 2, ROUND_LAST]);
            Request::ObjectChanges { capability, target, tracking: choices.below(2), round }
        }
        30 => {
            let full = vec![any_target(choices); choices.below(4) as usize];
            Request::Detour { capability, layout_epoch: choices.below(2), full }
        }
        31 => Request::Identify {
            identity: IdentityId(edge(choices) as u32),
            who: Identity { uid: 0, gid: 0, groups: vec![0; choices.below(1000) as usize] },
            names: AccountNames { user: "u".repeat(choices.below(300) as usize), group: String::new() },
            job: None,
        },
        _ => Request::Hello {
            client: ClientId(0),
            slot: 0,
            claims: claims(0),
            nonce: [0; 32],
            has_mount: false,
            is_new: false,
        },
    };
    (request, payload)
}

/// Bytes that a server should survive in any state.
fn any_frame(choices: &mut Choices, file: &File) -> Vec<u8> {
    let (request, payload) = hostile(choices, file);
    let identity = IdentityId(*choices.one_of(&[0, 0, 0, 0, 1, u32::MAX]));
    let mut bytes = frame(RequestId(edge(choices)), identity, &request, &payload);
    match choices.below(9) {
        0 => {
            let length = 1 + choices.below(200) as usize;
            bytes = choices.bytes(length);
        }
        1 => {
            for _ in 0..=choices.below(3) {
                let position = choices.below(bytes.len() as u64) as usize;
                bytes[position] ^= 1 << choices.below(8);
            }
        }
        2 => bytes.truncate(choices.below(bytes.len() as u64) as usize),
        3 => {
            let body = [limits::BODY_BYTES as u32, limits::BODY_BYTES as u32 + 1, u32::MAX];
            bytes[4..8].copy_from_slice(&choices.one_of(&body).to_le_bytes());
        }
        4 => {
            let inline = limits::INLINE_PAYLOAD_BYTES as u32;
            let most = limits::PAYLOAD_BYTES as u32;
            let payload = [inline, inline + 1, most, most + 1, u32::MAX];
            bytes[8..12].copy_from_slice(&choices.one_of(&payload).to_le_bytes());
        }
        5 => bytes[2] = *choices.one_of(&[0, VERSION + 1, 255]),
        6 => bytes[3] = *choices.one_of(&[0, 2, 3, 4, 255]),
        7 => {
            // Bytes left over behind the body.
            let mut longer = vec![0; HEADER_BYTES];
            let body_bytes = encode_body(&request, &mut longer) as u32 + 5;
            longer.extend_from_slice(&choices.bytes(5));
            let (request, acknowledged) = (RequestId(1), RequestId(0));
            let kind = Kind::Request;
            let header = Header { kind, body_bytes, payload_bytes: 0, identity, request, acknowledged };
            longer[..HEADER_BYTES].copy_from_slice(&header.encode());
            bytes = longer;
        }
        _ => {}
    }
    bytes
}

#[test]
fn before_authentication() {
    let (scene, mut choices) = (Scene::new(), Choices::new());
    scene.attack(&mut choices, |scene, choices, transport| {
        let mut connection = scene.cluster.connection(0, transport);
        connection.send_bytes(&any_frame(choices, &scene.file));
        connection.end();
        connection.drain();
    });
}

/// Bytes that are no frames, in records that are the client's own: the channel opens them, and the server refuses them.
#[test]
fn before_authentication_in_a_sealed_channel() {
    let (scene, mut choices) = (Scene::new(), Choices::new());
    scene.attack(&mut choices, |scene, choices, _| {
        let connection = scene.cluster.connection(0, Transport::Tcp);
        let mut connection = connection.sealed(&scene.stranger).expect("its own credential");
        connection.send_bytes(&any_frame(choices, &scene.file));
        connection.end();
        connection.drain();
    });
}

#[test]
fn during_authentication() {
    let (scene, mut choices) = (Scene::new(), Choices::new());
    scene.attack(&mut choices, |scene, choices, transport| {
        let mut connection = scene.challenged(transport);
        connection.send_bytes(&any_frame(choices, &scene.file));
        connection.end();
        connection.drain();
    });
}

fn after_authentication_on(toml: &str) {
    let (scene, mut choices) = (Scene::on(toml), Choices::new());
    scene.attack(&mut choices, |scene, choices, transport| {
        let mut connection = scene.cluster.line(0, transport, &scene.stranger).connection;
        connection.send_bytes(&any_frame(choices, &scene.file));
        if choices.below(2) == 0 {
            connection.end();
            connection.drain();
        }
    });
}

fn in_mid_payload_on(toml: &str) {
    let (scene, mut choices) = (Scene::on(toml), Choices::new());
    scene.attack(&mut choices, |scene, choices, transport| {
        let (mut connection, missing) = scene.in_mid_payload(transport, choices);
        if choices.below(2) == 0 {
            connection.send_bytes(&choices.bytes(missing));
        }
        connection.send_bytes(&any_frame(choices, &scene.file));
        if choices.below(2) == 0 {
            connection.end();
            connection.drain();
        }
    });
}

#[test]
fn after_authentication() {
    after_authentication_on(&ram(1, "256MiB"));
}

#[test]
fn after_authentication_above_a_directory() {
    after_authentication_on(&dir(1));
}

#[test]
fn in_mid_payload() {
    in_mid_payload_on(&ram(1, "256MiB"));
}

#[test]
fn in_mid_payload_above_a_directory() {
    in_mid_payload_on(&dir(1));
}

#[test]
fn a_client_of_another_version_is_told_both_versions() {
    let scene = Scene::new();
    for transport in Transport::BOTH {
        let mut connection = scene.cluster.connection(0, transport);
        let hello = Request::Hello {
            client: ClientId(1),
            slot: 0,
            claims: claims(STRANGER),
            nonce: [0; 32],
            has_mount: false,
            is_new: true,
        };
        let mut bytes = frame(RequestId(0), IdentityId(0), &hello, &[]);
        bytes[2] = VERSION + 1;
        connection.send_bytes(&bytes);
        let (refusals, replies) = connection.drain();
        assert_eq!(replies, 0);
        let theirs = format!("version {}", VERSION + 1);
        assert!(
            refusals[0].contains(&theirs) && refusals[0].contains(&format!("speaks {VERSION}")),
            "{refusals:?}"
        );
    }
}

/// A request that takes no payload once kept its connection waiting for one that nobody would receive.
#[test]
fn a_payload_that_no_request_takes_is_refused_at_once() {
    let scene = Scene::new();
    let mut line = scene.cluster.line(0, Transport::Unix, &scene.stranger);
    let payload = vec![0; limits::INLINE_PAYLOAD_BYTES + 1];
    let at = || At::new(Ino::ROOT, "shared/file");
    let who = Identity { uid: 0, gid: 0, groups: Vec::new() };
    let names = AccountNames { user: "root".into(), group: "root".into() };
    let requests = [
        Request::Attributes { at: at(), follow: false },
        Request::XattrSet { at: at(), follow: false, name: b"user.x".to_vec(), mode: XattrMode::Set },
        Request::Append { capability: scene.file.capability },
        Request::Identify { identity: IdentityId(1), who, names, job: None },
        Request::Ping,
    ];
    for request in requests {
        let (reply, _) = line.call(&request, &payload);
        assert!(matches!(reply, Reply::Failed(_) | Reply::AppendElsewhere), "{request:?} gave {reply:?}");
        assert_eq!(line.reply(&Request::Ping), Reply::Done, "the next frame is understood");
    }
}

/// A zero-length extent once stopped the reception of the payload behind it.
#[test]
fn an_empty_extent_before_a_large_payload_does_not_stop_it() {
    let scene = Scene::new();
    let mut line = scene.cluster.line(0, Transport::Unix, &scene.stranger);
    let length = 200_000;
    let empty = |offset| Extent { offset, length: 0 };
    let extents = vec![empty(5), Extent { offset: 10, length: length as u32 }, empty(9_000_000)];
    let publication = Some(Publication {
        end: 10 + length as u64,
        written_bytes: length as u64,
        epoch: 0,
        reserved_end: 0,
    });
    let capability = scene.file.capability;
    let target = scene.file.layout.targets()[0];
    let write = Request::Write { fence: Fence::NONE, capability, target, epoch: 0, extents, publication };
    let (reply, _) = line.call(&write, &vec![7; length]);
    assert!(matches!(reply, Reply::Written { .. }), "{reply:?}");
    assert_eq!(line.read(&scene.file, 10, 100).expect("read"), [7; 100]);
    assert!(scene.cluster.used_bytes(0) <= 51 * 4096, "an empty extent takes no page");
}

/// A client that asks and never takes the answers once made the server keep all of them.
#[test]
fn a_client_that_takes_no_replies_is_not_read_on() {
    let scene = Scene::new();
    let memory_before = scene.cluster.memory_kib(0, "RssAnon");
    let mut line = scene.cluster.line(0, Transport::Unix, &scene.stranger);
    line.write(&mut scene.file.clone(), 0, &vec![1; 16 << 10]).expect("written");
    line.connection.set_write_timeout(std::time::Duration::from_millis(500));
    let extents = vec![Extent { offset: 0, length: 16 << 10 }];
    let read = Request::Read {
        fence: Fence::NONE,
        capability: scene.file.capability,
        target: TARGET,
        epoch: 0,
        extents,
    };
    let bytes = frame(RequestId(9), IdentityId(0), &read, &[]);
    let began = std::time::Instant::now();
    // 200,000 answers would be 3 GiB.
    let stuck = (0..200_000).any(|_| std::io::Write::write_all(&mut line.connection, &bytes).is_err());
    assert!(stuck && began.elapsed() < PATIENCE, "the server reads on");
    let grown = scene.cluster.memory_kib(0, "RssAnon").saturating_sub(memory_before);
    assert!(grown < 16 << 10, "{grown} KiB of answers are kept for it");
    assert_eq!(scene.cluster.root(0).reply(&Request::Ping), Reply::Done, "others are served");
    drop(line);
    scene.cluster.await_figure(0, "outstanding", 0);
    scene.cluster.await_figure(0, "connections", 0);
}
