//! Faults in the request model.

use crate::scenarios::{step, Work, MEBIBYTE};
use crate::stores::{add_writers, disk, store};
use weir_simulator::{Fault, FaultKind, Outcome, Scenario, Step, StepKind};

fn fault(at_seconds: f64, kind: FaultKind, server: u32) -> Fault {
    Fault { at_seconds, kind, server, target: 0 }
}

/// A second of writes to the one target of each of two servers.
fn two_servers() -> Scenario {
    let mut scenario = store(2, 1, &disk(1_000.0, 0.0));
    for on in ["0.0", "1.0"] {
        add_writers(&mut scenario, 1, 1, on, 954);
    }
    scenario
}

fn ends(outcome: &Outcome) -> [f64; 2] {
    [0, 1].map(|job| outcome.jobs[job].ended_seconds)
}

fn assert_ends(scenario: &Scenario, expected: [f64; 2]) -> Outcome {
    let outcome = scenario.outcome();
    for (end, expected) in ends(&outcome).into_iter().zip(expected) {
        assert!((end - expected).abs() < 0.02, "{:?} where {expected:?} is right", ends(&outcome));
    }
    outcome
}

#[test]
fn a_target_that_slows_takes_longer_from_then_on() {
    let mut scenario = two_servers();
    scenario.faults = vec![fault(0.5, FaultKind::Speed(0.25), 1), fault(1.5, FaultKind::Speed(1.0), 1)];
    assert_ends(&scenario, [1.0, 1.75]);
}

#[test]
fn requests_wait_for_a_server_that_dies_and_are_sent_again_when_it_returns() {
    let mut scenario = two_servers();
    scenario.faults = vec![fault(0.5, FaultKind::Dies, 0), fault(2.5, FaultKind::Returns, 0)];
    let outcome = assert_ends(&scenario, [3.0, 1.0]);
    assert!(outcome.is_complete);
    assert_eq!(outcome.targets[0].written_bytes, 954 * MEBIBYTE);
    scenario.faults.pop();
    let outcome = scenario.outcome();
    assert!(!outcome.is_complete, "a server that never returns leaves its job undone, and the run ends");
    assert!(outcome.jobs[1].is_complete && !outcome.jobs[0].is_complete);
}

/// A file of a mebibyte every 50 ms, placed by turns of the homes.
fn files_made(faults: Vec<Fault>) -> (Vec<u64>, Outcome) {
    let mut scenario = store(4, 1, &disk(1_000.0, 0.0));
    scenario.faults = faults;
    let job = scenario.job(1);
    let stream = scenario.stream(job, 0);
    for number in 0..200 {
        let file = scenario.file(job, "");
        let write = step(stream, StepKind::Write, file, MEBIBYTE);
        scenario.workload.steps.push(Step { not_before_seconds: 0.05 * f64::from(number), ..write });
    }
    let outcome = scenario.outcome();
    (outcome.targets.iter().map(|target| target.stripes).collect(), outcome)
}

#[test]
fn files_are_balanced_and_leave_out_a_target_that_is_full() {
    let (stripes, _) = files_made(Vec::new());
    assert!(stripes.iter().all(|count| (45..=55).contains(count)), "{stripes:?}");
    let (stripes, outcome) = files_made(vec![fault(1.0, FaultKind::Fill(1.0), 2)]);
    assert!(stripes[2] <= 10, "{stripes:?}");
    assert_eq!(stripes.iter().sum::<u64>(), 200);
    assert_eq!(outcome.jobs[0].refused_files + outcome.jobs[0].refused_bytes, 0);
}

/// The homes hear of a slow target by its requests: `Health` judges it, and the allocator avoids it.
#[test]
fn files_leave_out_a_target_that_became_slow() {
    let (stripes, _) = files_made(vec![fault(1.0, FaultKind::Speed(0.05), 1)]);
    assert!(stripes[1] <= 12, "{stripes:?}");
}

/// A server that is cut off counts as dead after a second, so the other homes give its targets no files.
#[test]
fn files_leave_out_a_server_that_is_not_heard_of() {
    let (whole, _) = files_made(Vec::new());
    let (stripes, outcome) = files_made(vec![fault(2.0, FaultKind::Parted, 3)]);
    assert!(outcome.is_complete);
    // Its own files, a quarter of all, are all its own from then on.
    assert!(stripes[3] < whole[3] && stripes[3] >= 30, "{stripes:?}");
}
