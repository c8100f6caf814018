//! The bytes that each object of a target occupies, and the files of objects that are open.
//!
//! A file system may give a file more blocks, or fewer, after the last write to it (delayed allocation, extent trees). When an
//! object goes, its own count goes with it, whatever the file system says then. So the sum of the counts stays true.

use super::names::Aside;
use crate::requests::ranges::Range;
use crate::storage::files::{File, Sizes};
use std::collections::HashMap;
use std::sync::Arc;
use weir_wire::Ino;

/// The objects of a target: those with an open file, and the counts of all others.
#[derive(Default)]
pub(in crate::storage) struct Objects {
    open: HashMap<Ino, Open>,
    closed: HashMap<Ino, Counted>,
    aside: HashMap<Aside, Counted>,
    /// The sum of all counts.
    used_bytes: u64,
    /// The size of a block, as the last file had it that was looked at.
    block_bytes: u64,
}

/// An open object file and its count.
struct Open {
    file: File,
    counted: Counted,
    /// Whether a call has written to the object with success.
    is_written: bool,
}

/// The sizes of an object when they were last looked at.
#[derive(Clone, Copy, Default)]
struct Counted {
    length_bytes: u64,
    occupied_bytes: u64,
    /// The looks so far.
    looks: u64,
}

impl Objects {
    /// Counts an object that the opening of the target found.
    pub(in crate::storage) fn found(&mut self, object: Ino, sizes: Sizes) {
        let counted = self.counted(sizes);
        self.used_bytes += counted.occupied_bytes;
        self.closed.insert(object, counted);
    }

    /// Counts an object set aside that the opening of the target found.
    pub(in crate::storage) fn found_aside(&mut self, aside: Aside, sizes: Sizes) {
        let counted = self.counted(sizes);
        self.used_bytes += counted.occupied_bytes;
        self.aside.insert(aside, counted);
    }

    fn counted(&mut self, sizes: Sizes) -> Counted {
        self.block_bytes = sizes.block_bytes.max(1);
        Counted { length_bytes: sizes.length_bytes, occupied_bytes: sizes.occupied_bytes, looks: 1 }
    }

    /// The sum of all counts.
    pub(in crate::storage) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// The most bytes by which writes to these ranges make the object larger. In an object without holes a write takes room behind its
    /// last block alone.
    pub(in crate::storage) fn growth(&self, object: Ino, ranges: impl Iterator<Item = Range> + Clone) -> u64 {
        let wanted = ranges.clone().map(|(begin, end)| end - begin).sum();
        let open = self.open.get(&object).map(|open| open.counted);
        let Some(counted) = open.or_else(|| self.closed.get(&object).copied()) else { return wanted };
        if counted.occupied_bytes < counted.length_bytes {
            return wanted;
        }
        let last = counted.length_bytes.next_multiple_of(self.block_bytes.max(1));
        ranges.map(|(begin, end)| end.saturating_sub(begin.max(last))).sum()
    }

    /// The open file of an object.
    pub(in crate::storage) fn file(&self, object: Ino) -> Option<File> {
        self.open.get(&object).map(|open| Arc::clone(&open.file))
    }

    /// Takes the open file of an object, whose name is to go: the worker that removes the name closes the file, which may take time.
    pub(in crate::storage) fn take_file(&mut self, object: Ino) -> Option<File> {
        let open = self.open.remove(&object)?;
        self.closed.insert(object, open.counted);
        Some(open.file)
    }

    /// Keeps the open file of an object. Two workers may open one object at once: the first file stays. `is_made` says that the call made
    /// the object.
    pub(in crate::storage) fn opened(&mut self, object: Ino, file: File, is_made: bool) {
        let closed = &mut self.closed;
        self.open.entry(object).or_insert_with(|| {
            let counted = closed.remove(&object).unwrap_or_default();
            Open { file, counted, is_written: !is_made }
        });
    }

    /// Takes files of objects that nobody uses now, until one more fits into `open_max`.
    pub(in crate::storage) fn take_surplus(&mut self, open_max: usize) -> Vec<File> {
        let surplus = (self.open.len() + 1).saturating_sub(open_max);
        (0..surplus).map_while(|_| self.take_idle()).collect()
    }

    /// Takes the file of an object that nobody uses now; none where all are in use.
    pub(in crate::storage) fn take_idle(&mut self) -> Option<File> {
        let idle = self.open.iter().find(|(_, open)| Arc::strong_count(&open.file) == 1);
        let object = idle.map(|(&object, _)| object)?;
        self.take_file(object)
    }

    /// Whether the object is there because of calls that failed alone.
    pub(in crate::storage) fn is_unwritten(&self, object: Ino) -> bool {
        self.open.get(&object).is_some_and(|open| !open.is_written)
    }

    /// A call has written to the object with success.
    pub(in crate::storage) fn note_written(&mut self, object: Ino) {
        if let Some(open) = self.open.get_mut(&object) {
            open.is_written = true;
        }
    }

    /// The times that the sizes of an object were looked at.
    pub(in crate::storage) fn looks(&self, object: Ino) -> u64 {
        let open = self.open.get(&object).map(|open| open.counted);
        open.or_else(|| self.closed.get(&object).copied()).unwrap_or_default().looks
    }

    /// Counts the blocks that the object had when a call looked at it. `looks` is the number of looks before the call began: where others
    /// came since, two calls were on the object at once, and the larger sizes are the later ones.
    pub(in crate::storage) fn recount(&mut self, object: Ino, sizes: Sizes, looks: u64) {
        let mut now = self.counted(sizes);
        let open = self.open.get_mut(&object).map(|open| &mut open.counted);
        if let Some(counted) = open.or_else(|| self.closed.get_mut(&object)) {
            now.looks = counted.looks + 1;
            if counted.looks != looks {
                now.length_bytes = now.length_bytes.max(counted.length_bytes);
                now.occupied_bytes = now.occupied_bytes.max(counted.occupied_bytes);
            }
            self.used_bytes = self.used_bytes - counted.occupied_bytes + now.occupied_bytes;
            *counted = now;
        }
    }

    /// Forgets an object.
    pub(in crate::storage) fn forget(&mut self, object: Ino) {
        self.used_bytes -= self.take(object).occupied_bytes;
    }

    fn take(&mut self, object: Ino) -> Counted {
        let open = self.open.remove(&object).map(|open| open.counted);
        open.or_else(|| self.closed.remove(&object)).unwrap_or_default()
    }

    /// Moves the object's count to the object set aside.
    pub(in crate::storage) fn set_aside(&mut self, aside: Aside) {
        let counted = self.take(aside.ino);
        self.aside.insert(aside, counted);
    }

    /// Gives the object set aside its name again, in place of the object that had the name.
    pub(in crate::storage) fn put_back(&mut self, aside: Aside) {
        self.forget(aside.ino);
        let counted = self.aside.remove(&aside).unwrap_or_default();
        self.closed.insert(aside.ino, counted);
    }

    /// Forgets an object set aside.
    pub(in crate::storage) fn forget_aside(&mut self, aside: Aside) {
        self.used_bytes -= self.aside.remove(&aside).unwrap_or_default().occupied_bytes;
    }
}
