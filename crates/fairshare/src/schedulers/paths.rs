//! The paths of a device's jobs through the share tree, with the portions of their weights that are spent there, and
//! the jobs' claims, for schedulers that keep no tree.

use std::collections::HashMap;

use crate::bounded;
use crate::branch::Branch;
use crate::job::JobAttributes;
use crate::policy::Entity;
use crate::schedulers::jobs::JobTable;
use crate::schedulers::Portions;
use crate::sharing::Sharing;
use crate::time::Nanos;

/// A portion that differs by less than this part is the same: nothing then needs a new order.
const PORTION_STEP: f64 = 0.005;

/// The claims of jobs on one device under a policy, by the portions of their weights that are spent there.
#[derive(Debug)]
pub(crate) struct Paths {
    sharing: Sharing,
    /// The portion of each node's weight, by the entities on the way to it: jobs that share a node share
    /// its portion, also those that bring none of their own.
    portions: HashMap<Vec<Entity>, f64>,
}

impl Paths {
    /// Without portions: every job spends its whole weight here.
    pub(crate) fn new(sharing: Sharing) -> Paths {
        Paths { sharing, portions: HashMap::new() }
    }

    pub(crate) fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    /// Replaces the portions; those of unknown jobs are passed over. Returns whether any is another than it
    /// was.
    pub(crate) fn set_portions(&mut self, jobs: &JobTable, portions: &Portions) -> bool {
        let mut fresh = HashMap::new();
        for (&job, portions) in portions {
            let Some(slot) = jobs.slot(job) else { continue };
            let mut entities = Vec::new();
            for (branch, &portion) in self.sharing.path(jobs.attributes(slot), &[]).iter().zip(portions) {
                entities.push(branch.entity);
                let known = self.portions.get(&entities).copied().unwrap_or(1.0);
                let kept = if (known - portion).abs() < PORTION_STEP * known { known } else { portion };
                if kept < 1.0 {
                    fresh.insert(entities.clone(), kept);
                }
            }
        }
        let is_other = fresh != self.portions;
        self.portions = fresh;
        is_other
    }

    /// The nodes from below the root to the job's leaf, outermost first.
    pub(crate) fn of(&self, jobs: &JobTable, slot: usize) -> Vec<Branch> {
        let path = self.sharing.path(jobs.attributes(slot), &[]);
        if self.portions.is_empty() {
            return path;
        }
        let mut entities = Vec::with_capacity(path.len());
        let portion = |branch: &Branch| {
            entities.push(branch.entity);
            self.portions.get(&entities).copied().unwrap_or(1.0)
        };
        let portions: Vec<f64> = path.iter().map(portion).collect();
        self.sharing.path(jobs.attributes(slot), &portions)
    }

    /// The fraction of the device's time owed to each of `slots` while exactly these want more than theirs.
    pub(crate) fn owed(&self, jobs: &JobTable, slots: &[usize]) -> Vec<f64> {
        let paths: Vec<Vec<Branch>> = slots.iter().map(|&slot| self.of(jobs, slot)).collect();
        let attributes: Vec<&JobAttributes> = slots.iter().map(|&slot| jobs.attributes(slot)).collect();
        bounded::owed(&paths, &attributes, self.sharing.entitlements())
    }

    /// The fraction owed to each job while exactly those active at `now` want more than theirs, by slot.
    pub(crate) fn owed_at(&self, jobs: &JobTable, now: Nanos) -> Vec<f64> {
        let active: Vec<usize> = jobs.occupied().filter(|&slot| jobs.is_active_at(slot, now)).collect();
        let mut owed = vec![0.0; jobs.slots()];
        for (&slot, fraction) in active.iter().zip(self.owed(jobs, &active)) {
            owed[slot] = fraction;
        }
        owed
    }
}
