//! Objects move between targets of real servers under those who read, write, append to and cut their files; movers and
//! servers die in every phase. At every moment a file holds the bytes that were written to it.

use crate::files::{cut, make_directory, open, read_all, store_on, CALLER};
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_client::wire::*;
use weir_client::{File, Moving, Place, Store, TransportChoice};
use weir_placement::{ServerId, TargetId};
use weir_testing::{servers, wait_until, Choices, Cluster, Stop, PATIENCE};

/// The bytes that a fresh client finds, which remembers no layout, size or epoch.
pub(crate) fn read_afresh(cluster: &Cluster, path: &str, length: usize) -> Vec<u8> {
    let store = store_on(cluster, TransportChoice::Unix);
    let file = open(&store, path, false);
    let bytes = read_all(&file, length);
    file.close(&CALLER).expect("closed");
    bytes
}

pub(crate) fn target(server: u16, index: u16) -> TargetId {
    TargetId { server: ServerId(server), index }
}

/// The file's layout now, which its home is asked for.
pub(crate) fn targets_of(store: &Store, path: &str) -> Vec<TargetId> {
    let flags = OpenFlags { read: true, ..OpenFlags::default() };
    let opened = store.open(&CALLER, Place::root(path.as_bytes()), flags, 0).expect("opened");
    store.close(&CALLER, opened.attributes.ino, opened.handle).expect("closed");
    opened.layout.expect("a regular file").targets().to_vec()
}

/// An object of the file, and a target without one among two servers with two targets each.
fn any_move(store: &Store, path: &str, choices: &mut Choices) -> ObjectMove {
    let used = targets_of(store, path);
    let all = [target(0, 0), target(0, 1), target(1, 0), target(1, 1)];
    let free: Vec<TargetId> = all.into_iter().filter(|target| !used.contains(target)).collect();
    let from = used[choices.below(used.len() as u64) as usize];
    ObjectMove { from, to: free[choices.below(free.len() as u64) as usize] }
}

/// Moves objects of the file here and there until `is_over`. Answers the number of moves.
fn keep_moving(store: &Store, path: &str, choices: &mut Choices, is_over: &AtomicBool) -> u64 {
    let mut done = 0;
    while !is_over.load(Ordering::SeqCst) {
        let one = any_move(store, path, choices);
        match store.move_objects(&CALLER, Place::root(path.as_bytes()), &[one], &mut |_| true) {
            Ok(_) => done += 1,
            // The file was cut at every attempt.
            Err(error) if error.errno() == libc::ESTALE => {}
            Err(error) => panic!("{one:?}: {error}"),
        }
        // No mover goes back to the same file at once, and writers shall win as well.
        std::thread::sleep(Duration::from_millis(3));
    }
    done
}

/// One file that two clients change in turn, compared with plain bytes at every step, while its objects move.
fn model_under_moves(backend: &str, layout: &str, rounds: u64, reach: u64) {
    let cluster = Cluster::start(&servers(2, 2, backend, "256MiB"));
    let mut choices = Choices::new();
    let stores = [store_on(&cluster, TransportChoice::Unix), store_on(&cluster, TransportChoice::Tcp)];
    make_directory(&stores[0], "model", layout);
    let files: Vec<File> = (0..4).map(|index| open(&stores[index % 2], "model/file", false)).collect();
    let mover = store_on(&cluster, TransportChoice::Unix);
    let is_over = AtomicBool::new(false);
    let mut model: Vec<u8> = Vec::new();
    let moves = std::thread::scope(|scope| {
        let mut moving = choices.branch();
        let (mover, is_over) = (&mover, &is_over);
        let moves = scope.spawn(move || keep_moving(mover, "model/file", &mut moving, is_over));
        let over = Stop::at_end(is_over);
        for round in 0..rounds {
            let file = &files[choices.below(4) as usize];
            change_and_compare(file, &mut model, &mut choices, reach, round);
        }
        drop(over);
        moves.join().expect("no panic")
    });
    println!("{moves} moves in {rounds} rounds on {backend}");
    assert!(moves > 0, "nothing moved");
    for file in &files {
        assert!(read_all(file, model.len() + 1) == model);
        file.sync(&CALLER, false).expect("durable");
        file.close(&CALLER).expect("closed");
    }
    assert!(read_afresh(&cluster, "model/file", model.len() + 1) == model);
    mover.unlink(&CALLER, Place::root(b"model/file"), false).expect("removed");
    let used = || {
        let statistics = mover.statistics(&CALLER).expect("asked");
        statistics.room.capacity_bytes - statistics.room.free_bytes
    };
    wait_until("no byte stays of a file that is gone", || used() == 0 || backend != "ram");
}

pub(crate) fn change_and_compare(
    file: &File,
    model: &mut Vec<u8>,
    choices: &mut Choices,
    reach: u64,
    round: u64,
) {
    let offset = choices.below(reach);
    let length = 1 + choices.below(reach / 3) as usize;
    match choices.below(20) {
        0..=6 => {
            let data = choices.data(length);
            assert_eq!(file.write_at(&CALLER, &[IoSlice::new(&data)], offset).expect("written"), length);
            let end = offset as usize + length;
            model.resize(model.len().max(end), 0);
            model[offset as usize..end].copy_from_slice(&data);
        }
        7..=8 => {
            let data = choices.data(length.min(10_000));
            let (at, written) = file.append(&CALLER, &[IoSlice::new(&data)]).expect("appended");
            assert_eq!((at as usize, written), (model.len(), data.len()), "round {round}");
            model.extend_from_slice(&data);
        }
        9 => {
            cut(file, offset);
            model.resize(offset as usize, 0);
        }
        10 => {
            file.punch(&CALLER, offset, length as u64).expect("punched");
            let end = model.len().min(offset as usize + length);
            if (offset as usize) < end {
                model[offset as usize..end].fill(0);
            }
        }
        11 if (offset as usize) < model.len() => {
            let data = file.seek(&CALLER, offset, Seek::Data).map_or(model.len(), |found| found as usize);
            let skipped = &model[offset as usize..data.min(model.len())];
            assert!(skipped.iter().all(|byte| *byte == 0), "round {round}: data is taken for a hole");
        }
        _ => {
            let mut found = vec![0xEE; length];
            let read = file.read_at(&CALLER, &mut [IoSliceMut::new(&mut found)], offset).expect("read");
            let start = model.len().min(offset as usize);
            let expected = &model[start..model.len().min(start + length)];
            assert_eq!(read, expected.len(), "length in round {round}");
            let wrong = found.iter().zip(expected).position(|(found, expected)| found != expected);
            assert_eq!(wrong, None, "bytes in round {round} at {offset}+{length} of {}", model.len());
        }
    }
    if round.is_multiple_of(50) {
        assert_eq!(file.size(&CALLER).expect("asked"), model.len() as u64);
    }
}

#[test]
fn in_memory_a_file_under_moves_holds_what_the_model_holds() {
    model_under_moves("ram", "-S 4k -c 2", 3000, 60_000);
}

#[test]
fn in_directories_a_file_under_moves_holds_what_the_model_holds() {
    model_under_moves("dir", "-S 16k -c 3", 600, 200_000);
}

#[test]
fn a_progressive_file_under_moves_holds_what_the_model_holds() {
    model_under_moves("ram", "-E 16k -c 1 -S 4k -E -1 -c 2 -S 8k", 1500, 90_000);
}

/// Clients of their own write regions of one file and append to another, while the objects of both move.
#[test]
fn writers_and_appenders_lose_nothing_to_moves() {
    const WRITERS: usize = 4;
    const ROUNDS: u32 = 150;
    const RECORD: usize = 300;
    const REGION: usize = 100_000;
    let cluster = Cluster::start(&servers(2, 2, "ram", "256MiB"));
    let mut choices = Choices::new();
    let stores: Vec<Store> = (0..WRITERS).map(|_| store_on(&cluster, TransportChoice::Unix)).collect();
    make_directory(&stores[0], "shared", "-S 4k -c 2");
    let (regions, log) = (open(&stores[0], "shared/regions", false), open(&stores[0], "shared/log", false));
    let is_over = AtomicBool::new(false);
    let mover = store_on(&cluster, TransportChoice::Unix);
    std::thread::scope(|scope| {
        let movers: Vec<_> = ["shared/regions", "shared/log"]
            .map(|path| {
                let (mover, is_over, mut choices) = (&mover, &is_over, choices.branch());
                scope.spawn(move || keep_moving(mover, path, &mut choices, is_over))
            })
            .into();
        let writers: Vec<_> = stores
            .iter()
            .enumerate()
            .map(|(writer, store)| {
                let mut choices = choices.branch();
                scope.spawn(move || write_and_append(store, writer, ROUNDS, RECORD, REGION, &mut choices))
            })
            .collect();
        let over = Stop::at_end(&is_over);
        for writer in writers {
            writer.join().expect("no panic");
        }
        drop(over);
        for mover in movers {
            assert!(mover.join().expect("no panic") > 0, "nothing moved");
        }
    });
    let bytes = read_all(&log, WRITERS * ROUNDS as usize * RECORD + 1);
    assert_eq!(bytes.len(), WRITERS * ROUNDS as usize * RECORD);
    let mut records: Vec<&[u8]> = bytes.chunks(RECORD).collect();
    records.sort_unstable();
    records.dedup();
    assert_eq!(records.len(), WRITERS * ROUNDS as usize, "each record stands once");
    for record in records {
        let head = record.split_inclusive(|byte| *byte == b':').take(2).map(<[u8]>::len).sum::<usize>();
        assert!(record.iter().zip(record[..head].iter().cycle()).all(|(a, b)| a == b), "whole");
    }
    drop(regions);
}

fn write_and_append(
    store: &Store,
    writer: usize,
    rounds: u32,
    record_bytes: usize,
    region: usize,
    choices: &mut Choices,
) {
    let file = open(store, "shared/regions", false);
    let log = open(store, "shared/log", true);
    let mut model = vec![0; region];
    for round in 0..rounds {
        let at = choices.below(region as u64 - 1) as usize;
        let length = 1 + choices.below((region - at) as u64) as usize;
        let data = choices.data(length);
        let offset = (writer * region + at) as u64;
        assert_eq!(file.write_at(&CALLER, &[IoSlice::new(&data)], offset).expect("written"), length);
        model[at..at + length].copy_from_slice(&data);
        let mut back = vec![0; region];
        let read = file.read_at(&CALLER, &mut [IoSliceMut::new(&mut back)], (writer * region) as u64);
        let read = read.expect("read");
        assert!(back[..read] == model[..read], "writer {writer} in round {round}");
        assert!(model[read..].iter().all(|byte| *byte == 0));
        let record: Vec<u8> = format!("{writer}:{round}:").into_bytes();
        let record: Vec<u8> = record.into_iter().cycle().take(record_bytes).collect();
        let appended = log.append(&CALLER, &[IoSlice::new(&record)]).expect("appended");
        assert_eq!((appended.0 % record_bytes as u64, appended.1), (0, record_bytes));
    }
}

/// The phase of a move at which a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Begun,
    Copied,
    CaughtUp,
    Frozen,
    Complete,
}

const PHASES: [Phase; 5] = [Phase::Begun, Phase::Copied, Phase::CaughtUp, Phase::Frozen, Phase::Complete];

/// Brings a move up to `phase`.
fn advance(moving: &mut Moving, phase: Phase) {
    let all = &mut |_| true;
    if phase >= Phase::Copied {
        moving.copy(all).expect("copied");
    }
    if phase >= Phase::CaughtUp {
        moving.catch_up(all).expect("caught up");
    }
    if phase >= Phase::Frozen {
        moving.freeze().expect("frozen");
    }
    if phase >= Phase::Complete {
        moving.catch_up(all).expect("caught up");
    }
}

/// Carries out the rest of a move at `phase`, but for its commit.
fn end(moving: &mut Moving, phase: Phase) -> weir_client::Result<()> {
    let all = &mut |_| true;
    if phase < Phase::Frozen {
        moving.catch_up(all)?;
        moving.freeze()?;
    }
    if phase < Phase::Complete {
        moving.catch_up(all)?;
    }
    Ok(())
}

/// A directory whose files have server 0 as their home and one object, on server 1.
fn directory_of_far_objects(store: &Store) -> String {
    let at_home = (0..64).map(|number| format!("far{number}")).find(|name| {
        make_directory(store, name, "-S 64k -o 1.0");
        let place = Place::root(name.as_bytes());
        store.attributes(&CALLER, place, true).expect("there").ino.home() == ServerId(0)
    });
    at_home.expect("one of them is here")
}

const FAR_MOVE: ObjectMove = ObjectMove {
    from: TargetId { server: ServerId(1), index: 0 },
    to: TargetId { server: ServerId(2), index: 0 },
};

/// Writes all numbered records over and over until told to stop. The records that were acknowledged last must be there.
struct Writer {
    file: File,
    model: Vec<u8>,
}

impl Writer {
    fn new(store: &Store, path: &str, bytes: usize, choices: &mut Choices) -> Writer {
        let (file, model) = (open(store, path, false), choices.data(bytes));
        assert_eq!(file.write_at(&CALLER, &[IoSlice::new(&model)], 0).expect("written"), bytes);
        Writer { file, model }
    }

    /// Makes one write somewhere, and repeats it until it is done.
    fn write(&mut self, choices: &mut Choices) {
        let at = choices.below(self.model.len() as u64 - 1) as usize;
        let length = (1 + choices.below(20_000) as usize).min(self.model.len() - at);
        let data = choices.data(length);
        let began = Instant::now();
        while !matches!(self.file.write_at(&CALLER, &[IoSlice::new(&data)], at as u64), Ok(done) if done == length)
        {
            assert!(began.elapsed() < PATIENCE, "a write does not get through");
        }
        self.model[at..at + length].copy_from_slice(&data);
    }
}

/// Tries the move until it is done. The dead process must not stand in its way for long.
fn move_at_last(store: &Store, path: &str, one: ObjectMove) {
    let began = Instant::now();
    while let Err(error) = store.move_objects(&CALLER, Place::root(path.as_bytes()), &[one], &mut |_| true) {
        assert!(began.elapsed() < PATIENCE, "{path} cannot be moved: {error}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_mover_that_dies_in_any_phase_leaves_the_file_whole() {
    let cluster = Cluster::start(&servers(3, 2, "dir", "256MiB"));
    let mut choices = Choices::new();
    let store = store_on(&cluster, TransportChoice::Unix);
    let directory = directory_of_far_objects(&store);
    std::thread::scope(|scope| {
        for phase in PHASES {
            let path = format!("{directory}/{phase:?}");
            let (cluster, store, mut choices) = (&cluster, &store, choices.branch());
            scope.spawn(move || {
                let mut writer = Writer::new(store, &path, 3_000_000, &mut choices);
                let mover = store_on(cluster, TransportChoice::Unix);
                let mut moving = begun(&mover, &path);
                advance(&mut moving, phase);
                drop((moving, mover));
                for _ in 0..20 {
                    writer.write(&mut choices);
                }
                assert_eq!(targets_of(store, &path), [FAR_MOVE.from], "{phase:?}");
                assert!(read_all(&writer.file, 3_000_001) == writer.model, "{phase:?}");
                move_at_last(store, &path, FAR_MOVE);
                writer.write(&mut choices);
                assert_eq!(targets_of(store, &path), [FAR_MOVE.to], "{phase:?}");
                assert!(read_afresh(cluster, &path, 3_000_001) == writer.model, "{phase:?}");
            });
        }
    });
}

#[test]
fn a_mover_that_heard_nothing_of_its_move_moves_the_file_anew() {
    let cluster = Cluster::start(&servers(3, 2, "dir", "256MiB"));
    let mut choices = Choices::new();
    let store = store_on(&cluster, TransportChoice::Unix);
    let path = format!("{}/file", directory_of_far_objects(&store));
    let mut writer = Writer::new(&store, &path, 300_000, &mut choices);
    let [mover, other] = [(); 2].map(|()| store_on(&cluster, TransportChoice::Unix));
    let place = || Place::root(path.as_bytes());
    for phase in [Phase::Begun, Phase::Copied, Phase::CaughtUp] {
        let mut unheard = begun(&mover, &path);
        advance(&mut unheard, phase);
        let refused = other.begin_move(&CALLER, place(), &[FAR_MOVE]).expect_err("two movers");
        assert_eq!(refused.errno(), libc::EBUSY, "{phase:?}");
        let anew = begun(&mover, &path);
        let stale = unheard.commit().expect_err("a move that was given up");
        assert_eq!(stale.errno(), libc::ESTALE, "{phase:?}");
        writer.write(&mut choices);
        anew.abandon();
    }
    move_at_last(&mover, &path, FAR_MOVE);
    assert_eq!(targets_of(&store, &path), [FAR_MOVE.to]);
    assert!(read_afresh(&cluster, &path, 300_001) == writer.model);
}

/// Begins the move, also where a server that has just been started again takes longer to answer than a call waits.
fn begun(mover: &Store, path: &str) -> Moving {
    let mut begun = None;
    wait_until("the move begins", || {
        match mover.begin_move(&CALLER, Place::root(path.as_bytes()), &[FAR_MOVE]) {
            Ok(moving) => begun = Some(moving),
            Err(error) if error.errno() == libc::EIO => {}
            Err(error) => panic!("{path}: {error}"),
        }
        begun.is_some()
    });
    begun.expect("the move has begun")
}

#[test]
fn a_server_that_dies_in_any_phase_leaves_the_file_whole() {
    let mut cluster = Cluster::start(&servers(3, 2, "dir", "256MiB"));
    let mut choices = Choices::new();
    let store = store_on(&cluster, TransportChoice::Unix);
    let directory = directory_of_far_objects(&store);
    for phase in PHASES {
        for (victim, part) in ["home", "source", "destination"].into_iter().enumerate() {
            let path = format!("{directory}/{phase:?}-{part}");
            let mut writer = Writer::new(&store, &path, 2_000_000, &mut choices);
            let mover = store_on(&cluster, TransportChoice::Unix);
            let mut moving = begun(&mover, &path);
            advance(&mut moving, phase);
            if phase < Phase::Frozen {
                writer.write(&mut choices);
            }
            cluster.kill_server(victim);
            cluster.start_server(victim);
            // The mover's further attempts fail, or the move is whole.
            let committed = match end(&mut moving, phase) {
                Ok(()) => moving.commit(),
                Err(error) => {
                    moving.abandon();
                    Err(error)
                }
            };
            println!("{phase:?} {part}: {committed:?}");
            writer.write(&mut choices);
            let expected = if committed.is_ok() { FAR_MOVE.to } else { FAR_MOVE.from };
            assert_eq!(targets_of(&store, &path), [expected], "{phase:?} {part}");
            assert!(read_all(&writer.file, 2_000_001) == writer.model, "{phase:?} {part}");
            if committed.is_err() {
                move_at_last(&store, &path, FAR_MOVE);
            }
            writer.write(&mut choices);
            assert!(read_afresh(&cluster, &path, 2_000_001) == writer.model, "{phase:?} {part}");
        }
    }
}

/// Servers are killed at random moments of moves, also in the midst of a commit.
#[test]
fn servers_that_die_at_any_moment_lose_no_byte() {
    const SERVERS: usize = 2;
    let mut cluster = Cluster::start(&servers(SERVERS, 2, "dir", "256MiB"));
    let mut choices = Choices::new();
    let store = store_on(&cluster, TransportChoice::Unix);
    make_directory(&store, "kept", "-S 64k -c 2");
    let mover = store_on(&cluster, TransportChoice::Unix);
    let mut writer = Writer::new(&store, "kept/file", 400_000, &mut choices);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (mover, is_over) = (&mover, &is_over);
        let mut moving = choices.branch();
        let moves = scope.spawn(move || {
            let mut done = 0;
            while !is_over.load(Ordering::SeqCst) {
                let one = any_move(mover, "kept/file", &mut moving);
                let moved = mover.move_objects(&CALLER, Place::root(b"kept/file"), &[one], &mut |_| true);
                done += u64::from(moved.is_ok());
            }
            done
        });
        let mut writing = choices.branch();
        let writer = &mut writer;
        let writes = scope.spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                writer.write(&mut writing);
                let read = read_all(&writer.file, 400_001);
                assert!(read == writer.model, "while moves go on");
            }
        });
        let over = Stop::at_end(is_over);
        for _ in 0..12 {
            std::thread::sleep(Duration::from_millis(50 + choices.below(250)));
            let victim = choices.below(SERVERS as u64) as usize;
            cluster.kill_server(victim);
            cluster.start_server(victim);
        }
        std::thread::sleep(Duration::from_secs(1));
        drop(over);
        writes.join().expect("no panic");
        let moves = moves.join().expect("no panic");
        println!("{moves} moves beside 12 deaths");
        assert!(moves > 0, "nothing moved");
    });
    assert!(read_afresh(&cluster, "kept/file", 400_001) == writer.model);
}
