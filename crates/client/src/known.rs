//! The size that an open file knows, an atomic pair of size and epoch, and its pending modification time.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_session::Size;
use weir_wire::Publication;

/// The value that stands in the place of an epoch while the pair is being changed.
const CHANGING: u64 = u64::MAX;
/// A pending modification time is published when the last publication is this old (docs/design/consistency.md, times).
const PUBLISH_MILLISECONDS: u64 = 100;

/// The last size that this open file learned. The size may be too small, and is never too large for its epoch.
///
/// A reader that finds the pair being changed goes on without it. No reader waits, so a signal handler may read.
#[derive(Debug)]
pub(crate) struct KnownSize {
    bytes: AtomicU64,
    epoch: AtomicU64,
}

/// Overwrites whose modification time the home does not know yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    written_bytes: AtomicU64,
    epoch: AtomicU64,
    /// The time of the last publication in milliseconds of the session's clock, 0 before the first.
    published: AtomicU64,
}

impl KnownSize {
    pub(crate) fn new(size: Size) -> KnownSize {
        KnownSize { bytes: AtomicU64::new(size.bytes), epoch: AtomicU64::new(size.epoch) }
    }

    /// The pair, unless another thread is changing it.
    pub(crate) fn find(&self) -> Option<Size> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let bytes = self.bytes.load(Ordering::SeqCst);
        let unchanged = self.epoch.load(Ordering::SeqCst) == epoch;
        (unchanged && epoch != CHANGING).then_some(Size { bytes, epoch })
    }

    /// Takes `size` over where the file grew within the known epoch. A size of another epoch does not tell the layout that
    /// goes with the epoch, so [`KnownSize::adopt`] takes it over.
    pub(crate) fn learn(&self, size: Size) {
        if self.epoch.load(Ordering::SeqCst) == size.epoch {
            self.adopt(size);
        }
    }

    /// Takes over a newer `size`: one of a later epoch, or a larger one of the same epoch. The layout of its epoch must be
    /// known already.
    pub(crate) fn adopt(&self, size: Size) {
        let known = self.epoch.load(Ordering::SeqCst);
        if known == CHANGING || size.epoch < known {
            return;
        }
        if self.epoch.compare_exchange(known, CHANGING, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return;
        }
        let bytes = self.bytes.load(Ordering::SeqCst);
        let newer = if size.epoch > known { size.bytes } else { bytes.max(size.bytes) };
        self.bytes.store(newer, Ordering::SeqCst);
        self.epoch.store(size.epoch, Ordering::SeqCst);
    }
}

impl Pending {
    /// Notes an overwrite. Answers whether it is time to publish.
    pub(crate) fn note(&self, written_bytes: u64, epoch: u64, now: u64) -> bool {
        self.epoch.store(epoch, Ordering::SeqCst);
        self.written_bytes.fetch_add(written_bytes, Ordering::SeqCst);
        let published = self.published.load(Ordering::SeqCst);
        published == 0 || now.saturating_sub(published) >= PUBLISH_MILLISECONDS
    }

    /// Takes the pending publication, if there is one. The publication never grows the file: an end would belong to the
    /// epoch of one of several writes, and under a later epoch it would undo a cut.
    pub(crate) fn take(&self, now: u64) -> Option<Publication> {
        let written_bytes = self.written_bytes.swap(0, Ordering::SeqCst);
        if written_bytes == 0 {
            return None;
        }
        self.published.store(now, Ordering::SeqCst);
        Some(Publication { end: 0, written_bytes, epoch: self.epoch.load(Ordering::SeqCst), reserved_end: 0 })
    }

    /// Notes that another request has just told the home of a modification.
    pub(crate) fn published(&self, now: u64) {
        self.published.store(now, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(bytes: u64, epoch: u64) -> Size {
        Size { bytes, epoch }
    }

    #[test]
    fn a_size_is_never_too_large_for_its_epoch() {
        let known = KnownSize::new(size(100, 5));
        known.learn(size(10, 6));
        assert_eq!(known.find(), Some(size(100, 5)), "the layout of a new epoch is not known yet");
        known.adopt(size(10, 6));
        assert_eq!(known.find(), Some(size(10, 6)));
        known.learn(size(100, 5));
        assert_eq!(known.find(), Some(size(10, 6)), "an old epoch says nothing");
        known.learn(size(20, 6));
        known.learn(size(15, 6));
        assert_eq!(known.find(), Some(size(20, 6)));
    }

    #[test]
    fn the_first_overwrite_is_published_at_once_and_later_ones_together() {
        let pending = Pending::default();
        let publication =
            |written_bytes| Some(Publication { end: 0, written_bytes, epoch: 1, reserved_end: 0 });
        assert!(pending.note(10, 1, 1));
        assert_eq!(pending.take(1), publication(10));
        assert!(!pending.note(10, 1, 50));
        assert!(!pending.note(10, 1, 60));
        assert!(pending.note(10, 1, 101));
        assert_eq!(pending.take(101), publication(30));
        assert_eq!(pending.take(101), None);
    }
}
