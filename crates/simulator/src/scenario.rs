//! One simulated run: the machines, the work, the settings of the store, and faults.

use crate::observed::Observe;
use crate::topology::Topology;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use weir_fairshare::Grant;

/// A run to simulate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Start of all dice.
    #[serde(default)]
    pub seed: u64,
    /// The model.
    #[serde(default)]
    pub mode: Mode,
    /// Division of the targets' time among jobs, in the policy language, such as `user-then-size-fair`.
    pub policy: String,
    /// Algorithm that enforces the policy; absent: the policy's default.
    #[serde(default)]
    pub scheduler: Option<String>,
    /// Grants beside the policy.
    #[serde(default)]
    pub entitlements: Vec<Grant>,
    /// Algorithm that chooses the targets of files: `balanced`, `lustre-standard` or `random`.
    pub allocator: String,
    /// Bytes of a stripe, where a layout names none.
    pub stripe_bytes: u64,
    /// Targets of a file, where a layout names no number; 0 is all.
    pub stripe_count: u16,
    /// Interval in which servers tell each other their jobs and loads.
    pub lambda_seconds: f64,
    /// Part of the exchanged reports that are lost, 0 to 1.
    #[serde(default)]
    pub exchange_loss: f64,
    /// Mean time by which exchanged reports come later than their links bring them; each is late by an exponential draw.
    #[serde(default)]
    pub exchange_delay_seconds: f64,
    /// Interval of the series in the outcome; 0 keeps none.
    #[serde(default)]
    pub sample_seconds: f64,
    /// The job of which windows and steps are kept; absent: none is. It needs the request model and an end of the run.
    #[serde(default)]
    pub observe: Option<Observe>,
    /// End of the run, if work is left then; absent: when all work is done.
    #[serde(default)]
    pub until_seconds: Option<f64>,
    /// The machines.
    pub topology: Topology,
    /// The work.
    pub workload: Workload,
    /// Faults, in any order.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

impl Scenario {
    /// A run of this work on these machines with the settings of a store that names none: sharing by size, balanced placement,
    /// files over all targets in stripes of 1 MiB, and 100 ms between exchanges.
    pub fn of(topology: Topology, workload: Workload) -> Scenario {
        Scenario {
            seed: 0,
            mode: Mode::default(),
            policy: "size-fair".into(),
            scheduler: None,
            entitlements: Vec::new(),
            allocator: "balanced".into(),
            stripe_bytes: 1 << 20,
            stripe_count: 0,
            lambda_seconds: 0.1,
            exchange_loss: 0.0,
            exchange_delay_seconds: 0.0,
            sample_seconds: 0.0,
            observe: None,
            until_seconds: None,
            topology,
            workload,
            faults: Vec::new(),
        }
    }
}

/// The model of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A read or write is a set of flows.
    #[default]
    Flow,
    /// Each request is scheduled.
    Request,
}

/// An event that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Its moment.
    pub at_seconds: f64,
    /// Its effect.
    pub kind: FaultKind,
    /// The server that it hits.
    pub server: u32,
    /// The target of that server that it hits, for faults of targets.
    #[serde(default)]
    pub target: u32,
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The target works at this part of its rate from now on; 1 is all of it.
    Speed(f64),
    /// This part of the target's capacity is in use from now on.
    Fill(f64),
    /// The server ends: transfers with it stand still, and it takes no new files.
    Dies,
    /// The server serves again.
    Returns,
    /// The server hears and tells no peer from now on, yet serves its clients.
    Parted,
    /// The server hears its peers again.
    Joined,
}
