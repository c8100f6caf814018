//! A count of all owners' use from the inodes, beside the sums that every change keeps.
//!
//! The count of a large server takes many turns of the loop. Inodes are counted in the order of their numbers, and a change of one that was
//! counted already changes the count, too, so the end compares two sums of one moment.

use super::Files;
#[cfg(test)]
use crate::namespace::quotas::Charge;
use crate::namespace::quotas::UseFault;
use weir_wire::Ino;

impl Files {
    /// The numbers of all inodes for which `is_wanted`, in no order.
    pub fn numbers(&self, is_wanted: impl Fn(Ino) -> bool) -> Vec<Ino> {
        self.inodes.numbers().filter(|ino| is_wanted(*ino)).collect()
    }

    /// Begins a count, in place of one that is under way: the number of the count, and the inodes in no order.
    pub(crate) fn begin_recount(&mut self) -> (u64, Vec<Ino>) {
        let inos = self.numbers(|_| true);
        let last = inos.iter().copied().max().unwrap_or_default();
        (self.inodes.begin_recount(last), inos)
    }

    /// Counts the next inodes, which follow the last ones in the order of their numbers; false if another count has begun.
    pub(crate) fn go_on_recount(&mut self, id: u64, inos: &[Ino]) -> bool {
        inos.iter().all(|ino| self.inodes.recount(id, *ino))
    }

    /// Ends a count: the owners with other sums; none if another count has begun.
    pub(crate) fn end_recount(&mut self, id: u64) -> Option<Vec<UseFault>> {
        let counted = self.inodes.end_recount(id)?;
        Some(self.inodes.usage().faults(&counted))
    }

    /// The owners whose sums are not those of their inodes, by a count in one go.
    pub fn use_faults(&self) -> Vec<UseFault> {
        self.inodes.usage().faults(&self.inodes.recounted())
    }

    /// Makes the sums wrong, which no record can.
    #[cfg(test)]
    pub(crate) fn misjudge(&mut self, charge: Charge) {
        self.inodes.usage_mut().adjust(None, Some(charge));
    }
}
