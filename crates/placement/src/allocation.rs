//! The choice of targets for the stripes of files that are about to be made.
//!
//! An [`Allocator`] receives a [`View`] of targets and servers and the [`Demand`]s of predicted files, all jobs
//! together. It returns the targets of each demand. Randomness comes in as an argument.

mod balanced;
mod bound;
mod classes;
mod counts;
mod error;
mod exchange;
mod fill;
mod levels;
mod lustre;
mod named;
mod random;
mod sequence;
mod standings;
mod statistics;
mod swaps;
mod tree;
mod view;
mod wrap;

pub use balanced::Balanced;
pub use error::AllocationError;
pub use lustre::LustreStandard;
pub use named::{NamedTargets, NamedTargetsError};
pub use random::Random;
pub use statistics::{busy_factors, health, queue_excess, space_factors, ServerStatistics, TargetStatistics};
pub use view::{ServerState, TargetState, View};

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// One component of one file: stripes that need distinct targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Demand {
    /// Number of stripes; at least 1.
    pub stripes: u16,
    /// Bytes that each of its targets will hold; 0 counts as 1, so that empty files spread too.
    pub stripe_bytes: u64,
    /// Number of the file's program. The stripes of each program are evened out by themselves too, where that costs
    /// next to nothing.
    pub program: u32,
}

impl Demand {
    fn weight(&self) -> u64 {
        self.stripe_bytes.max(1)
    }
}

/// The targets of the stripes of each demand.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    targets: Vec<u32>,
    ends: Vec<usize>,
    /// Bytes of work of each target of the view, the placed ones included.
    pub loads_bytes: Vec<f64>,
    /// Sum over targets and servers of squared load over speed, in bytes squared per speed.
    pub cost: f64,
    /// No placement costs less than this; absent where the allocator proves nothing.
    pub bound: Option<f64>,
}

impl Allocation {
    /// Indices into the view of the targets of one demand, in stripe order.
    pub fn targets_of(&self, demand: usize) -> &[u32] {
        let start = if demand == 0 { 0 } else { self.ends[demand - 1] };
        &self.targets[start..self.ends[demand]]
    }

    /// The targets of all demands, one after the other.
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// The targets of each demand, in stripe order.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.ends.len()).map(|demand| self.targets_of(demand))
    }

    /// Cost over the best possible, at most: 1 is the proven optimum.
    pub fn ratio(&self) -> Option<f64> {
        self.bound.map(|bound| if bound > 0.0 { self.cost / bound } else { 1.0 })
    }

    /// The allocation of an algorithm of one's own: indices into the view of the targets of each demand, in stripe order.
    ///
    /// # Errors
    /// [`AllocationError::Misplaced`] where a demand has another number of targets than stripes, a target twice, or one that is
    /// not used.
    pub fn of(view: &View, demands: &[Demand], targets: &[Vec<u32>]) -> Result<Allocation, AllocationError> {
        check_demands(view, demands)?;
        let misplaced = |demand: usize| AllocationError::Misplaced { demand };
        if targets.len() != demands.len() {
            return Err(misplaced(targets.len().min(demands.len())));
        }
        for (demand, (own, wanted)) in targets.iter().zip(demands).enumerate() {
            let fits =
                |&target: &u32| (target as usize) < view.targets().len() && view.is_used(target as usize);
            let distinct: HashSet<u32> = own.iter().copied().filter(fits).collect();
            if own.len() != usize::from(wanted.stripes) || distinct.len() != own.len() {
                return Err(misplaced(demand));
            }
        }
        Ok(Allocation::new(view, demands, targets.concat()))
    }

    /// The cost of `targets`, the stripes of all demands, on `view`.
    fn new(view: &View, demands: &[Demand], targets: Vec<u32>) -> Allocation {
        let mut ends = Vec::with_capacity(demands.len());
        let mut end = 0;
        let mut loads_bytes: Vec<f64> = view.targets().iter().map(|state| state.load_bytes).collect();
        let mut servers: Vec<f64> = view.servers().iter().map(|state| state.load_bytes).collect();
        for demand in demands {
            let bytes = demand.weight() as f64;
            let stripes = usize::from(demand.stripes);
            for &target in &targets[end..end + stripes] {
                loads_bytes[target as usize] += bytes;
                servers[view.server_of(target as usize)] += bytes;
            }
            end += stripes;
            ends.push(end);
        }
        let cost = cost_of(view, &loads_bytes, &servers);
        Allocation { targets, ends, loads_bytes, cost, bound: None }
    }
}

/// Sum of squared load over speed of everything that is used.
fn cost_of(view: &View, loads_bytes: &[f64], server_loads_bytes: &[f64]) -> f64 {
    let used = (0..view.targets().len()).filter(|&target| view.is_used(target));
    let of_targets = used.map(|target| loads_bytes[target].powi(2) / view.targets()[target].speed);
    let servers = view.servers().iter().zip(server_loads_bytes).filter(|(state, _)| state.speed > 0.0);
    let of_servers = servers.map(|(state, load)| load.powi(2) / state.speed);
    of_targets.sum::<f64>() + of_servers.sum::<f64>()
}

/// A way to choose targets.
pub trait Allocator {
    /// The name it is chosen by.
    fn name(&self) -> &str;

    /// The targets of each demand: distinct within a demand.
    ///
    /// `random` yields uniform 64-bit numbers.
    ///
    /// # Errors
    /// Demands that no placement meets; nothing is placed then.
    fn allocate(
        &mut self,
        view: &View,
        demands: &[Demand],
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Allocation, AllocationError>;
}

/// The name of an allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AllocatorName {
    /// The least sum of squared loads over speeds.
    #[default]
    Balanced,
    /// Lustre's round robin and weighted random.
    LustreStandard,
    /// Uniformly drawn targets.
    Random,
}

impl AllocatorName {
    /// Every name.
    pub const NAMES: [&'static str; 3] = ["balanced", "lustre-standard", "random"];

    const ALL: [AllocatorName; 3] =
        [AllocatorName::Balanced, AllocatorName::LustreStandard, AllocatorName::Random];

    /// The name as users write it.
    pub fn text(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// A new allocator of this name.
    pub fn build(self) -> Box<dyn Allocator + Send + Sync> {
        match self {
            AllocatorName::Balanced => Box::new(Balanced::default()),
            AllocatorName::LustreStandard => Box::new(LustreStandard::default()),
            AllocatorName::Random => Box::new(Random::default()),
        }
    }
}

impl fmt::Display for AllocatorName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl FromStr for AllocatorName {
    type Err = AllocationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let place = Self::NAMES.iter().position(|&name| name == text);
        let unknown = || AllocationError::UnknownAllocator(text.to_owned());
        place.map(|place| Self::ALL[place]).ok_or_else(unknown)
    }
}

/// Refuse demands that no allocator can meet on this view.
fn check_demands(view: &View, demands: &[Demand]) -> Result<(), AllocationError> {
    let used = view.used();
    if used == 0 && !demands.is_empty() {
        return Err(AllocationError::NoTarget { targets: view.targets().len() });
    }
    for (demand, &Demand { stripes, .. }) in demands.iter().enumerate() {
        if stripes == 0 {
            return Err(AllocationError::NoStripes { demand });
        }
        if usize::from(stripes) > used {
            return Err(AllocationError::TooManyStripes { demand, stripes, used });
        }
    }
    Ok(())
}
