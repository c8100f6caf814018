//! The order of requests about one file on a target in a directory, when locks change hands.
//!
//! Workers carry requests out in any order. A lock that changes hands raises the fence of its home, and each fence begins a *turn*: a request
//! of a later turn is handed out when all requests of earlier turns about the file have ended, and never before a request that came
//! earlier and still waits. Requests without a fence have no order.

use std::collections::{HashMap, VecDeque};
use weir_placement::ServerId;
use weir_wire::{Fence, Ino};

/// The turns of all targets of a server, and the requests `R` that wait for theirs.
pub(crate) struct Fences<R> {
    /// The last fence of each home, and the number of its turn.
    turns: HashMap<ServerId, (Fence, u64)>,
    /// The files of requests that are under way or wait, by target.
    files: HashMap<(usize, Ino), Order<R>>,
}

/// The order of the requests about one file.
struct Order<R> {
    /// The turn of the requests that are under way.
    turn: u64,
    under_way: usize,
    /// Requests of later turns, as they came.
    waiting: VecDeque<(u64, R)>,
}

/// The turn of a request about a file; none without a fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn(Option<Place>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    target: usize,
    ino: Ino,
    turn: u64,
}

impl<R> Default for Fences<R> {
    fn default() -> Fences<R> {
        Fences { turns: HashMap::new(), files: HashMap::new() }
    }
}

impl<R> Fences<R> {
    /// The turn of a request about a file on a target, which comes after all that were admitted before it. `fence` is the present one of
    /// the file's home.
    pub(crate) fn admit(&mut self, target: usize, ino: Ino, fence: Fence) -> Turn {
        if fence == Fence::NONE {
            return Turn::default();
        }
        let (last, turn) = self.turns.entry(ino.home()).or_insert((fence, 1));
        if *last != fence {
            (*last, *turn) = (fence, *turn + 1);
        }
        Turn(Some(Place { target, ino, turn: *turn }))
    }

    /// Gives a request back that may begin now; another one is kept until [`Fences::end`] gives it.
    pub(crate) fn begin(&mut self, turn: Turn, request: R) -> Option<R> {
        let Turn(Some(Place { target, ino, turn })) = turn else { return Some(request) };
        let order = self.files.entry((target, ino)).or_insert_with(|| Order {
            turn,
            under_way: 0,
            waiting: VecDeque::new(),
        });
        if order.turn != turn || !order.waiting.is_empty() {
            order.waiting.push_back((turn, request));
            return None;
        }
        order.under_way += 1;
        Some(request)
    }

    /// A request that was begun has ended; gives the requests that may begin now, which count as begun.
    pub(crate) fn end(&mut self, ended: Turn) -> Vec<(Turn, R)> {
        let Turn(Some(place)) = ended else { return Vec::new() };
        let key = (place.target, place.ino);
        let Some(order) = self.files.get_mut(&key) else { return Vec::new() };
        order.under_way -= 1;
        if order.under_way > 0 {
            return Vec::new();
        }
        let Some(&(turn, _)) = order.waiting.front() else {
            self.files.remove(&key);
            return Vec::new();
        };
        let count = order.waiting.iter().take_while(|(of, _)| *of == turn).count();
        (order.turn, order.under_way) = (turn, count);
        let begun = order.waiting.drain(..count);
        begun.map(|(turn, request)| (Turn(Some(Place { turn, ..place })), request)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOME: ServerId = ServerId(3);

    fn file(sequence: u64) -> Ino {
        Ino::new(HOME, sequence)
    }

    #[test]
    fn turns_follow_the_order_of_admission_whatever_the_numbers_of_fences() {
        let mut fences = Fences::default();
        let high = fences.admit(0, file(1), Fence::of_start(9));
        assert_eq!(fences.admit(0, file(1), Fence::of_start(9)), high);
        // A home that kept nothing started with its clock set back.
        let low = fences.admit(0, file(1), Fence::of_start(2));
        assert_eq!(fences.begin(high, "high"), Some("high"));
        assert_eq!(fences.begin(low, "low"), None);
        assert_eq!(fences.end(high), [(low, "low")]);
        assert!(fences.end(low).is_empty() && fences.files.is_empty(), "nothing is kept of a file at rest");
    }

    #[test]
    fn requests_of_other_files_targets_and_homes_or_without_a_fence_begin_at_once() {
        let mut fences = Fences::default();
        let fence = Fence::of_start(1);
        let first = fences.admit(0, file(1), fence);
        assert!(fences.begin(first, ()).is_some());
        let waiting = fences.admit(0, file(1), fence.next());
        assert!(fences.begin(waiting, ()).is_none());
        for (target, ino) in [(1, file(1)), (0, file(2)), (0, Ino::new(ServerId(4), 1))] {
            let turn = fences.admit(target, ino, fence.next());
            assert!(fences.begin(turn, ()).is_some(), "{target} {ino}");
        }
        let turn = fences.admit(0, file(1), Fence::NONE);
        assert!(fences.begin(turn, ()).is_some());
        assert!(fences.end(turn).is_empty());
    }

    proptest! {
        /// Whatever order the work ends in: requests of different turns about one file are never under way together, each request begins
        /// once, those of later turns begin later, and none waits once everything has ended.
        #[test]
        fn turns_of_a_file_never_overlap(
            steps in proptest::collection::vec((0u64..3, 0u8..4, any::<proptest::sample::Index>()), 1..200),
        ) {
            let mut fences = Fences::default();
            let mut fence = Fence::of_start(1);
            let mut under_way: Vec<(Turn, u64)> = Vec::new();
            let (mut last, mut begun): (HashMap<u64, u64>, usize) = (HashMap::new(), 0);
            let mut note = |under_way: &mut Vec<(Turn, u64)>, turn: Turn, file: u64| {
                let number = turn.0.map_or(0, |place| place.turn);
                let others = under_way.iter().filter(|(_, of)| *of == file);
                prop_assert!(others.clone().all(|(other, _)| *other == turn), "turns overlap");
                prop_assert!(last.insert(file, number).is_none_or(|before| before <= number), "out of order");
                under_way.push((turn, file));
                begun += 1;
                Ok(())
            };
            for &(of, what, which) in &steps {
                if what == 0 {
                    fence = fence.next();
                }
                let turn = fences.admit(0, file(of), fence);
                if fences.begin(turn, of).is_some() {
                    note(&mut under_way, turn, of)?;
                }
                if what == 1 && !under_way.is_empty() {
                    let (ended, _) = under_way.swap_remove(which.index(under_way.len()));
                    for (turn, of) in fences.end(ended) {
                        note(&mut under_way, turn, of)?;
                    }
                }
            }
            while let Some((ended, _)) = under_way.pop() {
                for (turn, of) in fences.end(ended) {
                    note(&mut under_way, turn, of)?;
                }
            }
            prop_assert_eq!(begun, steps.len());
            prop_assert!(fences.files.is_empty());
        }
    }
}
