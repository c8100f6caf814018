//! Programs and libraries of this workspace, as cargo builds them beside the test that runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A program or library that tests start.
struct Artifact {
    /// The package before whose integration tests cargo builds it; cargo promises that for programs, not for libraries.
    owner: Option<&'static str>,
    /// The options by which `cargo build` makes it, and nothing else.
    options: &'static [&'static str],
    file: &'static str,
    /// The file, once it is known to be built.
    built: OnceLock<PathBuf>,
}

static SERVER: Artifact = Artifact {
    owner: Some("weir-server"),
    options: &["--workspace", "--bin", "weir-server"],
    file: "weir-server",
    built: OnceLock::new(),
};
static MOUNT: Artifact = Artifact {
    owner: Some("weir-mount"),
    options: &["--workspace", "--bin", "weir-mount"],
    file: "weir-mount",
    built: OnceLock::new(),
};
static PRELOAD: Artifact = Artifact {
    owner: None,
    // All libraries of the workspace would include the bindings, which take minutes.
    options: &["--package", "weir-preload", "--lib"],
    file: "libweir_preload.so",
    built: OnceLock::new(),
};

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

    /// Programs are built as parts of the whole workspace: by itself a package has other features of its dependencies, and
    /// after a test run of the workspace cargo would compile it once more, in the midst of a test.
    fn build(&self, is_release: bool) {
        let mut command = Command::new(env!("CARGO"));
        command.args(["build", "--quiet"]).args(self.options);
        if is_release {
            command.arg("--release");
        }
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        let built = command.status().expect("cargo runs");
        assert!(built.success(), "{} cannot be built", self.file);
    }
}
