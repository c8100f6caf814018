//! The ranges of a file that hold bytes.

/// Disjoint ranges, ascending, none of which touches the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extents(Vec<(u64, u64)>);

impl Extents {
    /// The parts of `[begin, end)` that hold nothing yet.
    pub(crate) fn holes(&self, begin: u64, end: u64) -> Vec<(u64, u64)> {
        let mut holes = Vec::new();
        let mut at = begin;
        let first = self.0.partition_point(|&(_, until)| until <= begin);
        for &(from, until) in &self.0[first..] {
            if from >= end {
                break;
            }
            if from > at {
                holes.push((at, from));
            }
            at = until;
        }
        if at < end {
            holes.push((at, end));
        }
        holes
    }

    /// `[begin, end)` holds bytes from now on.
    pub(crate) fn fill(&mut self, begin: u64, end: u64) {
        if begin == end {
            return;
        }
        let first = self.0.partition_point(|&(_, until)| until < begin);
        let behind = first + self.0[first..].partition_point(|&(from, _)| from <= end);
        let merged = match self.0[first..behind] {
            [] => (begin, end),
            [(from, until)] => (from.min(begin), until.max(end)),
            [(from, _), .., (_, until)] => (from.min(begin), until.max(end)),
        };
        self.0.splice(first..behind, [merged]);
    }

    /// One past the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.0.last().map_or(0, |&(_, end)| end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn extents_are_the_set_of_their_bytes(ranges in proptest::collection::vec((0u64..60, 0u64..12), 0..20)) {
            let mut extents = Extents::default();
            let mut bytes = [false; 80];
            for (begin, length) in ranges {
                let end = begin + length;
                let holes: u64 = extents.holes(begin, end).iter().map(|(from, until)| until - from).sum();
                let free = (begin..end).filter(|&byte| !bytes[byte as usize]).count();
                prop_assert_eq!(holes, free as u64);
                extents.fill(begin, end);
                (begin..end).for_each(|byte| bytes[byte as usize] = true);
                let all: u64 = extents.0.iter().map(|(from, until)| until - from).sum();
                prop_assert_eq!(all, bytes.iter().filter(|&&held| held).count() as u64);
                prop_assert!(extents.0.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
            prop_assert_eq!(extents.end(), bytes.iter().rposition(|&held| held).map_or(0, |last| last as u64 + 1));
        }
    }
}
