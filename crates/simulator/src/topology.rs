//! The machines and their bounds: client nodes, routers, servers, targets.
//!
//! Every rate is in bytes a second, every time in seconds. A link carries its rate in each direction at once; a processor and a
//! target divide their time between the directions.

use serde::{Deserialize, Serialize};

/// Most targets of one server: a byte of a report numbers its devices, and the last value is the metadata service
/// ([`weir_fairshare::METADATA_DEVICE`]).
pub(crate) const TARGETS_OF_SERVER_MAX: usize = u8::MAX as usize - 1;

/// The machines of a centre.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Name for reports.
    pub name: String,
    /// The file system's layout, in the spelling of `lfs setstripe`: that of files for which nobody names one. Absent: it
    /// has none of its own.
    #[serde(default)]
    pub layout: Option<String>,
    /// The client nodes.
    pub clients: Clients,
    /// Stages of routers between clients and servers, the clients' first; empty where clients reach servers directly.
    #[serde(default)]
    pub routers: Vec<RouterStage>,
    /// The servers, by their numbers.
    pub servers: Vec<Server>,
}

/// The client nodes; all are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// Number of nodes.
    pub nodes: u32,
    /// The link of each node.
    pub link: Hop,
}

/// A link with its bound in each direction, and its delay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// Bytes a second in each direction.
    pub bytes_per_second: f64,
    /// Delay of a message.
    #[serde(default)]
    pub latency_seconds: f64,
}

/// Routers of one kind: I/O routers beside the clients, or LNet routers beside the servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterStage {
    /// Name for reports, such as `io`.
    pub name: String,
    /// Number of routers.
    pub count: u32,
    /// The bound of each.
    pub link: Hop,
    /// Side that chooses the router of a transfer.
    pub side: Side,
}

/// The side that chooses a router: node or server number `i` of `n` uses router `i * count / n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// By the number of the client node.
    Client,
    /// By the number of the server.
    Server,
}

/// A server: its link, its processor, its metadata service and its targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its link to the network.
    pub link: Hop,
    /// Bytes a second that its processor moves in both directions together; absent: no bound.
    #[serde(default)]
    pub processor_bytes_per_second: Option<f64>,
    /// Device time of one metadata operation.
    #[serde(default)]
    pub metadata_seconds: f64,
    /// Its targets, by their numbers.
    pub targets: Vec<Target>,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Its class, as in a cluster.toml: a target is slow beside the others of its class. Targets that name none are one class.
    #[serde(default)]
    pub class: String,
    /// Its capacity.
    pub capacity_bytes: u64,
    /// Bytes in use before the workload begins.
    #[serde(default)]
    pub used_bytes: u64,
    /// Reads.
    pub read: Transfer,
    /// Writes.
    pub write: Transfer,
    /// Part of its time lost for each further stream that it serves at once: with `n` streams it works at
    /// `1 / (1 + seek_penalty * (n - 1))` of its rate, and at least at `seek_floor`.
    #[serde(default)]
    pub seek_penalty: f64,
    /// Least part of its rate that concurrency leaves.
    #[serde(default = "whole")]
    pub seek_floor: f64,
    /// Part of its rate by the part of its capacity in use, between which the rate is linear; empty: all of it.
    #[serde(default)]
    pub fullness: Vec<Fullness>,
}

impl Target {
    /// An empty target of this capacity, equally fast in both directions, whose rate neither concurrency nor fullness lowers.
    pub fn plain(capacity_bytes: u64, transfer: Transfer) -> Target {
        Target {
            class: String::new(),
            capacity_bytes,
            used_bytes: 0,
            read: transfer,
            write: transfer,
            seek_penalty: 0.0,
            seek_floor: whole(),
            fullness: Vec::new(),
        }
    }
}

/// The speed of a target in one direction: a request takes `fixed_seconds` and its bytes at the rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Device time of each request beside that of its bytes.
    #[serde(default)]
    pub fixed_seconds: f64,
}

/// A point of the curve by which a target slows as it fills.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fullness {
    /// Part of the capacity in use, 0 to 1.
    pub used: f64,
    /// Part of the rate that is left, above 0 and at most 1.
    pub rate: f64,
}

fn whole() -> f64 {
    1.0
}
