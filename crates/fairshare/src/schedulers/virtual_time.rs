//! The default scheduler: the share tree decides among jobs, deterministically.
//!
//! A job is active from its first request until a grace period after its last one ended, so that a
//! synchronous client, which has nothing queued while it turns around, keeps its place in the tree.

mod bounds;
mod order;
mod tree;
mod turns;
mod wheel;

use self::bounds::Bounds;
use self::turns::Turns;
use crate::job::{JobAttributes, JobId, Token};
use crate::schedulers::jobs::JobTable;
use crate::schedulers::paths::Paths;
use crate::schedulers::{Dispatch, JobShare, Portions, Refusal, Scheduler};
use crate::sharing::Sharing;
use crate::time::Nanos;

/// Divides time over the policy's tree; see [`tree`] for the order and its error.
pub(crate) struct VirtualTime {
    paths: Paths,
    jobs: JobTable,
    turns: Turns,
    bounds: Bounds,
}

impl VirtualTime {
    pub(crate) fn new(sharing: Sharing, jobs: JobTable) -> VirtualTime {
        let credit_max = jobs.settings().credit_max;
        let slots: Vec<usize> = jobs.occupied().collect();
        let mut scheduler = VirtualTime {
            paths: Paths::new(sharing),
            jobs,
            turns: Turns::new(credit_max),
            bounds: Bounds::new(credit_max),
        };
        for slot in slots {
            scheduler.enter(slot);
        }
        scheduler
    }

    /// Gives a job that stays at its places the weights that are right now.
    fn reweigh(&mut self, slot: usize) {
        let path = self.paths.of(&self.jobs, slot);
        self.turns.attach(slot, &path);
        self.bounds.turns_of(slot).for_each(|turns| turns.attach(slot, &path));
    }

    /// Gives a job its places, as active and backlogged as it is.
    fn enter(&mut self, slot: usize) {
        let path = self.paths.of(&self.jobs, slot);
        self.turns.attach(slot, &path);
        let attributes = self.jobs.attributes(slot);
        self.bounds.enter(slot, attributes.job, self.paths.sharing().entitlements().bounds(attributes));
        for turns in self.bounds.turns_of(slot) {
            turns.attach(slot, &path);
        }
        if self.jobs.is_active(slot) {
            self.activate(slot);
        }
        self.offer_first(slot);
    }

    /// Takes a job from all its places.
    fn leave(&mut self, slot: usize) {
        let is_active = self.jobs.is_active(slot);
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

    fn activate(&mut self, slot: usize) {
        self.turns.activate(slot);
        self.bounds.turns_of(slot).for_each(|turns| turns.activate(slot));
    }

    /// The cost of the job's next request, if it has one.
    fn next_cost(&self, slot: usize) -> Option<Nanos> {
        self.jobs.queue(slot).front().map(|request| request.cost)
    }

    /// Tells every order which request of the job comes next, or that it is withheld.
    fn offer_first(&mut self, slot: usize) {
        let next = self.next_cost(slot);
        let is_withheld = next.is_some() && self.bounds.is_limited(slot);
        let offer = |turns: &mut Turns| match is_withheld {
            true => turns.withhold(slot),
            false => turns.offer(slot, next),
        };
        offer(&mut self.turns);
        self.bounds.turns_of(slot).for_each(offer);
    }

    /// Ends what is over: graces, and withholding by limits.
    fn advance(&mut self, now: Nanos) -> Nanos {
        let now = self.jobs.advance(now);
        while let Some(slot) = self.jobs.end_grace(now) {
            self.turns.deactivate(slot);
            self.bounds.turns_of(slot).for_each(|turns| turns.deactivate(slot));
        }
        if !self.bounds.is_empty() {
            for slot in self.bounds.release(now) {
                self.offer_first(slot);
            }
        }
        now
    }

    /// Serves a job out of its turn where a holder is behind its reservation, else the one whose turn it is.
    fn dispatch_bounded(&mut self, now: Nanos) -> Option<Dispatch> {
        let behind = self.bounds.first_behind(now);
        let slot = behind.map(|(_, slot)| slot).or_else(|| self.turns.first())?;
        let started = self.jobs.start(slot, now);
        let beyond = self.bounds.charge(slot, started.charge, now);
        let next = self.next_cost(slot);
        match behind {
            Some((holder, _)) => self.bounds.serve(holder, slot, started.charge, next),
            None => self.turns.serve(slot, started.charge, next),
        }
        self.offer_first(slot);
        for slot in beyond {
            self.offer_first(slot);
        }
        Some(started.dispatch)
    }
}

impl Scheduler for VirtualTime {
    fn upsert_job(&mut self, attributes: JobAttributes, now: Nanos) {
        self.advance(now);
        let known = self.jobs.slot(attributes.job);
        if known.is_some_and(|slot| *self.jobs.attributes(slot) == attributes) {
            return;
        }
        if let Some(slot) = known {
            let stays = self.turns.stands_at(slot, &self.paths.sharing().path(&attributes, &[]))
                && same_holders(self.jobs.attributes(slot), &attributes);
            if stays {
                self.jobs.upsert(attributes);
                self.reweigh(slot);
                return;
            }
            self.leave(slot);
        }
        let slot = self.jobs.upsert(attributes);
        self.enter(slot);
    }

    fn remove_job(&mut self, job: JobId, now: Nanos) -> Vec<Token> {
        self.advance(now);
        let Some(slot) = self.jobs.slot(job) else { return Vec::new() };
        self.leave(slot);
        self.jobs.remove(slot).into_iter().map(|request| request.token).collect()
    }

    fn enqueue(&mut self, job: JobId, token: Token, cost: Nanos, now: Nanos) -> Result<(), Refusal> {
        let now = self.advance(now);
        let slot = self.jobs.slot(job).ok_or(Refusal::UnknownJob { job })?;
        let was_active = self.jobs.is_active(slot);
        self.jobs.enqueue(slot, token, cost, now)?;
        if !was_active {
            self.activate(slot);
        }
        if self.jobs.queue(slot).len() == 1 {
            if !self.bounds.is_empty() {
                self.bounds.wake(slot, now);
            }
            self.offer_first(slot);
        }
        Ok(())
    }

    fn dispatch(&mut self, now: Nanos) -> Option<Dispatch> {
        let now = self.advance(now);
        if !self.bounds.is_empty() {
            return self.dispatch_bounded(now);
        }
        let slot = self.turns.first()?;
        let started = self.jobs.start(slot, now);
        let next = self.next_cost(slot);
        self.turns.serve(slot, started.charge, next);
        Some(started.dispatch)
    }

    fn next_release(&self) -> Option<Nanos> {
        self.bounds.next_release().filter(|_| self.jobs.len() > 0)
    }

    fn set_portions(&mut self, portions: &Portions, now: Nanos) {
        self.advance(now);
        if self.paths.set_portions(&self.jobs, portions) {
            for slot in self.jobs.occupied().collect::<Vec<_>>() {
                self.reweigh(slot);
            }
        }
    }

    fn complete(&mut self, job: JobId, estimated: Nanos, actual: Nanos, now: Nanos) {
        let now = self.advance(now);
        if let Some(slot) = self.jobs.slot(job) {
            self.jobs.complete(slot, estimated, actual, now);
        }
    }

    fn cancel(&mut self, job: JobId, token: Token) -> bool {
        let Some(slot) = self.jobs.slot(job) else { return false };
        let Some((_, was_first)) = self.jobs.cancel(slot, token) else { return false };
        if was_first {
            self.offer_first(slot);
        }
        true
    }

    fn jobs(&self) -> &JobTable {
        &self.jobs
    }

    fn shares(&self, now: Nanos) -> Vec<JobShare> {
        let active = self.jobs.occupied().filter(|&slot| self.jobs.is_active_at(slot, now));
        let owed = self.turns.owed(active);
        self.jobs.shares(now, |slot| owed[slot])
    }

    fn into_jobs(self: Box<Self>) -> JobTable {
        self.jobs
    }
}

/// Whether the same groups, users and jobs are charged for both.
fn same_holders(left: &JobAttributes, right: &JobAttributes) -> bool {
    (left.name, left.user, left.group) == (right.name, right.user, right.group)
}
