//! The windows of a trace: the records of each window of a device put together.

use crate::{Job, Record, Trace, Uncounted, Window};
use std::collections::BTreeMap;

/// The windows of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows<'a> {
    /// The job whose operations were counted.
    pub job: Job<'a>,
    /// One line for each window of a device, by number and device.
    pub lines: Vec<Window>,
    /// The operations that are missing; absent where none is.
    pub uncounted: Option<Uncounted>,
}

impl<'a> Trace<'a> {
    /// The windows; absent where the process counted none.
    pub fn windows(&self) -> Option<Windows<'a>> {
        let mut job = None;
        let mut lines: BTreeMap<(u64, u16, Option<u16>), Window> = BTreeMap::new();
        let mut uncounted: Option<Uncounted> = None;
        for record in &self.records {
            match record {
                Record::Job(found) => job = job.or(Some(*found)),
                Record::Window(window) => {
                    let known = lines.entry((window.number, window.server, window.target)).or_insert(*window);
                    known.grow(window);
                }
                Record::Uncounted(found) => uncounted = Some(*found),
                _ => {}
            }
        }
        job.map(|job| Windows { job, lines: lines.into_values().collect(), uncounted })
    }
}

impl Window {
    /// Takes the greatest of each count. A process may write an earlier count after a later one, from another thread.
    fn grow(&mut self, other: &Window) {
        for (count, found) in [
            (&mut self.reads, other.reads),
            (&mut self.read_bytes, other.read_bytes),
            (&mut self.read_nanoseconds, other.read_nanoseconds),
            (&mut self.writes, other.writes),
            (&mut self.written_bytes, other.written_bytes),
            (&mut self.write_nanoseconds, other.write_nanoseconds),
            (&mut self.stats, other.stats),
            (&mut self.opens, other.opens),
            (&mut self.closes, other.closes),
            (&mut self.others, other.others),
            (&mut self.metadata_nanoseconds, other.metadata_nanoseconds),
            (&mut self.after_nanoseconds, other.after_nanoseconds),
        ] {
            *count = found.max(*count);
        }
    }
}
