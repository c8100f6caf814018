//! One value that all clients write and read: its history has an order.
//!
//! Each write has a value of its own. Two rules follow from an order that respects real time, and every fault of order that
//! they do not see leaves the values of the reads in an order that could have been.

use weir_fairshare::Nanos;

/// A call, from its beginning to its answer.
#[derive(Clone, Copy, Debug)]
struct Call {
    value: u64,
    began: Nanos,
    ended: Nanos,
}

/// The history of the register.
#[derive(Default)]
pub(crate) struct Register {
    writes: Vec<Call>,
    reads: Vec<Call>,
    /// Reads of pages that kernels had, which may be behind what others have read, and not behind what was answered to a writer.
    looks: Vec<Call>,
}

impl Register {
    /// A write that is answered.
    pub(crate) fn wrote(&mut self, value: u64, began: Nanos, ended: Nanos) {
        self.writes.push(Call { value, began, ended });
    }

    /// A read that is answered; 0 where nothing was written before.
    pub(crate) fn read(&mut self, value: u64, began: Nanos, ended: Nanos) {
        self.reads.push(Call { value, began, ended });
    }

    /// A program saw this value in a page that its kernel had.
    pub(crate) fn looked(&mut self, value: u64, at: Nanos) {
        self.looks.push(Call { value, began: at, ended: at });
    }

    /// The fault of the history, where it has none of the orders that it may have.
    pub(crate) fn fault(&self) -> Option<String> {
        let fault = self.reads.iter().find_map(|read| self.is_stale(read).or_else(|| self.is_back(read)));
        fault.or_else(|| self.looks.iter().find_map(|look| self.is_stale(look)))
    }

    /// A read whose value was replaced before the read began.
    fn is_stale(&self, read: &Call) -> Option<String> {
        let of = self.writes.iter().find(|write| write.value == read.value);
        let written = of.map_or((read.value == 0).then_some(Nanos::ZERO), |write| Some(write.ended))?;
        let newer = self.writes.iter().find(|write| write.began > written && write.ended < read.began)?;
        Some(format!("{read:?} has a value that {newer:?} had replaced"))
    }

    /// A read of a value that an earlier read had seen replaced.
    fn is_back(&self, read: &Call) -> Option<String> {
        let before = |earlier: &&Call, later: &Call| earlier.ended < later.began;
        let other = self.reads.iter().filter(|other| other.value != read.value && before(other, read)).find(
            |other| {
                let mut first = self.reads.iter().filter(|first| first.value == read.value);
                first.any(|first| before(&first, other))
            },
        )?;
        Some(format!("{read:?} has a value that was replaced when {other:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value, and the moments at which its call began and ended.
    type Told = (u64, u64, u64);

    fn history(writes: &[Told], reads: &[Told]) -> Register {
        let mut history = Register::default();
        writes.iter().for_each(|&(value, began, ended)| history.wrote(value, Nanos(began), Nanos(ended)));
        reads.iter().for_each(|&(value, began, ended)| history.read(value, Nanos(began), Nanos(ended)));
        history
    }

    #[test]
    fn a_page_is_not_behind_a_write_that_was_answered_and_may_be_behind_a_read() {
        for (at, has_fault) in [(8, false), (10, true)] {
            let mut history = history(&[(1, 0, 5), (2, 6, 9)], &[(2, 6, 7)]);
            history.looked(1, Nanos(at));
            assert_eq!(history.fault().is_some(), has_fault, "{at}");
        }
    }

    #[test]
    fn a_history_without_an_order_has_a_fault() {
        let cases: [(&[Told], &[Told], bool); 6] = [
            (&[(1, 0, 5), (2, 6, 9)], &[(1, 1, 2), (2, 7, 8), (2, 10, 11)], false),
            (&[(1, 0, 20), (2, 6, 9)], &[(1, 10, 11), (2, 12, 13)], false),
            (&[(1, 0, 5), (2, 6, 9)], &[(1, 10, 11)], true),
            (&[(1, 1, 2)], &[(0, 3, 4)], true),
            (&[(1, 0, 20), (2, 3, 9)], &[(1, 1, 2), (2, 10, 11), (1, 12, 13)], true),
            (&[], &[(0, 1, 2)], false),
        ];
        for (writes, reads, has_fault) in cases {
            assert_eq!(history(writes, reads).fault().is_some(), has_fault, "{writes:?} {reads:?}");
        }
    }
}
