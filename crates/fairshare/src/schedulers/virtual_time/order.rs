//! The choice among a node's children: the eligible child with the earliest finish.
//!
//! A few children lie side by side, with all that a decision needs of them, and are all looked at. Many children are
//! kept in two wheels.

use super::tree::{First, Node};
use super::wheel::{Link, Wheel};

/// Children up to which looking at all of them is the faster way: their keys fill sixteen cache lines.
const FEW_MAX: usize = 64;
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
    firsts: Vec<First>,
    items: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Key {
    start: i64,
    finish: i64,
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
                    let siblings = std::mem::take(&mut few.items);
                    *self = Order::Many(Box::new(Many::new(virtual_time)));
                    for sibling in siblings {
                        nodes[sibling as usize].standing = Standing::Empty;
                        self.put(nodes, links, sibling, virtual_time);
                    }
                    self.put(nodes, links, item, virtual_time);
                }
            }
            Order::Many(many) => many.put(&mut nodes[item as usize], links, item, virtual_time),
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
    /// False where there is no room for one more.
    fn put(&mut self, node: &mut Node, item: u32) -> bool {
        let Some(first) = node.first else { return true };
        let key = Key { start: node.start, finish: node.finish };
        match node.standing {
            Standing::At(place) => {
                self.keys[place as usize] = key;
                self.firsts[place as usize] = first;
            }
            _ if self.keys.len() == FEW_MAX => return false,
            _ => {
                node.standing = Standing::At(self.keys.len() as u32);
                self.keys.push(key);
                self.firsts.push(first);
                self.items.push(item);
            }
        }
        true
    }

    fn take(&mut self, nodes: &mut [Node], place: usize) {
        self.keys.swap_remove(place);
        self.firsts.swap_remove(place);
        self.items.swap_remove(place);
        if let Some(&moved) = self.items.get(place) {
            nodes[moved as usize].standing = Standing::At(place as u32);
        }
    }

    fn select(&self, virtual_time: i64) -> Option<First> {
        let eligible = self.earliest(virtual_time);
        let place = eligible.or_else(|| self.earliest(self.keys.iter().map(|key| key.start).min()?))?;
        Some(self.firsts[place])
    }

    /// The place of the child that is eligible at `virtual_time` and has the earliest finish. Without a branch
    /// in each turn, because none could be foretold.
    fn earliest(&self, virtual_time: i64) -> Option<usize> {
        let (mut earliest, mut place) = (i64::MAX, usize::MAX);
        for (index, key) in self.keys.iter().enumerate() {
            let is_earlier = (key.start <= virtual_time) & (key.finish < earliest);
            earliest = if is_earlier { key.finish } else { earliest };
            place = if is_earlier { index } else { place };
        }
        (place != usize::MAX).then_some(place)
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
