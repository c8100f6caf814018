//! Who is served next: the policy language, the share tree and the schedulers.
//!
//! A server asks a [`Scheduler`] which queued request to execute next on one target, so that the
//! target's time is divided among jobs as a [`Policy`] says. A [`CostModel`] turns a request into
//! the device time it is expected to take. Nothing here reads a clock: time is an argument.

#![forbid(unsafe_code)]

mod cost;
mod fifo;
mod job;
mod jobs;
mod policy;
mod scheduler;
mod time;
mod tree;
mod virtual_time;
mod wheel;

pub use cost::{CostModel, DeviceSpeed, Direction, TransferSpeed};
pub use job::{GroupId, JobAttributes, JobId, Priority, Token, UserId};
pub use jobs::JobTable;
pub use policy::{Level, Policy, PolicyError};
pub use scheduler::{
    replace_policy, scheduler, Dispatch, JobShare, Refusal, Scheduler, Settings, REQUEST_COST_MAX,
};
pub use time::Nanos;
