//! Reservations and limits of groups, users and jobs, whatever the levels of the policy.
//!
//! Each holder has two moments, as in mClock (Gulati, Merchant and Varman, OSDI 2010, section 3.1). Its past service
//! covers its reservation up to the first moment. From the second moment on the holder is within its limit again.
//! Service of `cost` moves the first on by cost / reservation and the second by cost / limit. A holder that is behind
//! its reservation is served before the share tree is asked, and only that service is left out of the tree. A holder
//! beyond its limit is not served. So a holder gets the greater of its share and its reservation, at most its limit,
//! and all others divide the rest.
//!
//! A share tree over a holder's own jobs alone gives the order in which they use its reservation.

use std::collections::{BTreeSet, HashMap};

use super::turns::{Turn, Turns};
use crate::entitlement::{Entitlement, Holder};
use crate::job::{GroupId, JobId, UserId};
use crate::time::Nanos;

/// Most time by which a holder may count as behind its reservation. After a clock that jumps ahead, or where
/// reservations exceed the device together, a holder has no more than this to catch up.
const LAG_MAX: Nanos = Nanos::from_millis(1_000);
/// Most time of its limit that a holder may make up for after it could not use the limit: several requests of others
/// that were served first, yet no more than a twentieth of a second at once.
const LIMIT_LAG_MAX: Nanos = Nanos::from_millis(50);

/// The holder of an account: a job's entitlement stands for each job of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Account {
    Group(GroupId),
    User(UserId),
    Job(JobId),
}

/// One holder's account.
#[derive(Debug)]
struct Bound {
    account: Account,
    reservation: Option<f64>,
    limit: Option<f64>,
    reserved_until: Nanos,
    limited_until: Nanos,
    is_limited: bool,
    /// Slots of its jobs.
    members: BTreeSet<usize>,
    /// The order in which its jobs use the reservation.
    turns: Turns,
}

/// Every holder of a device that has jobs there.
#[derive(Debug)]
pub(crate) struct Bounds {
    bounds: Vec<Bound>,
    by_account: HashMap<Account, usize>,
    /// The bounds of each job, by slot.
    of_slot: HashMap<usize, Vec<usize>>,
    /// Limited holders, by the moment of their release.
    limited: BTreeSet<(Nanos, usize)>,
    credit_max: Nanos,
}

impl Bounds {
    pub(crate) fn new(credit_max: Nanos) -> Bounds {
        Bounds {
            bounds: Vec::new(),
            by_account: HashMap::new(),
            of_slot: HashMap::new(),
            limited: BTreeSet::new(),
            credit_max,
        }
    }

    /// Whether nobody here is bound, so that nothing else needs to be asked.
    pub(crate) fn is_empty(&self) -> bool {
        self.of_slot.is_empty()
    }

    /// Enters a job under its holders. It must not be entered already.
    pub(crate) fn enter(
        &mut self,
        slot: usize,
        job: JobId,
        granted: impl Iterator<Item = (Holder, Entitlement)>,
    ) {
        for (holder, entitlement) in granted {
            let account = match holder {
                Holder::Group(group) => Account::Group(group),
                Holder::User(user) => Account::User(user),
                Holder::Job(_) | Holder::Single(_) => Account::Job(job),
            };
            let index = *self.by_account.entry(account).or_insert_with(|| {
                self.bounds.push(Bound::new(account, entitlement, self.credit_max));
                self.bounds.len() - 1
            });
            self.bounds[index].members.insert(slot);
            self.of_slot.entry(slot).or_default().push(index);
        }
    }

    /// Takes a job out from under its holders. It must have no place in any [`Turns`].
    pub(crate) fn leave(&mut self, slot: usize) {
        for index in self.of_slot.remove(&slot).unwrap_or_default() {
            let bound = &mut self.bounds[index];
            bound.members.remove(&slot);
            if bound.members.is_empty() && matches!(bound.account, Account::Job(_)) {
                self.forget(index);
            }
        }
    }

    /// The orders in which the job's holders use their reservations.
    pub(crate) fn turns_of(&mut self, slot: usize) -> impl Iterator<Item = &mut Turns> {
        let indices = self.of_slot.get(&slot).map(Vec::as_slice).unwrap_or_default();
        // A job has at most three bounds, and a site some dozens.
        let own = self.bounds.iter_mut().enumerate().filter(|(index, _)| indices.contains(index));
        own.filter(|(_, bound)| bound.reservation.is_some()).map(|(_, bound)| &mut bound.turns)
    }

    /// Whether one of the job's holders is beyond its limit.
    pub(crate) fn is_limited(&self, slot: usize) -> bool {
        let indices = self.of_slot.get(&slot).map(Vec::as_slice).unwrap_or_default();
        indices.iter().any(|&index| self.bounds[index].is_limited)
    }

    /// A job's first request came: its holders may not catch up on the time when they asked for nothing.
    pub(crate) fn wake(&mut self, slot: usize, now: Nanos) {
        for index in self.of_slot.get(&slot).cloned().unwrap_or_default() {
            let bound = &mut self.bounds[index];
            if bound.turns.first().is_none() {
                bound.reserved_until = bound.reserved_until.max(now.saturating_since(self.credit_max));
            }
        }
    }

    /// The job to serve because its holder is behind its reservation, and that holder; of several
    /// holders the one that is furthest behind.
    pub(crate) fn first_behind(&self, now: Nanos) -> Option<(usize, Turn)> {
        let behind = |(index, bound): (usize, &Bound)| {
            (bound.reservation.is_some() && bound.reserved_until <= now)
                .then(|| bound.turns.first().map(|turn| (bound.reserved_until, index, turn)))
                .flatten()
        };
        let behind = self.bounds.iter().enumerate().filter_map(behind);
        let first = behind.min_by_key(|&(until, index, _)| (until, index));
        first.map(|(_, index, turn)| (index, turn))
    }

    /// Charges the order within `holder`, which served the job.
    pub(crate) fn serve(&mut self, holder: usize, turn: Turn, charge: i64, next: Option<Nanos>) {
        self.bounds[holder].turns.serve(turn, charge, next);
    }

    /// Counts a charge of the job, in nanoseconds, against its holders' reservations and limits. Returns
    /// the jobs that are beyond a limit by it and were not before.
    pub(crate) fn charge(&mut self, slot: usize, charge: i64, now: Nanos) -> Vec<usize> {
        let mut beyond = Vec::new();
        for index in self.of_slot.get(&slot).cloned().unwrap_or_default() {
            let bound = &mut self.bounds[index];
            if let Some(reservation) = bound.reservation {
                let from = bound.reserved_until.max(now.saturating_since(LAG_MAX));
                bound.reserved_until = moved(from, charge, reservation);
            }
            if let Some(limit) = bound.limit {
                let from = bound.limited_until.max(now.saturating_since(LIMIT_LAG_MAX));
                self.limited.remove(&(bound.limited_until, index));
                bound.limited_until = moved(from, charge, limit);
                if bound.limited_until > now {
                    self.limited.insert((bound.limited_until, index));
                    if !std::mem::replace(&mut bound.is_limited, true) {
                        beyond.extend(&bound.members);
                    }
                }
            }
        }
        beyond
    }

    /// Jobs of holders that are within their limits again at `now`.
    pub(crate) fn release(&mut self, now: Nanos) -> Vec<usize> {
        let mut released = Vec::new();
        while let Some(&(until, index)) = self.limited.first().filter(|(until, _)| *until <= now) {
            self.limited.remove(&(until, index));
            self.bounds[index].is_limited = false;
            released.extend(&self.bounds[index].members);
        }
        released
    }

    /// The first moment at which a holder is within its limit again.
    pub(crate) fn next_release(&self) -> Option<Nanos> {
        self.limited.first().map(|&(until, _)| until)
    }

    /// Forgets a holder without jobs; the last one takes its number.
    fn forget(&mut self, index: usize) {
        let gone = self.bounds.swap_remove(index);
        self.by_account.remove(&gone.account);
        self.limited.remove(&(gone.limited_until, index));
        let moved_from = self.bounds.len();
        if let Some(moved) = self.bounds.get(index) {
            self.by_account.insert(moved.account, index);
            if self.limited.remove(&(moved.limited_until, moved_from)) {
                self.limited.insert((moved.limited_until, index));
            }
            for slot in &moved.members {
                let indices = self.of_slot.get_mut(slot).into_iter().flatten();
                indices.filter(|number| **number == moved_from).for_each(|number| *number = index);
            }
        }
    }
}

impl Bound {
    fn new(account: Account, entitlement: Entitlement, credit_max: Nanos) -> Bound {
        Bound {
            account,
            reservation: entitlement.reservation,
            limit: entitlement.limit,
            reserved_until: Nanos::ZERO,
            limited_until: Nanos::ZERO,
            is_limited: false,
            members: BTreeSet::new(),
            turns: Turns::new(credit_max),
        }
    }
}

/// The moment `charge / fraction` after `from`.
fn moved(from: Nanos, charge: i64, fraction: f64) -> Nanos {
    Nanos(from.0.saturating_add_signed((charge as f64 / fraction).round() as i64))
}
