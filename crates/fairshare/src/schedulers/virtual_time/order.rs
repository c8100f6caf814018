//! The choice among a node's children: the eligible child with the earliest finish.
//!
//! A few children lie side by side, with all that a decision needs of them, and are all looked at. Many children are
//! kept in two wheels.

use std::hint::{black_box, select_unpredictable};

use super::tree::{First, Node};
use super::wheel::{Link, Wheel};

/// Children up to which looking at all of them is the faster way: they fill 32 cache lines.
const FEW_MAX: usize = 64;
/// Children in a cache line, which are looked at beside each other.
const LANES: usize = 2;
/// The line of no child.
const NOWHERE: usize = usize::MAX / LANES;
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
pub(crate) struct Few(Vec<Child>);

/// A child, its turn and the request that comes next at or below it.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Child {
    start: i64,
    finish: i64,
    first: First,
    item: u32,
}

const _: () = assert!(size_of::<Child>() == 64 / LANES, "two children are one cache line");

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
                    let siblings = std::mem::take(&mut few.0);
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

    /// Moves one of a few children to its start and finish, and [selects](Order::select). Answers None, and does nothing,
    /// where the child is not one of a few or has no request.
    #[inline]
    pub(crate) fn replace(&mut self, node: &Node, virtual_time: i64) -> Option<First> {
        match (self, node.standing) {
            (Order::Few(few), Standing::At(place)) => few.replace(node, place as usize, virtual_time),
            _ => None,
        }
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
    #[inline]
    fn fetch(&self) {
        let mut read = 0;
        for line in self.0.chunks(LANES) {
            read ^= line[0].item;
        }
        black_box(read);
    }

    /// False where there is no room for one more.
    fn put(&mut self, node: &mut Node, item: u32) -> bool {
        let Some(first) = node.first else { return true };
        let child = Child { start: node.start, finish: node.finish, first, item };
        match node.standing {
            Standing::At(place) => self.0[place as usize] = child,
            _ if self.0.len() == FEW_MAX => return false,
            _ => {
                node.standing = Standing::At(self.0.len() as u32);
                self.0.push(child);
            }
        }
        true
    }

    fn take(&mut self, nodes: &mut [Node], place: usize) {
        self.0.swap_remove(place);
        if let Some(moved) = self.0.get(place) {
            nodes[moved.item as usize].standing = Standing::At(place as u32);
        }
    }

    /// Moves the child at `place` to the start and finish of its `node`, and selects.
    ///
    /// The others are looked at first: their order is known while the request of this child is still looked for below.
    #[inline(always)]
    fn replace(&mut self, node: &Node, place: usize, virtual_time: i64) -> Option<First> {
        let first = node.first?;
        self.0[place].start = i64::MAX;
        let (earliest, other) = self.earliest(virtual_time);
        let own = &mut self.0[place];
        (own.start, own.finish, own.first) = (node.start, node.finish, first);
        let is_eligible = node.start <= virtual_time;
        match self.0.get(other) {
            Some(other_child) => {
                let is_own = is_eligible & ((node.finish, place) < (earliest, other));
                Some(First::either(is_own, first, other_child.first))
            }
            None if is_eligible => Some(first),
            None => self.select(virtual_time),
        }
    }

    #[inline(never)]
    fn select(&self, virtual_time: i64) -> Option<First> {
        let (_, place) = self.earliest(virtual_time);
        if let Some(child) = self.0.get(place) {
            return Some(child.first);
        }
        let (_, place) = self.earliest(self.0.iter().map(|child| child.start).min()?);
        Some(self.0[place].first)
    }

    /// The earliest finish of a child that is eligible at `virtual_time`, and the first place of such a child.
    ///
    /// No branch depends on a key, because none could be foretold. Lanes keep their own earliest child, so that a
    /// comparison need not wait for the one before.
    #[inline(always)]
    fn earliest(&self, virtual_time: i64) -> (i64, usize) {
        let mut lanes = [(i64::MAX, NOWHERE); LANES];
        let mut look = |lane: usize, line: usize, child: &Child| {
            let finish = select_unpredictable(child.start <= virtual_time, child.finish, i64::MAX);
            let (earliest, its_line) = lanes[lane];
            let is_earlier = finish < earliest;
            lanes[lane] = (
                select_unpredictable(is_earlier, finish, earliest),
                select_unpredictable(is_earlier, line, its_line),
            );
        };
        let (lines, rest) = self.0.as_chunks::<LANES>();
        for (number, [one, two]) in lines.iter().enumerate() {
            look(0, number, one);
            look(1, number, two);
        }
        if let [last] = rest {
            look(0, lines.len(), last);
        }
        let [(one, one_line), (two, two_line)] = lanes;
        // Of equal finishes the one of the earlier place.
        let is_two = (two < one) | ((two == one) & (two_line < one_line));
        let line = select_unpredictable(is_two, two_line, one_line);
        (select_unpredictable(is_two, two, one), LANES * line + usize::from(is_two))
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
