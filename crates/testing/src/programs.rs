//! Programs and libraries of this workspace, as cargo builds them beside the test that runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A program or library that tests start.
struct Artifact {
    /// The package before whose integration tests cargo builds it; cargo promises that for programs, not for libraries.
    owner: Option<&'static str>,
    file: &'static str,
    /// The file, once it is known to be built.
    built: OnceLock<PathBuf>,
}

static SERVER: Artifact =
    Artifact { owner: Some("weir-server"), file: "weir-server", built: OnceLock::new() };
static MOUNT: Artifact = Artifact { owner: Some("weir-mount"), file: "weir-mount", built: OnceLock::new() };
static PRELOAD: Artifact = Artifact { owner: None, file: "libweir_preload.so", built: OnceLock::new() };

/// The options by which cargo builds the package of `make test` (`setup.py`). With these and no others, all crates have the features that they
/// have in a test run of the workspace, and cargo compiles none of them once more.
const BUILT: [&str; 6] = [
    "--package=weir-python",
    "--package=weir-preload",
    "--package=weir-server",
    "--package=weir-mount",
    "--package=weir-mover",
    "--features=weir-core/world",
];

/// Variables that cargo sets for the test that runs. Build scripts that look at one of them would run again, and everything that
/// depends on their crates would be compiled again: now, and by the next command outside of a test.
const OF_THE_TEST: [&str; 4] = ["CARGO_BIN_EXE_", "CARGO_MANIFEST_", "CARGO_PKG_", "OUT_DIR"];

/// The server.
pub fn server() -> &'static Path {
    SERVER.path()
}

/// The program that mounts a store.
pub fn mount() -> &'static Path {
    MOUNT.path()
}

/// The preload library.
pub fn preload() -> &'static Path {
    PRELOAD.path()
}

/// The folder of the profile that the running test was built with: `target/<profile>/deps/<test>`.
fn profile_folder() -> PathBuf {
    let test = std::env::current_exe().expect("the running test has a path");
    test.ancestors().nth(2).expect("a test lies two folders below the target folder").to_path_buf()
}

impl Artifact {
    fn path(&self) -> &Path {
        self.built.get_or_init(|| {
            let folder = profile_folder();
            let path = folder.join(self.file);
            let package = std::env::var("CARGO_PKG_NAME").ok();
            if self.owner.is_none() || self.owner != package.as_deref() {
                self.build(folder.ends_with("release"));
            }
            assert!(path.exists(), "cargo built no {}", path.display());
            path
        })
    }

    fn build(&self, is_release: bool) {
        let mut command = Command::new(env!("CARGO"));
        command.args(["build", "--quiet", "--locked"]).args(BUILT);
        if is_release {
            command.arg("--release");
        }
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| OF_THE_TEST.iter().any(|prefix| name.starts_with(prefix))) {
                command.env_remove(name);
            }
        }
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        let built = command.status().expect("cargo runs");
        assert!(built.success(), "{} cannot be built", self.file);
    }
}
