//! The key of the sites of tests, and jobs that it signs for.

use std::fs;
use std::os::unix::fs::{chown, PermissionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_wire::{Claims, Role, SiteKey};

/// A user that every Debian-like system has.
pub const NOBODY: u32 = 65534;

/// The key of every site of a test.
pub fn key() -> SiteKey {
    SiteKey::new([7; 32])
}

/// Claims of an ordinary job of `uid`, whose group has the same number. They do not expire.
pub fn claims(uid: u32) -> Claims {
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

/// The present moment of Unix time, as credentials and capabilities count it.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs()
}

/// Writes a file that its owner alone may read. A reader sees the old text or the new one, never a part.
///
/// A test that runs as root gives the file to `owner`; any other test can make files of its own user only.
pub fn write_private(path: &Path, text: &str, owner: Option<u32>) {
    let whole = path.with_extension("new");
    fs::write(&whole, text).expect("a file");
    fs::set_permissions(&whole, fs::Permissions::from_mode(0o600)).expect("own file");
    if rustix::process::geteuid().is_root() {
        chown(&whole, owner, owner).expect("root may");
    }
    fs::rename(&whole, path).expect("a file");
}
