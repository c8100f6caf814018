//! Who is served next: the policy language, the share tree and the schedulers.
//!
//! A server asks a [`Scheduler`] which queued request to execute next on one target, so that the
//! target's time is divided among jobs as a [`Policy`] says, held in a [`Sharing`]. A [`CostModel`] turns a request into
//! the device time it is expected to take. Nothing here reads a clock: time is an argument.

#![forbid(unsafe_code)]

mod cost;
mod division;
mod entitlement;
mod job;
mod policy;
mod schedulers;
mod sharing;
mod store;
mod time;

pub use cost::{CostModel, DeviceSpeed, Direction, TransferSpeed};
pub use division::{divide, Division, Presence, Use};
pub use entitlement::{Entitlement, EntitlementError, Entitlements, Holder};
pub use job::{GroupId, JobAttributes, JobId, JobName, Priority, Token, UserId};
pub use policy::{Level, Policy, PolicyError};
pub use schedulers::{
    replace_sharing, scheduler, Dispatch, JobShare, JobTable, Portions, Refusal, Scheduler, Settings,
    REQUEST_COST_MAX,
};
pub use sharing::{Algorithm, Sharing, SharingError};
pub use store::{StoreDevice, StoreUses};
pub use time::Nanos;
