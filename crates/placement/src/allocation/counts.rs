//! The number of stripes of one size on each target, where demands ask for different numbers of stripes.
//!
//! Counts can be dealt out to the demands exactly when no set of targets has more stripes than the demands can have on
//! so many targets (Gale and Ryser). This condition is a polymatroid. Water-filling ignores the condition. Where the
//! answer of water-filling breaks it, the targets of the worst breach take exactly as much as they can, and both sides
//! are filled by themselves: Groenevelt's decomposition (European Journal of Operational Research 54, 1991), exact for
//! a separable convex cost. Where servers' loads cost too, the two sides depend on each other, and `exchange` mends the
//! rest.

use super::classes::Sizes;
use super::fill::fill;
use super::levels::{Frontier, Group, Levels};
use super::AllocationError;

/// The counts, and whether they are the least cost already.
pub(super) struct Counts {
    pub(super) counts: Vec<u32>,
    pub(super) is_optimal: bool,
}

/// Counts of the least cost for `sizes` on `levels`, which count in stripes; the counts are added to their loads.
///
/// # Errors
/// When not all stripes fit.
pub(super) fn counts(
    levels: &mut Levels,
    frontier: &mut Frontier,
    sizes: &Sizes,
) -> Result<Counts, AllocationError> {
    let missing = missing(levels, sizes);
    if missing > 0 {
        return Err(AllocationError::DoesNotFit { missing, stripes: sizes.total() });
    }
    let positions: Vec<u32> = (0..levels.len() as u32).collect();
    let mut counts = vec![0; levels.len()];
    let parts = decompose(levels, frontier, sizes, &positions, &mut counts);
    let is_separable = levels.groups.iter().all(|group| group.slope == 0.0);
    Ok(Counts { counts, is_optimal: parts == 1 || is_separable })
}

/// The number of stripes of `sizes` that find no room in the best case (Gale and Ryser, with room for so many on each
/// target).
fn missing(levels: &Levels, sizes: &Sizes) -> u64 {
    let members = sizes.members();
    let mut rooms: Vec<u32> =
        levels.room.iter().map(|&room| room.floor().min(f64::from(members)) as u32).collect();
    rooms.sort_unstable_by(|one, other| other.cmp(one));
    let mut outside: u64 = rooms.iter().map(|&room| u64::from(room)).sum();
    let mut most = outside;
    for (number, &room) in rooms.iter().enumerate().take(sizes.most() as usize) {
        outside -= u64::from(room);
        most = most.min(sizes.within(number as u32 + 1) + outside);
    }
    sizes.total().saturating_sub(most)
}

/// Fill `positions` of `levels` with `sizes`; the number of parts that were filled each by itself.
fn decompose(
    levels: &mut Levels,
    frontier: &mut Frontier,
    sizes: &Sizes,
    positions: &[u32],
    counts: &mut [u32],
) -> usize {
    if sizes.0.is_empty() {
        return 0;
    }
    let mut part = only(levels, positions);
    let mut own = Vec::new();
    fill(&mut part, frontier, sizes.total(), sizes.members(), &mut own);
    let Some(breach) = worst_breach(&own, sizes, &part) else {
        for (&position, &count) in positions.iter().zip(&own) {
            put(levels, position as usize, count);
            counts[position as usize] = count;
        }
        return 1;
    };
    let (inside, outside): (Vec<usize>, Vec<usize>) =
        (0..own.len()).partition(|&place| breach.is_inside[place]);
    let positions_of =
        |places: Vec<usize>| places.into_iter().map(|place| positions[place]).collect::<Vec<_>>();
    let (sizes_inside, sizes_outside) = sizes.split(breach.targets);
    let parts = decompose(levels, frontier, &sizes_inside, &positions_of(inside), counts);
    parts + decompose(levels, frontier, &sizes_outside, &positions_of(outside), counts)
}

/// The targets that have the most stripes more than the demands can have on so many.
struct Breach {
    targets: u32,
    is_inside: Vec<bool>,
}

fn worst_breach(counts: &[u32], sizes: &Sizes, levels: &Levels) -> Option<Breach> {
    let mut order: Vec<u32> = (0..counts.len() as u32).collect();
    // Only sets of fewer targets than some demand has stripes can be too full.
    let most = (sizes.most() as usize).min(order.len());
    let key = |&place: &u32| (std::cmp::Reverse(counts[place as usize]), levels.rank[place as usize]);
    if most < order.len() && most > 0 {
        order.select_nth_unstable_by_key(most - 1, key);
    }
    order[..most].sort_unstable_by_key(key);
    let (mut sum, mut worst) = (0, None);
    for (number, &place) in order[..most].iter().enumerate() {
        let targets = number as u32 + 1;
        sum += u64::from(counts[place as usize]);
        let over = sum.saturating_sub(sizes.within(targets));
        if over > worst.map_or(0, |(over, _)| over) {
            worst = Some((over, targets));
        }
    }
    let (_, targets) = worst?;
    let mut is_inside = vec![false; counts.len()];
    order[..targets as usize].iter().for_each(|&place| is_inside[place as usize] = true);
    Some(Breach { targets, is_inside })
}

/// Count `stripes` more as load of a position and of its group.
fn put(levels: &mut Levels, position: usize, stripes: u32) {
    let stripes = f64::from(stripes);
    levels.load[position] += stripes;
    levels.room[position] -= stripes;
    let group = levels.groups.partition_point(|group| group.end as usize <= position);
    levels.groups[group].load += stripes;
}

/// The levels of some positions, in ascending order, alone.
fn only(levels: &Levels, positions: &[u32]) -> Levels {
    if positions.len() == levels.len() {
        return levels.clone();
    }
    let mut part = Levels::default();
    let mut rest = positions;
    for group in &levels.groups {
        let (own, later) = rest.split_at(rest.partition_point(|&position| position < group.end));
        rest = later;
        if own.is_empty() {
            continue;
        }
        let first = part.len() as u32;
        for &position in own {
            let position = position as usize;
            part.index.push(levels.index[position]);
            part.load.push(levels.load[position]);
            part.speed.push(levels.speed[position]);
            part.room.push(levels.room[position]);
            part.rank.push(levels.rank[position]);
        }
        part.groups.push(Group { first, end: part.len() as u32, ..*group });
    }
    part
}
