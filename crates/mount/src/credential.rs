//! The credential file that a caller's environment names, opened with the rights of the caller.
//!
//! A mount of root could open any file: another user's, one in a folder that the caller may not pass, or a device. Modes
//! alone do not tell what a caller can reach, because folders on the way, the caller's own root folder and its mounts
//! decide that, and another process may change them meanwhile. So a thread of its own goes the way as the kernel would
//! let the caller go it: with the caller's user and groups for the file system, from the caller's root folder. The user
//! of the process itself stays, so the caller cannot signal the thread (kill(2)).

use crate::process::Process;
use rustix::fs::{fstat, openat, readlinkat, FileType, Mode, OFlags, CWD};
use rustix::io::Errno;
use rustix::thread::set_thread_groups;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_client::wire::{limits, Credential};

/// Variable that names the credential file of a caller's job.
const VARIABLE: &str = "WEIR_CREDENTIAL";
/// Longest credential file that is read: 256 groups and three names fit ten times.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Longest wait for a file, which may lie on a file system that does not answer, or on this very store. A busy machine
/// takes a part of a second for the thread.
const WAIT: Duration = Duration::from_secs(5);
/// Most readers of one user at once: a file system that never answers keeps its readers, and a worker of the mount waits
/// for each.
const READERS_OF_USER_MAX: usize = 8;
/// Most readers at once, a part of the mount's workers.
const READERS_MAX: usize = 64;
const STACK_BYTES: usize = 128 * 1024;
/// Most symbolic links on the way to a file (as in the kernel), and most folders, each of which is open.
const LINKS_MAX: usize = 40;
const FOLDERS_MAX: usize = 64;

/// A caller, as the kernel tells it.
#[derive(Clone, Debug)]
pub(crate) struct Bearer {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

/// The job in a caller's environment.
pub(crate) enum Job {
    /// There is no file, or none that the caller can read and that is its own.
    None,
    Of(Box<Credential>),
    /// The file did not answer in time, or too many are being read.
    Unknown,
}

/// The readers of credential files that are under way.
#[derive(Clone, Default)]
pub(crate) struct Readers {
    under_way: Arc<Mutex<HashMap<u32, usize>>>,
}

impl Readers {
    /// The credential that the environment of a process names. One of another user is none: the servers would refuse it.
    pub(crate) fn job_of(&self, process: &Process, bearer: &Bearer) -> Job {
        let Some(path) = process.environment_path(VARIABLE) else { return Job::None };
        // A path that begins at the caller's working folder would change with it.
        let (true, Some(root)) = (path.is_absolute(), process.root()) else { return Job::None };
        let Some(place) = self.enter(bearer.uid) else { return Job::Unknown };
        let (told, answer) = sync_channel(1);
        let reader = Reader { root, path, bearer: bearer.clone() };
        let started =
            std::thread::Builder::new().name("credential".into()).stack_size(STACK_BYTES).spawn(move || {
                let text = reader.read();
                drop(place);
                // The mount may wait no more.
                let _ = told.send(text);
            });
        if started.is_err() {
            return Job::Unknown;
        }
        match answer.recv_timeout(WAIT) {
            Ok(Ok(text)) => match Credential::from_json(&text) {
                Ok(credential) if credential.claims.uid == bearer.uid => Job::Of(Box::new(credential)),
                _ => Job::None,
            },
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => Job::None,
            Err(RecvTimeoutError::Timeout) => Job::Unknown,
        }
    }

    fn enter(&self, uid: u32) -> Option<Place> {
        let mut under_way = lock(&self.under_way);
        let all: usize = under_way.values().sum();
        let own = under_way.entry(uid).or_default();
        if all >= READERS_MAX || *own >= READERS_OF_USER_MAX {
            return None;
        }
        *own += 1;
        drop(under_way);
        Some(Place { readers: self.clone(), uid })
    }
}

/// A reader that is under way, until it is dropped.
struct Place {
    readers: Readers,
    uid: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = lock(&self.readers.under_way);
        if let Some(own) = under_way.get_mut(&self.uid) {
            *own -= 1;
            if *own == 0 {
                under_way.remove(&self.uid);
            }
        }
    }
}

/// A poisoned lock still guards counts that are whole: every change is one addition.
fn lock(counts: &Mutex<HashMap<u32, usize>>) -> MutexGuard<'_, HashMap<u32, usize>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The work of a thread that ends with it.
struct Reader {
    root: OwnedFd,
    path: PathBuf,
    bearer: Bearer,
}

impl Reader {
    /// Reads the file. The thread keeps the rights of the bearer, so it has to end.
    fn read(self) -> Result<String, Errno> {
        let own = openat(CWD, "/proc/self/fd", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        self.become_bearer()?;
        let file = open_below(self.root, &self.path)?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&own, file.as_raw_fd().to_string(), flags, Mode::empty())?);
        let mut text = String::new();
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|_| Errno::IO)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        Ok(text)
    }

    /// Takes the bearer's user and groups for the file system, and so loses root's right to pass everywhere
    /// (capabilities(7), "Effect of user ID changes on capabilities").
    fn become_bearer(&self) -> Result<(), Errno> {
        let user = rustix::process::geteuid().as_raw();
        if user == self.bearer.uid {
            return Ok(());
        }
        if user != 0 {
            return Err(Errno::PERM);
        }
        let groups: Vec<_> = self
            .bearer
            .groups
            .iter()
            .take(limits::GROUPS)
            .map(|&group| rustix::process::Gid::from_raw(group))
            .collect();
        set_thread_groups(&groups)?;
        // SAFETY: both calls take numbers, and change the calling thread alone.
        let taken = unsafe {
            libc::setfsgid(self.bearer.gid);
            libc::setfsuid(self.bearer.uid);
            // They return the former number, also where they fail: the second call tells whether the first one worked.
            (libc::setfsgid(u32::MAX) as u32, libc::setfsuid(u32::MAX) as u32)
        };
        if taken == (self.bearer.gid, self.bearer.uid) {
            Ok(())
        } else {
            Err(Errno::PERM)
        }
    }
}

/// Opens a path (O_PATH) as a process goes it whose root folder is `root`. A link of the kernel's, as in /proc/PID/fd, is
/// gone by its text: it would lead to what this process has open. openat2(2) does the same, but Linux 5.4 lacks it, and
/// systemd's RestrictSUIDSGID refuses it.
fn open_below(root: OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let names =
        |path: &[u8]| -> Vec<Vec<u8>> { path.rsplit(|&byte| byte == b'/').map(<[u8]>::to_vec).collect() };
    let mut reached = vec![root];
    let mut ahead = names(path.as_os_str().as_bytes());
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        let here = match (name.as_slice(), reached.last()) {
            (b"" | b".", _) => continue,
            (b"..", _) => {
                // Above the root folder lies itself.
                reached.truncate((reached.len() - 1).max(1));
                continue;
            }
            (_, here) => here.ok_or(Errno::NOENT)?,
        };
        let found = openat(here, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&found)?.st_mode) == FileType::Symlink {
            links += 1;
            let target = readlinkat(&found, "", Vec::new())?.into_bytes();
            if target.starts_with(b"/") {
                reached.truncate(1);
            }
            ahead.extend(names(&target));
        } else {
            reached.push(found);
        }
        if links > LINKS_MAX || reached.len() > FOLDERS_MAX {
            return Err(Errno::LOOP);
        }
    }
    reached.pop().ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Paths in a root folder, and what they lead to: nothing leads out of it.
    #[test]
    fn a_way_is_gone_within_its_root() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).expect("made");
        std::fs::write(root.join("a/file"), "in").expect("written");
        std::fs::write(folder.path().join("file"), "out").expect("written");
        symlink("/a/file", root.join("absolute")).expect("made");
        symlink("../../file", root.join("a/above")).expect("made");
        symlink("loop", root.join("loop")).expect("made");
        symlink("a", root.join("relative")).expect("made");
        let read = |path: &str| -> Result<String, Errno> {
            let opened = openat(CWD, &root, OFlags::PATH, Mode::empty()).expect("a folder");
            let found = open_below(opened, Path::new(path))?;
            Ok(std::fs::read_to_string(format!("/proc/self/fd/{}", found.as_raw_fd())).unwrap_or_default())
        };
        for path in [
            "/a/file",
            "/absolute",
            "/relative/file",
            "/a/b/../file",
            "/../../a//./file",
            "/relative/../absolute",
        ] {
            assert_eq!(read(path).as_deref(), Ok("in"), "{path}");
        }
        for (path, error) in [
            ("/a/above", Errno::NOENT),
            ("/../file", Errno::NOENT),
            ("/loop", Errno::LOOP),
            ("/a/file/x", Errno::NOTDIR),
        ] {
            assert_eq!(read(path), Err(error), "{path}");
        }
        let deep = "a/b/../../".repeat(1000) + "a/file";
        assert_eq!(read(&format!("/{deep}")).as_deref(), Ok("in"));
    }

    #[test]
    fn readers_of_a_user_and_of_all_are_bounded() {
        let readers = Readers::default();
        let of_one: Vec<_> =
            (0..READERS_OF_USER_MAX).map(|_| readers.enter(1).expect("there is room")).collect();
        assert!(readers.enter(1).is_none(), "one user has its part");
        let of_others: Vec<_> = (2..).map_while(|uid| readers.enter(uid)).collect();
        assert_eq!(of_one.len() + of_others.len(), READERS_MAX);
        drop(of_one);
        assert!(readers.enter(1).is_some());
    }
}
