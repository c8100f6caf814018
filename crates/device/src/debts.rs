//! The debts of a policy on one device: the time that it owes each job, as far as the job can use it.
//!
//! Servers and both models of the simulator account by this rule, so that OWED of a store and of its simulation agree. The
//! time that a device gave in a window is divided by the shares that the policy promised the jobs that were active meanwhile.
//! A job that wanted no more than it used is owed no more than that, and the others divide the rest by their shares. So the
//! debts of a window add up to the time that was given, and a job that was owed more than it received has waited for others.

use crate::usage::{demand, SHORT, WINDOW};
use std::collections::BTreeMap;
use weir_fairshare::{JobId, Nanos};

/// A job on a device in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// The part of the device that the policy promised it, in any unit that is the same for all jobs.
    pub share: f64,
    /// The device time that it used.
    pub used: f64,
    /// Whether it wanted more than it used.
    pub wants_more: bool,
}

/// Divides the time that jobs used of a device among them by their shares, as far as they wanted it. In the order of the claims.
pub fn owed(claims: &[Claim]) -> Vec<f64> {
    let mut owed: Vec<f64> = claims.iter().map(|claim| claim.used).collect();
    let mut unmet: Vec<usize> = (0..claims.len()).collect();
    let mut left: f64 = owed.iter().sum();
    loop {
        let all: f64 = unmet.iter().map(|&place| claims[place].share).sum();
        if all <= 0.0 {
            return owed;
        }
        let level = left.max(0.0) / all;
        let is_unmet =
            |place: usize| claims[place].wants_more || claims[place].used > level * claims[place].share;
        let (still, met): (Vec<usize>, Vec<usize>) = unmet.into_iter().partition(|&place| is_unmet(place));
        if met.is_empty() {
            still.into_iter().for_each(|place| owed[place] = level * claims[place].share);
            return owed;
        }
        left -= met.into_iter().map(|place| claims[place].used).sum::<f64>();
        unmet = still;
    }
}

/// The debts of one device in the present window.
#[derive(Clone, Debug, Default)]
pub struct Debts {
    began: Nanos,
    ended: Nanos,
    jobs: BTreeMap<JobId, Debt>,
}

/// The work of a job on a device between two looks, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Debt {
    /// The time that the device gave to all, times the share that the policy promised the job.
    pub promised: f64,
    /// The time that the job received.
    pub used: f64,
    /// The time for which it had requests queued.
    pub waited: f64,
}

impl Debts {
    /// Adds the work of a job between two looks; the first work begins a window.
    pub fn add(&mut self, job: JobId, debt: Debt, (since, until): (Nanos, Nanos)) {
        if self.jobs.is_empty() {
            self.began = since;
        }
        self.ended = until;
        let sum = self.jobs.entry(job).or_default();
        sum.promised += debt.promised;
        sum.used += debt.used;
        sum.waited += debt.waited;
    }

    /// Whether a window is over, to be asked before work after `now` is added.
    pub fn is_due(&self, now: Nanos) -> bool {
        !self.jobs.is_empty() && now.saturating_since(self.began) >= WINDOW
    }

    /// Ends the window, and returns the seconds that each job was owed in it, by ascending job.
    pub fn settle(&mut self) -> impl Iterator<Item = (JobId, f64)> {
        let span = self.ended.saturating_since(self.began).0.max(1) as f64 / 1e9;
        let jobs = std::mem::take(&mut self.jobs);
        let is_short = jobs.values().any(|debt| debt.waited >= SHORT * span);
        let claim = |debt: &Debt| Claim {
            share: debt.promised,
            used: debt.used,
            wants_more: demand(is_short, debt.used / span, debt.waited / span) == Some(None),
        };
        let owed = owed(&jobs.values().map(claim).collect::<Vec<_>>());
        jobs.into_keys().zip(owed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owed_of(claims: &[(f64, f64, bool)]) -> Vec<f64> {
        let claim = |&(share, used, wants_more): &(f64, f64, bool)| Claim { share, used, wants_more };
        let claims: Vec<Claim> = claims.iter().map(claim).collect();
        owed(&claims).into_iter().map(|part| (part * 1e9).round() / 1e9).collect()
    }

    #[test]
    fn a_job_is_owed_its_share_as_far_as_it_can_use_it_and_others_have_the_rest() {
        assert_eq!(owed_of(&[(0.5, 0.8, true), (0.5, 0.2, true)]), [0.5, 0.5]);
        assert_eq!(owed_of(&[(0.5, 0.8, true), (0.5, 0.2, false)]), [0.8, 0.2]);
        assert_eq!(owed_of(&[(0.5, 0.1, true), (0.25, 0.8, true), (0.25, 0.1, false)]), [0.6, 0.3, 0.1]);
        // What one leaves is more than the next can use, so that the last has more.
        assert_eq!(owed_of(&[(0.5, 0.1, false), (0.25, 0.4, false), (0.25, 0.5, true)]), [0.1, 0.4, 0.5]);
        assert_eq!(owed_of(&[(0.2, 0.7, false), (0.8, 0.3, true)]), [0.2, 0.8]);
        assert_eq!(owed_of(&[(0.9, 0.0, false), (0.1, 1.0, true)]), [0.0, 1.0]);
    }

    #[test]
    fn where_no_job_is_short_each_is_owed_what_it_uses() {
        assert_eq!(owed_of(&[(0.5, 0.6, false), (0.5, 0.1, false)]), [0.6, 0.1]);
        assert_eq!(owed_of(&[(1.0, 0.3, false)]), [0.3]);
        assert_eq!(owed_of(&[(0.0, 0.3, true), (0.0, 0.1, false)]), [0.3, 0.1]);
        assert_eq!(owed_of(&[(0.5, 0.0, true), (0.5, 0.0, true)]), [0.0, 0.0]);
        assert!(owed_of(&[]).is_empty());
    }

    /// A job that uses its pauses and waits for nobody is owed what it uses; a neighbour that waits has the rest.
    #[test]
    fn the_debts_of_a_window_add_up_to_the_time_that_was_given() {
        let (mut debts, now) = (Debts::default(), Nanos::from_millis(20));
        for (used, waited) in [([0.002, 0.006], [0.0, 0.009]), ([0.001, 0.009], [0.0, 0.01])] {
            for (job, place) in [(JobId(1), 0), (JobId(2), 1)] {
                let share = [0.8, 0.2][place];
                let promised = share * (used[0] + used[1]);
                let debt = Debt { promised, used: used[place], waited: waited[place] };
                debts.add(job, debt, (Nanos::ZERO, now));
            }
        }
        assert!(!debts.is_due(now) && debts.is_due(WINDOW));
        let owed: Vec<(u64, f64)> =
            debts.settle().map(|(job, owed)| (job.0, (owed * 1e6).round() / 1e6)).collect();
        assert_eq!(owed, [(1, 0.003), (2, 0.015)]);
        assert_eq!(debts.settle().count(), 0);
    }
}
