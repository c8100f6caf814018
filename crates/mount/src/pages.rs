//! Files that have pages in the kernel's cache, and dropping those pages when others write.
//!
//! A file is watched at its layout's servers from its first page fault until its last close. The kernel drops a file's
//! pages at every open, so pages that outlive the last close are never seen again.
//!
//! A server that starts anew knows no watches. Writes to this server do not wait until the mounts find it again, which
//! takes a mount at most the client's longest pause between two attempts. A mount then drops every page. Dirty pages are
//! written back first, for which the mount waits until the server is there again. If it does not come back in time, the
//! pages are lost: mappings of the file give SIGBUS and syncs EIO until its last close, so no program reads the bytes that its
//! stores had replaced.

use crate::call::Failure;
use crate::device::Device;
use crate::handles::OpenFile;
use crate::notices::notice;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_client::wire::{FileChange, Ino, Sequence};
use weir_client::{ClientError, Store};
use weir_placement::ServerId;

/// Longest wait for another thread that registers or ends the watch of the same file: above the usual bound on a server's
/// silence, after which that thread gives up by itself.
const WATCH_WAIT: Duration = Duration::from_secs(60);
/// Most registrations of one watch. A lost server makes a registration void.
const REGISTRATIONS_MAX: u32 = 3;
/// Pause before a lost server is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Look-ups of a moved directory. The kernel refuses one (ESTALE) while a program renames or makes a name in one of the two parents.
const LOOKUPS_MAX: u32 = 100;
/// Pause between two of them. All of them fit the time for which a rename waits.
const LOOKUP_PAUSE: Duration = Duration::from_millis(10);
/// Look-ups at once. Further directories are found when a program looks them up.
const LOOKUPS_UNDER_WAY_MAX: usize = 64;
/// Pause between two looks whether a program began to rename during a look-up.
const RENAME_CHECK: Duration = Duration::from_millis(1);
/// Time for which dirty pages wait for a lost server: several times that of a restart. The programs that map the file cannot end
/// meanwhile.
const WRITE_BACK_PATIENCE: Duration = Duration::from_secs(120);

/// The watched files of a mount.
pub(crate) struct Pages {
    watches: Mutex<Watches>,
    settled: Condvar,
    store: Store,
    device: Arc<Device>,
    mount_point: PathBuf,
    /// Cloned by each look-up under way.
    looking_up: Arc<()>,
    /// Cloned by each rename under way.
    renaming: Arc<()>,
    /// The mount is about to end: nothing waits for lost servers any more.
    ending: AtomicBool,
}

/// The attempts to write one range of pages back.
pub(crate) struct Patience<'a> {
    ending: &'a AtomicBool,
    until: Instant,
}

#[derive(Default)]
struct Watches {
    states: HashMap<Ino, State>,
    /// Servers whose invalidations a thread carries out.
    followed: HashSet<ServerId>,
    /// Number of times that a lost server ended all watches.
    losses: u64,
    /// Files of which dirty pages were lost.
    failed: HashSet<Ino>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The servers are being told that pages will be held.
    Registering,
    /// Writes by others wait until the pages are dropped, at the servers of the layout of this epoch.
    Watched(u64),
    /// The servers are being told that no pages are held any more.
    Leaving,
}

impl Pages {
    pub(crate) fn new(store: Store, device: Arc<Device>, mount_point: PathBuf) -> Pages {
        let (watches, settled, ending) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        let (looking_up, renaming) = (Arc::default(), Arc::default());
        Pages { watches, settled, store, device, mount_point, looking_up, renaming, ending }
    }

    /// The attempts to write pages back that begin now.
    pub(crate) fn patience(&self) -> Patience<'_> {
        Patience { ending: &self.ending, until: Instant::now() + WRITE_BACK_PATIENCE }
    }

    /// The mount is about to end.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// Refuses the pages of a file of which dirty pages were lost.
    ///
    /// # Errors
    /// `EIO`.
    pub(crate) fn check(&self, ino: Ino) -> Result<(), Failure> {
        match self.watches().failed.contains(&ino) {
            true => Err(Failure(libc::EIO)),
            false => Ok(()),
        }
    }

    /// Dirty pages of `ino` could not be written back. The pages that the kernel still shows go, too.
    pub(crate) fn lose(&self, ino: Ino, error: &ClientError) {
        if !self.watches().failed.insert(ino) {
            return;
        }
        notice!(
            "stores through a mapping of inode {:x} are lost, and its mappings fail from now on: {error}",
            ino.0
        );
        let device = Arc::clone(&self.device);
        // The kernel waits for the end of this very write before it drops its page.
        let dropping = move || device.invalidate(ino.0, 0, 0);
        if let Err(error) = std::thread::Builder::new().name("lose".into()).spawn(dropping) {
            notice!("no thread to drop the pages of inode {:x}: {error}", ino.0);
        }
    }

    /// To be called before pages of `open` are read for the kernel's cache.
    ///
    /// # Errors
    /// That of a lost server; pages must not be handed out then.
    pub(crate) fn hold(self: &Arc<Self>, open: &OpenFile) -> Result<(), Failure> {
        // A watch at a server that joined the store needs a thread, too.
        open.file.meet_servers()?;
        self.listen()?;
        self.check(open.ino)?;
        for _ in 0..REGISTRATIONS_MAX {
            let layout_epoch = open.file.layout_epoch();
            let Some(losses) = self.begin_registering(open.ino, layout_epoch)? else { return Ok(()) };
            let registered = open.file.watch(&open.opener);
            let mut watches = self.watches();
            // A server lost meanwhile may have forgotten this watch with all others.
            let holds = registered.is_ok() && watches.losses == losses;
            if holds {
                watches.states.insert(open.ino, State::Watched(layout_epoch));
            } else {
                watches.states.remove(&open.ino);
            }
            drop(watches);
            self.settled.notify_all();
            registered?;
            if holds {
                return Ok(());
            }
        }
        Err(Failure(libc::EIO))
    }

    /// Whether the kernel may have pages of `ino`.
    pub(crate) fn may_be_held(&self, ino: Ino) -> bool {
        self.watches().states.contains_key(&ino)
    }

    /// Whether `open` met a move of its file since it was watched: its pages may come from targets without a watch.
    pub(crate) fn is_outdated(&self, open: &OpenFile) -> bool {
        let layout_epoch = open.file.layout_epoch();
        matches!(self.watches().states.get(&open.ino), Some(State::Watched(watched)) if *watched < layout_epoch)
    }

    /// Marks `ino` as being registered and answers the number of losses so far; `None` when it is watched already where the
    /// layout of `layout_epoch` needs it.
    fn begin_registering(&self, ino: Ino, layout_epoch: u64) -> Result<Option<u64>, Failure> {
        let unsettled = |watches: &mut Watches| {
            matches!(watches.states.get(&ino), Some(State::Registering | State::Leaving))
        };
        let waited = self.settled.wait_timeout_while(self.watches(), WATCH_WAIT, unsettled);
        let mut watches = waited.unwrap_or_else(PoisonError::into_inner).0;
        match watches.states.get(&ino) {
            Some(State::Watched(watched)) if *watched >= layout_epoch => Ok(None),
            Some(State::Registering | State::Leaving) => Err(Failure(libc::EIO)),
            Some(State::Watched(_)) | None => {
                watches.states.insert(ino, State::Registering);
                Ok(Some(watches.losses))
            }
        }
    }

    /// `open` was the last open file of its inode, unless `reopened` says that there is another again.
    pub(crate) fn leave(&self, open: &OpenFile, reopened: impl FnOnce() -> bool) {
        let mut watches = self.watches();
        if reopened() {
            return;
        }
        watches.failed.remove(&open.ino);
        if !matches!(watches.states.get(&open.ino), Some(State::Watched(_))) {
            return;
        }
        watches.states.insert(open.ino, State::Leaving);
        drop(watches);
        // A server that was not reached forgets the watch with the session; until then writers wait in vain, but bounded.
        let _ = open.file.unwatch(&open.opener);
        self.watches().states.remove(&open.ino);
        self.settled.notify_all();
    }

    /// Starts one thread per server that carries out its invalidations, unless they run.
    ///
    /// # Errors
    /// An unreadable cluster.json; a system without threads.
    pub(crate) fn listen(self: &Arc<Self>) -> Result<(), Failure> {
        if self.watches().followed.len() >= self.store.known_servers()? {
            return Ok(());
        }
        let servers = self.store.cluster()?.servers;
        let mut watches = self.watches();
        for server in servers.iter().map(|address| address.server) {
            if watches.followed.contains(&server) {
                continue;
            }
            // Taken before the first watch, so that no restart after it stays unnoticed.
            let memory = self.store.memory(server)?;
            let pages = Arc::clone(self);
            let started = std::thread::Builder::new()
                .name(format!("invalidate-{server}"))
                .spawn(move || pages.follow(server, memory));
            if let Err(error) = started {
                notice!("no thread for the invalidations of server {server}: {error}");
                return Err(Failure(libc::EIO));
            }
            watches.followed.insert(server);
        }
        Ok(())
    }

    /// The kernel learns the size and drops the pages of a file that others changed.
    fn carry_out(&self, change: FileChange) {
        let ino = change.ino.0;
        if let Some(size_bytes) = change.grown_to {
            self.device.grow(ino, size_bytes);
            // The kernel made an empty page at the end, which nobody needs.
            if !change.pages && !self.may_be_held(change.ino) {
                self.device.invalidate(ino, size_bytes.saturating_sub(1), 1);
            }
        }
        if change.pages {
            self.device.invalidate(ino, 0, 0);
        }
    }

    fn follow(&self, server: ServerId, mut memory: u64) {
        let mut done = Sequence(0);
        loop {
            match self.store.next_invalidation(server, done, memory) {
                Ok(invalidation) => {
                    invalidation.files.iter().for_each(|change| self.carry_out(*change));
                    invalidation.moved.iter().for_each(|path| self.look_up(path));
                    done = invalidation.sequence;
                }
                Err(_) => {
                    // The memory goes first: files that are watched from here on belong to the new one.
                    memory = self.store.memory(server).unwrap_or(memory);
                    self.drop_everything();
                    done = Sequence(0);
                    std::thread::sleep(RETRY_PAUSE);
                }
            }
        }
    }

    /// Has the kernel look up a directory that another client moved: it then hangs the directory below its new parent, so that `..`,
    /// relative paths and `getcwd` of programs in it are right.
    ///
    /// A program that renames here holds the kernel's locks on names until its rename is answered, perhaps by a server that waits for
    /// this mount. So nobody waits for the look-up beside such a rename, and the look-up comes right after it.
    fn look_up(&self, path: &[u8]) {
        if Arc::strong_count(&self.looking_up) > LOOKUPS_UNDER_WAY_MAX {
            return;
        }
        let path = self.mount_point.join(OsStr::from_bytes(path));
        let (under_way, (done, is_done)) = (Arc::clone(&self.looking_up), mpsc::channel::<()>());
        let looking_up = std::thread::Builder::new().name("look-up".into()).spawn(move || {
            look_up_fully(&path);
            drop((done, under_way));
        });
        if let Err(error) = looking_up {
            notice!("no thread to look up a moved directory: {error}");
            return;
        }
        while is_done.recv_timeout(RENAME_CHECK) == Err(mpsc::RecvTimeoutError::Timeout) {
            if Arc::strong_count(&self.renaming) > 1 {
                return;
            }
        }
    }

    /// A rename by a program of this mount is under way while the answer lives.
    pub(crate) fn rename_begins(&self) -> Arc<()> {
        Arc::clone(&self.renaming)
    }

    /// A server to which a connection broke may have started anew and forgotten the watches: every page goes, and the next fault watches anew.
    fn drop_everything(&self) {
        let mut watches = self.watches();
        watches.losses += 1;
        let watched: Vec<Ino> = watches
            .states
            .iter()
            .filter(|(_, state)| matches!(state, State::Watched(_)))
            .map(|(ino, _)| *ino)
            .collect();
        for ino in &watched {
            watches.states.remove(ino);
        }
        drop(watches);
        for ino in watched {
            self.device.invalidate(ino.0, 0, 0);
        }
    }

    /// A poisoned table is whole: each change is one insertion or removal.
    fn watches(&self) -> MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn look_up_fully(path: &Path) {
    for _ in 0..LOOKUPS_MAX {
        // The directory may be gone again, or lie where the mount's user may not search.
        match std::fs::symlink_metadata(path) {
            Err(error) if error.raw_os_error() == Some(libc::ESTALE) => std::thread::sleep(LOOKUP_PAUSE),
            _ => return,
        }
    }
}

impl Patience<'_> {
    /// Whether a server that failed a write may do it later; waits a moment then.
    pub(crate) fn allows(&mut self, error: &ClientError) -> bool {
        let may_pass =
            matches!(error.errno(), libc::EIO | libc::EROFS) && !matches!(error, ClientError::LockLost(_));
        if !may_pass || self.ending.load(Ordering::SeqCst) || Instant::now() >= self.until {
            return false;
        }
        std::thread::sleep(RETRY_PAUSE);
        true
    }
}
