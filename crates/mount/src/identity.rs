//! The caller of a request: user and groups from the kernel and `/proc`, the job from the caller's environment.

use crate::abi::InHeader;
use crate::accounts::Accounts;
use crate::credential::{Bearer, Job, Readers};
use crate::process::{self, Incarnation, Process};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_client::wire::{AccountNames, Identity};
use weir_client::{Caller, Store};

/// Time until the job of a caller whose credential could not be read in time is looked for again.
const UNKNOWN_SECONDS: u64 = 30;
/// Processes remembered. At the limit all are forgotten: looking one up again takes some tens of microseconds.
const CALLERS_MAX: usize = 4096;
/// Time for which a process counts as the same without a look at `/proc`. A number is not reused that fast. A program
/// that starts in its place is accounted to the former job for no longer than this.
const BELIEF: Duration = Duration::from_millis(50);

/// The callers seen, by process and user.
pub(crate) struct Callers {
    accounts: Accounts,
    readers: Readers,
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
        self.expires_seconds < unix_seconds()
    }
}

impl Callers {
    /// Callers of a mount; with `as_itself` everything is done as the bearer of the mount's credential.
    pub(crate) fn new(as_itself: bool) -> Callers {
        Callers {
            accounts: Accounts::default(),
            readers: Readers::default(),
            known: (!as_itself).then(Mutex::default),
        }
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
        let (caller, expires_seconds) = look_up(key, store, &self.accounts, &self.readers);
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
fn look_up(key: Key, store: &Store, accounts: &Accounts, readers: &Readers) -> (Caller, u64) {
    // The mount itself opens a credential file that lies on the store: looking for a job again would never end.
    let is_own = process::is_own_thread(key.pid);
    if is_own && key.uid == rustix::process::geteuid().as_raw() {
        return (Caller::own(), u64::MAX);
    }
    // Process 0 stands for the kernel and for processes outside the mount's pid namespace.
    let process = (key.pid != 0).then(|| Process::of(key.pid)).flatten();
    let groups = process.as_ref().map(Process::groups).unwrap_or_default();
    let bearer = Bearer { uid: key.uid, gid: key.gid, groups };
    let job = match process {
        Some(process) if !is_own => readers.job_of(&process, &bearer),
        _ => Job::None,
    };
    let (job, expires_seconds) = match job {
        Job::None => (None, u64::MAX),
        Job::Of(credential) => {
            let expires_seconds = credential.claims.expires_seconds;
            (Some(*credential), expires_seconds)
        }
        Job::Unknown => (None, unix_seconds() + UNKNOWN_SECONDS),
    };
    let names = AccountNames { user: accounts.user(key.uid), group: accounts.group(key.gid) };
    let Bearer { uid, gid, groups } = bearer;
    (store.caller(Identity { uid, gid, groups }, names, job), expires_seconds)
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
