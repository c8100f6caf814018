//! Moves: objects of files on their way to other targets, and the number of objects on each target.

pub(super) mod holdings;
pub(super) mod object_counts;
pub(super) mod relayout;
pub(super) mod relocation;
