//! A store that programs reach through the library, test programs in C, and the ways into the store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_testing::{can_mount, claims, programs, ram, Cluster, Mount};

/// The prefix of the store where no mount is used.
pub(crate) const PREFIX: &str = "/weir-of-tests";

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

/// A way into the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Through the mount and the library.
    Preload,
    /// Through the library alone.
    Prefix,
}

/// The ways that this machine has.
pub(crate) fn ways() -> Vec<Way> {
    if can_mount() {
        vec![Way::Preload, Way::Prefix]
    } else {
        vec![Way::Prefix]
    }
}

/// A running store, with a mount where the test asks for one.
pub(crate) struct Store {
    /// The mount ends before the servers.
    _mount: Option<Mount>,
    cluster: Cluster,
}

impl Store {
    /// Starts two servers of two memory targets each.
    pub(crate) fn start(with_mount: bool) -> Store {
        let cluster = Cluster::start(&ram(2, "256MiB"));
        // SAFETY: the call has no arguments and cannot fail.
        let uid = unsafe { libc::geteuid() };
        cluster.credential("user", claims(uid));
        fs::create_dir(cluster.folder().join("counters")).expect("a directory");
        Store { _mount: with_mount.then(|| cluster.mount("mnt")), cluster }
    }

    /// A folder of this test.
    pub(crate) fn folder(&self) -> &Path {
        self.cluster.folder()
    }

    fn mount_point(&self) -> PathBuf {
        self.cluster.folder().join("mnt")
    }

    /// The root of the store for a program that takes this way.
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
            .env("LD_PRELOAD", programs::preload())
            .env("WEIR_CLUSTER", self.cluster.folder().join("cluster.json"))
            .env("WEIR_CREDENTIAL", self.cluster.folder().join("user.json"))
            .env("WEIR_COUNTERS", self.cluster.folder().join("counters"));
        match way {
            Way::Preload => command.env("WEIR_MOUNT", self.mount_point()),
            Way::Prefix => command.env("WEIR_PREFIX", PREFIX),
        };
        command
    }

    /// The summed counters of all processes since the last call: calls by name, and the other figures.
    pub(crate) fn counted(&self) -> std::collections::BTreeMap<String, u64> {
        let mut sums = std::collections::BTreeMap::new();
        for entry in fs::read_dir(self.cluster.folder().join("counters")).expect("a folder").flatten() {
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
