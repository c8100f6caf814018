//! The rules of bytes at the level of the protocol: epochs, cuts, appends, full targets, holes; on both backends.

use weir_testing::{
    head, random_client, server_toml, wait_until, Choices, Cluster, File, Line, Transport, READ_WRITE,
};
use weir_wire::{
    encode_body, At, AttributeChange, Errno, Extent, Fence, Header, IdentityId, Kind, Publication, Reply,
    Request, RequestId, Seek, XattrMode, HEADER_BYTES,
};

const MIB: usize = 1 << 20;
const ENOSPC: Errno = Errno(28);
const BACKENDS: [&str; 2] = ["ram", "dir"];

/// One server of `targets` targets.
fn server(backend: &str, targets: usize, capacity: &str) -> Cluster {
    Cluster::start(&server_toml(targets, &format!("backend = \"{backend}\"\ncapacity = \"{capacity}\"")))
}

fn write_extents(file: &File, extents: Vec<Extent>, publication: Option<Publication>) -> Request {
    let (capability, target, epoch) = (file.capability, file.layout.targets()[0], file.epoch);
    Request::Write { fence: Fence::NONE, capability, target, epoch, extents, publication }
}

fn read_extents(file: &File, extents: Vec<Extent>) -> Request {
    let (capability, target, epoch) = (file.capability, file.layout.targets()[0], file.epoch);
    Request::Read { fence: Fence::NONE, capability, target, epoch, extents }
}

fn publication(file: &File, end: u64, written: usize) -> Publication {
    Publication { end, written_bytes: written as u64, epoch: file.epoch, reserved_end: 0 }
}

fn reserve(file: &File, offset: u64, length: u64, punch: bool) -> Request {
    let (capability, target, epoch) = (file.capability, file.layout.targets()[0], file.epoch);
    Request::Reserve { fence: Fence::NONE, capability, target, epoch, offset, length, punch }
}

#[test]
fn whoever_missed_a_cut_is_told_on_every_way_to_the_bytes() {
    for backend in BACKENDS {
        let cluster = server(backend, 2, "64MiB");
        let (mut cutter, mut other) = (cluster.root(0), cluster.line(0, Transport::Tcp, &root()));
        let mut file = cutter.open("file", READ_WRITE).expect("opened");
        let mut old = other.open("file", READ_WRITE).expect("opened");
        other.write(&mut old, 0, &[1; 3 * MIB]).expect("written");
        cutter.truncate(&mut file, 5);
        assert_eq!((file.size_bytes, file.epoch), (5, 1));

        let stale = Reply::StaleEpoch { epoch: 1 };
        assert_eq!(other.read(&old, 0, 1), Err(stale.clone()));
        assert_eq!(other.write(&mut old, 0, b"x"), Err(stale.clone()));
        let far = old.layout.pieces(MIB as u64, 1).next().expect("a piece");
        assert_ne!(far.object, 0);
        assert_eq!(other.read(&old, MIB as u64, 1), Err(stale.clone()), "the other object knows as well");
        let publish = |file: &File| Request::Publish {
            capability: file.capability,
            publication: publication(file, 3 * MIB as u64, 1),
        };
        assert_eq!(other.reply(&publish(&old)), stale);
        assert_eq!(other.attributes("file").expect("there").size_bytes, 5, "nothing of it changed the size");

        old.epoch = 1;
        assert_eq!(other.read(&old, 0, 10).expect("read"), [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(other.reply(&publish(&old)), Reply::Written { size: Some((3 * MIB as u64, 1)) });
        assert!(other.read(&old, 5, 3 * MIB - 5).expect("read").iter().all(|&byte| byte == 0));
        let newer = File { epoch: 9, ..old.clone() };
        assert_eq!(other.reply(&publish(&newer)), stale, "an epoch that was never given is none");
    }
}

fn root() -> weir_wire::Credential {
    weir_testing::key().mint(weir_testing::claims(0))
}

#[test]
fn a_cut_in_the_middle_of_a_write_wins() {
    for backend in BACKENDS {
        let cluster = server(backend, 1, "64MiB");
        let (mut writer, mut cutter) = (cluster.root(0), cluster.root(0));
        let mut file = writer.open("file", READ_WRITE).expect("opened");
        writer.write(&mut file, 0, &[1; 100]).expect("written");
        let write = write_extents(
            &file,
            vec![Extent { offset: 0, length: 2 * MIB as u32 }],
            Some(publication(&file, 2 * MIB as u64, 2 * MIB)),
        );
        writer.connection.send_bytes(&head(RequestId(500), IdentityId(0), &write, 2 * MIB));
        writer.connection.send_bytes(&[9; MIB]);
        wait_until("the write has begun", || cluster.figure(0, "outstanding") == 1);
        cutter.truncate(&mut file, 50);
        writer.connection.send_bytes(&[9; MIB]);
        let (request, reply, _) = writer.receive();
        assert_eq!((request, reply), (RequestId(500), Reply::StaleEpoch { epoch: 1 }), "{backend}");
        assert_eq!(cutter.attributes("file").expect("there").size_bytes, 50);
        cutter.truncate(&mut file, 200);
        let bytes = cutter.read(&file, 0, 200).expect("read");
        let kept = if backend == "ram" { bytes[0] } else { 1 };
        assert!(bytes[..50].iter().all(|&byte| byte == kept), "{bytes:?}");
        assert!(bytes[50..].iter().all(|&byte| byte == 0), "nothing of the write is behind the cut");
    }
}

/// A writer that died between its bytes and their publication leaves them behind the end of the file.
#[test]
fn a_file_that_grows_never_shows_what_a_dead_writer_left() {
    for backend in BACKENDS {
        let cluster = server(backend, 1, "64MiB");
        let mut dead = cluster.root(0);
        let file = dead.open("file", READ_WRITE).expect("opened");
        let extents = vec![Extent { offset: 0, length: 5_000 }];
        assert_eq!(
            dead.call(&write_extents(&file, extents, None), &[9; 5_000]).0,
            Reply::Written { size: None }
        );
        drop(dead);
        let mut line = cluster.root(0);
        let mut file = line.open("file", READ_WRITE).expect("opened");
        assert_eq!(file.size_bytes, 0);
        line.truncate(&mut file, 10_000);
        assert_eq!(line.read(&file, 0, 10_000).expect("read"), [0; 10_000], "{backend}");
    }
}

/// One record of an appender: its name, a count, and bytes that tell a torn record.
fn record(appender: u8, number: u16, choices: &mut Choices) -> Vec<u8> {
    let length = choices.below(3_000) as u16;
    let mut bytes = vec![appender];
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.resize(5 + usize::from(length), appender ^ number as u8);
    bytes
}

fn append(line: &mut Line, file: &mut File, bytes: &[u8], inline: bool) {
    let capability = file.capability;
    if inline {
        match line.call(&Request::Append { capability }, bytes).0 {
            Reply::Appended { .. } => return,
            Reply::AppendElsewhere => {}
            other => panic!("{other:?}"),
        }
    }
    let Reply::Turn { turn, offset, epoch } = line.reply(&Request::AppendBegin { capability }) else {
        panic!("a turn")
    };
    file.epoch = epoch;
    for (mut request, range) in Line::write_requests(file, offset, bytes.len()) {
        if let Request::Write { publication, .. } = &mut request {
            *publication = None;
        }
        let reply = line.call(&request, &bytes[range]).0;
        assert!(matches!(reply, Reply::Written { .. }), "{reply:?}");
    }
    let publication = Some(publication(file, offset + bytes.len() as u64, bytes.len()));
    let reply = line.reply(&Request::AppendEnd { capability, turn, publication });
    assert!(matches!(reply, Reply::Written { size: Some(_) }), "{reply:?}");
}

#[test]
fn appends_of_many_neither_overlap_nor_get_lost() {
    const APPENDERS: u8 = 8;
    const RECORDS: u16 = 40;
    let mut choices = Choices::new();
    for backend in BACKENDS {
        let cluster = server(backend, 3, "64MiB");
        let mut line = cluster.root(0);
        line.make_directory("log");
        // Records often reach over the end of a stripe.
        let (at, name) = (At::new(weir_wire::Ino::ROOT, "log"), b"weir.layout".to_vec());
        let set = Request::XattrSet { at, follow: true, name, mode: XattrMode::Set };
        assert_eq!(line.call(&set, b"-S 4k").0, Reply::Done);
        std::thread::scope(|scope| {
            for appender in 0..APPENDERS {
                let (mut choices, cluster) = (choices.branch(), &cluster);
                scope.spawn(move || {
                    let transport = Transport::BOTH[usize::from(appender) % 2];
                    let mut line = cluster.line(0, transport, &root());
                    let mut file = line.open("log/file", READ_WRITE).expect("opened");
                    for number in 0..RECORDS {
                        let inline = choices.below(3) > 0;
                        append(&mut line, &mut file, &record(appender, number, &mut choices), inline);
                    }
                });
            }
        });
        let file = line.open("log/file", READ_WRITE).expect("opened");
        let bytes = line.read(&file, 0, file.size_bytes as usize).expect("read");
        let mut next = [0; APPENDERS as usize];
        let mut rest = bytes.as_slice();
        while let [appender, low, high, length_low, length_high, after @ ..] = rest {
            let number = u16::from_le_bytes([*low, *high]);
            let length = usize::from(u16::from_le_bytes([*length_low, *length_high]));
            assert_eq!(number, next[usize::from(*appender)], "records of one appender are in order");
            next[usize::from(*appender)] += 1;
            assert!(after[..length].iter().all(|byte| *byte == appender ^ number as u8), "a torn record");
            rest = &after[length..];
        }
        assert!(rest.is_empty());
        assert_eq!(next, [RECORDS; APPENDERS as usize], "{backend}");
    }
}

#[test]
fn an_appender_that_dies_passes_its_turn_on() {
    let cluster = server("ram", 1, "64MiB");
    let (mut dead, mut line) = (cluster.root(0), cluster.root(0));
    let mut file = line.open("file", READ_WRITE).expect("opened");
    let capability = file.capability;
    assert!(matches!(dead.reply(&Request::AppendBegin { capability }), Reply::Turn { .. }));
    assert_eq!(line.call(&Request::Append { capability }, b"x").0, Reply::AppendElsewhere);
    let waiting = line.send(&Request::AppendBegin { capability }, &[]);
    assert_eq!(cluster.figure(0, "outstanding"), 1);
    drop(dead);
    let (request, reply, _) = line.receive();
    assert_eq!(request, waiting);
    let Reply::Turn { turn, epoch, .. } = reply else { panic!("{reply:?}") };
    assert_eq!(epoch, 1, "a new epoch");
    // A target may read the last bytes of the dead client later than the next appender's. They once lay over these.
    let late = write_extents(&file, vec![Extent { offset: 0, length: 4 }], None);
    assert_eq!(line.call(&late, b"dead").0, Reply::StaleEpoch { epoch: 1 });
    file.epoch = epoch;
    line.reply(&Request::AppendEnd { capability, turn, publication: None });
    append(&mut line, &mut file, b"next", true);
    assert_eq!(line.read(&file, 0, 4).expect("read"), b"next");
}

/// A client that had stopped with the turn once blocked every append of the file for ever. Its turn is taken, and what it
/// writes when it goes on reaches nobody's bytes: also not the bytes in the midst of a payload.
#[test]
fn a_turn_that_is_not_renewed_is_taken_and_its_late_bytes_go_nowhere() {
    const EBADF: Errno = Errno(9);
    for backend in BACKENDS {
        let cluster = server(backend, 1, "64MiB");
        let (mut late, mut payload, mut next) = (cluster.root(0), cluster.root(0), cluster.root(0));
        let mut file = next.open("file", READ_WRITE).expect("opened");
        let capability = file.capability;
        next.write(&mut file, 0, &[1; 100]).expect("written");
        let old = late.open("file", READ_WRITE).expect("opened");
        let begin = |file: &File| Request::AppendBegin { capability: file.capability };
        let Reply::Turn { turn: taken, offset: 100, epoch: 0 } = late.reply(&begin(&old)) else {
            panic!("the file is free")
        };
        assert_eq!(late.reply(&Request::AppendRenew { capability, turn: taken }), Reply::Done);
        let extents = vec![Extent { offset: 100, length: MIB as u32 }];
        let write = write_extents(&old, extents.clone(), None);
        payload.connection.send_bytes(&head(RequestId(900), IdentityId(0), &write, MIB));
        payload.connection.send_bytes(&[9; MIB / 2]);

        let Reply::Turn { turn, offset, epoch } = next.reply(&begin(&file)) else { panic!("no turn") };
        assert_eq!((offset, epoch), (100, 1), "the next one begins where the file ends, under a new epoch");
        file.epoch = epoch;
        assert_eq!(
            next.call(&write_extents(&file, extents, None), &[2; MIB]).0,
            Reply::Written { size: None }
        );
        let publication = Some(publication(&file, 100 + MIB as u64, MIB));
        next.reply(&Request::AppendEnd { capability, turn, publication });

        payload.connection.send_bytes(&[9; MIB / 2]);
        let stale = Reply::StaleEpoch { epoch: 1 };
        assert_eq!(payload.receive().1, stale, "{backend}: the rest of a payload");
        assert_eq!(late.call(&write, &[9; MIB]).0, stale, "{backend}: a whole one");
        let publication =
            Some(Publication { end: 100 + MIB as u64, written_bytes: MIB as u64, epoch: 0, reserved_end: 0 });
        let end = Request::AppendEnd { capability, turn: taken, publication };
        assert_eq!(late.reply(&end), Reply::Failed(EBADF));
        assert_eq!(late.reply(&Request::AppendRenew { capability, turn: taken }), Reply::Failed(EBADF));
        assert_eq!(next.attributes("file").expect("there").size_bytes, 100 + MIB as u64);
        assert_eq!(next.read(&file, 0, 100).expect("read"), [1; 100]);
        assert!(next.read(&file, 100, MIB).expect("read") == [2; MIB], "{backend}: other bytes");
        assert!(matches!(late.reply(&begin(&old)), Reply::Turn { .. }), "who was late begins anew");
    }
}

/// A program was told that its write failed, released its lock, and another wrote: the first write came out of a slow connection
/// then, and lay over the second.
#[test]
fn a_request_that_its_client_gave_up_does_not_take_effect_behind_later_ones() {
    const EIO: Errno = Errno(5);
    for backend in BACKENDS {
        let cluster = server(backend, 1, "64MiB");
        let (client, credential) = (random_client(), root());
        let connect = |slot: u16| {
            let connection = cluster.connection(0, Transport::Unix);
            Line::prove_with(connection, &credential, (client, slot), false).expect("welcome")
        };
        let (mut slow, mut line, mut reader) = (connect(0), connect(1), cluster.root(0));
        let mut file = line.open("file", READ_WRITE).expect("opened");
        line.write(&mut file, 0, b"first").expect("written");
        let numbered = |request: u64, acknowledged: u64, message: &Request, payload: &[u8]| {
            let mut body = vec![0; HEADER_BYTES];
            let header = Header {
                kind: Kind::Request,
                body_bytes: encode_body(message, &mut body) as u32,
                payload_bytes: payload.len() as u32,
                identity: IdentityId(0),
                request: RequestId(request),
                acknowledged: RequestId(acknowledged),
            };
            body[..HEADER_BYTES].copy_from_slice(&header.encode());
            [&body, payload].concat()
        };
        let write = |length: usize| {
            let extents = vec![Extent { offset: 0, length: length as u32 }];
            write_extents(&file, extents, Some(publication(&file, length as u64, length)))
        };
        let late = numbered(1 << 60, 0, &write(5), b"stale");
        let large = numbered((1 << 60) + 1, 0, &write(MIB), &[9; MIB]);
        line.connection.send_bytes(&numbered((1 << 60) + 3, (1 << 60) + 2, &Request::Ping, b""));
        assert_eq!(line.receive().1, Reply::Done);
        slow.connection.send_bytes(&late);
        assert_eq!(slow.receive().1, Reply::Failed(EIO), "{backend}");
        slow.connection.send_bytes(&large);
        assert_eq!(slow.receive().1, Reply::Failed(EIO), "{backend}: a payload that is received in parts");
        assert_eq!(reader.read(&file, 0, 5).expect("read"), b"first");
        assert_eq!(reader.attributes("file").expect("there").size_bytes, 5);
        // The connection goes on.
        slow.connection.send_bytes(&numbered((1 << 60) + 2, (1 << 60) + 2, &write(5), b"fresh"));
        assert!(matches!(slow.receive().1, Reply::Written { .. }));
        assert_eq!(reader.read(&file, 0, 5).expect("read"), b"fresh");
    }
}

#[test]
fn a_full_target_takes_all_of_a_write_or_nothing() {
    for backend in BACKENDS {
        let cluster = server(backend, 1, "1MiB");
        let mut line = cluster.root(0);
        let mut file = line.open("file", READ_WRITE).expect("opened");
        let full = Err(Reply::Failed(ENOSPC));
        assert_eq!(line.write(&mut file, 0, &[1; 2 * MIB]), full, "{backend}: too large at once");
        assert_eq!((line.attributes("file").expect("there").size_bytes, cluster.used_bytes(0)), (0, 0));
        let extents =
            vec![Extent { offset: 0, length: 4096 }, Extent { offset: 4096, length: 4 * MIB as u32 - 4096 }];
        let reply = line.call(&write_extents(&file, extents, None), &vec![1; 4 * MIB]).0;
        assert_eq!(reply, Reply::Failed(ENOSPC), "the second part does not fit");
        assert_eq!(cluster.used_bytes(0), 0, "{backend}: nothing of the first part stays");
        assert_eq!(line.reply(&reserve(&file, 0, 2 * MIB as u64, false)), Reply::Failed(ENOSPC));
        assert_eq!(cluster.used_bytes(0), 0);

        let mut written = 0;
        while line.write(&mut file, written, &[7; 50_000]).is_ok() {
            written += 50_000;
        }
        assert!(written >= 900_000, "{backend}: full after {written} bytes");
        assert_eq!(
            line.attributes("file").expect("there").size_bytes,
            written,
            "the failed write grew nothing"
        );
        let used = cluster.used_bytes(0);
        let append = line.call(&Request::Append { capability: file.capability }, &[7; 64 << 10]).0;
        assert!(matches!(append, Reply::Failed(ENOSPC) | Reply::AppendElsewhere), "{append:?}");
        line.write(&mut file, 100, &[8; 1000]).expect("overwriting needs no room");
        let bytes = line.read(&file, 0, written as usize).expect("read");
        assert!(bytes
            .iter()
            .enumerate()
            .all(|(at, &byte)| byte == if (100..1100).contains(&at) { 8 } else { 7 }));
        assert_eq!(cluster.used_bytes(0), used);

        line.truncate(&mut file, 0);
        wait_until("the room is back", || cluster.used_bytes(0) == 0);
        line.write(&mut file, 0, &[1; 900_000]).expect("written");
    }
}

#[test]
fn holes_cost_nothing_and_are_found() {
    for backend in BACKENDS {
        let cluster = server(backend, 1, "64MiB");
        let mut line = cluster.root(0);
        let mut file = line.open("file", READ_WRITE).expect("opened");
        let far = 1_u64 << 40;
        line.write(&mut file, far, b"end").expect("written");
        assert_eq!(file.size_bytes, far + 3);
        assert!(cluster.used_bytes(0) <= 8192, "{backend}: {} bytes for three", cluster.used_bytes(0));
        assert_eq!(line.read(&file, far - 5, 8).expect("read"), b"\0\0\0\0\0end");
        let (reply, bytes) = line.call(&read_extents(&file, vec![Extent { offset: far, length: 10 }]), &[]);
        assert_eq!(
            reply,
            Reply::Data { size: Some((far + 3, 0)) },
            "a reader at the end is told where it is"
        );
        assert_eq!(bytes, b"end\0\0\0\0\0\0\0");
        assert_eq!(line.read(&file, i64::MAX as u64 - 10, 10).expect("read"), [0; 10]);

        let (capability, target) = (file.capability, file.layout.targets()[0]);
        let mut seek = |offset, seek| match line.reply(&Request::ObjectSeek {
            capability,
            target,
            epoch: 9,
            offset,
            seek,
        }) {
            Reply::Position(position) => position,
            other => panic!("{other:?}"),
        };
        assert_eq!(seek(0, Seek::Data), Some(far));
        assert_eq!(seek(0, Seek::Hole), Some(0));
        assert!(seek(far, Seek::Hole).is_some_and(|hole| hole > far));
        assert_eq!(seek(far + 100_000, Seek::Data), None);

        assert_eq!(line.reply(&reserve(&file, 0, MIB as u64, false)), Reply::Done);
        assert!(cluster.used_bytes(0) >= MIB as u64);
        assert_eq!(line.read(&file, 0, MIB).expect("read"), vec![0; MIB]);
        line.write(&mut file, 0, &[3; MIB]).expect("written");
        let used = cluster.used_bytes(0);
        assert_eq!(line.reply(&reserve(&file, 4096, 500_000, true)), Reply::Done);
        assert!(cluster.used_bytes(0) <= used - 400_000, "{backend}: a punched range is free");
        let bytes = line.read(&file, 0, MIB).expect("read");
        assert!(bytes.iter().enumerate().all(|(at, &byte)| (byte == 0) == (4096..504_096).contains(&at)));
        assert_eq!(line.attributes("file").expect("there").size_bytes, far + 3, "the size stays");
    }
}

/// Vectored transfers with extents in any order, over each other, empty or unaligned, against plain bytes.
#[test]
fn vectored_transfers_are_as_one_after_the_other() {
    const REACH: u64 = 300_000;
    let mut choices = Choices::new();
    for backend in BACKENDS {
        let cluster = server(backend, 1, "64MiB");
        let mut lines = Transport::BOTH.map(|transport| cluster.line(0, transport, &root()));
        let mut file = lines[0].open("file", READ_WRITE).expect("opened");
        let mut model = vec![0_u8; REACH as usize];
        for round in 0..300 {
            let line = &mut lines[round % 2];
            let any_extents = |choices: &mut Choices| -> Vec<Extent> {
                let any_extent = |choices: &mut Choices| {
                    let offset = choices.below(REACH);
                    let longest = *choices.one_of(&[1, 100, 5_000, 60_000]);
                    Extent { offset, length: choices.below(longest.min(REACH - offset) + 1) as u32 }
                };
                (0..choices.below(6)).map(|_| any_extent(choices)).collect()
            };
            let extents = any_extents(&mut choices);
            let first = choices.below(REACH) as usize;
            let length = (choices.below(20_000) as usize).min(REACH as usize - first);
            let range = first..first + length;
            match choices.below(8) {
                0..=3 => {
                    let total = extents.iter().map(|extent| extent.length as usize).sum();
                    let bytes = choices.bytes(total);
                    let publication = Some(publication(&file, REACH, total));
                    let reply = line.call(&write_extents(&file, extents.clone(), publication), &bytes).0;
                    assert!(
                        matches!(reply, Reply::Written { size: Some(_) }),
                        "{backend} {round}: {reply:?}"
                    );
                    let mut rest = bytes.as_slice();
                    for extent in extents {
                        let (part, after) = rest.split_at(extent.length as usize);
                        model[extent.offset as usize..][..part.len()].copy_from_slice(part);
                        rest = after;
                    }
                }
                4 if length > 0 => {
                    let punch = reserve(&file, first as u64, length as u64, true);
                    assert_eq!(line.reply(&punch), Reply::Done, "{backend} {round}");
                    model[range].fill(0);
                }
                5 if length > 0 => {
                    let allocate = reserve(&file, first as u64, length as u64, false);
                    assert_eq!(line.reply(&allocate), Reply::Done, "{backend} {round}");
                }
                6 if choices.below(4) == 0 => {
                    line.truncate(&mut file, first as u64);
                    model[first..].fill(0);
                }
                _ => {}
            }
            let extents = any_extents(&mut choices);
            let (reply, bytes) = line.call(&read_extents(&file, extents.clone()), &[]);
            assert!(matches!(reply, Reply::Data { .. }), "{backend} {round}: {reply:?}");
            let wanted = |extent: &Extent| model[extent.offset as usize..][..extent.length as usize].to_vec();
            assert!(
                bytes == extents.iter().flat_map(wanted).collect::<Vec<u8>>(),
                "{backend} {round}: other bytes"
            );
        }
        assert!(lines[0].read(&file, 0, REACH as usize).expect("read") == model);
    }
}

#[test]
fn a_size_is_set_only_through_the_right_to_write() {
    let cluster = server("ram", 1, "64MiB");
    let mut line = cluster.root(0);
    let file = line.open("file", READ_WRITE).expect("opened");
    let read_only = weir_wire::Rights { read: true, write: false };
    let mut set_size = |size_bytes, capability| {
        let change = AttributeChange { size_bytes: Some(size_bytes), capability, ..Default::default() };
        line.reply(&Request::Change { at: At::inode(file.ino), follow: false, change })
    };
    let weak = file.with_rights(read_only);
    assert_eq!(set_size(5, Some(weak)), Reply::Failed(Errno(9)));
    assert_eq!(set_size(u64::MAX, Some(file.capability)), Reply::Failed(Errno(27)));
    assert!(matches!(set_size(i64::MAX as u64, Some(file.capability)), Reply::Attributes(_)));
}
