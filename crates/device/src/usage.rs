//! Demands of jobs on a device: all the time that a job can get, or just the time that it uses.

use std::collections::{HashMap, HashSet};
use weir_fairshare::{JobId, JobShare, Nanos};

/// A job is judged over one to two of these windows: several requests of any size, soon after a change.
pub(crate) const WINDOW: Nanos = Nanos::from_millis(50);
/// Part of an interval: a device on which requests waited for so much of the last interval is short of time. While some
/// requests are waiting still, the lesser part counts. On any other device all jobs get what they ask for.
pub(crate) const SHORT: f64 = 0.5;
const SHORT_NOW: f64 = 0.25;
/// A job wants more than it gets when its own requests waited for at least this part of its window.
const WAITING: f64 = 0.05;
/// Less than this part of a device's time is no use of it.
pub const USED_MIN: f64 = 0.001;

/// The demand on a device of a job that used this part of its time and waited for that part: `Some(None)` is all that the
/// job can get, and `None` is nothing. `is_short` says whether the device is short of time.
pub fn demand(is_short: bool, used: f64, waiting: f64) -> Option<Option<f64>> {
    if is_short && waiting >= WAITING {
        return Some(None);
    }
    (used >= USED_MIN).then_some(Some(used))
}

/// The jobs of one device, and their latest use of it.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    tracks: HashMap<JobId, Track>,
    measured: Nanos,
    backlogged: Nanos,
    /// By ascending job.
    wanted: Vec<(JobId, Option<f64>)>,
}

/// A job's account at the beginning of this window and of the one before.
#[derive(Clone, Copy, Debug)]
struct Track {
    earlier: Mark,
    later: Mark,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: Nanos,
    charged: Nanos,
    backlogged: Nanos,
}

impl Usage {
    /// Looks at the device again: `backlogged` is how long requests have been queued in all, `shares` are
    /// its jobs' accounts, by ascending job.
    pub(crate) fn measure(&mut self, now: Nanos, backlogged: Nanos, shares: &[JobShare]) {
        let part = |time: Nanos, of: Nanos| time.0 as f64 / of.0.max(1) as f64;
        let interval = now.saturating_since(self.measured);
        if interval == Nanos::ZERO {
            return;
        }
        let some_wait = shares.iter().any(|share| share.queued > 0);
        let short_from = if some_wait { SHORT_NOW } else { SHORT };
        let is_short = part(backlogged.saturating_since(self.backlogged), interval) >= short_from;
        self.wanted.clear();
        for share in shares {
            let mark = Mark { at: now, charged: share.charged, backlogged: share.backlogged };
            let begin = Mark { at: self.measured, ..Mark::default() };
            let track = self.tracks.entry(share.job).or_insert(Track { earlier: begin, later: begin });
            let span = now.saturating_since(track.earlier.at);
            let used = part(mark.charged.saturating_since(track.earlier.charged), span).min(1.0);
            let waiting = part(mark.backlogged.saturating_since(track.earlier.backlogged), span);
            self.wanted.extend(demand(is_short, used, waiting).map(|wanted| (share.job, wanted)));
            if now.saturating_since(track.later.at) >= WINDOW {
                *track = Track { earlier: track.later, later: mark };
            }
        }
        let known: HashSet<JobId> = shares.iter().map(|share| share.job).collect();
        self.tracks.retain(|job, _| known.contains(job));
        self.measured = now;
        self.backlogged = backlogged;
    }

    /// The demand of each job on the device's time, by ascending job: `None` is all that the job can get.
    pub(crate) fn wanted(&self) -> &[(JobId, Option<f64>)] {
        &self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(job: u64, charged_millis: u64, backlogged_millis: u64) -> JobShare {
        JobShare {
            job: JobId(job),
            owed: Some(0.5),
            active: true,
            queued: 0,
            charged: Nanos::from_millis(charged_millis),
            backlogged: Nanos::from_millis(backlogged_millis),
        }
    }

    #[test]
    fn who_waits_on_a_busy_device_wants_all_and_who_does_not_wants_what_it_uses() {
        let mut usage = Usage::default();
        let shares = [share(1, 6, 9), share(2, 2, 0), share(3, 0, 0)];
        usage.measure(Nanos::from_millis(10), Nanos::from_millis(9), &shares);
        assert_eq!(usage.wanted(), [(JobId(1), None), (JobId(2), Some(0.2))]);
    }

    #[test]
    fn on_a_device_with_time_left_everybody_wants_what_they_use() {
        let mut usage = Usage::default();
        usage.measure(Nanos::from_millis(10), Nanos::from_millis(3), &[share(1, 4, 3)]);
        assert_eq!(usage.wanted(), [(JobId(1), Some(0.4))]);
    }

    #[test]
    fn a_flood_that_began_within_the_interval_is_seen_at_its_end() {
        let mut usage = Usage::default();
        let flooding = JobShare { queued: 5, ..share(1, 3, 3) };
        usage.measure(Nanos::from_millis(10), Nanos::from_millis(3), &[flooding]);
        assert_eq!(usage.wanted(), [(JobId(1), None)]);
    }

    #[test]
    fn a_job_that_stopped_is_forgotten_within_two_windows() {
        let mut usage = Usage::default();
        let stopped = [share(1, 10, 10)];
        for turn in 1..=3 {
            usage.measure(Nanos::from_millis(10 * turn), Nanos::from_millis(10 * turn), &stopped);
        }
        assert_eq!(usage.wanted().len(), 1);
        for turn in 4..=15 {
            usage.measure(Nanos::from_millis(10 * turn), Nanos::from_millis(30), &stopped);
        }
        assert!(usage.wanted().is_empty());
    }

    #[test]
    fn two_looks_at_one_moment_are_one() {
        let mut usage = Usage::default();
        usage.measure(Nanos::from_millis(10), Nanos::from_millis(9), &[share(1, 6, 9)]);
        let before = usage.wanted().to_vec();
        usage.measure(Nanos::from_millis(10), Nanos::from_millis(9), &[]);
        assert_eq!(usage.wanted(), before);
    }
}
