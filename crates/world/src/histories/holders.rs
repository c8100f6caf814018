//! The holders of locks: no two have locks that conflict, unless the store had cause to take one away.

use crate::client::Shared;
use std::collections::BTreeMap;
use weir_session::HeldLock;
use weir_wire::{LockKind, LockType};

/// A lock in the hands of a task, from the answer that granted it to the request that gives it back.
struct Holder {
    client: Shared,
    lock: HeldLock,
    /// The memory that the home has of its client, and the starts of the home, as the lock was granted.
    since: (u64, u64),
}

/// All locks that are held.
#[derive(Default)]
pub(crate) struct Holders {
    by_worker: BTreeMap<usize, Holder>,
    starts: BTreeMap<usize, u64>,
}

fn conflicts(one: &HeldLock, other: &HeldLock) -> bool {
    let is_flock = |lock: &HeldLock| lock.kind == LockKind::Flock;
    let is_disjoint = one.range.last < other.range.first || other.range.last < one.range.first;
    let is_written = [one.lock, other.lock].contains(&LockType::Write);
    one.ino == other.ino && is_flock(one) == is_flock(other) && !is_disjoint && is_written
}

impl Holders {
    /// A server starts.
    pub(crate) fn starts(&mut self, server: usize) {
        *self.starts.entry(server).or_default() += 1;
    }

    /// The number of starts of a server so far.
    pub(crate) fn starts_of(&self, server: usize) -> u64 {
        self.starts.get(&server).copied().unwrap_or(0)
    }

    fn moment(&self, client: &Shared, lock: &HeldLock) -> (u64, u64) {
        let home = usize::from(lock.ino.home().0);
        (client.borrow_mut().memory(home), self.starts_of(home))
    }

    /// A lock was granted to a task.
    ///
    /// # Errors
    /// Another one has a lock that conflicts, and its client was there all the time.
    pub(crate) fn granted(&mut self, worker: usize, client: &Shared, lock: HeldLock) -> Result<(), String> {
        let is_sure = |holder: &Holder| self.moment(&holder.client, &holder.lock) == holder.since;
        let mut others = self.by_worker.iter().filter(|(other, _)| **other != worker);
        if let Some((other, holder)) =
            others.find(|(_, holder)| conflicts(&holder.lock, &lock) && is_sure(holder))
        {
            return Err(format!(
                "{lock:?} was granted to task {worker} while task {other} has {:?}",
                holder.lock
            ));
        }
        let since = self.moment(client, &lock);
        self.by_worker.insert(worker, Holder { client: client.clone(), lock, since });
        Ok(())
    }

    /// A task gives its lock back.
    pub(crate) fn released(&mut self, worker: usize) {
        self.by_worker.remove(&worker);
    }
}
