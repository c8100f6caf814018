//! A count of all owners' use from the inodes, beside the sums that every change keeps.
//!
//! The count of a large server takes many turns of the loop. Inodes are counted in the order of their numbers, and a change of one that was
//! counted already changes the count, too, so the end compares two sums of one moment.

use crate::namespace::core::Namespace;
use crate::namespace::quotas::usage::UseFault;
use weir_wire::Ino;

impl Namespace {
    /// Begins a count, in place of one that is under way: the number of the count, and the inodes in no order.
    pub(crate) fn begin_recount(&mut self) -> (u64, Vec<Ino>) {
        let inos = self.numbers(|_| true);
        let last = inos.iter().copied().max().unwrap_or_default();
        (self.state.inodes.begin_recount(last), inos)
    }

    /// Counts the next inodes, which follow the last ones in the order of their numbers; false if another count has begun.
    pub(crate) fn go_on_recount(&mut self, id: u64, inos: &[Ino]) -> bool {
        inos.iter().all(|ino| self.state.inodes.recount(id, *ino))
    }

    /// Ends a count: the owners with other sums; none if another count has begun.
    pub(crate) fn end_recount(&mut self, id: u64) -> Option<Vec<UseFault>> {
        let counted = self.state.inodes.end_recount(id)?;
        Some(self.state.inodes.usage().faults(&counted))
    }

    /// The owners whose sums are not those of their inodes, by a count in one go.
    pub fn use_faults(&self) -> Vec<UseFault> {
        self.state.inodes.usage().faults(&self.state.inodes.recounted())
    }
}
