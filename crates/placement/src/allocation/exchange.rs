//! The least cost of a sharing-out where servers' loads cost too and demands of different counts compete for targets.
//!
//! A convex flow: each class of demands sends its stripes to targets (at most one a demand and target), they go on to their
//! server and from there to the sink; targets and servers cost what they carry, squared over their speed. A flow is
//! of least cost exactly when its residual graph has no cycle of negative cost (Ahuja, Magnanti and Orlin, Network
//! Flows, 1993, theorem 9.1 and section 14). Cycles are cancelled in steps of a power of two that halves (capacity
//! scaling) down to single stripes, so the last pass proves the optimum.
//!
//! Targets are contracted: what matters of a server's targets to a class is the cheapest to add to and the dearest to
//! take from, and a stripe of one class can step aside for another's on the same target at no cost.

use super::classes::Class;
use super::levels::Levels;

/// A cycle must gain this part of the costs it adds up, so that rounding does not look like a gain.
const GAIN_LEAST: f64 = 1e-11;

/// Arcs that are looked at before the search gives up: about two seconds. Demands of hundreds of different counts that
/// all want the same few targets need more, and by then hardly anything is left to gain.
const WORK_MAX: u64 = 1_000_000_000;

/// Change `shares`, and the loads of `levels` with them, until nothing can be gained; whether that was reached.
pub(super) fn settle(levels: &mut Levels, classes: &[Class], shares: &mut [Vec<u32>]) -> bool {
    let members: Vec<u32> = classes.iter().map(Class::members).collect();
    let most = members.iter().copied().max().unwrap_or(0);
    let mut step = if most > 1 { 1 << (most.ilog2() - 1) } else { 1 };
    let mut work = 0;
    loop {
        let mut graph = Graph::new(levels, &members, shares, step);
        loop {
            let cycles = graph.cycles(shares);
            if cycles.is_empty() {
                break;
            }
            // The cycles share no node, so no cycle changes the cost of another.
            cycles.iter().for_each(|cycle| graph.cancel(levels, shares, cycle));
            if work + graph.work > WORK_MAX {
                return false;
            }
        }
        if step == 1 {
            return true;
        }
        work += graph.work;
        step /= 2;
    }
}

/// An arc of the contracted residual graph. Its nodes: classes, then groups, then the sink.
#[derive(Clone, Copy, Debug)]
struct Arc {
    from: u32,
    to: u32,
    /// Cost of one stripe, when a step of them is moved; infinite where none can be.
    cost: f64,
    /// The position that it goes through, for arcs at a class.
    position: u32,
}

const NONE: u32 = u32::MAX;

/// The residual graph of steps of `step` stripes.
struct Graph<'a> {
    members: &'a [u32],
    step: u32,
    /// The arcs of each group: to and from the sink, then from and to each class.
    arcs: Vec<Arc>,
    aside: StepsAside,
    distance: Vec<f64>,
    /// The node from which each was reached last, and by which arc: none where one class steps aside for another.
    reached: Vec<(u32, u32)>,
    /// Arcs looked at.
    work: u64,
}

impl<'a> Graph<'a> {
    fn new(levels: &Levels, members: &'a [u32], shares: &[Vec<u32>], step: u32) -> Graph<'a> {
        let nodes = members.len() + levels.groups.len() + 1;
        let none = Arc { from: NONE, to: NONE, cost: f64::INFINITY, position: NONE };
        let mut graph = Graph {
            members,
            step,
            arcs: vec![none; levels.groups.len() * (2 + 2 * members.len())],
            aside: StepsAside::new(members.len()),
            distance: vec![0.0; nodes],
            reached: vec![(NONE, NONE); nodes],
            work: 0,
        };
        for group in 0..levels.groups.len() {
            graph.gather(levels, shares, group);
        }
        for position in 0..levels.len() {
            graph.aside.see(members, shares, position, step);
        }
        graph
    }

    /// Cycles of negative cost, without a common node; none only where there is none.
    fn cycles(&mut self, shares: &[Vec<u32>]) -> Vec<Vec<Arc>> {
        loop {
            let mut cycles = self.find();
            if cycles.is_empty() {
                return cycles;
            }
            cycles.retain_mut(|cycle| self.is_whole(cycle, shares));
            if !cycles.is_empty() {
                return cycles;
            }
        }
    }

    /// Whether a cycle's classes can still step aside; finds where.
    fn is_whole(&mut self, cycle: &mut [Arc], shares: &[Vec<u32>]) -> bool {
        let classes = self.members.len() as u32;
        let mut is_whole = true;
        for arc in cycle.iter_mut().filter(|arc| arc.from < classes && arc.to < classes) {
            arc.position = self.aside.position(self.members, shares, arc.from, arc.to, self.step);
            is_whole &= arc.position != NONE;
        }
        is_whole
    }

    /// Cycles of negative cost (Bellman and Ford, from everywhere at once), if all stepping aside is still possible.
    fn find(&mut self) -> Vec<Vec<Arc>> {
        self.distance.fill(0.0);
        self.reached.fill((NONE, NONE));
        let nodes = self.distance.len();
        for round in 0..nodes {
            if !self.relax() {
                break;
            }
            // The predecessors of a negative cycle close soon after it was entered: look now and then.
            if round % 4 == 3 || round + 1 == nodes {
                let cycles = self.closed();
                if !cycles.is_empty() {
                    return cycles;
                }
            }
        }
        Vec::new()
    }

    /// One pass over all arcs; whether a distance changed.
    fn relax(&mut self) -> bool {
        let mut is_changed = false;
        self.work += (self.arcs.len() + self.members.len() * self.members.len()) as u64;
        for (number, arc) in self.arcs.iter().enumerate() {
            if arc.cost == f64::INFINITY {
                continue;
            }
            let distance = self.distance[arc.from as usize] + arc.cost;
            let known = self.distance[arc.to as usize];
            if distance < known - GAIN_LEAST * (arc.cost.abs() + known.abs()) {
                self.distance[arc.to as usize] = distance;
                self.reached[arc.to as usize] = (arc.from, number as u32);
                is_changed = true;
            }
        }
        for from in 0..self.members.len() as u32 {
            let distance = self.distance[from as usize];
            for to in self.aside.of(from) {
                let known = self.distance[to as usize];
                if distance < known - GAIN_LEAST * known.abs() {
                    self.distance[to as usize] = distance;
                    self.reached[to as usize] = (from, NONE);
                    is_changed = true;
                }
            }
        }
        is_changed
    }

    /// The cycles among the arcs by which nodes were reached that gain.
    fn closed(&self) -> Vec<Vec<Arc>> {
        let mut cycles = Vec::new();
        let mut seen_from = vec![NONE; self.distance.len()];
        for start in 0..self.distance.len() as u32 {
            let mut node = start;
            while node != NONE && seen_from[node as usize] == NONE {
                seen_from[node as usize] = start;
                node = self.reached[node as usize].0;
            }
            if node == NONE || seen_from[node as usize] != start {
                continue;
            }
            let cycle = self.cycle_through(node);
            let gain: f64 = -cycle.iter().map(|arc| arc.cost).sum::<f64>();
            let scale: f64 = cycle.iter().map(|arc| arc.cost.abs()).sum();
            if gain > GAIN_LEAST * scale {
                cycles.push(cycle);
            }
        }
        cycles
    }

    fn cycle_through(&self, end: u32) -> Vec<Arc> {
        let mut cycle = Vec::new();
        let mut node = end;
        loop {
            let (from, number) = self.reached[node as usize];
            let aside = Arc { from, to: node, cost: 0.0, position: NONE };
            cycle.push(self.arcs.get(number as usize).copied().unwrap_or(aside));
            node = from;
            if node == end {
                return cycle;
            }
        }
    }

    /// Find the arcs at a group.
    fn gather(&mut self, levels: &Levels, shares: &[Vec<u32>], number: usize) {
        let group = &levels.groups[number];
        let classes = self.members.len();
        let node = (classes + number) as u32;
        let sink = (classes + levels.groups.len()) as u32;
        let amount = f64::from(self.step);
        let arcs = &mut self.arcs[number * (2 + 2 * classes)..][..2 + 2 * classes];
        arcs[0] = Arc { from: node, to: sink, cost: group.marginal(amount), position: NONE };
        arcs[1] = Arc { from: sink, to: node, cost: -group.marginal(-amount), position: NONE };
        for (class, share) in shares.iter().enumerate() {
            let most = self.members[class];
            let class = class as u32;
            let mut add = Arc { from: class, to: node, cost: f64::INFINITY, position: NONE };
            let mut take = Arc { from: node, to: class, cost: f64::INFINITY, position: NONE };
            for position in group.range() {
                let part = share[position];
                let has_room = levels.room[position] >= amount && part + self.step <= most;
                let cost = levels.marginal(position, amount);
                if has_room && cost < add.cost {
                    (add.cost, add.position) = (cost, position as u32);
                }
                let cost = -levels.marginal(position, -amount);
                if part >= self.step && cost < take.cost {
                    (take.cost, take.position) = (cost, position as u32);
                }
            }
            let at = 2 + 2 * class as usize;
            (arcs[at], arcs[at + 1]) = (add, take);
        }
    }

    /// Move a step of stripes along a cycle.
    fn cancel(&mut self, levels: &mut Levels, shares: &mut [Vec<u32>], cycle: &[Arc]) {
        let (classes, step) = (shares.len(), self.step);
        let amount = f64::from(step);
        for arc in cycle {
            let (from, to, position) = (arc.from as usize, arc.to as usize, arc.position as usize);
            if from < classes {
                shares[from][position] += step;
            }
            if to < classes {
                shares[to][position] -= step;
            }
            match (from < classes, to < classes) {
                (true, false) => {
                    levels.load[position] += amount;
                    levels.room[position] -= amount;
                    levels.groups[to - classes].load += amount;
                }
                (false, true) => {
                    levels.load[position] -= amount;
                    levels.room[position] += amount;
                    levels.groups[from - classes].load -= amount;
                }
                _ => {}
            }
        }
        let touched = cycle.iter().map(|arc| arc.position).filter(|&position| position != NONE);
        for position in touched {
            let group = levels.groups.partition_point(|group| group.end <= position);
            self.gather(levels, shares, group);
            self.aside.see(self.members, shares, position as usize, step);
        }
    }
}

/// The classes that may add a step on a target where other classes take one away. They are kept as bits, which are
/// checked when they are used.
struct StepsAside {
    words: usize,
    bits: Vec<u64>,
    taking: Vec<u64>,
}

impl StepsAside {
    fn new(classes: usize) -> StepsAside {
        let words = classes.div_ceil(64);
        StepsAside { words, bits: vec![0; classes * words], taking: vec![0; words] }
    }

    /// Learns the possible steps at a position.
    fn see(&mut self, members: &[u32], shares: &[Vec<u32>], position: usize, step: u32) {
        self.taking.fill(0);
        for (class, share) in shares.iter().enumerate() {
            self.taking[class / 64] |= u64::from(share[position] >= step) << (class % 64);
        }
        for (class, share) in shares.iter().enumerate() {
            if share[position] + step <= members[class] {
                let own = &mut self.bits[class * self.words..][..self.words];
                own.iter_mut().zip(&self.taking).for_each(|(own, taking)| *own |= taking);
            }
        }
    }

    /// The classes that step aside for `class`.
    fn of(&self, class: u32) -> impl Iterator<Item = u32> + '_ {
        let own = &self.bits[class as usize * self.words..][..self.words];
        own.iter().enumerate().flat_map(|(word, &bits)| {
            let mut left = bits;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(word as u32 * 64 + bit)
            })
        })
    }

    /// The position at which `to` takes a step away and `from` adds one; forgotten where that is no longer possible.
    fn position(&mut self, members: &[u32], shares: &[Vec<u32>], from: u32, to: u32, step: u32) -> u32 {
        let (own, other) = (&shares[from as usize], &shares[to as usize]);
        let most = members[from as usize];
        let mut pairs = own.iter().zip(other);
        let found = pairs.position(|(&own, &other)| own + step <= most && other >= step);
        if found.is_none() {
            self.bits[from as usize * self.words + to as usize / 64] &= !(1 << (to % 64));
        }
        found.map_or(NONE, |position| position as u32)
    }
}
