//! The least sum over targets and servers of squared load over speed.

use super::levels::{Frontier, Levels};
use super::{check_demands, sequence, Allocation, AllocationError, Allocator, AllocatorName, Demand, View};

/// Places stripes so that the sum over targets and servers of squared load after placement over speed is least.
#[derive(Clone, Debug, Default)]
pub struct Balanced {
    rotation: u32,
    levels: Levels,
    frontier: Frontier,
}

impl Allocator for Balanced {
    fn name(&self) -> AllocatorName {
        AllocatorName::Balanced
    }

    fn allocate(
        &mut self,
        view: &View,
        demands: &[Demand],
        _random: &mut dyn FnMut() -> u64,
    ) -> Result<Allocation, AllocationError> {
        check_demands(view, demands)?;
        let targets = sequence::place(view, demands, self.rotation, &mut self.levels, &mut self.frontier)?;
        self.rotation = self.rotation.wrapping_add(targets.len() as u32);
        Ok(Allocation::new(view, demands, targets))
    }
}
