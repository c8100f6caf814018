//! Real servers in a fresh directory. They end when the test ends, and a server that ended before fails the test.

use crate::configuration::server_count;
use crate::connection::{Connection, Transport};
use crate::control::{self, Caller};
use crate::credentials::{administrator, claims, key, write_private};
use crate::line::{random_client, Line};
use crate::processes::{wait_until, PATIENCE};
use crate::programs;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use weir_wire::{Claims, ClientId, Credential, ServerAddress};

/// The servers of one site, each started and killed by its number.
pub struct Cluster {
    folder: tempfile::TempDir,
    /// The process of each server; none where the test has killed it.
    servers: Vec<Option<Child>>,
    /// An option of `ulimit` for each server; absent leaves the limits of the test.
    limit: Option<String>,
}

/// Start and end.
impl Cluster {
    /// Starts every server of a configuration without its `version` line.
    pub fn start(toml: &str) -> Cluster {
        Cluster::start_in(tempfile::tempdir().expect("a fresh directory"), toml, None)
    }

    /// As [`Cluster::start`], with everything on the file system of `parent`.
    pub fn start_below(parent: &Path, toml: &str) -> Cluster {
        Cluster::start_in(tempfile::tempdir_in(parent).expect("a fresh directory"), toml, None)
    }

    /// As [`Cluster::start`], each server under a limit of `ulimit`: `-n 64` for descriptors, `-v 1048576` for memory in KiB.
    pub fn start_within(toml: &str, limit: &str) -> Cluster {
        Cluster::start_in(tempfile::tempdir().expect("a fresh directory"), toml, Some(limit.into()))
    }

    fn start_in(folder: tempfile::TempDir, toml: &str, limit: Option<String>) -> Cluster {
        // Other users reach the mounts below it.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        write_private(&folder.path().join("site.key"), &key().to_hex(), None);
        fs::write(folder.path().join("cluster.toml"), format!("version = 1\n{toml}"))
            .expect("a configuration");
        let servers = (0..server_count(toml)).map(|_| None).collect();
        let mut cluster = Cluster { folder, servers, limit };
        for server in 0..cluster.count() {
            cluster.start_server(server);
        }
        cluster.write_addresses();
        cluster
    }

    /// Starts a server with everything that it kept, and waits until it listens.
    pub fn start_server(&mut self, server: usize) {
        let home = self.home_of(server);
        fs::create_dir_all(&home).expect("a directory");
        let address = home.join("address.json");
        let _ = fs::remove_file(&address);
        let log = fs::File::options().create(true).append(true).open(home.join("log")).expect("a log");
        let child = self
            .server_command()
            .arg("--config")
            .arg(self.folder.path().join("cluster.toml"))
            .arg("--home")
            .arg(self.folder.path())
            .args(["--server", &server.to_string(), "--first-run"])
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        self.servers[server] = Some(child);
        let began = Instant::now();
        while !address.exists() {
            self.assert_running(server);
            assert!(began.elapsed() < PATIENCE, "server {server} does not listen: {}", self.log(server));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts one more server of so many targets, and tells server 0 that it joins. The addresses for clients are written before.
    pub fn join_server(&mut self, targets: usize, backend: &str, capacity: &str) -> control::Answer {
        let path = self.folder.path().join("cluster.toml");
        let before = fs::read_to_string(&path).expect("a configuration");
        let table = crate::configuration::servers(1, targets, backend, capacity);
        fs::write(&path, before + &table).expect("a configuration");
        let number = self.count();
        self.servers.push(None);
        self.start_server(number);
        self.write_addresses();
        let address = self.address(number);
        let target = serde_json::json!({ "backend": backend, "capacity": capacity });
        let body = serde_json::json!({
            "listen": address.tcp, "control": address.control, "target": vec![target; targets],
        });
        self.put(0, &format!("/v1/servers/{number}"), &body.to_string())
    }

    /// `PUT` at a server's control API, as an administrator.
    pub fn put(&self, server: usize, path: &str, body: &str) -> control::Answer {
        control::put(&self.address(server), path, body, Caller::Sealed(&administrator()))
    }

    fn server_command(&self) -> Command {
        let Some(limit) = &self.limit else { return Command::new(programs::server()) };
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "sh"]).arg(programs::server());
        command
    }

    /// Writes `cluster.json` from the addresses of the servers; a restarted server has others.
    pub fn write_addresses(&self) {
        let addresses: Vec<Value> = (0..self.count())
            .map(|server| serde_json::from_str(&self.address_text(server)).expect("JSON"))
            .collect();
        let document = serde_json::json!({ "version": 1, "servers": addresses });
        fs::write(self.cluster_file(), document.to_string()).expect("a file");
    }

    /// Kills a server at once. One that has ended already, by a signal of the test, is forgotten.
    pub fn kill_server(&mut self, server: usize) {
        if let Some(mut child) = self.servers[server].take() {
            child.kill().expect("a child");
            child.wait().expect("a child");
        }
    }

    /// Panics with exit status and log of a server that ended by itself.
    pub fn assert_running(&mut self, server: usize) {
        if let Some(status) = self.status_of_ended(server) {
            panic!("server {server} ended by itself: {status}; its log:\n{}", self.log(server));
        }
    }

    fn status_of_ended(&mut self, server: usize) -> Option<ExitStatus> {
        self.servers[server].as_mut().and_then(|child| child.try_wait().expect("a child"))
    }
}

/// Files and processes.
impl Cluster {
    /// Number of servers.
    pub fn count(&self) -> usize {
        self.servers.len()
    }

    /// The folder of the test: home of the site, and place for the test's own files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Path of `cluster.json`.
    pub fn cluster_file(&self) -> PathBuf {
        self.folder.path().join("cluster.json")
    }

    /// Folder of a server's own files.
    pub fn home_of(&self, server: usize) -> PathBuf {
        self.folder.path().join(format!("servers/{server}"))
    }

    /// Writes the credential `NAME.json` for these claims, or renews it; only its user may read the file.
    pub fn credential(&self, name: &str, claims: Claims) -> PathBuf {
        let path = self.folder.path().join(format!("{name}.json"));
        let owner = claims.uid;
        write_private(&path, &key().mint(claims).to_json(), Some(owner));
        path
    }

    /// The text that a server has written on stderr.
    pub fn log(&self, server: usize) -> String {
        fs::read_to_string(self.home_of(server).join("log")).unwrap_or_default()
    }

    /// Process number of a running server.
    pub fn pid(&self, server: usize) -> u32 {
        self.servers[server].as_ref().expect("a running server").id()
    }

    /// A line of `/proc/PID/status` of a server, in KiB.
    pub fn memory_kib(&self, server: usize, name: &str) -> u64 {
        let text =
            fs::read_to_string(format!("/proc/{}/status", self.pid(server))).expect("a running server");
        let line = text.lines().find(|line| line.starts_with(name)).expect("a line of that name");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
    }
}

/// Connections.
impl Cluster {
    fn address_text(&self, server: usize) -> String {
        fs::read_to_string(self.home_of(server).join("address.json")).expect("an address")
    }

    /// The addresses on which a server listens.
    pub fn address(&self, server: usize) -> ServerAddress {
        serde_json::from_str(&self.address_text(server)).expect("a server's address")
    }

    /// A connection that has sent nothing yet.
    pub fn connection(&self, server: usize, transport: Transport) -> Connection {
        let address = self.address(server);
        match transport {
            Transport::Unix => Connection::unix(Path::new(&address.unix.expect("a socket"))),
            Transport::Tcp => Connection::tcp(&address.tcp, address.server),
        }
    }

    /// A proved connection of a new client.
    pub fn line(&self, server: usize, transport: Transport, credential: &Credential) -> Line {
        self.line_of(server, transport, credential, random_client())
    }

    /// A proved connection of a client that may have been there before.
    pub fn line_of(
        &self,
        server: usize,
        transport: Transport,
        credential: &Credential,
        client: ClientId,
    ) -> Line {
        Line::prove(self.connection(server, transport), credential, client)
            .unwrap_or_else(|reply| panic!("not welcome: {reply:?}"))
    }

    /// A proved connection of root over the Unix socket.
    pub fn root(&self, server: usize) -> Line {
        self.line(server, Transport::Unix, &key().mint(claims(0)))
    }
}

/// Figures of the control API.
impl Cluster {
    /// `GET` of a server's control API, as JSON.
    pub fn show(&self, server: usize, path: &str) -> Value {
        let answer = control::get(&self.address(server).control, path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).expect("JSON")
    }

    /// `PUT` of `/v1/targets/…` at a server's control API, as an administrator.
    pub fn change_target(&self, server: usize, path: &str, body: &str) -> control::Answer {
        self.put(server, &format!("/v1/targets/{path}"), body)
    }

    /// Objects on a target that retires, by all homes of files; none while a home does not know that it retires.
    pub fn objects_on(&self, target: &str) -> Option<u64> {
        let of_home = |server: usize| {
            let leaving = self.status(server)["leaving"].as_array().expect("a list").clone();
            let known = leaving.iter().find(|known| known["target"] == target)?;
            known["objects"].as_u64()
        };
        (0..self.count()).map(of_home).sum()
    }

    /// `/v1/status` of a server.
    pub fn status(&self, server: usize) -> Value {
        self.show(server, "/v1/status")
    }

    /// A number of `/v1/status`.
    pub fn figure(&self, server: usize, name: &str) -> u64 {
        self.status(server)[name].as_u64().unwrap_or_else(|| panic!("{name} is no number"))
    }

    /// Bytes in use on all targets of a server.
    pub fn used_bytes(&self, server: usize) -> u64 {
        let status = self.status(server);
        let targets = status["targets"].as_array().expect("targets");
        targets.iter().map(|target| target["used_bytes"].as_u64().expect("bytes")).sum()
    }

    /// Waits until a number of `/v1/status` is `expected`.
    pub fn await_figure(&self, server: usize, name: &str, expected: u64) {
        wait_until(&format!("{name} is {expected}"), || self.figure(server, name) == expected);
    }
}

impl Drop for Cluster {
    /// Kills every server. The log of a server that ended by itself is always told, the others' where the test fails.
    fn drop(&mut self) {
        let mut ended = String::new();
        for server in 0..self.count() {
            let status = self.status_of_ended(server);
            if let Some(status) = status {
                ended +=
                    &format!("server {server} ended by itself: {status}; its log:\n{}\n", self.log(server));
            } else if std::thread::panicking() {
                eprintln!("log of server {server}, which ran to the end:\n{}", self.log(server));
            }
            self.kill_server(server);
        }
        match std::thread::panicking() {
            true => eprint!("{ended}"),
            false => assert!(ended.is_empty(), "{ended}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::ram;
    use rustix::process::{kill_process, Pid, Signal};
    use std::panic::{catch_unwind, AssertUnwindSafe};

    fn words(panic: Box<dyn std::any::Any + Send>) -> String {
        *panic.downcast::<String>().expect("a text")
    }

    /// A server panicked, and the only words of the test were that server 1 had been silent for 20 s.
    #[test]
    fn a_server_that_ends_by_itself_fails_the_test_with_its_status_and_log() {
        let mut cluster = Cluster::start(&ram(2, "16MiB"));
        cluster.assert_running(1);
        let pid = Pid::from_raw(cluster.pid(1) as i32).expect("a process");
        fs::write(cluster.home_of(1).join("log"), "last words").expect("a log");
        kill_process(pid, Signal::ABORT).expect("own child");
        wait_until("the server has ended", || cluster.status_of_ended(1).is_some());

        let noticed = catch_unwind(AssertUnwindSafe(|| cluster.assert_running(1))).expect_err("it ended");
        let unnoticed = catch_unwind(AssertUnwindSafe(|| drop(cluster))).expect_err("it ended");
        for message in [words(noticed), words(unnoticed)] {
            for part in ["server 1 ended by itself", "SIGABRT", "last words"] {
                assert!(message.contains(part), "{part}: {message}");
            }
        }
    }

    #[test]
    fn a_killed_server_starts_again_and_fails_no_test() {
        let mut cluster = Cluster::start(&ram(1, "16MiB"));
        cluster.kill_server(0);
        cluster.start_server(0);
        assert_eq!(cluster.figure(0, "inodes"), 1);
        cluster.kill_server(0);
    }
}
