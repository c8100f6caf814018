//! A placement of unequal stripes made better by exchanging stripes between two targets.
//!
//! Heaviest-first leaves it to the last stripes, the small ones, to even out the gaps of the large ones. Where small
//! stripes are few, an exchange of a large stripe for a small one, or of two for one, still gains (the 2-exchange
//! neighbourhood of Finn and Horowitz, BIT 19, 1979, with up to two stripes on either side).
//!
//! Some placements even out all programs together nearly equally well. Among them a placement is better that evens out
//! each program by itself: programs do not use all their files at the same moments.

use super::{Demand, View};

/// Targets that are tried on either side of an exchange: those whose last byte costs most, and least.
const ENDS_MAX: usize = 64;
/// Kinds up to which two stripes at once are exchanged; the pairs of more would be too many to try.
const PAIRED_KINDS_MAX: usize = 8;
/// Weight of the squared loads of each program by itself, beside the loads of all programs together.
const OWN_WEIGHT: f64 = 1.0 / 16.0;
/// Exchanges that are weighed before the search ends: some milliseconds.
const WORK_MAX: u64 = 1_000_000;
/// Part of the changed amount that an exchange must gain, so that rounding does not look like a gain.
const GAIN_LEAST: f64 = 1e-9;

/// Exchange stripes, given as the targets of all demands, while that lowers the sum of squared load over speed.
pub(super) fn improve(view: &View, demands: &[Demand], starts: &[usize], targets: &mut [u32]) {
    let mut search = Search::new(view, demands, starts, targets);
    let bundles = search.bundles();
    while search.pass(&bundles) && search.work < WORK_MAX {}
}

/// Kinds of the stripes that one side gives: none, one or two.
type Bundle = [Option<usize>; 2];

/// Stripes that are as good as each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    bytes: u64,
    program: u32,
}

struct Search<'a> {
    view: &'a View,
    starts: &'a [usize],
    targets: &'a mut [u32],
    /// The kinds, by falling size.
    kinds: Vec<Kind>,
    /// Demand of each stripe.
    demand_of: Vec<u32>,
    /// Stripes on each target, by kind.
    held: Vec<Vec<Vec<u32>>>,
    loads: Vec<f64>,
    server_loads: Vec<f64>,
    free_bytes: Vec<f64>,
    /// Loads of each program by itself, by its place among the programs; none where there is one.
    own_loads: Vec<Vec<f64>>,
    programs: Vec<u32>,
    work: u64,
}

impl<'a> Search<'a> {
    fn new(view: &'a View, demands: &[Demand], starts: &'a [usize], targets: &'a mut [u32]) -> Search<'a> {
        let kind = |demand: &Demand| Kind { bytes: demand.weight(), program: demand.program };
        let mut kinds: Vec<Kind> = demands.iter().map(kind).collect();
        kinds.sort_unstable_by(|one, other| other.cmp(one));
        kinds.dedup();
        let mut programs: Vec<u32> = kinds.iter().map(|kind| kind.program).collect();
        programs.sort_unstable();
        programs.dedup();
        if programs.len() == 1 {
            programs.clear();
        }
        let mut search = Search {
            view,
            starts,
            demand_of: vec![0; targets.len()],
            held: vec![vec![Vec::new(); kinds.len()]; view.targets().len()],
            own_loads: vec![vec![0.0; view.targets().len()]; programs.len()],
            programs,
            loads: view.targets().iter().map(|state| state.load_bytes).collect(),
            server_loads: view.servers().iter().map(|state| state.load_bytes).collect(),
            free_bytes: view.targets().iter().map(|state| state.free_bytes as f64).collect(),
            targets,
            kinds,
            work: 0,
        };
        for (number, demand) in demands.iter().enumerate() {
            let place = search.kinds.partition_point(|&other| other > kind(demand));
            for stripe in starts[number]..starts[number + 1] {
                let target = search.targets[stripe] as usize;
                search.demand_of[stripe] = number as u32;
                search.held[target][place].push(stripe as u32);
                search.add(target, kind(demand), 1.0);
            }
        }
        search
    }

    /// The bundles that one side can give.
    fn bundles(&self) -> Vec<Bundle> {
        let kinds = 0..self.kinds.len();
        let mut bundles = vec![[None, None]];
        bundles.extend(kinds.clone().map(|kind| [Some(kind), None]));
        if self.kinds.len() <= PAIRED_KINDS_MAX {
            bundles.extend(
                kinds.flat_map(|one| (one..self.kinds.len()).map(move |other| [Some(one), Some(other)])),
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
                if bytes < 0.0 || bytes > self.free_bytes[to] || given == taken {
                    continue;
                }
                let change = self.change(from, to, bytes) + self.own_change(from, to, given, taken);
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
        bundle.iter().flatten().map(|&kind| self.kinds[kind].bytes as f64).sum()
    }

    /// The cost of a target's last byte.
    fn marginal(&self, target: usize) -> f64 {
        let server = self.view.server_of(target);
        self.loads[target] / self.view.targets()[target].speed
            + self.server_loads[server] / self.view.servers()[server].speed
    }

    /// Change of the cost when `bytes` more go from one target to another than come back.
    fn change(&self, from: usize, to: usize, bytes: f64) -> f64 {
        let mut change = self.shifted(&self.loads, from, to, bytes);
        let (source, sink) = (self.view.server_of(from), self.view.server_of(to));
        if source != sink {
            let speed = |server: usize| self.view.servers()[server].speed;
            change += grown(self.server_loads[source], speed(source), -bytes)
                + grown(self.server_loads[sink], speed(sink), bytes);
        }
        change
    }

    /// The change for the loads that the programs of the exchanged stripes have by themselves, with its weight.
    fn own_change(&self, from: usize, to: usize, given: Bundle, taken: Bundle) -> f64 {
        let of = |bundle: Bundle, program: u32| {
            let kinds = bundle.into_iter().flatten().map(|kind| self.kinds[kind]);
            kinds.filter(|kind| kind.program == program).map(|kind| kind.bytes as f64).sum::<f64>()
        };
        let changes = self.programs.iter().zip(&self.own_loads).map(|(&program, loads)| {
            let bytes = of(given, program) - of(taken, program);
            if bytes == 0.0 {
                0.0
            } else {
                self.shifted(loads, from, to, bytes)
            }
        });
        OWN_WEIGHT * changes.sum::<f64>()
    }

    /// Change of the squares of two targets' loads over their speeds when `bytes` go from one to the other.
    fn shifted(&self, loads: &[f64], from: usize, to: usize, bytes: f64) -> f64 {
        let speed = |target: usize| self.view.targets()[target].speed;
        grown(loads[from], speed(from), -bytes) + grown(loads[to], speed(to), bytes)
    }

    fn gains(&self, from: usize, to: usize, change: f64) -> bool {
        let scale = |target: usize| self.loads[target].powi(2) / self.view.targets()[target].speed;
        change < -GAIN_LEAST * (scale(from) + scale(to))
    }

    /// Stripes of these kinds on `from` whose demands have none on `to`.
    fn pick(&self, bundle: Bundle, from: usize, to: usize) -> Option<Vec<u32>> {
        let mut picked: Vec<u32> = Vec::with_capacity(bundle.len());
        for kind in bundle.into_iter().flatten() {
            let is_free = |stripe: &&u32| {
                let demand = self.demand_of[**stripe as usize] as usize;
                let own = &self.targets[self.starts[demand]..self.starts[demand + 1]];
                !picked.contains(stripe) && !own.contains(&(to as u32))
            };
            picked.push(*self.held[from][kind].iter().find(is_free)?);
        }
        Some(picked)
    }

    fn shift(&mut self, stripe: u32, from: usize, to: usize) {
        for place in 0..self.kinds.len() {
            if let Some(found) = self.held[from][place].iter().position(|&other| other == stripe) {
                self.held[from][place].swap_remove(found);
                self.held[to][place].push(stripe);
                self.targets[stripe as usize] = to as u32;
                self.add(from, self.kinds[place], -1.0);
                self.add(to, self.kinds[place], 1.0);
                return;
            }
        }
    }

    fn add(&mut self, target: usize, kind: Kind, stripes: f64) {
        let bytes = stripes * kind.bytes as f64;
        self.loads[target] += bytes;
        self.server_loads[self.view.server_of(target)] += bytes;
        self.free_bytes[target] -= bytes;
        if let Ok(place) = self.programs.binary_search(&kind.program) {
            self.own_loads[place][target] += bytes;
        }
    }
}

/// Change of a squared load over speed when it grows by `bytes`.
fn grown(load: f64, speed: f64, bytes: f64) -> f64 {
    bytes * (2.0 * load + bytes) / speed
}
