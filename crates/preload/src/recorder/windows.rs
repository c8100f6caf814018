//! The windows of this process in its trace: the counts of its operations on the store, written as the windows end.
//!
//! A window is written with the first operation that ends 100 ms after the window or later, so a killed process loses the last
//! two windows in which it had operations, at most. Each block names the job, and can be read without the blocks before it.

use crate::recorder::log;
use crate::recorder::room::ROOM;
use crate::store::session;
use weir_trace::{Job, Record, Uncounted, Window};
use weir_windows::{Line, Tally};

/// Records of windows in a block: with the longest numbers they have 36 KB, and a block takes 64 KiB.
const BLOCK_WINDOWS: usize = 256;

static TALLY: Tally = Tally::new(tell);

/// Has the client count the operations of this process.
pub(super) fn start() {
    session::count_in(&TALLY);
}

/// Writes all windows, the open one, too.
pub(super) fn finish() {
    TALLY.finish();
    if ROOM.is_loss_untold(TALLY.left_out()) {
        write_uncounted(&TALLY);
    }
}

/// Goes on to write windows as they end, because the process image did not end.
pub(super) fn resume() {
    TALLY.resume();
}

/// Writes lines of windows, and the losses that a killed process would not tell. The client calls this function inside of a hook.
fn tell(tally: &Tally, lines: &[Line]) {
    if !lines.is_empty() {
        // The room of a child in which no fork handler ran is its parent's until then.
        log::notice_child();
    }
    for lines in lines.chunks(BLOCK_WINDOWS) {
        match if ROOM.is_full() { None } else { write(tally, lines) } {
            Some(bytes) => ROOM.take(bytes),
            None => ROOM.miss(lines.len()),
        }
    }
    if ROOM.is_loss_due(tally.left_out()) {
        write_uncounted(tally);
    }
}

/// Writes lines in one block, and answers its bytes; absent where the trace did not take the block.
fn write(tally: &Tally, lines: &[Line]) -> Option<usize> {
    let first = lines.first()?;
    let after_nanoseconds = log::elapsed();
    let mut records = Vec::with_capacity(1 + lines.len());
    records.push(Record::Job(Job {
        store: first.store,
        uid: first.uid,
        name: &first.job,
        window_nanoseconds: tally.window().as_nanos() as u64,
    }));
    records.extend(lines.iter().map(|line| Record::Window(window_of(line, after_nanoseconds))));
    log::offer(&records)
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

fn write_uncounted(tally: &Tally) {
    log::notice_child();
    let (windows, operations) = (ROOM.missed(), tally.left_out());
    let after_nanoseconds = log::elapsed();
    if log::offer(&[Record::Uncounted(Uncounted { windows, operations, after_nanoseconds })]).is_some() {
        ROOM.note_told(windows, operations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trace::{block, BLOCK_HEADER_BYTES, PAYLOAD_BYTES};
    use weir_windows::{Counts, Device};

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
