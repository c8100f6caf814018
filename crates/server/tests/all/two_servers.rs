//! Two servers: directories and objects on both, operations that need both, and either of them killed in between.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_placement::ServerId;
use weir_testing::{
    assert_held, claims, dir, key, ram, random_client, wait_until, Choices, Cluster, Connection, Line, Stop,
    Transport, PATIENCE,
};
use weir_wire::{
    At, AttributeChange, Attributes, Claims, ClientId, DirectoryEntry, Errno, Extent, Fence, Ino, NodeKind,
    OpenFlags, Publication, RenameMode, Reply, Request, RequestId, XattrMode,
};

const ENOENT: Errno = Errno(2);
const EIO: Errno = Errno(5);
const EEXIST: Errno = Errno(17);
const EXDEV: Errno = Errno(18);
const ENOTEMPTY: Errno = Errno(39);
const ESTALE: Errno = Errno(116);

/// A client of both servers, which connects again and resends as long as it takes.
struct Client {
    sockets: Vec<PathBuf>,
    lines: Vec<Option<Line>>,
    client: ClientId,
    next: u64,
}

impl Client {
    fn new(cluster: &Cluster) -> Client {
        let sockets: Vec<PathBuf> =
            (0..cluster.count()).map(|server| cluster.home_of(server).join("socket")).collect();
        let lines = sockets.iter().map(|_| None).collect();
        Client { sockets, lines, client: random_client(), next: 1 }
    }

    /// The reply of `server` to a request, with its payload.
    fn call(&mut self, server: usize, request: &Request, payload: &[u8]) -> (Reply, Vec<u8>) {
        let id = RequestId(self.next);
        self.next += 1;
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "server {server} does not answer {request:?}");
            let Some(line) = self.line(server) else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            line.resend(id, request, payload);
            match line.try_receive() {
                Some((answered, reply, payload)) => {
                    assert_eq!(answered, id);
                    return (reply, payload);
                }
                None => self.lines[server] = None,
            }
        }
    }

    fn line(&mut self, server: usize) -> Option<&mut Line> {
        if self.lines[server].is_none() {
            let stream = UnixStream::connect(&self.sockets[server]).ok()?;
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            let line = Line::prove(Connection::Unix(stream), &key().mint(claims(0)), self.client);
            self.lines[server] = line.ok();
        }
        self.lines[server].as_mut()
    }

    /// A request about a path, sent on to the homes that the replies name.
    fn at(&mut self, path: &str, request: impl Fn(At) -> Request, payload: &[u8]) -> (Reply, Vec<u8>) {
        let mut at = At::new(Ino::ROOT, path);
        loop {
            let server = usize::from(at.ino.home().0);
            match self.call(server, &request(at), payload) {
                (Reply::Redirect { at: elsewhere }, _) => at = elsewhere,
                // What the path led to was removed since.
                (Reply::Stale, _) => at = At::new(Ino::ROOT, path),
                reply => return reply,
            }
        }
    }

    fn attributes(&mut self, path: &str) -> Result<Attributes, Errno> {
        match self.at(path, |at| Request::Attributes { at, follow: false }, &[]).0 {
            Reply::Attributes(attributes) => Ok(attributes),
            Reply::Failed(errno) => Err(errno),
            other => panic!("{path}: {other:?}"),
        }
    }

    fn make(&mut self, path: &str) -> Reply {
        let kind = NodeKind::Directory;
        self.at(path, |at| Request::Make { at, kind, permissions: 0o755 }, &[]).0
    }

    fn remove(&mut self, path: &str, directory: bool) -> Reply {
        self.at(path, |at| Request::Unlink { at, directory }, &[]).0
    }

    /// Renames within one directory: both paths lead to the same home.
    fn rename(&mut self, from: &str, to: &str) -> Reply {
        let (directory, name) = to.rsplit_once('/').unwrap_or(("", to));
        let home =
            if directory.is_empty() { Ino::ROOT } else { self.attributes(directory).expect("there").ino };
        let (_, from_name) = from.rsplit_once('/').unwrap_or(("", from));
        let (from, to) = (At::new(home, from_name), At::new(home, name));
        let request = Request::Rename { from, to, mode: RenameMode::NoReplace };
        self.call(usize::from(home.home().0), &request, &[]).0
    }

    /// Makes a file with one byte in each object, on every target of both servers.
    fn make_wide(&mut self, path: &str) -> Result<Ino, Errno> {
        let flags = OpenFlags { read: true, write: true, create: true, ..Default::default() };
        let opened = self.at(path, |at| Request::Open { at, flags, permissions: 0o600, layout: None }, &[]).0;
        let (attributes, handle, capability, layout) = match opened {
            Reply::Opened { attributes, handle, capability, layout, .. } => {
                (attributes, handle, capability, layout.expect("a regular file"))
            }
            Reply::Failed(errno) => return Err(errno),
            other => panic!("{other:?}"),
        };
        let (ino, epoch) = (attributes.ino, attributes.epoch);
        for &target in layout.targets() {
            let extents = vec![Extent { offset: 0, length: 1 }];
            let write =
                Request::Write { fence: Fence::NONE, capability, target, epoch, extents, publication: None };
            let server = usize::from(target.server.0);
            let mut reply = self.call(server, &write, &[7]).0;
            while reply == Reply::Failed(ESTALE) {
                // The home started anew in between: a client takes its descriptions back first.
                let reclaim = Request::Reclaim { handles: vec![capability] };
                assert_held(&self.call(usize::from(ino.home().0), &reclaim, &[]).0);
                reply = self.call(server, &write, &[7]).0;
            }
            assert!(matches!(reply, Reply::Written { .. } | Reply::StaleEpoch { .. }), "{reply:?}");
        }
        let home = usize::from(ino.home().0);
        let publication =
            Publication { end: 1, written_bytes: layout.targets().len() as u64, epoch, reserved_end: 0 };
        self.call(home, &Request::Publish { capability, publication }, &[]);
        self.call(home, &Request::Close { ino, handle }, &[]);
        Ok(ino)
    }

    /// The entries of a directory.
    fn entries(&mut self, path: &str) -> Vec<DirectoryEntry> {
        let flags = OpenFlags { read: true, directory: true, ..Default::default() };
        let opened = self.at(path, |at| Request::Open { at, flags, permissions: 0, layout: None }, &[]).0;
        let Reply::Opened { attributes, handle, .. } = opened else { panic!("{path}: {opened:?}") };
        let (ino, server) = (attributes.ino, usize::from(attributes.ino.home().0));
        let list = Request::List { ino, handle, cookie: 0, bytes: 1 << 20, attributes: false };
        let (reply, payload) = self.call(server, &list, &[]);
        assert_eq!(reply, Reply::Listing { end: true });
        self.call(server, &Request::Close { ino, handle }, &[]);
        let entries: Vec<DirectoryEntry> = weir_wire::decode_body(&payload, "listing").expect("entries");
        entries.into_iter().filter(|entry| entry.name != b"." && entry.name != b"..").collect()
    }
}

fn names(entries: &[DirectoryEntry]) -> BTreeSet<String> {
    entries.iter().map(|entry| String::from_utf8(entry.name.clone()).expect("own names")).collect()
}

#[test]
fn directories_of_a_spread_directory_live_on_both_servers_and_work_as_others() {
    let cluster = Cluster::start(&dir(2));
    let mut client = Client::new(&cluster);
    assert!(matches!(client.make("project"), Reply::Attributes(_)));
    let name = b"weir.layout".to_vec();
    let set = |at| Request::XattrSet { at, follow: true, name: name.clone(), mode: XattrMode::Set };
    assert_eq!(client.at("project", set, b"spread=yes").0, Reply::Done);
    let mut homes = BTreeSet::new();
    for number in 0..24 {
        let path = format!("project/part-{number}");
        let Reply::Attributes(made) = client.make(&path) else { panic!("{path} is made") };
        // The server that answers the maker may not be the home, which alone knows the version.
        let found = client.attributes(&path).map(|found| Attributes { version: made.version, ..found });
        assert_eq!(found, Ok(made), "the maker was told what is there");
        homes.insert(made.ino.home());
        assert_eq!(client.make(&path), Reply::Failed(EEXIST));
        assert!(matches!(client.make(&format!("{path}/inner")), Reply::Attributes(_)));
        assert!(client.make_wide(&format!("{path}/file")).is_ok());
        assert_eq!(client.attributes(&format!("{path}/inner/../file")).map(|found| found.links), Ok(1));
        assert_eq!(client.remove(&path, true), Reply::Failed(ENOTEMPTY));
    }
    assert_eq!(homes, BTreeSet::from([ServerId(0), ServerId(1)]));

    let entries = client.entries("project");
    assert_eq!(entries.len(), 24);
    let of = |server| entries.iter().find(|entry| entry.ino.home() == ServerId(server)).expect("one of each");
    let project = client.attributes("project").expect("there").ino;
    // From one home to another it is as between file systems.
    let (here, there) = (of(0).ino, of(1).ino);
    let request = Request::Rename {
        from: At::new(here, "file"),
        to: At::new(there, "moved"),
        mode: RenameMode::Replace,
    };
    assert_eq!(client.call(0, &request, &[]).0, Reply::Failed(EXDEV));
    // The entry of a directory moves while the directory itself is elsewhere.
    for server in [0, 1] {
        let entry = of(server);
        let old = format!("project/{}", String::from_utf8_lossy(&entry.name));
        assert_eq!(client.rename(&old, &format!("project/moved-{server}")), Reply::Done);
        assert_eq!(client.attributes(&old), Err(ENOENT));
        assert_eq!(
            client.attributes(&format!("project/moved-{server}")).map(|found| found.ino),
            Ok(entry.ino)
        );
        let up = client.attributes(&format!("project/moved-{server}/.."));
        assert_eq!(up.map(|found| found.ino), Ok(project));
    }
    for name in names(&client.entries("project")) {
        let path = format!("project/{name}");
        assert_eq!(client.remove(&format!("{path}/file"), false), Reply::Done);
        assert_eq!(client.remove(&format!("{path}/inner"), true), Reply::Done);
        assert_eq!(client.remove(&path, true), Reply::Done);
        assert_eq!(client.attributes(&path), Err(ENOENT));
    }
    assert_eq!(client.remove("project", true), Reply::Done);
    is_empty(&cluster);
}

/// Only the root is left, and no byte.
fn is_empty(cluster: &Cluster) {
    cluster.await_figure(0, "inodes", 1);
    cluster.await_figure(1, "inodes", 0);
    for server in [0, 1] {
        wait_until(&format!("server {server} has no object"), || objects_of(cluster, server).is_empty());
        wait_until(&format!("server {server} counts no byte"), || cluster.used_bytes(server) == 0);
    }
}

/// Files that a server keeps on its targets.
fn objects_of(cluster: &Cluster, server: usize) -> Vec<PathBuf> {
    let targets = [0, 1].map(|index| cluster.home_of(server).join(format!("target-{index}")));
    let folders =
        targets.iter().flat_map(|target| (0..256).map(move |number| target.join(format!("{number:02x}"))));
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
    files.filter_map(|file| Some(file.ok()?.path())).collect()
}

/// The changes of one client to its own names in the root, and the names that it then knows to be there.
fn work(
    client: &mut Client,
    worker: usize,
    choices: &mut Choices,
    stop: &AtomicBool,
    steps: &AtomicU64,
) -> Work {
    let mut work = Work::default();
    while !stop.load(Ordering::Relaxed) {
        let name = format!("{worker}-{}", choices.below(6));
        let other = format!("{worker}-{}", 6 + choices.below(6));
        match choices.below(5) {
            0 | 1 => work.made(client, &name),
            2 => work.removed(client, &name),
            3 => work.renamed(client, &name, &other),
            _ => work.filed(client, &format!("{worker}-file-{}", choices.below(3))),
        }
        if choices.below(4) == 0 {
            work.removed(client, &other);
        }
        steps.fetch_add(1, Ordering::Relaxed);
    }
    work
}

#[derive(Default)]
struct Work {
    directories: BTreeSet<String>,
    files: BTreeSet<String>,
    /// Requests that ended with EIO, as the other server was away for too long.
    failed: u64,
}

impl Work {
    /// After EIO the outcome is not known, so the store is asked.
    fn look(&mut self, client: &mut Client, name: &str) {
        self.failed += 1;
        match client.attributes(name) {
            Ok(_) => self.directories.insert(name.into()),
            Err(_) => self.directories.remove(name),
        };
    }

    fn made(&mut self, client: &mut Client, name: &str) {
        match client.make(name) {
            Reply::Attributes(_) => assert!(self.directories.insert(name.into()), "{name} was there"),
            Reply::Failed(EEXIST) => assert!(self.directories.contains(name), "{name} was not there"),
            Reply::Failed(EIO) => self.look(client, name),
            other => panic!("mkdir {name}: {other:?}"),
        }
    }

    fn removed(&mut self, client: &mut Client, name: &str) {
        match client.remove(name, true) {
            Reply::Done => assert!(self.directories.remove(name), "{name} was not there"),
            Reply::Failed(ENOENT) => assert!(!self.directories.contains(name), "{name} was there"),
            Reply::Failed(EIO) => self.look(client, name),
            other => panic!("rmdir {name}: {other:?}"),
        }
    }

    fn renamed(&mut self, client: &mut Client, from: &str, to: &str) {
        match client.rename(from, to) {
            Reply::Done => {
                assert!(self.directories.remove(from), "{from} was not there");
                assert!(self.directories.insert(to.into()), "{to} was there");
            }
            Reply::Failed(ENOENT) => assert!(!self.directories.contains(from), "{from} was there"),
            Reply::Failed(EEXIST) => assert!(self.directories.contains(to), "{to} was not there"),
            Reply::Failed(EIO) => {
                self.look(client, from);
                self.look(client, to);
            }
            other => panic!("rename {from} {to}: {other:?}"),
        }
    }

    /// Makes a file of objects on all targets, cuts it, and mostly removes it.
    fn filed(&mut self, client: &mut Client, name: &str) {
        if client.make_wide(name).is_err() {
            self.failed += 1;
            return;
        }
        self.files.insert(name.into());
        let change = AttributeChange { size_bytes: Some(0), ..Default::default() };
        let cut = client.at(name, |at| Request::Change { at, follow: false, change }, &[]).0;
        assert!(matches!(cut, Reply::Attributes(_) | Reply::Failed(EIO)), "{cut:?}");
        match client.remove(name, false) {
            Reply::Done => drop(self.files.remove(name)),
            other => panic!("unlink {name}: {other:?}"),
        }
    }
}

#[test]
fn either_server_may_die_in_the_middle_of_what_takes_both() {
    const WORKERS: usize = 3;
    const KILLS: usize = 10;
    let mut choices = Choices::new();
    let mut cluster = Cluster::start(&dir(2));
    let (stop, steps) = (AtomicBool::new(false), AtomicU64::new(0));
    let clients: Vec<Client> = (0..WORKERS).map(|_| Client::new(&cluster)).collect();
    let works: Vec<Work> = std::thread::scope(|scope| {
        let stopping = Stop::at_end(&stop);
        let spawn = |(worker, mut client): (usize, Client)| {
            let mut choices = choices.branch();
            let (stop, steps) = (&stop, &steps);
            scope.spawn(move || work(&mut client, worker, &mut choices, stop, steps))
        };
        let workers: Vec<_> = clients.into_iter().enumerate().map(spawn).collect();
        for _ in 0..KILLS {
            let goal = steps.load(Ordering::Relaxed) + 20;
            wait_until("there is some progress", || {
                steps.load(Ordering::Relaxed) >= goal || workers.iter().any(|worker| worker.is_finished())
            });
            std::thread::sleep(Duration::from_micros(choices.below(30_000)));
            let server = choices.below(2) as usize;
            cluster.kill_server(server);
            if choices.below(4) == 0 {
                cluster.kill_server(1 - server);
                cluster.start_server(1 - server);
            }
            cluster.start_server(server);
        }
        drop(stopping);
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let failed: u64 = works.iter().map(|work| work.failed).sum();
    println!("{} steps, {KILLS} kills, {failed} without an answer", steps.load(Ordering::Relaxed));

    let mut client = Client::new(&cluster);
    let known: BTreeSet<String> =
        works.into_iter().flat_map(|work| work.directories.into_iter().chain(work.files)).collect();
    // An outcome that EIO left open is settled as soon as both servers are there.
    wait_until("each entry is one that somebody knows", || names(&client.entries("")) == known);
    for entry in client.entries("") {
        let name = String::from_utf8(entry.name).expect("own names");
        assert_eq!(client.attributes(&name).map(|found| found.ino), Ok(entry.ino), "{name} does not resolve");
        let is_directory = entry.kind == weir_wire::FileKind::Directory;
        assert_eq!(client.remove(&name, is_directory), Reply::Done, "{name}");
    }
    is_empty(&cluster);
}

#[test]
fn a_server_whose_peer_is_gone_answers_within_its_bound_and_goes_on() {
    let mut cluster = Cluster::start(&dir(2));
    wait_until("the servers know each other", || cluster.status(0)["peers"][0]["age_seconds"].is_f64());
    let mut client = Client::new(&cluster);
    let made = |client: &mut Client, name: &str| match client.make(name) {
        Reply::Attributes(attributes) => attributes.ino.home(),
        other => panic!("{other:?}"),
    };
    let there =
        (0..100).map(|number| format!("d{number}")).find(|name| made(&mut client, name) == ServerId(1));
    let there = there.expect("a directory on the other server");
    let here =
        (100..200).map(|number| format!("d{number}")).find(|name| made(&mut client, name) == ServerId(0));
    let here = here.expect("a directory on this server");
    cluster.kill_server(1);
    assert_eq!(client.remove(&here, true), Reply::Done, "what needs only this server is done");
    assert_eq!(client.remove(&there, true), Reply::Failed(EIO), "what needs the other one fails in time");
    let ages = cluster.status(0)["peers"].clone();
    assert_eq!(ages[0]["server"], 1);
    assert!(ages[0]["age_seconds"].as_f64().is_some_and(|age| age > 1.0), "{ages}");
    cluster.start_server(1);
    wait_until("the removal is carried out after all", || client.attributes(&there) == Err(ENOENT));
    wait_until("the peer is heard again", || {
        cluster.status(0)["peers"][0]["age_seconds"].as_f64().is_some_and(|age| age < 1.0)
    });
}

#[test]
fn servers_hear_of_each_other_every_interval() {
    let cluster = Cluster::start(&format!("lambda_milliseconds = 20\n{}", ram(3, "64MiB")));
    for server in 0..3 {
        wait_until("it has heard of both others", || {
            let peers = cluster.status(server)["peers"].clone();
            let peers = peers.as_array().expect("peers");
            let others: Vec<u64> = peers.iter().filter_map(|peer| peer["server"].as_u64()).collect();
            let expected: Vec<u64> = (0..3).filter(|&other| other != server as u64).collect();
            assert_eq!(others, expected);
            peers.iter().all(|peer| peer["age_seconds"].as_f64().is_some_and(|age| age < 5.0))
        });
    }
    let addresses: Vec<_> = (0..3).map(|server| cluster.address(server)).collect();
    wait_until("each server can name all", || {
        let known = |server| match cluster.root(server).reply(&Request::Cluster) {
            Reply::Cluster(known) => known.servers,
            other => panic!("{other:?}"),
        };
        (0..3).all(|server| known(server) == addresses)
    });
}

/// Reports of some hundred jobs were once too large to be taken, and servers heard no more of each other.
#[test]
fn servers_with_thousands_of_jobs_still_hear_of_each_other() {
    let cluster = Cluster::start(&ram(2, "64MiB"));
    let name = |number: usize| format!("{number:0>100}");
    for number in 0..3_000 {
        let claims = Claims { job: name(number), user: name(number), group: name(number), ..claims(1000) };
        let credential = key().mint(claims);
        drop([0, 1].map(|server| cluster.line(server, Transport::Unix, &credential)));
    }
    for server in [0, 1] {
        let uptime = || cluster.status(server)["uptime_seconds"].as_f64().expect("seconds");
        let begun = uptime();
        wait_until("there is a report that began after all jobs were there", || {
            let age = cluster.status(server)["peers"][0]["age_seconds"].as_f64();
            age.is_some_and(|age| uptime() - begun > 0.5 && age < 0.4)
        });
    }
}
