//! Real servers in a fresh directory, what they say of themselves, and reproducible choices.

// Each test program takes what it needs of this.
#![allow(dead_code)]

mod control;
pub(crate) mod flood;
mod line;

#[allow(unused_imports)]
pub(crate) use control::{get, put, Answer};
#[allow(unused_imports)]
pub(crate) use line::{frame, head, random_client, Connection, File, Line, READ_WRITE};

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_placement::SplitMix64;
use weir_wire::{Claims, Credential, Role, ServerAddress, SiteKey};

/// Bound on everything that is waited for: far above what it takes, so that only a hang meets it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How a connection is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Unix,
    Tcp,
}

/// Servers that end when the test ends.
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
    servers: Vec<Option<Child>>,
    /// What a server may have, as an option of `ulimit`; absent leaves the limits of the test.
    limit: Option<String>,
}

/// One `[[server]]` with `targets` targets; `target` holds their lines.
pub(crate) fn server_toml(targets: usize, target: &str) -> String {
    format!("[[server]]\n{}", format!("[[server.target]]\n{target}\n").repeat(targets))
}

/// Servers of two `ram` targets.
pub(crate) fn ram(servers: usize, capacity: &str) -> String {
    server_toml(2, &format!("backend = \"ram\"\ncapacity = \"{capacity}\"")).repeat(servers)
}

/// Servers of two `dir` targets.
pub(crate) fn dir(servers: usize) -> String {
    server_toml(2, "backend = \"dir\"\ncapacity = \"1GiB\"").repeat(servers)
}

impl Cluster {
    /// Starts every server of a configuration without its `version` line.
    pub(crate) fn start(toml: &str) -> Cluster {
        Cluster::start_within(toml, None)
    }

    /// As [`Cluster::start`], with everything on the file system of `parent`.
    pub(crate) fn start_below(parent: &Path, toml: &str) -> Cluster {
        let folder = tempfile::tempdir_in(parent).expect("a fresh directory");
        Cluster::start_in(folder, toml, None)
    }

    /// As [`Cluster::start`], each server with so many descriptors.
    pub(crate) fn start_limited(toml: &str, descriptors: Option<u32>) -> Cluster {
        Cluster::start_within(toml, descriptors.map(|count| format!("-n {count}")))
    }

    /// As [`Cluster::start`], each server under a limit such as `-v 1048576`, for memory in KiB.
    pub(crate) fn start_within(toml: &str, limit: Option<String>) -> Cluster {
        Cluster::start_in(tempfile::tempdir().expect("a fresh directory"), toml, limit)
    }

    fn start_in(folder: tempfile::TempDir, toml: &str, limit: Option<String>) -> Cluster {
        let key_file = folder.path().join("site.key");
        fs::write(&key_file, key().to_hex()).expect("a key file");
        fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).expect("own file");
        fs::write(folder.path().join("cluster.toml"), format!("version = 1\n{toml}"))
            .expect("a configuration");
        let count = toml.matches("[[server]]").count();
        let mut cluster = Cluster { folder, servers: (0..count).map(|_| None).collect(), limit };
        for server in 0..count {
            cluster.start_server(server);
        }
        cluster
    }

    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// Folder of a server's own files.
    pub(crate) fn home_of(&self, server: usize) -> PathBuf {
        self.folder.path().join(format!("servers/{server}"))
    }

    /// Starts a server, with what it kept.
    pub(crate) fn start_server(&mut self, server: usize) {
        let home = self.home_of(server);
        fs::create_dir_all(&home).expect("a directory");
        let address = home.join("address.json");
        let _ = fs::remove_file(&address);
        let log = fs::File::options().create(true).append(true).open(home.join("log")).expect("a log");
        let script = match &self.limit {
            Some(limit) => format!("ulimit {limit}; exec \"$@\""),
            None => "exec \"$@\"".into(),
        };
        let mut child = Command::new("sh")
            .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_weir-server"), "--config"])
            .arg(self.folder.path().join("cluster.toml"))
            .arg("--home")
            .arg(self.folder.path())
            .args(["--server", &server.to_string()])
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        let began = Instant::now();
        while !address.exists() {
            let ended = child.try_wait().expect("a child");
            assert!(
                ended.is_none() && began.elapsed() < PATIENCE,
                "server {server} does not listen: {}",
                self.log(server)
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        self.servers[server] = Some(child);
    }

    /// Kills a server at once.
    pub(crate) fn kill_server(&mut self, server: usize) {
        if let Some(mut child) = self.servers[server].take() {
            child.kill().expect("a child");
            child.wait().expect("a child");
        }
    }

    /// Whether a server still runs; one that crashed does not.
    pub(crate) fn is_running(&mut self, server: usize) -> bool {
        self.servers[server].as_mut().is_some_and(|child| child.try_wait().expect("a child").is_none())
    }

    /// What a server wrote on stderr.
    pub(crate) fn log(&self, server: usize) -> String {
        fs::read_to_string(self.home_of(server).join("log")).unwrap_or_default()
    }

    /// Where a server listens.
    pub(crate) fn address(&self, server: usize) -> ServerAddress {
        let text = fs::read_to_string(self.home_of(server).join("address.json")).expect("an address");
        serde_json::from_str(&text).expect("a server's address")
    }

    /// A connection that has said nothing yet.
    pub(crate) fn connection(&self, server: usize, transport: Transport) -> Connection {
        let address = self.address(server);
        match transport {
            Transport::Unix => Connection::unix(Path::new(&address.unix.expect("a socket"))),
            Transport::Tcp => Connection::tcp(&address.tcp),
        }
    }

    /// A proved connection of a new client.
    pub(crate) fn line(&self, server: usize, transport: Transport, credential: &Credential) -> Line {
        Line::prove(self.connection(server, transport), credential, line::random_client())
            .unwrap_or_else(|reply| panic!("not welcome: {reply:?}"))
    }

    /// A proved connection of root over the Unix socket.
    pub(crate) fn root(&self, server: usize) -> Line {
        self.line(server, Transport::Unix, &key().mint(claims(0)))
    }

    /// `GET` of a server's control API, as JSON.
    pub(crate) fn show(&self, server: usize, path: &str) -> Value {
        let answer = get(&self.address(server).control, path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).expect("JSON")
    }

    /// `/v1/status` of a server.
    pub(crate) fn status(&self, server: usize) -> Value {
        self.show(server, "/v1/status")
    }

    /// A number of `/v1/status`.
    pub(crate) fn figure(&self, server: usize, name: &str) -> u64 {
        self.status(server)[name].as_u64().unwrap_or_else(|| panic!("{name} is no number"))
    }

    /// Bytes in use on all targets of a server.
    pub(crate) fn used_bytes(&self, server: usize) -> u64 {
        let status = self.status(server);
        let targets = status["targets"].as_array().expect("targets");
        targets.iter().map(|target| target["used_bytes"].as_u64().expect("bytes")).sum()
    }

    /// Waits until `figure` of `/v1/status` is `expected`.
    pub(crate) fn await_figure(&self, server: usize, name: &str, expected: u64) {
        await_until(&format!("{name} is {expected}"), || self.figure(server, name) == expected);
    }

    /// A line of `/proc/PID/status` of a server, in KiB.
    pub(crate) fn memory_kib(&self, server: usize, name: &str) -> u64 {
        let text =
            fs::read_to_string(format!("/proc/{}/status", self.pid(server))).expect("a running server");
        let line = text.lines().find(|line| line.starts_with(name)).expect("a line of that name");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
    }

    pub(crate) fn pid(&self, server: usize) -> u32 {
        self.servers[server].as_ref().expect("a running server").id()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for server in 0..self.servers.len() {
            if std::thread::panicking() {
                eprintln!("log of server {server}:\n{}", self.log(server));
            }
            self.kill_server(server);
        }
    }
}

/// Waits until `condition` holds.
pub(crate) fn await_until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The key of every site here.
pub(crate) fn key() -> SiteKey {
    SiteKey::new([7; 32])
}

/// Claims of an ordinary job of `uid`.
pub(crate) fn claims(uid: u32) -> Claims {
    Claims {
        job: format!("job-of-{uid}"),
        user: format!("user-{uid}"),
        group: format!("group-{uid}"),
        uid,
        gid: uid,
        groups: vec![uid],
        nodes: 1,
        priority: 1,
        role: Role::User,
        issued_seconds: 0,
        expires_seconds: u64::MAX / 2,
    }
}

/// A generator of reproducible choices.
#[derive(Clone)]
pub(crate) struct Choices(SplitMix64);

impl Choices {
    /// From `WEIR_SEED`, else from the clock; printed.
    pub(crate) fn new() -> Choices {
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let fresh = clock.map_or(1, |elapsed| elapsed.as_nanos() as u64);
        let seed = std::env::var("WEIR_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(fresh);
        println!("WEIR_SEED={seed}");
        Choices(SplitMix64(seed))
    }

    /// Another generator that goes its own way.
    pub(crate) fn branch(&mut self) -> Choices {
        Choices(SplitMix64(self.number()))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound.max(1)
    }

    pub(crate) fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| (self.number() >> 32) as u8).collect()
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.draw()
    }
}
