//! The paths of a device's jobs through the share tree, as schedulers need them that keep no tree: worked
//! out anew from the policy and the portions whenever the active jobs change.

use std::collections::HashMap;

use crate::jobs::JobTable;
use crate::policy::Entity;
use crate::scheduler::{JobShare, Portions};
use crate::sharing::{owed_of_paths, Branch, Sharing};
use crate::time::Nanos;

/// What a policy owes the jobs of one device, the portions of their weights that are spent there counted.
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

    /// Replaces the portions; those of unknown jobs are passed over.
    pub(crate) fn set_portions(&mut self, jobs: &JobTable, portions: &Portions) {
        self.portions.clear();
        for (&job, portions) in portions {
            let Some(slot) = jobs.slot(job) else { continue };
            let mut entities = Vec::new();
            for (branch, &portion) in self.sharing.path(jobs.attributes(slot), &[]).iter().zip(portions) {
                entities.push(branch.entity);
                self.portions.insert(entities.clone(), portion);
            }
        }
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
        owed_of_paths(&slots.iter().map(|&slot| self.of(jobs, slot)).collect::<Vec<_>>())
    }

    /// Every job's account, with what the policy owes it among the jobs active at `now`.
    pub(crate) fn shares(&self, jobs: &JobTable, now: Nanos) -> Vec<JobShare> {
        let active: Vec<usize> = jobs.occupied().filter(|&slot| jobs.is_active_at(slot, now)).collect();
        let owed: HashMap<usize, f64> = active.iter().copied().zip(self.owed(jobs, &active)).collect();
        jobs.shares(now, |slot| owed.get(&slot).copied().unwrap_or(0.0))
    }
}
