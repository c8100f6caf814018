//! Jobs, and policies under schedulers.

use std::sync::Arc;

use weir_fairshare::{Algorithm, JobAttributes, Priority, Sharing};

/// A job of user 1000 and group 100.
pub(crate) fn job(id: u64, nodes: u32) -> JobAttributes {
    JobAttributes { priority: Priority(0), ..weir_testing::job(id, 1_000, 100, nodes) }
}

/// A policy under a scheduler, where they go together.
pub(crate) fn sharing_under(policy: &str, algorithm: &str) -> Option<Sharing> {
    let algorithm: Algorithm = algorithm.parse().unwrap();
    Sharing::new(policy.parse().unwrap(), Some(algorithm), Arc::default()).ok()
}
