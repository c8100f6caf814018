//! The queues of a device's jobs, served by a discipline: the part that all schedulers have in common.
//!
//! A [`Discipline`] decides which job is served next, and nothing else. [`Queues`] register jobs, queue and account
//! requests, end graces, and report changes to the discipline.

use crate::job::{JobAttributes, JobId, Token};
use crate::schedulers::jobs::JobTable;
use crate::schedulers::{Dispatch, JobShare, Portions, Refusal, Scheduler};
use crate::time::Nanos;

/// The order in which jobs are served. Jobs are named by their slots in the table.
pub(crate) trait Discipline: Send + Sized {
    /// Takes in a job, as active and backlogged as the table says.
    fn enter(&mut self, jobs: &JobTable, slot: usize);

    /// Lets go of a job, which the table still has.
    fn leave(&mut self, jobs: &JobTable, slot: usize);

    /// The attributes of a job changed; `former` are those it had before.
    fn change(&mut self, _jobs: &JobTable, _slot: usize, _former: &JobAttributes) {}

    /// Time has passed. Called before anything else that has a moment, after [`deactivate`](Discipline::deactivate).
    fn advance(&mut self, _jobs: &JobTable, _now: Nanos) {}

    /// An inactive job got a request. [`arrive`](Discipline::arrive) follows.
    fn activate(&mut self, _slot: usize) {}

    /// The grace of a job without requests is over.
    fn deactivate(&mut self, _slot: usize) {}

    /// A request was queued at the end of its job's queue; `arrival` is its place in the order of arrival.
    fn arrive(&mut self, jobs: &JobTable, slot: usize, arrival: u64, now: Nanos);

    /// A queued request was cancelled; `was_first` tells whether its job's next request is another now.
    fn withdraw(&mut self, jobs: &JobTable, slot: usize, arrival: u64, was_first: bool);

    /// Chooses a job, starts its first request in the table, and charges the job for it.
    fn dispatch(&mut self, jobs: &mut JobTable, now: Nanos) -> Option<Dispatch>;

    /// The cost of the request that comes next, if a request of an active job that took `cost` would be served before it.
    fn overtaken_by(&mut self, _jobs: &JobTable, _slot: usize, _cost: Nanos) -> Option<Nanos> {
        None
    }

    /// The moment at which a withheld request will be dispatched. Called while requests are queued.
    fn next_release(&self) -> Option<Nanos> {
        None
    }

    /// Takes over the portions of the jobs' weights that are spent on this device.
    fn set_portions(&mut self, _jobs: &JobTable, _portions: &Portions) {}

    /// The fraction of the device's time that each job is owed among those active at `now`, by slot; a slot
    /// beyond the end is owed nothing. None where the policy promises nobody anything.
    fn owed(&self, jobs: &JobTable, now: Nanos) -> Option<Vec<f64>>;
}

/// A scheduler: the jobs of a device, and the discipline that orders them.
pub(crate) struct Queues<D> {
    jobs: JobTable,
    discipline: D,
}

impl<D: Discipline> Queues<D> {
    /// Serves the jobs of `jobs` from now on, by a discipline that has none yet.
    pub(crate) fn new(mut discipline: D, jobs: JobTable) -> Queues<D> {
        for slot in jobs.occupied() {
            discipline.enter(&jobs, slot);
        }
        Queues { jobs, discipline }
    }

    /// Ends everything that is over at `now`; returns the latest moment seen.
    #[inline]
    fn advance(&mut self, now: Nanos) -> Nanos {
        let now = self.jobs.advance(now);
        while let Some(slot) = self.jobs.end_grace(now) {
            self.discipline.deactivate(slot);
        }
        self.discipline.advance(&self.jobs, now);
        now
    }
}

impl<D: Discipline> Scheduler for Queues<D> {
    fn upsert_job(&mut self, attributes: JobAttributes, now: Nanos) {
        self.advance(now);
        let Some(slot) = self.jobs.slot(attributes.job) else {
            let slot = self.jobs.upsert(attributes);
            self.discipline.enter(&self.jobs, slot);
            return;
        };
        let former = *self.jobs.attributes(slot);
        if former != attributes {
            self.jobs.upsert(attributes);
            self.discipline.change(&self.jobs, slot, &former);
        }
    }

    fn remove_job(&mut self, job: JobId, now: Nanos) -> Vec<Token> {
        self.advance(now);
        let Some(slot) = self.jobs.slot(job) else { return Vec::new() };
        self.discipline.leave(&self.jobs, slot);
        self.jobs.remove(slot).into_iter().map(|request| request.token).collect()
    }

    fn enqueue(&mut self, job: JobId, token: Token, cost: Nanos, now: Nanos) -> Result<(), Refusal> {
        let now = self.advance(now);
        let slot = self.jobs.slot(job).ok_or(Refusal::UnknownJob { job })?;
        let was_active = self.jobs.is_active(slot);
        let arrival = self.jobs.enqueue(slot, token, cost, now)?;
        if !was_active {
            self.discipline.activate(slot);
        }
        self.discipline.arrive(&self.jobs, slot, arrival, now);
        Ok(())
    }

    fn dispatch(&mut self, now: Nanos) -> Option<Dispatch> {
        let now = self.advance(now);
        self.discipline.dispatch(&mut self.jobs, now)
    }

    fn next_release(&self) -> Option<Nanos> {
        if self.jobs.len() == 0 {
            return None;
        }
        self.discipline.next_release()
    }

    fn overtaken_by(&mut self, job: JobId, cost: Nanos, now: Nanos) -> Option<Nanos> {
        self.advance(now);
        let slot = self.jobs.slot(job)?;
        let can_come = self.jobs.is_active(slot) && self.jobs.queue(slot).is_empty();
        can_come.then(|| self.discipline.overtaken_by(&self.jobs, slot, cost)).flatten()
    }

    fn charge(&mut self, job: JobId, time: Nanos) {
        if let Some(slot) = self.jobs.slot(job) {
            self.jobs.charge(slot, time);
        }
    }

    fn set_portions(&mut self, portions: &Portions, now: Nanos) {
        self.advance(now);
        self.discipline.set_portions(&self.jobs, portions);
    }

    fn complete(&mut self, job: JobId, estimated: Nanos, actual: Nanos, now: Nanos) {
        let now = self.advance(now);
        if let Some(slot) = self.jobs.slot(job) {
            self.jobs.complete(slot, estimated, actual, now);
        }
    }

    fn cancel(&mut self, job: JobId, token: Token) -> bool {
        let Some(slot) = self.jobs.slot(job) else { return false };
        let Some((arrival, was_first)) = self.jobs.cancel(slot, token) else { return false };
        self.discipline.withdraw(&self.jobs, slot, arrival, was_first);
        true
    }

    fn jobs(&self) -> &JobTable {
        &self.jobs
    }

    fn shares(&self, now: Nanos) -> Vec<JobShare> {
        self.jobs.shares(now, self.discipline.owed(&self.jobs, now).as_deref())
    }

    fn into_jobs(self: Box<Self>) -> JobTable {
        self.jobs
    }
}
