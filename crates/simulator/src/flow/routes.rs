//! The ways of bytes through the machines: links, routers, processors and targets as resources of a network.

use super::network::{Network, Use};
use crate::core::files::Part;
use crate::core::machines::Machines;
use crate::topology::{Hop, RouterStage, Side, Target, Topology, Transfer as Speed};
use weir_fairshare::Direction;

/// The resources of the machines.
#[derive(Debug)]
pub(crate) struct Routes {
    /// For each node and direction, its link.
    clients: Vec<[u32; 2]>,
    client_hop: Hop,
    stages: Vec<Stage>,
    servers: Vec<ServerRoute>,
    /// For each target, the resource and the device.
    targets: Vec<TargetRoute>,
}

#[derive(Debug)]
struct Stage {
    routers: Vec<[u32; 2]>,
    side: Side,
    link: Hop,
}

#[derive(Debug)]
struct ServerRoute {
    link: [u32; 2],
    hop: Hop,
    /// The processor, where it has a bound.
    processor: Option<(u32, f64)>,
    /// The metadata service, where operations take time.
    metadata: Option<(u32, f64)>,
}

#[derive(Debug)]
struct TargetRoute {
    resource: u32,
    read: Speed,
    write: Speed,
}

/// The way of a transfer.
#[derive(Debug)]
pub(crate) struct Route {
    /// Resources that each byte uses, each resource once, by ascending number.
    pub(crate) uses: Vec<Use>,
    /// Time that a request takes on its way and back where nothing else is under way.
    pub(crate) request_seconds: f64,
    /// The longest time that a resource is busy with a request.
    pub(crate) busiest_seconds: f64,
}

impl Routes {
    pub(crate) fn new(topology: &Topology, network: &mut Network) -> Routes {
        let duplex = |hop: &Hop, network: &mut Network| {
            [network.add_resource(hop.bytes_per_second), network.add_resource(hop.bytes_per_second)]
        };
        let clients = (0..topology.clients.nodes).map(|_| duplex(&topology.clients.link, network)).collect();
        let stage = |stage: &RouterStage| Stage {
            routers: (0..stage.count).map(|_| duplex(&stage.link, network)).collect(),
            side: stage.side,
            link: stage.link,
        };
        let stages = topology.routers.iter().map(stage).collect();
        let mut targets = Vec::new();
        let mut servers = Vec::new();
        for server in &topology.servers {
            let rate = server.processor_bytes_per_second;
            servers.push(ServerRoute {
                link: [
                    network.add_resource(server.link.bytes_per_second),
                    network.add_resource(server.link.bytes_per_second),
                ],
                hop: server.link,
                processor: rate.map(|rate| (network.add_resource(rate), rate)),
                metadata: (server.metadata_seconds > 0.0)
                    .then(|| (network.add_resource(1.0), server.metadata_seconds)),
            });
            let target = |target: &Target| TargetRoute {
                resource: network.add_resource(1.0),
                read: target.read,
                write: target.write,
            };
            targets.extend(server.targets.iter().map(target));
        }
        Routes { clients, client_hop: topology.clients.link, stages, servers, targets }
    }

    pub(crate) fn target(&self, target: u32) -> u32 {
        self.targets[target as usize].resource
    }

    /// Device time of each byte of a part.
    pub(crate) fn device_seconds(&self, direction: Direction, part: &Part) -> f64 {
        let route = &self.targets[part.target as usize];
        let Speed { bytes_per_second, fixed_seconds } = match direction {
            Direction::Read => route.read,
            Direction::Write => route.write,
        };
        1.0 / bytes_per_second + fixed_seconds * part.requests as f64 / part.bytes as f64
    }

    /// The links of a server, its processor and its metadata service: all that stand still while it is dead.
    pub(crate) fn of_server(&self, server: u32) -> impl Iterator<Item = u32> + '_ {
        let server = &self.servers[server as usize];
        let rest = [server.processor, server.metadata].into_iter().flatten();
        server.link.into_iter().chain(rest.map(|(resource, _)| resource))
    }

    /// The capacity of a resource of [`Routes::of_server`] while its server is alive.
    pub(crate) fn alive_capacity(&self, server: u32, resource: u32) -> f64 {
        let server = &self.servers[server as usize];
        match (server.processor, server.metadata) {
            (Some((processor, rate)), _) if processor == resource => rate,
            (_, Some((metadata, _))) if metadata == resource => 1.0,
            _ => server.hop.bytes_per_second,
        }
    }

    /// The metadata service of a server, and the time of an operation there.
    pub(crate) fn metadata(&self, server: u32) -> Option<(u32, f64)> {
        self.servers[server as usize].metadata
    }

    /// Time of a message from a node to a server and of its answer.
    pub(crate) fn round_trip_seconds(&self, server: u32) -> f64 {
        let routers: f64 = self.stages.iter().map(|stage| stage.link.latency_seconds).sum();
        let hops = self.client_hop.latency_seconds + routers;
        2.0 * (hops + self.servers[server as usize].hop.latency_seconds)
    }

    /// The way of a transfer whose parts advance together.
    pub(crate) fn route(
        &self,
        node: u32,
        direction: Direction,
        parts: &[Part],
        machines: &Machines,
    ) -> Route {
        let way = match direction {
            Direction::Write => 0,
            Direction::Read => 1,
        };
        let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
        let requests: u64 = parts.iter().map(|part| part.requests).sum();
        let request_bytes = bytes as f64 / requests as f64;
        let mut uses = Vec::with_capacity(4 + self.stages.len() + parts.len());
        uses.push(Use::new(self.clients[node as usize][way], 1.0));
        let mut busiest = request_bytes / self.client_hop.bytes_per_second;
        let mut request_seconds = busiest;
        for stage in &self.stages {
            let hop = request_bytes / stage.link.bytes_per_second;
            request_seconds += hop;
            busiest = f64::max(busiest, hop);
            if stage.side == Side::Client {
                let router = u64::from(node) * stage.routers.len() as u64 / self.clients.len() as u64;
                uses.push(Use::new(stage.routers[router as usize][way], 1.0));
            }
        }
        for part in parts {
            let number = machines.targets[part.target as usize].server;
            let server = &self.servers[number as usize];
            let fraction = part.bytes as f64 / bytes as f64;
            let device_seconds = self.device_seconds(direction, part);
            uses.push(Use::new(self.target(part.target), fraction * device_seconds));
            uses.push(Use::new(server.link[way], fraction));
            uses.extend(server.processor.map(|(processor, _)| Use::new(processor, fraction)));
            for stage in self.stages.iter().filter(|stage| stage.side == Side::Server) {
                let router = u64::from(number) * stage.routers.len() as u64 / self.servers.len() as u64;
                uses.push(Use::new(stage.routers[router as usize][way], fraction));
            }
            let part_request = part.bytes as f64 / part.requests as f64;
            let of_requests = part.requests as f64 / requests as f64;
            let hops = [
                part_request / server.hop.bytes_per_second,
                server.processor.map_or(0.0, |(_, rate)| part_request / rate),
                part_request * device_seconds,
            ];
            request_seconds += of_requests * (hops.iter().sum::<f64>() + self.round_trip_seconds(number));
            busiest = hops.into_iter().fold(busiest, f64::max);
        }
        merge(&mut uses);
        Route { uses, request_seconds, busiest_seconds: busiest }
    }
}

/// Brings the uses of one resource together.
fn merge(uses: &mut Vec<Use>) {
    uses.sort_by_key(|one| one.resource);
    uses.dedup_by(|next, one| {
        let is_same = next.resource == one.resource;
        if is_same {
            one.coefficient += next.coefficient;
        }
        is_same
    });
}
