//! Locks that change hands while workers carry out requests of their last holder.
//!
//! The event loop admits a request by the fence of its file's home, and a worker carries it out later. So each fence begins a
//! *turn* here. The first request of a turn waits until those of the turn before have ended, and what has not begun by then is
//! refused. Requests without a fence pass.

use super::names::lock;
use crate::storage::failure::TargetFailure;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use weir_placement::ServerId;
use weir_wire::{Fence, Ino};

/// Sets of files whose requests wait for each other at a change of turns.
const SHARDS: usize = 64;

/// The last turn in which a request began, by home.
type Begun = HashMap<ServerId, u64>;

/// The turns of one target.
pub(super) struct Fences {
    /// The last fence under which a request was admitted, and the number of its turn, by home.
    admitted: Mutex<HashMap<ServerId, (Fence, u64)>>,
    begun: Vec<RwLock<Begun>>,
}

/// The turn of a request that the event loop has admitted; none without a fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn(Option<u64>);

/// Held by a request until it has ended. A thread holds one at a time.
pub(crate) struct Pass<'fences> {
    _ends: Option<RwLockReadGuard<'fences, Begun>>,
}

impl Fences {
    pub(super) fn new() -> Fences {
        Fences { admitted: Mutex::default(), begun: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }

    /// The turn of a request that comes after all that were admitted before it. `fence` is the present one of the home.
    pub(super) fn admit(&self, home: ServerId, fence: Fence) -> Turn {
        if fence == Fence::NONE {
            return Turn::default();
        }
        let mut admitted = lock(&self.admitted);
        let (last, turn) = admitted.entry(home).or_insert((fence, 1));
        if *last != fence {
            (*last, *turn) = (fence, *turn + 1);
        }
        Turn(Some(*turn))
    }

    /// Lets a request for a file begin, once those of earlier turns have ended.
    ///
    /// # Errors
    /// A request of a later turn has begun.
    pub(super) fn pass(&self, ino: Ino, turn: Turn) -> Result<Pass<'_>, TargetFailure> {
        let Turn(Some(turn)) = turn else { return Ok(Pass { _ends: None }) };
        let home = ino.home();
        let shard = &self.begun[(ino.0 % SHARDS as u64) as usize];
        loop {
            let begun = shard.read().unwrap_or_else(PoisonError::into_inner);
            match begun.get(&home) {
                Some(&last) if last > turn => return Err(TargetFailure::Fenced),
                Some(&last) if last == turn => return Ok(Pass { _ends: Some(begun) }),
                _ => drop(begun),
            }
            let mut alone = shard.write().unwrap_or_else(PoisonError::into_inner);
            let last = alone.entry(home).or_insert(turn);
            *last = turn.max(*last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{channel, RecvTimeoutError};
    use std::time::Duration;

    const HOME: ServerId = ServerId(3);

    fn file(sequence: u64) -> Ino {
        Ino::new(HOME, sequence)
    }

    #[test]
    fn a_later_turn_waits_for_what_is_carried_out_and_shuts_out_the_rest() {
        let fences = Fences::new();
        let before = Fence::of_start(7);
        let first = fences.admit(HOME, before);
        let second = fences.admit(HOME, before.next());
        let under_way = fences.pass(file(1), first).expect("it is the first");
        let (passed, passes) = channel();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let pass = fences.pass(file(1), second).expect("it is the last");
                passed.send(()).expect("the test waits");
                drop(pass);
            });
            assert_eq!(passes.recv_timeout(Duration::from_millis(100)), Err(RecvTimeoutError::Timeout));
            drop(under_way);
            passes.recv_timeout(Duration::from_secs(60)).expect("nothing is under way");
        });
        assert!(fences.pass(file(1), first).is_err());
        assert!(fences.pass(file(1), second).is_ok());
    }

    #[test]
    fn turns_follow_the_order_of_admission_whatever_the_numbers_of_fences() {
        let fences = Fences::new();
        let high = fences.admit(HOME, Fence::of_start(9));
        assert_eq!(fences.admit(HOME, Fence::of_start(9)), high);
        // A home that kept nothing started with its clock set back.
        let low = fences.admit(HOME, Fence::of_start(2));
        assert!(fences.pass(file(1), low).is_ok());
        assert!(fences.pass(file(1), high).is_err());
    }

    #[test]
    fn requests_of_other_homes_or_without_a_fence_pass() {
        let fences = Fences::new();
        let fence = Fence::of_start(1);
        let (first, second) = (fences.admit(HOME, fence), fences.admit(HOME, fence.next()));
        let other = fences.admit(ServerId(4), fence);
        assert!(fences.pass(file(1), second).is_ok());
        assert!(fences.pass(Ino::new(ServerId(4), 1), other).is_ok());
        assert!(fences.pass(file(1), fences.admit(HOME, Fence::NONE)).is_ok());
        assert!(fences.pass(file(1), first).is_err());
    }
}
