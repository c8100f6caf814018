//! Laws of every decoder: a decoded message encodes to the same meaning, no bytes make a decoder panic or reserve
//! memory for a length that is only claimed, and the largest messages fit their frame.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde::{de::DeserializeOwned, Serialize};
use std::cell::Cell;
use weir_placement::{
    Component, ComponentSpecification, Layout, LayoutRequest, LayoutSpecification, ServerId, Stripes,
    TargetId, END_OF_FILE,
};
use weir_wire::{
    decode_body, encode_body, limits, AccountNames, At, Attributes, Capability, Claims, ClientId, Credential,
    DelegatedJob, Description, DeviceUse, DirectoryEntry, Disk, DiskId, Extent, Fence, FileKind, HandleId,
    Header, HeldObject, Identity, IdentityId, Ino, JobId, JobReport, MachineLoad, Moment, NodeKind,
    ObjectMove, OpenFlags, PaidObject, PeerReply, PeerRequest, PlacedReport, Publication, QuotaOwner,
    QuotaReport, QuotaUse, RenameMode, Reply, Request, Rights, Role, Sequence, ServerReport, SiteKey,
    StoreSettings, TargetReport, TargetRoom, XattrMode, HEADER_BYTES, VERSION,
};

const CASES: u32 = 20_000;
/// Above the number of variants of every message, so that unknown ones are met as well.
const VARIANTS: u8 = 64;

/// A runner of cases that [`weir_testing::seed`] repeats.
fn runner() -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&weir_testing::seed().to_le_bytes());
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Bytes that often decode: a variant, then small numbers among large ones. In half of them nearly all are 0 or 1: a
/// message with many flags and options takes nothing else.
fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let flag = prop_oneof![40 => 0u8..2, 6 => 2u8..64, 1 => any::<u8>(), 1 => Just(0xFF)];
    let number = prop_oneof![4 => 0u8..4, 2 => 0u8..64, 1 => any::<u8>(), 1 => Just(0xFF)];
    let bytes =
        prop_oneof![proptest::collection::vec(flag, 0..200), proptest::collection::vec(number, 0..200)];
    (0..VARIANTS, bytes).prop_map(|(variant, mut bytes)| {
        bytes.insert(0, variant);
        bytes
    })
}

/// Layouts in which some bytes are others: of random bytes alone hardly any are well formed.
fn almost_a_layout() -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (1..4_u16, 1..4_u16, changes).prop_map(|(components, stripes, changes)| {
        let component = |number| Component {
            end: if number + 1 == components { END_OF_FILE } else { u64::from(number + 1) << 20 },
            stripe_bytes: 1 << 16,
            targets: (0..stripes).map(|index| TargetId { server: ServerId(number), index }).collect(),
        };
        let layout = Layout::new((0..components).map(component).collect()).expect("well formed");
        let mut bytes = Vec::new();
        encode_body(&Reply::Layout { layout, layout_epoch: 3, size_bytes: 1 << 21, epoch: 5 }, &mut bytes);
        for (position, byte) in changes {
            let position = position.index(bytes.len());
            bytes[position] = byte;
        }
        bytes
    })
}

/// A report of a server in which some bytes are others: one of random bytes alone hardly ever decodes.
fn almost_a_report() -> impl Strategy<Value = Vec<u8>> {
    let part = || proptest::option::of(any::<f32>());
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    ((part(), part(), part()), 0..3_u16, changes).prop_map(
        |((processors, memory, network), count, changes)| {
            let target = |index| TargetId { server: ServerId(7), index };
            let job = |number: u16| JobReport {
                job: JobId(number.into()),
                name: "simulation".into(),
                user: "ada".into(),
                group: "science".into(),
                uid: 1000,
                nodes: 4,
                priority: 1,
                active: true,
                device_seconds: 0.5,
                uses: vec![DeviceUse { device: 0, wanted: None }, DeviceUse { device: 1, wanted: Some(0.5) }],
            };
            let measured = |index| TargetReport {
                target: target(index),
                room: TargetRoom {
                    capacity_bytes: 1 << 40,
                    used_bytes: 1 << 20,
                    disk: Some(Disk { id: DiskId { machine: 5, device: 6 }, free_bytes: 1 << 39 }),
                },
                load: 0.5,
                queued: 3,
                backlog_seconds: 0.1,
                rates: vec![(10, 1e9)],
                speed: 1.0,
                slow_since: Some(1_800_000_000_000),
            };
            let report = ServerReport {
                server: ServerId(7),
                boot: 1,
                started: 2,
                sequence: 3,
                load: MachineLoad { processors, memory, network },
                jobs: (0..count).map(job).collect(),
                targets: (0..count).map(measured).collect(),
                placed: (0..count).map(|index| PlacedReport { target: target(index), bytes: 1e6 }).collect(),
                settings: StoreSettings::default(),
                leaving: Vec::new(),
                quotas: QuotaReport {
                    is_whole: false,
                    owners: vec![(QuotaOwner::User(7), QuotaUse { bytes: 1 << 40, inodes: 3 })],
                    limits_digest: 9,
                },
            };
            let mut bytes = Vec::new();
            encode_body(&report, &mut bytes);
            for (position, byte) in changes {
                let position = position.index(bytes.len());
                bytes[position] = byte;
            }
            bytes
        },
    )
}

/// The message at the front of `bytes`, if there is one, means the same after another journey.
fn survives<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> bool {
    let Ok((message, _)) = postcard::take_from_bytes::<T>(bytes) else { return false };
    let mut first = Vec::new();
    assert_eq!(encode_body(&message, &mut first), first.len());
    let again: T = decode_body(&first, "message").expect("an encoded message decodes");
    let mut second = Vec::new();
    encode_body(&again, &mut second);
    // Compared as bytes, so that a number that is none equals itself.
    assert_eq!(first, second);
    assert!(decode_body::<T>(&[first.as_slice(), &[0]].concat(), "message").is_err(), "a byte left over");
    assert!(decode_body::<T>(&first[..first.len() - 1], "message").is_err(), "a byte missing");
    true
}

/// Answers how many inputs with each first byte were a message.
fn every_decoder_keeps_the_law<T: Serialize + DeserializeOwned>(
    what: &str,
    inputs: impl Strategy<Value = Vec<u8>>,
) -> Vec<u32> {
    let by_first_byte: Vec<Cell<u32>> = vec![Cell::new(0); 256];
    let law = |bytes: Vec<u8>| {
        if survives::<T>(&bytes) {
            let decoded = &by_first_byte[usize::from(bytes[0])];
            decoded.set(decoded.get() + 1);
        }
        Ok(())
    };
    runner().run(&inputs, law).unwrap_or_else(|error| panic!("{what}: {error}"));
    let by_first_byte: Vec<u32> = by_first_byte.into_iter().map(Cell::into_inner).collect();
    let decoded: u32 = by_first_byte.iter().sum();
    assert!(decoded > CASES / 100, "only {decoded} of {CASES} inputs were a {what}");
    by_first_byte
}

/// The law for an enum, each variant of which is met.
fn every_variant_keeps_the_law<T: Serialize + DeserializeOwned>(
    what: &str,
    inputs: impl Strategy<Value = Vec<u8>>,
) {
    let by_variant = every_decoder_keeps_the_law::<T>(what, inputs);
    let is_known = |variant: u8| {
        let alone = postcard::take_from_bytes::<T>(std::slice::from_ref(&variant));
        matches!(alone, Ok(_) | Err(postcard::Error::DeserializeUnexpectedEnd))
    };
    // From 128 on a variant takes two bytes.
    assert!((VARIANTS..128).all(|variant| !is_known(variant)), "the generator draws too few variants");
    let is_missed = |variant: &u8| is_known(*variant) && by_variant[usize::from(*variant)] == 0;
    let missed: Vec<u8> = (0..VARIANTS).filter(is_missed).collect();
    assert!(missed.is_empty(), "no input was a {what} of the variants {missed:?}");
}

#[test]
fn requests_keep_the_law() {
    every_variant_keeps_the_law::<Request>("request", any_message());
}

#[test]
fn replies_keep_the_law() {
    every_variant_keeps_the_law::<Reply>("reply", prop_oneof![3 => any_message(), 1 => almost_a_layout()]);
}

#[test]
fn reports_of_servers_keep_the_law() {
    every_decoder_keeps_the_law::<ServerReport>("report", prop_oneof![any_message(), almost_a_report()]);
}

#[test]
fn entries_of_directories_keep_the_law() {
    every_decoder_keeps_the_law::<Vec<DirectoryEntry>>("listing", any_message());
}

/// Every bit of a header counts, or is checked: the decoded header is the encoded one.
#[test]
fn a_header_that_decodes_is_the_one_that_was_encoded() {
    let fields = (1u8..=3, any::<[u8; 28]>(), 0..HEADER_BYTES, any::<u8>());
    let law = |(kind, rest, position, byte): (u8, [u8; 28], usize, u8)| {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&[b'W', b'R', VERSION, kind]);
        bytes[4..].copy_from_slice(&rest);
        bytes[position] = byte;
        if let Ok(header) = Header::decode(&bytes) {
            prop_assert!(header.body_bytes as usize <= limits::BODY_BYTES);
            prop_assert!(header.payload_bytes as usize <= limits::PAYLOAD_BYTES);
            // A refusal is read in any version, and written in ours.
            prop_assert_eq!(&header.encode()[3..], &bytes[3..]);
        }
        Ok(())
    };
    runner().run(&fields, law).expect("the law holds");
}

/// A length of 2^60 elements in a body of ten bytes reserves nothing.
#[test]
fn lengths_that_are_not_there_reserve_no_memory() {
    let huge = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F];
    for variant in 0..VARIANTS {
        for filler in 0..60 {
            let mut bytes = vec![variant];
            bytes.extend(std::iter::repeat_n(0, filler));
            bytes.extend_from_slice(&huge);
            let _ = decode_body::<Request>(&bytes, "request");
            let _ = decode_body::<Reply>(&bytes, "reply");
            let _ = decode_body::<ServerReport>(&bytes, "report");
            let _ = decode_body::<Vec<DirectoryEntry>>(&bytes, "listing");
        }
    }
}

#[test]
fn any_text_is_a_credential_or_refused() {
    let good = SiteKey::new([7; 32]).mint(claims()).to_json();
    let damage = (0..good.len(), any::<u8>(), 0..good.len());
    let law = |(position, byte, cut): (usize, u8, usize)| {
        let mut bytes = good.clone().into_bytes();
        bytes[position] = byte;
        if let Ok(credential) = Credential::from_json(&String::from_utf8_lossy(&bytes)) {
            prop_assert_eq!(Credential::from_json(&credential.to_json()), Ok(credential));
        }
        let _ = Credential::from_json(&String::from_utf8_lossy(&bytes[..cut]));
        Ok(())
    };
    runner().run(&damage, law).expect("the law holds");
}

/// Claims with every field at its limit.
fn claims() -> Claims {
    let name = "n".repeat(limits::CLAIM_NAME_BYTES);
    Claims {
        job: name.clone(),
        user: name.clone(),
        group: name,
        uid: u32::MAX,
        gid: u32::MAX,
        groups: vec![u32::MAX; limits::GROUPS],
        nodes: u32::MAX,
        priority: u32::MAX,
        role: Role::Server,
        issued_seconds: u64::MAX,
        expires_seconds: u64::MAX,
    }
}

const LARGEST_INO: Ino = Ino(u64::MAX);
const LARGEST_MOMENT: Moment = Moment { seconds: i64::MIN, nanoseconds: u32::MAX };
/// Stripes of each component of a layout with as many components and stripes as there may be.
const STRIPES_EACH: usize = limits::STRIPES / limits::COMPONENTS;

fn largest_capability() -> Capability {
    let description = Description { ino: LARGEST_INO, handle: HandleId(u64::MAX), uid: u32::MAX };
    SiteKey::new([7; 32]).capability(description, Rights { read: true, write: true }, u64::MAX)
}

fn largest_at() -> At {
    let anchor = Some(vec![b'a'; limits::NAME_BYTES].into());
    let path = vec![b'p'; limits::PATH_BYTES];
    At { ino: LARGEST_INO, path, anchor, hops: 40, proof: Some(largest_capability()) }
}

fn named(index: usize) -> TargetId {
    TargetId { server: ServerId(u16::MAX), index: u16::MAX - index as u16 }
}

#[test]
fn the_largest_request_of_each_kind_fits_its_frame() {
    let (ino, moment, at) = (LARGEST_INO, LARGEST_MOMENT, largest_at());
    let capability = largest_capability();
    let target = named(0);
    let who = Identity { uid: u32::MAX, gid: u32::MAX, groups: vec![u32::MAX; limits::GROUPS] };
    let extents = vec![Extent { offset: u64::MAX, length: u32::MAX }; limits::EXTENTS];
    let publication =
        Some(Publication { end: u64::MAX, written_bytes: u64::MAX, epoch: u64::MAX, reserved_end: 0 });
    let epoch = u64::MAX;
    let name = vec![b'x'; limits::XATTR_NAME_BYTES];
    let job = Some(DelegatedJob { claims: claims(), proof: [9; 32] });
    let specified = |number| ComponentSpecification {
        end: Some(u64::MAX - number as u64),
        stripe_bytes: Some(u64::MAX),
        stripes: Stripes::Targets((0..STRIPES_EACH).map(named).collect()),
    };
    let specification = LayoutSpecification { components: (0..limits::COMPONENTS).map(specified).collect() };
    let layout = LayoutRequest { layout: Some(specification.clone()), spread: Some(true) };
    let flags = OpenFlags { create: true, ..OpenFlags::default() };
    let long = || "n".repeat(limits::CLAIM_NAME_BYTES);
    let names = AccountNames { user: long(), group: long() };
    let held = HeldObject {
        ino,
        place: target,
        uid: u32::MAX,
        client: ClientId(u64::MAX),
        end: u64::MAX,
        bytes: u64::MAX,
        is_left: true,
    };
    for request in [
        Request::Hello {
            client: ClientId(u64::MAX),
            slot: u16::MAX,
            claims: claims(),
            nonce: [9; 32],
            has_mount: false,
            is_new: true,
        },
        Request::Identify { identity: IdentityId(u32::MAX), who: who.clone(), names, job },
        Request::Rename { from: at.clone(), to: at.clone(), mode: RenameMode::Exchange },
        Request::Link { from: at.clone(), follow: true, to: at.clone() },
        Request::Open { at: at.clone(), flags, permissions: u16::MAX, layout: Some(specification) },
        Request::Symlink { at: at.clone(), target: vec![b't'; limits::PATH_BYTES] },
        Request::Make { at: at.clone(), kind: NodeKind::BlockDevice(u64::MAX), permissions: u16::MAX },
        Request::Make { at: at.clone(), kind: NodeKind::Tree(u32::MAX), permissions: u16::MAX },
        Request::XattrSet { at: at.clone(), follow: true, name, mode: XattrMode::Replace },
        Request::Write {
            fence: Fence(u64::MAX),
            capability,
            target,
            epoch,
            extents: extents.clone(),
            publication,
        },
        Request::Read { fence: Fence(u64::MAX), capability, target, epoch, extents },
        Request::Detour { capability, layout_epoch: u64::MAX, full: vec![target; limits::STRIPES] },
        Request::MoveBegin {
            at: at.clone(),
            moves: vec![ObjectMove { from: target, to: target }; limits::STRIPES],
        },
        Request::Peer(PeerRequest::MakeDirectory {
            intent: u64::MAX,
            parent: ino,
            name: vec![b'n'; limits::NAME_BYTES],
            permissions: u16::MAX,
            uid: u32::MAX,
            gid: u32::MAX,
            layout,
            moment,
            settled: u64::MAX,
        }),
        Request::Peer(PeerRequest::MayMove { ino, who, owner: true, write: true }),
        Request::Reclaim { handles: vec![capability; 256] },
        Request::Peer(PeerRequest::Confirm { capabilities: vec![capability; limits::CONFIRMATIONS] }),
        Request::Peer(PeerRequest::ObjectsHeld { objects: vec![held; limits::OBJECTS_HELD] }),
    ] {
        fits(&request);
    }
}

#[test]
fn the_largest_reply_of_each_kind_fits_its_frame() {
    let (ino, moment, epoch) = (LARGEST_INO, LARGEST_MOMENT, u64::MAX);
    let (at, capability) = (largest_at(), largest_capability());
    let attributes = Attributes {
        ino,
        kind: FileKind::BlockDevice,
        permissions: u16::MAX,
        links: u32::MAX,
        uid: u32::MAX,
        gid: u32::MAX,
        device: u64::MAX,
        size_bytes: u64::MAX,
        allocated_bytes: u64::MAX,
        accessed: moment,
        modified: moment,
        changed: moment,
        created: moment,
        epoch,
        layout_epoch: epoch,
        version: epoch,
    };
    let component = |number| Component {
        end: END_OF_FILE - (limits::COMPONENTS - 1 - number) as u64,
        stripe_bytes: limits::STRIPE_BYTES_MAX,
        targets: (0..STRIPES_EACH).map(named).collect(),
    };
    let layout = Layout::new((0..limits::COMPONENTS).map(component).collect()).expect("well formed");
    let moving = Sequence(u64::MAX);
    let (size_bytes, layout_epoch, moved) = (u64::MAX, epoch, layout.clone());
    let layout = Some(layout);
    let most = QuotaUse { bytes: u64::MAX, inodes: u64::MAX };
    for reply in [
        Reply::Moving { ino, moving, capability, epoch },
        Reply::Layout { layout: moved, layout_epoch, size_bytes, epoch },
        Reply::Changes(vec![(u64::MAX, u64::MAX); limits::CHANGES]),
        Reply::Opened { attributes, handle: HandleId(u64::MAX), capability, layout, created: true },
        Reply::Redirect { at },
        Reply::Escape { path: vec![b'p'; 2 * limits::PATH_BYTES], hops: u8::MAX },
        Reply::Link { target: vec![b't'; limits::PATH_BYTES] },
        Reply::Peer(PeerReply::Made { ino }),
        Reply::Peer(PeerReply::Confirmed {
            holds: vec![true; limits::CONFIRMATIONS],
            fence: Fence(u64::MAX),
        }),
        Reply::Peer(PeerReply::ObjectsPaid {
            objects: vec![PaidObject::Bytes(u64::MAX); limits::OBJECTS_HELD],
            users: vec![(QuotaOwner::User(u32::MAX), most); limits::OBJECTS_HELD],
        }),
    ] {
        fits(&reply);
    }
}

fn fits<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(message: &T) {
    let mut body = Vec::new();
    let length = encode_body(message, &mut body);
    assert!(length <= limits::BODY_BYTES, "{length} bytes: {message:?}");
    assert_eq!(decode_body::<T>(&body, "message").as_ref(), Ok(message));
}
