//! The accesses to an open file of the store: their sizes, and their places beside the ones before.
//!
//! Each open description counts its own reads and writes. The counts are told at each close of its descriptors, and at the
//! end of the process, and begin anew; so the records of a file add up.

use crate::files::table::{self, Entry};
use crate::recorder::{log, names, placeholder_name, report};
use libc::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weir_trace::{Accessed, Pattern, Record, ALIGNMENT_BYTES, SIZE_BOUNDS};

/// Most records of accesses in the trace of a process image: at some hundred bytes each they have less room than windows.
/// The accesses of further files are told together.
const RECORDS_MAX: u32 = 65_536;
/// The end of the access before the first.
const NOWHERE: u64 = u64::MAX;

static TOLD: AtomicU32 = AtomicU32::new(0);
static FURTHER: Accesses = Accesses::new();

/// The reads and writes of one open description.
pub(crate) struct Accesses {
    reads: Counts,
    writes: Counts,
}

struct Counts {
    sizes: [AtomicU64; SIZE_BOUNDS.len() + 1],
    bytes: AtomicU64,
    unaligned: AtomicU64,
    ahead: AtomicU64,
    consecutive: AtomicU64,
    end: AtomicU64,
}

impl Accesses {
    pub(crate) const fn new() -> Accesses {
        Accesses { reads: Counts::new(), writes: Counts::new() }
    }

    /// Counts a read, where the process is recorded.
    #[inline]
    pub(crate) fn read(&self, offset: u64, bytes: usize) {
        if super::is_on() {
            self.reads.add(offset, bytes as u64);
        }
    }

    /// Counts a write, where the process is recorded.
    #[inline]
    pub(crate) fn wrote(&self, offset: u64, bytes: usize) {
        if super::is_on() {
            self.writes.add(offset, bytes as u64);
        }
    }

    fn take(&self) -> Option<(Pattern, Pattern)> {
        let (reads, writes) = (self.reads.take(), self.writes.take());
        (reads != Pattern::default() || writes != Pattern::default()).then_some((reads, writes))
    }
}

impl Counts {
    const fn new() -> Counts {
        Counts {
            sizes: [const { AtomicU64::new(0) }; SIZE_BOUNDS.len() + 1],
            bytes: AtomicU64::new(0),
            unaligned: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            consecutive: AtomicU64::new(0),
            end: AtomicU64::new(NOWHERE),
        }
    }

    fn add(&self, offset: u64, bytes: u64) {
        let before = self.end.swap(offset.saturating_add(bytes), Ordering::Relaxed);
        let class = SIZE_BOUNDS.iter().position(|bound| bytes < *bound).unwrap_or(SIZE_BOUNDS.len());
        self.sizes[class].fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_first = before == NOWHERE;
        for (count, is_so) in [
            (&self.unaligned, offset % ALIGNMENT_BYTES != 0),
            (&self.ahead, is_first || offset >= before),
            (&self.consecutive, is_first || offset == before),
        ] {
            count.fetch_add(u64::from(is_so), Ordering::Relaxed);
        }
    }

    /// Takes the counts; the place of the last access stays.
    fn take(&self) -> Pattern {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        Pattern {
            sizes: std::array::from_fn(|class| take(&self.sizes[class])),
            bytes: take(&self.bytes),
            unaligned: take(&self.unaligned),
            ahead: take(&self.ahead),
            consecutive: take(&self.consecutive),
        }
    }

    fn join(&self, pattern: &Pattern) {
        let parts = [
            (&self.bytes, pattern.bytes),
            (&self.unaligned, pattern.unaligned),
            (&self.ahead, pattern.ahead),
            (&self.consecutive, pattern.consecutive),
        ];
        for (count, found) in self.sizes.iter().zip(pattern.sizes).chain(parts) {
            count.fetch_add(found, Ordering::Relaxed);
        }
    }
}

/// Tells the accesses through `descriptor`, which is about to be closed.
pub(super) fn tell(descriptor: c_int) {
    let Entry::Known(description) = table::look_up(descriptor) else { return };
    let Some((reads, writes)) = description.accesses().take() else { return };
    if TOLD.fetch_add(1, Ordering::Relaxed) >= RECORDS_MAX {
        FURTHER.reads.join(&reads);
        FURTHER.writes.join(&writes);
        return;
    }
    let name = placeholder_name(descriptor).unwrap_or_else(|| names::of_recorded_file(descriptor));
    let layout = report::layout_of(descriptor);
    write(&name.unwrap_or_default(), layout.as_deref().unwrap_or_default(), reads, writes);
}

/// Tells the accesses through all descriptors.
pub(super) fn tell_all() {
    let mut known = Vec::new();
    table::each(|descriptor, _| known.push(descriptor));
    known.into_iter().for_each(tell);
    if let Some((reads, writes)) = FURTHER.take() {
        write(b"", "", reads, writes);
    }
}

fn write(path: &[u8], layout: &str, reads: Pattern, writes: Pattern) {
    let after_nanoseconds = log::elapsed();
    log::offer(&[Record::Accessed(Accessed { path, layout, reads, writes, after_nanoseconds })]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_counted_by_size_and_place() {
        let counts = Counts::new();
        for (offset, bytes) in [(0, 512), (512, 4096), (65_536, 1 << 20), (4096, 8 << 20)] {
            counts.add(offset, bytes);
        }
        let found = counts.take();
        assert_eq!(found.sizes, [1, 1, 0, 1, 1]);
        assert_eq!(found.bytes, 512 + 4096 + (1 << 20) + (8 << 20));
        assert_eq!((found.unaligned, found.ahead, found.consecutive), (1, 3, 2));
        assert_eq!(counts.take(), Pattern::default());
        counts.add(4096 + (8 << 20), 1);
        assert_eq!(counts.take().consecutive, 1, "the place of the last access stays");
    }
}
