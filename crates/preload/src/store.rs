//! The way to the store: how this process reaches it, and as which user.

pub(crate) mod counters;
pub(crate) mod identity;
pub(crate) mod mount;
pub(crate) mod session;
