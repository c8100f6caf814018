//! Who is served next: the policy language, the share tree and the schedulers.
//!
//! A server asks a [`Scheduler`] which queued request to execute next on one target, so that the
//! target's time is divided among jobs as a [`Policy`] says, held in a [`Sharing`]. A [`CostModel`] turns a request into
//! the device time it is expected to take. Nothing here reads a clock: time is an argument.

#![forbid(unsafe_code)]

mod bounds;
mod choice;
mod cost;
mod division;
mod entitlement;
mod fifo;
mod gift;
mod job;
mod jobs;
mod order;
mod paths;
mod policy;
mod scheduler;
mod segments;
mod sharing;
mod statistical_token;
mod tbf;
mod time;
mod transition;
mod tree;
mod turns;
mod virtual_time;
mod wheel;

pub use choice::{replace_sharing, scheduler};
pub use cost::{CostModel, DeviceSpeed, Direction, TransferSpeed};
pub use division::{divide, Division, Presence, Use};
pub use entitlement::{Entitlement, EntitlementError, Entitlements, Holder};
pub use job::{GroupId, JobAttributes, JobId, JobName, Priority, Token, UserId};
pub use jobs::JobTable;
pub use policy::{Level, Policy, PolicyError};
pub use scheduler::{Dispatch, JobShare, Portions, Refusal, Scheduler, Settings, REQUEST_COST_MAX};
pub use sharing::{Algorithm, Sharing, SharingError};
pub use time::Nanos;
