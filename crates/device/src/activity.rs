//! The activity of a device in windows: counters that are sampled several times in each window and reduced to their sum,
//! mean and deviation (section III-B of the paper on quantifying interference by windows).

use weir_fairshare::{Direction, Nanos};

/// Bytes of a sector, as in Linux's `/proc/diskstats`.
const SECTOR_BYTES: f64 = 512.0;
/// Nanoseconds of a millisecond.
const MILLISECOND: f64 = 1e6;
/// Counters of a device. No scheduler merges requests, so merged requests are no counter.
const COUNTERS: usize = 9;

/// The requests of a device, and the reduction of the window that is open.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    totals: Totals,
    /// The totals at the last sample.
    before: Totals,
    /// The moment up to which the time in the queue is counted.
    counted: Nanos,
    sums: [f64; COUNTERS],
    squares: [f64; COUNTERS],
    samples: u32,
}

/// Totals since the device was there.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    reads: u64,
    writes: u64,
    read_bytes: u64,
    written_bytes: u64,
    read_time: Nanos,
    write_time: Nanos,
    busy: Nanos,
    queued_time: Nanos,
}

/// The reduction of one counter over the samples of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistic {
    /// Sum over the samples.
    pub sum: f64,
    /// Mean over the samples.
    pub mean: f64,
    /// Standard deviation of the samples, which are all that there are.
    pub deviation: f64,
}

/// The reduced counters of a window. Times are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Requests that were completed.
    pub reads: Statistic,
    /// Requests that were completed.
    pub writes: Statistic,
    /// Sectors of 512 bytes that completed requests read.
    pub read_sectors: Statistic,
    /// Sectors of 512 bytes that completed requests wrote.
    pub written_sectors: Statistic,
    /// Time between the arrivals of completed reads and their ends.
    pub read_milliseconds: Statistic,
    /// Time between the arrivals of completed writes and their ends.
    pub write_milliseconds: Statistic,
    /// Requests that were queued or in service when a sample was taken.
    pub in_progress: Statistic,
    /// Time that the device worked; the time of a request counts when the request ends.
    pub busy_milliseconds: Statistic,
    /// Time in progress, summed over all requests.
    pub queued_milliseconds: Statistic,
}

impl Activity {
    /// Counts the time of the requests that were in progress until now. This comes before each change of their number.
    pub fn count_time(&mut self, in_progress: usize, now: Nanos) {
        let passed = now.saturating_since(self.counted);
        let time = passed.0.saturating_mul(in_progress as u64);
        self.totals.queued_time = self.totals.queued_time + Nanos(time);
        self.counted = self.counted.max(now);
    }

    /// A request was completed, so long after its arrival.
    pub fn complete(&mut self, direction: Direction, bytes: u64, took: Nanos) {
        let totals = &mut self.totals;
        match direction {
            Direction::Read => {
                totals.reads += 1;
                totals.read_bytes += bytes;
                totals.read_time = totals.read_time + took;
            }
            Direction::Write => {
                totals.writes += 1;
                totals.written_bytes += bytes;
                totals.write_time = totals.write_time + took;
            }
        }
    }

    /// Takes a sample of a device with so many requests in progress, which has worked for `busy` since its start.
    pub fn sample(&mut self, in_progress: usize, busy: Nanos, now: Nanos) {
        self.count_time(in_progress, now);
        self.totals.busy = busy;
        let values = self.totals.since(&self.before, in_progress);
        for (index, value) in values.into_iter().enumerate() {
            self.sums[index] += value;
            self.squares[index] += value * value;
        }
        self.samples += 1;
        self.before = self.totals;
    }

    /// Ends the window.
    pub fn reduce(&mut self) -> Statistics {
        let count = f64::from(self.samples.max(1));
        let statistic = |index: usize| {
            let (sum, mean) = (self.sums[index], self.sums[index] / count);
            let variance = self.squares[index] / count - mean * mean;
            Statistic { sum, mean, deviation: variance.max(0.0).sqrt() }
        };
        let reduced = Statistics {
            reads: statistic(0),
            writes: statistic(1),
            read_sectors: statistic(2),
            written_sectors: statistic(3),
            read_milliseconds: statistic(4),
            write_milliseconds: statistic(5),
            in_progress: statistic(6),
            busy_milliseconds: statistic(7),
            queued_milliseconds: statistic(8),
        };
        (self.sums, self.squares, self.samples) = ([0.0; COUNTERS], [0.0; COUNTERS], 0);
        reduced
    }
}

impl Totals {
    /// The counters of a sample, in the order of [`Statistics`].
    fn since(&self, before: &Totals, in_progress: usize) -> [f64; COUNTERS] {
        let milliseconds =
            |after: Nanos, before: Nanos| after.saturating_since(before).0 as f64 / MILLISECOND;
        [
            (self.reads - before.reads) as f64,
            (self.writes - before.writes) as f64,
            (self.read_bytes - before.read_bytes) as f64 / SECTOR_BYTES,
            (self.written_bytes - before.written_bytes) as f64 / SECTOR_BYTES,
            milliseconds(self.read_time, before.read_time),
            milliseconds(self.write_time, before.write_time),
            in_progress as f64,
            milliseconds(self.busy, before.busy),
            milliseconds(self.queued_time, before.queued_time),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(count: u64) -> Nanos {
        Nanos::from_millis(count)
    }

    #[test]
    fn samples_of_a_window_are_reduced_to_sum_mean_and_deviation() {
        let mut activity = Activity::default();
        // Two reads arrive at 10 ms; one ends at 20 ms, and one after the sample.
        activity.count_time(0, milliseconds(10));
        activity.count_time(2, milliseconds(20));
        activity.complete(Direction::Read, 1024, milliseconds(10));
        activity.sample(1, milliseconds(8), milliseconds(100));
        activity.count_time(1, milliseconds(130));
        activity.complete(Direction::Read, 3072, milliseconds(120));
        activity.sample(0, milliseconds(30), milliseconds(200));
        let reduced = activity.reduce();
        assert_eq!(reduced.reads, Statistic { sum: 2.0, mean: 1.0, deviation: 0.0 });
        assert_eq!(reduced.read_sectors, Statistic { sum: 8.0, mean: 4.0, deviation: 2.0 });
        assert_eq!(reduced.read_milliseconds, Statistic { sum: 130.0, mean: 65.0, deviation: 55.0 });
        assert_eq!(reduced.in_progress, Statistic { sum: 1.0, mean: 0.5, deviation: 0.5 });
        assert_eq!(reduced.busy_milliseconds, Statistic { sum: 30.0, mean: 15.0, deviation: 7.0 });
        // Two requests for 10 ms, then one until 130 ms.
        assert_eq!(reduced.queued_milliseconds.sum, 130.0);
        assert_eq!(reduced.writes, Statistic::default());
    }

    #[test]
    fn a_window_begins_with_nothing() {
        let mut activity = Activity::default();
        activity.complete(Direction::Write, 512, milliseconds(1));
        activity.sample(0, milliseconds(1), milliseconds(1));
        assert_eq!(activity.reduce().write_milliseconds.sum, 1.0);
        activity.sample(0, milliseconds(1), milliseconds(2));
        assert_eq!(activity.reduce(), Statistics::default());
        assert_eq!(activity.reduce(), Statistics::default(), "a window without a sample");
    }
}
