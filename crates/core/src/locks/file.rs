//! The locks of one file within one class: the held ranges, and the waiting requests in their order.

use super::runs::{Mode, Runs};
use super::{LockRequest, Owner};
use std::collections::BTreeMap;
use weir_wire::{LockRange, LockType};

/// Process number that stands for an open description, which has none.
const NO_PROCESS: u32 = u32::MAX;

/// Memory of a file with locks beside its owners and ranges, at most: its places in four maps, which may be half empty, and
/// the least node of a tree of owners. `tests/kept_memory.rs` measures that each shape of locks takes no more.
const FILE_BYTES: usize = 1024 + 256;
/// Memory of an owner beside its ranges: its place in two trees, and the least node of a tree of ranges.
const OWNER_BYTES: usize = 512;
/// Memory of a range.
const RANGE_BYTES: usize = 64;

/// Held ranges and waiting requests of one class on one file.
#[derive(Debug, Default)]
pub(super) struct FileLocks {
    held: BTreeMap<Owner, Held>,
    /// By arrival: the order in which they are granted.
    pub(super) waiting: BTreeMap<u64, Waiting>,
    runs: usize,
    exclusive: usize,
}

/// A request in the queue.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) asked: LockRequest,
    pub(super) mode: Mode,
}

/// The result of [`FileLocks::set`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    /// Some byte is held less strongly than before.
    pub(super) weakened: bool,
    /// The owner held nothing before and holds something now.
    pub(super) appeared: bool,
    /// The owner holds nothing any more.
    pub(super) vanished: bool,
}

#[derive(Debug, Default)]
struct Held {
    pid: u32,
    runs: Runs,
}

impl FileLocks {
    /// Whether nothing is held and nobody waits.
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    /// Number of ranges held.
    pub(super) fn runs(&self) -> usize {
        self.runs
    }

    /// Memory that they take at most.
    pub(super) fn bytes(&self) -> usize {
        match self.held.len() {
            0 => 0,
            owners => FileLocks::bytes_of(owners, self.runs),
        }
    }

    /// Memory that the locks of so many owners on one file take at most.
    pub(super) fn bytes_of(owners: usize, ranges: usize) -> usize {
        FILE_BYTES + owners * OWNER_BYTES + ranges * RANGE_BYTES
    }

    /// Gives `owner` the `range` in `mode`, or takes it away.
    pub(super) fn set(&mut self, owner: Owner, pid: u32, range: LockRange, mode: Option<Mode>) -> Changed {
        if mode.is_none() && !self.held.contains_key(&owner) {
            return Changed::default();
        }
        let held = self.held.entry(owner).or_default();
        let (runs, exclusive) = (held.runs.len(), held.runs.exclusive());
        // An unlock may come without a number (the kernel's through FUSE does): the rest is still the process's.
        if mode.is_some() {
            held.pid = pid;
        }
        let weakened = held.runs.set(range, mode);
        self.runs = self.runs + held.runs.len() - runs;
        self.exclusive = self.exclusive + held.runs.exclusive() - exclusive;
        let vanished = held.runs.len() == 0;
        if vanished {
            self.held.remove(&owner);
        }
        Changed { weakened, appeared: runs == 0 && !vanished, vanished: vanished && runs > 0 }
    }

    /// Whether another owner keeps `owner` from holding `range` in `mode`.
    pub(super) fn is_blocked(&self, owner: Owner, range: LockRange, mode: Mode) -> bool {
        self.blockers(owner, range, mode).next().is_some()
    }

    /// The owners that keep `owner` from holding `range` in `mode`.
    pub(super) fn blockers(
        &self,
        owner: Owner,
        range: LockRange,
        mode: Mode,
    ) -> impl Iterator<Item = Owner> + '_ {
        // Many readers of one file are the common crowd, and none of them is in another's way.
        let possible = mode == Mode::Exclusive || self.exclusive > 0;
        let held = if possible { Some(self.held.iter()) } else { None };
        held.into_iter()
            .flatten()
            .filter(move |(other, held)| **other != owner && held.runs.excludes(range, mode))
            .map(|(other, _)| *other)
    }

    /// The conflicting range that begins first, as `F_GETLK` reports it.
    pub(super) fn conflict(
        &self,
        owner: Owner,
        range: LockRange,
        mode: Mode,
    ) -> Option<(LockType, LockRange, u32)> {
        self.held
            .iter()
            .filter(|(other, _)| **other != owner)
            .filter_map(|(other, held)| Some((other, held, held.runs.conflict(range, mode)?)))
            .min_by_key(|(_, _, (conflict, _))| conflict.first)
            .map(|(other, held, conflict)| reported(*other, held, conflict))
    }

    /// The first lock of `owner` itself on `range`.
    pub(super) fn own(&self, owner: Owner, range: LockRange) -> Option<(LockType, LockRange, u32)> {
        let held = self.held.get(&owner)?;
        Some(reported(owner, held, held.runs.first(range)?))
    }

    /// The mode in which `owner` holds the whole file (flock).
    pub(super) fn mode_of(&self, owner: Owner) -> Option<Mode> {
        let runs = &self.held.get(&owner)?.runs;
        Some(if runs.exclusive() > 0 { Mode::Exclusive } else { Mode::Shared })
    }

    /// Whether `owner` holds all of `range` at least as strongly as `mode`.
    pub(super) fn holds(&self, owner: Owner, range: LockRange, mode: Mode) -> bool {
        self.held.get(&owner).is_some_and(|held| held.runs.covers(range, mode))
    }

    /// Whether releasing `range` makes two ranges of one.
    pub(super) fn is_split_by(&self, owner: Owner, range: LockRange) -> bool {
        self.held.get(&owner).is_some_and(|held| held.runs.is_split_by(range))
    }

    /// The owners of one client's processes that hold something.
    pub(super) fn owners_between(&self, first: Owner, last: Owner) -> Vec<Owner> {
        self.held.range(first..=last).map(|(owner, _)| *owner).collect()
    }
}

/// A lock as `F_GETLK` reports it.
fn reported(owner: Owner, held: &Held, (range, mode): (LockRange, Mode)) -> (LockType, LockRange, u32) {
    let pid = if owner.is_process() { held.pid } else { NO_PROCESS };
    (mode.lock_type(), range, pid)
}
