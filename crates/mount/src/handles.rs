//! The handles that the kernel holds open: their numbers, the files and directories behind them, and their openers.

use crate::call::Failure;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_client::wire::{DirectoryEntry, HandleId, Ino};
use weir_client::{Caller, File};

/// Bound on the wait of a lock call for a close of the same file that is still under way.
const RELEASE_WAIT: Duration = Duration::from_secs(2);

/// An open regular file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) ino: Ino,
    pub(crate) file: File,
    /// The process that opened the file. Its rights and its job count for every use of the descriptor, whoever holds
    /// it.
    pub(crate) opener: Caller,
    pub(crate) following: Mutex<Following>,
}

/// The user of the kernel's size of an open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Following {
    /// The process that uses the description, by its calls. The home tells of sizes.
    #[default]
    Kernel,
    /// Nobody any more; the home is about to know.
    Leaving,
    /// Nobody.
    Nobody,
    /// Mappings do, until the description ends, whoever else uses it.
    Mapped,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    pub(crate) ino: Ino,
    pub(crate) handle: HandleId,
    pub(crate) opener: Caller,
    /// The part listed last, from which the kernel's next request is usually served.
    pub(crate) listed: Mutex<Listed>,
}

/// A part of a directory, and where it begins.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) from: u64,
    pub(crate) entries: Vec<DirectoryEntry>,
    pub(crate) end: bool,
}

#[derive(Clone)]
enum Open {
    File(Arc<OpenFile>),
    Directory(Arc<OpenDirectory>),
}

/// All open handles of the mount; their number is bounded by the descriptors of the host's processes.
#[derive(Default)]
pub(crate) struct Handles {
    table: Mutex<Table>,
    released: Condvar,
}

#[derive(Default)]
struct Table {
    last: u64,
    open: HashMap<u64, Open>,
    by_ino: HashMap<Ino, Vec<Arc<OpenFile>>>,
    /// Files with closes under way.
    releasing: HashMap<Ino, u32>,
}

impl Handles {
    /// Remembers a file; answers its handle.
    pub(crate) fn insert_file(&self, file: OpenFile) -> u64 {
        let file = Arc::new(file);
        let mut table = self.table();
        table.by_ino.entry(file.ino).or_default().push(Arc::clone(&file));
        table.insert(Open::File(file))
    }

    /// Remembers a directory; answers its handle.
    pub(crate) fn insert_directory(&self, directory: OpenDirectory) -> u64 {
        self.table().insert(Open::Directory(Arc::new(directory)))
    }

    /// The file of a handle.
    ///
    /// # Errors
    /// `EBADF` when there is none.
    pub(crate) fn file(&self, handle: u64) -> Result<Arc<OpenFile>, Failure> {
        match self.table().open.get(&handle) {
            Some(Open::File(file)) => Ok(Arc::clone(file)),
            _ => Err(Failure(libc::EBADF)),
        }
    }

    /// The directory of a handle.
    ///
    /// # Errors
    /// `EBADF` when there is none.
    pub(crate) fn directory(&self, handle: u64) -> Result<Arc<OpenDirectory>, Failure> {
        match self.table().open.get(&handle) {
            Some(Open::Directory(directory)) => Ok(Arc::clone(directory)),
            _ => Err(Failure(libc::EBADF)),
        }
    }

    /// Every open file of an inode.
    pub(crate) fn files_of(&self, ino: Ino) -> Vec<Arc<OpenFile>> {
        self.table().by_ino.get(&ino).cloned().unwrap_or_default()
    }

    /// Whether an inode is open.
    pub(crate) fn is_open(&self, ino: Ino) -> bool {
        self.table().by_ino.contains_key(&ino)
    }

    /// Forgets a directory.
    ///
    /// # Errors
    /// As [`Handles::directory`].
    pub(crate) fn remove_directory(&self, handle: u64) -> Result<Arc<OpenDirectory>, Failure> {
        let directory = self.directory(handle)?;
        self.table().open.remove(&handle);
        Ok(directory)
    }

    /// Forgets a file. Its close counts as under way until [`Handles::finish_release`].
    ///
    /// # Errors
    /// As [`Handles::file`].
    pub(crate) fn begin_release(&self, handle: u64) -> Result<Arc<OpenFile>, Failure> {
        let file = self.file(handle)?;
        let mut table = self.table();
        table.open.remove(&handle);
        if let Some(others) = table.by_ino.get_mut(&file.ino) {
            others.retain(|other| !Arc::ptr_eq(other, &file));
            if others.is_empty() {
                table.by_ino.remove(&file.ino);
            }
        }
        *table.releasing.entry(file.ino).or_default() += 1;
        Ok(file)
    }

    /// The close of a file of `ino` is done.
    pub(crate) fn finish_release(&self, ino: Ino) {
        let mut table = self.table();
        if let Some(count) = table.releasing.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                table.releasing.remove(&ino);
            }
        }
        drop(table);
        self.released.notify_all();
    }

    /// Waits (bounded) until no close of `ino` is under way; answers whether there was one.
    ///
    /// The kernel does not wait for closes, so the lock of a description that a program just closed may still be held when
    /// the next program asks for it.
    pub(crate) fn wait_for_releases(&self, ino: Ino) -> bool {
        let table = self.table();
        if !table.releasing.contains_key(&ino) {
            return false;
        }
        let under_way = |table: &mut Table| table.releasing.contains_key(&ino);
        drop(self.released.wait_timeout_while(table, RELEASE_WAIT, under_way));
        true
    }

    /// A poisoned table is whole: its changes cannot panic half-way.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn insert(&mut self, open: Open) -> u64 {
        self.last += 1;
        self.open.insert(self.last, open);
        self.last
    }
}
