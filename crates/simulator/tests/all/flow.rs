//! Scenarios of the flow model whose outcomes can be computed by hand.

use crate::scenarios::{hop, idle, near, step, topology, Work, GIGABYTES, MEBIBYTE};
use std::ops::ControlFlow;
use weir_simulator::{Fault, FaultKind, Mode, RouterStage, Side, Step, StepKind};

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
        let read = Step { after_seconds: 1.0, ..step(stream, StepKind::Read, file, GIBIBYTE) };
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

/// The jobs of ThemisIO's figure 5: one of 16 nodes on two targets, one of 8 nodes on each. Each target is shared evenly once the
/// servers told each other of the large job.
#[test]
fn a_job_on_two_targets_spends_half_of_its_weight_on_each() {
    let mut scenario = idle(topology(2, 1, 4));
    scenario.policy = "size-fair".into();
    let large = scenario.job(16);
    for target in ["0.0", "1.0"] {
        let stream = scenario.stream(large, 0);
        let file = scenario.file(large, target);
        scenario.step(step(stream, StepKind::Write, file, 16 * GIBIBYTE));
    }
    for (node, target) in [(1, "0.0"), (2, "1.0")] {
        let small = scenario.writer(node, target, 16 * GIBIBYTE);
        scenario.workload.jobs[small as usize].nodes = 8;
    }
    let outcome = scenario.outcome();
    let second = GIBIBYTE as f64 / GIGABYTES;
    for job in &outcome.jobs {
        near(job.ended_seconds, 32.0 * second, 0.01);
    }
    near(outcome.jobs[large as usize].owed_seconds, 32.0 * second, 0.02);
}

#[test]
fn a_limit_holds_on_an_idle_target_and_a_reservation_beside_others() {
    let entitled = |reservation, limit| weir_fairshare::Grant {
        user: Some("user0".into()),
        reservation,
        limit,
        ..weir_fairshare::Grant::default()
    };
    let second = GIBIBYTE as f64 / GIGABYTES;
    let mut limited = idle(topology(1, 1, 2));
    limited.writer(0, "0.0", GIBIBYTE);
    limited.entitlements = vec![entitled(None, Some(0.25))];
    near(limited.outcome().seconds, 4.0 * second, TOLERANCE);
    limited.faults =
        vec![Fault { at_seconds: 2.0 * second, kind: FaultKind::Speed(0.5), server: 0, target: 0 }];
    near(limited.outcome().seconds, 6.0 * second, TOLERANCE);

    let mut reserved = idle(topology(1, 1, 3));
    let first = reserved.writer(0, "0.0", 3 * GIBIBYTE);
    reserved.writer(1, "0.0", 3 * GIBIBYTE);
    reserved.writer(2, "0.0", 3 * GIBIBYTE);
    reserved.entitlements = vec![entitled(Some(0.75), None)];
    let outcome = reserved.outcome();
    near(outcome.jobs[first as usize].ended_seconds, 4.0 * second, TOLERANCE);
    near(outcome.seconds, 9.0 * second, TOLERANCE);
}

#[test]
fn streams_that_meet_on_a_target_cost_it_seeks() {
    let mut topology = topology(1, 1, 3);
    topology.servers[0].targets[0].seek_penalty = 0.25;
    topology.servers[0].targets[0].seek_floor = 0.5;
    let second = GIBIBYTE as f64 / GIGABYTES;
    for (streams, part) in [(1, 1.0), (3, 1.0 / 1.5), (9, 0.5)] {
        let mut scenario = idle(topology.clone());
        (0..streams).for_each(|stream| _ = scenario.writer(stream % 3, "0.0", GIBIBYTE));
        let outcome = scenario.outcome();
        near(outcome.seconds, f64::from(streams) * second / part, TOLERANCE);
        near(outcome.targets[0].busy_seconds, outcome.seconds, TOLERANCE);
    }
}

/// Few requests at a time are bound by the time of a request on its way; the fixed time of requests is the target's.
#[test]
fn a_request_takes_its_hops_one_after_the_other() {
    let mut topology = topology(1, 1, 1);
    topology.clients.link.latency_seconds = 1e-3;
    topology.servers[0].targets[0].write.fixed_seconds = 1e-3;
    let mut scenario = idle(topology);
    scenario.writer(0, "0.0", 100 * MEBIBYTE);
    let mebibyte = MEBIBYTE as f64;
    let (device, links) = (1e-3 + mebibyte / GIGABYTES, 2.0 * mebibyte / (100.0 * GIGABYTES) + 2e-3);
    // The file is made first, by a message to its home and back.
    let made = 2e-3;
    scenario.workload.steps[0].depth = 1;
    near(scenario.outcome().seconds, made + 100.0 * (device + links), 1e-6);
    scenario.workload.steps[0].depth = 8;
    near(scenario.outcome().seconds, made + 100.0 * device + links, 1e-6);
}

#[test]
fn routers_of_a_stage_are_shared_by_the_side_that_chooses_them() {
    let mut topology = topology(4, 1, 4);
    topology.routers = vec![
        RouterStage { name: "io".into(), count: 2, link: hop(GIGABYTES), side: Side::Client },
        RouterStage { name: "lnet".into(), count: 1, link: hop(1.5 * GIGABYTES), side: Side::Server },
    ];
    let mut scenario = idle(topology);
    scenario.writer(0, "0.0", GIBIBYTE);
    let second = GIBIBYTE as f64 / GIGABYTES;
    near(scenario.outcome().seconds, second, 0.01);
    scenario.writer(1, "1.0", GIBIBYTE);
    near(scenario.outcome().seconds, 2.0 * second, 0.01);
    scenario.writer(2, "2.0", GIBIBYTE);
    scenario.writer(3, "3.0", GIBIBYTE);
    near(scenario.outcome().seconds, 4.0 / 1.5 * second, 0.01);
}

/// A step with few requests under way goes on at the pace of its slowest target; with all of them the fast target is done first.
#[test]
fn a_striped_write_waits_for_its_slowest_target() {
    let mut topology = topology(2, 1, 1);
    topology.servers[1].targets[0].write.bytes_per_second = 0.5 * GIGABYTES;
    let mut scenario = idle(topology);
    scenario.sample_seconds = 0.1;
    scenario.writer(0, "0.0,1.0", 2 * GIBIBYTE);
    let second = GIBIBYTE as f64 / GIGABYTES;
    let early = |scenario: &weir_simulator::Scenario| {
        let outcome = scenario.outcome();
        near(outcome.seconds, 2.0 * second, TOLERANCE);
        near(outcome.targets[0].busy_seconds, second, TOLERANCE);
        f64::from(outcome.targets[0].busy_series[..5].iter().sum::<f32>()) / 5.0
    };
    near(early(&scenario), 0.5, 0.01);
    scenario.workload.steps[0].depth = 0;
    near(early(&scenario), 1.0, 0.01);
}

#[test]
fn metadata_operations_wait_for_each_other_and_for_their_messages() {
    let mut topology = topology(1, 1, 4);
    topology.servers[0].metadata_seconds = 1e-3;
    topology.clients.link.latency_seconds = 1e-3;
    let mut scenario = idle(topology);
    let job = scenario.job(1);
    let file = scenario.file(job, "0.0");
    let operations = |stream, depth| Step { depth, ..step(stream, StepKind::Metadata, file, 300) };
    let stream = scenario.stream(job, 0);
    scenario.step(operations(stream, 1));
    near(scenario.outcome().seconds, 300.0 * 3e-3, 1e-6);
    for node in 1..4 {
        let stream = scenario.stream(job, node);
        scenario.step(operations(stream, 1));
    }
    near(scenario.outcome().seconds, 1200.0 * 1e-3, 1e-6);
}

#[test]
fn a_file_has_the_home_that_its_workload_names() {
    let mut topology = topology(2, 1, 1);
    topology.servers[1].metadata_seconds = 1e-3;
    let mut scenario = idle(topology);
    let job = scenario.job(1);
    let (stream, file) = (scenario.stream(job, 0), scenario.file(job, "0.0"));
    scenario.step(Step { depth: 1, ..step(stream, StepKind::Metadata, file, 300) });
    let mut seconds = |mode, home| {
        (scenario.mode, scenario.workload.files[file as usize].home) = (mode, home);
        scenario.outcome().seconds
    };
    for mode in [Mode::Flow, Mode::Request] {
        assert!(seconds(mode, Some(1)) - seconds(mode, Some(0)) >= 0.3 - 1e-6);
        assert_eq!(seconds(mode, None), seconds(mode, Some(0)), "file 0 has its home at server 0");
    }
}

#[test]
fn an_observer_ends_a_run_early_with_what_was_done() {
    let mut scenario = idle(topology(1, 1, 1));
    for _ in 0..300 {
        let job = scenario.job(1);
        let stream = scenario.stream(job, 0);
        let file = scenario.file(job, "0.0");
        (0..100).for_each(|_| scenario.step(step(stream, StepKind::Write, file, MEBIBYTE)));
    }
    let mut looks = Vec::new();
    let outcome = weir_simulator::run(&scenario, &mut |progress| {
        looks.push(progress);
        if looks.len() == 2 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let outcome = outcome.expect("a scenario that can be run");
    assert_eq!(looks.len(), 2);
    assert!(!outcome.is_complete && looks[1].steps_done < looks[1].steps);
    let written: u64 = outcome.jobs.iter().map(|job| job.written_bytes).sum();
    assert!(written >= looks[1].steps_done * MEBIBYTE);
    scenario.until_seconds = Some(1.0);
    let outcome = scenario.outcome();
    assert_eq!((outcome.seconds, outcome.is_complete), (1.0, false));
    near(outcome.targets[0].written_bytes as f64, GIGABYTES, 0.01);
}

#[test]
fn the_seed_throws_the_dice_of_placement() {
    let stripes = |seed: u64| -> Vec<u64> {
        let mut scenario = idle(topology(4, 8, 1));
        scenario.seed = seed;
        scenario.allocator = "random".into();
        for _ in 0..64 {
            scenario.writer(0, "", MEBIBYTE);
        }
        scenario.outcome().targets.iter().map(|target| target.stripes).collect()
    };
    assert_eq!(stripes(1), stripes(1));
    assert_ne!(stripes(1), stripes(2));
    assert_eq!(stripes(2).iter().sum::<u64>(), 64);
}
