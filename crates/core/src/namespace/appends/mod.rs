//! Appends: one at a time for each file, at its end.

pub(super) mod append;
pub(super) mod turns;
