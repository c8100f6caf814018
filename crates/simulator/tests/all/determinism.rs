//! One scenario has one outcome, bit for bit: in any thread, beside any other run, and in another process.

use crate::scenarios::{idle, step, topology, Work, MEBIBYTE};
use weir_placement::SplitMix64;
use weir_simulator::{Fault, FaultKind, Outcome, Scenario, Step, StepKind};

const JOBS: u64 = 40;

/// A store under jobs of many kinds, with faults.
fn scenario(seed: u64) -> Scenario {
    let mut dice = SplitMix64(seed);
    let mut below = |bound: u64| dice.draw() % bound;
    let mut topology = topology(6, 3, 12);
    topology.clients.link.bytes_per_second = 3e9;
    topology.clients.link.latency_seconds = 2e-6;
    for server in &mut topology.servers {
        server.metadata_seconds = 5e-5;
        server.processor_bytes_per_second = Some(2.5e9);
        server.targets.iter_mut().for_each(|target| target.seek_penalty = 0.05);
    }
    let mut scenario = idle(topology);
    scenario.policy = "user-then-size-fair".into();
    scenario.sample_seconds = 0.25;
    for number in 0..JOBS {
        let job = scenario.job(1 + below(16) as u32);
        scenario.workload.jobs[job as usize].user = format!("user{}", number % 7);
        scenario.workload.jobs[job as usize].arrival_seconds = below(4_000) as f64 / 1e3;
        for _ in 0..1 + below(4) {
            let stream = scenario.stream(job, below(12) as u32);
            let file = scenario.file(job, "");
            for part in 0..1 + below(5) {
                let bytes = 1 + below(300 * MEBIBYTE);
                let depth = below(9) as u32;
                let write = step(stream, StepKind::Write, file, bytes);
                let offset = part * 300 * MEBIBYTE;
                scenario.step(Step { offset, depth, after_seconds: 0.01, ..write });
            }
            scenario.step(step(stream, StepKind::Barrier, 0, 0));
            scenario.step(step(stream, StepKind::Read, file, 100 * MEBIBYTE));
            scenario.step(step(stream, StepKind::Remove, file, 0));
        }
    }
    let fault = |at_seconds, kind, server| Fault { at_seconds, kind, server, target: 1 };
    scenario.faults = vec![
        fault(1.0, FaultKind::Speed(0.2), 2),
        fault(1.5, FaultKind::Dies, 3),
        fault(2.5, FaultKind::Fill(0.9), 1),
        fault(4.0, FaultKind::Returns, 3),
    ];
    scenario
}

/// All bits of an outcome: its numbers have one spelling each.
fn bits(outcome: &Outcome) -> String {
    serde_json::to_string(outcome).expect("an outcome is JSON")
}

#[test]
fn runs_in_four_threads_have_the_outcome_of_one() {
    let seed = weir_testing::seed();
    let scenario = scenario(seed);
    let alone = scenario.outcome();
    assert!(alone.is_complete && alone.jobs.iter().all(|job| job.written_bytes > 0));
    let alone = bits(&alone);
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| bits(&scenario.outcome()))).collect();
        for run in runs {
            assert!(run.join().expect("a run") == alone, "another outcome of seed {seed}");
        }
    });
}

/// Prints the outcome where the environment asks for it; the test below runs this one in another process.
#[test]
fn an_outcome_is_printed_for_another_process() {
    if let Some(seed) = std::env::var("WEIR_SIMULATED_SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("outcome: {}", bits(&scenario(seed).outcome()));
    }
}

#[test]
fn another_process_has_the_same_outcome() {
    let seed = weir_testing::seed();
    let program = std::env::current_exe().expect("the program of this test");
    let output = std::process::Command::new(program)
        .args(["--exact", "determinism::an_outcome_is_printed_for_another_process", "--nocapture"])
        .env("WEIR_SIMULATED_SEED", seed.to_string())
        .output()
        .expect("the program runs");
    let printed = String::from_utf8(output.stdout).expect("text");
    let other = printed.lines().find_map(|line| line.split("outcome: ").nth(1)).expect("an outcome");
    assert!(other == bits(&scenario(seed).outcome()), "another outcome of seed {seed}");
}
