//! The choice among a node's children: the eligible child with the earliest finish.
//!
//! A few children lie side by side, with all that a decision needs of them, and are all looked at. Many children are
//! kept in two wheels.

use std::hint::{black_box, select_unpredictable};

use super::tree::{First, Node};
use super::wheel::{Link, Wheel};

/// Children up to which looking at all of them is the faster way: their keys fill sixteen cache lines.
const FEW_MAX: usize = 64;
/// Bytes of a cache line, on most machines.
const LINE_BYTES: usize = 64;
/// Children that are looked at beside each other.
const LANES: usize = 4;
/// The place of no child.
const NOWHERE: usize = usize::MAX;
/// First bucket width, of a request of about 1 ms; wheels choose their own once they are used.
const FIRST_SHIFT: u32 = super::tree::FRACTION_BITS + 10;

/// The place of a node among its parent's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing to be served below it.
    Empty,
    /// At this place among [`Few`].
    At(u32),
    /// In the wheel of those that had more than their due, ordered by start.
    Waiting,
    /// In the wheel of those that had not, ordered by finish.
    Eligible,
}

/// The children of one node that have requests to be served.
#[derive(Debug)]
pub(crate) enum Order {
    Few(Few),
    Many(Box<Many>),
}

/// Children in no order, by place.
#[derive(Debug, Default)]
pub(crate) struct Few {
    keys: Vec<Key>,
    children: Vec<Child>,
}

#[derive(Clone, Copy, Debug)]
struct Key {
    start: i64,
    finish: i64,
}

/// A child and the request that comes next at or below it.
#[derive(Clone, Copy, Debug)]
struct Child {
    first: First,
    item: u32,
}

#[derive(Debug)]
pub(crate) struct Many {
    eligible: Wheel,
    waiting: Wheel,
}

impl Order {
    pub(crate) fn new() -> Order {
        Order::Few(Few::default())
    }

    /// Puts in a child that has a request, or moves it to its start and finish.
    pub(crate) fn put(&mut self, nodes: &mut [Node], links: &mut [Link], item: u32, virtual_time: i64) {
        match self {
            Order::Few(few) => {
                if !few.put(&mut nodes[item as usize], item) {
                    let siblings = std::mem::take(&mut few.children);
                    *self = Order::Many(Box::new(Many::new(virtual_time)));
                    for Child { item: sibling, .. } in siblings {
                        nodes[sibling as usize].standing = Standing::Empty;
                        self.put(nodes, links, sibling, virtual_time);
                    }
                    self.put(nodes, links, item, virtual_time);
                }
            }
            Order::Many(many) => many.put(&mut nodes[item as usize], links, item, virtual_time),
        }
    }

    /// [Puts](Order::put) a child and [selects](Order::select).
    pub(crate) fn put_and_select(
        &mut self,
        nodes: &mut [Node],
        links: &mut [Link],
        item: u32,
        virtual_time: i64,
    ) -> Option<First> {
        if let (Order::Few(few), Standing::At(place)) = (&mut *self, nodes[item as usize].standing) {
            return few.replace(&nodes[item as usize], place as usize, virtual_time);
        }
        self.put(nodes, links, item, virtual_time);
        self.select(nodes, links, virtual_time)
    }

    /// Takes out a child, wherever it stands.
    pub(crate) fn take(&mut self, nodes: &mut [Node], links: &mut [Link], item: u32) {
        let standing = std::mem::replace(&mut nodes[item as usize].standing, Standing::Empty);
        match (self, standing) {
            (Order::Few(few), Standing::At(place)) => few.take(nodes, place as usize),
            (Order::Few(_), _) => {}
            (Order::Many(many), _) => many.take(standing, links, item),
        }
    }

    /// Brings near what the next choice among a few children needs.
    pub(crate) fn fetch(&self) {
        if let Order::Few(few) = self {
            few.fetch();
        }
    }

    /// The request to serve next; where no child is eligible that of the one with the next start, because no
    /// time is left unused while a request is queued.
    pub(crate) fn select(
        &mut self,
        nodes: &mut [Node],
        links: &mut [Link],
        virtual_time: i64,
    ) -> Option<First> {
        match self {
            Order::Few(few) => few.select(virtual_time),
            Order::Many(many) => many.select(nodes, links, virtual_time),
        }
    }
}

impl Few {
    /// Reads a word of each cache line.
    fn fetch(&self) {
        let keys = self.keys.iter().step_by(LINE_BYTES / size_of::<Key>());
        let children = self.children.iter().step_by(LINE_BYTES / size_of::<Child>());
        let keys = keys.fold(0, |sum, key| sum ^ key.start);
        black_box(children.fold(keys, |sum, child| sum ^ i64::from(child.item)));
    }

    /// False where there is no room for one more.
    fn put(&mut self, node: &mut Node, item: u32) -> bool {
        let Some(first) = node.first else { return true };
        let key = Key { start: node.start, finish: node.finish };
        match node.standing {
            Standing::At(place) => {
                self.keys[place as usize] = key;
                self.children[place as usize].first = first;
            }
            _ if self.keys.len() == FEW_MAX => return false,
            _ => {
                node.standing = Standing::At(self.keys.len() as u32);
                self.keys.push(key);
                self.children.push(Child { first, item });
            }
        }
        true
    }

    fn take(&mut self, nodes: &mut [Node], place: usize) {
        self.keys.swap_remove(place);
        self.children.swap_remove(place);
        if let Some(moved) = self.children.get(place) {
            nodes[moved.item as usize].standing = Standing::At(place as u32);
        }
    }

    /// Moves the child at `place` to the start and finish of its `node`, and selects.
    ///
    /// The others are looked at first: their order is known while the request of this child is still looked for below.
    fn replace(&mut self, node: &Node, place: usize, virtual_time: i64) -> Option<First> {
        let own = node.first?;
        let key = Key { start: node.start, finish: node.finish };
        self.keys[place].start = i64::MAX;
        let (earliest, other) = self.earliest(virtual_time);
        self.keys[place] = key;
        self.children[place].first = own;
        let is_eligible = key.start <= virtual_time;
        match self.children.get(other) {
            Some(other_child) => {
                let is_own = is_eligible & ((key.finish, place) < (earliest, other));
                Some(First::either(is_own, own, other_child.first))
            }
            None if is_eligible => Some(own),
            None => self.select(virtual_time),
        }
    }

    fn select(&self, virtual_time: i64) -> Option<First> {
        let (_, mut place) = self.earliest(virtual_time);
        if place == NOWHERE {
            (_, place) = self.earliest(self.keys.iter().map(|key| key.start).min()?);
        }
        Some(self.children[place].first)
    }

    /// The earliest finish of a child that is eligible at `virtual_time`, and the first place of such a child.
    ///
    /// No branch depends on a key, because none could be foretold. Lanes keep their own earliest child, so that a
    /// comparison need not wait for the one before.
    fn earliest(&self, virtual_time: i64) -> (i64, usize) {
        let mut lanes = [(i64::MAX, NOWHERE); LANES];
        let mut look = |lane: usize, place: usize, key: &Key| {
            let finish = select_unpredictable(key.start <= virtual_time, key.finish, i64::MAX);
            let (earliest, its_place) = lanes[lane];
            let is_earlier = finish < earliest;
            lanes[lane] = (
                select_unpredictable(is_earlier, finish, earliest),
                select_unpredictable(is_earlier, place, its_place),
            );
        };
        let (whole, rest) = self.keys.as_chunks::<LANES>();
        for (number, keys) in whole.iter().enumerate() {
            for (lane, key) in keys.iter().enumerate() {
                look(lane, LANES * number + lane, key);
            }
        }
        for (lane, key) in rest.iter().enumerate() {
            look(lane, LANES * whole.len() + lane, key);
        }
        let [one, two, three, four] = lanes;
        one.min(two).min(three.min(four))
    }
}

impl Many {
    fn new(virtual_time: i64) -> Many {
        let mut links = [];
        let mut many = Many { eligible: Wheel::new(FIRST_SHIFT), waiting: Wheel::new(FIRST_SHIFT) };
        many.eligible.advance(&mut links, virtual_time);
        many.waiting.advance(&mut links, virtual_time);
        many
    }

    fn put(&mut self, node: &mut Node, links: &mut [Link], item: u32, virtual_time: i64) {
        self.take(node.standing, links, item);
        if node.start <= virtual_time {
            node.standing = Standing::Eligible;
            self.eligible.insert(links, item, node.finish);
        } else {
            node.standing = Standing::Waiting;
            self.waiting.insert(links, item, node.start);
        }
    }

    fn take(&mut self, standing: Standing, links: &mut [Link], item: u32) {
        match standing {
            Standing::Waiting => self.waiting.remove(links, item),
            Standing::Eligible => self.eligible.remove(links, item),
            Standing::Empty | Standing::At(_) => {}
        }
    }

    fn select(&mut self, nodes: &mut [Node], links: &mut [Link], virtual_time: i64) -> Option<First> {
        while let Some(first) = self.waiting.first() {
            if links[first as usize].key() > virtual_time {
                break;
            }
            let node = &mut nodes[first as usize];
            self.waiting.remove(links, first);
            self.eligible.insert(links, first, node.finish);
            node.standing = Standing::Eligible;
        }
        self.waiting.advance(links, virtual_time);
        self.eligible.advance(links, virtual_time);
        let first = self.eligible.first().or(self.waiting.first())?;
        nodes[first as usize].first
    }
}
