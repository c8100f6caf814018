//! A lower bound on the cost of any placement of stripes of unequal size.

use super::fill::Level;
use super::levels::{Group, Levels};
use super::{cost_of, Demand, View};
use std::collections::BTreeMap;

/// Parts that the work is cut into to find the level of a liquid; the bound is off by the square of this at most.
const PARTS: u64 = 1 << 20;

/// Kinds of demands at most for the second bound, which looks at every target for each.
const KINDS_MAX: usize = 256;

/// The best of two lower bounds of the cost of placing `demands` on `view`; at most `cost`, that of a placement.
///
/// The first lets work be cut at will: its least cost is a Lagrangian dual, which is a bound at whatever prices it is
/// taken, so rounding cannot spoil it. The second places each stripe as if the other demands were not there: squares
/// of sums are at least sums of squares.
pub(super) fn least_cost(view: &View, demands: &[Demand], cost: f64) -> f64 {
    let mut kinds: BTreeMap<Demand, u64> = BTreeMap::new();
    for demand in demands {
        *kinds.entry(*demand).or_default() += 1;
    }
    let mut levels = Levels::default();
    levels.load_from(view, 1, 0);
    let loads: Vec<f64> = view.targets().iter().map(|state| state.load_bytes).collect();
    let server_loads: Vec<f64> = view.servers().iter().map(|state| state.load_bytes).collect();
    let before = cost_of(view, &loads, &server_loads);
    let mut best = before - cost_of_levels(&levels) + liquid(view, &kinds);
    if kinds.len() <= KINDS_MAX {
        best = best.max(before + alone(&levels, &kinds));
    }
    best.min(cost)
}

fn cost_of_levels(levels: &Levels) -> f64 {
    let of_targets = levels.load.iter().zip(&levels.speed).map(|(load, speed)| load * load / speed);
    let of_groups = levels.groups.iter().map(|group| group.load * group.load * group.slope);
    of_targets.sum::<f64>() + of_groups.sum::<f64>()
}

/// The least cost of work that can be cut at will, on the used targets.
fn liquid(view: &View, kinds: &BTreeMap<Demand, u64>) -> f64 {
    let bytes = |each: fn(&Demand) -> f64| -> f64 {
        kinds.iter().map(|(demand, &members)| each(demand) * members as f64).sum()
    };
    let work = bytes(|demand| demand.weight() as f64 * f64::from(demand.stripes));
    // A demand puts one stripe on a target.
    let each = bytes(|demand| demand.weight() as f64);
    let unit = (work / PARTS as f64).ceil().max(1.0);
    let mut levels = Levels::default();
    levels.load_from(view, unit as u64, 0);
    let most = (each / unit).ceil();
    levels.room.iter_mut().for_each(|room| *room = room.ceil().min(most));
    let work = work / unit;
    let level = Level::of(&levels, work as u64);
    let mut value = level.price * work;
    for (group, &stripes) in levels.groups.iter().zip(&level.stripes) {
        let of_targets = level.price - (2.0 * (group.load + stripes as f64)) * group.slope;
        value += least_of_group(group, level.price - of_targets);
        value += group.range().map(|position| least_of_target(&levels, position, of_targets)).sum::<f64>();
    }
    value * unit * unit
}

/// The least value of a target's cost less the earnings of its work at `price`.
fn least_of_target(levels: &Levels, position: usize, price: f64) -> f64 {
    let (load, speed) = (levels.load[position], levels.speed[position]);
    let work = (price * speed / 2.0 - load).clamp(0.0, levels.room[position]);
    (load + work) * (load + work) / speed - price * work
}

/// The least value of a server's cost less the earnings of its work at `price`.
fn least_of_group(group: &Group, price: f64) -> f64 {
    if group.slope == 0.0 {
        return 0.0;
    }
    let work = (price / (2.0 * group.slope) - group.load).max(0.0);
    (group.load + work) * (group.load + work) * group.slope - price * work
}

/// The cost that the stripes add if each demand is placed where it costs least and meets no other demand.
fn alone(levels: &Levels, kinds: &BTreeMap<Demand, u64>) -> f64 {
    let mut added = Vec::with_capacity(levels.len());
    let mut sum = 0.0;
    for (demand, &members) in kinds {
        let bytes = demand.weight() as f64;
        let stripes = usize::from(demand.stripes);
        added.clear();
        for group in &levels.groups {
            let of_group = group.marginal(bytes);
            added.extend(group.range().map(|position| (levels.marginal(position, bytes) + of_group) * bytes));
        }
        if stripes < added.len() {
            added.select_nth_unstable_by(stripes, f64::total_cmp);
        }
        sum += added[..stripes].iter().sum::<f64>() * members as f64;
    }
    sum
}
