//! The scheduler that a site chose, and the change to another one while jobs run.

use crate::schedulers::chosen::{Chooser, Chosen};
use crate::schedulers::fifo::Fifo;
use crate::schedulers::gift::Gift;
use crate::schedulers::jobs::JobTable;
use crate::schedulers::queues::Queues;
use crate::schedulers::statistical_token::StatisticalToken;
use crate::schedulers::tbf::Tbf;
use crate::schedulers::virtual_time::VirtualTime;
use crate::schedulers::{Scheduler, Settings};
use crate::sharing::{Algorithm, Sharing};

/// A scheduler of one device, without jobs.
pub fn scheduler(sharing: &Sharing, settings: Settings) -> Box<dyn Scheduler> {
    with_jobs(sharing, JobTable::new(settings))
}

/// A scheduler of one device, without jobs, whose choices `chooser` makes. The policy decides nothing; it tells the chooser
/// what each job is owed.
pub fn scheduler_by(chooser: Box<dyn Chooser>, sharing: &Sharing, settings: Settings) -> Box<dyn Scheduler> {
    Box::new(Queues::new(Chosen::new(chooser, sharing), JobTable::new(settings)))
}

/// Continues under another policy, scheduler or entitlements. Registered jobs, queued requests in their order of
/// arrival, requests in service and accounts all stay. The lead or lag of jobs is forgotten, because it was measured
/// against the old policy.
pub fn replace_sharing(current: Box<dyn Scheduler>, sharing: &Sharing) -> Box<dyn Scheduler> {
    with_jobs(sharing, current.into_jobs())
}

fn with_jobs(sharing: &Sharing, jobs: JobTable) -> Box<dyn Scheduler> {
    match sharing.algorithm() {
        Algorithm::Fifo => Box::new(Queues::new(Fifo::default(), jobs)),
        Algorithm::Gift => Box::new(Queues::new(Gift::new(sharing), jobs)),
        Algorithm::StatisticalToken => Box::new(Queues::new(StatisticalToken::new(sharing, &jobs), jobs)),
        Algorithm::Tbf => Box::new(Queues::new(Tbf::new(sharing, &jobs), jobs)),
        Algorithm::VirtualTime => Box::new(Queues::new(VirtualTime::new(sharing, &jobs), jobs)),
    }
}
