//! The room of a trace for windows, and the losses that the trace tells.

use crate::host::file_size;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes of windows in one trace: a day of windows of a second on four busy devices has 15 MB.
const BYTES_MAX: u64 = 16 << 20;
/// The share of windows in a trace where the size of files is limited: the records of files have the rest.
const LIMITED_SHARE: u64 = 2;

/// The room of this process's trace.
pub(super) static ROOM: Room = Room::new();

/// The room of a trace for windows.
pub(super) struct Room {
    /// Bytes of the windows that were written.
    used: AtomicU64,
    /// Records of windows that were not written.
    missed: AtomicU64,
    /// The losses that the trace tells: records of windows, and operations in no window.
    told_missed: AtomicU64,
    told_operations: AtomicU64,
}

impl Room {
    const fn new() -> Room {
        Room {
            used: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            told_missed: AtomicU64::new(0),
            told_operations: AtomicU64::new(0),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full_below(file_size::limit())
    }

    fn is_full_below(&self, limit: Option<u64>) -> bool {
        let most = limit.map_or(BYTES_MAX, |limit| BYTES_MAX.min(limit / LIMITED_SHARE));
        self.used.load(Ordering::Relaxed) >= most
    }

    pub(super) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Notes records that were not written.
    pub(super) fn miss(&self, records: usize) {
        self.missed.fetch_add(records as u64, Ordering::Relaxed);
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Whether the trace is to tell its losses while the process goes on, where so many operations are in no window. Records
    /// are missing with each window once there is no room, so the trace tells them each time that they have doubled.
    pub(super) fn is_loss_due(&self, operations: u64) -> bool {
        let told = self.told_missed.load(Ordering::Relaxed);
        self.missed() >= told.saturating_mul(2).max(1)
            || operations > self.told_operations.load(Ordering::Relaxed)
    }

    /// Whether the trace does not tell all losses, where so many operations are in no window.
    pub(super) fn is_loss_untold(&self, operations: u64) -> bool {
        self.missed() > self.told_missed.load(Ordering::Relaxed)
            || operations > self.told_operations.load(Ordering::Relaxed)
    }

    /// Notes the losses that the trace tells.
    pub(super) fn note_told(&self, missed: u64, operations: u64) {
        self.told_missed.fetch_max(missed, Ordering::Relaxed);
        self.told_operations.fetch_max(operations, Ordering::Relaxed);
    }

    /// Begins anew, with a trace of its own.
    pub(super) fn clear(&self) {
        for number in [&self.used, &self.missed, &self.told_missed, &self.told_operations] {
            number.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_room_for_so_many_bytes_and_counts_the_records_beyond() {
        let room = Room::new();
        room.take(BYTES_MAX as usize - 1);
        assert!(!room.is_full_below(None));
        room.take(1);
        assert!(room.is_full_below(None));
        room.miss(3);
        room.miss(4);
        assert_eq!(room.missed(), 7);
        room.clear();
        assert!(!room.is_full_below(None) && room.missed() == 0);
    }

    #[test]
    fn windows_have_half_of_a_file_whose_size_is_limited() {
        let room = Room::new();
        room.take(499);
        assert!(!room.is_full_below(Some(1000)));
        room.take(1);
        assert!(room.is_full_below(Some(1000)) && !room.is_full_below(Some(1 << 40)));
        room.take(BYTES_MAX as usize);
        assert!(room.is_full_below(Some(1 << 40)));
    }

    #[test]
    fn losses_are_told_as_they_grow() {
        let room = Room::new();
        assert!(!room.is_loss_due(0) && !room.is_loss_untold(0));
        assert!(room.is_loss_due(1));
        room.note_told(0, 1);
        assert!(!room.is_loss_due(1) && room.is_loss_due(2));
        let mut told = Vec::new();
        for _ in 0..100 {
            room.miss(1);
            if room.is_loss_due(1) {
                room.note_told(room.missed(), 1);
                told.push(room.missed());
            }
        }
        assert_eq!(told, [1, 2, 4, 8, 16, 32, 64]);
        assert!(room.is_loss_untold(1));
        room.note_told(100, 1);
        assert!(!room.is_loss_untold(1) && room.is_loss_untold(2));
        room.clear();
        assert!(room.is_loss_due(1), "a child tells its own losses");
    }
}
