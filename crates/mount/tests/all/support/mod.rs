//! A real store in a fresh directory: servers, credentials and mounts, all ended when the test ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};
use weir_client::wire::{Claims, Role, SiteKey};

/// Bound on everything that is waited for: far above what it takes, so that only a hang meets it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// A user that every Debian-like system has.
pub(crate) const NOBODY: u32 = 65534;

/// Running servers.
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
    key: SiteKey,
    servers: Vec<Option<Child>>,
}

/// A running mount.
pub(crate) struct Mount {
    child: Child,
    path: PathBuf,
}

/// Whether this machine can mount; says why not.
pub(crate) fn can_mount() -> bool {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: there is no /dev/fuse");
        return false;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: these tests mount as root");
        return false;
    }
    true
}

/// Waits until `done`, bounded.
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Shell function for what must fail: `sh -e` goes on after `! command`, whatever comes of it.
const REFUSED: &str =
    "refused() { if \"$@\" >/dev/null 2>&1; then echo \"not refused: $*\" >&2; exit 1; fi; }\n";

/// Runs `script` by `sh` in `folder`, where `refused COMMAND` is for what must fail; panics when it fails.
pub(crate) fn shell(folder: &Path, script: &str) -> String {
    shell_by(Command::new("sh"), folder, script)
}

/// As [`shell`], by a command that ends in `sh`.
pub(crate) fn shell_by(mut command: Command, folder: &Path, script: &str) -> String {
    checked(command.arg("-euc").arg(format!("{REFUSED}{script}")).current_dir(folder), script)
}

/// `program` without the rights of root: as the user [`NOBODY`] with these supplementary groups.
pub(crate) fn as_nobody(program: &Path, groups: &[u32]) -> Command {
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={NOBODY}")).arg(format!("--regid={NOBODY}"));
    match groups {
        [] => command.arg("--clear-groups"),
        groups => {
            let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
            command.arg(format!("--groups={}", groups.join(",")))
        }
    };
    command.arg("--").arg(program);
    command
}

/// Runs `script` by Python in `folder`; panics with its output when it fails.
pub(crate) fn python(folder: &Path, script: &str) -> String {
    checked(Command::new("python3").args(["-c", script]).current_dir(folder), script)
}

/// Runs a command for its stdout; panics with its output when it fails or takes too long.
pub(crate) fn checked(command: &mut Command, what: &str) -> String {
    let output = bounded(command);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}\n{}\n--- stdout\n{stdout}\n--- stderr\n{stderr}", output.status);
    stdout
}

/// The output of a command that is killed when it takes too long.
pub(crate) fn bounded(command: &mut Command) -> Output {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let pid = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    let guard = std::thread::spawn(move || {
        if receiver.recv_timeout(PATIENCE).is_err() {
            send(pid, rustix::process::Signal::KILL);
        }
    });
    let mut stdout = child.stdout.take().expect("piped");
    let mut stderr = child.stderr.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stderr, &mut bytes);
        bytes
    });
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut stdout, &mut bytes).expect("its output");
    let status = child.wait().expect("its end");
    let _ = sender.send(());
    guard.join().expect("no panic");
    Output { status, stdout: bytes, stderr: reader.join().expect("no panic") }
}

fn send(pid: u32, signal: rustix::process::Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// The server program, built beside the mount program.
fn server_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let mount = Path::new(env!("CARGO_BIN_EXE_weir-mount"));
        let program = mount.with_file_name("weir-server");
        let mut command = Command::new(env!("CARGO"));
        // Of the whole workspace: alone it has other features of its dependencies, so that after a test run of the workspace
        // cargo would compile the server once more, in the midst of a test.
        command.args(["build", "--quiet", "--workspace", "--bin", "weir-server"]);
        if mount.parent().is_some_and(|folder| folder.ends_with("release")) {
            command.arg("--release");
        }
        command.arg("--manifest-path").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
        let built = command.status().expect("cargo runs");
        assert!(built.success() && program.exists(), "{} cannot be built", program.display());
        program
    })
}

impl Cluster {
    /// `count` servers of two memory targets each.
    pub(crate) fn start(count: u16) -> Cluster {
        Cluster::start_with(count, "size-fair", "backend = \"ram\"\ncapacity = \"256MiB\"\n")
    }

    /// `count` servers of two targets each.
    pub(crate) fn start_with(count: u16, policy: &str, target: &str) -> Cluster {
        let folder = tempfile::tempdir().expect("a fresh directory");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        let key = SiteKey::new([7; 32]);
        let key_file = folder.path().join("site.key");
        fs::write(&key_file, key.to_hex()).expect("a key file");
        fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).expect("own file");
        let mut config = format!("version = 1\npolicy = \"{policy}\"\nlambda_milliseconds = 100\n");
        for _ in 0..count {
            config += "[[server]]\nlisten = \"127.0.0.1:0\"\ncontrol = \"127.0.0.1:0\"\n";
            for _ in 0..2 {
                config += &format!("[[server.target]]\n{target}");
            }
        }
        fs::write(folder.path().join("cluster.toml"), config).expect("a configuration");
        let servers = (0..count).map(|_| None).collect();
        let mut cluster = Cluster { folder, key, servers };
        for server in 0..count {
            cluster.start_server(server);
        }
        cluster.write_addresses();
        cluster
    }

    /// Starts server `number`, with what it kept.
    pub(crate) fn start_server(&mut self, number: u16) {
        let home = self.folder.path().join(format!("servers/{number}"));
        fs::create_dir_all(&home).expect("a directory");
        let address = home.join("address.json");
        let _ = fs::remove_file(&address);
        let log = fs::File::options().create(true).append(true).open(home.join("log")).expect("a log");
        let child = Command::new(server_program())
            .arg("--config")
            .arg(self.folder.path().join("cluster.toml"))
            .arg("--home")
            .arg(self.folder.path())
            .args(["--server", &number.to_string()])
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        self.servers[usize::from(number)] = Some(child);
        let log = home.join("log");
        wait_until("the server listens", || {
            let ended =
                self.servers[usize::from(number)].as_mut().expect("started").try_wait().expect("a child");
            assert!(
                ended.is_none(),
                "server {number} ended: {}",
                fs::read_to_string(&log).unwrap_or_default()
            );
            address.exists()
        });
    }

    /// Kills server `number` at once.
    pub(crate) fn kill_server(&mut self, number: u16) {
        if let Some(mut child) = self.servers[usize::from(number)].take() {
            child.kill().expect("a child");
            child.wait().expect("a child");
        }
    }

    /// Writes cluster.json from what the servers say of themselves.
    pub(crate) fn write_addresses(&self) {
        let addresses: Vec<serde_json::Value> = (0..self.servers.len())
            .map(|number| {
                let path = self.folder.path().join(format!("servers/{number}/address.json"));
                serde_json::from_str(&fs::read_to_string(path).expect("an address")).expect("JSON")
            })
            .collect();
        let document = serde_json::json!({ "version": 1, "servers": addresses });
        fs::write(self.cluster_file(), document.to_string()).expect("a file");
    }

    /// Where everything is.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Path of cluster.json.
    pub(crate) fn cluster_file(&self) -> PathBuf {
        self.folder.path().join("cluster.json")
    }

    /// Mints a credential, readable by `uid` alone.
    pub(crate) fn credential(&self, job: &str, uid: u32, role: Role) -> PathBuf {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
        let claims = Claims {
            job: job.into(),
            user: format!("user{uid}"),
            group: "group".into(),
            uid,
            gid: uid,
            groups: Vec::new(),
            nodes: 1,
            priority: 1,
            role,
            issued_seconds: now - 60,
            expires_seconds: now + 3600,
        };
        let path = self.folder.path().join(format!("{job}-{uid}.json"));
        fs::write(&path, self.key.mint(claims).to_json()).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("own file");
        std::os::unix::fs::chown(&path, Some(uid), Some(uid)).expect("root may");
        path
    }

    /// Mounts for all users at `name`.
    pub(crate) fn mount(&self, name: &str) -> Mount {
        self.mount_with(name, &[])
    }

    /// Mounts for all users at `name`, with further variables in the mount's environment.
    pub(crate) fn mount_with(&self, name: &str, variables: &[(&str, &str)]) -> Mount {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).expect("a mount point");
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir-mount"));
        command.envs(variables.iter().copied());
        Mount::start(command, self, &self.credential("mount", 0, Role::Mount), path)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for number in 0..self.servers.len() {
            if let Some(mut child) = self.servers[number].take() {
                send(child.id(), rustix::process::Signal::TERM);
                if !ended_within(&mut child, Duration::from_secs(10)) {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
            if std::thread::panicking() {
                let log = self.folder.path().join(format!("servers/{number}/log"));
                eprintln!("--- log of server {number}\n{}", fs::read_to_string(log).unwrap_or_default());
            }
        }
    }
}

fn ended_within(child: &mut Child, bound: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < bound {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

impl Mount {
    /// Runs a mount program (perhaps behind another that drops rights) and waits until it is ready.
    pub(crate) fn start(mut command: Command, cluster: &Cluster, credential: &Path, path: PathBuf) -> Mount {
        let mut child = command
            .arg("--cluster")
            .arg(cluster.cluster_file())
            .arg("--credential")
            .arg(credential)
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the mount starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("its first line");
        let mount = Mount { child, path };
        assert_eq!(line, "ready\n", "the mount did not come up");
        mount
    }

    /// The mount point.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A signal to the process.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        send(self.child.id(), signal);
    }

    /// Waits for the end of the process; answers its exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        assert!(ended_within(&mut self.child, PATIENCE), "the mount does not end");
        self.child.wait().expect("a child").code()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        send(self.child.id(), rustix::process::Signal::TERM);
        if !ended_within(&mut self.child, Duration::from_secs(10)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = rustix::mount::unmount(&self.path, rustix::mount::UnmountFlags::DETACH);
    }
}
