//! One demand after the other, heaviest first, each on the targets where it costs least at its turn.
//!
//! Stripes of unequal size make the least sum of squares NP-hard (one target pair and one demand a number is
//! PARTITION); heaviest first is the longest-processing-time rule.

use super::levels::{Frontier, Levels};
use super::{AllocationError, Demand, View};

/// Demands whose stripes differ by less than this ratio share one order of the targets: the order changes with
/// the stripe's size only between targets of different speeds, and then by at most this much of one stripe.
const NEARLY_EQUAL: f64 = 63.0 / 64.0;

/// Fills in the targets of `demands`, one after the other in the order of `demands`.
///
/// # Errors
/// When a demand does not fit into what the ones before left free.
pub(super) fn place(
    view: &View,
    demands: &[Demand],
    rotation: u32,
    levels: &mut Levels,
    frontier: &mut Frontier,
    targets: &mut [u32],
) -> Result<(), AllocationError> {
    let mut order: Vec<u32> = (0..demands.len() as u32).collect();
    let key = |&demand: &u32| {
        let Demand { stripes, .. } = demands[demand as usize];
        (std::cmp::Reverse(demands[demand as usize].weight()), std::cmp::Reverse(stripes))
    };
    order.sort_by_key(key);
    let starts = starts(demands);
    let mut held = Vec::new();
    let mut batch = f64::INFINITY;
    let mut missing = 0;
    levels.load_from(view, 1, rotation);
    for (place, &demand) in order.iter().enumerate() {
        let demand = demand as usize;
        let weight = demands[demand].weight() as f64;
        if weight < NEARLY_EQUAL * batch {
            batch = weight;
            frontier.build(levels, weight, least_of_batch(demands, &order[place..], weight));
        }
        held.clear();
        for slot in &mut targets[starts[demand]..starts[demand + 1]] {
            match frontier.hold(levels, weight, &mut held) {
                Some(position) => *slot = levels.index[position],
                None => missing += 1,
            }
        }
        for &position in &held {
            frontier.release(levels, position as usize);
        }
    }
    if missing > 0 {
        return Err(AllocationError::DoesNotFit { missing, stripes: targets.len() as u64 });
    }
    Ok(())
}

/// The lightest stripe of those at the front of `order` that share the order of targets of the `heaviest`.
fn least_of_batch(demands: &[Demand], order: &[u32], heaviest: f64) -> f64 {
    let weights = order.iter().map(|&demand| demands[demand as usize].weight() as f64);
    weights.take_while(|&weight| weight >= NEARLY_EQUAL * heaviest).last().unwrap_or(heaviest)
}

/// Refuse a demand that no placement on the `used` ones of `targets` can meet.
pub(super) fn check_one(used: usize, demand: Demand, targets: usize) -> Result<(), AllocationError> {
    match demand.stripes {
        0 => Err(AllocationError::NoStripes { demand: 0 }),
        _ if used == 0 => Err(AllocationError::NoTarget { targets }),
        stripes if usize::from(stripes) > used => {
            Err(AllocationError::TooManyStripes { demand: 0, stripes, used })
        }
        _ => Ok(()),
    }
}

/// The first stripe of each demand among the stripes of all; one entry more than there are demands.
pub(super) fn starts(demands: &[Demand]) -> Vec<usize> {
    let mut start = 0;
    let mut starts = Vec::with_capacity(demands.len() + 1);
    starts.push(0);
    for demand in demands {
        start += usize::from(demand.stripes);
        starts.push(start);
    }
    starts
}
