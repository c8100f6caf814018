//! Power is lost at any moment: every record that was not on stable storage is gone, while everything else
//! reached the disk, which is the worst that a file system below may do. Each name has a content that it had, and none from
//! before what fsync promised.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_placement::TargetId;
use weir_testing::{wait_until, Choices, Cluster, File, Line, READ_WRITE};
use weir_wire::{At, Errno, Extent, Fence, Ino, ObjectMove, OpenFlags, RenameMode, Reply, Request};

const ENOENT: Errno = Errno(2);
/// Where the slots of the durable mark are, and how it is made up (`journal/mark.rs`).
const MARK_SLOTS: [u64; 2] = [0, 4096];
const MARK_BYTES: usize = 44;
/// Targets of each server: a file lies on two of them, so that an object can move to another.
const TARGETS_EACH: u16 = 3;

/// The content of each name.
type Files = BTreeMap<String, Vec<u8>>;

fn at(path: &str) -> At {
    At::new(Ino::ROOT, path)
}

/// A client of all servers, and the files after each of its changes.
struct Client {
    lines: Vec<Line>,
    history: Vec<Files>,
    /// The change that the last fsync covered.
    durable: usize,
    written: u64,
}

impl Client {
    fn new(cluster: &Cluster) -> Client {
        let lines = (0..cluster.count()).map(|server| cluster.root(server)).collect();
        Client { lines, history: vec![Files::new()], durable: 0, written: 0 }
    }

    fn files(&self) -> Files {
        self.history.last().cloned().unwrap_or_default()
    }

    fn note(&mut self, files: Files) {
        self.history.push(files);
    }

    fn line(&mut self, target: TargetId) -> &mut Line {
        &mut self.lines[usize::from(target.server.0)]
    }

    fn ask(&mut self, request: &Request) -> Reply {
        self.lines[0].reply(request)
    }

    /// Writes to the targets, publishes at the home, and brings the objects to stable storage.
    fn write(&mut self, file: &mut File, bytes: &[u8]) {
        for (request, range) in Line::write_requests(file, 0, bytes.len()) {
            let Request::Write { capability, target, epoch, extents, publication, .. } = request else {
                continue;
            };
            let request =
                Request::Write { fence: Fence::NONE, capability, target, epoch, extents, publication: None };
            let reply = self.line(target).call(&request, &bytes[range]).0;
            assert!(matches!(reply, Reply::Written { .. }), "{reply:?}");
            let publish =
                Request::Publish { capability, publication: publication.expect("it grows the file") };
            let reply = self.ask(&publish);
            assert!(matches!(reply, Reply::Written { .. }), "{reply:?}");
        }
        for &target in file.layout.targets() {
            let sync = Request::SyncObject { capability: file.capability, target };
            assert_eq!(self.line(target).reply(&sync), Reply::Done);
        }
    }

    fn read(&mut self, path: &str) -> Option<Vec<u8>> {
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let file = match self.lines[0].open(path, flags) {
            Ok(file) => file,
            Err(ENOENT) => return None,
            Err(errno) => panic!("{path}: {errno:?}"),
        };
        let mut bytes = Vec::new();
        for piece in file.layout.pieces(0, file.size_bytes) {
            let target = file.layout.targets()[piece.object];
            let request = Request::Read {
                fence: Fence::NONE,
                capability: file.capability,
                target,
                epoch: file.epoch,
                extents: vec![Extent { offset: piece.object_offset, length: piece.length as u32 }],
            };
            match self.line(target).call(&request, &[]) {
                (Reply::Data { .. }, part) => bytes.extend_from_slice(&part),
                (other, _) => panic!("{path}: {other:?}"),
            }
        }
        self.lines[0].close(&file);
        Some(bytes)
    }

    /// A content that no other write has.
    fn content(&mut self, choices: &mut Choices) -> Vec<u8> {
        self.written += 1;
        let length = 8 + choices.below(60_000) as usize;
        self.written.to_le_bytes().iter().copied().cycle().take(length).collect()
    }

    /// `open(O_CREAT | O_TRUNC)`, `write`, and the `fsync` of the data.
    fn create(&mut self, name: &str, bytes: &[u8]) {
        let flags = OpenFlags { truncate: true, ..READ_WRITE };
        let mut file = self.lines[0].open(name, flags).expect("opened");
        let mut files = self.files();
        files.insert(name.into(), Vec::new());
        self.note(files.clone());
        // Each piece is published on its own.
        for (_, range) in Line::write_requests(&file, 0, bytes.len()) {
            files.insert(name.into(), bytes[..range.end].to_vec());
            self.note(files.clone());
        }
        self.write(&mut file, bytes);
        self.lines[0].close(&file);
    }

    fn truncate(&mut self, name: &str, length: usize) {
        let mut file = self.lines[0].open(name, READ_WRITE).expect("opened");
        self.lines[0].truncate(&mut file, length as u64);
        self.lines[0].close(&file);
        let mut files = self.files();
        files.entry(name.into()).or_default().resize(length, 0);
        self.note(files);
    }

    fn rename(&mut self, from: &str, to: &str) {
        let request = Request::Rename { from: at(from), to: at(to), mode: RenameMode::Replace };
        assert_eq!(self.ask(&request), Reply::Done);
        let mut files = self.files();
        let bytes = files.remove(from).expect("it was there");
        files.insert(to.into(), bytes);
        self.note(files);
    }

    fn unlink(&mut self, name: &str) {
        assert_eq!(self.lines[0].unlink(name, false), Reply::Done);
        let mut files = self.files();
        files.remove(name);
        self.note(files);
    }

    fn fsync(&mut self) {
        assert_eq!(self.ask(&Request::SyncMetadata { at: At::inode(Ino::ROOT) }), Reply::Done);
        self.durable = self.history.len() - 1;
    }

    /// Moves an object of the file to another target; no content changes.
    fn rebalance(&mut self, name: &str, targets: &[TargetId], choices: &mut Choices) {
        let file = self.lines[0].open(name, READ_WRITE).expect("opened");
        let index = choices.below(file.layout.targets().len() as u64) as usize;
        let from = file.layout.targets()[index];
        let free: Vec<TargetId> =
            targets.iter().copied().filter(|target| !file.layout.targets().contains(target)).collect();
        let moves = vec![ObjectMove { from, to: *choices.one_of(&free) }];
        let to = moves[0].to;
        let reply = self.ask(&Request::MoveBegin { at: at(name), moves });
        let Reply::Moving { ino, moving, capability, epoch } = reply else { panic!("{reply:?}") };
        let length = file.layout.object_bytes(index, file.size_bytes) as u32;
        let frozen = self.ask(&Request::MoveFreeze { ino, moving });
        let Reply::Frozen { epoch: frozen } = frozen else { panic!("{frozen:?}") };
        if length > 0 {
            let extents = vec![Extent { offset: 0, length }];
            let read = Request::Read {
                fence: Fence::NONE,
                capability,
                target: from,
                epoch: frozen,
                extents: extents.clone(),
            };
            let (reply, bytes) = self.line(from).call(&read, &[]);
            assert!(matches!(reply, Reply::Data { .. }), "{reply:?}");
            let write = Request::Write {
                fence: Fence::NONE,
                capability,
                target: to,
                epoch,
                extents,
                publication: None,
            };
            let reply = self.line(to).call(&write, &bytes).0;
            assert!(matches!(reply, Reply::Written { .. }), "{reply:?}");
        }
        assert_eq!(self.line(to).reply(&Request::SyncObject { capability, target: to }), Reply::Done);
        assert_eq!(self.ask(&Request::MoveEnd { ino, moving, commit: true }), Reply::Done);
        self.lines[0].close(&file);
    }

    fn step(&mut self, choices: &mut Choices, targets: &[TargetId]) {
        let files = self.files();
        let fresh = format!("file-{}", choices.below(12));
        let choice = if files.is_empty() { 0 } else { choices.below(14) };
        let names: Vec<&String> = files.keys().collect();
        let (name, length) = match names.get(choices.below(names.len() as u64) as usize) {
            Some(&name) => (name.as_str(), files[name].len()),
            None => ("", 0),
        };
        let bytes = self.content(choices);
        match choice {
            0..=3 => self.create(&fresh, &bytes),
            4 | 5 => {
                self.create("new", &bytes);
                self.rename("new", &fresh);
            }
            6 | 7 => self.unlink(name),
            8 => self.truncate(name, 0),
            9 => self.truncate(name, choices.below(length as u64 + 1) as usize),
            10 => self.truncate(name, length + choices.below(20_000) as usize),
            11 => self.rebalance(name, targets, choices),
            12 => std::thread::sleep(Duration::from_millis(choices.below(300))),
            _ => self.fsync(),
        }
    }
}

/// The durable sequence of a slot of the mark, the log it stands in, and how much of that is durable.
fn marked(journal: &Path) -> (u64, String, u64) {
    let file = fs::File::open(journal.join("durable")).expect("a mark");
    let slots = MARK_SLOTS.iter().filter_map(|&offset| {
        let mut bytes = [0; MARK_BYTES];
        file.read_exact_at(&mut bytes, offset).ok()?;
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let salt = u32::from_le_bytes(bytes[24..28].try_into().expect("four bytes"));
        Some((long(8), format!("log-{:016x}-{salt:08x}", long(16)), long(28)))
    });
    slots.max().expect("a slot")
}

/// Takes the records that no sync covered from a journal, and gives its logs another boot.
fn lose_power(journal: &Path) {
    let (_, name, durable_bytes) = marked(journal);
    let files = fs::read_dir(journal).expect("a journal").map(|entry| entry.expect("an entry").path());
    let mut logs: Vec<PathBuf> = files
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-")))
        .collect();
    logs.sort();
    let durable = logs.iter().position(|path| path.ends_with(&name)).expect("the marked log");
    for (index, path) in logs.iter().enumerate() {
        let log = fs::File::options().read(true).write(true).open(path).expect("a log");
        if index > durable {
            fs::remove_file(path).expect("a log");
        } else if index == durable {
            log.set_len(durable_bytes).expect("a log");
        }
        let mut head = [0; 56];
        log.read_exact_at(&mut head, 0).expect("a head");
        head[32..48].copy_from_slice(&[0x77; 16]);
        let checksum = crc32fast::hash(&head[..52]);
        head[52..56].copy_from_slice(&checksum.to_le_bytes());
        log.write_all_at(&head, 0).expect("a head");
    }
}

/// Starts the servers on the rest, and tells all files that ever were as they are now.
fn recovered(cluster: &mut Cluster, history: &[Files]) -> Files {
    for server in 0..cluster.count() {
        cluster.kill_server(server);
    }
    for server in 0..cluster.count() {
        lose_power(&cluster.home_of(server).join("journal"));
    }
    for server in 0..cluster.count() {
        cluster.start_server(server);
    }
    let mut client = Client::new(cluster);
    let names: std::collections::BTreeSet<&String> = history.iter().flat_map(Files::keys).collect();
    names.into_iter().filter_map(|name| Some((name.clone(), client.read(name)?))).collect()
}

fn start(servers: usize) -> Cluster {
    let layout = "[layout]\nstripe_size = \"16KiB\"\nstripe_count = 2\n";
    let server = weir_testing::server_toml(TARGETS_EACH.into(), "backend = \"dir\"\ncapacity = \"1GiB\"");
    Cluster::start(&format!("{layout}{}", server.repeat(servers)))
}

fn targets_of(cluster: &Cluster) -> Vec<TargetId> {
    let targets = |server| {
        (0..TARGETS_EACH).map(move |index| TargetId { server: weir_placement::ServerId(server), index })
    };
    (0..cluster.count() as u16).flat_map(targets).collect()
}

/// After a power loss the files are as they were after one of the changes, and after none before the last fsync.
fn every_state_is_one_that_was(servers: usize, rounds: usize) {
    let mut choices = Choices::new();
    for round in 0..rounds {
        let mut cluster = start(servers);
        let targets = targets_of(&cluster);
        let mut client = Client::new(&cluster);
        for _ in 0..4 + choices.below(30) {
            client.step(&mut choices, &targets);
        }
        if choices.below(2) == 0 {
            std::thread::sleep(Duration::from_millis(choices.below(500)));
        }
        let Client { history, durable, lines, .. } = client;
        drop(lines);
        let found = recovered(&mut cluster, &history);
        let since = history[durable..].iter().position(|files| *files == found);
        if since.is_none() {
            let ever = history.iter().rposition(|files| *files == found);
            let last = &history[history.len() - 1];
            let summary = |files: &Files| {
                let of = |(name, bytes): (&String, &Vec<u8>)| {
                    format!("{name}: {} bytes {:?}", bytes.len(), bytes.get(..8).map(<[u8]>::to_vec))
                };
                files.iter().map(of).collect::<Vec<_>>().join("\n  ")
            };
            panic!(
                "round {round}: neither old nor new (was state {ever:?}, fsync promised {durable} of {}):\n  {}\nlast:\n  {}",
                history.len() - 1,
                summary(&found),
                summary(last)
            );
        }
    }
}

#[test]
fn every_name_has_its_old_or_its_new_content() {
    every_state_is_one_that_was(1, 12);
}

#[test]
fn every_name_has_its_old_or_its_new_content_over_two_servers() {
    every_state_is_one_that_was(2, 8);
}

/// All thirty names of a program that fsynced forty files, renamed new ones over twenty and removed ten once existed and read
/// as zeros: their objects went before the journal's records that removed them.
#[test]
fn what_was_renamed_over_and_removed_is_not_lost() {
    let mut cluster = start(1);
    let mut client = Client::new(&cluster);
    for number in 0..40_u8 {
        client.create(&format!("file-{number}"), &[number + 1; 20_000]);
    }
    client.fsync();
    let used = cluster.used_bytes(0);
    for number in 0..20_u8 {
        client.create("new", &[number + 101; 20_000]);
        client.rename("new", &format!("file-{number}"));
    }
    for number in 20..30 {
        client.unlink(&format!("file-{number}"));
    }
    wait_until("the old bytes are free", || cluster.used_bytes(0) <= used * 3 / 4);
    let Client { history, durable, .. } = client;
    let found = recovered(&mut cluster, &history);
    assert!(history[durable..].contains(&found), "{:?}", found.keys());
}

/// A truncation that no record is left of is undone, and the file can be read, cut and written after it.
#[test]
fn a_truncation_that_was_never_durable_is_undone() {
    let mut cluster = start(1);
    let mut client = Client::new(&cluster);
    client.create("file", &[7; 50_000]);
    client.fsync();
    client.truncate("file", 0);
    client.create("file", &[8; 10_000]);
    let history = client.history.clone();
    let found = recovered(&mut cluster, &history);
    assert!(
        found["file"] == [7; 50_000] || found["file"].iter().all(|&byte| byte == 8),
        "{}",
        found["file"].len()
    );
    let mut client = Client::new(&cluster);
    client.note(found);
    client.create("file", &[9; 30_000]);
    client.truncate("file", 100);
    assert_eq!(client.read("file"), Some(vec![9; 100]));
    wait_until("nothing is kept for ever", || cluster.used_bytes(0) <= 2 * 4096);
}

/// The room of a removed or emptied file is free only once the journal says so durably: a write that needs it meanwhile gets it, late.
#[test]
fn room_that_is_about_to_be_free_is_waited_for() {
    let target = "backend = \"dir\"\ncapacity = \"1MiB\"";
    let cluster = Cluster::start(&weir_testing::server_toml(1, target));
    let mut client = Client::new(&cluster);
    let bytes = vec![1; 900 << 10];
    for _ in 0..10 {
        client.create("file", &bytes);
        client.unlink("file");
    }
    for _ in 0..10 {
        client.create("file", &bytes);
    }
    let mut other = client.lines[0].open("other", READ_WRITE).expect("opened");
    let full = client.lines[0].write(&mut other, 0, &bytes);
    assert_eq!(full, Err(Reply::Failed(Errno(28))), "nothing is about to be free");
}
