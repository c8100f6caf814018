//! The choice of the next request: the policy language, the share tree and the schedulers.
//!
//! A server asks a [`Scheduler`] for the queued request to execute next on one target. The scheduler divides the
//! target's time among jobs by a [`Policy`], held in a [`Sharing`]. A [`CostModel`] turns a request into its expected
//! device time. Nothing here reads a clock: time is an argument.

#![forbid(unsafe_code)]

mod bounded;
mod branch;
mod claims;
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
pub use division::{divide, shares, Division, Presence, Use};
pub use entitlement::{parse_fraction, Entitlement, EntitlementError, Entitlements, Grant, Holder, JobGrant};
pub use job::{GroupId, JobAttributes, JobId, JobName, Priority, Token, UserId};
pub use policy::{Level, Policy, PolicyError};
pub use schedulers::{
    replace_sharing, scheduler, scheduler_by, Choice, Chooser, Dispatch, JobShare, JobTable, Portions,
    Refusal, Scheduler, Settings, Waiting, REQUEST_COST_MAX,
};
pub use sharing::{Algorithm, Sharing, SharingError};
pub use store::{device_number, StoreDevice, StoreDivision, StoreUses, METADATA_DEVICE};
pub use time::Nanos;
