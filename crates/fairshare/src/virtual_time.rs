//! The default scheduler: the share tree decides among jobs, deterministically.
//!
//! A job is active from its first request until a grace period after its last one ended, so that a
//! synchronous client, which has nothing queued while it turns around, keeps its place in the tree.

use crate::job::{JobAttributes, JobId, Token};
use crate::jobs::JobTable;
use crate::policy::{Branch, Level};
use crate::scheduler::{Dispatch, JobShare, Refusal, Scheduler};
use crate::time::Nanos;
use crate::tree::{NodeId, ShareTree};

/// Divides time over the policy's tree; see [`ShareTree`] for the order and its error.
pub(crate) struct VirtualTime {
    levels: Vec<Level>,
    jobs: JobTable,
    tree: ShareTree,
    /// The leaf of each job, by slot; stale where the slot is free.
    leaves: Vec<NodeId>,
    /// The slot of each leaf's job, by leaf; stale where the node is no leaf.
    owners: Vec<usize>,
}

impl VirtualTime {
    pub(crate) fn new(levels: &[Level], jobs: JobTable) -> VirtualTime {
        let tree = ShareTree::new(jobs.settings().credit_max);
        let slots: Vec<usize> = jobs.occupied().collect();
        let levels = levels.to_vec();
        let mut scheduler = VirtualTime { levels, jobs, tree, leaves: Vec::new(), owners: Vec::new() };
        for slot in slots {
            scheduler.attach(slot);
            if scheduler.jobs.is_active(slot) {
                scheduler.tree.activate(scheduler.leaves[slot]);
            }
            scheduler.offer_first(slot);
        }
        scheduler
    }

    /// Gives the job in `slot` its leaf, or the leaf's new weights.
    fn attach(&mut self, slot: usize) {
        let attributes = self.jobs.attributes(slot);
        let path: Vec<Branch> = self.levels.iter().map(|level| level.branch(attributes)).collect();
        let leaf = self.tree.attach(&path);
        assign(&mut self.leaves, slot, leaf);
        assign(&mut self.owners, leaf.index(), slot);
    }

    /// Tells the tree which request of the job comes next.
    fn offer_first(&mut self, slot: usize) {
        let first = self.jobs.queue(slot).front().map(|request| request.cost);
        self.tree.offer(self.leaves[slot], first);
    }

    fn end_graces(&mut self, now: Nanos) -> Nanos {
        let now = self.jobs.advance(now);
        while let Some(slot) = self.jobs.end_grace(now) {
            self.tree.deactivate(self.leaves[slot]);
        }
        now
    }
}

impl Scheduler for VirtualTime {
    fn upsert_job(&mut self, attributes: JobAttributes, now: Nanos) {
        self.end_graces(now);
        let slot = self.jobs.upsert(attributes);
        self.attach(slot);
    }

    fn remove_job(&mut self, job: JobId, now: Nanos) -> Vec<Token> {
        self.end_graces(now);
        let Some(slot) = self.jobs.slot(job) else { return Vec::new() };
        let leaf = self.leaves[slot];
        self.tree.offer(leaf, None);
        if self.jobs.is_active(slot) {
            self.tree.deactivate(leaf);
        }
        self.tree.detach(leaf);
        self.jobs.remove(slot).into_iter().map(|request| request.token).collect()
    }

    fn enqueue(&mut self, job: JobId, token: Token, cost: Nanos, now: Nanos) -> Result<(), Refusal> {
        let now = self.end_graces(now);
        let slot = self.jobs.slot(job).ok_or(Refusal::UnknownJob { job })?;
        let was_active = self.jobs.is_active(slot);
        self.jobs.enqueue(slot, token, cost, now)?;
        if !was_active {
            self.tree.activate(self.leaves[slot]);
        }
        if self.jobs.queue(slot).len() == 1 {
            self.offer_first(slot);
        }
        Ok(())
    }

    fn dispatch(&mut self, now: Nanos) -> Option<Dispatch> {
        let now = self.end_graces(now);
        let leaf = self.tree.first()?;
        let slot = self.owners[leaf.index()];
        let started = self.jobs.start(slot, now);
        let next = self.jobs.queue(slot).front().map(|request| request.cost);
        self.tree.serve(leaf, started.charge, next);
        Some(started.dispatch)
    }

    fn complete(&mut self, job: JobId, estimated: Nanos, actual: Nanos, now: Nanos) {
        let now = self.end_graces(now);
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

    fn len(&self) -> usize {
        self.jobs.len()
    }

    fn shares(&self, now: Nanos) -> Vec<JobShare> {
        let active = self.jobs.occupied().filter(|&slot| self.jobs.is_active_at(slot, now));
        let owed = self.tree.owed(active.map(|slot| self.leaves[slot]));
        self.jobs.shares(now, |slot| owed[self.leaves[slot].index()])
    }

    fn into_jobs(self: Box<Self>) -> JobTable {
        self.jobs
    }
}

/// Sets `list[index]`, lengthening the list as needed.
fn assign<T: Clone>(list: &mut Vec<T>, index: usize, value: T) {
    if index >= list.len() {
        list.resize(index + 1, value.clone());
    }
    list[index] = value;
}
