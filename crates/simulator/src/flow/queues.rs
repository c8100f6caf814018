//! Flows whose requests are all under way, in the order in which a device serves them.
//!
//! A device serves the requests of a job in the order of their arrival. So flows of a job whose requests are all there end one
//! after the other, and a flow that shared the device with those behind it would end late. The first flow of a queue has the weight
//! of all of them. The others wait, and have no rates. A flow that waits comes in early where all of its way has room: the
//! flow before it is then held by a link that this one does not use.

use super::classes::{Place, Start};
use super::network::Network;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The weight of a flow that came in early, by that of its own window: it takes room that the first one leaves, and no more.
const EARLY: f64 = 1e-6;
/// Part of a resource below which its room is no reason to let a flow in.
pub(crate) const ROOM_MIN: f64 = 0.01;

/// Nodes whose flows are looked at for one that may come in early: a node behind so many with busy links waits for its turn.
const LOOKED_MAX: usize = 8;
/// The queue of single requests of all jobs, in place of a job.
const ALL: u32 = u32::MAX;

/// The queues of all devices.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Whether devices serve the requests of all jobs in the order of their arrival.
    is_fifo: bool,
    /// By device and job.
    queues: BTreeMap<(u32, u32), Queue>,
    /// For each device, flows that wait.
    waiting: Vec<u32>,
    arrivals: u64,
}

/// The flows of a job, or of all, on a device.
#[derive(Debug, Default)]
struct Queue {
    /// Units of all flows.
    window: f64,
    /// Flows in the network by their arrivals: variables and units.
    inside: BTreeMap<u64, (u32, f64)>,
    /// Flows that wait, by node.
    waiting: BTreeMap<u32, VecDeque<(u64, Start)>>,
    /// The first flow that waits of each node, by arrival.
    first: BTreeSet<(u64, u32)>,
}

impl Queues {
    pub(crate) fn new(devices: usize, is_fifo: bool) -> Queues {
        Queues { is_fifo, queues: BTreeMap::new(), waiting: vec![0; devices], arrivals: 0 }
    }

    /// The place of a flow that comes now. Flows of many requests that begin together have theirs by turns, so those of several jobs
    /// share a device also where it serves all jobs by arrival.
    pub(crate) fn place(&mut self, start: &Start) -> Place {
        self.arrivals += 1;
        let of = if self.is_fifo && start.under_way == 1.0 { ALL } else { start.job };
        Place { device: start.parts[0].device, of, arrival: self.arrivals }
    }

    /// A flow comes to its queue. Answers it, if it is the only one there, and else keeps it.
    pub(crate) fn come(&mut self, place: Place, start: Start) -> Option<Start> {
        let queue = self.queues.entry((place.device, place.of)).or_default();
        queue.window += start.units as f64;
        if queue.inside.is_empty() && queue.first.is_empty() {
            return Some(start);
        }
        self.waiting[place.device as usize] += 1;
        queue.wait(place.arrival, start);
        None
    }

    /// A flow of a queue is in the network.
    pub(crate) fn enter(&mut self, place: Place, variable: u32, units: f64) {
        let queue = self.queues.entry((place.device, place.of)).or_default();
        queue.inside.insert(place.arrival, (variable, units));
    }

    /// A flow has ended. Answers the one that comes in, if the network has none of the queue any more.
    pub(crate) fn leave(&mut self, place: Place) -> Option<(Start, Place)> {
        let key = (place.device, place.of);
        let queue = self.queues.get_mut(&key)?;
        if let Some((_, units)) = queue.inside.remove(&place.arrival) {
            queue.window -= units;
        }
        if !queue.inside.is_empty() {
            return None;
        }
        let Some(&first) = queue.first.first() else {
            self.queues.remove(&key);
            return None;
        };
        self.take(key, first)
    }

    /// The flow of a device that waits for no reason, because all of its way has room.
    pub(crate) fn early(&mut self, device: u32, network: &Network) -> Option<(Start, Place)> {
        let of_device = self.queues.range((device, 0)..=(device, u32::MAX));
        let (key, first) = of_device
            .flat_map(|(key, queue)| queue.first.iter().map(move |first| (*key, *first)))
            .take(LOOKED_MAX)
            .find(|&(key, (_, node))| self.queues[&key].has_way(node, network))?;
        self.take(key, first)
    }

    fn take(&mut self, key: (u32, u32), first: (u64, u32)) -> Option<(Start, Place)> {
        let (device, of) = key;
        let start = self.queues.get_mut(&key)?.take(first)?;
        self.waiting[device as usize] -= 1;
        Some((start, Place { device, of, arrival: first.0 }))
    }

    /// Flows of a device that wait.
    pub(crate) fn waiting(&self, device: u32) -> u32 {
        self.waiting[device as usize]
    }

    /// Tells the windows of the flows of a queue that are in the network: the first one has that of all.
    pub(crate) fn windows(&self, place: Place, mut tell: impl FnMut(u32, f64)) {
        let Some(queue) = self.queues.get(&(place.device, place.of)) else { return };
        let mut window = queue.window;
        for &(variable, units) in queue.inside.values() {
            tell(variable, window.max(units * EARLY));
            window = 0.0;
        }
    }
}

impl Queue {
    fn wait(&mut self, arrival: u64, start: Start) {
        let node = start.node;
        let of_node = self.waiting.entry(node).or_default();
        if of_node.is_empty() {
            self.first.insert((arrival, node));
        }
        of_node.push_back((arrival, start));
    }

    /// Takes out the first flow of a node.
    fn take(&mut self, first: (u64, u32)) -> Option<Start> {
        let node = first.1;
        self.first.remove(&first);
        let of_node = self.waiting.get_mut(&node)?;
        let (_, start) = of_node.pop_front()?;
        match of_node.front() {
            Some(&(arrival, _)) => _ = self.first.insert((arrival, node)),
            None => _ = self.waiting.remove(&node),
        }
        Some(start)
    }

    /// Whether all of the way of the first flow of a node has room.
    fn has_way(&self, node: u32, network: &Network) -> bool {
        let first = self.waiting.get(&node).and_then(VecDeque::front);
        first.is_some_and(|(_, start)| start.uses.iter().all(|one| network.room(one.resource) > ROOM_MIN))
    }
}
