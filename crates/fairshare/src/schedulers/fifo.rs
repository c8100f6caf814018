//! First in, first out over all jobs: the way of a file system without a policy, kept as the baseline against which the
//! fair schedulers are measured.

use std::collections::BTreeMap;

use crate::schedulers::jobs::{JobTable, Request};
use crate::schedulers::queues::Discipline;
use crate::schedulers::Dispatch;
use crate::time::Nanos;

/// Serves requests in order of arrival. It knows no weights, so neither attributes nor portions matter.
#[derive(Default)]
pub(crate) struct Fifo {
    /// Order of arrival to the slot of the job whose request it is.
    order: BTreeMap<u64, usize>,
}

impl Discipline for Fifo {
    fn enter(&mut self, jobs: &JobTable, slot: usize) {
        self.order.extend(jobs.queue(slot).iter().map(|request: &Request| (request.arrival, slot)));
    }

    fn leave(&mut self, jobs: &JobTable, slot: usize) {
        for request in jobs.queue(slot) {
            self.order.remove(&request.arrival);
        }
    }

    #[inline]
    fn arrive(&mut self, _: &JobTable, slot: usize, arrival: u64, _: Nanos) {
        self.order.insert(arrival, slot);
    }

    fn withdraw(&mut self, _: &JobTable, _: usize, arrival: u64, _: bool) {
        self.order.remove(&arrival);
    }

    #[inline]
    fn dispatch(&mut self, jobs: &mut JobTable, now: Nanos) -> Option<Dispatch> {
        let (arrival, slot) = self.order.pop_first()?;
        let started = jobs.start(slot, now);
        debug_assert_eq!(started.arrival, arrival, "a job's queue is in order of arrival");
        Some(started.dispatch)
    }

    fn owed(&self, _jobs: &JobTable, _now: Nanos) -> Option<Vec<f64>> {
        None
    }
}
