//! The windows of this process in its trace: the counts of its operations on the store, written as the windows end.
//!
//! A window is written with the first operation that ends 100 ms after the window or later, so a killed process loses the last
//! two windows in which it had operations, at most. Each block names the job, and can be read without the blocks before it.

use crate::recorder::log;
use crate::store::session;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_trace::{Job, Record, Uncounted, Window};
use weir_windows::{Line, Tally};

/// Most bytes of windows in one trace: a day of windows of a second on four busy devices has 15 MB.
const BYTES_MAX: u64 = 16 << 20;
/// Records of windows in a block: with the longest numbers they have 36 KB, and a block takes 64 KiB.
const BLOCK_WINDOWS: usize = 256;

static TALLY: Tally = Tally::new(tell);
static ROOM: Room = Room::new();

/// The room of a trace for windows.
struct Room {
    /// Bytes of the windows that were written.
    used: AtomicU64,
    /// Records of windows that were not written.
    missed: AtomicU64,
}

impl Room {
    const fn new() -> Room {
        Room { used: AtomicU64::new(0), missed: AtomicU64::new(0) }
    }

    fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= BYTES_MAX
    }

    fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Notes records that found no room. Answers whether they are the first.
    fn miss(&self, records: usize) -> bool {
        self.missed.fetch_add(records as u64, Ordering::Relaxed) == 0
    }

    fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    fn clear(&self) {
        self.used.store(0, Ordering::Relaxed);
        self.missed.store(0, Ordering::Relaxed);
    }
}

/// Has the client count the operations of this process.
pub(super) fn start() {
    session::count_in(&TALLY);
}

/// Begins anew in the child of a fork, whose windows are empty.
pub(super) fn start_in_child() {
    ROOM.clear();
}

/// Writes all windows, the open one, too.
pub(super) fn finish() {
    TALLY.finish();
    if ROOM.missed() > 0 || TALLY.left_out() > 0 {
        write_uncounted();
    }
}

/// Goes on to write windows as they end, because the process image did not end.
pub(super) fn resume() {
    TALLY.resume();
}

/// Writes lines of windows. The client calls this function inside of a hook.
fn tell(tally: &Tally, lines: &[Line]) {
    for lines in lines.chunks(BLOCK_WINDOWS) {
        if !ROOM.is_full() {
            ROOM.take(write(tally, lines));
        } else if ROOM.miss(lines.len()) {
            write_uncounted();
        }
    }
}

fn write(tally: &Tally, lines: &[Line]) -> usize {
    let Some(first) = lines.first() else { return 0 };
    let after_nanoseconds = log::elapsed();
    let mut records = Vec::with_capacity(1 + lines.len());
    records.push(Record::Job(Job {
        store: first.store,
        uid: first.uid,
        name: &first.job,
        window_nanoseconds: tally.window().as_nanos() as u64,
    }));
    records.extend(lines.iter().map(|line| Record::Window(window_of(line, after_nanoseconds))));
    log::append(&records)
}

fn window_of(line: &Line, after_nanoseconds: u64) -> Window {
    let counts = &line.counts;
    Window {
        number: line.window,
        server: line.device.server(),
        target: line.device.number_of_target(),
        reads: counts.reads,
        read_bytes: counts.read_bytes,
        read_nanoseconds: counts.read_nanoseconds,
        writes: counts.writes,
        written_bytes: counts.written_bytes,
        write_nanoseconds: counts.write_nanoseconds,
        stats: counts.stats,
        opens: counts.opens,
        closes: counts.closes,
        others: counts.others,
        metadata_nanoseconds: counts.metadata_nanoseconds,
        after_nanoseconds,
    }
}

fn write_uncounted() {
    log::append(&[Record::Uncounted(Uncounted {
        windows: ROOM.missed(),
        operations: TALLY.left_out(),
        after_nanoseconds: log::elapsed(),
    })]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trace::{block, BLOCK_HEADER_BYTES, PAYLOAD_BYTES};
    use weir_windows::{Counts, Device};

    #[test]
    fn a_trace_has_room_for_so_many_bytes_and_counts_the_records_beyond() {
        let room = Room::new();
        room.take(BYTES_MAX as usize - 1);
        assert!(!room.is_full());
        room.take(1);
        assert!(room.is_full());
        assert!(room.miss(3) && !room.miss(4));
        assert_eq!(room.missed(), 7);
        room.clear();
        assert!(!room.is_full() && room.missed() == 0);
    }

    #[test]
    fn the_longest_block_of_windows_fits() {
        let most = u64::MAX;
        let counts = Counts {
            reads: most,
            read_bytes: most,
            read_nanoseconds: most,
            writes: most,
            written_bytes: most,
            write_nanoseconds: most,
            stats: most,
            opens: most,
            closes: most,
            others: most,
            metadata_nanoseconds: most,
        };
        let device = Device::target(u16::MAX, u16::MAX - 1);
        let line = Line { window: most, store: most, uid: u32::MAX, job: String::new(), device, counts };
        let name = "j".repeat(weir_windows::JOB_BYTES_MAX);
        let job = Job { store: most, uid: u32::MAX, name: &name, window_nanoseconds: most };
        let mut records = vec![Record::Job(job)];
        records.resize(1 + BLOCK_WINDOWS, Record::Window(window_of(&line, most)));
        assert!(block(&records, &mut vec![0; BLOCK_HEADER_BYTES + PAYLOAD_BYTES]).is_ok());
    }
}
