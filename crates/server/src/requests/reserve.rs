//! Room on a file system that is kept for what gives room back: on a full disk names can still be removed, files be cut,
//! and a server start.

use crate::privacy;
use rustix::fs::FallocateFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is kept: the journal records of about five thousand removals, or the blocks of 256 small files.
const RESERVE_BYTES: u64 = 1024 * 1024;
/// What is given at once: the records of some hundred removals.
const GIVEN_BYTES: u64 = 64 * 1024;
/// A start writes a log, its address and its lock: with less room than this it takes some of the reserve first.
const START_BYTES: u64 = 256 * 1024;
/// The files of a start: with fewer inodes than this left, the file of the reserve goes.
const START_FILES: u64 = 8;
/// The reserve is filled again when this much more than it is free, so that it does not take at once what was freed.
const REFILL_BYTES: u64 = 2 * RESERVE_BYTES;
const NAME: &str = "reserve";

/// A file that holds room.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    kept_bytes: Mutex<u64>,
    is_given: AtomicBool,
}

impl Reserve {
    /// The reserve in a directory, filled as far as there is room.
    pub(crate) fn open(folder: &Path) -> Reserve {
        let path = folder.join(NAME);
        let found = File::open(&path).and_then(|file| {
            privacy::close_to_others(&file)?;
            file.metadata()
        });
        let kept_bytes = found.map_or(0, |metadata| metadata.len().min(RESERVE_BYTES));
        let is_given = AtomicBool::new(kept_bytes > 0 && kept_bytes < RESERVE_BYTES);
        let reserve = Reserve { path, kept_bytes: Mutex::new(kept_bytes), is_given };
        reserve.refill();
        reserve
    }

    /// Gives some of it to whoever writes next; false where nothing is left.
    pub(crate) fn give(&self) -> bool {
        let mut kept_bytes = self.kept();
        let left = kept_bytes.saturating_sub(GIVEN_BYTES);
        let given = match (*kept_bytes, left) {
            (0, _) => Err(ErrorKind::NotFound.into()),
            // The inode may be what is missing.
            (_, 0) => fs::remove_file(&self.path),
            _ => OpenOptions::new().write(true).open(&self.path).and_then(|file| file.set_len(left)),
        };
        *kept_bytes = if given.is_ok() { left } else { 0 };
        if given.is_ok() {
            self.is_given.store(true, Ordering::SeqCst);
        }
        given.is_ok()
    }

    /// Whether some of it was given: what there is belongs to those that it was given for, until it is filled again.
    pub(crate) fn is_given(&self) -> bool {
        self.is_given.load(Ordering::SeqCst)
    }

    /// Makes room for a start where the file system is full.
    pub(crate) fn make_room_to_start(&self) {
        let Ok(statistics) = self.path.parent().map_or(Err(rustix::io::Errno::NOENT), rustix::fs::statvfs)
        else {
            return;
        };
        if statistics.f_files > 0 && statistics.f_favail < START_FILES {
            while self.give() {}
            return;
        }
        let mut free = statistics.f_bavail.saturating_mul(statistics.f_frsize);
        while free < START_BYTES && self.give() {
            free += GIVEN_BYTES;
        }
    }

    /// Whether its file system has room beside it.
    pub(crate) fn has_room(&self) -> bool {
        let free = || self.path.parent().and_then(free_bytes).is_some_and(|free| free >= GIVEN_BYTES);
        !self.is_given() && free()
    }

    /// Fills it again once there is room.
    pub(crate) fn refill(&self) {
        let mut kept_bytes = self.kept();
        if *kept_bytes == RESERVE_BYTES {
            return;
        }
        let has_room = self.path.parent().and_then(free_bytes).is_some_and(|free| free >= REFILL_BYTES);
        if has_room && self.fill().is_ok() {
            *kept_bytes = RESERVE_BYTES;
            self.is_given.store(false, Ordering::SeqCst);
        }
    }

    fn fill(&self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES) {
            Err(rustix::io::Errno::OPNOTSUPP) => write_zeros(&file),
            allocated => Ok(allocated?),
        }
    }

    fn kept(&self) -> MutexGuard<'_, u64> {
        self.kept_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_zeros(mut file: &File) -> io::Result<()> {
    let zeros = [0; GIVEN_BYTES as usize];
    (0..RESERVE_BYTES / GIVEN_BYTES).try_for_each(|_| file.write_all(&zeros))
}

/// What a file system has left for this user.
fn free_bytes(folder: &Path) -> Option<u64> {
    let statistics = rustix::fs::statvfs(folder).ok()?;
    Some(statistics.f_bavail.saturating_mul(statistics.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_is_kept_is_given_bit_by_bit_and_filled_again() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = Reserve::open(folder.path());
        let path = folder.path().join(NAME);
        assert!(fs::metadata(&path).unwrap().blocks() * 512 >= RESERVE_BYTES, "real room, no hole");
        let mut given = 0;
        while reserve.give() {
            given += GIVEN_BYTES;
            assert_eq!(fs::metadata(&path).map_or(0, |metadata| metadata.len()), RESERVE_BYTES - given);
        }
        assert_eq!(given, RESERVE_BYTES);
        assert!(!path.exists() && !reserve.give() && reserve.is_given());
        reserve.refill();
        assert!(!reserve.is_given());
        assert_eq!(fs::metadata(&path).unwrap().len(), RESERVE_BYTES);
        assert!(Reserve::open(folder.path()).give(), "it outlives the server");
    }
}
