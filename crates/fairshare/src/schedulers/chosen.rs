//! A discipline of one's own: a [`Chooser`] picks the job to serve, and everything else is as under any scheduler.

use crate::job::JobAttributes;
use crate::policy::Policy;
use crate::schedulers::jobs::JobTable;
use crate::schedulers::paths::Paths;
use crate::schedulers::queues::Discipline;
use crate::schedulers::{Dispatch, Portions};
use crate::sharing::Sharing;
use crate::time::Nanos;

/// A job with requests queued at the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiting {
    /// The job.
    pub attributes: JobAttributes,
    /// The part of the device's time that the policy owes the job among those active now, 0 to 1; under `fifo`, which owes
    /// nothing, the same for all.
    pub owed: f64,
    /// Its queued requests, at least 1.
    pub queued: usize,
    /// The expected device time of its first request.
    pub cost: Nanos,
    /// The time for which its first request has been queued.
    pub waited: Nanos,
    /// Device time charged to it since it was registered.
    pub charged: Nanos,
}

/// The answer of a [`Chooser`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first request of the job at this place among those waiting is served.
    Serve(usize),
    /// Nobody is served until this moment, which is later than now, or until a request comes.
    Hold(Nanos),
}

/// An algorithm that picks the job whose first request a device serves next. Each device has one of its own.
pub trait Chooser: Send {
    /// Picks one of `waiting`, which has at least one job; the job whose first request came first is the first.
    fn choose(&mut self, waiting: &[Waiting], now: Nanos) -> Choice;
}

/// Serves the jobs that a chooser picks.
pub(crate) struct Chosen {
    chooser: Box<dyn Chooser>,
    paths: Paths,
    /// Shares owed to active jobs, by slot; none since jobs, weights or activity changed.
    owed: Option<Vec<f64>>,
    /// The moment until which the chooser serves nobody.
    held_until: Option<Nanos>,
    /// Slots of jobs with requests queued, the oldest request first, and the same jobs as the chooser sees them.
    slots: Vec<usize>,
    waiting: Vec<Waiting>,
}

impl Chosen {
    pub(crate) fn new(chooser: Box<dyn Chooser>, sharing: &Sharing) -> Chosen {
        Chosen {
            chooser,
            paths: Paths::new(sharing.clone()),
            owed: None,
            held_until: None,
            slots: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Looks at the jobs with requests queued.
    fn look(&mut self, jobs: &JobTable, now: Nanos) {
        let owed = self.owed.get_or_insert_with(|| self.paths.owed_at(jobs, now));
        self.slots.clear();
        self.slots.extend(jobs.occupied().filter(|&slot| !jobs.queue(slot).is_empty()));
        self.slots.sort_unstable_by_key(|&slot| jobs.queue(slot)[0].arrival);
        self.waiting.clear();
        self.waiting.extend(self.slots.iter().map(|&slot| {
            let queue = jobs.queue(slot);
            Waiting {
                attributes: *jobs.attributes(slot),
                owed: owed.get(slot).copied().unwrap_or(0.0),
                queued: queue.len(),
                cost: queue[0].cost(),
                waited: queue[0].waited(now),
                charged: jobs.charged(slot),
            }
        }));
    }
}

impl Discipline for Chosen {
    fn enter(&mut self, _: &JobTable, _: usize) {
        self.owed = None;
    }

    fn leave(&mut self, _: &JobTable, _: usize) {
        self.owed = None;
    }

    fn change(&mut self, _: &JobTable, _: usize, _: &JobAttributes) {
        self.owed = None;
    }

    fn activate(&mut self, _: usize) {
        self.owed = None;
    }

    fn deactivate(&mut self, _: usize) {
        self.owed = None;
    }

    fn arrive(&mut self, _: &JobTable, _: usize, _: u64, _: Nanos) {}

    fn withdraw(&mut self, _: &JobTable, _: usize, _: u64, _: bool) {}

    fn dispatch(&mut self, jobs: &mut JobTable, now: Nanos) -> Option<Dispatch> {
        self.held_until = None;
        self.look(jobs, now);
        if self.slots.is_empty() {
            return None;
        }
        match self.chooser.choose(&self.waiting, now) {
            Choice::Serve(place) => Some(jobs.start(self.slots[place], now).dispatch),
            Choice::Hold(until) => {
                // A moment that has passed would be asked about for ever.
                self.held_until = Some(until.max(now + Nanos(1)));
                None
            }
        }
    }

    fn next_release(&self) -> Option<Nanos> {
        self.held_until
    }

    fn set_portions(&mut self, jobs: &JobTable, portions: &Portions) {
        self.paths.set_portions(jobs, portions);
        self.owed = None;
    }

    fn owed(&self, jobs: &JobTable, now: Nanos) -> Option<Vec<f64>> {
        (*self.paths.sharing().policy() != Policy::Fifo).then(|| self.paths.owed_at(jobs, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobId, Token};
    use crate::schedulers::choice::scheduler_by;
    use crate::schedulers::Settings;
    use std::sync::{Arc, Mutex};

    /// Serves the job whose next request is the shortest, once its begin has come.
    struct ShortestFrom(Nanos, Arc<Mutex<Vec<Vec<Waiting>>>>);

    impl Chooser for ShortestFrom {
        fn choose(&mut self, waiting: &[Waiting], now: Nanos) -> Choice {
            self.1.lock().unwrap().push(waiting.to_vec());
            if now < self.0 {
                return Choice::Hold(self.0);
            }
            let shortest = waiting.iter().enumerate().min_by_key(|(_, job)| job.cost);
            Choice::Serve(shortest.map_or(0, |(place, _)| place))
        }
    }

    #[test]
    fn a_chooser_sees_the_jobs_with_requests_and_its_choice_is_served() {
        let seen = Arc::default();
        let chooser = Box::new(ShortestFrom(Nanos(100), Arc::clone(&seen)));
        let sharing = Sharing::of("size-fair".parse().unwrap());
        let mut scheduler = scheduler_by(chooser, &sharing, Settings::default());
        for (job, nodes, cost) in [(1, 3, 50), (2, 1, 20)] {
            scheduler.upsert_job(JobAttributes::numbered(job, job, 1, nodes, 1), Nanos(0));
            scheduler.enqueue(JobId(job), Token(job), Nanos(cost), Nanos(job)).unwrap();
        }
        scheduler.upsert_job(JobAttributes::numbered(3, 3, 1, 1, 1), Nanos(0));

        assert_eq!(scheduler.dispatch(Nanos(10)), None);
        assert_eq!(scheduler.next_release(), Some(Nanos(100)));
        let served: Vec<JobId> = (0..2).map(|_| scheduler.dispatch(Nanos(100)).unwrap().job).collect();
        assert_eq!(served, [JobId(2), JobId(1)]);
        assert_eq!(scheduler.next_release(), None, "nothing is queued");

        let first = seen.lock().unwrap()[0].clone();
        let percent = |job: &Waiting| (100.0 * job.owed).round();
        let told: Vec<_> = first.iter().map(|job| (job.attributes.job.0, percent(job), job.waited)).collect();
        assert_eq!(
            told,
            [(1, 75.0, Nanos(9)), (2, 25.0, Nanos(8))],
            "the job without requests is not among them"
        );
    }
}
