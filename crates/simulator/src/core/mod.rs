//! The part of a run that both models share.

pub(crate) mod accounts;
pub(crate) mod events;
mod extents;
pub(crate) mod files;
pub(crate) mod machines;
mod placers;
pub(crate) mod reports;
mod shared;
mod step_times;
mod streams;
pub(crate) mod time;
pub(crate) mod world;
