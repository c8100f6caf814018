//! A count of all owners' use from the inodes, beside the sums that every change keeps.
//!
//! The count of a large server takes many turns of the loop. Inodes are counted in the order of their numbers, and a change of one that was
//! counted already changes the count, too, so the end compares two sums of one moment.

use super::core::Namespace;
use super::usage::{Recount, UseFault};
use weir_wire::Ino;

impl Namespace {
    /// Begins a count, in place of one that is under way: the number of the count, and the inodes in no order.
    pub(crate) fn begin_recount(&mut self) -> (u64, Vec<Ino>) {
        let inos = self.numbers(|_| true);
        let last = inos.iter().copied().max().unwrap_or_default();
        self.state.recounts += 1;
        self.state.recount = Some(Recount::new(self.state.recounts, last));
        (self.state.recounts, inos)
    }

    /// Counts the next inodes, which follow the last ones in the order of their numbers; false if another count has begun.
    pub(crate) fn go_on_recount(&mut self, id: u64, inos: &[Ino]) -> bool {
        let Some(mut recount) = self.state.recount.take_if(|recount| recount.id() == id) else {
            return false;
        };
        for ino in inos {
            recount.count(*ino, self.state.charge(*ino));
        }
        self.state.recount = Some(recount);
        true
    }

    /// Ends a count: the owners with other sums; none if another count has begun.
    pub(crate) fn end_recount(&mut self, id: u64) -> Option<Vec<UseFault>> {
        let recount = self.state.recount.take_if(|recount| recount.id() == id)?;
        Some(self.state.usage.faults(&recount.into_usage()))
    }

    /// The owners whose sums are not those of their inodes, by a count in one go.
    pub(crate) fn use_faults(&self) -> Vec<UseFault> {
        self.state.usage.faults(&self.state.recounted())
    }
}
