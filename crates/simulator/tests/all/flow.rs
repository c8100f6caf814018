//! Scenarios of the flow model whose outcomes can be computed by hand.

use crate::scenarios::{hop, idle, near, step, topology, Work, GIGABYTES, MEBIBYTE};
use weir_simulator::StepKind;

const GIBIBYTE: u64 = 1024 * MEBIBYTE;
const TOLERANCE: f64 = 1e-3;

#[test]
fn a_write_takes_its_bytes_at_the_rate_of_its_target() {
    let mut scenario = idle(topology(1, 1, 1));
    scenario.writer(0, "0.0", 4 * GIBIBYTE);
    let outcome = scenario.outcome();
    assert!(outcome.is_complete);
    near(outcome.seconds, 4.0 * GIBIBYTE as f64 / GIGABYTES, TOLERANCE);
    assert_eq!(outcome.jobs[0].written_bytes, 4 * GIBIBYTE);
    assert_eq!(outcome.targets[0].written_bytes, 4 * GIBIBYTE);
    assert_eq!(outcome.targets[0].used_bytes, 4 * GIBIBYTE);
    near(outcome.targets[0].busy_seconds, outcome.seconds, TOLERANCE);
    near(outcome.jobs[0].owed_seconds, outcome.seconds, TOLERANCE);
}

/// Two jobs share a target, and one of them has a second target to itself.
#[test]
fn jobs_share_a_target_by_the_policy() {
    let mut scenario = idle(topology(1, 1, 3));
    for (node, nodes) in [(0, 1), (1, 3)] {
        let job = scenario.writer(node, "0.0", 3 * GIBIBYTE);
        scenario.workload.jobs[job as usize].nodes = nodes;
    }
    let ended = |scenario: &weir_simulator::Scenario, job: usize| scenario.outcome().jobs[job].ended_seconds;
    let second = GIBIBYTE as f64 / GIGABYTES;
    for (policy, first_ends, second_ends) in
        [("job-fair", 6.0, 6.0), ("fifo", 6.0, 6.0), ("size-fair", 6.0, 4.0)]
    {
        scenario.policy = policy.into();
        near(ended(&scenario, 0), first_ends * second, TOLERANCE);
        near(ended(&scenario, 1), second_ends * second, TOLERANCE);
    }
}

#[test]
fn a_link_bounds_all_flows_of_its_node() {
    let mut topology = topology(2, 1, 2);
    topology.clients.link = hop(0.5 * GIGABYTES);
    let mut scenario = idle(topology);
    scenario.writer(0, "0.0", GIBIBYTE);
    scenario.writer(0, "1.0", GIBIBYTE);
    scenario.writer(1, "1.0", GIBIBYTE);
    let outcome = scenario.outcome();
    let second = GIBIBYTE as f64 / GIGABYTES;
    for (job, seconds) in [4.0, 4.0, 2.0].into_iter().enumerate() {
        near(outcome.jobs[job].ended_seconds, seconds * second, 0.01);
    }
}

#[test]
fn streams_meet_at_barriers_and_pause() {
    let mut scenario = idle(topology(2, 1, 2));
    let job = scenario.job(2);
    for (node, bytes) in [(0, GIBIBYTE), (1, 2 * GIBIBYTE)] {
        let stream = scenario.stream(job, node);
        let file = scenario.file(job, &format!("{node}.0"));
        scenario.step(step(stream, StepKind::Create, file, 0));
        scenario.step(step(stream, StepKind::Write, file, bytes));
        scenario.step(step(stream, StepKind::Barrier, 0, 0));
        let read =
            weir_simulator::Step { after_seconds: 1.0, ..step(stream, StepKind::Read, file, GIBIBYTE) };
        scenario.step(read);
    }
    let outcome = scenario.outcome();
    let second = GIBIBYTE as f64 / GIGABYTES;
    near(outcome.seconds, 1.0 + 3.0 * second, TOLERANCE);
    let job = &outcome.jobs[0];
    assert_eq!((job.read_bytes, job.written_bytes), (2 * GIBIBYTE, 3 * GIBIBYTE));
    near(job.reading_seconds, second, TOLERANCE);
    near(job.writing_seconds, 2.0 * second, TOLERANCE);
    near(job.busy_seconds, 3.0 * second, TOLERANCE);
}
