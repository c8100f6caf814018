//! Turns among some of a device's jobs: the share tree, addressed by the jobs' slots.

use super::tree::{NodeId, ShareTree};
use crate::branch::Branch;
use crate::time::Nanos;

/// A share tree and which of its leaves stands for which job.
#[derive(Debug)]
pub(crate) struct Turns {
    tree: ShareTree,
    /// Leaves by slot.
    leaves: Vec<Option<NodeId>>,
    /// The slot of each leaf's job, by node; stale where the node is no leaf.
    slots: Vec<u32>,
}

/// The job at a leaf of the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    slot: u32,
    leaf: NodeId,
}

impl Turn {
    /// The slot of the job.
    pub(crate) fn slot(self) -> usize {
        self.slot as usize
    }
}

impl Turns {
    /// No jobs; see [`ShareTree::new`] for the credit.
    pub(crate) fn new(credit_max: Nanos) -> Turns {
        Turns { tree: ShareTree::new(credit_max), leaves: Vec::new(), slots: Vec::new() }
    }

    /// Puts an inactive job at the end of `path`, or gives a job that stands there the path's weights. A
    /// job that stands elsewhere must be detached first.
    pub(crate) fn attach(&mut self, slot: usize, path: &[Branch]) {
        let leaf = self.tree.attach(path);
        assign(&mut self.leaves, slot, Some(leaf), None);
        assign(&mut self.slots, leaf.index(), slot as u32, 0);
    }

    /// Whether the job's place is the end of `path`, whatever the weights.
    pub(crate) fn stands_at(&self, slot: usize, path: &[Branch]) -> bool {
        let leaf = self.leaves.get(slot).copied().flatten();
        leaf.is_some() && leaf == self.tree.find(path)
    }

    /// Takes off a job that is inactive and has no request.
    pub(crate) fn detach(&mut self, slot: usize) {
        if let Some(leaf) = self.leaves.get_mut(slot).and_then(Option::take) {
            self.tree.detach(leaf);
        }
    }

    /// Counts the job's weight from now on.
    pub(crate) fn activate(&mut self, slot: usize) {
        if let Some(leaf) = self.leaf(slot) {
            self.tree.activate(leaf);
        }
    }

    /// Counts the job's weight no more; it must have no request.
    pub(crate) fn deactivate(&mut self, slot: usize) {
        if let Some(leaf) = self.leaf(slot) {
            self.tree.deactivate(leaf);
        }
    }

    /// Sets the cost of the job's next request, or that it has none.
    pub(crate) fn offer(&mut self, slot: usize, next: Option<Nanos>) {
        if let Some(leaf) = self.leaf(slot) {
            self.tree.offer(leaf, next);
        }
    }

    /// Takes the job's request out of the order until it is offered again.
    pub(crate) fn withhold(&mut self, slot: usize) {
        if let Some(leaf) = self.leaf(slot) {
            self.tree.withhold(leaf);
        }
    }

    /// The turn of the job to serve next.
    #[inline]
    pub(crate) fn first(&self) -> Option<Turn> {
        self.tree.first().map(|leaf| self.turn(leaf))
    }

    /// Charges a job, at its turn, `charge` nanoseconds; `next` is the cost of its next request. Answers the turn that comes
    /// next in the same branch of the tree.
    #[inline]
    pub(crate) fn serve(&mut self, turn: Turn, charge: i64, next: Option<Nanos>) -> Option<Turn> {
        self.tree.serve(turn.leaf, charge, next).map(|leaf| self.turn(leaf))
    }

    /// The fraction of the time owed to each job while exactly those of `active` are active, by slot.
    pub(crate) fn owed(&self, active: impl Iterator<Item = usize>) -> Vec<f64> {
        let by_node = self.tree.owed(active.filter_map(|slot| self.leaf(slot)));
        self.leaves.iter().map(|leaf| leaf.map_or(0.0, |leaf| by_node[leaf.index()])).collect()
    }

    /// Brings the leaf of the job near.
    #[inline]
    pub(crate) fn fetch(&mut self, turn: Turn) {
        self.tree.fetch(turn.leaf);
    }

    /// Brings near what a choice among the siblings of the job's leaf needs, after the leaf.
    #[inline]
    pub(crate) fn fetch_siblings(&self, turn: Turn) {
        self.tree.fetch_siblings(turn.leaf);
    }

    fn turn(&self, leaf: NodeId) -> Turn {
        Turn { slot: self.slots[leaf.index()], leaf }
    }

    fn leaf(&self, slot: usize) -> Option<NodeId> {
        self.leaves.get(slot).copied().flatten()
    }
}

/// Sets `list[index]`, lengthening the list with `filler` as needed.
fn assign<T: Clone>(list: &mut Vec<T>, index: usize, value: T, filler: T) {
    if index >= list.len() {
        list.resize(index + 1, filler);
    }
    list[index] = value;
}
