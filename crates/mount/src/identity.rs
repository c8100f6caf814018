//! The caller of a request: user and groups from the kernel and `/proc`, the job from the caller's environment.

use crate::abi::InHeader;
use crate::accounts::Accounts;
use crate::process::{self, Incarnation};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_client::wire::{AccountNames, Credential, Identity};
use weir_client::{Caller, Store};

/// Variable that names the credential file of a caller's job.
const CREDENTIAL_VARIABLE: &str = "WEIR_CREDENTIAL";
/// Longest credential file that is read: 256 groups and three names fit ten times.
const CREDENTIAL_BYTES_MAX: u64 = 64 * 1024;
/// Processes remembered. At the limit all are forgotten: looking one up again takes some tens of microseconds.
const CALLERS_MAX: usize = 4096;
/// Time for which a process counts as the same without a look at `/proc`. A number is not reused that fast. A program
/// that starts in its place is accounted to the former job for no longer than this.
const BELIEF: Duration = Duration::from_millis(50);

/// The callers seen, by process and user.
pub(crate) struct Callers {
    accounts: Accounts,
    /// Absent where the mount acts as its own user for everything.
    known: Option<Mutex<HashMap<Key, Known>>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    pid: u32,
    uid: u32,
    gid: u32,
}

struct Known {
    incarnation: Option<Incarnation>,
    checked: Instant,
    /// Unix time after which its credential is read again: it may have been renewed.
    expires_seconds: u64,
    caller: Caller,
}

impl Known {
    /// Whether its job's credential has expired.
    fn is_over(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.expires_seconds < now.as_secs()
    }
}

impl Callers {
    /// Callers of a mount; with `as_itself` everything is done as the bearer of the mount's credential.
    pub(crate) fn new(as_itself: bool) -> Callers {
        Callers { accounts: Accounts::default(), known: (!as_itself).then(Mutex::default) }
    }

    /// Whether every caller is the mount's own user.
    pub(crate) fn are_one(&self) -> bool {
        self.known.is_none()
    }

    /// The caller of a request.
    pub(crate) fn of(&self, header: &InHeader, store: &Store) -> Caller {
        let Some(known) = &self.known else { return Caller::own() };
        let key = Key { pid: header.pid, uid: header.uid, gid: header.gid };
        let now = Instant::now();
        if let Some(entry) = lock(known).get(&key) {
            if now.duration_since(entry.checked) < BELIEF && !entry.is_over() {
                return entry.caller.clone();
            }
        }
        let incarnation = Incarnation::of(key.pid);
        if let Some(entry) = lock(known).get_mut(&key) {
            if entry.incarnation == incarnation && !entry.is_over() {
                entry.checked = now;
                return entry.caller.clone();
            }
        }
        let (caller, expires_seconds) = look_up(key, store, &self.accounts);
        let mut known = lock(known);
        if known.len() >= CALLERS_MAX {
            known.clear();
        }
        known.insert(key, Known { incarnation, checked: now, expires_seconds, caller: caller.clone() });
        caller
    }
}

/// A poisoned lock still guards a map that is whole: every change of it is one insertion.
fn lock(known: &Mutex<HashMap<Key, Known>>) -> std::sync::MutexGuard<'_, HashMap<Key, Known>> {
    known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The caller, and the Unix time after which its job is over.
fn look_up(key: Key, store: &Store, accounts: &Accounts) -> (Caller, u64) {
    // The mount itself opens a credential file that lies on the store: looking for a job again would never end.
    if process::is_own_thread(key.pid) {
        return (Caller::own(), u64::MAX);
    }
    // Process 0 stands for the kernel and for processes outside the mount's pid namespace.
    let visible = key.pid != 0;
    let groups = if visible { process::groups(key.pid) } else { Vec::new() };
    let job = if visible { job_of(key, &groups) } else { None };
    let expires_seconds = job.as_ref().map_or(u64::MAX, |credential| credential.claims.expires_seconds);
    let names = AccountNames { user: accounts.user(key.uid), group: accounts.group(key.gid) };
    (store.caller(Identity { uid: key.uid, gid: key.gid, groups }, names, job), expires_seconds)
}

/// The credential that the caller's environment names. One of another user is none: the servers would refuse it.
fn job_of(key: Key, groups: &[u32]) -> Option<Credential> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let path = process::environment_path(key.pid, CREDENTIAL_VARIABLE)?;
    let mut options = std::fs::OpenOptions::new();
    // The path is the caller's: a fifo or device there must not hold up the mount.
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC);
    let file = options.open(&path).ok()?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file() && may_read(&metadata, key, groups)) {
        return None;
    }
    let mut text = String::new();
    file.take(CREDENTIAL_BYTES_MAX).read_to_string(&mut text).ok()?;
    Credential::from_json(&text).ok().filter(|credential| credential.claims.uid == key.uid)
}

/// Whether the caller itself may read a file that the mount opened for it: else anyone could name a credential that
/// the administrator minted for him but did not hand out.
fn may_read(metadata: &std::fs::Metadata, key: Key, groups: &[u32]) -> bool {
    use std::os::unix::fs::MetadataExt;
    let bit = if metadata.uid() == key.uid {
        0o400
    } else if metadata.gid() == key.gid || groups.contains(&metadata.gid()) {
        0o040
    } else {
        0o004
    };
    key.uid == 0 || metadata.mode() & bit != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_credential_must_be_readable_by_the_caller() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let owner = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        let readable = |mode: u32, uid: u32, gid: u32, groups: &[u32]| {
            file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).expect("own file");
            let metadata = file.as_file().metadata().expect("open file");
            may_read(&metadata, Key { pid: 1, uid, gid }, groups)
        };
        assert!(readable(0o600, owner, 1, &[]));
        assert!(!readable(0o600, owner + 1, group + 1, &[]));
        assert!(!readable(0o600, owner + 1, group, &[]));
        assert!(readable(0o640, owner + 1, group + 1, &[group]));
        assert!(readable(0o604, owner + 1, group + 1, &[]));
        assert!(!readable(0o604, owner + 1, group, &[]), "the group's bits hide those of others");
    }
}
