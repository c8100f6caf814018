//! A store, its jobs and its network in virtual time: the decisions of the leaves, at the scale of a centre.
//!
//! A [`Scenario`] is a topology, a workload, the settings of a store and faults. Its mode chooses the model. In the
//! *flow* model a read or a write is a set of flows, which share each bottleneck max-min fairly. In the *request* model
//! each server schedules each request by the schedulers of `weir-fairshare`, and exchanges reports with its peers. Both
//! models place files by `weir-placement`, and both answer with an [`Outcome`]. Nothing here reads a clock: a scenario
//! with one seed has one outcome, bit for bit.
#![forbid(unsafe_code)]

mod description;
mod identity;
mod outcome;
mod scenario;
mod streams;
mod topology;
mod workload;

pub use description::{
    key_lines, parse_fraction, parse_rate, parse_seconds, parse_size, parse_topology, DescriptionError, Part,
};
pub use outcome::{JobOutcome, Outcome, Progress, ServerOutcome, TargetOutcome};
pub use scenario::{Entitlement, Fault, FaultKind, Mode, Scenario};
pub use topology::{Clients, Fullness, Hop, RouterStage, Server, Side, Target, Topology, Transfer};
pub use workload::{File, Job, Placement, Step, StepKind, Stream, Workload};
