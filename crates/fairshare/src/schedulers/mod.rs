//! The one interface of all schedulers, and the values that go in and out of it.
//!
//! Each algorithm is a `Discipline`, which orders jobs; `Queues` makes a [`Scheduler`] of it.

mod choice;
mod chosen;
mod fifo;
mod gift;
mod jobs;
mod paths;
mod queues;
mod statistical_token;
mod tbf;
mod virtual_time;

pub use self::choice::{replace_sharing, scheduler, scheduler_by};
pub use self::chosen::{Choice, Chooser, Waiting};
pub use self::jobs::JobTable;

use std::collections::HashMap;

use crate::job::{JobAttributes, JobId, Token};
use crate::time::Nanos;

/// The largest cost one request may carry, about 4.6 minutes of device time; larger ones are
/// charged as this much. It keeps the fixed-point virtual time within 64-bit division.
pub const REQUEST_COST_MAX: Nanos = Nanos((1 << 38) - 1);

/// Decides which queued request one target executes next.
///
/// A scheduler withholds queued requests only where a limit or its own rules say so; then
/// [`next_release`](Scheduler::next_release) tells until when. All others are work-conserving:
/// [`dispatch`](Scheduler::dispatch) answers `None` only when nothing is queued. Within a job,
/// requests leave in the order they came.
///
/// **Time.** `now` is a moment since an origin the caller keeps fixed. A `now` earlier than one
/// already seen counts as the latest seen: waits and grace periods stand still until the clock has
/// caught up, and no decision is undone.
pub trait Scheduler: Send {
    /// Registers a job, or replaces the attributes of a known one; its queue and lag stay.
    fn upsert_job(&mut self, attributes: JobAttributes, now: Nanos);

    /// Forgets a job that ended, with its account. Returns its cancelled requests in the order they came; requests in
    /// service run on, and their completion is ignored.
    ///
    /// A mere disconnect is no reason for it: a job that could be forgotten at will would shed its debts.
    fn remove_job(&mut self, job: JobId, now: Nanos) -> Vec<Token>;

    /// Queues a request expected to need `cost` of device time (at least 1 ns is charged, and at
    /// most [`REQUEST_COST_MAX`]).
    ///
    /// # Errors
    /// [`Refusal`]: the job is unknown, or a queue is full. Nothing was queued.
    fn enqueue(&mut self, job: JobId, token: Token, cost: Nanos, now: Nanos) -> Result<(), Refusal>;

    /// Takes out the request to execute now and charges its job the expected cost.
    fn dispatch(&mut self, now: Nanos) -> Option<Dispatch>;

    /// The moment at which [`dispatch`](Scheduler::dispatch), which now answers `None`, will answer a request that is
    /// queued already; `None` where nothing is withheld.
    fn next_release(&self) -> Option<Nanos> {
        None
    }

    /// The cost of the request that comes next, if a request of this job that took `cost` and came at `now` would be served
    /// before it. None where nothing is queued, and by a scheduler that cannot tell.
    fn overtaken_by(&mut self, job: JobId, cost: Nanos, now: Nanos) -> Option<Nanos>;

    /// Charges a job, with its next request, for time in which the device served nobody for its sake.
    fn charge(&mut self, job: JobId, time: Nanos);

    /// Sets which part of its weight each job, and each node above it, spends on this device; see
    /// [`divide`](crate::divide). A job without portions, such as one that was never met, spends all.
    fn set_portions(&mut self, portions: &Portions, now: Nanos);

    /// Tells that a dispatched request ended, to be called once for each: corrects the charge from
    /// `estimated` (the dispatch's `cost`) to the `actual` device time.
    fn complete(&mut self, job: JobId, estimated: Nanos, actual: Nanos, now: Nanos);

    /// Takes a request out of its queue, uncharged. False where it is not queued (any more).
    fn cancel(&mut self, job: JobId, token: Token) -> bool;

    /// The jobs, their queues and their accounts.
    fn jobs(&self) -> &JobTable;

    /// The number of queued requests, those in service not counted.
    fn len(&self) -> usize {
        self.jobs().len()
    }

    /// Whether nothing is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Time up to `now` in which any request was queued.
    fn backlogged(&self, now: Nanos) -> Nanos {
        self.jobs().backlogged(now)
    }

    /// Every registered job's account, by ascending job id.
    fn shares(&self, now: Nanos) -> Vec<JobShare>;

    /// Ends this scheduler and hands over its jobs, queues and accounts, for [`crate::replace_sharing`].
    fn into_jobs(self: Box<Self>) -> JobTable;
}

/// For each job, factors (0 to 1) of the weights along its path in the share tree, outermost first.
pub type Portions = HashMap<JobId, Vec<f64>>;

/// A request to execute now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The job of the request.
    pub job: JobId,
    /// The caller's name for it.
    pub token: Token,
    /// The device time charged for it, until [`Scheduler::complete`] corrects it.
    pub cost: Nanos,
    /// The time for which the request was queued.
    pub waited: Nanos,
}

/// One job's account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobShare {
    /// The job.
    pub job: JobId,
    /// The fraction of the target's time the policy owes this job while the jobs now active all
    /// want more than theirs; 0 for an inactive job. The fractions sum to 1 where any is active, and to
    /// less where limits leave the target idle. None under `fifo`, which owes nobody anything.
    pub owed: Option<f64>,
    /// Whether the job has requests queued or in service, or had within the grace period.
    pub active: bool,
    /// Its queued requests.
    pub queued: usize,
    /// Device time charged since it was registered.
    pub charged: Nanos,
    /// Time since it was registered in which it had requests queued.
    pub backlogged: Nanos,
}

/// The reason why a request was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The job was never registered, or was removed.
    #[error("job {job} is not registered with this scheduler")]
    UnknownJob {
        /// The job named.
        job: JobId,
    },
    /// The job has [`Settings::queued_max_per_job`] requests queued.
    #[error("job {job} already has {limit} requests queued, its limit; retry when one completes")]
    JobQueueFull {
        /// The job named.
        job: JobId,
        /// The limit that was met.
        limit: usize,
    },
    /// All jobs together have [`Settings::queued_max_total`] requests queued.
    #[error("{limit} requests are queued, the limit of one target; retry when one completes")]
    TotalQueueFull {
        /// The limit that was met.
        limit: usize,
    },
}

/// Settings of a site, each with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Time for which a job stays active after its last request ended. The default of 5 ms is longer than a synchronous
    /// client needs to send its next request over any network (ten times a slow TCP round trip of 0.5 ms), and much
    /// shorter than the 100 ms in which servers exchange their jobs.
    pub grace: Nanos,
    /// The most device time that an active job that asked for less than its share may catch up later. The default of 2
    /// ms covers the requests missed while a synchronous client turns around, yet no burst that a neighbour would
    /// notice. A job may always catch up one request, however long, and the time of the request in service.
    pub credit_max: Nanos,
    /// The most requests one job may have queued. Default 4,096: a client has at most some dozens
    /// of credits, and a large job some hundreds of clients at one target.
    pub queued_max_per_job: usize,
    /// The most requests all jobs may have queued. Default 262,144: 8 MiB of queue entries.
    pub queued_max_total: usize,
    /// The start of the dice of schedulers that draw; the same seed draws the same.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            grace: Nanos::from_millis(5),
            credit_max: Nanos::from_millis(2),
            queued_max_per_job: 4_096,
            queued_max_total: 262_144,
            seed: 0,
        }
    }
}
