//! A store, its jobs and its network in virtual time: the decisions of the leaves, at the scale of a centre.
//!
//! A [`Scenario`] is a topology, a workload, the settings of a store and faults. Its mode chooses the model. In the
//! *flow* model a read or a write is a set of flows, which share each bottleneck max-min fairly. In the *request* model
//! each server schedules each request by the schedulers of `weir-fairshare`, and exchanges reports with its peers. Both
//! models place files by `weir-placement`, and both answer with an [`Outcome`]. Nothing here reads a clock: a scenario
//! with one seed has one outcome, bit for bit.
#![forbid(unsafe_code)]

mod algorithms;
mod check;
mod core;
mod description;
mod flow;
mod identity;
mod observed;
mod outcome;
mod request;
mod scenario;
mod topology;
mod workload;

use std::ops::ControlFlow;

pub use algorithms::{Algorithms, ChooserMaker};
pub use check::ScenarioError;
pub use description::{key_lines, parse_topology, DescriptionError, Part};
pub use observed::{
    Counter, Counters, DeviceWindow, JobWork, Observe, Observed, StepTime, WaitedFor, Window,
};
pub use outcome::{JobOutcome, Outcome, Progress, ServerOutcome, TargetOutcome};
pub use scenario::{Fault, FaultKind, Mode, Scenario};
pub use topology::{Clients, Fullness, Hop, RouterStage, Server, Side, Target, Topology, Transfer};
pub use workload::{File, Job, Placement, Step, StepKind, Stream, Workload};

/// Runs a scenario. `observe` is called every some hundred events; its `Break` ends the run early, with an outcome that is not
/// complete.
///
/// # Errors
/// [`ScenarioError`] where the scenario cannot be run.
pub fn run(
    scenario: &Scenario,
    observe: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome, ScenarioError> {
    run_by(scenario, &Algorithms::default(), observe)
}

/// Runs a scenario by algorithms of one's own. Each of them replaces the one that the scenario names.
///
/// # Errors
/// [`ScenarioError`] where the scenario cannot be run; also where there is a chooser, and the scenario's mode is another than
/// [`Mode::Request`], the only one that orders requests.
pub fn run_by(
    scenario: &Scenario,
    algorithms: &Algorithms,
    observe: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome, ScenarioError> {
    let settings = check::check(scenario, algorithms)?;
    match scenario.mode {
        Mode::Flow => {
            let world = core::world::World::new(scenario, &settings);
            let model = flow::Flows::new(&world);
            Ok(core::world::run(world, model, observe))
        }
        Mode::Request => Ok(request::run(scenario, &settings, observe)),
    }
}
