//! A real store in a fresh directory: servers that end when the test ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use weir_client::wire::{Claims, Role, SiteKey};
use weir_client::{Settings, Store, TransportChoice};
use weir_placement::SplitMix64;

/// Bound on everything that is waited for: far above what it takes, so that only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Running servers.
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
    servers: Vec<Option<Child>>,
}

/// A generator of reproducible choices; each test prints its seed.
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
        Choices(SplitMix64(self.next()))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| (self.next() >> 32) as u8 | 1).collect()
    }

    fn next(&mut self) -> u64 {
        self.0.draw()
    }
}

/// The server program, built beside this test.
fn server_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test = std::env::current_exe().expect("this test");
        let folder = test.ancestors().nth(2).expect("deps lies in the folder of the profile");
        let program = folder.join("weir-server");
        let mut command = Command::new(env!("CARGO"));
        // Of the whole workspace: alone it has other features of its dependencies, so that after a test run of the workspace
        // cargo would compile the server once more, in the midst of a test.
        command.args(["build", "--quiet", "--workspace", "--bin", "weir-server"]);
        if folder.ends_with("release") {
            command.arg("--release");
        }
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
        let built = command.status().expect("cargo runs");
        assert!(built.success() && program.exists(), "{} cannot be built", program.display());
        program
    })
}

impl Cluster {
    /// `count` servers of two targets each; `backend` is `ram` or `dir`.
    pub(crate) fn start(count: u16, backend: &str, capacity: &str) -> Cluster {
        Cluster::start_targets(count, 2, backend, capacity, 100)
    }

    /// `count` servers of `targets` targets each, which tell each other how they are once in `lambda` milliseconds.
    pub(crate) fn start_targets(
        count: u16,
        targets: u16,
        backend: &str,
        capacity: &str,
        lambda: u32,
    ) -> Cluster {
        let folder = tempfile::tempdir().expect("a fresh directory");
        let key_file = folder.path().join("site.key");
        fs::write(&key_file, key().to_hex()).expect("a key file");
        fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).expect("own file");
        let mut config = format!("version = 1\npolicy = \"size-fair\"\nlambda_milliseconds = {lambda}\n");
        for _ in 0..count {
            config += "[[server]]\nlisten = \"127.0.0.1:0\"\ncontrol = \"127.0.0.1:0\"\n";
            for _ in 0..targets {
                config += &format!("[[server.target]]\nbackend = \"{backend}\"\ncapacity = \"{capacity}\"\n");
            }
        }
        fs::write(folder.path().join("cluster.toml"), config).expect("a configuration");
        let mut cluster = Cluster { folder, servers: (0..count).map(|_| None).collect() };
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
        let mut child = Command::new(server_program())
            .arg("--config")
            .arg(self.folder.path().join("cluster.toml"))
            .arg("--home")
            .arg(self.folder.path())
            .args(["--server", &number.to_string()])
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        let began = Instant::now();
        while !address.exists() {
            let ended = child.try_wait().expect("a child");
            let log = fs::read_to_string(home.join("log")).unwrap_or_default();
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "server {number} does not listen: {log}");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.servers[usize::from(number)] = Some(child);
    }

    /// Kills server `number` at once.
    pub(crate) fn kill_server(&mut self, number: u16) {
        if let Some(mut child) = self.servers[usize::from(number)].take() {
            child.kill().expect("a child");
            child.wait().expect("a child");
        }
    }

    /// Writes cluster.json from what the servers say of themselves; after a restart the ports are others.
    pub(crate) fn write_addresses(&self) {
        let addresses: Vec<String> = (0..self.servers.len())
            .map(|number| self.folder.path().join(format!("servers/{number}/address.json")))
            .map(|path| fs::read_to_string(path).expect("an address"))
            .collect();
        let document = format!(r#"{{"version":1,"servers":[{}]}}"#, addresses.join(","));
        fs::write(self.folder.path().join("cluster.json"), document).expect("a file");
    }

    /// A store of its own client id, as another process would have it.
    pub(crate) fn store(&self, transport: TransportChoice) -> Store {
        // The same for all: another thread's store may be reading it.
        if !self.credential("credential").exists() {
            self.grant("credential", u64::MAX / 2);
        }
        self.store_of("credential", transport)
    }

    fn credential(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.json"))
    }

    /// Makes or renews a credential that holds until this moment of Unix time, in seconds.
    pub(crate) fn grant(&self, name: &str, expires_seconds: u64) {
        let claims = Claims {
            job: "test".into(),
            user: "root".into(),
            group: "root".into(),
            uid: 0,
            gid: 0,
            groups: vec![],
            nodes: 1,
            priority: 1,
            role: Role::User,
            issued_seconds: 0,
            expires_seconds,
        };
        let credential = self.credential(name);
        let whole = credential.with_extension("new");
        fs::write(&whole, key().mint(claims).to_json()).expect("a file");
        fs::rename(&whole, &credential).expect("a file");
    }

    /// The same for the credential of this name.
    pub(crate) fn store_of(&self, credential: &str, transport: TransportChoice) -> Store {
        let credential = self.credential(credential);
        let mut settings = Settings::explicit(self.folder.path().join("cluster.json"), credential, None);
        settings.transport = transport;
        settings.silence = Duration::from_secs(20);
        Store::new(settings)
    }
}

fn key() -> SiteKey {
    SiteKey::new([7; 32])
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for number in 0..self.servers.len() {
            self.kill_server(number as u16);
        }
    }
}
