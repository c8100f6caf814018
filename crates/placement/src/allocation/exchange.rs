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

/// Change `shares`, and the loads of `levels` with them, until nothing can be gained.
pub(super) fn settle(levels: &mut Levels, classes: &[Class], shares: &mut [Vec<u32>]) {
    let most = classes.iter().map(Class::members).max().unwrap_or(0);
    let mut step = if most > 1 { 1 << (most.ilog2() - 1) } else { 1 };
    let mut graph = Graph::new(levels, classes);
    loop {
        while let Some(cycle) = graph.cycle(levels, shares, step) {
            graph.cancel(levels, shares, step, &cycle);
        }
        if step == 1 {
            return;
        }
        step /= 2;
    }
}

/// An arc of the contracted residual graph. Its nodes: classes, then groups, then the sink.
#[derive(Clone, Copy, Debug)]
struct Arc {
    from: u32,
    to: u32,
    /// Cost of one stripe, when a step of them is moved.
    cost: f64,
    /// The position that it goes through, for arcs at a class.
    position: u32,
}

struct Graph {
    members: Vec<u32>,
    arcs: Vec<Arc>,
    distance: Vec<f64>,
    /// The arc by which each node was reached last.
    reached_by: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Graph {
    fn new(levels: &Levels, classes: &[Class]) -> Graph {
        let nodes = classes.len() + levels.groups.len() + 1;
        Graph {
            members: classes.iter().map(Class::members).collect(),
            arcs: Vec::new(),
            distance: vec![0.0; nodes],
            reached_by: vec![NONE; nodes],
        }
    }

    /// A cycle of negative cost in the residual graph of steps of `step` stripes.
    fn cycle(&mut self, levels: &Levels, shares: &[Vec<u32>], step: u32) -> Option<Vec<Arc>> {
        self.gather(levels, shares, step);
        self.distance.fill(0.0);
        self.reached_by.fill(NONE);
        let nodes = self.distance.len();
        for round in 0..nodes {
            let mut is_changed = false;
            for (number, arc) in self.arcs.iter().enumerate() {
                let distance = self.distance[arc.from as usize] + arc.cost;
                let known = self.distance[arc.to as usize];
                let scale = arc.cost.abs() + known.abs();
                if distance < known - GAIN_LEAST * scale {
                    self.distance[arc.to as usize] = distance;
                    self.reached_by[arc.to as usize] = number as u32;
                    is_changed = true;
                }
            }
            if !is_changed {
                return None;
            }
            // The predecessors of a negative cycle close soon after it was entered: look now and then.
            if round % 4 == 3 || round + 1 == nodes {
                if let Some(cycle) = self.closed() {
                    return Some(cycle);
                }
            }
        }
        None
    }

    /// A cycle among the arcs by which nodes were reached, if it gains.
    fn closed(&self) -> Option<Vec<Arc>> {
        let mut seen_from = vec![NONE; self.distance.len()];
        for start in 0..self.distance.len() as u32 {
            let mut node = start;
            while seen_from[node as usize] == NONE {
                seen_from[node as usize] = start;
                match self.reached_by[node as usize] {
                    NONE => break,
                    arc => node = self.arcs[arc as usize].from,
                }
            }
            if seen_from[node as usize] != start || self.reached_by[node as usize] == NONE {
                continue;
            }
            let mut cycle = Vec::new();
            let end = node;
            loop {
                let arc = self.arcs[self.reached_by[node as usize] as usize];
                cycle.push(arc);
                node = arc.from;
                if node == end {
                    break;
                }
            }
            let gain: f64 = -cycle.iter().map(|arc| arc.cost).sum::<f64>();
            let scale: f64 = cycle.iter().map(|arc| arc.cost.abs()).sum();
            if gain > GAIN_LEAST * scale {
                return Some(cycle);
            }
        }
        None
    }

    /// Collect the arcs.
    fn gather(&mut self, levels: &Levels, shares: &[Vec<u32>], step: u32) {
        self.arcs.clear();
        let classes = shares.len() as u32;
        let sink = classes + levels.groups.len() as u32;
        let amount = f64::from(step);
        for (number, group) in levels.groups.iter().enumerate() {
            let node = classes + number as u32;
            self.arcs.push(Arc { from: node, to: sink, cost: group.marginal(amount), position: NONE });
            let placed: u64 =
                shares.iter().flat_map(|share| &share[group.range()]).map(|&part| u64::from(part)).sum();
            if placed >= u64::from(step) {
                let cost = -group.marginal(-amount);
                self.arcs.push(Arc { from: sink, to: node, cost, position: NONE });
            }
            for (class, share) in shares.iter().enumerate() {
                let class = class as u32;
                let room_of_class = self.members[class as usize];
                let mut add = Arc { from: class, to: node, cost: f64::INFINITY, position: NONE };
                let mut take = Arc { from: node, to: class, cost: f64::INFINITY, position: NONE };
                for position in group.range() {
                    let part = share[position];
                    let has_room = levels.room[position] >= amount && part + step <= room_of_class;
                    let cost = levels.marginal(position, amount);
                    if has_room && cost < add.cost {
                        (add.cost, add.position) = (cost, position as u32);
                    }
                    let cost = -levels.marginal(position, -amount);
                    if part >= step && cost < take.cost {
                        (take.cost, take.position) = (cost, position as u32);
                    }
                }
                self.arcs.extend([add, take].into_iter().filter(|arc| arc.position != NONE));
            }
        }
        self.gather_steps_aside(shares, step);
    }

    /// Arcs from class to class: where one can add while the other takes away, on one target.
    fn gather_steps_aside(&mut self, shares: &[Vec<u32>], step: u32) {
        for (from, own) in shares.iter().enumerate() {
            for (to, other) in shares.iter().enumerate() {
                if from == to {
                    continue;
                }
                let most = self.members[from];
                let mut pairs = own.iter().zip(other);
                if let Some(position) = pairs.position(|(&own, &other)| own + step <= most && other >= step) {
                    let (from, to, position) = (from as u32, to as u32, position as u32);
                    self.arcs.push(Arc { from, to, cost: 0.0, position });
                }
            }
        }
    }

    /// Move a step of stripes along a cycle.
    fn cancel(&self, levels: &mut Levels, shares: &mut [Vec<u32>], step: u32, cycle: &[Arc]) {
        let classes = shares.len();
        let amount = f64::from(step);
        for arc in cycle {
            let (from, to, position) = (arc.from as usize, arc.to as usize, arc.position as usize);
            if from < classes {
                shares[from][position] += step;
            }
            if to < classes && position != NONE as usize {
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
    }
}
