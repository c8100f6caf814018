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
use crate::job::{JobAttributes, JobId, Token};
use crate::schedulers::jobs::JobTable;
use crate::schedulers::paths::Paths;
use crate::schedulers::{Dispatch, JobShare, Portions, Refusal, Scheduler};
use crate::sharing::Sharing;
use crate::time::Nanos;

/// The length of the range [0, 1] in the units of segments: every f64 share keeps its bits.
const WHOLE: f64 = (1_u64 << 52) as f64;

/// Draws the job to serve by its probability.
pub(crate) struct StatisticalToken {
    paths: Paths,
    jobs: JobTable,
    dice: Pcg64Mcg,
    /// The segment of each active job, by slot; 0 where the job is not active.
    assigned: Vec<u64>,
    /// The segments that take part: those of jobs with requests queued.
    segments: Segments,
    /// Whether jobs, weights or activity changed since the assignment.
    is_stale: bool,
}

impl StatisticalToken {
    pub(crate) fn new(sharing: Sharing, jobs: JobTable) -> StatisticalToken {
        StatisticalToken {
            paths: Paths::new(sharing),
            dice: Pcg64Mcg::seed_from_u64(jobs.settings().seed),
            jobs,
            assigned: Vec::new(),
            segments: Segments::default(),
            is_stale: true,
        }
    }

    fn advance(&mut self, now: Nanos) -> Nanos {
        let now = self.jobs.advance(now);
        while self.jobs.end_grace(now).is_some() {
            self.is_stale = true;
        }
        now
    }

    /// Evaluates equation 1 anew where anything it depends on has changed.
    fn assign(&mut self) {
        if !std::mem::take(&mut self.is_stale) {
            return;
        }
        let active: Vec<usize> = self.jobs.occupied().filter(|&slot| self.jobs.is_active(slot)).collect();
        let paths: Vec<_> = active.iter().map(|&slot| self.paths.of(&self.jobs, slot)).collect();
        self.assigned.iter_mut().for_each(|length| *length = 0);
        for (slot, share) in active.into_iter().zip(assignment(&paths)) {
            if slot >= self.assigned.len() {
                self.assigned.resize(slot + 1, 0);
            }
            self.assigned[slot] = ((share * WHOLE) as u64).max(1);
        }
        for slot in self.jobs.occupied().collect::<Vec<_>>() {
            self.admit(slot);
        }
    }

    /// Lets a slot's segment take part in draws where its job has requests queued, and else not.
    fn admit(&mut self, slot: usize) {
        let assigned = self.assigned.get(slot).copied().unwrap_or(0);
        let takes_part = assigned > 0 && !self.jobs.queue(slot).is_empty();
        self.segments.set(slot, if takes_part { assigned } else { 0 });
    }
}

impl Scheduler for StatisticalToken {
    fn upsert_job(&mut self, attributes: JobAttributes, now: Nanos) {
        self.advance(now);
        let known = self.jobs.slot(attributes.job);
        let is_same = known.is_some_and(|slot| *self.jobs.attributes(slot) == attributes);
        self.jobs.upsert(attributes);
        self.is_stale |= known.is_some() && !is_same;
    }

    fn remove_job(&mut self, job: JobId, now: Nanos) -> Vec<Token> {
        self.advance(now);
        let Some(slot) = self.jobs.slot(job) else { return Vec::new() };
        if let Some(assigned) = self.assigned.get_mut(slot) {
            *assigned = 0;
        }
        self.segments.set(slot, 0);
        self.is_stale = true;
        self.jobs.remove(slot).into_iter().map(|request| request.token).collect()
    }

    fn enqueue(&mut self, job: JobId, token: Token, cost: Nanos, now: Nanos) -> Result<(), Refusal> {
        let now = self.advance(now);
        let slot = self.jobs.slot(job).ok_or(Refusal::UnknownJob { job })?;
        let was_active = self.jobs.is_active(slot);
        self.jobs.enqueue(slot, token, cost, now)?;
        self.is_stale |= !was_active;
        self.admit(slot);
        Ok(())
    }

    fn dispatch(&mut self, now: Nanos) -> Option<Dispatch> {
        let now = self.advance(now);
        self.assign();
        let total = self.segments.total();
        if total == 0 {
            return None;
        }
        // The drawn number, a fraction of 2^64, as a point on the line: the upper half of the product.
        let point = (u128::from(self.dice.next_u64()) * u128::from(total)) >> 64;
        let slot = self.segments.at(point as u64);
        let started = self.jobs.start(slot, now);
        self.admit(slot);
        Some(started.dispatch)
    }

    fn set_portions(&mut self, portions: &Portions, now: Nanos) {
        self.advance(now);
        self.paths.set_portions(&self.jobs, portions);
        self.is_stale = true;
    }

    fn complete(&mut self, job: JobId, estimated: Nanos, actual: Nanos, now: Nanos) {
        let now = self.advance(now);
        if let Some(slot) = self.jobs.slot(job) {
            self.jobs.complete(slot, estimated, actual, now);
        }
    }

    fn cancel(&mut self, job: JobId, token: Token) -> bool {
        let Some(slot) = self.jobs.slot(job) else { return false };
        let was_queued = self.jobs.cancel(slot, token).is_some();
        self.admit(slot);
        was_queued
    }

    fn jobs(&self) -> &JobTable {
        &self.jobs
    }

    fn shares(&self, now: Nanos) -> Vec<JobShare> {
        self.paths.shares(&self.jobs, now)
    }

    fn into_jobs(self: Box<Self>) -> JobTable {
        self.jobs
    }
}
