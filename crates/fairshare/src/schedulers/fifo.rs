//! First in, first out over all jobs: what a file system without a policy does, kept as the
//! baseline the fair schedulers are measured against.

use std::collections::BTreeMap;

use crate::job::{JobAttributes, JobId, Token};
use crate::schedulers::jobs::{JobTable, Request};
use crate::schedulers::{Dispatch, JobShare, Portions, Refusal, Scheduler};
use crate::time::Nanos;

/// Serves requests in order of arrival; accounts them per job.
pub(crate) struct Fifo {
    jobs: JobTable,
    /// Order of arrival to the slot of the job whose request it is.
    order: BTreeMap<u64, usize>,
}

impl Fifo {
    pub(crate) fn new(jobs: JobTable) -> Fifo {
        let arrivals = |slot| jobs.queue(slot).iter().map(move |request: &Request| (request.arrival, slot));
        let order = jobs.occupied().flat_map(arrivals).collect();
        Fifo { jobs, order }
    }

    fn end_graces(&mut self, now: Nanos) -> Nanos {
        let now = self.jobs.advance(now);
        while self.jobs.end_grace(now).is_some() {}
        now
    }
}

impl Scheduler for Fifo {
    fn upsert_job(&mut self, attributes: JobAttributes, now: Nanos) {
        self.end_graces(now);
        self.jobs.upsert(attributes);
    }

    fn remove_job(&mut self, job: JobId, now: Nanos) -> Vec<Token> {
        self.end_graces(now);
        let Some(slot) = self.jobs.slot(job) else { return Vec::new() };
        let queue = self.jobs.remove(slot);
        for request in &queue {
            self.order.remove(&request.arrival);
        }
        queue.into_iter().map(|request| request.token).collect()
    }

    fn enqueue(&mut self, job: JobId, token: Token, cost: Nanos, now: Nanos) -> Result<(), Refusal> {
        let now = self.end_graces(now);
        let slot = self.jobs.slot(job).ok_or(Refusal::UnknownJob { job })?;
        let arrival = self.jobs.enqueue(slot, token, cost, now)?;
        self.order.insert(arrival, slot);
        Ok(())
    }

    fn dispatch(&mut self, now: Nanos) -> Option<Dispatch> {
        let now = self.end_graces(now);
        let (arrival, slot) = self.order.pop_first()?;
        let started = self.jobs.start(slot, now);
        debug_assert_eq!(started.arrival, arrival, "a job's queue is in order of arrival");
        Some(started.dispatch)
    }

    /// Order of arrival knows no weights.
    fn set_portions(&mut self, _: &Portions, _: Nanos) {}

    fn complete(&mut self, job: JobId, estimated: Nanos, actual: Nanos, now: Nanos) {
        let now = self.end_graces(now);
        if let Some(slot) = self.jobs.slot(job) {
            self.jobs.complete(slot, estimated, actual, now);
        }
    }

    fn cancel(&mut self, job: JobId, token: Token) -> bool {
        let slot = self.jobs.slot(job);
        let Some((arrival, _)) = slot.and_then(|slot| self.jobs.cancel(slot, token)) else {
            return false;
        };
        self.order.remove(&arrival);
        true
    }

    fn jobs(&self) -> &JobTable {
        &self.jobs
    }

    /// Order of arrival owes each job the fraction of the queued device time that is its own;
    /// while nothing is queued, an equal fraction to each active job.
    fn shares(&self, now: Nanos) -> Vec<JobShare> {
        let demand =
            |slot: usize| -> f64 { self.jobs.queue(slot).iter().map(|request| request.cost.0 as f64).sum() };
        let active = self.jobs.occupied().filter(|&slot| self.jobs.is_active_at(slot, now)).count();
        let total: f64 = self.jobs.occupied().map(demand).sum();
        self.jobs.shares(now, |slot| match () {
            () if total > 0.0 => demand(slot) / total,
            () if self.jobs.is_active_at(slot, now) => 1.0 / active as f64,
            () => 0.0,
        })
    }

    fn into_jobs(self: Box<Self>) -> JobTable {
        self.jobs
    }
}
