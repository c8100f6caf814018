//! Targets drawn uniformly, distinct within a demand.

use super::{check_demands, Allocation, AllocationError, Allocator, AllocatorName, Demand, View};

/// Draws the targets of each demand uniformly, without regard to load or room.
#[derive(Clone, Debug, Default)]
pub struct Random {}

impl Allocator for Random {
    fn name(&self) -> &str {
        AllocatorName::Random.text()
    }

    fn allocate(
        &mut self,
        view: &View,
        demands: &[Demand],
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Allocation, AllocationError> {
        check_demands(view, demands)?;
        let targets = 0..view.targets().len();
        let mut deck: Vec<u32> =
            targets.filter(|&target| view.is_used(target)).map(|target| target as u32).collect();
        let mut drawn = Vec::new();
        for demand in demands {
            let stripes = usize::from(demand.stripes);
            // The first places of a Fisher-Yates shuffle; the deck need not be in order to begin with.
            for place in 0..stripes {
                let other = place + uniform(random, (deck.len() - place) as u64) as usize;
                deck.swap(place, other);
            }
            drawn.extend_from_slice(&deck[..stripes]);
        }
        Ok(Allocation::new(view, demands, drawn))
    }
}

/// A uniform number below `bound`, which is positive: the high half of a product (Lemire, ACM TOMACS 29, 2019).
///
/// Without his rejection step it is off by at most `bound / 2^64`.
pub(super) fn uniform(random: &mut dyn FnMut() -> u64, bound: u64) -> u64 {
    ((u128::from(random()) * u128::from(bound)) >> 64) as u64
}
