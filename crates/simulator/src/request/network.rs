//! The way of a request between a client node and a server: the node's link, a router of each stage, the server's link
//! and its processor.
//!
//! Each hop serves messages first come, first served, at its rate, and lets the head of a message go on before its tail
//! has come (cut-through): real networks move a message in packets. A message therefore takes the time of its slowest
//! hop, not the sum of all, and a hop is busy for no longer than its own rate needs. Links and routers have both
//! directions; a processor has one queue for both. Messages without payload take no time but the latency of the way.

use crate::core::time::nanos;
use crate::topology::{Hop, Side, Topology};
use weir_fairshare::{Direction, Nanos};

/// A message on its way: the moments at which its first and its last byte are at the hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) head: Nanos,
    pub(super) tail: Nanos,
}

/// The ends of a way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) node: u32,
    pub(super) server: u16,
}

/// One direction of a hop.
#[derive(Clone, Copy, Debug)]
struct Pipe {
    nanoseconds_per_byte: f64,
    latency: Nanos,
    /// The moment at which it has sent all that came so far.
    free: Nanos,
}

/// Both directions of a hop: towards the servers, and back.
#[derive(Clone, Copy, Debug)]
struct Duplex {
    out: Pipe,
    back: Pipe,
}

/// The routers of one stage.
struct Stage {
    routers: Vec<Duplex>,
    side: Side,
}

/// All hops.
pub(super) struct Network {
    nodes: Vec<Duplex>,
    stages: Vec<Stage>,
    servers: Vec<Duplex>,
    processors: Vec<Option<Pipe>>,
    /// The latency from any node to the server, by server.
    latencies: Vec<Nanos>,
    /// The latency of the servers' own links.
    link_latencies: Vec<Nanos>,
}

impl Pipe {
    fn new(hop: Hop) -> Pipe {
        Pipe {
            nanoseconds_per_byte: 1e9 / hop.bytes_per_second,
            latency: nanos(hop.latency_seconds),
            free: Nanos::ZERO,
        }
    }

    /// Sends a message of `bytes`, and answers when it is at the other end.
    fn pass(&mut self, bytes: u64, span: Span) -> Span {
        let begin = self.free.max(span.head);
        let time = Nanos((bytes as f64 * self.nanoseconds_per_byte).round() as u64);
        self.free = begin + time;
        Span { head: begin + self.latency, tail: span.tail.max(self.free) + self.latency }
    }
}

impl Duplex {
    fn new(hop: Hop) -> Duplex {
        Duplex { out: Pipe::new(hop), back: Pipe::new(hop) }
    }
}

impl Network {
    /// The hops of a topology, all idle.
    pub(super) fn new(topology: &Topology) -> Network {
        let stage = |stage: &crate::topology::RouterStage| Stage {
            routers: vec![Duplex::new(stage.link); stage.count as usize],
            side: stage.side,
        };
        let before: f64 = topology.routers.iter().map(|stage| stage.link.latency_seconds).sum();
        let before = topology.clients.link.latency_seconds + before;
        let link_latency = |server: &crate::topology::Server| server.link.latency_seconds;
        let processor = |server: &crate::topology::Server| {
            let bytes_per_second = server.processor_bytes_per_second?;
            Some(Pipe::new(Hop { bytes_per_second, latency_seconds: 0.0 }))
        };
        Network {
            nodes: vec![Duplex::new(topology.clients.link); topology.clients.nodes as usize],
            stages: topology.routers.iter().map(stage).collect(),
            servers: topology.servers.iter().map(|server| Duplex::new(server.link)).collect(),
            processors: topology.servers.iter().map(processor).collect(),
            latencies: topology.servers.iter().map(|server| nanos(before + link_latency(server))).collect(),
            link_latencies: topology.servers.iter().map(|server| nanos(link_latency(server))).collect(),
        }
    }

    /// The hops of payload from a node to a server, or back.
    pub(super) fn hops(&self) -> u8 {
        self.stages.len() as u8 + 2
    }

    /// The time of a message without payload between any node and a server.
    pub(super) fn latency(&self, server: u16) -> Nanos {
        self.latencies[usize::from(server)]
    }

    /// The time of a report between two servers.
    pub(super) fn between(&self, one: u16, other: u16) -> Nanos {
        self.link_latencies[usize::from(one)] + self.link_latencies[usize::from(other)]
    }

    /// Sends payload through hop number `hop` of its way, counted from its sender.
    pub(super) fn pass(&mut self, direction: Direction, hop: u8, ends: Ends, bytes: u64, span: Span) -> Span {
        let last = self.stages.len() + 1;
        let (place, is_out) = match direction {
            Direction::Write => (usize::from(hop), true),
            Direction::Read => (last - usize::from(hop), false),
        };
        if place == last {
            return self.pass_server(is_out, ends.server, bytes, span);
        }
        let duplex = match place.checked_sub(1) {
            None => &mut self.nodes[ends.node as usize],
            Some(stage) => {
                let (nodes, servers) = (self.nodes.len(), self.servers.len());
                let Stage { routers, side } = &mut self.stages[stage];
                let (number, of) = match side {
                    Side::Client => (ends.node as usize, nodes),
                    Side::Server => (usize::from(ends.server), servers),
                };
                let index = number * routers.len() / of;
                &mut routers[index]
            }
        };
        let pipe = if is_out { &mut duplex.out } else { &mut duplex.back };
        pipe.pass(bytes, span)
    }

    /// The link and the processor of a server; on the way back the processor comes first.
    fn pass_server(&mut self, is_out: bool, server: u16, bytes: u64, span: Span) -> Span {
        let Duplex { out, back } = &mut self.servers[usize::from(server)];
        match (&mut self.processors[usize::from(server)], is_out) {
            (None, true) => out.pass(bytes, span),
            (None, false) => back.pass(bytes, span),
            (Some(processor), true) => processor.pass(bytes, out.pass(bytes, span)),
            (Some(processor), false) => back.pass(bytes, processor.pass(bytes, span)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Clients, RouterStage, Server};

    fn hop(gigabytes: f64, micros: f64) -> Hop {
        Hop { bytes_per_second: gigabytes * 1e9, latency_seconds: micros / 1e6 }
    }

    fn topology(routers: Vec<RouterStage>, processor: Option<f64>) -> Topology {
        let server = Server {
            link: hop(2.0, 3.0),
            processor_bytes_per_second: processor,
            metadata_seconds: 0.0,
            targets: Vec::new(),
        };
        Topology {
            name: String::new(),
            layout: None,
            clients: Clients { nodes: 4, link: hop(1.0, 5.0) },
            routers,
            servers: vec![server.clone(), server],
        }
    }

    /// Sends a message through all hops; answers when its last byte is there.
    fn send(network: &mut Network, direction: Direction, ends: Ends, bytes: u64, at: u64) -> u64 {
        let mut span = Span { head: Nanos(at), tail: Nanos(at) };
        for hop in 0..network.hops() {
            span = network.pass(direction, hop, ends, bytes, span);
        }
        span.tail.0
    }

    #[test]
    fn a_message_takes_the_time_of_its_slowest_hop_and_all_latencies() {
        let io = RouterStage { name: "io".into(), count: 2, link: hop(0.5, 7.0), side: Side::Client };
        let topology = topology(vec![io], Some(4e9));
        let ends = Ends { node: 0, server: 1 };
        let micros = 2_000 + 5 + 7 + 3;
        for direction in [Direction::Write, Direction::Read] {
            let mut network = Network::new(&topology);
            assert_eq!(send(&mut network, direction, ends, 1_000_000, 0), micros * 1_000);
        }
        let network = Network::new(&topology);
        assert_eq!(network.latency(1), Nanos::from_micros(15));
        assert_eq!(network.between(0, 1), Nanos::from_micros(6));
    }

    /// Nodes 0 and 1 share the first of two routers, nodes 2 and 3 the second.
    #[test]
    fn messages_wait_for_each_other_at_the_hop_that_they_share() {
        let io = RouterStage { name: "io".into(), count: 2, link: hop(0.5, 0.0), side: Side::Client };
        let mut network = Network::new(&topology(vec![io], None));
        let begin = 8_000;
        let first = send(&mut network, Direction::Write, Ends { node: 0, server: 0 }, 1_000_000, 0);
        let second = send(&mut network, Direction::Write, Ends { node: 1, server: 1 }, 1_000_000, 0);
        let third = send(&mut network, Direction::Write, Ends { node: 2, server: 0 }, 1_000_000, 0);
        assert_eq!([first, second, third], [2_000_000, 4_000_000, 2_000_000].map(|time| time + begin));
    }
}
