//! The request model: each server runs the parts of the product, unchanged, in virtual time.
//!
//! A server is a `weir_device::Device` for each target and one for metadata, with the scheduler of the scenario; `Load`,
//! `Rates` and `Health` of each target; a `Placer`; and an `Exchange`, by which it divides its devices and places files.
//!
//! A step is cut into requests, of which `depth` are under way. Payload passes the client's link, a router of each stage,
//! the server's link and its processor; a device takes a request once all of it has come, as the product's does. The answer
//! takes the latency of the way. Reports take the latency of both servers' links, are lost and late as the scenario says,
//! and pass no partition. A server that dies keeps its bytes. It comes back with empty devices and without reports, and its
//! clients send again the requests that were there.
//!
//! Not modelled: the client's credits and lanes, processor time of requests without payload and of divisions, synchronisation,
//! pages, locks, and the movement of files. Payload that comes slowly holds no slot.

mod divisions;
mod model;
mod network;
mod observation;
mod owed;
mod server;
mod slab;
mod station;

use crate::check::Settings;
use crate::core::world::{self, World};
use crate::outcome::{Outcome, Progress};
use crate::scenario::Scenario;
use std::ops::ControlFlow;

/// Runs a scenario that was checked.
pub(crate) fn run(
    scenario: &Scenario,
    settings: &Settings,
    observe: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Outcome {
    let mut world = World::new(scenario, settings);
    let site = server::Site::new(scenario, settings);
    let model = model::Requesting::new(site, &mut world);
    world::run(world, model, observe)
}
