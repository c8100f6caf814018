//! A real store in a fresh directory, test programs in C, and ways to run them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};
use weir_client::wire::{Claims, Role, SiteKey};

/// Bound on everything that is waited for: far above what it takes, so that only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a process may take to end when it is asked to.
const FAREWELL: Duration = Duration::from_secs(10);
/// The prefix of the store where no mount is used.
pub(crate) const PREFIX: &str = "/weir-of-tests";

/// Programs of this workspace, and the library, as cargo built them.
struct Built {
    folder: PathBuf,
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        // target/<profile>/deps/<this test>
        let own = std::env::current_exe().expect("a path");
        let folder = own.ancestors().nth(2).expect("inside the target folder").to_path_buf();
        let mut command = Command::new(env!("CARGO"));
        command.args(["build", "--quiet", "-p", "weir-server", "-p", "weir-mount", "-p", "weir-preload"]);
        if folder.ends_with("release") {
            command.arg("--release");
        }
        command.arg("--manifest-path").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
        assert!(command.status().expect("cargo runs").success(), "the programs cannot be built");
        Built { folder }
    })
}

/// The preload library.
pub(crate) fn library() -> PathBuf {
    built().folder.join("libweir_preload.so")
}

/// Whether this machine can mount; says why not.
pub(crate) fn can_mount() -> bool {
    // SAFETY: it has no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let can = Path::new("/dev/fuse").exists() && is_root;
    if !can {
        eprintln!("skipped: these tests mount as root through /dev/fuse");
    }
    can
}

/// Compiles `tests/programs/NAME.c` with further options.
pub(crate) fn compile(name: &str, folder: &Path, options: &[&str]) -> PathBuf {
    let program = folder.join(format!("{name}-{}", options.len()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
    let compiled = Command::new("gcc")
        .args(["-Wno-unused-result", "-pthread", "-o"])
        .arg(&program)
        .args(options)
        .arg(source)
        .status()
        .expect("gcc is there");
    assert!(compiled.success(), "{name}.c does not compile");
    program
}

/// How a program reaches the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Through the mount and the library.
    Preload,
    /// Through the library alone.
    Prefix,
}

/// A running store with a mount where the machine can mount.
pub(crate) struct Store {
    folder: tempfile::TempDir,
    servers: Vec<Child>,
    mount: Option<Child>,
}

impl Store {
    /// Starts two servers of two memory targets each.
    pub(crate) fn start(with_mount: bool) -> Store {
        let folder = tempfile::tempdir().expect("a fresh directory");
        let path = folder.path();
        // SAFETY: neither has arguments or fails.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        let key = SiteKey::new([7; 32]);
        write_secret(&path.join("site.key"), &key.to_hex());
        for (name, role) in [("user", Role::User), ("mount", Role::Mount)] {
            write_secret(&path.join(format!("{name}.json")), &key.mint(claims(uid, gid, role)).to_json());
        }
        let target = "[[server.target]]\nbackend = \"ram\"\ncapacity = \"256MiB\"\n";
        let server =
            format!("[[server]]\nlisten = \"127.0.0.1:0\"\ncontrol = \"127.0.0.1:0\"\n{target}{target}");
        let config =
            format!("version = 1\npolicy = \"size-fair\"\nlambda_milliseconds = 100\n{server}{server}");
        fs::write(path.join("cluster.toml"), config).expect("a configuration");
        fs::create_dir(path.join("counters")).expect("a directory");
        let servers = (0..2).map(|number| start_server(path, number)).collect();
        let mut store = Store { folder, servers, mount: None };
        store.write_addresses();
        if with_mount {
            store.mount = Some(store.start_mount());
        }
        store
    }

    fn write_addresses(&self) {
        let addresses: Vec<serde_json::Value> = (0..self.servers.len())
            .map(|number| {
                let path = self.folder.path().join(format!("servers/{number}/address.json"));
                serde_json::from_str(&fs::read_to_string(path).expect("an address")).expect("JSON")
            })
            .collect();
        let document = serde_json::json!({ "version": 1, "servers": addresses });
        fs::write(self.folder.path().join("cluster.json"), document.to_string()).expect("a file");
    }

    fn start_mount(&self) -> Child {
        fs::create_dir(self.mount_point()).expect("a mount point");
        let mut child = Command::new(built().folder.join("weir-mount"))
            .arg("--cluster")
            .arg(self.folder.path().join("cluster.json"))
            .arg("--credential")
            .arg(self.folder.path().join("mount.json"))
            .arg(self.mount_point())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the mount starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("its first line");
        assert_eq!(line, "ready\n", "the mount did not come up");
        child
    }

    /// A folder of this test.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn mount_point(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    /// Where the store begins for a program that reaches it this way.
    pub(crate) fn root(&self, way: Way) -> PathBuf {
        match way {
            Way::Preload => self.mount_point(),
            Way::Prefix => PathBuf::from(PREFIX),
        }
    }

    /// A command that runs `program` on the store.
    pub(crate) fn command(&self, way: Way, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", library())
            .env("WEIR_CLUSTER", self.folder.path().join("cluster.json"))
            .env("WEIR_CREDENTIAL", self.folder.path().join("user.json"))
            .env("WEIR_COUNTERS", self.folder.path().join("counters"));
        match way {
            Way::Preload => command.env("WEIR_MOUNT", self.mount_point()),
            Way::Prefix => command.env("WEIR_PREFIX", PREFIX),
        };
        command
    }

    /// What all processes since the last call counted, summed: calls by name, and the other figures.
    pub(crate) fn counted(&self) -> std::collections::BTreeMap<String, u64> {
        let mut sums = std::collections::BTreeMap::new();
        for entry in fs::read_dir(self.folder.path().join("counters")).expect("a folder").flatten() {
            let text = fs::read_to_string(entry.path()).expect("a file");
            let figures: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let calls = figures["calls"].as_object().expect("calls").iter();
            let others = figures.as_object().expect("an object").iter().filter(|(name, _)| *name != "calls");
            for (name, count) in calls.chain(others) {
                *sums.entry(name.clone()).or_insert(0) += count.as_u64().expect("a count");
            }
            fs::remove_file(entry.path()).expect("own file");
        }
        sums
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(mount) = &mut self.mount {
            end(mount);
        }
        self.servers.iter_mut().for_each(end);
    }
}

fn claims(uid: u32, gid: u32, role: Role) -> Claims {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    Claims {
        job: "tests".into(),
        user: "tester".into(),
        group: "testers".into(),
        uid,
        gid,
        groups: Vec::new(),
        nodes: 1,
        priority: 1,
        role,
        issued_seconds: now - 60,
        expires_seconds: now + 3600,
    }
}

fn write_secret(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("own file");
}

fn start_server(folder: &Path, number: usize) -> Child {
    let home = folder.join(format!("servers/{number}"));
    fs::create_dir_all(&home).expect("a directory");
    let log = fs::File::create(home.join("log")).expect("a log");
    let mut child = Command::new(built().folder.join("weir-server"))
        .arg("--config")
        .arg(folder.join("cluster.toml"))
        .arg("--home")
        .arg(folder)
        .args(["--server", &number.to_string()])
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the server starts");
    let start = Instant::now();
    while !home.join("address.json").exists() {
        let ended = child.try_wait().expect("a child");
        let log = || fs::read_to_string(home.join("log")).unwrap_or_default();
        assert!(ended.is_none(), "server {number} ended: {}", log());
        assert!(start.elapsed() < PATIENCE, "server {number} does not listen: {}", log());
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// Ends a child that this test started.
fn end(child: &mut Child) {
    // SAFETY: the child was not waited for, so its number is still its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let start = Instant::now();
    while start.elapsed() < FAREWELL {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The output of a command, which is killed when it takes too long.
pub(crate) fn run(command: &mut Command) -> Output {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let process = child.id() as i32;
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if receiver.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            // SAFETY: the child is waited for only after the sender is dropped or used.
            unsafe { libc::kill(process, libc::SIGKILL) };
        }
    });
    let output = child.wait_with_output().expect("its end");
    let _ = sender.send(());
    guard.join().expect("no panic");
    output
}

/// The stdout of a command that must succeed.
pub(crate) fn stdout(command: &mut Command) -> String {
    let output = run(command);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}\n--- stderr\n{errors}", output.status);
    text
}
