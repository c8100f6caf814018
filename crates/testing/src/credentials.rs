//! The key of the sites of tests, and jobs that it signs for.

use std::io::Write;
use std::os::unix::fs::chown;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_wire::{Claims, Credential, Role, SiteKey};

/// A user that every Debian-like system has.
pub const NOBODY: u32 = 65534;

/// The key of every site of a test.
pub fn key() -> SiteKey {
    SiteKey::new([7; 32])
}

/// The credential of an administrator.
pub fn administrator() -> Credential {
    key().mint(Claims { role: Role::Administrator, ..claims(0) })
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
    let folder = path.parent().expect("a file in a folder");
    // Each writer has a file of its own, which only its user may read: several threads may write the same path.
    let mut whole = tempfile::NamedTempFile::new_in(folder).expect("a file");
    whole.write_all(text.as_bytes()).expect("written");
    if rustix::process::geteuid().is_root() {
        chown(whole.path(), owner, owner).expect("root may");
    }
    whole.persist(path).expect("the same folder");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Threads that made one credential at once once took each other's unfinished file.
    #[test]
    fn threads_that_write_one_file_at_once_leave_it_whole_and_private() {
        let folder = tempfile::tempdir().expect("a fresh directory");
        let path = folder.path().join("credential.json");
        let text = "whole".repeat(1_000);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        write_private(&path, &text, None);
                        assert_eq!(std::fs::read_to_string(&path).expect("there"), text);
                    }
                });
            }
        });
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(folder.path().read_dir().expect("a folder").count(), 1, "nothing else stays");
    }
}
