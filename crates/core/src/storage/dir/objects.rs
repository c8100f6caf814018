//! The bytes that each object of a target occupies.
//!
//! A file system may give a file more blocks, or fewer, after the last write to it (delayed allocation, extent trees). When an
//! object goes, its own count goes with it, whatever the file system says then. So the sum of the counts stays true.

use super::names::Aside;
use crate::storage::files::TargetFile;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use weir_wire::Ino;

/// The objects of a target: those with an open file, and the counts of all others.
#[derive(Default)]
pub(super) struct Objects {
    open: HashMap<Ino, Arc<Open>>,
    closed_bytes: HashMap<Ino, u64>,
    aside_bytes: HashMap<Aside, u64>,
}

/// An open object file and its count.
pub(super) struct Open {
    pub(super) file: Box<dyn TargetFile>,
    counted_bytes: AtomicU64,
    /// Whether a call has written to the object with success.
    is_written: AtomicBool,
}

impl Objects {
    /// Counts an object that the opening of the target found.
    pub(super) fn found(&mut self, ino: Ino, occupied_bytes: u64) {
        self.closed_bytes.insert(ino, occupied_bytes);
    }

    /// Counts an object set aside that the opening of the target found.
    pub(super) fn found_aside(&mut self, aside: Aside, occupied_bytes: u64) {
        self.aside_bytes.insert(aside, occupied_bytes);
    }

    /// The sum of all counts; objects with open files are left out.
    pub(super) fn counted_bytes(&self) -> u64 {
        self.closed_bytes.values().sum::<u64>() + self.aside_bytes.values().sum::<u64>()
    }

    pub(super) fn open(&self, ino: Ino) -> Option<Arc<Open>> {
        self.open.get(&ino).map(Arc::clone)
    }

    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Keeps the open file of an object. Two workers that open one object at once count it once, so the first file stays.
    pub(super) fn opened(&mut self, ino: Ino, open: Open) -> Arc<Open> {
        let closed_bytes = &mut self.closed_bytes;
        let open = self.open.entry(ino).or_insert_with(|| {
            open.recount(closed_bytes.remove(&ino).unwrap_or(0));
            Arc::new(open)
        });
        Arc::clone(open)
    }

    /// Closes a file that nobody uses now; false if there is none.
    pub(super) fn close_idle(&mut self) -> bool {
        let idle = self.open.iter().find(|(_, open)| Arc::strong_count(open) == 1).map(|(&ino, _)| ino);
        let Some(ino) = idle else { return false };
        let bytes = self.forget(ino);
        self.closed_bytes.insert(ino, bytes);
        true
    }

    /// Forgets an object and answers its count.
    pub(super) fn forget(&mut self, ino: Ino) -> u64 {
        match self.open.remove(&ino) {
            Some(open) => open.counted_bytes.load(Ordering::Relaxed),
            None => self.closed_bytes.remove(&ino).unwrap_or(0),
        }
    }

    /// Moves the object's count to the object set aside.
    pub(super) fn set_aside(&mut self, aside: Aside) {
        let bytes = self.forget(aside.ino);
        self.aside_bytes.insert(aside, bytes);
    }

    /// Gives the object set aside its name again; answers the count of the object that had the name.
    pub(super) fn put_back(&mut self, aside: Aside) -> u64 {
        let replaced = self.forget(aside.ino);
        let bytes = self.forget_aside(aside);
        self.closed_bytes.insert(aside.ino, bytes);
        replaced
    }

    /// Forgets an object set aside and answers its count.
    pub(super) fn forget_aside(&mut self, aside: Aside) -> u64 {
        self.aside_bytes.remove(&aside).unwrap_or(0)
    }
}

impl Open {
    /// The file of an object that a call is making.
    pub(super) fn new(file: Box<dyn TargetFile>) -> Open {
        Open { file, counted_bytes: AtomicU64::new(0), is_written: AtomicBool::new(false) }
    }

    /// The file of an object that an earlier call made.
    pub(super) fn found(file: Box<dyn TargetFile>) -> Open {
        Open { file, counted_bytes: AtomicU64::new(0), is_written: AtomicBool::new(true) }
    }

    pub(super) fn note_written(&self) {
        self.is_written.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_written(&self) -> bool {
        self.is_written.load(Ordering::SeqCst)
    }

    /// Takes `now` as the object's count and answers the one before.
    pub(super) fn recount(&self, now: u64) -> u64 {
        self.counted_bytes.swap(now, Ordering::Relaxed)
    }
}
