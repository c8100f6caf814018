//! Tests of the namespace as a whole: against the kernel, over restarts, over several servers.

mod cluster;
mod kept;
mod kernel;
mod model;
mod peers;
mod quotas;
mod restarts;
mod semantics;
mod tree;
mod versions;

use proptest::test_runner::{Config, RngSeed, TestRunner};

/// Runs random cases by a seed alone.
pub(super) fn runner(cases: u32, seed: u64) -> TestRunner {
    TestRunner::new(Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    })
}
