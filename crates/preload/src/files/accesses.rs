//! The accesses through one open description: their sizes, and their places beside the ones before.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_trace::{Pattern, ALIGNMENT_BYTES, SIZE_BOUNDS};

/// The end of the access before the first.
const NOWHERE: u64 = u64::MAX;

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

    /// Counts a read.
    pub(crate) fn read(&self, offset: u64, bytes: usize) {
        self.reads.add(offset, bytes as u64);
    }

    /// Counts a write.
    pub(crate) fn wrote(&self, offset: u64, bytes: usize) {
        self.writes.add(offset, bytes as u64);
    }

    /// Adds reads and writes that were taken elsewhere.
    pub(crate) fn join(&self, reads: &Pattern, writes: &Pattern) {
        self.reads.join(reads);
        self.writes.join(writes);
    }

    /// Takes the counts since the last call, absent where there was no access. The places of the last accesses stay.
    pub(crate) fn take(&self) -> Option<(Pattern, Pattern)> {
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
            (&self.unaligned, !offset.is_multiple_of(ALIGNMENT_BYTES)),
            (&self.ahead, is_first || offset >= before),
            (&self.consecutive, is_first || offset == before),
        ] {
            count.fetch_add(u64::from(is_so), Ordering::Relaxed);
        }
    }

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
