//! The tests of the crate from outside: one program, so that what they share is compiled and linked once.

mod files;
mod model;
mod processes;
mod tally;

use std::time::Duration;

/// Length of a window.
const WINDOW: Duration = Duration::from_secs(1);
/// A moment within the grace after which a window is told.
const SECOND: u64 = 1_000_000_000;

/// A folder for windows, which is not made yet, in a folder of the test.
fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("weir-windows");
    (folder, path)
}

/// The user of this process.
fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}
