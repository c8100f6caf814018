//! Requests: their way through a device, to bytes or names, and back.

pub(crate) mod carrying_out;
pub(crate) mod data;
pub(crate) mod durability;
pub(crate) mod immediate;
pub(crate) mod intake;
pub(crate) mod metadata;
pub(crate) mod moving;
pub(crate) mod placement;
pub(crate) mod room;
pub(crate) mod service;
pub(crate) mod watch;
