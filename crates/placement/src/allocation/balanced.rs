//! The least sum over targets and servers of squared load over speed.

use super::classes::{share_out, Class, Sizes};
use super::counts::counts;
use super::levels::{Frontier, Levels};
use super::standings::Standings;
use super::{
    bound, check_demands, exchange, sequence, swaps, wrap, Allocation, AllocationError, Allocator,
    AllocatorName, Demand, View,
};
use std::collections::BTreeMap;

/// Number of stripe sizes above which demands are placed one by one: few are alike then.
const SIZES_MAX: usize = 64;

/// Files of so many stripe sizes can be placed in turn without looking at all targets anew.
const STANDINGS_MAX: usize = 4;

/// Places stripes so that the sum over targets and servers of squared load after placement over speed is least.
///
/// With one stripe size the result is the exact optimum. With several sizes the problem is NP-hard. Then the heaviest
/// stripes are placed first, each size at its optimum over the stripes that are there. Stripes are exchanged afterwards
/// while that gains, and the allocation states its greatest distance from the best. The same holds where hundreds of
/// different stripe counts contend for few targets on servers whose loads count, because proving the optimum would take
/// long.
#[derive(Clone, Debug, Default)]
pub struct Balanced {
    /// The place among equals that gets the next stripe.
    rotation: u32,
    levels: Levels,
    frontier: Frontier,
    /// Standings for the stripe sizes of single files, the last one first.
    standings: Vec<Standings>,
}

impl Allocator for Balanced {
    fn name(&self) -> &str {
        AllocatorName::Balanced.text()
    }

    fn allocate(
        &mut self,
        view: &View,
        demands: &[Demand],
        _random: &mut dyn FnMut() -> u64,
    ) -> Result<Allocation, AllocationError> {
        check_demands(view, demands)?;
        let sizes = by_size(demands);
        let starts = sequence::starts(demands);
        let mut targets = vec![0; starts.last().copied().unwrap_or(0)];
        let mut is_optimal = sizes.len() <= 1;
        if sizes.len() <= SIZES_MAX {
            let empty = view;
            let mut view = std::borrow::Cow::Borrowed(view);
            for (place, (&bytes, classes)) in sizes.iter().rev().enumerate() {
                if place > 0 {
                    let last = sizes.iter().rev().nth(place - 1);
                    load(view.to_mut(), last, &starts, &targets);
                }
                let placed = self.place_size(&view, bytes, classes, &starts, &mut targets);
                is_optimal &= placed.map_err(|error| of_all(error, targets.len()))?;
            }
            if sizes.len() > 1 {
                swaps::improve(empty, demands, &starts, &mut targets);
            }
        } else {
            let (levels, frontier) = (&mut self.levels, &mut self.frontier);
            sequence::place(view, demands, self.rotation, levels, frontier, &mut targets)?;
        }
        self.rotation = self.rotation.wrapping_add(targets.len() as u32);
        let mut allocation = Allocation::new(view, demands, targets);
        allocation.bound = Some(if is_optimal {
            allocation.cost
        } else {
            bound::least_cost(view, demands, allocation.cost)
        });
        Ok(allocation)
    }
}

impl Balanced {
    /// The next turn among equals is that of this place.
    pub fn begin_at(&mut self, place: u32) {
        self.rotation = place;
    }

    /// Choose the targets of one demand on a view that is kept up to date, and append them to `targets`.
    ///
    /// Equals take turns. Takes time that grows with the logarithm of the number of targets, as long as few of them change
    /// between two files of a stripe size and none gets another speed.
    ///
    /// # Errors
    /// As [`Allocator::allocate`]; `targets` are left as they were.
    pub fn place_one(
        &mut self,
        view: &View,
        demand: Demand,
        targets: &mut Vec<u32>,
    ) -> Result<(), AllocationError> {
        let rotation = self.rotation;
        let standings = self.standings_of(demand.weight() as f64);
        standings.follow(view);
        sequence::check_one(standings.used(), demand, view.targets().len())?;
        standings.take(demand.stripes, rotation, targets)?;
        self.rotation = rotation.wrapping_add(u32::from(demand.stripes));
        Ok(())
    }

    /// Goes on with the turn of another allocator, and the other with this one's.
    pub fn swap_turns(&mut self, other: &mut Balanced) {
        std::mem::swap(&mut self.rotation, &mut other.rotation);
    }

    /// The standings for stripes of `step` bytes, in place of those that were not asked for longest where they are new.
    fn standings_of(&mut self, step: f64) -> &mut Standings {
        let found = self.standings.iter().position(|standings| standings.step() == step);
        let number = found.unwrap_or_else(|| {
            self.standings.truncate(STANDINGS_MAX - 1);
            self.standings.push(Standings::new(step));
            self.standings.len() - 1
        });
        self.standings[..=number].rotate_right(1);
        &mut self.standings[0]
    }

    /// Place the demands of one stripe size at the least cost; whether it is proven to be that.
    fn place_size(
        &mut self,
        view: &View,
        bytes: u64,
        classes: &[Class],
        starts: &[usize],
        targets: &mut [u32],
    ) -> Result<bool, AllocationError> {
        let (levels, frontier) = (&mut self.levels, &mut self.frontier);
        levels.load_from(view, bytes, self.rotation);
        let found = counts(levels, frontier, &Sizes::of(classes))?;
        let mut shares = share_out(classes, found.counts, levels);
        let is_optimal = found.is_optimal || exchange::settle(levels, classes, &mut shares);
        let servers: Vec<u32> =
            levels.index.iter().map(|&target| view.server_of(target as usize) as u32).collect();
        for (class, share) in classes.iter().zip(&shares) {
            wrap::deal(class, share, levels, &servers, starts, targets);
        }
        Ok(is_optimal)
    }
}

/// Demands of one size that do not fit leave no room for all demands either.
fn of_all(error: AllocationError, stripes: usize) -> AllocationError {
    match error {
        AllocationError::DoesNotFit { missing, .. } => {
            AllocationError::DoesNotFit { missing, stripes: stripes as u64 }
        }
        other => other,
    }
}

/// The demands by stripe size, and those of one size by falling number of stripes.
fn by_size(demands: &[Demand]) -> BTreeMap<u64, Vec<Class>> {
    let mut sizes: BTreeMap<u64, BTreeMap<u16, Vec<u32>>> = BTreeMap::new();
    for (number, demand) in demands.iter().enumerate() {
        let of_size = sizes.entry(demand.weight()).or_default();
        of_size.entry(demand.stripes).or_default().push(number as u32);
    }
    let class = |(stripes, demands)| Class { stripes: u32::from(stripes), demands };
    let classes = |classes: BTreeMap<u16, Vec<u32>>| classes.into_iter().rev().map(class).collect();
    sizes.into_iter().map(|(bytes, of_size)| (bytes, classes(of_size))).collect()
}

/// Counts the placed stripes of one size as load of the view.
fn load(view: &mut View, size: Option<(&u64, &Vec<Class>)>, starts: &[usize], targets: &[u32]) {
    let Some((&bytes, classes)) = size else { return };
    for &demand in classes.iter().flat_map(|class| &class.demands) {
        for &target in &targets[starts[demand as usize]..starts[demand as usize + 1]] {
            view.place(target as usize, bytes);
        }
    }
}
