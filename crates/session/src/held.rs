//! Open descriptions and locks that this client holds at a server, and claims again after a restart.

use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use weir_wire::{Capability, Fence, HandleId, Ino, LockKind, LockOwner, LockRange, LockType, Request};

/// Locks remembered at one server. A restart loses the locks beyond this number, as if another client had taken them.
const LOCKS_MAX: usize = 65_536;
/// Open descriptions and locks of this client at one server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Held {
    /// Open descriptions.
    pub handles: HashMap<HandleId, Capability>,
    /// Locks. Ranges of one owner and file do not overlap.
    pub locks: Vec<HeldLock>,
    /// Descriptions through which locks were taken that are lost.
    lost: HashSet<HandleId>,
    /// Releases that the server may not have heard of, in their order. They come before all further requests.
    owed: Vec<Request>,
}

/// A lock that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLock {
    /// The inode.
    pub ino: Ino,
    /// The description through which the lock was taken.
    pub handle: HandleId,
    /// The owner of a POSIX lock within the client.
    pub owner: LockOwner,
    /// The process that is reported to others.
    pub pid: u32,
    /// The kind of lock.
    pub kind: LockKind,
    /// The lock.
    pub lock: LockType,
    /// The range, which includes its last byte.
    pub range: LockRange,
}

/// The request of a lock call.
pub fn lock_request(lock: &HeldLock, wait: bool, reclaim: Option<Fence>) -> Request {
    Request::Lock {
        ino: lock.ino,
        handle: lock.handle,
        owner: lock.owner,
        pid: lock.pid,
        kind: lock.kind,
        lock: lock.lock,
        range: lock.range,
        wait,
        reclaim,
    }
}

impl HeldLock {
    fn same_owner(&self, other: &HeldLock) -> bool {
        self.ino == other.ino
            && self.kind == other.kind
            && match self.kind {
                LockKind::Posix => self.owner == other.owner,
                LockKind::Description | LockKind::Flock => self.handle == other.handle,
            }
    }
}

impl Held {
    /// Whether the server keeps nothing for this client, and is owed nothing.
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty() && self.locks.is_empty() && self.owed.is_empty()
    }

    /// Whether releases are owed.
    pub fn owes_any(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Records that the server gave a lock up. One that this client gave back meanwhile, after another connection had claimed it, is
    /// not lost.
    pub fn lose(&mut self, lock: &HeldLock) {
        let before = self.locks.len();
        self.locks.retain(|known| known != lock);
        if self.locks.len() == before {
            return;
        }
        self.lost.insert(lock.handle);
    }

    /// Whether a lock of any description is lost.
    pub fn has_lost_any(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Whether a lock that was taken through this description is lost.
    pub fn has_lost(&self, handle: HandleId) -> bool {
        self.lost.contains(&handle)
    }

    /// Records a granted lock call: `granted` replaces the owner's locks in its range. The caller knows again what it holds.
    pub fn apply(&mut self, granted: HeldLock) {
        self.lost.remove(&granted.handle);
        let mut kept = Vec::new();
        self.locks.retain(|lock| {
            let disjoint = lock.range.last < granted.range.first || granted.range.last < lock.range.first;
            if disjoint || !lock.same_owner(&granted) {
                return true;
            }
            if lock.range.first < granted.range.first {
                let range = LockRange { first: lock.range.first, last: granted.range.first - 1 };
                kept.push(HeldLock { range, ..*lock });
            }
            if lock.range.last > granted.range.last {
                let range = LockRange { first: granted.range.last + 1, last: lock.range.last };
                kept.push(HeldLock { range, ..*lock });
            }
            false
        });
        if granted.lock != LockType::Unlock {
            kept.push(granted);
        }
        let room = LOCKS_MAX.saturating_sub(self.locks.len());
        self.locks.extend(kept.into_iter().take(room));
    }

    /// Notes a release that the server may not have heard of. Others would wait for the lock until the end of this client's
    /// session, which for a mount does not come.
    pub fn owe(&mut self, release: Request) {
        if self.owed.len() < LOCKS_MAX {
            self.owed.push(release);
        }
    }

    /// Notes that the server may have granted a lock although its client was told of an error: the state before is owed.
    pub fn owe_state_before(&mut self, asked: &HeldLock) {
        let overlaps = |lock: &&HeldLock| {
            lock.same_owner(asked)
                && lock.range.first <= asked.range.last
                && asked.range.first <= lock.range.last
        };
        let before: Vec<HeldLock> = self.locks.iter().filter(overlaps).copied().collect();
        if before.is_empty() {
            self.owe(lock_request(&HeldLock { lock: LockType::Unlock, ..*asked }, false, None));
        }
        before.iter().for_each(|lock| self.owe(lock_request(lock, false, None)));
    }

    /// Takes the releases that are owed.
    pub fn take_owed(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.owed)
    }

    /// Puts releases back that could not be told, before those that came since.
    pub fn put_back_owed(&mut self, mut owed: Vec<Request>) {
        owed.append(&mut self.owed);
        self.owed = owed;
    }

    /// Forgets the POSIX locks of `owner` on `ino`.
    pub fn release_posix(&mut self, ino: Ino, owner: LockOwner) {
        self.locks.retain(|lock| !(lock.ino == ino && lock.kind == LockKind::Posix && lock.owner == owner));
    }

    /// Forgets a description and the locks that the description owns.
    pub fn close(&mut self, handle: HandleId) {
        self.handles.remove(&handle);
        self.lost.remove(&handle);
        self.locks.retain(|lock| lock.kind == LockKind::Posix || lock.handle != handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lock(owner: u64, lock: LockType, first: u64, last: u64) -> HeldLock {
        HeldLock {
            ino: Ino(1),
            handle: HandleId(1),
            owner: LockOwner(owner),
            pid: 1,
            kind: LockKind::Posix,
            lock,
            range: LockRange { first, last },
        }
    }

    proptest! {
        /// The model has one cell per byte and owner.
        #[test]
        fn ranges_replace_each_other_byte_by_byte(
            calls in proptest::collection::vec((0u64..2, 0u8..3, 0u64..20, 0u64..20), 0..40),
        ) {
            let mut held = Held::default();
            let mut model = [[LockType::Unlock; 40]; 2];
            for (owner, what, first, length) in calls {
                let what = [LockType::Read, LockType::Write, LockType::Unlock][usize::from(what)];
                held.apply(lock(owner, what, first, first + length));
                model[owner as usize][first as usize..=(first + length) as usize].fill(what);
            }
            for (owner, bytes) in model.iter().enumerate() {
                for (position, expected) in bytes.iter().enumerate() {
                    let position = position as u64;
                    let found: Vec<_> = held.locks.iter()
                        .filter(|lock| lock.owner.0 == owner as u64)
                        .filter(|lock| lock.range.first <= position && position <= lock.range.last)
                        .collect();
                    prop_assert!(found.len() <= 1);
                    prop_assert_eq!(found.first().map_or(LockType::Unlock, |lock| lock.lock), *expected);
                }
            }
        }
    }
}
