//! Waits of the requests of a job for their turn, and the summary of the waits that is shown.

use crate::clock::seconds;
use std::sync::Arc;
use weir_fairshare::Nanos;

/// Upper bounds of the buckets that are shown, in seconds: from the cost of one small request to the patience of a user.
const BOUNDS: [f64; 10] = [1e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 1.0, 10.0];
/// Cells of one row of the histogram: a wait is told to a 64th part of itself.
const CELLS: usize = 32;
/// Waits below 2 to the power of this, in nanoseconds, share the first row: they cost a request next to nothing.
const FIRST_ROW_BITS: u32 = 10;
/// Rows of the histogram, each for the waits up to twice those of the row before: up to 18 minutes.
const ROWS: usize = 31;

/// The waits of one job.
#[derive(Default)]
pub(crate) struct Waits {
    histogram: Histogram,
    sum: Nanos,
    /// The summary, until another request waited: to make it is a walk over the whole histogram.
    summary: Option<Arc<WaitSummary>>,
}

/// The waits of one job as they are shown, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WaitSummary {
    pub(crate) median: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    /// Sum over requests.
    pub(crate) total: f64,
    /// Upper bound, and the requests up to it and above the one before.
    pub(crate) buckets: Vec<(f64, u64)>,
}

/// Counts of waits. A row takes memory (256 bytes) from the first wait in it on, so a job that waits as most jobs do has a
/// few rows, and none has more than 8 KiB.
#[derive(Default)]
struct Histogram {
    rows: [Option<Box<[u64; CELLS]>>; ROWS],
    count: u64,
    max: u64,
}

impl Waits {
    /// Notes that a request waited so long.
    pub(crate) fn note(&mut self, waited: Nanos) {
        self.histogram.record(waited.0);
        self.sum = self.sum + waited;
        self.summary = None;
    }

    /// The summary that is shown.
    pub(crate) fn summary(&mut self) -> Arc<WaitSummary> {
        if let Some(summary) = &self.summary {
            return Arc::clone(summary);
        }
        let summary = Arc::new(self.summarise());
        self.summary = Some(Arc::clone(&summary));
        summary
    }

    fn summarise(&self) -> WaitSummary {
        let quantile = |quantile: f64| self.histogram.quantile(quantile) as f64 / 1e9;
        let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
        let mut buckets: Vec<(f64, u64)> = bounds.map(|bound| (bound, 0)).collect();
        // Waits that the histogram does not tell apart count in one bucket, so that each request is counted once.
        for (least, _, count) in self.histogram.recorded() {
            let index = buckets.partition_point(|&(bound, _)| bound < least as f64 / 1e9);
            buckets[index].1 += count;
        }
        WaitSummary {
            median: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max: self.histogram.max as f64 / 1e9,
            total: seconds(self.sum),
            buckets,
        }
    }
}

impl Histogram {
    fn record(&mut self, wait: u64) {
        let (row, cell) = place(wait);
        self.rows[row].get_or_insert_default()[cell] += 1;
        self.count += 1;
        self.max = self.max.max(wait);
    }

    /// The cells that have waits, the shortest first: the least wait of the cell, the width of the cell, and the count.
    fn recorded(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let rows = self.rows.iter().enumerate().filter_map(|(row, cells)| Some((row, cells.as_deref()?)));
        rows.flat_map(|(row, cells)| {
            let (least, width) = extent(row);
            let cells = cells.iter().enumerate().filter(|(_, &count)| count > 0);
            cells.map(move |(cell, &count)| (least + cell as u64 * width, width, count))
        })
    }

    /// The wait that this part (0 to 1) of the requests did not exceed: the middle of its cell.
    fn quantile(&self, part: f64) -> u64 {
        let rank = ((self.count as f64 * part).ceil() as u64).max(1);
        let mut counted = 0;
        for (least, width, count) in self.recorded() {
            counted += count;
            if counted >= rank {
                return (least + width / 2).min(self.max);
            }
        }
        self.max
    }
}

/// The row and the cell of a wait in nanoseconds.
fn place(wait: u64) -> (usize, usize) {
    let row = (wait | 1).ilog2().saturating_sub(FIRST_ROW_BITS - 1) as usize;
    if row >= ROWS {
        return (ROWS - 1, CELLS - 1);
    }
    let (least, width) = extent(row);
    (row, ((wait - least) / width) as usize)
}

/// The least wait of a row, and the width of its cells.
fn extent(row: usize) -> (u64, u64) {
    let least = if row == 0 { 0 } else { 1 << (FIRST_ROW_BITS as usize + row - 1) };
    (least, least.max(1 << FIRST_ROW_BITS) / CELLS as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_tells_of_every_wait_up_to_its_making() {
        let mut waits = Waits::default();
        assert_eq!(waits.summary().buckets.iter().map(|&(_, count)| count).sum::<u64>(), 0);
        for millis in 1..=100 {
            waits.note(Nanos::from_millis(millis));
        }
        let summary = waits.summary();
        assert!((summary.median - 0.05).abs() < 0.001 && (summary.p99 - 0.099).abs() < 0.002, "{summary:?}");
        assert!((summary.max - 0.1).abs() < 0.001 && (summary.total - 5.05).abs() < 1e-9, "{summary:?}");
        assert_eq!(summary.buckets.iter().map(|&(_, count)| count).sum::<u64>(), 100);
        waits.note(Nanos::from_millis(2_000));
        assert_eq!(waits.summary().buckets[9], (10.0, 1));
    }

    /// A job once had 35 KB of counts before its first request, and tens of thousands of jobs are remembered.
    #[test]
    fn the_counts_of_a_job_take_memory_as_its_waits_need_it() {
        let rows = |waits: &Waits| waits.histogram.rows.iter().flatten().count();
        let mut waits = Waits::default();
        assert_eq!(rows(&waits), 0);
        for micros in 100..200 {
            waits.note(Nanos::from_micros(micros));
        }
        assert_eq!(rows(&waits), 2);
        for bit in 0..64 {
            waits.note(Nanos(1 << bit));
        }
        assert!(rows(&waits) * CELLS * size_of::<u64>() <= 8 << 10);
        assert!(size_of::<Waits>() <= 320);
    }

    #[test]
    fn each_wait_is_told_to_a_64th_of_itself() {
        let (mut wait, mut before) = (1u64, (0, 0));
        while wait < 1 << (FIRST_ROW_BITS as usize + ROWS - 1) {
            let mut waits = Waits::default();
            waits.note(Nanos(wait));
            // A longer one, so that the quantile is not the exact maximum.
            waits.note(Nanos(wait * 2));
            let told = waits.histogram.quantile(0.5);
            assert!(told.abs_diff(wait) <= (wait / 64).max(16), "{wait} ns is told as {told}");
            assert!(place(wait) >= before, "{wait}");
            before = place(wait);
            wait += wait / 50 + 1;
        }
    }
}
