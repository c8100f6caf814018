//! The windows of one process, which the process tells as they end.
//!
//! They are counted as those of a file are, in memory of the process alone. A child of `fork` begins with none.

use crate::contents::{Counts, Line};
use crate::error::WindowsError;
use crate::format::{Device, Operation, GRACE, LINES, WINDOWS};
use crate::job::{Head, Job};
use crate::mapping::Mapping;
use crate::recorder::Recorder;
use crate::table::round_of;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::OnceLock;
use std::time::Duration;

/// Words beside the table: for each line and place of its ring a sum of the counts that were told, and two further words.
const WORDS: usize = LINES * WINDOWS + 2;
/// The place of the moment from which the open window is counted, in nanoseconds since 1970.
const AT_BEGUN: usize = LINES * WINDOWS;
/// The place of a word that is not 0 once all windows were told, the open one, too.
const AT_FINISHED: usize = AT_BEGUN + 1;

/// Takes lines whose counts are new, or have grown since they were told. There may be none, where the
/// number of operations that were left out has grown alone.
pub type Tell = fn(&Tally, &[Line]);

/// The windows of one process, for one job. Nothing is counted before they were begun.
#[derive(Debug)]
pub struct Tally {
    counting: OnceLock<Counting>,
    tell: Tell,
}

#[derive(Debug)]
struct Counting {
    recorder: Recorder,
    job: Job,
    told: Mapping,
}

impl Tally {
    /// Windows of which `tell` is told.
    pub const fn new(tell: Tell) -> Tally {
        Tally { counting: OnceLock::new(), tell }
    }

    /// Begins to count the operations of a job on a store. Once begun, the windows stay those of the first call.
    ///
    /// # Errors
    /// A length of windows outside of its limits, and failures of the system.
    pub fn begin(&self, window: Duration, store: u64, uid: u32, job: &str) -> Result<(), WindowsError> {
        if self.counting.get().is_some() {
            return Ok(());
        }
        let recorder = Recorder::of_process(window)?;
        let job = recorder.job(store, uid, job);
        let told = Mapping::of_process(WORDS).map_err(WindowsError::Memory)?;
        // Memory is mapped outside of the cell, so a signal handler that comes in the midst does not wait for its own thread.
        let fresh = Counting { recorder, job, told };
        self.counting.get_or_init(|| fresh);
        Ok(())
    }

    /// Counts an operation, as [`Recorder::count`] does. Windows that had ended some time before are told first, so that the
    /// operation takes the place of none that was not. Where the clock was set back by more than the ring, operations are left
    /// out until it has come near to its former time: nobody would tell their windows.
    #[inline]
    pub fn count(&self, device: Device, operation: Operation, ended: u64, took: u64) {
        let Some(counting) = self.counting.get() else { return };
        if counting.is_due(ended) {
            self.tell_ended(counting, ended);
        }
        counting.recorder.count_in_ring(&counting.job, device, operation, ended, took);
        if counting.told.words()[AT_FINISHED].load(Relaxed) != 0 {
            self.tell_all(counting);
        }
    }

    /// Tells all windows, because the process ends. Later operations are told one by one.
    pub fn finish(&self) {
        if let Some(counting) = self.counting.get() {
            counting.told.words()[AT_FINISHED].store(1, Relaxed);
            self.tell_all(counting);
        }
    }

    /// Tells windows as they end again, because the process goes on.
    pub fn resume(&self) {
        if let Some(counting) = self.counting.get() {
            counting.told.words()[AT_FINISHED].store(0, Relaxed);
        }
    }

    /// Length of a window; none before they were begun.
    pub fn window(&self) -> Duration {
        let begun = self.counting.get();
        begun.map_or(Duration::ZERO, |counting| Duration::from_nanos(counting.recorder.window_nanoseconds()))
    }

    /// Operations that were not counted, because the table was full, or the clock was set back by more than the ring.
    pub fn left_out(&self) -> u64 {
        self.counting.get().map_or(0, |counting| counting.recorder.table().left_out())
    }

    #[cold]
    fn tell_ended(&self, counting: &Counting, ended: u64) {
        let begun = counting.open_at(ended);
        (self.tell)(self, &counting.changed(begun / counting.recorder.window_nanoseconds()));
        // Until this moment every other thread tells the same windows before it counts in a later one.
        counting.told.words()[AT_BEGUN].store(begun, Relaxed);
    }

    #[cold]
    fn tell_all(&self, counting: &Counting) {
        (self.tell)(self, &counting.changed(u64::MAX));
    }
}

impl Counting {
    /// Whether the open window has ended some time before a moment. So it has where the clock was set back.
    #[inline]
    fn is_due(&self, ended: u64) -> bool {
        let begun = self.told.words()[AT_BEGUN].load(Relaxed);
        ended.wrapping_sub(GRACE.as_nanos() as u64).wrapping_sub(begun) >= self.recorder.window_nanoseconds()
    }

    /// The begin of the window that is open at a moment: the grace of the one before it is over.
    fn open_at(&self, ended: u64) -> u64 {
        let settled = ended.saturating_sub(GRACE.as_nanos() as u64);
        settled - settled % self.recorder.window_nanoseconds()
    }

    /// The lines of windows before `open` whose counts have changed since they were asked for.
    fn changed(&self, open: u64) -> Vec<Line> {
        let table = self.recorder.table();
        let mut found = Vec::new();
        for number in 0..LINES {
            let Some((key, head, last)) = table.head(number) else { continue };
            let Some(head) = Head::of(self.recorder.salt(), key, &head) else { continue };
            // The ring of a line ends with the window in which the line was used last.
            for window in (last + 1).saturating_sub(WINDOWS as u64)..=last.min(open.saturating_sub(1)) {
                let cell = table.cell(number, window);
                let counts = Counts::of_cell(&cell, round_of(window));
                if counts != Counts::default() && self.is_new(number, window, &cell) {
                    found.push(head.line(window, counts));
                }
            }
        }
        found
    }

    /// Notes the words of a cell. Answers whether they have changed: words only grow, and those of another round differ.
    fn is_new(&self, number: usize, window: u64, cell: &[u64]) -> bool {
        let sum = cell.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word));
        let told = &self.told.words()[number * WINDOWS + (window % WINDOWS as u64) as usize];
        told.swap(sum, Relaxed) != sum
    }
}
