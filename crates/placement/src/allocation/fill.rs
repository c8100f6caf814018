//! The number of stripes of one size on each target at the least cost: water-filling.
//!
//! Every stripe that a target could take has a marginal cost, which grows with the stripes there and on its server.
//! Taking the cheapest stripe again and again is exact, because a sum of convex functions over a laminar family
//! (targets within servers) is M-natural-convex (Murota, Discrete Convex Analysis, 2003, sections 6.3 and 10.1). Most
//! steps are skipped: the stripes below a threshold of the marginal cost are counted directly, and a heap takes the
//! rest.

use super::levels::{Frontier, Group, Levels};

/// Most evaluations of the threshold. Each is a pass over all positions, and the heap does the rest.
const EVALUATIONS_MAX: u32 = 40;

/// The heap takes the rest once the rest is less than one stripe for this many positions, or once the thresholds above
/// and below it are less than a stripe for half as many apart: then all remaining stripes are equals.
const REST: usize = 12;

/// Put `total` stripes on `levels`, at most `each` on a position, and say how many each takes.
///
/// The levels count in stripes; the caller has checked that so many fit.
pub(super) fn fill(
    levels: &mut Levels,
    frontier: &mut Frontier,
    total: u64,
    each: u32,
    counts: &mut Vec<u32>,
) {
    for room in &mut levels.room {
        *room = room.floor().min(f64::from(each));
    }
    counts.clear();
    counts.resize(levels.len(), 0);
    let mut search = Search::new(levels);
    let mut placed = search.threshold(total).map_or(0, |threshold| search.certain(threshold, counts));
    for group in &mut levels.groups {
        let stripes: u64 = counts[group.range()].iter().map(|&count| u64::from(count)).sum();
        group.load += stripes as f64;
    }
    for (position, &count) in counts.iter().enumerate() {
        levels.load[position] += f64::from(count);
        levels.room[position] -= f64::from(count);
    }
    frontier.build(levels, 1.0, 1.0);
    while placed < total {
        let Some(position) = frontier.add(levels) else { break };
        counts[position] += 1;
        placed += 1;
    }
}

/// The marginal cost at which filling stops, and the content of each group then.
pub(super) struct Level {
    pub(super) price: f64,
    pub(super) stripes: Vec<u64>,
}

impl Level {
    /// The level at which filling `levels`, which count in whole stripes, has placed nearly `total` stripes and no
    /// more.
    pub(super) fn of(levels: &Levels, total: u64) -> Level {
        let mut search = Search::new(levels);
        let price = search.threshold(total).unwrap_or(0.0);
        search.below(price);
        Level { price, stripes: search.totals }
    }
}

/// Thresholds between which even the fastest target takes a small part of a stripe more.
const EQUALS: f64 = 1.0 / 16.0;

struct Search<'a> {
    levels: &'a Levels,
    /// Stripes of each group at the last threshold: where the next search begins.
    totals: Vec<u64>,
}

/// The stripes below a threshold, and the number of further stripes for each unit of marginal cost.
#[derive(Clone, Copy, Default)]
struct Below {
    stripes: u64,
    growth: f64,
}

impl<'a> Search<'a> {
    fn new(levels: &'a Levels) -> Search<'a> {
        Search { levels, totals: vec![0; levels.groups.len()] }
    }

    /// A marginal cost below which there are at most `total` stripes, and hardly fewer; none where even the cheapest
    /// stripes are more.
    fn threshold(&mut self, total: u64) -> Option<f64> {
        let (mut low, mut high) = self.range();
        let mut most = self.levels.room.iter().map(|&room| room as u64).sum::<u64>();
        if most <= total {
            return Some(high);
        }
        let (mut least, mut found) = (0, None);
        let rest = (self.levels.len() / REST) as u64;
        let fastest = self.levels.speed.iter().copied().fold(0.0, f64::max);
        let mut at = self.guess(total);
        for evaluation in 0..EVALUATIONS_MAX {
            if !(at > low && at < high) {
                at = low + (high - low) / 2.0;
                if !(at > low && at < high) {
                    break;
                }
            }
            let below = self.below(at);
            if below.stripes <= total {
                (low, least, found) = (at, below.stripes, Some(at));
            } else {
                (high, most) = (at, below.stripes);
            }
            let are_equals = (high - low) * fastest < EQUALS || most - least <= 2 * rest;
            if total - least <= rest || (are_equals && found.is_some()) {
                break;
            }
            let slope = (most - least) as f64 / (high - low);
            at = match evaluation {
                0 | 1 => at + (total as f64 - below.stripes as f64) / below.growth,
                // Every third step halves the range, so that a jump between two thresholds is closed in on.
                2.. if evaluation % 3 == 1 => low + (high - low) / 2.0,
                2.. => low + (total - least) as f64 / slope,
            };
        }
        found
    }

    /// The marginal costs of the cheapest stripe of all and of the dearest that fits.
    fn range(&self) -> (f64, f64) {
        let levels = self.levels;
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for group in &levels.groups {
            let most: f64 = levels.room[group.range()].iter().sum();
            for position in group.range() {
                let last =
                    (2.0 * (levels.load[position] + levels.room[position]) + 1.0) / levels.speed[position];
                low = low.min(levels.marginal(position, 1.0) + group.marginal(1.0));
                high = high.max(last + (2.0 * (group.load + most) + 1.0) * group.slope);
            }
        }
        (low, high)
    }

    /// The level that a liquid of `total` would have over targets that all take some of it.
    fn guess(&self, total: u64) -> f64 {
        let levels = self.levels;
        let (mut load, mut speed) = (0.0, 0.0);
        let (mut load_of_groups, mut speed_of_groups) = (0.0, 0.0);
        for group in &levels.groups {
            load += levels.load[group.range()].iter().sum::<f64>();
            speed += levels.speed[group.range()].iter().sum::<f64>();
            load_of_groups += group.load;
            speed_of_groups += if group.slope > 0.0 { 1.0 / group.slope } else { 0.0 };
        }
        let level = 2.0 * (load + total as f64) / speed;
        let of_groups = 2.0 * (load_of_groups + total as f64) / speed_of_groups;
        level + if speed_of_groups > 0.0 { of_groups } else { 0.0 }
    }

    fn below(&mut self, threshold: f64) -> Below {
        let mut all = Below::default();
        for (group, start) in self.levels.groups.iter().zip(&mut self.totals) {
            let below = below_in_group(self.levels, group, threshold, *start);
            *start = below.stripes;
            all.stripes += below.stripes;
            all.growth += below.growth;
        }
        all
    }

    /// Give each position the stripes that every optimum with this threshold has; how many they are.
    fn certain(&mut self, threshold: f64, counts: &mut [u32]) -> u64 {
        let mut placed = 0;
        for (group, &start) in self.levels.groups.iter().zip(&self.totals) {
            let total = below_in_group(self.levels, group, threshold, start).stripes;
            // The part of the threshold that one stripe more than `total` would leave for its target: at most `total`
            // stripes are below the threshold.
            let of_targets = threshold - (2.0 * (group.load + total as f64) + 1.0) * group.slope;
            for position in group.range() {
                let Levels { load, speed, room, .. } = self.levels;
                let count = stripes_below(load[position], speed[position], room[position], of_targets);
                counts[position] = count;
                placed += u64::from(count);
            }
        }
        placed
    }
}

/// The stripes of a group whose own and whose server's marginal cost together are at most `threshold`.
///
/// The search for their number begins at `start`.
fn below_in_group(levels: &Levels, group: &Group, threshold: f64, start: u64) -> Below {
    if group.slope == 0.0 {
        let (stripes, speed) = below_alone(levels, group, threshold);
        return Below { stripes, growth: speed / 2.0 };
    }
    // The part of the threshold that the last of `stripes` stripes in the group leaves to its target.
    let left = |stripes: u64| threshold - (2.0 * (group.load + stripes as f64) - 1.0) * group.slope;
    let (mut low, mut high) = (0, below_alone(levels, group, left(1)).0);
    let mut growth = 0.0;
    let mut at = start;
    while low < high {
        at = at.clamp(low + 1, high);
        let (stripes, speed) = below_alone(levels, group, left(at));
        growth = speed;
        let step = (stripes as f64 - at as f64) / (1.0 + speed * group.slope);
        if stripes >= at {
            (low, high) = (at, high.min(stripes));
        } else {
            (low, high) = (low.max(stripes), at - 1);
        }
        at = (at as f64 + step).max(0.0) as u64;
    }
    Below { stripes: low, growth: growth / 2.0 / (1.0 + growth * group.slope) }
}

/// The stripes of a group whose marginal cost at their target is at most `threshold`, and the speed of the targets
/// that would take more at a higher one.
fn below_alone(levels: &Levels, group: &Group, threshold: f64) -> (u64, f64) {
    let (mut stripes, mut speed) = (0, 0.0);
    let range = group.range();
    let positions =
        levels.load[range.clone()].iter().zip(&levels.speed[range.clone()]).zip(&levels.room[range]);
    for ((&load, &own), &room) in positions {
        let count = stripes_below(load, own, room, threshold);
        stripes += u64::from(count);
        let is_open = count > 0 && f64::from(count) < room;
        speed += if is_open { own } else { 0.0 };
    }
    (stripes, speed)
}

/// The number of stripes of a position that cost at most `threshold` each: `(2 (load + k) + 1) / speed <= threshold`.
fn stripes_below(load: f64, speed: f64, room: f64, threshold: f64) -> u32 {
    let count = threshold * speed / 2.0 + 0.5 - load;
    // The cast cuts to a whole number and negative ones to 0.
    count.min(room) as u32
}
