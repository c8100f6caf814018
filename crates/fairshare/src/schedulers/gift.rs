//! GIFT's scheduler (Patel, Garg and Tiwari, FAST'20), as ThemisIO compared itself with it (section 5.4): every
//! interval the applications that have requests pending are allotted their bandwidth until the next one.
//!
//! [`allocation`] is GIFT's BSIP (basic synchronous I/O progress), its linear program, and its coupons, after
//! the paper's description and the parameters of the code published with it. A device's scheduler allots its own
//! target, on which fair shares fill the whole: only over several targets does the program find bandwidth.
//!
//! Departures: shares are what the policy owes instead of equal; bandwidth is device time; an interval is
//! half a second, as ThemisIO found best, not ten; pending counts a request that ended within the grace, so
//! that a synchronous client is not shut out by the moment it is looked at. Within an interval the job that
//! has spent the least part of its allotment goes first. What is unused at its end is lost, and a job that came
//! too late for the division waits for the next, as under the bandwidth limits of the paper. A request is served
//! while its job has anything left; what it takes beyond that is taken from later intervals.

mod allocation;

use std::collections::BTreeSet;

use self::allocation::{allocate, Application, Coupons};
use crate::schedulers::jobs::JobTable;
use crate::schedulers::paths::Paths;
use crate::schedulers::queues::Discipline;
use crate::schedulers::{Dispatch, Portions};
use crate::sharing::Sharing;
use crate::time::Nanos;

/// Length of an allotment (ThemisIO, section 5.4).
const INTERVAL: Nanos = Nanos::from_millis(500);

/// Allots device time for an interval at a time.
pub(crate) struct Gift {
    paths: Paths,
    /// The end of the present interval; none before the first.
    end: Option<Nanos>,
    /// Allotments by slot.
    allotments: Vec<Allotment>,
    /// The jobs that may be served now, those first that have spent the least part of their allotment, then
    /// those whose request came first.
    order: BTreeSet<Place>,
}

/// (Part of the allotment that is spent, arrival of the first request, slot).
type Place = (i64, u64, usize);

/// A job's part of the present interval, in nanoseconds of device time.
#[derive(Clone, Copy, Debug, Default)]
struct Allotment {
    granted: i64,
    /// Negative where requests took more; that is then kept.
    left: i64,
    coupons: Coupons,
    /// The place of the job in the order.
    place: Option<Place>,
}

impl Allotment {
    /// The part spent, in 2^-20.
    fn spent(&self) -> i64 {
        let spent = i128::from(self.granted) - i128::from(self.left);
        (spent << 20).checked_div(i128::from(self.granted)).map_or(i64::MAX, |part| part as i64)
    }

    /// Gives the same allotment again, `intervals` times: it pays debts, and its unused part is lost.
    fn renew(&mut self, intervals: i64) {
        self.left = self.left.saturating_add(self.granted.saturating_mul(intervals)).min(self.granted);
    }
}

impl Gift {
    /// Without jobs.
    pub(crate) fn new(sharing: &Sharing) -> Gift {
        Gift { paths: Paths::new(sharing.clone()), end: None, allotments: Vec::new(), order: BTreeSet::new() }
    }

    /// Gives the job the place in the order that its queue and allotment say, if any.
    fn replace(&mut self, jobs: &JobTable, slot: usize) {
        if slot >= self.allotments.len() {
            self.allotments.resize(slot + 1, Allotment::default());
        }
        let allotment = &mut self.allotments[slot];
        if let Some(place) = allotment.place.take() {
            self.order.remove(&place);
        }
        let first = jobs.queue(slot).front();
        if let Some(request) = first.filter(|_| allotment.left > 0) {
            let place = (allotment.spent(), request.arrival, slot);
            allotment.place = Some(place);
            self.order.insert(place);
        }
    }

    /// Begins an interval where the last one is over.
    fn begin_interval(&mut self, jobs: &JobTable, now: Nanos) {
        let late = match self.end {
            Some(end) if now < end => return,
            Some(end) => now.saturating_since(end),
            None => Nanos::ZERO,
        };
        let missed = (late.0 / INTERVAL.0) as i64;
        let start = self.end.filter(|_| missed == 0).unwrap_or(now);
        self.end = Some(start + INTERVAL);
        let active: Vec<usize> = jobs.occupied().filter(|&slot| jobs.is_active(slot)).collect();
        let owed = self.paths.owed(jobs, &active);
        self.allot(jobs, &active, &owed, missed);
        for slot in jobs.occupied() {
            self.replace(jobs, slot);
        }
    }

    /// Divides an interval among the `active` jobs, after `missed` ones in which nothing was decided.
    fn allot(&mut self, jobs: &JobTable, active: &[usize], owed: &[f64], missed: i64) {
        let slots = active.iter().max().map_or(0, |slot| slot + 1);
        self.allotments.resize(slots.max(self.allotments.len()), Allotment::default());
        for allotment in &mut self.allotments {
            allotment.renew(missed);
            allotment.left = allotment.left.min(0);
            allotment.granted = 0;
        }
        let application = |(&slot, &owed): (&usize, &f64)| Application {
            targets: vec![(0, owed)],
            coupons: self.allotments[slot].coupons,
        };
        let mut applications: Vec<Application> = active.iter().zip(owed).map(application).collect();
        let granted = allocate(&mut applications);
        for ((&slot, application), granted) in active.iter().zip(applications).zip(granted) {
            let allotment = &mut self.allotments[slot];
            allotment.coupons = application.coupons;
            allotment.granted = ((granted * INTERVAL.0 as f64) as i64).max(1);
            allotment.renew(1);
        }
        self.forgive(jobs, active);
    }

    /// Where all asking jobs are in debt, pays so much of all debts that one job may be served: no job gains from an
    /// idle device.
    fn forgive(&mut self, jobs: &JobTable, active: &[usize]) {
        let asks = |&&slot: &&usize| !jobs.queue(slot).is_empty();
        let needed = |&slot: &usize| {
            let Allotment { granted, left, .. } = self.allotments[slot];
            if left > 0 {
                0
            } else {
                -left / granted + 1
            }
        };
        let intervals = active.iter().filter(asks).map(needed).min().unwrap_or(0);
        if intervals > 0 {
            for &slot in active {
                self.allotments[slot].renew(intervals);
            }
        }
    }
}

impl Discipline for Gift {
    /// A change of a job counts from the next interval on.
    fn enter(&mut self, jobs: &JobTable, slot: usize) {
        self.replace(jobs, slot);
    }

    fn leave(&mut self, _: &JobTable, slot: usize) {
        if let Some(place) = self.allotments[slot].place {
            self.order.remove(&place);
        }
        self.allotments[slot] = Allotment::default();
    }

    #[inline]
    fn arrive(&mut self, jobs: &JobTable, slot: usize, _: u64, _: Nanos) {
        if jobs.queue(slot).len() == 1 {
            self.replace(jobs, slot);
        }
    }

    fn withdraw(&mut self, jobs: &JobTable, slot: usize, _: u64, was_first: bool) {
        if was_first {
            self.replace(jobs, slot);
        }
    }

    #[inline]
    fn dispatch(&mut self, jobs: &mut JobTable, now: Nanos) -> Option<Dispatch> {
        if jobs.len() == 0 {
            return None;
        }
        self.begin_interval(jobs, now);
        let &(_, _, slot) = self.order.first()?;
        let started = jobs.start(slot, now);
        let allotment = &mut self.allotments[slot];
        allotment.left = allotment.left.saturating_sub(started.charge);
        self.replace(jobs, slot);
        Some(started.dispatch)
    }

    fn next_release(&self) -> Option<Nanos> {
        self.end.filter(|_| self.order.is_empty())
    }

    /// Portions count from the next interval on.
    fn set_portions(&mut self, jobs: &JobTable, portions: &Portions) {
        self.paths.set_portions(jobs, portions);
    }

    fn owed(&self, jobs: &JobTable, now: Nanos) -> Option<Vec<f64>> {
        Some(self.paths.owed_at(jobs, now))
    }
}
