//! The way to the store: the client of this process, and the user for whom it works.

pub(crate) mod counters;
pub(crate) mod identity;
pub(crate) mod mount;
pub(crate) mod session;
