//! The contents of a file of windows: every number in it is checked, because another program may have written it.

use crate::format::{
    Count, Device, AT_KEYS, AT_LASTS, AT_LEFT_OUT, AT_LINES, AT_MAGIC, AT_SALT, AT_WINDOW, CELL_WORDS,
    FILE_BYTES, HEAD_WORDS, LINES, LINE_WORDS, MAGIC, WINDOWS, WINDOW_MAX, WINDOW_MIN,
};
use crate::job::Head;
use crate::table::{round_of, value_in};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The words of a file at one moment.
#[derive(Debug)]
pub struct Contents {
    words: Vec<u64>,
    window: Duration,
}

/// The counts of a job on a device in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of the window since 1970.
    pub window: u64,
    /// The number of the store.
    pub store: u64,
    /// The job's user.
    pub uid: u32,
    /// The job's name.
    pub job: String,
    /// The device.
    pub device: Device,
    /// The counts.
    pub counts: Counts,
}

/// The counts of operations that ended in a window, their bytes, and the sums of their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time of the reads.
    pub read_nanoseconds: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time of the writes.
    pub write_nanoseconds: u64,
    /// Metadata operations that change nothing.
    pub stats: u64,
    /// Opens.
    pub opens: u64,
    /// Closes.
    pub closes: u64,
    /// Other metadata operations.
    pub others: u64,
    /// Time of the metadata operations.
    pub metadata_nanoseconds: u64,
}

impl Contents {
    /// The contents of a file; absent where the bytes are those of no file of this version.
    pub fn decode(bytes: &[u8]) -> Option<Contents> {
        if bytes.len() != FILE_BYTES {
            return None;
        }
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let window = Duration::from_nanos(words[AT_WINDOW]);
        let is_known = words[AT_MAGIC] == MAGIC && (WINDOW_MIN..=WINDOW_MAX).contains(&window);
        is_known.then_some(Contents { words, window })
    }

    /// Length of a window.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// Operations that were not counted, because the table was full.
    pub fn left_out(&self) -> u64 {
        self.words[AT_LEFT_OUT]
    }

    /// The windows that can be told at a Unix time: the ring has them all, and they have ended some time ago.
    pub fn ended(&self, now: Duration, grace: Duration) -> RangeInclusive<u64> {
        let length = self.window.as_nanos() as u64;
        let open = (now.saturating_sub(grace).as_nanos() as u64) / length;
        let latest = (now.as_nanos() as u64) / length;
        // The oldest cell of the ring may be taken by the window that begins next.
        (latest + 2).saturating_sub(WINDOWS as u64)..=open.saturating_sub(1)
    }

    /// The counts of some windows, in no order. A job on a device may have several lines of one window.
    pub fn lines(&self, windows: &RangeInclusive<u64>) -> Vec<Line> {
        let mut found = Vec::new();
        let windows =
            *windows.start()..=(*windows.end()).min(windows.start().saturating_add(WINDOWS as u64 - 1));
        for number in 0..LINES {
            let key = self.words[AT_KEYS + number];
            let start = AT_LINES + number * LINE_WORDS;
            let (head, cells) = self.words[start..start + LINE_WORDS].split_at(HEAD_WORDS);
            let head =
                head.first_chunk::<HEAD_WORDS>().and_then(|head| Head::of(self.words[AT_SALT], key, head));
            let Some(head) = head else { continue };
            // Later cells are those of a round long ago, whose number comes again.
            for window in *windows.start()..=(*windows.end()).min(self.words[AT_LASTS + number]) {
                let at = (window % WINDOWS as u64) as usize * CELL_WORDS;
                let counts = Counts::of_cell(&cells[at..at + CELL_WORDS], round_of(window));
                if counts != Counts::default() {
                    found.push(head.line(window, counts));
                }
            }
        }
        found
    }
}

impl Head {
    /// The line of the job on the device in a window.
    pub(crate) fn line(&self, window: u64, counts: Counts) -> Line {
        Line { window, store: self.store, uid: self.uid, job: self.job.clone(), device: self.device, counts }
    }
}

impl Counts {
    /// The counts of a cell in a round.
    pub(crate) fn of_cell(cell: &[u64], round: u64) -> Counts {
        let value = |count: Count| value_in(cell[count as usize], round);
        Counts {
            reads: value(Count::Reads),
            read_bytes: value(Count::ReadBytes),
            read_nanoseconds: value(Count::Read),
            writes: value(Count::Writes),
            written_bytes: value(Count::WrittenBytes),
            write_nanoseconds: value(Count::Write),
            stats: value(Count::Stats),
            opens: value(Count::Opens),
            closes: value(Count::Closes),
            others: value(Count::Others),
            metadata_nanoseconds: value(Count::Metadata),
        }
    }
}
