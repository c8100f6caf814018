//! A line cut into segments, one for each slot, and whose segment a point lies in: a Fenwick tree, so that
//! both a change and a look-up take logarithmic time.

/// Segments of whole lengths, end to end in the order of their slots.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    lengths: Vec<u64>,
    /// At `index`, the lengths of the slots `index + 1 - span ..= index`, the span being the lowest bit of
    /// `index + 1`.
    sums: Vec<u64>,
}

impl Segments {
    /// The length of the whole line.
    pub(crate) fn total(&self) -> u64 {
        let mut total = 0;
        let mut end = self.sums.len();
        while end > 0 {
            total += self.sums[end - 1];
            end &= end - 1;
        }
        total
    }

    /// Sets the length of a slot's segment; all lengths together must stay below 2^64.
    pub(crate) fn set(&mut self, slot: usize, length: u64) {
        if slot >= self.lengths.len() {
            if length == 0 {
                return;
            }
            self.grow(slot + 1);
        }
        let before = std::mem::replace(&mut self.lengths[slot], length);
        let mut index = slot;
        while index < self.sums.len() {
            self.sums[index] = self.sums[index] + length - before;
            index |= index + 1;
        }
    }

    /// The slot whose segment contains `point`, which must be less than the total.
    pub(crate) fn at(&self, point: u64) -> usize {
        let mut rest = point;
        let mut slot = 0;
        let mut span = self.sums.len();
        while span > 0 {
            if let Some(&sum) = self.sums.get(slot + span - 1).filter(|&&sum| sum <= rest) {
                rest -= sum;
                slot += span;
            }
            span /= 2;
        }
        slot
    }

    /// Makes room for slots, by powers of two so that a search can halve its span.
    fn grow(&mut self, slots: usize) {
        let lengths = std::mem::take(&mut self.lengths);
        let room = slots.next_power_of_two();
        self.lengths = vec![0; room];
        self.sums = vec![0; room];
        for (slot, length) in lengths.into_iter().enumerate() {
            self.set(slot, length);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_point_lies_in_the_segment_a_walk_finds(
            changes in prop::collection::vec((0..20_usize, 0..9_u64), 1..60),
        ) {
            let mut segments = Segments::default();
            let mut lengths = [0; 20];
            for (slot, length) in changes {
                segments.set(slot, length);
                lengths[slot] = length;
                let walk: Vec<usize> = lengths
                    .iter()
                    .enumerate()
                    .flat_map(|(slot, &length)| std::iter::repeat_n(slot, length as usize))
                    .collect();
                prop_assert_eq!(segments.total(), walk.len() as u64);
                let found: Vec<usize> = (0..segments.total()).map(|point| segments.at(point)).collect();
                prop_assert_eq!(found, walk);
            }
        }
    }
}
