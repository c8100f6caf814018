//! Intents: work on targets and other servers that outlives the reply which decided it.

pub(super) mod effects;
pub(super) mod index;
pub(super) mod intent;
pub(super) mod outstanding;
pub(super) mod pending;
