//! The requests that a device has served since the server started, by their direction: bytes, times and failures.

use crate::clock::seconds;
use crate::namespace::errno;
use weir_fairshare::{Direction, Nanos};
use weir_wire::Errno;

/// Upper bounds of the buckets of times: from a small request in memory to the patience of a user.
const BOUNDS: [Nanos; 10] = [
    Nanos::from_micros(100),
    Nanos::from_micros(500),
    Nanos::from_millis(1),
    Nanos::from_millis(5),
    Nanos::from_millis(10),
    Nanos::from_millis(50),
    Nanos::from_millis(100),
    Nanos::from_millis(500),
    Nanos::from_millis(1_000),
    Nanos::from_millis(10_000),
];

/// The requests that a device has served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Served {
    read: Flow,
    write: Flow,
    /// Requests that ended in EIO, in ENOSPC, and in any other error.
    failed: [u64; FAILURES.len()],
}

/// The names of failures, in the order of [`Served::failed`].
const FAILURES: [&str; 3] = ["io", "full", "other"];

/// The requests of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) bytes: u64,
    /// Requests by the time between their arrival and their end; the last bucket has no bound.
    counts: [u64; BOUNDS.len() + 1],
    total: Nanos,
}

impl Served {
    /// A request ended, so long after its arrival.
    pub(crate) fn complete(&mut self, direction: Direction, bytes: u64, took: Nanos) {
        let flow = match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        };
        flow.bytes += bytes;
        flow.counts[BOUNDS.partition_point(|&bound| bound < took)] += 1;
        flow.total = flow.total + took;
    }

    /// A request was answered with an error.
    pub(crate) fn fail(&mut self, error: Errno) {
        let place = match error {
            errno::EIO => 0,
            errno::ENOSPC => 1,
            _ => 2,
        };
        self.failed[place] += 1;
    }

    /// The requests of each direction.
    pub(crate) fn flows(&self) -> [(&'static str, &Flow); 2] {
        [("read", &self.read), ("write", &self.write)]
    }

    /// The requests that were answered with errors, by the kind of the error.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        FAILURES.into_iter().zip(self.failed)
    }
}

impl Flow {
    /// The requests that were served.
    pub(crate) fn operations(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of the times of all requests.
    pub(crate) fn total_seconds(&self) -> f64 {
        seconds(self.total)
    }

    /// Upper bounds in seconds, and the requests up to each and above the one before.
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS.into_iter().map(seconds).chain([f64::INFINITY]);
        bounds.zip(self.counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_counts_in_the_bucket_of_its_time_and_in_its_direction() {
        let mut served = Served::default();
        for millis in [1, 2, 20_000] {
            served.complete(Direction::Write, 10, Nanos::from_millis(millis));
        }
        served.complete(Direction::Read, 7, Nanos::ZERO);
        let [(_, read), (_, write)] = served.flows();
        assert_eq!((read.bytes, read.operations(), read.total_seconds()), (7, 1, 0.0));
        assert_eq!((write.bytes, write.operations()), (30, 3));
        assert!((write.total_seconds() - 20.003).abs() < 1e-9);
        let filled: Vec<_> = write.buckets().into_iter().filter(|&(_, count)| count > 0).collect();
        assert_eq!(filled, [(0.001, 1), (0.005, 1), (f64::INFINITY, 1)]);
    }

    #[test]
    fn failures_are_told_apart() {
        let mut served = Served::default();
        for error in [errno::EIO, errno::ENOSPC, errno::ENOENT, errno::ENOSPC] {
            served.fail(error);
        }
        assert_eq!(served.failures().collect::<Vec<_>>(), [("io", 1), ("full", 2), ("other", 1)]);
    }
}
