//! Which of a node's children is served next: of those eligible the one with the earliest finish.
//!
//! A child with few siblings is found by looking at all of them, which lie side by side in memory;
//! among many, two wheels keep the order.

use crate::tree::Node;
use crate::wheel::{Link, Wheel};

/// Children up to which looking at all of them is the faster way: their keys fill sixteen cache lines.
const SCANNED_MAX: usize = 64;
/// First bucket width, of a request of about 1 ms; wheels choose their own once they are used.
const FIRST_SHIFT: u32 = crate::tree::FRACTION_BITS + 10;

/// Where a node stands among its parent's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing to be served below it.
    Empty,
    /// At this place of a [`Scan`].
    Scanned(u32),
    /// In the wheel of those that had more than their due, ordered by start.
    Waiting,
    /// In the wheel of those that had not, ordered by finish.
    Eligible,
}

/// The children of one node that have requests to be served.
#[derive(Debug)]
pub(crate) enum Order {
    Few(Scan),
    Many(Box<Wheels>),
}

/// Children side by side, in no order.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Start and finish.
    keys: Vec<(i64, i64)>,
    items: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Wheels {
    eligible: Wheel,
    waiting: Wheel,
}

impl Order {
    pub(crate) fn new() -> Order {
        Order::Few(Scan::default())
    }

    /// Puts in a child that stands nowhere, or moves it to its start and finish.
    pub(crate) fn put(&mut self, nodes: &mut [Node], links: &mut [Link], item: u32, virtual_time: i64) {
        match self {
            Order::Few(scan) => {
                if !scan.put(&mut nodes[item as usize], item) {
                    let siblings = std::mem::take(&mut scan.items);
                    *self = Order::Many(Box::new(Wheels::new(virtual_time)));
                    for sibling in siblings {
                        nodes[sibling as usize].standing = Standing::Empty;
                        self.put(nodes, links, sibling, virtual_time);
                    }
                    self.put(nodes, links, item, virtual_time);
                }
            }
            Order::Many(wheels) => wheels.put(&mut nodes[item as usize], links, item, virtual_time),
        }
    }

    /// Takes out a child, wherever it stands.
    pub(crate) fn take(&mut self, nodes: &mut [Node], links: &mut [Link], item: u32) {
        match (self, nodes[item as usize].standing) {
            (Order::Few(scan), Standing::Scanned(place)) => {
                scan.keys.swap_remove(place as usize);
                scan.items.swap_remove(place as usize);
                if let Some(&moved) = scan.items.get(place as usize) {
                    nodes[moved as usize].standing = Standing::Scanned(place);
                }
            }
            (Order::Many(wheels), standing) => wheels.take(standing, links, item),
            _ => {}
        }
        nodes[item as usize].standing = Standing::Empty;
    }

    /// The child to serve next; where none is eligible the one with the next start, because no time is left
    /// unused while a request is queued.
    pub(crate) fn select(
        &mut self,
        nodes: &mut [Node],
        links: &mut [Link],
        virtual_time: i64,
    ) -> Option<u32> {
        match self {
            Order::Few(scan) => scan.select(virtual_time),
            Order::Many(wheels) => wheels.select(nodes, links, virtual_time),
        }
    }
}

impl Scan {
    /// False where there is no room for one more.
    fn put(&mut self, node: &mut Node, item: u32) -> bool {
        let key = (node.start, node.finish);
        match node.standing {
            Standing::Scanned(place) => self.keys[place as usize] = key,
            _ if self.keys.len() == SCANNED_MAX => return false,
            _ => {
                node.standing = Standing::Scanned(self.keys.len() as u32);
                self.keys.push(key);
                self.items.push(item);
            }
        }
        true
    }

    fn select(&self, virtual_time: i64) -> Option<u32> {
        let (eligible, least_start) = self.earliest(virtual_time);
        let first = eligible.or_else(|| self.earliest(least_start).0);
        first.map(|place| self.items[place])
    }

    /// The place of the eligible child with the earliest finish, and the least start of all.
    fn earliest(&self, virtual_time: i64) -> (Option<usize>, i64) {
        let (mut earliest, mut first, mut least_start) = (i64::MAX, usize::MAX, i64::MAX);
        for (place, &(start, finish)) in self.keys.iter().enumerate() {
            least_start = start.min(least_start);
            let is_earlier = start <= virtual_time && finish < earliest;
            earliest = if is_earlier { finish } else { earliest };
            first = if is_earlier { place } else { first };
        }
        ((first != usize::MAX).then_some(first), least_start)
    }
}

impl Wheels {
    fn new(virtual_time: i64) -> Wheels {
        let mut links = [];
        let mut wheels = Wheels { eligible: Wheel::new(FIRST_SHIFT), waiting: Wheel::new(FIRST_SHIFT) };
        wheels.eligible.advance(&mut links, virtual_time);
        wheels.waiting.advance(&mut links, virtual_time);
        wheels
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
            Standing::Empty | Standing::Scanned(_) => {}
        }
    }

    fn select(&mut self, nodes: &mut [Node], links: &mut [Link], virtual_time: i64) -> Option<u32> {
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
        self.eligible.first().or(self.waiting.first())
    }
}
