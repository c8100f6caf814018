//! A device of a server: one target, or the metadata service.
//!
//! A [`Device`] divides its time among jobs by a scheduler of `weir-fairshare`. It emulates another speed on request,
//! and notes the demands of jobs. [`Rates`] are the speeds that its requests achieve, [`Load`] is its use, and
//! [`Health`] compares its speed with the expected one. [`Activity`] is its work in windows. [`Debts`] are what
//! the policy owes its jobs.
//! Time is an argument everywhere. Nothing here reads a clock or moves bytes, so that a simulator runs the same device as a
//! server.
#![forbid(unsafe_code)]

mod activity;
mod anticipation;
mod debts;
mod device;
mod health;
mod load;
mod quantities;
mod rates;
mod usage;

pub use activity::{Activity, Statistic, Statistics};
pub use debts::{owed, Claim, Debt, Debts};
pub use device::{Device, Work};
pub use health::{Health, Peers, Usual};
pub use load::Load;
pub use quantities::{parse_rate, parse_size, parse_time};
pub use rates::{Rates, UnderWay};
pub use usage::{demand, USED_MIN};
