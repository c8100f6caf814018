//! Stores in the request model, with links that take time.

use crate::scenarios::{idle, step, topology, Work, MEBIBYTE};
use weir_simulator::{Hop, Mode, Outcome, Scenario, Step, StepKind, Target, Transfer};

/// A link of so many gigabytes a second in each direction.
pub(crate) fn link(gigabytes: f64, latency_micros: f64) -> Hop {
    Hop { bytes_per_second: gigabytes * 1e9, latency_seconds: latency_micros / 1e6 }
}

/// A target that moves so many megabytes a second in each direction, and takes so long for each request beside.
pub(crate) fn disk(megabytes: f64, fixed_micros: f64) -> Target {
    let transfer = Transfer { bytes_per_second: megabytes * 1e6, fixed_seconds: fixed_micros / 1e6 };
    Target { capacity_bytes: 1 << 44, read: transfer, write: transfer, ..crate::scenarios::target(1.0) }
}

/// A store of so many servers with as many targets each, that nobody uses yet.
pub(crate) fn store(servers: usize, targets: usize, each: &Target) -> Scenario {
    let mut topology = topology(servers, targets, 64);
    topology.clients.link = link(5.0, 5.0);
    for server in &mut topology.servers {
        server.link = link(10.0, 5.0);
        server.targets = vec![each.clone(); targets];
    }
    Scenario { seed: 1, mode: Mode::Request, ..idle(topology) }
}

/// Adds a job of streams on nodes of their own, each of which writes a file on these targets; answers its number.
pub(crate) fn add_writers(
    scenario: &mut Scenario,
    nodes: u32,
    streams: u32,
    on: &str,
    mebibytes: u64,
) -> u32 {
    let job = scenario.job(nodes);
    for _ in 0..streams {
        let node = scenario.workload.streams.len() as u32 % scenario.topology.clients.nodes;
        let (stream, file) = (scenario.stream(job, node), scenario.file(job, on));
        scenario.step(step(stream, StepKind::Write, file, mebibytes * MEBIBYTE));
    }
    job
}

/// Jobs of so many streams on nodes of their own, each of which writes so many requests at once to each of four targets in turn,
/// and again.
pub(crate) fn in_turn(jobs: u32, streams: u32, requests: u64) -> Scenario {
    let mut scenario = store(1, 4, &disk(500.0, 0.0));
    for number in 0..jobs {
        let job = scenario.job(streams);
        for node in 0..streams {
            let stream = scenario.stream(job, number * streams + node);
            let files = ["0.0", "0.1", "0.2", "0.3"].map(|on| scenario.file(job, on));
            for turn in 0..20 {
                for file in files {
                    let bytes = requests * MEBIBYTE;
                    let write = step(stream, StepKind::Write, file, bytes);
                    scenario.step(Step { offset: turn * bytes, depth: 0, ..write });
                }
            }
        }
    }
    scenario
}

/// Runs in a mode.
pub(crate) fn outcome_in(scenario: &Scenario, mode: Mode) -> Outcome {
    Scenario { mode, ..scenario.clone() }.outcome()
}
