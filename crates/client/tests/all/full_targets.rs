//! Targets that fill up. A write that a target refuses goes to other targets, within the layout's rules, until the store is
//! full.

use crate::files::{cut, make_directory, open, read_all, store_on, CALLER};
use rustix::process::{kill_process, Pid, Signal};
use std::collections::HashMap;
use std::io::IoSlice;
use weir_client::wire::*;
use weir_client::{File, Place, Store, TransportChoice};
use weir_testing::{servers, wait_until, Choices, Cluster, Line, READ_WRITE};

const SMALL_BYTES: usize = 256 << 10;
const STRIPE_BYTES: usize = 1 << 20;
const SERVERS: usize = 3;
/// The capacity of each server's one target.
const CAPACITY: &str = "100MiB";
/// The delay of news about full targets: far longer than the filling of a target takes.
const LAMBDA_MILLISECONDS: u32 = 5_000;
const STORE_BYTES: u64 = SERVERS as u64 * (100 << 20);

fn start(backend: &str) -> Cluster {
    start_servers(SERVERS, 1, backend, CAPACITY)
}

fn start_servers(count: usize, targets: usize, backend: &str, capacity: &str) -> Cluster {
    let servers = servers(count, targets, backend, capacity);
    Cluster::start(&format!("lambda_milliseconds = {LAMBDA_MILLISECONDS}\n{servers}"))
}

/// The bytes of file `number`.
fn content(number: u64, length: usize) -> Vec<u8> {
    let word = |index: u64| (number << 32 | index).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    (0..length.div_ceil(8) as u64).flat_map(word).take(length).collect()
}

fn used_bytes(store: &Store) -> u64 {
    let statistics = store.statistics(&CALLER).expect("asked");
    statistics.room.capacity_bytes - statistics.room.free_bytes
}

/// Makes a file; nothing where the store is full.
fn make_file(store: &Store, path: &str) -> Option<File> {
    let flags = OpenFlags { read: true, write: true, create: true, exclusive: true, ..OpenFlags::default() };
    match store.open(&CALLER, Place::root(path.as_bytes()), flags, 0o644) {
        Ok(opened) => Some(File::new(store, opened, false).expect("a regular file")),
        Err(error) => {
            assert_eq!(error.errno(), libc::ENOSPC, "{path}: {error}");
            None
        }
    }
}

/// Writes a whole file. Answers the number of written bytes where the store is full.
fn write_file(store: &Store, path: &str, bytes: &[u8]) -> Result<(), usize> {
    make_file(store, path).map_or(Err(0), |file| fill_file(&file, path, bytes))
}

/// Writes a new file, and closes it. Answers the number of written bytes where the store is full.
fn fill_file(file: &File, path: &str, bytes: &[u8]) -> Result<(), usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&CALLER, &[IoSlice::new(&bytes[done..])], done as u64) {
            Ok(count) => done += count,
            Err(error) => {
                assert_eq!(error.errno(), libc::ENOSPC, "{path}: {error}");
                break;
            }
        }
    }
    file.close(&CALLER).expect("closed");
    if done == bytes.len() {
        Ok(())
    } else {
        Err(done)
    }
}

/// The state of every server, in its own words.
fn told(cluster: &Cluster) -> String {
    let of_server = |server| format!("server {server}: {}\n", cluster.status(server));
    (0..cluster.count()).map(of_server).collect()
}

/// Three servers of 100 MiB, files of 256 KiB, several writers: the first refusal once came at a third of the room, from the
/// home of all of them, while the others were empty.
fn small_files_fill_every_target(backend: &str) {
    let cluster = start(backend);
    let written: Vec<u64> = std::thread::scope(|scope| {
        let writers = (0..3u64).map(|writer| {
            let (cluster, store) = (&cluster, store_on(&cluster, TransportChoice::Unix));
            scope.spawn(move || {
                let mut done = 0;
                let name = |number| format!("{writer}-{number}");
                while write_file(&store, &name(done), &content(writer << 20 | done, SMALL_BYTES)).is_ok() {
                    done += 1;
                }
                let used = used_bytes(&store);
                let is_filled = used >= STORE_BYTES / 100 * 95;
                assert!(is_filled, "refused with {used} of {STORE_BYTES} bytes used:\n{}", told(cluster));
                done
            })
        });
        let writers: Vec<_> = writers.collect();
        writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
    });
    let store = store_on(&cluster, TransportChoice::Unix);
    let (bytes, used) = (written.iter().sum::<u64>() * SMALL_BYTES as u64, used_bytes(&store));
    println!("{backend}: {bytes} bytes of files, {used} used of {STORE_BYTES}");
    assert!(bytes >= STORE_BYTES / 100 * 95, "{bytes} bytes of files in {STORE_BYTES}, {used} of them used");
    for (writer, &count) in written.iter().enumerate() {
        for number in 0..count {
            let file = open(&store, &format!("{writer}-{number}"), false);
            let expected = content((writer as u64) << 20 | number, SMALL_BYTES);
            assert!(read_all(&file, SMALL_BYTES + 1) == expected, "{writer}-{number}");
            file.close(&CALLER).expect("closed");
        }
    }
    freed(
        &store,
        (0..written.len())
            .flat_map(|writer| (0..=written[writer]).map(move |number| format!("{writer}-{number}"))),
    );
}

/// All room comes back with the last of these files, also the room of writes that full targets refused.
fn freed(store: &Store, paths: impl Iterator<Item = String>) {
    for path in paths {
        match store.unlink(&CALLER, Place::root(path.as_bytes()), false) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.errno(), libc::ENOENT, "{path}: {error}"),
        }
    }
    wait_until("no byte stays of files that are gone", || used_bytes(store) == 0);
}

#[test]
fn small_files_fill_every_target_in_memory() {
    small_files_fill_every_target("ram");
}

#[test]
fn small_files_fill_every_target_on_disk() {
    small_files_fill_every_target("dir");
}

/// Small files fill one target. A file over all targets then goes on over those that have room, and grows until the store is
/// full. No byte of the file is lost.
fn a_striped_file_goes_on_without_the_full_target(backend: &str) {
    let cluster = start(backend);
    let store = store_on(&cluster, TransportChoice::Unix);
    let large = open(&store, "large", false);
    let step = 3 * STRIPE_BYTES;
    let write =
        |number: u64| large.write_at(&CALLER, &[IoSlice::new(&content(number, step))], number * step as u64);
    let mut steps = 0;
    while steps < 5 {
        assert_eq!(write(steps).expect("written"), step);
        steps += 1;
    }
    // Small files, all on one target, until nothing fits there.
    make_directory(&store, "there", "-o 1.0");
    let mut small = 0;
    while write_file(&store, &format!("there/{small}"), &content(1 << 40 | small, SMALL_BYTES)).is_ok() {
        small += 1;
    }
    let refused = loop {
        match write(steps) {
            Ok(count) if count == step => steps += 1,
            Ok(count) => break count,
            Err(error) => {
                assert_eq!(error.errno(), libc::ENOSPC, "{error}");
                break 0;
            }
        }
    };
    let used = used_bytes(&store);
    println!("{backend}: {steps} steps, {small} small files, {used} used of {STORE_BYTES}");
    assert!(used >= STORE_BYTES / 100 * 95, "{used} used of {STORE_BYTES} after {steps} steps");
    let fresh = store_on(&cluster, TransportChoice::Tcp);
    let file = open(&fresh, "large", false);
    let bytes = read_all(&file, (steps as usize + 1) * step);
    assert_eq!(bytes.len(), steps as usize * step + refused);
    for (number, found) in bytes.chunks(step).enumerate() {
        assert!(found == &content(number as u64, step)[..found.len()], "step {number}");
    }
    file.close(&CALLER).expect("closed");
    large.close(&CALLER).expect("closed");
    freed(&store, (0..=small).map(|number| format!("there/{number}")).chain(["large".into()]));
}

#[test]
fn a_striped_file_goes_on_without_the_full_target_in_memory() {
    a_striped_file_goes_on_without_the_full_target("ram");
}

#[test]
fn a_striped_file_goes_on_without_the_full_target_on_disk() {
    a_striped_file_goes_on_without_the_full_target("dir");
}

/// Fills target `name` with one file.
fn fill(store: &Store, name: &str) {
    let directory = format!("fill-{name}");
    make_directory(store, &directory, &format!("-o {name}"));
    let file = open(store, &format!("{directory}/file"), false);
    let mut offset = 0;
    let mut step = STRIPE_BYTES;
    while step >= 4096 {
        match file.write_at(&CALLER, &[IoSlice::new(&content(offset, step))], offset) {
            Ok(count) => offset += count as u64,
            Err(error) => {
                assert_eq!(error.errno(), libc::ENOSPC, "{error}");
                step /= 2;
            }
        }
    }
    file.close(&CALLER).expect("closed");
}

fn targets_of(store: &Store, path: &str) -> Vec<String> {
    let file = open(store, path, false);
    let targets = file.layout().targets().iter().map(ToString::to_string).collect();
    file.close(&CALLER).expect("closed");
    targets
}

/// The request for a layout holds on a full target, too: named targets are the user's choice, and so is a number of stripes.
#[test]
fn a_layout_that_was_asked_for_is_kept() {
    let cluster = start("ram");
    let store = store_on(&cluster, TransportChoice::Unix);
    for (directory, layout) in
        [("named", "-o 0.0"), ("three", "-c 3"), ("one", "-c 1"), ("two", "-c 2"), ("any", "-c -1")]
    {
        make_directory(&store, directory, layout);
    }
    // The files are made while all targets have room, so that each begins on a target where it will not fit.
    let names: Vec<String> =
        ["named", "three", "two", "any"].iter().map(|name| format!("{name}/file")).collect();
    let files: Vec<File> = names.iter().map(|name| open(&store, name, false)).collect();
    let mut ones = Vec::new();
    for number in 0..SERVERS {
        ones.push(open(&store, &format!("one/{number}"), false));
    }
    fill(&store, "0.0");
    let bytes = content(7, 3 * STRIPE_BYTES);
    let refused = |file: &File| match file.write_at(&CALLER, &[IoSlice::new(&bytes)], 0) {
        Ok(count) => assert!(count < bytes.len(), "{count} bytes were written"),
        Err(error) => assert_eq!(error.errno(), libc::ENOSPC, "{error}"),
    };
    refused(&files[0]);
    refused(&files[1]);
    for file in files[2..].iter().chain(&ones) {
        assert_eq!(file.write_at(&CALLER, &[IoSlice::new(&bytes)], 0).expect("written"), bytes.len());
        assert!(read_all(file, bytes.len() + 1) == bytes);
    }
    assert_eq!(targets_of(&store, "named/file"), ["0.0"]);
    let mut two = targets_of(&store, "two/file");
    two.sort();
    assert_eq!(two, ["1.0", "2.0"]);
    for number in 0..SERVERS {
        assert_ne!(targets_of(&store, &format!("one/{number}")), ["0.0"]);
    }
}

/// Every call that makes a file longer goes elsewhere: appends of each size, reserved ranges, descriptors of others that know
/// an old layout only.
#[test]
fn each_way_to_grow_a_file_goes_elsewhere() {
    let cluster = start("ram");
    let (store, other) =
        (store_on(&cluster, TransportChoice::Unix), store_on(&cluster, TransportChoice::Tcp));
    let files: Vec<[File; 2]> = ["small", "large", "reserved", "written"]
        .map(|name| [open(&store, name, true), open(&other, name, true)])
        .into_iter()
        .collect();
    let first = content(1, 100);
    for [file, _] in &files {
        assert_eq!(file.append(&CALLER, &[IoSlice::new(&first)]).expect("appended"), (0, 100));
    }
    fill(&store, "0.0");
    let (small, large) = (content(2, 10_000), content(3, 5 * STRIPE_BYTES));
    let mut ends: HashMap<usize, Vec<u8>> = (0..4).map(|index| (index, first.clone())).collect();
    for round in 0..6 {
        for (index, bytes) in [(0, &small), (1, &large)] {
            let end = ends.get_mut(&index).expect("a file");
            let appended = files[index][round % 2].append(&CALLER, &[IoSlice::new(bytes)]).expect("appended");
            assert_eq!(appended, (end.len() as u64, bytes.len()), "round {round}");
            end.extend_from_slice(bytes);
        }
        let end = ends.get_mut(&3).expect("a file");
        let at = end.len() as u64;
        let file = &files[3][round % 2];
        assert_eq!(file.write_at(&CALLER, &[IoSlice::new(&small)], at).expect("written"), small.len());
        end.extend_from_slice(&small);
    }
    files[2][0].reserve(&CALLER, 0, 4 << 20, false).expect("reserved");
    ends.get_mut(&2).expect("a file").resize(4 << 20, 0);
    for (index, [file, other]) in files.iter().enumerate() {
        for file in [file, other] {
            assert!(read_all(file, ends[&index].len() + 1) == ends[&index], "file {index}");
        }
    }
}

/// A client writes by an old layout. The first part of the write meets an object that was cut since, and a later part a full
/// target that the file has left: bytes that an object refused count as written no more than those that found no room.
#[test]
fn a_full_target_that_a_file_has_left_hides_no_cut() {
    let cluster = start("ram");
    let (store, other) =
        (store_on(&cluster, TransportChoice::Unix), store_on(&cluster, TransportChoice::Tcp));
    make_directory(&store, "two", "-c 2 -S 64k");
    let [file, others] = [&store, &other].map(|store| open(store, "two/file", false));
    let [_, second] = file.layout().targets() else { panic!("two stripes") };
    fill(&store, &second.to_string());
    let stripe = content(1, 64 << 10);
    // The home hears of this write, and for a while not of further ones within the size that the client knows.
    assert_eq!(file.write_at(&CALLER, &[IoSlice::new(&stripe)], 0).expect("written"), stripe.len());
    let behind = others.write_at(&CALLER, &[IoSlice::new(&stripe)], stripe.len() as u64);
    assert_eq!(behind.expect("written elsewhere"), stripe.len());
    let kept = 10_000;
    others.truncate(&CALLER, kept as u64).expect("cut");
    let bytes = content(2, 100_000);
    assert_eq!(file.write_at(&CALLER, &[IoSlice::new(&bytes)], kept as u64).expect("written"), bytes.len());
    let expected = [&stripe[..kept], &bytes].concat();
    assert!(read_all(&file, expected.len() + 1) == expected);
}

/// Files that two clients write, append to, cut and remove on targets that are full most of the time, compared with plain
/// bytes: acknowledged bytes are there, wherever they went.
fn model_on_full_targets(backend: &str) {
    let cluster = start_servers(2, 2, backend, "2MiB");
    let mut choices = Choices::new();
    let stores = [store_on(&cluster, TransportChoice::Unix), store_on(&cluster, TransportChoice::Tcp)];
    make_directory(&stores[0], "model", "-c -1 -S 64k");
    let count = 16u64;
    let pairs: Vec<[File; 2]> = (0..count)
        .map(|number| [0, 1].map(|side: usize| open(&stores[side], &format!("model/{number}"), false)))
        .collect();
    let mut models: Vec<Vec<u8>> = vec![Vec::new(); count as usize];
    let (mut refused, mut layouts) = (0, 0);
    for round in 0..1500 {
        let number = choices.below(count) as usize;
        let (file, model) = (&pairs[number][choices.below(2) as usize], &mut models[number]);
        let bytes = choices.below(300_000) as usize + 1;
        let bytes = choices.data(bytes);
        let before = file.layout_epoch();
        let written = match choices.below(10) {
            0..=3 => {
                let offset = model.len() as u64;
                file.write_at(&CALLER, &[IoSlice::new(&bytes)], offset)
            }
            4..=6 => file.append(&CALLER, &[IoSlice::new(&bytes)]).map(|(offset, written)| {
                assert_eq!(offset, model.len() as u64, "round {round}");
                written
            }),
            _ => {
                let kept = choices.below(model.len() as u64 + 1);
                cut(file, kept);
                model.truncate(kept as usize);
                Ok(0)
            }
        };
        match written {
            Ok(written) => model.extend_from_slice(&bytes[..written]),
            Err(error) => {
                assert_eq!(error.errno(), libc::ENOSPC, "round {round}: {error}");
                refused += 1;
            }
        }
        layouts += u64::from(file.layout_epoch() != before);
        let other = &pairs[number][choices.below(2) as usize];
        assert!(read_all(other, model.len() + 1) == *model, "round {round}, file {number}");
    }
    println!("{backend}: {refused} refused, {layouts} layouts learned");
    assert!(layouts > 20, "the targets were not full");
    let fresh = store_on(&cluster, TransportChoice::Unix);
    for (number, model) in models.iter().enumerate() {
        let file = open(&fresh, &format!("model/{number}"), false);
        assert!(read_all(&file, model.len() + 1) == *model, "file {number}");
    }
}

#[test]
fn files_on_full_targets_in_memory_are_what_was_written() {
    model_on_full_targets("ram");
}

#[test]
fn files_on_full_targets_on_disk_are_what_was_written() {
    model_on_full_targets("dir");
}

/// A directory with its home at server 0, whose files lie on `target`. The homes of directories are spread by their names.
fn directory_of_server_0(store: &Store, target: &str) -> String {
    let mut names = (0..64).map(|number| format!("from-{number}"));
    let directory = names.find(|name| {
        make_directory(store, name, &format!("-o {target}"));
        let probe = open(store, &format!("{name}/probe"), false);
        let home = probe.capability().ino.home();
        probe.close(&CALLER).expect("closed");
        home.0 == 0
    });
    directory.expect("one of many directories has its home at server 0")
}

/// A file was removed and another one written at once. The home of the removed file was another server than that of the full
/// target, and had not had the object removed: the write was refused, though the room was free a moment later.
fn what_another_home_removes_is_free_for_the_next_write(backend: &str) {
    let cluster = start_servers(2, 1, backend, CAPACITY);
    let store = store_on(&cluster, TransportChoice::Unix);
    let directory = directory_of_server_0(&store, "1.0");
    let bytes = content(3, 24 << 20);
    for round in 0..6 {
        let path = |number: u64| format!("{directory}/{round}-{number}");
        let mut count = 0;
        while write_file(&store, &path(count), &bytes).is_ok() {
            count += 1;
        }
        assert!(count >= 3, "round {round}: {count} files fit");
        // Of each size of a request: inline, and arriving beside the loop.
        for (number, length) in [(0, 60_000), (1, 20 << 20)] {
            store.unlink(&CALLER, Place::root(path(number).as_bytes()), false).expect("removed");
            let fresh = format!("{directory}/{round}-fresh-{number}");
            assert_eq!(write_file(&store, &fresh, &bytes[..length]), Ok(()), "round {round}, {length} bytes");
            store.unlink(&CALLER, Place::root(fresh.as_bytes()), false).expect("removed");
        }
        freed(&store, (0..=count).map(path));
    }
}

#[test]
fn what_another_home_removes_is_free_for_the_next_write_in_memory() {
    what_another_home_removes_is_free_for_the_next_write("ram");
}

#[test]
fn what_another_home_removes_is_free_for_the_next_write_on_disk() {
    what_another_home_removes_is_free_for_the_next_write("dir");
}

/// A home and its one full target, whose server does not answer: the home has decided a removal that is to give room there.
struct Awaited {
    cluster: Cluster,
    store: Store,
    directory: String,
    /// A program that has a removed file open.
    program: Option<Line>,
    full: Pid,
}

impl Awaited {
    fn new() -> Awaited {
        let cluster = start_servers(2, 1, "ram", "8MiB");
        let store = store_on(&cluster, TransportChoice::Unix);
        let directory = directory_of_server_0(&store, "1.0");
        let mut program = cluster.root(0);
        program.open(&format!("{directory}/held"), READ_WRITE).expect("made");
        let full = Pid::from_raw(cluster.pid(1) as i32).expect("a process");
        let scene = Awaited { cluster, store, directory, program: Some(program), full };
        scene.remove("held");
        write_file(&scene.store, &scene.path("large"), &content(1, 16 << 20))
            .expect_err("larger than the target");
        let mut probes = 0;
        wait_until("the home knows of the full target", || {
            probes += 1;
            make_file(&scene.store, &scene.path(&format!("probe-{probes}"))).is_none()
        });
        kill_process(full, Signal::STOP).expect("stopped");
        scene.remove("large");
        scene
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    fn remove(&self, name: &str) {
        self.store.unlink(&CALLER, Place::root(self.path(name).as_bytes()), false).expect("removed");
    }

    /// The program makes a file, which waits for room.
    fn begin_file(&mut self, name: &str) {
        let at = At::new(Ino::ROOT, self.path(name));
        let request = Request::Open { at, flags: READ_WRITE, permissions: 0o644, layout: None };
        self.program.as_mut().expect("a program").send(&request, &[]);
        wait_until("the file waits", || self.cluster.figure(0, "outstanding") > 0);
    }

    fn go_on(&self) {
        kill_process(self.full, Signal::CONT).expect("goes on");
    }
}

#[test]
fn a_file_waits_for_room_that_a_removal_is_to_give() {
    let mut awaited = Awaited::new();
    awaited.begin_file("late");
    awaited.go_on();
    let (_, reply, _) = awaited.program.as_mut().expect("a program").receive();
    assert!(matches!(reply, Reply::Opened { .. }), "{reply:?}");
    let late = open(&awaited.store, &awaited.path("late"), false);
    assert_eq!(fill_file(&late, "late", &content(2, SMALL_BYTES)), Ok(()));
}

/// A home with a full target had not heard of the other server for long, which was only held up, and refused new files: the
/// other target was empty.
#[test]
fn a_new_file_is_not_refused_before_a_silent_server_was_asked() {
    let servers = servers(2, 1, "ram", "8MiB");
    let cluster = Cluster::start(&format!("lambda_milliseconds = 1000\n{servers}"));
    let store = store_on(&cluster, TransportChoice::Unix);
    let silence = || cluster.status(0)["peers"][0]["age_seconds"].as_f64();
    wait_until("the servers know each other", || silence().is_some());
    fill(&store, "0.0");
    let other = Pid::from_raw(cluster.pid(1) as i32).expect("a process");
    kill_process(other, Signal::STOP).expect("stopped");
    // It is late after five exchanges; the home looks once an exchange.
    wait_until("the other server is late", || silence().is_some_and(|age| age > 7.0));
    let mut program = cluster.root(0);
    let at = At::new(Ino::ROOT, "late".to_owned());
    program.send(&Request::Open { at, flags: READ_WRITE, permissions: 0o644, layout: None }, &[]);
    wait_until("the file waits", || cluster.figure(0, "outstanding") > 0);
    kill_process(other, Signal::CONT).expect("goes on");
    let (_, reply, _) = program.receive();
    assert!(matches!(reply, Reply::Opened { .. }), "{reply:?}");
    assert_eq!(targets_of(&store, "late"), ["1.0"]);
}

/// A program was killed while its new file waited for room. The home made the file once there was room, after it had released
/// everything that the program held: nobody closed the file.
#[test]
fn a_file_that_waits_for_room_is_not_made_for_a_program_that_is_gone() {
    let mut awaited = Awaited::new();
    let inodes = awaited.cluster.figure(0, "inodes");
    awaited.begin_file("abandoned");
    drop(awaited.program.take());
    wait_until("the program is released", || awaited.cluster.figure(0, "inodes") < inodes);
    awaited.go_on();
    let fresh = awaited.path("fresh");
    assert_eq!(write_file(&awaited.store, &fresh, &content(2, SMALL_BYTES)), Ok(()));
    awaited.cluster.await_figure(0, "outstanding", 0);
    let path = awaited.path("abandoned");
    let found = awaited.store.attributes(&CALLER, Place::root(path.as_bytes()), false);
    assert_eq!(found.map_err(|error| error.errno()).err(), Some(libc::ENOENT));
}
