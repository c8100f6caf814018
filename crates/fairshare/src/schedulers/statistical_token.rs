//! ThemisIO's scheduler (Karrels et al., SC'23, section 3): shares are probabilities, and dice decide.
//!
//! The assignment is equation 1, the product of the policy's transition matrices over the active jobs; the range
//! [0, 1] is cut into segments of these lengths, a number is drawn, and one request of the job in whose
//! segment it falls is served. *Opportunity fairness* (sections 1 and 5.3.1): only jobs with requests queued
//! take part in a draw, so no cycle is lost while anyone asks.
//!
//! As in the paper a draw serves one request whatever it costs: shares are of requests, not of device time, and a
//! job that is absent from a draw is not compensated. It departs from it in that a job stays active for the
//! grace period instead of a heartbeat's, and in that segments are whole multiples of 2^-52.

mod segments;
mod transition;

use rand_pcg::rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use self::segments::Segments;
use self::transition::assignment;
use crate::job::JobAttributes;
use crate::schedulers::jobs::JobTable;
use crate::schedulers::paths::Paths;
use crate::schedulers::queues::Discipline;
use crate::schedulers::{Dispatch, Portions};
use crate::sharing::Sharing;
use crate::time::Nanos;

/// The length of the range [0, 1] in the units of segments: every f64 share keeps its bits.
const WHOLE: f64 = (1_u64 << 52) as f64;

/// Draws the job to serve by its probability.
pub(crate) struct StatisticalToken {
    paths: Paths,
    dice: Pcg64Mcg,
    /// The segment of each active job, by slot; 0 where the job is not active.
    assigned: Vec<u64>,
    /// The segments that take part: those of jobs with requests queued.
    segments: Segments,
    /// Whether jobs, weights or activity changed since the assignment.
    is_stale: bool,
}

impl StatisticalToken {
    /// Without jobs.
    pub(crate) fn new(sharing: &Sharing, jobs: &JobTable) -> StatisticalToken {
        StatisticalToken {
            paths: Paths::new(sharing.clone()),
            dice: Pcg64Mcg::seed_from_u64(jobs.settings().seed),
            assigned: Vec::new(),
            segments: Segments::default(),
            is_stale: true,
        }
    }

    /// Evaluates equation 1 anew where anything it depends on has changed.
    fn assign(&mut self, jobs: &JobTable) {
        if !std::mem::take(&mut self.is_stale) {
            return;
        }
        let active: Vec<usize> = jobs.occupied().filter(|&slot| jobs.is_active(slot)).collect();
        let paths: Vec<_> = active.iter().map(|&slot| self.paths.of(jobs, slot)).collect();
        self.assigned.iter_mut().for_each(|length| *length = 0);
        for (slot, share) in active.into_iter().zip(assignment(&paths)) {
            if slot >= self.assigned.len() {
                self.assigned.resize(slot + 1, 0);
            }
            self.assigned[slot] = ((share * WHOLE) as u64).max(1);
        }
        for slot in jobs.occupied() {
            self.admit(jobs, slot);
        }
    }

    /// Lets a slot's segment take part in draws where its job has requests queued, and else not.
    fn admit(&mut self, jobs: &JobTable, slot: usize) {
        let assigned = self.assigned.get(slot).copied().unwrap_or(0);
        let takes_part = assigned > 0 && !jobs.queue(slot).is_empty();
        self.segments.set(slot, if takes_part { assigned } else { 0 });
    }
}

impl Discipline for StatisticalToken {
    /// The next assignment finds a job that is active.
    fn enter(&mut self, _: &JobTable, _: usize) {}

    fn leave(&mut self, _: &JobTable, slot: usize) {
        if let Some(assigned) = self.assigned.get_mut(slot) {
            *assigned = 0;
        }
        self.segments.set(slot, 0);
        self.is_stale = true;
    }

    fn change(&mut self, _: &JobTable, _: usize, _: &JobAttributes) {
        self.is_stale = true;
    }

    fn activate(&mut self, _: usize) {
        self.is_stale = true;
    }

    fn deactivate(&mut self, _: usize) {
        self.is_stale = true;
    }

    #[inline]
    fn arrive(&mut self, jobs: &JobTable, slot: usize, _: u64, _: Nanos) {
        if jobs.queue(slot).len() == 1 {
            self.admit(jobs, slot);
        }
    }

    fn withdraw(&mut self, jobs: &JobTable, slot: usize, _: u64, was_first: bool) {
        if was_first {
            self.admit(jobs, slot);
        }
    }

    #[inline]
    fn dispatch(&mut self, jobs: &mut JobTable, now: Nanos) -> Option<Dispatch> {
        self.assign(jobs);
        let total = self.segments.total();
        if total == 0 {
            return None;
        }
        // The drawn number, a fraction of 2^64, as a point on the line: the upper half of the product.
        let point = (u128::from(self.dice.next_u64()) * u128::from(total)) >> 64;
        let slot = self.segments.at(point as u64);
        let started = jobs.start(slot, now);
        self.admit(jobs, slot);
        Some(started.dispatch)
    }

    fn set_portions(&mut self, jobs: &JobTable, portions: &Portions) {
        self.paths.set_portions(jobs, portions);
        self.is_stale = true;
    }

    fn owed(&self, jobs: &JobTable, now: Nanos) -> Option<Vec<f64>> {
        Some(self.paths.owed_at(jobs, now))
    }
}
