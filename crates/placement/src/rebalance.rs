//! The plan of a rebalancing: objects of existing files that should go to other targets, from the fullest to the
//! emptiest, the largest first.
//!
//! The plan follows fills, not loads: the fill of a target lasts, and its use does not. An object leaves a target only
//! for a target that is less full afterwards, of the same class, and without an object of the file. Where there is a
//! choice, the new server has no object of the file either. A drained target loses all its objects; where the file has an
//! object on every other target, one of these targets gets a second one, in another slot.

use crate::TargetId;
use std::collections::{HashMap, HashSet};

/// Highest fill of a receiving target where a target is drained: the rest is for files that grow.
const RECEIVER_FILL_MAX: f64 = 0.95;

/// One target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetFill {
    /// The target.
    pub target: TargetId,
    /// Capacity.
    pub capacity_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// The class of a target, within which objects stay: keeping bytes over a restart, say.
    pub class: String,
}

/// The objects of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileObjects {
    /// Target and bytes of each.
    pub objects: Vec<(TargetId, u64)>,
}

/// The aim of a rebalancing.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Nothing leaves a target whose fill is at most this much above the mean.
    pub tolerance: f64,
    /// Targets that everything leaves.
    pub drained: Vec<TargetId>,
    /// Only these give; all where empty.
    pub givers: Vec<TargetId>,
    /// Only these receive; all where empty.
    pub receivers: Vec<TargetId>,
    /// Every object that is not on a receiver goes to one, however full its target is.
    pub gather: bool,
}

/// One object that goes to another target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedMove {
    /// Index of the file.
    pub file: usize,
    /// The present target of the object.
    pub from: TargetId,
    /// The future target of the object.
    pub to: TargetId,
    /// Its bytes.
    pub bytes: u64,
}

/// The moves of a rebalancing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they help most.
    pub moves: Vec<PlannedMove>,
    /// Objects of drained targets, or to be gathered, for which there is no place.
    pub stuck: usize,
}

/// The state of one target while a plan is made.
#[derive(Clone, Debug)]
struct Tank<'a> {
    fill: &'a TargetFill,
    used_bytes: u64,
    /// Mean fill of its class.
    mean: f64,
    is_drained: bool,
    gives: bool,
    receives: bool,
}

impl Tank<'_> {
    fn fill_with(&self, more: u64) -> f64 {
        match self.fill.capacity_bytes {
            0 => f64::INFINITY,
            capacity => (self.used_bytes.saturating_add(more)) as f64 / capacity as f64,
        }
    }
}

/// The moves that bring `targets` to `goal`. Files name objects on targets that are not listed in vain.
pub fn plan(targets: &[TargetFill], files: &[FileObjects], goal: &Goal) -> Plan {
    let mut tanks = tanks(targets, goal);
    let by_target: HashMap<TargetId, usize> =
        targets.iter().enumerate().map(|(index, fill)| (fill.target, index)).collect();
    let mut candidates: Vec<(u64, usize, TargetId)> = files
        .iter()
        .enumerate()
        .flat_map(|(file, one)| one.objects.iter().map(move |&(target, bytes)| (bytes, file, target)))
        .filter(|(_, _, target)| by_target.get(&target.device()).is_some_and(|&index| tanks[index].gives))
        .collect();
    candidates.sort_unstable_by(|a, b| (b.0, a.1, a.2).cmp(&(a.0, b.1, b.2)));
    let mut places: HashMap<usize, HashSet<TargetId>> = HashMap::new();
    let mut plan = Plan::default();
    for (bytes, file, from) in candidates {
        let giver = by_target[&from.device()];
        let must_leave = tanks[giver].is_drained || (goal.gather && !goal.receivers.contains(&from.device()));
        let too_full = |tank: &Tank<'_>| tank.fill_with(0) > tank.mean + goal.tolerance;
        if !must_leave && (bytes == 0 || goal.gather || !too_full(&tanks[giver])) {
            continue;
        }
        let taken = places
            .entry(file)
            .or_insert_with(|| files[file].objects.iter().map(|(target, _)| *target).collect());
        let place = receiver(&tanks, giver, bytes, must_leave, taken)
            .map(|index| (index, targets[index].target))
            .or_else(
                || if tanks[giver].is_drained { second_place(&tanks, giver, bytes, taken) } else { None },
            );
        match place {
            Some((index, to)) => {
                // The target that the object leaves stays taken: the moves of a file are made at once.
                taken.insert(to);
                tanks[giver].used_bytes = tanks[giver].used_bytes.saturating_sub(bytes);
                tanks[index].used_bytes += bytes;
                plan.moves.push(PlannedMove { file, from, to, bytes });
            }
            None => plan.stuck += usize::from(must_leave),
        }
    }
    plan
}

/// The targets that objects may leave: files with none on them need not be looked at.
pub fn givers(targets: &[TargetFill], goal: &Goal) -> Vec<TargetId> {
    let gives = |tank: &Tank<'_>| {
        let is_full = tank.fill_with(0) > tank.mean + goal.tolerance;
        let is_gathered = goal.gather && !goal.receivers.contains(&tank.fill.target);
        tank.gives && (tank.is_drained || is_gathered || (!goal.gather && is_full))
    };
    tanks(targets, goal).iter().filter(|tank| gives(tank)).map(|tank| tank.fill.target).collect()
}

fn tanks<'a>(targets: &'a [TargetFill], goal: &Goal) -> Vec<Tank<'a>> {
    let is_drained = |fill: &TargetFill| goal.drained.contains(&fill.target);
    let mean = |class: &str| {
        let of_class = || targets.iter().filter(|fill| fill.class == class);
        let used: u64 = of_class().map(|fill| fill.used_bytes).sum();
        let capacity: u64 = of_class().filter(|fill| !is_drained(fill)).map(|fill| fill.capacity_bytes).sum();
        used as f64 / capacity.max(1) as f64
    };
    let chosen = |list: &[TargetId], fill: &TargetFill| list.is_empty() || list.contains(&fill.target);
    let tank = |fill: &'a TargetFill| Tank {
        fill,
        used_bytes: fill.used_bytes,
        mean: mean(&fill.class),
        is_drained: is_drained(fill),
        gives: is_drained(fill) || chosen(&goal.givers, fill),
        receives: !is_drained(fill) && chosen(&goal.receivers, fill),
    };
    targets.iter().map(tank).collect()
}

/// The target that an object goes to: the least full one then, on a server that the file does not use where there is one.
fn receiver(
    tanks: &[Tank<'_>],
    giver: usize,
    bytes: u64,
    must_leave: bool,
    taken: &HashSet<TargetId>,
) -> Option<usize> {
    let from = tanks[giver].fill;
    let others =
        |server| taken.iter().any(|target| target.server == server && target.device() != from.target);
    let may_receive = |tank: &Tank<'_>| {
        let after = tank.fill_with(bytes);
        let helps = if must_leave {
            after <= RECEIVER_FILL_MAX
        } else {
            // Below where the giver is now: each move makes the fuller of the two less full.
            after < tanks[giver].fill_with(0) && tank.fill_with(0) < tank.mean
        };
        let is_taken = taken.iter().any(|target| target.device() == tank.fill.target);
        tank.receives && tank.fill.class == from.class && !is_taken && helps
    };
    tanks
        .iter()
        .enumerate()
        .filter(|(_, tank)| may_receive(tank))
        .min_by(|(_, a), (_, b)| {
            let rank = |tank: &Tank<'_>| (others(tank.fill.target.server), tank.fill_with(bytes));
            let ((a_shares, a_fill), (b_shares, b_fill)) = (rank(a), rank(b));
            a_shares.cmp(&b_shares).then(a_fill.total_cmp(&b_fill)).then(a.fill.target.cmp(&b.fill.target))
        })
        .map(|(index, _)| index)
}

/// The place beside another object of the file: on the target with the fewest of the file's objects, then the least full one.
fn second_place(
    tanks: &[Tank<'_>],
    giver: usize,
    bytes: u64,
    taken: &HashSet<TargetId>,
) -> Option<(usize, TargetId)> {
    let may_receive = |tank: &Tank<'_>| {
        tank.receives
            && tank.fill.class == tanks[giver].fill.class
            && tank.fill_with(bytes) <= RECEIVER_FILL_MAX
    };
    let free_slot = |tank: &Tank<'_>| {
        (0..TargetId::SLOTS).map(|slot| tank.fill.target.in_slot(slot)).find(|place| !taken.contains(place))
    };
    let objects = |tank: &Tank<'_>| taken.iter().filter(|target| target.device() == tank.fill.target).count();
    tanks
        .iter()
        .enumerate()
        .filter(|(_, tank)| may_receive(tank))
        .filter_map(|(index, tank)| Some((index, tank, free_slot(tank)?)))
        .min_by(|(_, a, _), (_, b, _)| {
            let fills = a.fill_with(bytes).total_cmp(&b.fill_with(bytes));
            objects(a).cmp(&objects(b)).then(fills).then(a.fill.target.cmp(&b.fill.target))
        })
        .map(|(index, _, place)| (index, place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerId;
    use proptest::prelude::*;

    fn target(number: u16) -> TargetId {
        TargetId { server: ServerId(number / 2), index: number % 2 }
    }

    fn goal() -> Goal {
        Goal { tolerance: 0.02, drained: vec![], givers: vec![], receivers: vec![], gather: false }
    }

    /// Targets of equal capacity that hold exactly these files.
    fn fills(count: u16, files: &[FileObjects]) -> Vec<TargetFill> {
        let used = |target| {
            let objects = files.iter().flat_map(|file| &file.objects);
            objects.filter(|(other, _)| other.device() == target).map(|(_, bytes)| bytes).sum()
        };
        let fill = |target| TargetFill {
            target,
            capacity_bytes: 1_000_000,
            used_bytes: used(target),
            class: "dir".into(),
        };
        (0..count).map(|number| fill(target(number))).collect()
    }

    fn worst(fills: &[TargetFill]) -> f64 {
        fills.iter().map(|fill| fill.used_bytes as f64 / fill.capacity_bytes as f64).fold(0.0, f64::max)
    }

    /// The files as they lie once the plan is carried out.
    fn carried_out(files: &[FileObjects], plan: &Plan) -> Vec<FileObjects> {
        let mut files = files.to_vec();
        for one in &plan.moves {
            let objects = &mut files[one.file].objects;
            let object = objects.iter_mut().find(|(target, _)| *target == one.from).expect("it is there");
            assert_eq!(object.1, one.bytes);
            object.0 = one.to;
        }
        files
    }

    fn any_files() -> impl Strategy<Value = Vec<FileObjects>> {
        let order = Just((0..6u16).collect::<Vec<_>>()).prop_shuffle();
        let file = (order, 1usize..4, 1u64..40_000).prop_map(|(order, count, bytes)| FileObjects {
            objects: order[..count].iter().map(|&number| (target(number), bytes)).collect(),
        });
        proptest::collection::vec(file, 1..40)
    }

    proptest! {
        /// No file has two objects on one target, the fullest target never gets fuller, and a second plan finds no more
        /// than the difference of one object.
        #[test]
        fn a_plan_keeps_files_apart_and_helps(files in any_files()) {
            let before = fills(6, &files);
            let plan = plan(&before, &files, &goal());
            let after_files = carried_out(&files, &plan);
            for file in &after_files {
                let places: HashSet<TargetId> = file.objects.iter().map(|(target, _)| *target).collect();
                prop_assert_eq!(places.len(), file.objects.len());
            }
            let after = fills(6, &after_files);
            prop_assert!(worst(&after) <= worst(&before));
        }

        #[test]
        fn a_drained_target_is_empty_where_there_is_room(files in any_files(), number in 0u16..6) {
            let goal = Goal { drained: vec![target(number)], ..goal() };
            let plan = plan(&fills(6, &files), &files, &goal);
            let after = carried_out(&files, &plan);
            let left = after.iter().flat_map(|file| &file.objects).filter(|(other, _)| *other == target(number));
            prop_assert_eq!(left.count(), plan.stuck);
            prop_assert!(plan.moves.iter().all(|one| one.to != target(number)));
        }
    }

    /// Files with an object on every target once had "no place to go to".
    #[test]
    fn a_drained_target_is_empty_although_its_files_are_on_every_target() {
        let mut files =
            vec![FileObjects { objects: (0..4).map(|number| (target(number), 10_000)).collect() }; 5];
        let mut drained = Vec::new();
        for left in [3, 2, 1] {
            drained.push(target(left));
            let goal = Goal { drained: drained.clone(), ..goal() };
            let plan = plan(&fills(4, &files), &files, &goal);
            assert_eq!(plan.stuck, 0);
            files = carried_out(&files, &plan);
            for file in &files {
                let places: HashSet<TargetId> = file.objects.iter().map(|(place, _)| *place).collect();
                assert_eq!(places.len(), 4, "no two objects are in one place: {file:?}");
                assert!(places.iter().all(|place| !drained.contains(&place.device())), "{file:?}");
                let most = |number| places.iter().filter(|place| place.device() == target(number)).count();
                assert!((0..left).all(|number| most(number) <= 4usize.div_ceil(left.into())), "{file:?}");
            }
        }
        let goal = Goal { drained: (0..4).map(target).collect(), ..goal() };
        assert_eq!(plan(&fills(4, &files), &files, &goal).stuck, 20, "the last target has no heir");
    }

    #[test]
    fn one_full_target_among_empty_ones_is_levelled() {
        let file = |_| FileObjects { objects: vec![(target(0), 40_000)] };
        let files: Vec<FileObjects> = (0..20).map(file).collect();
        let plan = plan(&fills(4, &files), &files, &goal());
        let after = fills(4, &carried_out(&files, &plan));
        let used: Vec<u64> = after.iter().map(|fill| fill.used_bytes).collect();
        assert_eq!(used, [200_000; 4], "{plan:?}");
        assert_eq!(plan.moves.len(), 15);
    }

    #[test]
    fn what_is_level_stays() {
        let files: Vec<FileObjects> =
            (0..4).map(|number| FileObjects { objects: vec![(target(number), 10_000)] }).collect();
        assert_eq!(plan(&fills(4, &files), &files, &goal()), Plan::default());
    }

    #[test]
    fn objects_stay_in_their_class_and_apart_by_server() {
        let files = vec![FileObjects { objects: vec![(target(0), 300_000), (target(2), 100_000)] }];
        let mut targets = fills(6, &files);
        targets[4].class = "ram".into();
        targets[0].used_bytes += 100_000;
        targets[1].used_bytes = 50_000;
        targets[5].used_bytes = 10_000;
        let plan = plan(&targets, &files, &goal());
        assert_eq!(
            plan.moves,
            [PlannedMove { file: 0, from: target(0), to: target(5), bytes: 300_000 }],
            "server 1 has an object of the file, 2.0 is of another class, 0.1 is fuller"
        );
    }

    #[test]
    fn named_receivers_gather_what_is_elsewhere() {
        let files = vec![FileObjects { objects: vec![(target(0), 10), (target(1), 0), (target(4), 10)] }];
        let receivers = vec![target(4), target(5)];
        let goal = Goal { receivers, gather: true, ..goal() };
        let plan = plan(&fills(6, &files), &files, &goal);
        assert_eq!(plan.moves, [PlannedMove { file: 0, from: target(0), to: target(5), bytes: 10 }]);
        assert_eq!(plan.stuck, 1, "no third one is named");
    }
}
