//! The byte ranges that one owner holds on one file, merged and split as Linux does (`posix_lock_inode`).
//!
//! Runs are disjoint, and neighbours of one mode are one run: the locks on each byte fix the runs.

use std::collections::BTreeMap;
use weir_wire::{LockRange, LockType};

/// The mode in which a range is held or wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    Shared,
    Exclusive,
}

/// Disjoint ranges of one owner.
#[derive(Debug, Default)]
pub(super) struct Runs {
    by_first: BTreeMap<u64, Run>,
    exclusive: usize,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    last: u64,
    mode: Mode,
}

/// Every byte of any file.
pub(super) const WHOLE: LockRange = LockRange { first: 0, last: u64::MAX };

pub(super) fn overlap(left: LockRange, right: LockRange) -> bool {
    left.first <= right.last && right.first <= left.last
}

impl Mode {
    /// The mode that `lock` asks for; none for a release.
    pub(super) fn of(lock: LockType) -> Option<Mode> {
        match lock {
            LockType::Read => Some(Mode::Shared),
            LockType::Write => Some(Mode::Exclusive),
            LockType::Unlock => None,
        }
    }

    /// As a lock call names it.
    pub(super) fn lock_type(self) -> LockType {
        match self {
            Mode::Shared => LockType::Read,
            Mode::Exclusive => LockType::Write,
        }
    }

    fn excludes(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }
}

impl Runs {
    /// Number of runs.
    pub(super) fn len(&self) -> usize {
        self.by_first.len()
    }

    /// Number of exclusive runs.
    pub(super) fn exclusive(&self) -> usize {
        self.exclusive
    }

    /// Holds `range` in `mode` (none: not at all) in place of every earlier lock there; tells whether any byte is held less
    /// strongly than before, so that others may now get it.
    pub(super) fn set(&mut self, range: LockRange, mode: Option<Mode>) -> bool {
        let touched: Vec<(LockRange, Mode)> = self.overlapping(range).collect();
        if let [(held, held_mode)] = touched[..] {
            if mode == Some(held_mode) && held.first <= range.first && range.last <= held.last {
                return false;
            }
        }
        let mut weakened = false;
        for (held, held_mode) in touched {
            weakened |= mode.is_none_or(|mode| mode < held_mode);
            self.remove(held.first);
            if held.first < range.first {
                self.insert(LockRange { first: held.first, last: range.first - 1 }, held_mode);
            }
            if held.last > range.last {
                self.insert(LockRange { first: range.last + 1, last: held.last }, held_mode);
            }
        }
        if let Some(mode) = mode {
            let merged = self.absorb_neighbours(range, mode);
            self.insert(merged, mode);
        }
        weakened
    }

    /// The first run that keeps another owner from holding `range` in `mode`.
    pub(super) fn conflict(&self, range: LockRange, mode: Mode) -> Option<(LockRange, Mode)> {
        self.overlapping(range).filter(|(_, held)| held.excludes(mode)).last()
    }

    /// The first run that has a byte of `range`.
    pub(super) fn first(&self, range: LockRange) -> Option<(LockRange, Mode)> {
        self.overlapping(range).last()
    }

    /// Whether some run keeps another owner from holding `range` in `mode`.
    pub(super) fn excludes(&self, range: LockRange, mode: Mode) -> bool {
        if mode == Mode::Shared && self.exclusive == 0 {
            return false;
        }
        self.overlapping(range).any(|(_, held)| held.excludes(mode))
    }

    /// Whether every byte of `range` is held at least as strongly as `mode`.
    pub(super) fn covers(&self, range: LockRange, mode: Mode) -> bool {
        let mut needed = Some(range.last);
        for (held, held_mode) in self.overlapping(range) {
            match needed {
                Some(last) if held.last >= last && held_mode >= mode => {
                    needed = if held.first <= range.first { None } else { Some(held.first - 1) };
                }
                _ => return false,
            }
        }
        needed.is_none()
    }

    /// Whether releasing `range` leaves one run in two pieces.
    pub(super) fn is_split_by(&self, range: LockRange) -> bool {
        self.overlapping(range).any(|(held, _)| held.first < range.first && range.last < held.last)
    }

    /// Runs that share a byte with `range`, the last one first.
    fn overlapping(&self, range: LockRange) -> impl Iterator<Item = (LockRange, Mode)> + '_ {
        self.by_first
            .range(..=range.last)
            .rev()
            .take_while(move |(_, run)| run.last >= range.first)
            .map(|(first, run)| (LockRange { first: *first, last: run.last }, run.mode))
    }

    /// Takes out the runs of `mode` that touch `range` at its ends and returns the range grown by them.
    fn absorb_neighbours(&mut self, mut range: LockRange, mode: Mode) -> LockRange {
        let before = self.by_first.range(..range.first).next_back().map(|(first, run)| (*first, *run));
        if let Some((first, run)) = before {
            if run.mode == mode && run.last + 1 == range.first {
                self.remove(first);
                range.first = first;
            }
        }
        let after = range.last.checked_add(1).and_then(|next| Some((next, *self.by_first.get(&next)?)));
        if let Some((first, run)) = after {
            if run.mode == mode {
                self.remove(first);
                range.last = run.last;
            }
        }
        range
    }

    fn insert(&mut self, range: LockRange, mode: Mode) {
        self.exclusive += usize::from(mode == Mode::Exclusive);
        self.by_first.insert(range.first, Run { last: range.last, mode });
    }

    fn remove(&mut self, first: u64) {
        if let Some(run) = self.by_first.remove(&first) {
            self.exclusive -= usize::from(run.mode == Mode::Exclusive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of the naive model; the last one stands for the end of any file.
    const BYTES: usize = 12;

    fn scaled(byte: usize) -> u64 {
        if byte == BYTES - 1 {
            u64::MAX
        } else {
            byte as u64
        }
    }

    fn any_mode() -> impl Strategy<Value = Option<Mode>> {
        prop_oneof![Just(None), Just(Some(Mode::Shared)), Just(Some(Mode::Exclusive))]
    }

    /// The locks on each byte, as maximal runs.
    fn runs_of(bytes: &[Option<Mode>]) -> Vec<(u64, u64, Mode)> {
        let mut runs: Vec<(usize, usize, Mode)> = Vec::new();
        for (byte, mode) in bytes.iter().enumerate() {
            match (mode, runs.last_mut()) {
                (Some(mode), Some(run)) if run.1 + 1 == byte && run.2 == *mode => run.1 = byte,
                (Some(mode), _) => runs.push((byte, byte, *mode)),
                (None, _) => {}
            }
        }
        runs.into_iter().map(|(first, last, mode)| (scaled_first(first), scaled(last), mode)).collect()
    }

    /// The last model byte stands for everything from its number on.
    fn scaled_first(byte: usize) -> u64 {
        byte as u64
    }

    proptest! {
        #[test]
        fn runs_are_what_each_byte_says(steps in proptest::collection::vec((0..BYTES, 0..BYTES, any_mode()), 1..40)) {
            let (mut runs, mut bytes) = (Runs::default(), [None::<Mode>; BYTES]);
            for (one, other, mode) in steps {
                let (first, last) = (one.min(other), one.max(other));
                let range = LockRange { first: scaled_first(first), last: scaled(last) };
                for asked in [Mode::Shared, Mode::Exclusive] {
                    let covered = bytes[first..=last].iter().all(|held| held.is_some_and(|held| held >= asked));
                    prop_assert_eq!(runs.covers(range, asked), covered);
                    let excluded = bytes[first..=last].iter().flatten().any(|held| held.excludes(asked));
                    prop_assert_eq!(runs.excludes(range, asked), excluded);
                    prop_assert_eq!(runs.conflict(range, asked).is_some(), excluded);
                }
                let splits = runs.is_split_by(range);
                let count = runs.len();
                let weakened = bytes[first..=last].iter().any(|held| *held > mode);
                prop_assert_eq!(runs.set(range, mode), weakened);
                bytes[first..=last].fill(mode);
                let held: Vec<_> = runs.by_first.iter().map(|(first, run)| (*first, run.last, run.mode)).collect();
                prop_assert_eq!(&held, &runs_of(&bytes));
                prop_assert_eq!(runs.exclusive(), held.iter().filter(|run| run.2 == Mode::Exclusive).count());
                if mode.is_none() {
                    prop_assert_eq!(runs.len() > count, splits);
                }
            }
        }
    }
}
