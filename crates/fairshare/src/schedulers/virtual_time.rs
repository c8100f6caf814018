//! The default scheduler: the share tree decides among jobs, deterministically.
//!
//! A job is active from its first request until a grace period after its last one ended, so that a
//! synchronous client, which has nothing queued while it turns around, keeps its place in the tree.

mod bounds;
mod lookahead;
mod order;
mod tree;
mod turns;
mod wheel;

use self::bounds::Bounds;
use self::lookahead::Lookahead;
use self::turns::{Turn, Turns};
use crate::job::JobAttributes;
use crate::schedulers::jobs::{JobTable, Request};
use crate::schedulers::paths::Paths;
use crate::schedulers::queues::Discipline;
use crate::schedulers::{Dispatch, Portions};
use crate::sharing::Sharing;
use crate::time::Nanos;

/// Divides time over the policy's tree; see [`tree`] for the order and its error.
pub(crate) struct VirtualTime {
    paths: Paths,
    turns: Turns,
    bounds: Bounds,
    lookahead: Lookahead,
}

impl VirtualTime {
    /// Without jobs.
    pub(crate) fn new(sharing: &Sharing, jobs: &JobTable) -> VirtualTime {
        let credit_max = jobs.settings().credit_max;
        VirtualTime {
            paths: Paths::new(sharing.clone()),
            turns: Turns::new(credit_max),
            bounds: Bounds::new(credit_max),
            lookahead: Lookahead::new(),
        }
    }

    /// Gives a job that stays at its places the weights that are right now.
    fn reweigh(&mut self, jobs: &JobTable, slot: usize) {
        let path = self.paths.of(jobs, slot);
        self.turns.attach(slot, &path);
        self.bounds.turns_of(slot).for_each(|turns| turns.attach(slot, &path));
    }

    /// Tells every order which request of the job comes next, or that it is withheld.
    fn offer_first(&mut self, jobs: &JobTable, slot: usize) {
        let next = next_cost(jobs, slot);
        let is_withheld = next.is_some() && self.bounds.is_limited(slot);
        let offer = |turns: &mut Turns| match is_withheld {
            true => turns.withhold(slot),
            false => turns.offer(slot, next),
        };
        offer(&mut self.turns);
        self.bounds.turns_of(slot).for_each(offer);
    }

    /// Brings near the data of a job that is likely to be served soon; see [`lookahead`].
    #[inline]
    fn look_ahead(&mut self, jobs: &mut JobTable, upcoming: Option<Turn>) {
        if let Some(turn) = upcoming {
            jobs.fetch(turn.slot());
            self.turns.fetch(turn);
        }
        if let Some(turn) = self.lookahead.note(upcoming) {
            jobs.fetch_requests(turn.slot());
            self.turns.fetch_siblings(turn);
        }
    }

    /// Serves a job out of its turn where a holder is behind its reservation, else the one whose turn it is.
    fn dispatch_bounded(&mut self, jobs: &mut JobTable, now: Nanos) -> Option<Dispatch> {
        let behind = self.bounds.first_behind(now);
        let turn = behind.map(|(_, turn)| turn).or_else(|| self.turns.first())?;
        let slot = turn.slot();
        let started = jobs.start(slot, now);
        let beyond = self.bounds.charge(slot, started.charge, now);
        let next = next_cost(jobs, slot);
        match behind {
            Some((holder, _)) => self.bounds.serve(holder, turn, started.charge, next),
            None => _ = self.turns.serve(turn, started.charge, next),
        }
        self.offer_first(jobs, slot);
        for slot in beyond {
            self.offer_first(jobs, slot);
        }
        Some(started.dispatch)
    }
}

impl Discipline for VirtualTime {
    fn enter(&mut self, jobs: &JobTable, slot: usize) {
        let path = self.paths.of(jobs, slot);
        self.turns.attach(slot, &path);
        let attributes = jobs.attributes(slot);
        self.bounds.enter(slot, attributes.job, self.paths.sharing().entitlements().bounds(attributes));
        for turns in self.bounds.turns_of(slot) {
            turns.attach(slot, &path);
        }
        if jobs.is_active(slot) {
            self.activate(slot);
        }
        self.offer_first(jobs, slot);
    }

    fn leave(&mut self, jobs: &JobTable, slot: usize) {
        let is_active = jobs.is_active(slot);
        let leave = |turns: &mut Turns| {
            turns.offer(slot, None);
            if is_active {
                turns.deactivate(slot);
            }
            turns.detach(slot);
        };
        self.bounds.turns_of(slot).for_each(leave);
        leave(&mut self.turns);
        self.bounds.leave(slot);
    }

    fn change(&mut self, jobs: &JobTable, slot: usize, former: &JobAttributes) {
        let attributes = jobs.attributes(slot);
        let stays = self.turns.stands_at(slot, &self.paths.sharing().path(attributes, &[]))
            && same_holders(former, attributes);
        if stays {
            self.reweigh(jobs, slot);
        } else {
            self.leave(jobs, slot);
            self.enter(jobs, slot);
        }
    }

    #[inline]
    fn advance(&mut self, jobs: &JobTable, now: Nanos) {
        if !self.bounds.is_empty() {
            for slot in self.bounds.release(now) {
                self.offer_first(jobs, slot);
            }
        }
    }

    fn activate(&mut self, slot: usize) {
        self.turns.activate(slot);
        self.bounds.turns_of(slot).for_each(|turns| turns.activate(slot));
    }

    fn deactivate(&mut self, slot: usize) {
        self.turns.deactivate(slot);
        self.bounds.turns_of(slot).for_each(|turns| turns.deactivate(slot));
    }

    #[inline]
    fn arrive(&mut self, jobs: &JobTable, slot: usize, _: u64, now: Nanos) {
        if jobs.queue(slot).len() == 1 {
            if !self.bounds.is_empty() {
                self.bounds.wake(slot, now);
            }
            self.offer_first(jobs, slot);
        }
    }

    fn withdraw(&mut self, jobs: &JobTable, slot: usize, _: u64, was_first: bool) {
        if was_first {
            self.offer_first(jobs, slot);
        }
    }

    #[inline]
    fn dispatch(&mut self, jobs: &mut JobTable, now: Nanos) -> Option<Dispatch> {
        if !self.bounds.is_empty() {
            return self.dispatch_bounded(jobs, now);
        }
        let turn = self.turns.first()?;
        let started = jobs.start(turn.slot(), now);
        let upcoming = self.turns.serve(turn, started.charge, next_cost(jobs, turn.slot()));
        self.look_ahead(jobs, upcoming);
        Some(started.dispatch)
    }

    /// Where somebody has a reservation or a limit, the order of the tree alone tells nothing.
    fn overtaken_by(&mut self, jobs: &JobTable, slot: usize, cost: Nanos) -> Option<Nanos> {
        if !self.bounds.is_empty() {
            return None;
        }
        let other = next_cost(jobs, self.turns.first()?.slot())?;
        self.turns.offer(slot, Some(cost));
        let comes_first = self.turns.first().is_some_and(|turn| turn.slot() == slot);
        self.turns.offer(slot, None);
        comes_first.then_some(other)
    }

    fn next_release(&self) -> Option<Nanos> {
        self.bounds.next_release()
    }

    fn set_portions(&mut self, jobs: &JobTable, portions: &Portions) {
        if self.paths.set_portions(jobs, portions) {
            for slot in jobs.occupied() {
                self.reweigh(jobs, slot);
            }
        }
    }

    fn owed(&self, jobs: &JobTable, now: Nanos) -> Option<Vec<f64>> {
        if !self.bounds.is_empty() {
            return Some(self.paths.owed_at(jobs, now));
        }
        Some(self.turns.owed(jobs.occupied().filter(|&slot| jobs.is_active_at(slot, now))))
    }
}

/// The cost of the job's next request, if it has one.
fn next_cost(jobs: &JobTable, slot: usize) -> Option<Nanos> {
    jobs.queue(slot).front().map(Request::cost)
}

/// Whether the same groups, users and jobs are charged for both.
fn same_holders(left: &JobAttributes, right: &JobAttributes) -> bool {
    (left.name, left.user, left.group) == (right.name, right.user, right.group)
}
