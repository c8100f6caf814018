//! Names that are replaced faster than the kernel can use them.
//!
//! The kernel looks a name up, then asks for the inode by its number. A name that another client replaced in between makes the second
//! request fail (ESTALE), and the kernel begins again once, no more. So after a first failure the names of this directory count as
//! unsteady for a while. The mount then keeps what a look-up found alive for the moment in which the kernel comes for it: files
//! and directories by an open description, and symbolic links by a copy.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_client::wire::{Attributes, HandleId, Ino, OpenFlags};
use weir_client::{Caller, Place, Store};

/// Time for which the names of a directory count as unsteady after a failure.
const UNSTEADY: Duration = Duration::from_secs(5);
/// Time for which a found inode is kept: the kernel comes for it within the same system call.
const KEPT: Duration = Duration::from_secs(1);
/// Inodes kept at once. Beyond it a look-up keeps nothing, and a call may fail as before.
const KEPT_MAX: usize = 4096;
/// Look-ups remembered. At the limit all are forgotten: a failure within a microsecond of it stays unnoticed.
const LOOKED_UP_MAX: usize = 4096;
/// Directories that count as unsteady at once.
const DIRECTORIES_MAX: usize = 256;

/// The unsteady directories of a mount, and what it keeps for the kernel.
#[derive(Default)]
pub(crate) struct Unsteady {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// The directory in which each inode was last looked up.
    looked_up: HashMap<Ino, Ino>,
    /// The end of each directory's time.
    directories: HashMap<Ino, Instant>,
    held: Vec<Held>,
    links: HashMap<Ino, Link>,
}

/// A description that keeps an inode alive.
struct Held {
    ino: Ino,
    handle: HandleId,
    until: Instant,
}

/// A symbolic link as it was found.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) attributes: Attributes,
    pub(crate) target: Vec<u8>,
    until: Instant,
}

impl Unsteady {
    /// Notes that a name of `directory` was found to be `ino`. Answers whether the directory's names are unsteady.
    pub(crate) fn looked_up(&self, directory: Ino, ino: Ino) -> bool {
        let mut table = self.table();
        if table.looked_up.len() >= LOOKED_UP_MAX {
            table.looked_up.clear();
        }
        table.looked_up.insert(ino, directory);
        table.directories.get(&directory).is_some_and(|until| *until > Instant::now())
    }

    /// Notes that the kernel asked for an inode that is gone.
    pub(crate) fn failed(&self, ino: Ino) {
        let mut table = self.table();
        let Some(directory) = table.looked_up.remove(&ino) else { return };
        let now = Instant::now();
        table.directories.retain(|_, until| *until > now);
        if table.directories.len() < DIRECTORIES_MAX {
            table.directories.insert(directory, now + UNSTEADY);
        }
    }

    /// Finds a name again and keeps the file or directory alive; `None` where it is gone, or of another kind.
    pub(crate) fn keep(&self, store: &Store, place: Place<'_>) -> Option<Attributes> {
        self.let_go(store);
        if self.table().held.len() >= KEPT_MAX {
            return None;
        }
        let flags = OpenFlags { read: true, no_follow: true, ..OpenFlags::default() };
        let opened = store.open(&Caller::own(), place, flags, 0).ok()?;
        let ino = opened.attributes.ino;
        self.table().held.push(Held { ino, handle: opened.handle, until: Instant::now() + KEPT });
        Some(opened.attributes)
    }

    /// Keeps a copy of a symbolic link.
    pub(crate) fn keep_link(&self, store: &Store, place: Place<'_>, attributes: Attributes) {
        let Ok(target) = store.read_link(&Caller::own(), place) else { return };
        let mut table = self.table();
        let now = Instant::now();
        if table.links.len() >= KEPT_MAX {
            table.links.retain(|_, link| link.until > now);
        }
        if table.links.len() < KEPT_MAX {
            table.links.insert(attributes.ino, Link { attributes, target, until: now + KEPT });
        }
    }

    /// The copy of a symbolic link that is gone.
    pub(crate) fn link(&self, ino: Ino) -> Option<Link> {
        self.table().links.get(&ino).filter(|link| link.until > Instant::now()).cloned()
    }

    /// Closes descriptions whose time is over.
    pub(crate) fn let_go(&self, store: &Store) {
        let now = Instant::now();
        let over: Vec<Held> = self.table().held.extract_if(.., |held| held.until <= now).collect();
        for held in over {
            // A description that is left behind ends with the mount's session.
            let _ = store.close(&Caller::own(), held.ino, held.handle);
        }
        self.table().links.retain(|_, link| link.until > now);
    }

    /// A poisoned table is whole: each change is one insertion or removal.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_makes_the_names_of_its_directory_unsteady() {
        let unsteady = Unsteady::default();
        let (directory, other) = (Ino(1), Ino(2));
        assert!(!unsteady.looked_up(directory, Ino(10)));
        unsteady.failed(Ino(11));
        assert!(!unsteady.looked_up(directory, Ino(10)), "nobody looked that inode up");
        unsteady.failed(Ino(10));
        assert!(unsteady.looked_up(directory, Ino(12)) && !unsteady.looked_up(other, Ino(13)));
    }

    #[test]
    fn the_tables_are_bounded() {
        let unsteady = Unsteady::default();
        for ino in 0..20_000 {
            unsteady.looked_up(Ino(ino), Ino(ino));
            unsteady.failed(Ino(ino));
        }
        let table = unsteady.table();
        assert!(table.looked_up.len() <= LOOKED_UP_MAX && table.directories.len() == DIRECTORIES_MAX);
    }
}
