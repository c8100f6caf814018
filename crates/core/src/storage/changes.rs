//! The changes of objects while they are copied elsewhere, by the rounds in which the mover asks for them.
//!
//! A write is noted when it ends, so a write that was under way when noting began is noted as well.

use std::collections::{BTreeMap, HashMap, VecDeque};
use weir_wire::{limits, Ino, ROUND_LAST};

/// The most objects noted at once on one target. One more drops the oldest: its mover begins anew.
const OBJECTS_MAX: usize = 1024;
/// The first grain of ranges, which begin and end at multiples of it: a page, as the memory of a target changes by pages.
const GRAIN_BYTES: u64 = 4096;

/// The objects of one target for which changes are noted.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    objects: HashMap<Ino, Noted>,
    oldest: VecDeque<Ino>,
}

/// The changes of one object.
#[derive(Debug)]
struct Noted {
    tracking: u64,
    /// The last round that the mover asked for, and the answer to it.
    round: u32,
    answered: Vec<(u64, u64)>,
    since: Ranges,
}

/// Ranges that do not touch each other, few enough for one reply.
#[derive(Debug)]
struct Ranges {
    grain_bytes: u64,
    /// Ends by beginnings.
    ranges: BTreeMap<u64, u64>,
}

impl Changes {
    /// The number of noted objects.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Answers a round; round 0 begins, [`ROUND_LAST`] ends. `None` if `tracking` is not known, or if the round is neither the
    /// last one nor the next.
    pub(crate) fn ask(&mut self, ino: Ino, tracking: u64, round: u32) -> Option<Vec<(u64, u64)>> {
        if round == 0 {
            self.begin(ino, tracking);
        }
        let noted = self.objects.get_mut(&ino).filter(|noted| noted.tracking == tracking);
        if round == ROUND_LAST {
            if noted.is_some() {
                self.forget(ino);
            }
            return Some(Vec::new());
        }
        let noted = noted?;
        if round == noted.round.wrapping_add(1) {
            noted.round = round;
            noted.answered = std::mem::take(&mut noted.since.ranges).into_iter().collect();
            noted.since.grain_bytes = GRAIN_BYTES;
        }
        (noted.round == round).then(|| noted.answered.clone())
    }

    /// Notes that the bytes `[offset, end)` of the object may have changed.
    pub(crate) fn note(&mut self, ino: Ino, offset: u64, end: u64) {
        if let Some(noted) = self.objects.get_mut(&ino) {
            noted.since.add(offset, end);
        }
    }

    /// Ends the notes about the object.
    pub(crate) fn forget(&mut self, ino: Ino) {
        if self.objects.remove(&ino).is_some() {
            self.oldest.retain(|&other| other != ino);
        }
    }

    fn begin(&mut self, ino: Ino, tracking: u64) {
        if self.objects.get(&ino).is_some_and(|noted| noted.tracking == tracking) {
            return;
        }
        self.forget(ino);
        if self.objects.len() >= OBJECTS_MAX {
            if let Some(oldest) = self.oldest.pop_front() {
                self.objects.remove(&oldest);
            }
        }
        let since = Ranges { grain_bytes: GRAIN_BYTES, ranges: BTreeMap::new() };
        self.objects.insert(ino, Noted { tracking, round: 0, answered: Vec::new(), since });
        self.oldest.push_back(ino);
    }
}

impl Ranges {
    fn add(&mut self, offset: u64, end: u64) {
        if offset >= end {
            return;
        }
        self.join(offset, end);
        while self.ranges.len() > limits::CHANGES {
            self.grain_bytes *= 2;
            for (begin, end) in std::mem::take(&mut self.ranges) {
                self.join(begin, end);
            }
        }
    }

    fn join(&mut self, offset: u64, end: u64) {
        let grain_bytes = self.grain_bytes;
        let mut begin = offset - offset % grain_bytes;
        let mut end = end.checked_next_multiple_of(grain_bytes).unwrap_or(u64::MAX);
        while let Some((&other, &other_end)) = self.ranges.range(..=end).next_back() {
            if other_end < begin {
                break;
            }
            self.ranges.remove(&other);
            (begin, end) = (begin.min(other), end.max(other_end));
        }
        self.ranges.insert(begin, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: Ino = Ino(7);

    proptest! {
        /// Compared with a set of pages, the ranges leave no change out, are apart, and are exact while they are few.
        #[test]
        fn every_change_is_told_once(
            rounds in proptest::collection::vec(
                proptest::collection::vec((0u64..4_000_000, 1u64..20_000), 0..40), 1..6),
        ) {
            let mut changes = Changes::default();
            prop_assert_eq!(changes.ask(FILE, 1, 0), Some(vec![]));
            for (round, writes) in (1..).zip(rounds) {
                let mut model = std::collections::BTreeSet::new();
                for (offset, length) in writes {
                    changes.note(FILE, offset, offset + length);
                    model.extend(offset / GRAIN_BYTES..(offset + length).div_ceil(GRAIN_BYTES));
                }
                let told = changes.ask(FILE, 1, round).unwrap();
                prop_assert_eq!(changes.ask(FILE, 1, round), Some(told.clone()), "a resend gets the same answer");
                prop_assert!(told.windows(2).all(|pair| pair[0].1 < pair[1].0));
                let pages: std::collections::BTreeSet<u64> =
                    told.iter().flat_map(|&(begin, end)| begin / GRAIN_BYTES..end / GRAIN_BYTES).collect();
                prop_assert_eq!(pages, model);
            }
        }

        #[test]
        fn many_changes_are_told_coarsely_and_all(writes in proptest::collection::vec(0u64..1 << 34, 600..900)) {
            let mut changes = Changes::default();
            changes.ask(FILE, 1, 0);
            for &offset in &writes {
                changes.note(FILE, offset, offset + 1);
            }
            let told = changes.ask(FILE, 1, 1).unwrap();
            prop_assert!(told.len() <= limits::CHANGES);
            for offset in writes {
                prop_assert!(told.iter().any(|&(begin, end)| begin <= offset && offset < end));
            }
        }
    }

    #[test]
    fn a_mover_that_lost_its_place_learns_it() {
        let mut changes = Changes::default();
        changes.ask(FILE, 1, 0);
        changes.note(FILE, u64::MAX - 1, u64::MAX);
        assert_eq!(changes.ask(FILE, 1, 2), None, "a round was left out");
        assert_eq!(changes.ask(FILE, 2, 1), None);
        changes.ask(FILE, 2, 0);
        assert_eq!(changes.ask(FILE, 1, 1), None, "another one began");
        for other in 0..OBJECTS_MAX as u64 {
            changes.ask(Ino(100 + other), 1, 0);
        }
        assert_eq!(changes.len(), OBJECTS_MAX);
        assert_eq!(changes.ask(FILE, 2, 1), None, "the oldest made room");
        assert_eq!(changes.ask(Ino(100), 1, ROUND_LAST), Some(vec![]));
        assert_eq!(changes.ask(Ino(100), 1, 1), None);
        assert_eq!((changes.len(), changes.oldest.len()), (OBJECTS_MAX - 1, OBJECTS_MAX - 1));
    }
}
