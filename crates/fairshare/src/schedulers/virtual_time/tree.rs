//! The share tree: which leaf is served next, so that every node divides its time by weight.
//!
//! Each inner node orders its children by WF2Q+ / EEVDF: eligible is a child that has not had more
//! than its due (start <= the node's virtual time), and of those the earliest finish is served
//! (Bennett and Zhang, "Hierarchical packet fair queueing algorithms", SIGCOMM 1996). So at every
//! node a backlogged child is at most one request ahead of, or behind, its share of the node's time.

use std::collections::HashMap;
use std::hint::select_unpredictable;
use std::num::NonZeroU32;

use super::order::{Order, Standing};
use super::wheel::Link;
use crate::branch::Branch;
use crate::policy::Entity;
use crate::schedulers::REQUEST_COST_MAX;
use crate::time::Nanos;

/// Virtual time is device time over weight, in units of 2^-22 ns: a request of 1 us still moves a
/// child of the largest weight by a unit or two.
pub(crate) const FRACTION_BITS: u32 = 22;
/// Inverses of weights are in units of 2^-64.
const INVERSE_BITS: u32 = 64;
/// Virtual time from which a node's clock is set back to zero, with all that is measured by it. Beyond
/// it, three times REQUEST_COST_MAX at the least weight still fits an i64.
const VIRTUAL_TIME_MAX: i64 = 1 << 61;

/// A node of one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(NonZeroU32);

/// The order among one inner node's children.
#[derive(Clone, Copy, Debug)]
struct ArbiterId(NonZeroU32);

impl NodeId {
    const ROOT: NodeId = NodeId(NonZeroU32::MIN);

    fn new(index: usize) -> NodeId {
        NodeId(from_index(index))
    }

    pub(crate) fn index(self) -> usize {
        to_index(self.0)
    }

    /// Its number in the wheels.
    fn item(self) -> u32 {
        self.index() as u32
    }
}

/// The fields of a node that a decision reads and writes: one cache line, because with ten thousand jobs a decision is
/// as fast as the lines it misses.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Node {
    /// Virtual time at its parent from which its next request counts; while it is withheld, relative to
    /// its parent's.
    pub(crate) start: i64,
    /// Virtual time at its parent at which its next request, if it has one, is due.
    pub(crate) finish: i64,
    /// The place of the node among its parent's children that have requests.
    pub(crate) standing: Standing,
    /// One over its weight.
    inverse: u64,
    /// The request that comes next at or below it.
    pub(crate) first: Option<First>,
    weight: u32,
    parent: Option<NodeId>,
    /// The order it stands in; the root stands in none.
    above: Option<ArbiterId>,
    /// Its children's order; a leaf has none.
    arbiter: Option<ArbiterId>,
    /// Whether the node has requests, and none that may be served. Its lag stands still meanwhile, so that withheld
    /// nodes keep their order.
    is_withheld: bool,
    /// See [`ShareTree::fetch`].
    is_fetched: bool,
}

const _: () = assert!(size_of::<Node>() == 64, "a node is one cache line");

/// The fields of a node that only attaching and activating touch.
#[derive(Debug)]
struct Membership {
    entity: Option<Entity>,
    /// Attached children.
    children: usize,
    /// Active children; of a leaf, 1 while it is active.
    active: usize,
}

/// A leaf's next request. The cost lies first, so that it is read as it was written.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct First {
    cost: Cost,
    leaf: NodeId,
}

/// The cost of a request, 1 to REQUEST_COST_MAX: the lower half and the upper one, because a number of 64 bits would be
/// aligned to as many, and a [`Node`] would not fit its cache line.
#[derive(Clone, Copy, Debug)]
struct Cost([u32; 2]);

/// The division of an inner node's time: one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Arbiter {
    virtual_time: i64,
    /// Its value before the last request was dispatched, which may be in service still.
    before: i64,
    /// Sum of the active children's weights, and one over it.
    weight: u64,
    inverse: u64,
    /// Virtual time (zero or negative) by which `virtual_time` is ahead, for device time that was charged
    /// and found not to have been used.
    ahead: i64,
    order: Order,
}

const _: () = assert!(size_of::<Arbiter>() == 64, "an arbiter is one cache line");

/// Nodes of any depth over leaves; one leaf stands for one job.
#[derive(Debug)]
pub(crate) struct ShareTree {
    nodes: Vec<Node>,
    memberships: Vec<Membership>,
    links: Vec<Link>,
    arbiters: Vec<Arbiter>,
    by_entity: HashMap<(NodeId, Entity), NodeId>,
    free_nodes: Vec<NodeId>,
    free_arbiters: Vec<ArbiterId>,
    credit_max: i64,
}

impl ShareTree {
    /// A tree without leaves. A child that comes back may have fallen behind its share by at most
    /// `credit_max` of device time, or by its next request where that is longer.
    pub(crate) fn new(credit_max: Nanos) -> ShareTree {
        let mut tree = ShareTree {
            nodes: Vec::new(),
            memberships: Vec::new(),
            links: Vec::new(),
            arbiters: Vec::new(),
            by_entity: HashMap::new(),
            free_nodes: Vec::new(),
            free_arbiters: Vec::new(),
            credit_max: nanoseconds(credit_max),
        };
        tree.add_node(None, 1);
        tree.add_arbiter(NodeId::ROOT);
        tree
    }

    /// The leaf at the end of `path` (outermost branch first), made as needed; nodes that exist
    /// take the path's weights.
    pub(crate) fn attach(&mut self, path: &[Branch]) -> NodeId {
        let mut node = NodeId::ROOT;
        for &branch in path {
            if self.nodes[node.index()].arbiter.is_none() {
                self.add_arbiter(node);
            }
            node = match self.by_entity.get(&(node, branch.entity)) {
                Some(&child) => {
                    self.reweigh(child, branch.weight.max(1));
                    child
                }
                None => self.add_node(Some((node, branch.entity)), branch.weight),
            };
        }
        node
    }

    /// The node at the end of `path`, whatever its weights, if there is one.
    pub(crate) fn find(&self, path: &[Branch]) -> Option<NodeId> {
        path.iter().try_fold(NodeId::ROOT, |node, branch| self.by_entity.get(&(node, branch.entity)).copied())
    }

    /// Forgets an inactive leaf without requests, and inner nodes left without children.
    pub(crate) fn detach(&mut self, leaf: NodeId) {
        let mut node = leaf;
        while let Some(parent) = self.nodes[node.index()].parent {
            let gone = &mut self.memberships[node.index()];
            debug_assert!(gone.active == 0 && self.nodes[node.index()].standing == Standing::Empty);
            if let Some(entity) = gone.entity.take() {
                self.by_entity.remove(&(parent, entity));
            }
            self.free_arbiters.extend(self.nodes[node.index()].arbiter.take());
            self.free_nodes.push(node);
            let parent_membership = &mut self.memberships[parent.index()];
            parent_membership.children -= 1;
            if parent_membership.children > 0 {
                return;
            }
            node = parent;
        }
    }

    /// Counts the leaf's weight from now on. The leaf starts level: with its debts, without credit.
    pub(crate) fn activate(&mut self, leaf: NodeId) {
        let mut child = leaf;
        while let Some((parent, arbiter)) = self.above(child) {
            let active = &mut self.memberships[child.index()].active;
            *active += 1;
            if *active > 1 {
                return;
            }
            let node = &mut self.nodes[child.index()];
            let arbiter = &mut self.arbiters[arbiter];
            arbiter.reweigh(arbiter.weight + u64::from(node.weight));
            node.resume(arbiter.virtual_time);
            node.start = node.start.max(arbiter.virtual_time);
            child = parent;
        }
    }

    /// Counts the leaf's weight no more. It must have no request queued.
    pub(crate) fn deactivate(&mut self, leaf: NodeId) {
        let mut child = leaf;
        while let Some((parent, arbiter)) = self.above(child) {
            let active = &mut self.memberships[child.index()].active;
            *active -= 1;
            if *active > 0 {
                return;
            }
            let arbiter = &mut self.arbiters[arbiter];
            arbiter.reweigh(arbiter.weight - u64::from(self.nodes[child.index()].weight));
            child = parent;
        }
    }

    /// Sets the cost of the leaf's next request, or that it has none. The leaf must be active to
    /// have one.
    pub(crate) fn offer(&mut self, leaf: NodeId, next: Option<Nanos>) {
        self.serve(leaf, 0, next);
    }

    /// Takes the leaf's request out of the order until it is offered again.
    pub(crate) fn withhold(&mut self, leaf: NodeId) {
        self.nodes[leaf.index()].first = None;
        self.settle(leaf, 0, true);
    }

    /// The leaf to serve next.
    pub(crate) fn first(&self) -> Option<NodeId> {
        self.nodes[NodeId::ROOT.index()].first.map(|first| first.leaf)
    }

    /// Charges the leaf and all above it `charge` nanoseconds; `next` is its next request's cost.
    ///
    /// Answers the leaf that comes next in the same branch of the root.
    pub(crate) fn serve(&mut self, leaf: NodeId, charge: i64, next: Option<Nanos>) -> Option<NodeId> {
        self.nodes[leaf.index()].first = next.and_then(Cost::of).map(|cost| First { leaf, cost });
        let branch = self.settle(leaf, charge, false);
        Some(self.nodes[branch.index()].first?.leaf)
    }

    /// Brings a leaf near. A write does that without holding up anybody: the processor has the line brought while it goes on.
    pub(crate) fn fetch(&mut self, leaf: NodeId) {
        self.nodes[leaf.index()].is_fetched = true;
    }

    /// Brings near what the next choice among a leaf and its siblings needs.
    pub(crate) fn fetch_siblings(&self, leaf: NodeId) {
        if let Some(above) = self.nodes[leaf.index()].above {
            self.arbiters[to_index(above.0)].order.fetch();
        }
    }

    /// The fraction of the root's time each node is owed while exactly the leaves `active` are
    /// active, by node index; 0 for the others.
    pub(crate) fn owed(&self, active: impl Iterator<Item = NodeId>) -> Vec<f64> {
        let active: Vec<NodeId> = active.collect();
        let mut counted = vec![false; self.nodes.len()];
        let mut children_weight = vec![0_i64; self.nodes.len()];
        for &leaf in &active {
            let mut child = leaf;
            while let Some(parent) = self.nodes[child.index()].parent {
                if std::mem::replace(&mut counted[child.index()], true) {
                    break;
                }
                children_weight[parent.index()] += i64::from(self.nodes[child.index()].weight);
                child = parent;
            }
        }
        let mut owed = vec![0.0; self.nodes.len()];
        for leaf in active {
            let mut fraction = 1.0;
            let mut child = leaf;
            while let Some(parent) = self.nodes[child.index()].parent {
                let weight = self.nodes[child.index()].weight;
                fraction *= f64::from(weight) / children_weight[parent.index()] as f64;
                child = parent;
            }
            owed[leaf.index()] = fraction;
        }
        owed
    }

    fn add_node(&mut self, parent: Option<(NodeId, Entity)>, weight: u32) -> NodeId {
        let arbiter = parent.and_then(|(parent, _)| self.nodes[parent.index()].arbiter);
        let start = arbiter.map_or(0, |arbiter| self.arbiters[to_index(arbiter.0)].virtual_time);
        let node = Node {
            start,
            finish: start,
            standing: Standing::Empty,
            inverse: inverse(u64::from(weight)),
            first: None,
            weight: weight.max(1),
            parent: parent.map(|(parent, _)| parent),
            above: arbiter,
            arbiter: None,
            is_withheld: false,
            is_fetched: false,
        };
        let membership = Membership { entity: parent.map(|(_, entity)| entity), children: 0, active: 0 };
        let id = match self.free_nodes.pop() {
            Some(id) => {
                self.nodes[id.index()] = node;
                self.memberships[id.index()] = membership;
                id
            }
            None => {
                self.nodes.push(node);
                self.memberships.push(membership);
                self.links.push(Link::UNLINKED);
                NodeId::new(self.nodes.len() - 1)
            }
        };
        if let Some((parent, entity)) = parent {
            self.memberships[parent.index()].children += 1;
            self.by_entity.insert((parent, entity), id);
        }
        id
    }

    fn add_arbiter(&mut self, node: NodeId) {
        let arbiter = Arbiter {
            virtual_time: 0,
            before: 0,
            weight: 0,
            inverse: inverse(0),
            ahead: 0,
            order: Order::new(),
        };
        let id = match self.free_arbiters.pop() {
            Some(id) => {
                self.arbiters[to_index(id.0)] = arbiter;
                id
            }
            None => {
                self.arbiters.push(arbiter);
                ArbiterId(from_index(self.arbiters.len() - 1))
            }
        };
        self.nodes[node.index()].arbiter = Some(id);
    }

    fn reweigh(&mut self, child: NodeId, weight: u32) {
        let Some((_, arbiter)) = self.above(child) else { return };
        let node = &mut self.nodes[child.index()];
        if node.weight == weight {
            return;
        }
        if self.memberships[child.index()].active > 0 {
            let arbiter = &mut self.arbiters[arbiter];
            arbiter.reweigh(arbiter.weight + u64::from(weight) - u64::from(node.weight));
        }
        node.weight = weight;
        node.inverse = inverse(u64::from(weight));
        self.settle(child, 0, false);
    }

    fn above(&self, child: NodeId) -> Option<(NodeId, usize)> {
        let Node { parent, above, .. } = self.nodes[child.index()];
        Some((parent?, to_index(above?.0)))
    }

    /// From `node` up to the root: charges it, puts it in its place among its parent's children,
    /// and so finds the request that comes next below the parent. Whoever is without a request by it
    /// `is_withheld`, or has none. Answers the last node below the root.
    fn settle(&mut self, node: NodeId, charge: i64, is_withheld: bool) -> NodeId {
        let mut child = node;
        let mut branch = node;
        loop {
            let node = &mut self.nodes[child.index()];
            let (Some(parent), Some(above)) = (node.parent, node.above) else { return branch };
            let index = to_index(above.0);
            let arbiter = &mut self.arbiters[index];
            if charge != 0 {
                // Served before it was eligible, because nobody else was: that time is nobody's due.
                arbiter.virtual_time = arbiter.virtual_time.max(node.start);
                arbiter.before = arbiter.virtual_time;
                node.start += virtual_time(charge, node.inverse);
                arbiter.advance(charge);
            }
            let first = match node.first {
                Some(First { cost, .. }) => {
                    if node.standing == Standing::Empty && !node.resume(arbiter.virtual_time) {
                        node.catch_up(arbiter, self.credit_max.max(cost.nanoseconds()));
                    }
                    node.finish = node.start + virtual_time(cost.nanoseconds(), node.inverse);
                    let selected = arbiter.order.replace(node, arbiter.virtual_time);
                    selected
                        .or_else(|| arbiter.put_and_select(&mut self.nodes, &mut self.links, child.item()))
                }
                None => {
                    if is_withheld && !node.is_withheld {
                        if node.standing == Standing::Empty {
                            node.catch_up(arbiter, self.credit_max);
                        }
                        node.start -= arbiter.virtual_time;
                        node.is_withheld = true;
                    }
                    arbiter.order.take(&mut self.nodes, &mut self.links, child.item());
                    arbiter.order.select(&mut self.nodes, &mut self.links, arbiter.virtual_time)
                }
            };
            self.nodes[parent.index()].first = first;
            if arbiter.virtual_time > VIRTUAL_TIME_MAX {
                self.set_back(parent, index);
            }
            (branch, child) = (child, parent);
        }
    }

    /// Sets the clock of an inner node back to zero, and its children with it.
    #[cold]
    fn set_back(&mut self, node: NodeId, arbiter: usize) {
        let arbiter = &mut self.arbiters[arbiter];
        let by = std::mem::take(&mut arbiter.virtual_time);
        arbiter.before = arbiter.before.saturating_sub(by);
        let is_child = |other: &Node| other.parent == Some(node) && !other.is_withheld;
        let children: Vec<u32> = (0..self.nodes.len())
            .filter(|&index| is_child(&self.nodes[index]))
            .map(|index| index as u32)
            .collect();
        let mut standing = Vec::new();
        for &child in &children {
            if self.nodes[child as usize].standing != Standing::Empty {
                arbiter.order.take(&mut self.nodes, &mut self.links, child);
                standing.push(child);
            }
            let child = &mut self.nodes[child as usize];
            // One that has been away for long owes nothing any more.
            child.start = child.start.saturating_sub(by).max(-VIRTUAL_TIME_MAX);
            child.finish = child.finish.saturating_sub(by).max(-VIRTUAL_TIME_MAX);
        }
        arbiter.order = Order::new();
        for child in standing {
            arbiter.order.put(&mut self.nodes, &mut self.links, child, 0);
        }
    }
}

impl Node {
    /// Takes a node back that has a request again. The node is as far behind its share as it was, but for `credit`
    /// nanoseconds at most beyond the time of the last request: a node that comes back while a long request is in
    /// service was not away for long.
    fn catch_up(&mut self, arbiter: &Arbiter, credit: i64) {
        let earliest = arbiter.virtual_time - virtual_time(credit, self.inverse);
        self.start = self.start.max(earliest.min(arbiter.before));
    }

    /// Ends withholding at its parent's virtual time; false where it was not withheld.
    fn resume(&mut self, virtual_time: i64) -> bool {
        if self.is_withheld {
            self.start += virtual_time;
        }
        std::mem::take(&mut self.is_withheld)
    }
}

impl First {
    /// `one` where `is_one`, else `other`: without a branch, which could not be foretold, and without a detour by memory.
    pub(crate) fn either(is_one: bool, one: First, other: First) -> First {
        First {
            cost: Cost::pack(select_unpredictable(is_one, one.cost.unpack(), other.cost.unpack())),
            leaf: select_unpredictable(is_one, one.leaf, other.leaf),
        }
    }
}

impl Cost {
    fn of(nanos: Nanos) -> Option<Cost> {
        let cost = nanos.min(REQUEST_COST_MAX).0;
        (cost > 0).then_some(Cost::pack(cost))
    }

    fn nanoseconds(self) -> i64 {
        self.unpack() as i64
    }

    fn pack(number: u64) -> Cost {
        Cost([number as u32, (number >> 32) as u32])
    }

    fn unpack(self) -> u64 {
        let Cost([lower, upper]) = self;
        u64::from(upper) << 32 | u64::from(lower)
    }
}

impl Arbiter {
    /// Moves the virtual time on by `charge` nanoseconds shared among the active children.
    fn advance(&mut self, charge: i64) {
        let moved = virtual_time(charge, self.inverse) + self.ahead;
        self.virtual_time += moved.max(0);
        self.ahead = moved.min(0);
    }

    /// Puts a child in its place and selects the request that comes next. A call of its own keeps the way of a few children
    /// short.
    #[inline(never)]
    fn put_and_select(&mut self, nodes: &mut [Node], links: &mut [Link], item: u32) -> Option<First> {
        self.order.put(nodes, links, item, self.virtual_time);
        self.order.select(nodes, links, self.virtual_time)
    }

    fn reweigh(&mut self, weight: u64) {
        self.weight = weight;
        self.inverse = inverse(weight);
    }
}

/// Index zero is number one: with zero free, `Option` takes no room.
fn from_index(index: usize) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(index as u32)
}

fn to_index(number: NonZeroU32) -> usize {
    number.get() as usize - 1
}

/// Nanoseconds as a signed number, at most REQUEST_COST_MAX.
fn nanoseconds(nanos: Nanos) -> i64 {
    nanos.min(REQUEST_COST_MAX).0 as i64
}

/// One over a weight; of no weight, as of the least.
fn inverse(weight: u64) -> u64 {
    u64::MAX / weight.max(1)
}

/// Nanoseconds of device time (at most twice REQUEST_COST_MAX either way) over a weight.
fn virtual_time(nanoseconds: i64, inverse: u64) -> i64 {
    // The upper half of a product is at hand, and any other part of it is several instructions away.
    let fractions = nanoseconds.unsigned_abs() << FRACTION_BITS;
    let moved = ((u128::from(fractions) * u128::from(inverse)) >> INVERSE_BITS) as i64;
    if nanoseconds < 0 {
        -moved
    } else {
        moved
    }
}

#[cfg(test)]
mod tests;
