//! How long the requests of a job waited for their turn, and the summary of it that is shown.

use crate::jobs::seconds;
use hdrhistogram::Histogram;
use std::sync::Arc;
use weir_fairshare::Nanos;

/// Longest wait that the histogram tells apart, in nanoseconds: ten minutes.
const WAIT_MAX: u64 = 600_000_000_000;
/// Upper bounds of the buckets that are shown, in seconds: from the cost of one small request to the patience of a user.
const BOUNDS: [f64; 10] = [1e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 1.0, 10.0];

/// The waits of one job.
pub(crate) struct Waits {
    histogram: Histogram<u64>,
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

impl Default for Waits {
    fn default() -> Waits {
        // Two significant digits and this range are within what the histogram takes, so the fallback is never met.
        let histogram =
            Histogram::new_with_bounds(1, WAIT_MAX, 2).unwrap_or_else(|_| unreachable!("constant bounds"));
        Waits { histogram, sum: Nanos::ZERO, summary: None }
    }
}

impl Waits {
    /// Notes that a request waited so long.
    pub(crate) fn note(&mut self, waited: Nanos) {
        self.histogram.saturating_record(waited.0.max(1));
        self.sum = self.sum + waited;
        self.summary = None;
    }

    /// What is shown of them.
    pub(crate) fn summary(&mut self) -> Arc<WaitSummary> {
        if let Some(summary) = &self.summary {
            return Arc::clone(summary);
        }
        let summary = Arc::new(self.summarise());
        self.summary = Some(Arc::clone(&summary));
        summary
    }

    fn summarise(&self) -> WaitSummary {
        let quantile = |quantile: f64| self.histogram.value_at_quantile(quantile) as f64 / 1e9;
        let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
        let mut buckets: Vec<(f64, u64)> = bounds.map(|bound| (bound, 0)).collect();
        // What the histogram does not tell apart counts in one bucket, so that each request is counted once.
        for recorded in self.histogram.iter_recorded() {
            let least = self.histogram.lowest_equivalent(recorded.value_iterated_to());
            let index = buckets.partition_point(|&(bound, _)| bound < least as f64 / 1e9);
            buckets[index].1 += recorded.count_at_value();
        }
        WaitSummary {
            median: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max: self.histogram.max() as f64 / 1e9,
            total: seconds(self.sum),
            buckets,
        }
    }
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
}
