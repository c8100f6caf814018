//! The reserve: room on a file system for changes that give room back. On a full disk the server can still start, remove names
//! and cut files.

use super::files::{Opening, TargetFile, TargetFolder};
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The size of a reserve: the journal records of about five thousand removals, or the blocks of 256 small files.
const RESERVE_BYTES: u64 = 1024 * 1024;
/// The bytes that the reserve gives at once: the records of some hundred removals.
const GIVEN_BYTES: u64 = 64 * 1024;
/// The room for a start, which writes a log, its address and its lock: with less room it takes some of the reserve first.
const START_BYTES: u64 = 256 * 1024;
/// The inodes for a start: with fewer inodes left, the file of the reserve goes.
const START_FILES: u64 = 8;
/// The free room at which the reserve is filled again: more than its size, so that it does not take freed room at once.
const REFILL_BYTES: u64 = 2 * RESERVE_BYTES;
const NAME: &str = "reserve";

/// A file that holds room.
#[derive(Debug)]
pub struct Reserve {
    folder: Arc<dyn TargetFolder>,
    kept_bytes: Mutex<u64>,
    is_given: AtomicBool,
}

impl Reserve {
    /// The reserve in a directory, filled as far as there is room.
    pub fn open(folder: Arc<dyn TargetFolder>) -> Reserve {
        // A link in its place would give the reserve's bytes to the file behind it: the folder opens none.
        let found = folder.open(Path::new(NAME), Opening::Read).and_then(|file| {
            file.close_to_others()?;
            file.length()
        });
        let kept_bytes = found.map_or(0, |length| length.min(RESERVE_BYTES));
        let is_given = AtomicBool::new(kept_bytes > 0 && kept_bytes < RESERVE_BYTES);
        let reserve = Reserve { folder, kept_bytes: Mutex::new(kept_bytes), is_given };
        reserve.refill();
        reserve
    }

    /// Gives some of the reserve to the next writer; false if nothing is left.
    pub fn give(&self) -> bool {
        let mut kept_bytes = self.kept();
        let left = kept_bytes.saturating_sub(GIVEN_BYTES);
        let given = match (*kept_bytes, left) {
            (0, _) => Err(ErrorKind::NotFound.into()),
            // An inode may be missing, too.
            (_, 0) => self.folder.remove(Path::new(NAME)).map(drop),
            _ => self.folder.open(Path::new(NAME), Opening::Change).and_then(|file| file.truncate(left)),
        };
        *kept_bytes = if given.is_ok() { left } else { 0 };
        if given.is_ok() {
            self.is_given.store(true, Ordering::SeqCst);
        }
        given.is_ok()
    }

    /// Whether some of the reserve was given. Until it is filled again, free room is for changes that give room back.
    pub fn is_given(&self) -> bool {
        self.is_given.load(Ordering::SeqCst)
    }

    /// Makes room for a start on a full file system.
    pub fn make_room_to_start(&self) {
        if self.folder.free_files().is_some_and(|free| free < START_FILES) {
            while self.give() {}
            return;
        }
        let Ok(mut free) = self.folder.free_bytes() else { return };
        while free < START_BYTES && self.give() {
            free += GIVEN_BYTES;
        }
    }

    /// Whether the file system has room beside the reserve.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_given() && self.free_bytes() >= GIVEN_BYTES
    }

    /// Fills the reserve again if there is room.
    pub fn refill(&self) {
        let mut kept_bytes = self.kept();
        if *kept_bytes == RESERVE_BYTES {
            return;
        }
        if self.free_bytes() >= REFILL_BYTES && self.fill().is_ok() {
            *kept_bytes = RESERVE_BYTES;
            self.is_given.store(false, Ordering::SeqCst);
        }
    }

    fn fill(&self) -> io::Result<()> {
        let file = self.folder.open(Path::new(NAME), Opening::Make)?;
        match file.allocate(0, RESERVE_BYTES) {
            Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
                write_zeros(&*file)
            }
            allocated => allocated,
        }
    }

    /// The room beside the reserve; 0 if the file system does not tell.
    fn free_bytes(&self) -> u64 {
        self.folder.free_bytes().unwrap_or(0)
    }

    fn kept(&self) -> MutexGuard<'_, u64> {
        self.kept_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_zeros(file: &dyn TargetFile) -> io::Result<()> {
    let zeros = [0; GIVEN_BYTES as usize];
    (0..RESERVE_BYTES / GIVEN_BYTES).try_for_each(|part| file.write_all_at(&zeros, part * GIVEN_BYTES))
}
