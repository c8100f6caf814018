//! The order of work on the objects of targets in directories.
//!
//! Workers carry work out in any order and make file calls alone, so work that must not overlap is kept apart here: work on an object
//! begins when everything on the object has ended that came before it and conflicts with it.
//!
//! - A cut or a removal of the object conflicts with everything.
//! - Two changes of the same bytes conflict, so at most one change of a byte is ever half done.
//! - Requests of two *turns* conflict. A lock that changes hands raises the fence of its home, and each fence begins a turn. Requests
//!   without a fence have no turn.

use super::ranges::Range;
use std::collections::{HashMap, VecDeque};
use weir_placement::ServerId;
use weir_wire::{Extent, Fence, Ino};

/// Lists of objects at rest that are kept for the next ones: as many as all slots of eight targets. A write then allocates none.
const SPARE_MAX: usize = 64;

/// An object on a target, which is named by its number on this server.
pub(crate) type Place = (usize, Ino);

/// The part of an object that work changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    Nothing,
    /// Bytes within these bounds: the first one, and one past the last one.
    Bytes(u64, u64),
    Everything,
}

/// The part of its object that work changes, and the turn of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) changed: Changed,
    pub(crate) turn: Option<u64>,
}

/// Work on an object that has begun and not ended.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Begun {
    place: Place,
    access: Access,
}

/// The work on all objects of a server, and the pieces `W` that wait.
pub(crate) struct ObjectOrder<W> {
    /// The last fence of each home, and the number of its turn.
    turns: HashMap<ServerId, (Fence, u64)>,
    objects: HashMap<Place, OfObject<W>>,
    spare: Vec<OfObject<W>>,
}

/// The work on one object.
struct OfObject<W> {
    under_way: Vec<Access>,
    /// As it came.
    waiting: VecDeque<(Access, W)>,
}

impl Changed {
    /// The bytes between the first and the last one of some extents.
    pub(crate) fn of_extents(extents: &[Extent]) -> Changed {
        let extents = || extents.iter().filter(|extent| extent.length > 0);
        let begin = extents().map(|extent| extent.offset).min();
        let end = extents().map(|extent| extent.offset + u64::from(extent.length)).max();
        begin.zip(end).map_or(Changed::Nothing, |(begin, end)| Changed::Bytes(begin, end))
    }

    fn conflicts(self, other: Changed) -> bool {
        match (self, other) {
            (Changed::Everything, _) | (_, Changed::Everything) => true,
            (Changed::Bytes(begin, end), Changed::Bytes(other, other_end)) => {
                begin < other_end && other < end
            }
            _ => false,
        }
    }
}

impl Access {
    /// Nothing else is on the object meanwhile.
    pub(crate) const ALONE: Access = Access { changed: Changed::Everything, turn: None };

    fn conflicts(&self, other: &Access) -> bool {
        let is_of_another_turn = self.turn.zip(other.turn).is_some_and(|(turn, other)| turn != other);
        is_of_another_turn || self.changed.conflicts(other.changed)
    }
}

impl Begun {
    /// The object.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The bounds of the bytes that are changed.
    pub(crate) fn changed(&self) -> Option<Range> {
        match self.access.changed {
            Changed::Bytes(begin, end) => Some((begin, end)),
            Changed::Nothing | Changed::Everything => None,
        }
    }
}

impl<W> Default for OfObject<W> {
    fn default() -> OfObject<W> {
        OfObject { under_way: Vec::new(), waiting: VecDeque::new() }
    }
}

impl<W> Default for ObjectOrder<W> {
    fn default() -> ObjectOrder<W> {
        ObjectOrder { turns: HashMap::new(), objects: HashMap::new(), spare: Vec::new() }
    }
}

impl<W> ObjectOrder<W> {
    /// The turn of a request about a file of `home`, which comes after all turns that were given before. `fence` is the present one of the
    /// home.
    pub(crate) fn turn(&mut self, home: ServerId, fence: Fence) -> Option<u64> {
        if fence == Fence::NONE {
            return None;
        }
        let (last, turn) = self.turns.entry(home).or_insert((fence, 1));
        if *last != fence {
            (*last, *turn) = (fence, *turn + 1);
        }
        Some(*turn)
    }

    /// Gives work back that may begin now; any other is kept until [`ObjectOrder::end`] gives it.
    pub(crate) fn begin(&mut self, place: Place, access: Access, work: W) -> Option<(Begun, W)> {
        let spare = &mut self.spare;
        let object = self.objects.entry(place).or_insert_with(|| spare.pop().unwrap_or_default());
        let before = object.under_way.iter().chain(object.waiting.iter().map(|(access, _)| access));
        if before.into_iter().any(|other| access.conflicts(other)) {
            object.waiting.push_back((access, work));
            return None;
        }
        object.under_way.push(access);
        Some((Begun { place, access }, work))
    }

    /// Work has ended; gives the work that may begin now, which counts as begun.
    pub(crate) fn end(&mut self, ended: Begun) -> Vec<(Begun, W)> {
        let Begun { place, access } = ended;
        let Some(object) = self.objects.get_mut(&place) else { return Vec::new() };
        if let Some(at) = object.under_way.iter().position(|other| *other == access) {
            object.under_way.swap_remove(at);
        }
        if object.under_way.is_empty() && object.waiting.is_empty() {
            let rested = self.objects.remove(&place);
            self.spare.extend(rested.filter(|_| self.spare.len() < SPARE_MAX));
            return Vec::new();
        }
        let mut begun = Vec::new();
        let mut at = 0;
        while let Some((access, _)) = object.waiting.get(at) {
            let before = object.under_way.iter().chain(object.waiting.iter().take(at).map(|(of, _)| of));
            if before.into_iter().any(|other| access.conflicts(other)) {
                at += 1;
            } else if let Some((access, work)) = object.waiting.remove(at) {
                object.under_way.push(access);
                begun.push((Begun { place, access }, work));
            }
        }
        begun
    }

    /// The work that waits.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &W> {
        self.objects.values().flat_map(|object| object.waiting.iter().map(|(_, work)| work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOME: ServerId = ServerId(3);
    const PLACE: Place = (0, Ino(7));

    fn of(changed: Changed) -> Access {
        Access { changed, turn: None }
    }

    #[test]
    fn turns_follow_the_order_of_admission_whatever_the_numbers_of_fences() {
        let mut order = ObjectOrder::<()>::default();
        assert_eq!(order.turn(HOME, Fence::NONE), None);
        let high = order.turn(HOME, Fence::of_start(9));
        assert_eq!(order.turn(HOME, Fence::of_start(9)), high);
        // A home that kept nothing started with its clock set back.
        assert!(order.turn(HOME, Fence::of_start(2)) > high);
    }

    #[test]
    fn accesses_conflict_by_turn_and_by_bytes() {
        let bytes = |begin, end| of(Changed::Bytes(begin, end));
        let nothing = of(Changed::Nothing);
        let in_turn = |turn| Access { changed: Changed::Nothing, turn: Some(turn) };
        for (one, other, is_conflict) in [
            (nothing, nothing, false),
            (nothing, bytes(0, 9), false),
            (bytes(0, 9), bytes(9, 12), false),
            (bytes(0, 9), bytes(8, 12), true),
            (Access::ALONE, nothing, true),
            (Access::ALONE, Access::ALONE, true),
            (in_turn(1), in_turn(1), false),
            (in_turn(1), in_turn(2), true),
            (in_turn(1), nothing, false),
        ] {
            assert_eq!(one.conflicts(&other), is_conflict, "{one:?} {other:?}");
            assert_eq!(other.conflicts(&one), is_conflict, "{other:?} {one:?}");
        }
        let extents = [Extent { offset: 7, length: 2 }, Extent { offset: 90, length: 0 }];
        assert_eq!(Changed::of_extents(&extents), Changed::Bytes(7, 9));
        assert_eq!(Changed::of_extents(&extents[1..]), Changed::Nothing);
    }

    #[test]
    fn work_on_other_objects_and_targets_begins_at_once() {
        let mut order = ObjectOrder::default();
        let first = order.begin(PLACE, Access::ALONE, ()).expect("the object is at rest").0;
        assert!(order.begin(PLACE, of(Changed::Nothing), ()).is_none());
        assert!(order.begin((1, PLACE.1), Access::ALONE, ()).is_some());
        assert!(order.begin((0, Ino(8)), Access::ALONE, ()).is_some());
        assert_eq!(order.end(first).len(), 1);
    }

    fn accesses() -> impl Strategy<Value = Access> {
        let changed = prop_oneof![
            3 => Just(Changed::Nothing),
            3 => (0u64..8, 1u64..4).prop_map(|(begin, length)| Changed::Bytes(begin, begin + length)),
            1 => Just(Changed::Everything),
        ];
        let turn = prop_oneof![Just(None), (1u64..4).prop_map(Some)];
        (changed, turn).prop_map(|(changed, turn)| Access { changed, turn })
    }

    proptest! {
        /// Whatever order work ends in: no two conflicting pieces are under way together, conflicting pieces begin in the order in which
        /// they came, a piece waits for nothing but conflicts, each begins once, and nothing is kept of an object at rest.
        #[test]
        fn work_begins_as_soon_as_everything_before_it_that_conflicts_has_ended(
            steps in proptest::collection::vec(
                (0u64..3, accesses(), any::<bool>(), any::<proptest::sample::Index>()), 1..200),
        ) {
            let mut order = ObjectOrder::default();
            // Each piece with its object, as it came: whether it has begun, and whether it has ended.
            let mut pieces: Vec<(u64, Access, bool, bool)> = Vec::new();
            let mut under_way: Vec<(Begun, usize)> = Vec::new();
            for (object, access, ends, which) in steps {
                let number = pieces.len();
                pieces.push((object, access, false, false));
                under_way.extend(order.begin((0, Ino(object)), access, number));
                if ends && !under_way.is_empty() {
                    let (begun, number) = under_way.swap_remove(which.index(under_way.len()));
                    (pieces[number].2, pieces[number].3) = (true, true);
                    under_way.extend(order.end(begun));
                }
                for (_, number) in &under_way {
                    pieces[*number].2 = true;
                }
                for (number, (object, access, has_begun, _)) in pieces.iter().enumerate() {
                    let may_begin = !pieces[..number].iter().any(|(other, before, _, has_ended)| {
                        other == object && !has_ended && before.conflicts(access)
                    });
                    prop_assert_eq!(*has_begun, may_begin, "piece {}", number);
                }
            }
            while let Some((begun, number)) = under_way.pop() {
                prop_assert!(!std::mem::replace(&mut pieces[number].3, true), "a piece begins once");
                under_way.extend(order.end(begun));
            }
            prop_assert!(pieces.iter().all(|(_, _, _, has_ended)| *has_ended));
            prop_assert!(order.objects.is_empty() && order.waiting().next().is_none());
        }
    }
}
