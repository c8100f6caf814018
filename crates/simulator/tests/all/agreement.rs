//! The two models agree on small systems: bandwidths, ends and shares.

use crate::scenarios::{step, Work, MEBIBYTE};
use crate::stores::{add_writers, disk, in_turn, link, outcome_in, store};
use weir_simulator::{JobOutcome, Mode, RouterStage, Scenario, Side, Step, StepKind};

/// The models may differ by this part.
const AGREEMENT: f64 = 0.05;

/// Figures on which the models disagree.
struct Disagreements(Vec<String>);

impl Disagreements {
    fn compare(&mut self, what: &str, flow: f64, request: f64) {
        let error = (flow - request).abs() / flow.abs().max(request.abs()).max(f64::MIN_POSITIVE);
        if error > AGREEMENT {
            self.0.push(format!("{what} is {flow} by flows and {request} by requests"));
        }
    }
}

/// Asserts that both models give the same figures of jobs and targets, in all cases.
fn assert_agree(cases: &[(String, Scenario)]) {
    let found: Vec<String> =
        cases.iter().flat_map(|(name, scenario)| disagreements(name, scenario)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

fn disagreements(name: &str, scenario: &Scenario) -> Vec<String> {
    let [flow, request] = [Mode::Flow, Mode::Request].map(|mode| outcome_in(scenario, mode));
    assert!(flow.is_complete && request.is_complete, "{name}");
    let mut found = Disagreements(Vec::new());
    found.compare("the end", flow.seconds, request.seconds);
    for (job, (by_flow, by_request)) in flow.jobs.iter().zip(&request.jobs).enumerate() {
        let figures = |outcome: &JobOutcome| {
            let JobOutcome { written_bytes, read_bytes, .. } = *outcome;
            [
                ("end", outcome.ended_seconds),
                ("device time", outcome.device_seconds),
                ("time of writes", outcome.writing_seconds),
                ("time of reads", outcome.reading_seconds),
                ("written bytes", written_bytes as f64),
                ("read bytes", read_bytes as f64),
            ]
        };
        for ((what, flow), (_, request)) in figures(by_flow).into_iter().zip(figures(by_request)) {
            found.compare(&format!("the {what} of job {job}"), flow, request);
        }
    }
    for (target, (by_flow, by_request)) in flow.targets.iter().zip(&request.targets).enumerate() {
        found.compare(&format!("the time of target {target}"), by_flow.busy_seconds, by_request.busy_seconds);
    }
    found.0.into_iter().map(|what| format!("{name}: {what}")).collect()
}

/// Jobs of several streams on two targets, and a striped file beside them.
fn jobs_by(policy: &str) -> Scenario {
    let mut scenario = store(2, 2, &disk(500.0, 20.0));
    scenario.policy = policy.into();
    for (nodes, streams, on) in [(1, 2, "0.0"), (4, 3, "0.0"), (3, 2, "1.1"), (2, 1, "0.1,1.0")] {
        add_writers(&mut scenario, nodes, streams, on, 600);
    }
    scenario.workload.jobs[1].user = "user0".into();
    scenario
}

#[test]
fn one_job_alone() {
    let case = |depth| {
        let mut scenario = store(1, 1, &disk(500.0, 50.0));
        add_writers(&mut scenario, 1, 1, "0.0", 400);
        scenario.workload.steps[0].depth = depth;
        let read = Step { kind: StepKind::Read, ..scenario.workload.steps[0] };
        scenario.workload.steps.push(read);
        (format!("depth {depth}"), scenario)
    };
    assert_agree(&[1, 2, 8, 0].map(case));
}

#[test]
fn several_jobs_by_each_policy() {
    let policies = ["fifo", "job-fair", "user-fair", "size-fair", "user-then-size-fair"];
    assert_agree(&policies.map(|policy| (policy.to_owned(), jobs_by(policy))));
}

#[test]
fn striped_files() {
    let case = |(stripes, depth)| {
        let mut scenario = store(2, 2, &disk(400.0, 30.0));
        for streams in [1, 3] {
            add_writers(&mut scenario, 1, streams, stripes, 2_048);
        }
        scenario.workload.steps.iter_mut().for_each(|step| step.depth = depth);
        (format!("{stripes}, depth {depth}"), scenario)
    };
    let all = "0.0,0.1,1.0,1.1";
    assert_agree(&[(all, 16), (all, 64), (all, 0), ("0.0,1.0", 4), ("0.0,1.0", 16), (all, 1)].map(case));
}

/// Streams that have all requests of a transfer under way, and then go on to the next of four targets: a target serves one
/// stream after the other, so that soon all targets are busy.
#[test]
fn transfers_to_one_target_after_the_other() {
    let case = |requests| (format!("{requests} requests"), in_turn(1, 4, requests));
    let mut cases = Vec::from([1, 2, 4].map(case));
    let fifo = Scenario { policy: "fifo".into(), ..in_turn(4, 1, 1) };
    cases.push(("jobs in the order of arrival".into(), fifo));
    for gigabytes in [1.0, 0.25] {
        let mut slow = in_turn(1, 4, 2);
        slow.topology.clients.link = link(gigabytes, 5.0);
        cases.push((format!("links of {gigabytes} GB/s"), slow));
    }
    assert_agree(&cases);
}

/// Transfers of nodes with slow links wait for the transfer of a node with a slower one no longer than by requests.
#[test]
fn transfers_over_links_that_others_use() {
    let mut scenario = store(1, 9, &disk(500.0, 0.0));
    scenario.topology.clients.link = link(0.2, 5.0);
    let job = scenario.job(2);
    let mut on_first = Vec::new();
    for number in 0..9 {
        let stream = scenario.stream(job, 0);
        let file = scenario.file(job, &format!("0.{number}"));
        scenario.step(Step { depth: 0, ..step(stream, StepKind::Write, file, 64 * MEBIBYTE) });
        on_first.push(file);
    }
    let stream = scenario.stream(job, 1);
    for turn in 1..20 {
        let write = step(stream, StepKind::Write, on_first[0], 4 * MEBIBYTE);
        scenario.step(Step { offset: turn * 64 * MEBIBYTE, depth: 0, ..write });
    }
    let metadata = Step { bytes: 1, depth: 1, ..step(stream, StepKind::Metadata, on_first[0], 0) };
    scenario.step(metadata);
    assert_agree(&[("a shared link".into(), scenario)]);
}

#[test]
fn a_slow_target_among_fast_ones() {
    let mut scenario = store(1, 4, &disk(800.0, 20.0));
    scenario.topology.servers[0].targets[2] = disk(200.0, 20.0);
    add_writers(&mut scenario, 1, 2, "0.0,0.1,0.2,0.3", 512);
    add_writers(&mut scenario, 2, 2, "0.0", 512);
    assert_agree(&[("a slow target".into(), scenario)]);
}

/// The first job is done on the second target, where nobody else is, in the middle of the run. From then on it is owed half of
/// the first target.
#[test]
fn a_job_that_is_done_on_one_of_its_targets() {
    let mut scenario = store(1, 2, &disk(500.0, 20.0));
    scenario.lambda_seconds = 0.02;
    add_writers(&mut scenario, 1, 1, "0.0,0.1", 1000);
    scenario.workload.steps[0].depth = 0;
    add_writers(&mut scenario, 1, 1, "0.0", 1000);
    assert_agree(&[("done on one target".into(), scenario)]);
}

/// Four nodes share two routers of less than their links and the targets have.
#[test]
fn routers_as_the_bottleneck() {
    let mut scenario = store(4, 2, &disk(2_000.0, 0.0));
    scenario.topology.clients.nodes = 4;
    let routers = RouterStage { name: "io".into(), count: 2, link: link(1.0, 10.0), side: Side::Client };
    scenario.topology.routers.push(routers);
    for on in ["0.0", "1.0", "2.0", "3.0"] {
        add_writers(&mut scenario, 1, 1, on, 1024);
    }
    assert_agree(&[("routers".into(), scenario)]);
}

#[test]
fn server_links_and_processors_as_the_bottleneck() {
    let mut scenario = store(2, 4, &disk(2_000.0, 0.0));
    scenario.topology.servers[0].link = link(1.0, 10.0);
    scenario.topology.servers[1].processor_bytes_per_second = Some(1.2e9);
    for on in ["0.0", "0.1", "1.2", "1.3"] {
        let job = add_writers(&mut scenario, 1, 1, on, 512);
        let file = scenario.workload.files.len() as u32 - 1;
        let stream = job;
        scenario.workload.steps.push(step(stream, StepKind::Read, file, 512 * MEBIBYTE));
    }
    assert_agree(&[("server links".into(), scenario)]);
}

#[test]
fn jobs_of_unequal_sizes_that_arrive_one_after_the_other() {
    let mut scenario = store(1, 2, &disk(1_000.0, 10.0));
    scenario.policy = "size-fair".into();
    for (number, mebibytes) in [8_000, 1_600, 3_000, 1_000].into_iter().enumerate() {
        let on = if number % 2 == 0 { "0.0" } else { "0.0,0.1" };
        let job = add_writers(&mut scenario, 1 + number as u32, 2, on, mebibytes);
        scenario.workload.jobs[job as usize].arrival_seconds = 0.4 * number as f64;
    }
    assert_agree(&[("unequal sizes".into(), scenario)]);
}

/// Many small files made by their streams, which meet at barriers and pause.
#[test]
fn small_files_with_barriers_and_pauses() {
    let mut scenario = store(2, 2, &disk(500.0, 100.0));
    scenario.topology.servers.iter_mut().for_each(|server| server.metadata_seconds = 1e-3);
    let job = scenario.job(2);
    for node in 0..4 {
        let stream = scenario.stream(job, node);
        for turn in 0..8 {
            // Where the allocator puts files differs: each model has its own knowledge of the store.
            let file = scenario.file(job, ["0.0", "0.1", "1.0", "1.1"][(node + turn) as usize % 4]);
            let pause = Step { after_seconds: 0.05, ..step(stream, StepKind::Compute, 0, 0) };
            let write = step(stream, StepKind::Write, file, u64::from(4 + turn % 3) * MEBIBYTE);
            scenario.workload.steps.extend([pause, write, step(stream, StepKind::Barrier, 0, 0)]);
            scenario.workload.steps.push(Step {
                bytes: 20,
                depth: 2,
                ..step(stream, StepKind::Metadata, file, 0)
            });
            // Streams end their operations one after the other by requests, and together by flows.
            scenario.step(step(stream, StepKind::Barrier, 0, 0));
        }
    }
    assert_agree(&[("small files".into(), scenario)]);
}
