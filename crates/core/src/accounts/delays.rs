//! Delays: the device time that others received while a job had requests queued.
//!
//! In each accounting interval of a device, a job that had requests queued for a part of it waited for every other job
//! by that part of the time that the other received. Time is kept by name for the jobs that received most, and as a sum
//! for all others, so no job is named with more time than it received.

use serde::Serialize;
use std::collections::HashMap;
use weir_fairshare::Nanos;
use weir_wire::JobId;

use crate::clock::seconds;

/// Jobs told apart in one interval, which received most: so an interval costs this much for each job that waits,
/// however many receive.
const RECEIVERS_MAX: usize = 32;
/// Jobs that one job's list names for long.
const NAMED_MAX: usize = 32;
/// Jobs it names before it is cut to [`NAMED_MAX`]: room for a newcomer to become great before it is judged.
const NAMED_ROOM: usize = 2 * NAMED_MAX;

/// The jobs that one job waited for, in seconds of device time.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    /// By ascending job.
    named: Vec<(JobId, f64)>,
    others: f64,
}

/// The jobs that received a device's time in one interval, in seconds.
pub(crate) struct Receivers {
    /// By ascending job.
    named: Vec<(JobId, f64)>,
    others: f64,
}

/// The delay of a job by another one.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WaitedForLine {
    pub(crate) job: String,
    pub(crate) user: String,
    pub(crate) uid: u32,
    pub(crate) seconds: f64,
}

impl Receivers {
    pub(crate) fn of(received: &HashMap<JobId, Nanos>) -> Receivers {
        let mut named: Vec<(JobId, f64)> =
            received.iter().map(|(&job, &time)| (job, seconds(time))).collect();
        let others = keep_greatest(&mut named, RECEIVERS_MAX);
        named.sort_unstable_by_key(|&(job, _)| job.0);
        Receivers { named, others }
    }
}

impl Delays {
    /// `job`, which received `own` seconds itself, had requests queued for this part (0 to 1) of an interval.
    pub(crate) fn add(&mut self, job: JobId, own: f64, part: f64, receivers: &Receivers) {
        let mut others = receivers.others;
        let mut is_named = false;
        for &(other, time) in &receivers.named {
            if other == job {
                is_named = true;
                continue;
            }
            match self.named.binary_search_by_key(&other.0, |&(job, _)| job.0) {
                Ok(at) => self.named[at].1 += part * time,
                Err(at) => self.named.insert(at, (other, part * time)),
            }
        }
        if !is_named {
            others = (others - own).max(0.0);
        }
        self.others += part * others;
        if self.named.len() > NAMED_ROOM {
            self.others += keep_greatest(&mut self.named, NAMED_MAX);
            self.named.sort_unstable_by_key(|&(job, _)| job.0);
        }
    }

    /// The `count` jobs it waited for most, the greatest first, and the sum of all others.
    pub(crate) fn greatest(&self, count: usize) -> (Vec<(JobId, f64)>, f64) {
        let mut greatest = self.named.clone();
        let others = self.others + keep_greatest(&mut greatest, count);
        greatest.sort_unstable_by(|left, right| right.1.total_cmp(&left.1).then(left.0 .0.cmp(&right.0 .0)));
        (greatest, others)
    }
}

/// Keeps the `count` greatest entries, in no order; answers the sum of the others.
fn keep_greatest(entries: &mut Vec<(JobId, f64)>, count: usize) -> f64 {
    if entries.len() <= count {
        return 0.0;
    }
    entries.select_nth_unstable_by(count, |left, right| right.1.total_cmp(&left.1));
    entries.drain(count..).map(|(_, time)| time).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receivers(times: impl IntoIterator<Item = (u64, u64)>) -> Receivers {
        let times = times.into_iter().map(|(job, millis)| (JobId(job), Nanos::from_millis(millis)));
        Receivers::of(&times.collect())
    }

    fn total(waited: &Delays) -> f64 {
        let (named, others) = waited.greatest(usize::MAX);
        named.iter().map(|(_, time)| time).sum::<f64>() + others
    }

    #[test]
    fn a_job_waits_for_others_by_the_part_in_which_it_had_requests_queued() {
        let mut waited = Delays::default();
        waited.add(JobId(1), 0.1, 0.5, &receivers([(1, 100), (2, 200), (3, 700)]));
        waited.add(JobId(1), 0.0, 1.0, &receivers([(2, 1000)]));
        assert_eq!(waited.greatest(8), (vec![(JobId(2), 1.1), (JobId(3), 0.35)], 0.0));
        assert_eq!(waited.greatest(1), (vec![(JobId(2), 1.1)], 0.35));
    }

    #[test]
    fn a_crowd_is_summed_and_its_heaviest_stays_named() {
        let mut waited = Delays::default();
        // The job itself receives too little to be named, and is taken out of the others.
        let mut expected = 0.0;
        for round in 0..50_u64 {
            let crowd = (0..1_000).map(|job| (100 + round * 1_000 + job, 1));
            let times = crowd.chain([(1, 1), (7, 40)]);
            waited.add(JobId(1), 0.001, 1.0, &receivers(times));
            expected += 1.040;
        }
        assert!(waited.named.len() <= NAMED_ROOM, "{}", waited.named.len());
        assert!(waited.named.windows(2).all(|pair| pair[0].0 .0 < pair[1].0 .0), "sorted, each once");
        let (heaviest, time) = waited.greatest(1).0[0];
        assert_eq!(heaviest, JobId(7));
        assert!((time - 2.0).abs() < 1e-9, "{time}");
        assert!((total(&waited) - expected).abs() < 1e-6, "{} and not {expected}", total(&waited));
    }

    #[test]
    fn one_that_comes_late_and_takes_much_is_named() {
        let mut waited = Delays::default();
        let crowd = |round: u64| (0..31).map(move |job| (100 + (round * 31 + job) % 500, 1));
        for round in 0..1_000 {
            waited.add(JobId(1), 0.0, 1.0, &receivers(crowd(round)));
        }
        for round in 0..1_000 {
            waited.add(JobId(1), 0.0, 1.0, &receivers(crowd(round).chain([(7, 30)])));
        }
        let (greatest, time) = waited.greatest(1).0[0];
        assert_eq!(greatest, JobId(7));
        assert!(time > 28.0, "{time}");
    }
}
