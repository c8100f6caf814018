//! A placement of unequal stripes made better by exchanging stripes between two targets.
//!
//! Heaviest-first leaves the last stripes, the small ones, to even out what the large ones left. Where they are few, an
//! exchange of a large stripe for a small one, or of two for one, still gains (the 2-exchange neighbourhood of
//! Finn and Horowitz, BIT 19, 1979, with up to two stripes on either side).

use super::{Demand, View};

/// Targets that are tried on either side of an exchange: those whose last byte costs most, and least.
const ENDS_MAX: usize = 64;
/// Sizes up to which two stripes at once are exchanged; the pairs of more would be too many to try.
const PAIRED_SIZES_MAX: usize = 8;
/// Exchanges that are weighed before the search ends: some milliseconds.
const WORK_MAX: u64 = 1_000_000;
/// An exchange must gain this part of what it changes, so that rounding does not look like a gain.
const GAIN_LEAST: f64 = 1e-9;

/// Exchange stripes, given as the targets of all demands, while that lowers the sum of squared load over speed.
pub(super) fn improve(view: &View, demands: &[Demand], starts: &[usize], targets: &mut [u32]) {
    let mut search = Search::new(view, demands, starts, targets);
    let bundles = search.bundles();
    while search.pass(&bundles) && search.work < WORK_MAX {}
}

/// Sizes of the stripes that one side gives: none, one or two.
type Bundle = [Option<usize>; 2];

struct Search<'a> {
    view: &'a View,
    starts: &'a [usize],
    targets: &'a mut [u32],
    /// By falling size.
    sizes: Vec<u64>,
    /// Demand of each stripe.
    demand_of: Vec<u32>,
    /// Stripes on each target, by size.
    held: Vec<Vec<Vec<u32>>>,
    loads: Vec<f64>,
    server_loads: Vec<f64>,
    free_bytes: Vec<f64>,
    work: u64,
}

impl<'a> Search<'a> {
    fn new(view: &'a View, demands: &[Demand], starts: &'a [usize], targets: &'a mut [u32]) -> Search<'a> {
        let mut sizes: Vec<u64> = demands.iter().map(|demand| demand.weight()).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        sizes.dedup();
        let mut search = Search {
            view,
            starts,
            demand_of: vec![0; targets.len()],
            held: vec![vec![Vec::new(); sizes.len()]; view.targets().len()],
            loads: view.targets().iter().map(|state| state.load_bytes).collect(),
            server_loads: view.servers().iter().map(|state| state.load_bytes).collect(),
            free_bytes: view.targets().iter().map(|state| state.free_bytes as f64).collect(),
            targets,
            sizes,
            work: 0,
        };
        for (number, demand) in demands.iter().enumerate() {
            let size = search.sizes.partition_point(|&size| size > demand.weight());
            for stripe in starts[number]..starts[number + 1] {
                let target = search.targets[stripe] as usize;
                search.demand_of[stripe] = number as u32;
                search.held[target][size].push(stripe as u32);
                search.add(target, demand.weight() as f64);
            }
        }
        search
    }

    /// What one side can give.
    fn bundles(&self) -> Vec<Bundle> {
        let sizes = 0..self.sizes.len();
        let mut bundles = vec![[None, None]];
        bundles.extend(sizes.clone().map(|size| [Some(size), None]));
        if self.sizes.len() <= PAIRED_SIZES_MAX {
            bundles.extend(
                sizes.flat_map(|one| (one..self.sizes.len()).map(move |other| [Some(one), Some(other)])),
            );
        }
        bundles
    }

    /// Give each of the dearest targets its best exchange with one of the cheapest; whether any gained.
    fn pass(&mut self, bundles: &[Bundle]) -> bool {
        let mut order: Vec<usize> =
            (0..self.loads.len()).filter(|&target| self.view.is_used(target)).collect();
        order.sort_by(|&one, &other| self.marginal(other).total_cmp(&self.marginal(one)));
        let dear: Vec<usize> = order.iter().copied().take(ENDS_MAX).collect();
        let cheap: Vec<usize> = order.iter().rev().copied().take(ENDS_MAX).collect();
        let mut is_better = false;
        for &from in &dear {
            for &to in &cheap {
                if self.work >= WORK_MAX {
                    return false;
                }
                is_better |= from != to && self.exchange(from, to, bundles);
            }
        }
        is_better
    }

    /// Carry out the best exchange of two targets, if one gains.
    fn exchange(&mut self, from: usize, to: usize, bundles: &[Bundle]) -> bool {
        if self.marginal(from) <= self.marginal(to) {
            return false;
        }
        let mut best: Option<(f64, Vec<u32>, Vec<u32>)> = None;
        for &given in bundles {
            for &taken in bundles {
                let bytes = self.bytes(given) - self.bytes(taken);
                self.work += 1;
                if bytes <= 0.0 || bytes > self.free_bytes[to] {
                    continue;
                }
                let change = self.change(from, to, bytes);
                if best.as_ref().is_some_and(|(least, ..)| change >= *least) || !self.gains(from, to, change)
                {
                    continue;
                }
                if let (Some(there), Some(back)) = (self.pick(given, from, to), self.pick(taken, to, from)) {
                    best = Some((change, there, back));
                }
            }
        }
        let Some((_, there, back)) = best else { return false };
        there.into_iter().for_each(|stripe| self.shift(stripe, from, to));
        back.into_iter().for_each(|stripe| self.shift(stripe, to, from));
        true
    }

    fn bytes(&self, bundle: Bundle) -> f64 {
        bundle.iter().flatten().map(|&size| self.sizes[size] as f64).sum()
    }

    /// What the last byte of a target costs.
    fn marginal(&self, target: usize) -> f64 {
        let server = self.view.server_of(target);
        self.loads[target] / self.view.targets()[target].speed
            + self.server_loads[server] / self.view.servers()[server].speed
    }

    /// Change of the cost when `bytes` more go from one target to another than come back.
    fn change(&self, from: usize, to: usize, bytes: f64) -> f64 {
        let of = |load: f64, speed: f64, bytes: f64| bytes * (2.0 * load + bytes) / speed;
        let speed = |target: usize| self.view.targets()[target].speed;
        let mut change = of(self.loads[from], speed(from), -bytes) + of(self.loads[to], speed(to), bytes);
        let (source, sink) = (self.view.server_of(from), self.view.server_of(to));
        if source != sink {
            let speed = |server: usize| self.view.servers()[server].speed;
            change += of(self.server_loads[source], speed(source), -bytes)
                + of(self.server_loads[sink], speed(sink), bytes);
        }
        change
    }

    fn gains(&self, from: usize, to: usize, change: f64) -> bool {
        let scale = |target: usize| self.loads[target].powi(2) / self.view.targets()[target].speed;
        change < -GAIN_LEAST * (scale(from) + scale(to))
    }

    /// Stripes of these sizes on `from` whose demands have none on `to`.
    fn pick(&self, bundle: Bundle, from: usize, to: usize) -> Option<Vec<u32>> {
        let mut picked: Vec<u32> = Vec::with_capacity(bundle.len());
        for size in bundle.into_iter().flatten() {
            let is_free = |stripe: &&u32| {
                let demand = self.demand_of[**stripe as usize] as usize;
                let own = &self.targets[self.starts[demand]..self.starts[demand + 1]];
                !picked.contains(stripe) && !own.contains(&(to as u32))
            };
            picked.push(*self.held[from][size].iter().find(is_free)?);
        }
        Some(picked)
    }

    fn shift(&mut self, stripe: u32, from: usize, to: usize) {
        for (size, &bytes) in self.sizes.iter().enumerate() {
            if let Some(place) = self.held[from][size].iter().position(|&other| other == stripe) {
                self.held[from][size].swap_remove(place);
                self.held[to][size].push(stripe);
                self.targets[stripe as usize] = to as u32;
                self.add(from, -(bytes as f64));
                self.add(to, bytes as f64);
                return;
            }
        }
    }

    fn add(&mut self, target: usize, bytes: f64) {
        self.loads[target] += bytes;
        self.server_loads[self.view.server_of(target)] += bytes;
        self.free_bytes[target] -= bytes;
    }
}
