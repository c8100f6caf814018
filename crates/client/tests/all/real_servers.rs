//! The client against real servers, over both transports: bytes against a model, paths, locks and a killed server.

use crate::files::{cut, make_directory, open, read_all, store_on, CALLER};
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weir_client::wire::*;
use weir_client::{File, LockRequest, LockWait, Place, Store, TransportChoice};
use weir_testing::{servers, wait_until, Choices, Cluster, Stop};

/// One file, opened by clients of both transports, changed in turn and compared with plain bytes.
fn against_a_model(backend: &str, layout: &str, rounds: u64, reach: u64) {
    let cluster = Cluster::start(&servers(2, 2, backend, "256MiB"));
    let mut choices = Choices::new();
    let stores = [store_on(&cluster, TransportChoice::Unix), store_on(&cluster, TransportChoice::Tcp)];
    make_directory(&stores[0], "model", layout);
    let files: Vec<File> = (0..4).map(|index| open(&stores[index % 2], "model/file", false)).collect();
    let mut model: Vec<u8> = Vec::new();
    for round in 0..rounds {
        let file = &files[choices.below(4) as usize];
        let offset = choices.below(reach);
        let length = 1 + choices.below(reach / 3) as usize;
        match choices.below(10) {
            0..=2 => {
                let data = choices.data(length);
                let (front, back) = data.split_at(choices.below(length as u64) as usize);
                let buffers = [IoSlice::new(front), IoSlice::new(&[]), IoSlice::new(back)];
                assert_eq!(file.write_at(&CALLER, &buffers, offset).expect("written"), length);
                let end = offset as usize + length;
                model.resize(model.len().max(end), 0);
                model[offset as usize..end].copy_from_slice(&data);
            }
            3 => {
                let data = choices.data(length.min(10_000));
                let (at, written) = file.append(&CALLER, &[IoSlice::new(&data)]).expect("appended");
                assert_eq!((at as usize, written), (model.len(), data.len()), "round {round}");
                model.extend_from_slice(&data);
            }
            4 => {
                cut(file, offset);
                model.resize(offset as usize, 0);
            }
            5 => {
                file.punch(&CALLER, offset, length as u64).expect("punched");
                let end = model.len().min(offset as usize + length);
                if (offset as usize) < end {
                    model[offset as usize..end].fill(0);
                }
            }
            _ => {
                let mut front = vec![0xEE; choices.below(length as u64) as usize];
                let mut back = vec![0xEE; length - front.len()];
                let mut buffers = [IoSliceMut::new(&mut front), IoSliceMut::new(&mut back)];
                let read = file.read_at(&CALLER, &mut buffers, offset).expect("read");
                let start = model.len().min(offset as usize);
                let expected = &model[start..model.len().min(start + length)];
                let found = [front, back].concat();
                assert_eq!(read, expected.len(), "length in round {round}");
                assert!(found[..read] == *expected, "bytes in round {round} at {offset}+{length}");
            }
        }
        if round % 50 == 0 {
            assert_eq!(file.size(&CALLER).expect("asked"), model.len() as u64);
        }
    }
    for file in &files {
        assert!(read_all(file, model.len() + 1) == model);
        file.sync(&CALLER, false).expect("durable");
        file.close(&CALLER).expect("closed");
    }
}

#[test]
fn small_stripes_in_memory_hold_what_the_model_holds() {
    against_a_model("ram", "-S 4k -c -1", 1500, 60_000);
}

#[test]
fn large_stripes_in_memory_hold_what_the_model_holds() {
    against_a_model("ram", "-S 64k -c 3", 300, 1_500_000);
}

#[test]
fn progressive_layouts_against_a_model() {
    against_a_model("ram", "-E 16k -c 1 -S 4k -E 40k -c 2 -S 8k -E -1 -c -1 -S 4k", 1500, 90_000);
    against_a_model("dir", "-E 256k -c 1 -E 1M -c 3 -S 64k -E -1 -c -1 -S 1G", 300, 2_500_000);
}

#[test]
fn directories_hold_what_the_model_holds() {
    against_a_model("dir", "-S 4k -c -1", 500, 60_000);
}

#[test]
fn transfers_of_many_windows_come_back_whole() {
    let cluster = Cluster::start(&servers(2, 2, "ram", "256MiB"));
    let mut choices = Choices::new();
    for (transport, layout) in [(TransportChoice::Unix, "-S 1M -c -1"), (TransportChoice::Tcp, "-S 64k -c 1")]
    {
        let store = store_on(&cluster, transport);
        let name = format!("large-{transport:?}");
        make_directory(&store, &name, layout);
        let file = open(&store, &format!("{name}/file"), false);
        let data: Vec<u8> = choices.data(1 << 16).into_iter().cycle().take(21_000_001).collect();
        assert_eq!(file.write_at(&CALLER, &[IoSlice::new(&data)], 77).expect("written"), data.len());
        let back = read_all(&file, data.len() + 77);
        assert!(back[..77].iter().all(|byte| *byte == 0) && back[77..] == data);
    }
}

/// Threads of several clients write their own regions and append records at once; nothing is lost or torn.
#[test]
fn writers_and_appenders_at_once_lose_nothing() {
    const WRITERS: usize = 6;
    const RECORD: usize = 300;
    let cluster = Cluster::start(&servers(2, 2, "ram", "256MiB"));
    let mut choices = Choices::new();
    let stores: Vec<Store> = (0..3)
        .map(|index| {
            store_on(&cluster, if index == 1 { TransportChoice::Tcp } else { TransportChoice::Unix })
        })
        .collect();
    make_directory(&stores[0], "shared", "-S 4k -c -1");
    let region = 50_000usize;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let mut choices = choices.branch();
            let store = &stores[writer % stores.len()];
            scope.spawn(move || {
                let file = open(store, "shared/regions", false);
                let log = open(store, "shared/log", true);
                let mut model = vec![0; region];
                for round in 0..60u32 {
                    let at = choices.below(region as u64 - 1) as usize;
                    let length = 1 + choices.below((region - at) as u64) as usize;
                    let data = choices.data(length);
                    let offset = (writer * region + at) as u64;
                    assert_eq!(
                        file.write_at(&CALLER, &[IoSlice::new(&data)], offset).expect("written"),
                        length
                    );
                    model[at..at + length].copy_from_slice(&data);
                    let mut back = vec![0; length];
                    let read = file.read_at(&CALLER, &mut [IoSliceMut::new(&mut back)], offset);
                    assert_eq!(read.expect("read"), length);
                    assert!(back == data, "writer {writer} reads its own bytes");
                    let record: Vec<u8> = format!("{writer}:{round}:").into_bytes();
                    let record: Vec<u8> = record.into_iter().cycle().take(RECORD).collect();
                    let appended = log.append(&CALLER, &[IoSlice::new(&record)]).expect("appended");
                    assert_eq!((appended.0 % RECORD as u64, appended.1), (0, RECORD));
                }
                let mut back = vec![0; region];
                let offset = (writer * region) as u64;
                let read = file.read_at(&CALLER, &mut [IoSliceMut::new(&mut back)], offset).expect("read");
                assert!(back[..read] == model[..read] && model[read..].iter().all(|byte| *byte == 0));
            });
        }
    });
    let log = open(&stores[0], "shared/log", false);
    let bytes = read_all(&log, WRITERS * 60 * RECORD + 1);
    assert_eq!(bytes.len(), WRITERS * 60 * RECORD);
    let mut records: Vec<&[u8]> = bytes.chunks(RECORD).collect();
    records.sort_unstable();
    records.dedup();
    assert_eq!(records.len(), WRITERS * 60, "each record stands once");
    for record in records {
        let head = record.split_inclusive(|byte| *byte == b':').take(2).map(<[u8]>::len).sum::<usize>();
        assert!(record.iter().zip(record[..head].iter().cycle()).all(|(a, b)| a == b), "whole");
    }
}

/// Far more threads than a process has connections, each needing several at once.
#[test]
fn many_threads_share_few_connections() {
    let cluster = Cluster::start(&servers(2, 2, "ram", "256MiB"));
    let store = store_on(&cluster, TransportChoice::Unix);
    make_directory(&store, "busy", "-S 64k -c -1");
    let file = open(&store, "busy/file", false);
    std::thread::scope(|scope| {
        for thread in 0..64u64 {
            let file = &file;
            scope.spawn(move || {
                let data = vec![thread as u8; if thread % 2 == 0 { 700_000 } else { 30_000 }];
                for _ in 0..5 {
                    let at = thread * 1_000_000;
                    assert_eq!(
                        file.write_at(&CALLER, &[IoSlice::new(&data)], at).expect("written"),
                        data.len()
                    );
                    let mut back = vec![0; data.len()];
                    let read = file.read_at(&CALLER, &mut [IoSliceMut::new(&mut back)], at);
                    assert_eq!(read.expect("read"), data.len());
                    assert!(back == data);
                }
            });
        }
    });
}

/// A reader that follows a file growing over all targets never meets bytes that nobody wrote.
#[test]
fn a_growing_file_is_never_seen_with_holes() {
    for backend in ["ram", "dir"] {
        let cluster = Cluster::start(&servers(2, 2, backend, "256MiB"));
        let store = store_on(&cluster, TransportChoice::Unix);
        make_directory(&store, "tail", "-S 4k -c -1");
        let (writer, reader) = (open(&store, "tail/file", true), open(&store, "tail/file", false));
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let stopping = Stop::at_end(&is_done);
            scope.spawn(|| {
                let mut position = 0;
                let mut buffer = vec![0; 30_000];
                while !is_done.load(Ordering::SeqCst) || position < 600 * 777 {
                    let mut slices = [IoSliceMut::new(&mut buffer)];
                    let read = reader.read_at(&CALLER, &mut slices, position).expect("read");
                    assert!(buffer[..read].iter().all(|byte| *byte == 0xAB), "at {position} on {backend}");
                    position += read as u64;
                }
                assert_eq!(position, 600 * 777);
            });
            for _ in 0..600 {
                writer.append(&CALLER, &[IoSlice::new(&[0xAB; 777])]).expect("appended");
            }
            drop(stopping);
        });
    }
}

/// Writers race with one that shortens the file: every read must be bytes of a writer or zeros, and the end must come.
#[test]
fn truncation_under_load_ends_in_the_last_size() {
    let cluster = Cluster::start(&servers(2, 2, "ram", "256MiB"));
    let mut choices = Choices::new();
    let stores = [store_on(&cluster, TransportChoice::Unix), store_on(&cluster, TransportChoice::Tcp)];
    make_directory(&stores[0], "cut", "-S 4k -c -1");
    std::thread::scope(|scope| {
        for number in 0..3usize {
            let mut choices = choices.branch();
            let store = &stores[number % 2];
            scope.spawn(move || {
                let file = open(store, "cut/file", false);
                let mut back = vec![0; 40_000];
                for _ in 0..150 {
                    let data = vec![7; 1 + choices.below(30_000) as usize];
                    let offset = choices.below(50_000);
                    let written = file.write_at(&CALLER, &[IoSlice::new(&data)], offset).expect("written");
                    assert_eq!(written, data.len());
                    let read =
                        file.read_at(&CALLER, &mut [IoSliceMut::new(&mut back)], offset).expect("read");
                    assert!(back[..read].iter().all(|byte| matches!(byte, 0 | 7)));
                }
            });
        }
        let mut choices = choices.branch();
        let file = open(&stores[0], "cut/file", false);
        scope.spawn(move || {
            for _ in 0..150 {
                file.truncate(&CALLER, choices.below(60_000)).expect("cut");
            }
        });
    });
    let file = open(&stores[1], "cut/file", false);
    file.truncate(&CALLER, 12_345).expect("cut");
    file.truncate(&CALLER, 20_000).expect("grown");
    let bytes = read_all(&open(&stores[0], "cut/file", false), 30_000);
    assert_eq!(bytes.len(), 20_000);
    assert!(bytes[12_345..].iter().all(|byte| *byte == 0), "what was cut is gone");
}

/// Objects that never held a byte know of a cut as well. Else a reader with an old size would read zeros behind the end.
#[test]
fn a_cut_of_a_file_of_holes_is_seen_by_those_who_know_its_old_size() {
    for backend in ["ram", "dir"] {
        let cluster = Cluster::start(&servers(2, 2, backend, "64MiB"));
        let store = store_on(&cluster, TransportChoice::Unix);
        make_directory(&store, "sparse", "-S 4k -c -1");
        let (one, two) = (open(&store, "sparse/file", false), open(&store, "sparse/file", false));
        one.truncate(&CALLER, 100_000).expect("grown");
        let read = |file: &File| {
            let mut back = vec![0xEE; 60_000];
            file.read_at(&CALLER, &mut [IoSliceMut::new(&mut back)], 20_000).expect("read")
        };
        assert_eq!(read(&two), 60_000);
        one.truncate(&CALLER, 30_000).expect("cut");
        assert_eq!(read(&two), 10_000, "on {backend}");
        two.write_at(&CALLER, &[IoSlice::new(b"x")], 99_999).expect("written");
        one.truncate(&CALLER, 0).expect("cut");
        assert_eq!(read(&two), 0, "on {backend}");
    }
}

#[test]
fn names_links_and_listings_work_over_two_homes() {
    let cluster = Cluster::start(&servers(2, 2, "ram", "64MiB"));
    let store = store_on(&cluster, TransportChoice::Automatic);
    let at = |path: &'static str| Place::root(path.as_bytes());
    let mut homes = std::collections::BTreeSet::new();
    for index in 0..16 {
        let path = format!("tree{index}");
        let made =
            store.make(&CALLER, Place::root(path.as_bytes()), NodeKind::Directory, 0o755).expect("made");
        homes.insert(made.ino.home());
    }
    assert_eq!(homes.len(), 2, "directories of the root are spread");
    let home_of =
        |path: &str| store.attributes(&CALLER, Place::root(path.as_bytes()), true).expect("there").ino.home();
    let far = (1..16).map(|index| format!("tree{index}")).find(|path| home_of(path) != home_of("tree0"));
    let far = far.expect("two homes");
    open(&store, "tree0/a", false).write_at(&CALLER, &[IoSlice::new(b"text")], 0).expect("written");
    store.rename(&CALLER, at("tree0/a"), at("tree0/b"), RenameMode::Replace).expect("moved");
    let there = format!("{far}/b");
    let crossed = store.rename(&CALLER, at("tree0/b"), Place::root(there.as_bytes()), RenameMode::Replace);
    assert_eq!(crossed.expect_err("another home").errno(), libc::EXDEV);
    store.link(&CALLER, at("tree0/b"), false, at("tree0/c")).expect("linked");
    assert_eq!(store.attributes(&CALLER, at("tree0/c"), true).expect("there").links, 2);
    store.symlink(&CALLER, at("short"), b"tree0/c").expect("made");
    assert_eq!(store.read_link(&CALLER, at("short")).expect("a link"), b"tree0/c");
    assert_eq!(store.attributes(&CALLER, at("short"), true).expect("followed").size_bytes, 4);
    store.rename(&CALLER, at("tree0"), at("renamed"), RenameMode::Replace).expect("moved");
    assert_eq!(
        store.attributes(&CALLER, at("tree0/c"), true).expect_err("gone").errno(),
        libc::ENOENT,
        "a remembered root entry is checked"
    );
    assert_eq!(store.attributes(&CALLER, at("renamed/c"), true).expect("there").size_bytes, 4);
    let names = 3_000;
    for index in 0..names {
        let path = format!("renamed/entry-{index:05}");
        store.make(&CALLER, Place::root(path.as_bytes()), NodeKind::Regular, 0o644).expect("made");
    }
    let flags = OpenFlags { read: true, directory: true, ..OpenFlags::default() };
    let folder = store.open(&CALLER, at("renamed"), flags, 0).expect("opened");
    let (mut cookie, mut found) = (0, std::collections::BTreeSet::new());
    loop {
        let listing = store
            .list(&CALLER, folder.attributes.ino, folder.handle, cookie, 16 * 1024, true)
            .expect("listed");
        for entry in &listing.entries {
            assert!(found.insert(entry.name.clone()), "each name once");
            cookie = entry.cookie;
        }
        if listing.end {
            break;
        }
    }
    assert_eq!(found.iter().filter(|name| name.starts_with(b"entry-")).count(), names);
    assert!(store.statistics(&CALLER).expect("asked").room.capacity_bytes >= 4 * (64 << 20));
}

#[test]
fn locks_hold_between_clients_and_waits_can_be_cancelled() {
    let cluster = Cluster::start(&servers(1, 2, "ram", "64MiB"));
    let stores = [store_on(&cluster, TransportChoice::Unix), store_on(&cluster, TransportChoice::Tcp)];
    let files = [open(&stores[0], "locked", false), open(&stores[1], "locked", false)];
    let request = |lock| LockRequest {
        owner: LockOwner(1),
        pid: 42,
        kind: LockKind::Posix,
        lock,
        range: LockRange { first: 10, last: 19 },
    };
    files[0].try_lock(&CALLER, &request(LockType::Write)).expect("granted");
    let refused = files[1].try_lock(&CALLER, &request(LockType::Read)).expect_err("held");
    assert_eq!(refused.errno(), libc::EAGAIN);
    let conflict = files[1].test_lock(&CALLER, &request(LockType::Read)).expect("asked").expect("held");
    assert_eq!(conflict, (LockType::Write, LockRange { first: 10, last: 19 }, 42));
    let (cancelled, granted) = (LockWait::default(), LockWait::default());
    std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| files[1].lock(&CALLER, &request(LockType::Write), &cancelled, &|| false));
        std::thread::sleep(Duration::from_millis(50));
        files[1].cancel_lock(&CALLER, &cancelled).expect("cancelled");
        assert_eq!(waiting.join().expect("no panic").expect_err("ended").errno(), libc::EINTR);
        let waiting = scope.spawn(|| files[1].lock(&CALLER, &request(LockType::Write), &granted, &|| false));
        std::thread::sleep(Duration::from_millis(50));
        files[0].try_lock(&CALLER, &request(LockType::Unlock)).expect("released");
        waiting.join().expect("no panic").expect("granted in its turn");
    });
    files[1].release_locks(&CALLER, LockOwner(1)).expect("released");
    files[0].try_lock(&CALLER, &request(LockType::Write)).expect("free again");
}

/// Bytes that were acknowledged before a server was killed are there after the server came back, under the same open files.
#[test]
fn work_goes_on_after_a_killed_server_came_back() {
    let mut cluster = Cluster::start(&servers(2, 2, "dir", "256MiB"));
    let store = store_on(&cluster, TransportChoice::Unix);
    make_directory(&store, "kept", "-S 4k -c -1");
    let file = open(&store, "kept/file", false);
    let acknowledged = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let go_on = || {
        let goal = acknowledged.load(Ordering::SeqCst) + 50_000;
        wait_until("50 more writes are done", || acknowledged.load(Ordering::SeqCst) >= goal);
    };
    std::thread::scope(|scope| {
        let stopping = Stop::at_end(&is_over);
        scope.spawn(|| {
            let record = [0xCD; 1000];
            while !is_over.load(Ordering::SeqCst) {
                let at = acknowledged.load(Ordering::SeqCst);
                let written = file.write_at(&CALLER, &[IoSlice::new(&record)], at).expect("within the bound");
                assert_eq!(written, record.len());
                acknowledged.store(at + 1000, Ordering::SeqCst);
            }
        });
        for victim in [1, 0] {
            go_on();
            cluster.kill_server(victim);
            std::thread::sleep(Duration::from_millis(100));
            cluster.start_server(victim);
        }
        go_on();
        drop(stopping);
    });
    let length = acknowledged.load(Ordering::SeqCst) as usize;
    let bytes = read_all(&file, length);
    assert_eq!(bytes.len(), length);
    assert!(bytes.iter().all(|byte| *byte == 0xCD));
    assert!(store.counters().snapshot().resends > 0);
}

#[test]
fn a_full_store_says_so_and_reports_only_what_it_holds() {
    let cluster = Cluster::start(&servers(1, 2, "ram", "1MiB"));
    let store = store_on(&cluster, TransportChoice::Unix);
    make_directory(&store, "full", "-S 64k -c -1");
    let file = open(&store, "full/file", false);
    let data = vec![9; 400_000];
    let mut position = 0;
    let error = loop {
        match file.write_at(&CALLER, &[IoSlice::new(&data)], position) {
            Ok(written) => position += written as u64,
            Err(error) => break error,
        }
        assert!(position <= 2 << 20);
    };
    assert_eq!(error.errno(), libc::ENOSPC);
    assert_eq!(file.size(&CALLER).expect("asked"), position);
    assert!(read_all(&file, position as usize).iter().all(|byte| *byte == 9));
}

/// A refused allocation once left the room that targets had given before, for ever, when its file went.
#[test]
fn space_that_a_failed_allocation_took_goes_with_its_file() {
    let cluster = Cluster::start(&servers(1, 2, "ram", "8MiB"));
    let store = store_on(&cluster, TransportChoice::Unix);
    make_directory(&store, "full", "-S 64k -c 1");
    make_directory(&store, "wide", "-S 64k -c -1");
    let filler = open(&store, "full/file", false);
    filler.write_at(&CALLER, &[IoSlice::new(&[1; 6 << 20])], 0).expect("written");
    let free = || store.statistics(&CALLER).expect("asked").room.free_bytes;
    let free_before = free();
    let file = open(&store, "wide/file", false);
    let error = file.reserve(&CALLER, 0, 12 << 20, false).expect_err("all targets together have less room");
    assert_eq!(error.errno(), libc::ENOSPC);
    file.close(&CALLER).expect("closed");
    store.unlink(&CALLER, Place::root(b"wide/file"), false).expect("removed");
    wait_until("the bytes of the removed file are free", || free() >= free_before);
}
