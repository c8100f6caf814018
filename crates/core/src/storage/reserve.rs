//! The reserve: room on a file system for changes that give room back. On a full disk the server can still start, remove names
//! and cut files.

use super::files::{Opening, TargetFile, TargetFolder};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::sync::Arc;

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
    is_whole: bool,
    is_given: bool,
    is_refilling: bool,
}

/// A look at the room for a reserve, which is filled again where there is enough. A worker runs the ticket.
#[derive(Debug)]
pub struct RefillTicket(Arc<dyn TargetFolder>);

/// The end of a refill.
#[derive(Clone, Copy, Debug)]
pub struct Refilled {
    is_whole: bool,
    /// The file system has room beside the reserve.
    has_room: bool,
}

impl Reserve {
    /// The reserve in a directory, filled as far as there is room.
    pub fn open(folder: Arc<dyn TargetFolder>) -> Reserve {
        // A link in its place would give the reserve's bytes to the file behind it: the folder opens none.
        let found = folder.open(Path::new(NAME), Opening::Read).and_then(|file| {
            file.close_to_others()?;
            file.length()
        });
        let kept_bytes = found.unwrap_or(0);
        let is_whole = kept_bytes >= RESERVE_BYTES;
        let mut reserve =
            Reserve { folder, is_whole, is_given: kept_bytes > 0 && !is_whole, is_refilling: false };
        reserve.refill();
        reserve
    }

    /// Gives some of the reserve to the next writer; false if nothing is left.
    pub fn give(&mut self) -> bool {
        let is_given = give(&*self.folder);
        if is_given {
            self.note(false);
        }
        is_given
    }

    /// The reserve is whole now, or some of it was given.
    pub(crate) fn note(&mut self, is_whole: bool) {
        (self.is_whole, self.is_given) = (is_whole, !is_whole);
    }

    /// Whether some of the reserve was given. Until it is filled again, free room is for changes that give room back.
    pub fn is_given(&self) -> bool {
        self.is_given
    }

    /// Whether some of the reserve is missing.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Makes room for a start on a full file system.
    pub fn make_room_to_start(&mut self) {
        if self.folder.free_files().is_some_and(|free| free < START_FILES) {
            while self.give() {}
            return;
        }
        let Ok(mut free) = self.folder.free_bytes() else { return };
        while free < START_BYTES && self.give() {
            free += GIVEN_BYTES;
        }
    }

    /// Fills the reserve again if there is room; the call blocks.
    pub fn refill(&mut self) {
        if !self.is_whole && refill(&*self.folder) {
            self.note(true);
        }
    }

    /// A ticket that fills the reserve again if there is room; none while another one is out.
    pub(crate) fn refill_begin(&mut self) -> Option<RefillTicket> {
        let is_first = !std::mem::replace(&mut self.is_refilling, true);
        is_first.then(|| RefillTicket(Arc::clone(&self.folder)))
    }

    /// Takes the end of a refill; answers whether the file system has room beside the reserve.
    pub(crate) fn refill_complete(&mut self, refilled: Refilled) -> bool {
        self.is_refilling = false;
        if refilled.is_whole {
            self.note(true);
        }
        !self.is_given && refilled.has_room
    }
}

impl RefillTicket {
    /// Fills the reserve; the call blocks.
    pub(crate) fn run(&self) -> Refilled {
        let is_whole = refill(&*self.0);
        Refilled { is_whole, has_room: free_bytes(&*self.0) >= GIVEN_BYTES }
    }
}

/// Gives some of the reserve in a folder to the next writer; false if nothing is left.
pub(super) fn give(folder: &dyn TargetFolder) -> bool {
    let name = Path::new(NAME);
    let given = folder.open(name, Opening::Change).and_then(|file| {
        let left = file.length()?.min(RESERVE_BYTES).saturating_sub(GIVEN_BYTES);
        match left {
            // An inode may be missing, too.
            0 => folder.remove(name).map(drop),
            left => file.truncate(left),
        }
    });
    given.is_ok()
}

/// Fills the reserve in a folder again; false where there is no room.
pub(super) fn refill(folder: &dyn TargetFolder) -> bool {
    free_bytes(folder) >= REFILL_BYTES && fill(folder).is_ok()
}

fn fill(folder: &dyn TargetFolder) -> io::Result<()> {
    let file = folder.open(Path::new(NAME), Opening::Make)?;
    match file.allocate(0, RESERVE_BYTES) {
        Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => write_zeros(&*file),
        allocated => allocated,
    }
}

/// The room that a file system has left; 0 if it does not tell.
fn free_bytes(folder: &dyn TargetFolder) -> u64 {
    folder.free_bytes().unwrap_or(0)
}

fn write_zeros(file: &dyn TargetFile) -> io::Result<()> {
    let zeros = [0; GIVEN_BYTES as usize];
    (0..RESERVE_BYTES / GIVEN_BYTES).try_for_each(|part| file.write_all_at(&zeros, part * GIVEN_BYTES))
}
