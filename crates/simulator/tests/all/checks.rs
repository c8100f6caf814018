//! Scenarios that cannot be run: each has one error that names the thing.

use crate::scenarios::{idle, step, topology, Work, MEBIBYTE};
use std::ops::ControlFlow;
use weir_simulator::{run, Fault, FaultKind, Mode, Placement, Scenario, StepKind};

fn refused(change: impl FnOnce(&mut Scenario)) -> String {
    let mut scenario = idle(topology(2, 2, 1));
    scenario.writer(0, "", MEBIBYTE);
    change(&mut scenario);
    let outcome = run(&scenario, &mut |_| ControlFlow::Continue(()));
    outcome.expect_err("a scenario that cannot be run").to_string()
}

#[track_caller]
fn names(error: &str, things: &[&str]) {
    assert!(things.iter().all(|thing| error.contains(thing)), "{error}");
}

#[test]
fn each_fault_of_a_scenario_is_named() {
    names(&refused(|scenario| scenario.topology.servers.clear()), &["topology `2x2` has no targets"]);
    names(
        &refused(|scenario| scenario.policy = "joob-fair".into()),
        &["`joob-fair`", "did you mean `job-fair`"],
    );
    names(&refused(|scenario| scenario.scheduler = Some("tfb".into())), &["`tfb`", "virtual-time"]);
    names(&refused(|scenario| scenario.allocator = "best".into()), &["`best`", "balanced"]);
    names(&refused(|scenario| scenario.lambda_seconds = 0.0), &["lambda_seconds is 0"]);
    names(&refused(|scenario| scenario.stripe_bytes = 0), &["stripe_bytes is 0"]);
    let targets = |scenario: &mut Scenario, count| {
        let first = scenario.topology.servers[0].targets[0].clone();
        scenario.topology.servers[1].targets = vec![first; count];
    };
    for mode in [Mode::Flow, Mode::Request] {
        let many = refused(|scenario| {
            scenario.mode = mode;
            targets(scenario, 255);
        });
        names(&many, &["the number of targets of server 1 is 255", "at most 254"]);
    }
    names(
        &refused(|scenario| scenario.workload.streams[0].node = 1),
        &["stream 0 names node 1, and there are 1"],
    );
    names(&refused(|scenario| scenario.workload.steps[0].file = 9), &["step 0 names file 9"]);
    names(
        &refused(|scenario| scenario.workload.files[0].home = Some(2)),
        &["the home of file 0 names server 2, and there are 2"],
    );
    names(
        &refused(|scenario| scenario.topology.servers[1].targets[0].write.bytes_per_second = 0.0),
        &["write.bytes_per_second of target 1.0 is 0"],
    );
    let layout = |text: &str| Placement::Layout(text.to_owned());
    names(
        &refused(|scenario| scenario.workload.files[0].placement = layout("-z 1")),
        &["file 0", "`-z` is not an option"],
    );
    names(
        &refused(|scenario| scenario.workload.files[0].placement = layout("-c 5")),
        &["file 0", "5 stripes", "4 targets"],
    );
    names(&refused(|scenario| scenario.workload.files[0].placement = layout("-S 1000")), &["file 0", "4096"]);
    let named = |text: &str| Placement::Named(text.to_owned());
    names(
        &refused(|scenario| scenario.workload.files[0].placement = named("-o 1.7")),
        &["`-o 1.7`", "target 7"],
    );
    names(
        &refused(|scenario| scenario.workload.files[0].placement = named("-c 2")),
        &["`-c 2`", "component 1"],
    );
    let fault = |kind, target| Fault { at_seconds: 1.0, kind, server: 1, target };
    names(
        &refused(|scenario| scenario.faults = vec![fault(FaultKind::Speed(0.5), 2)]),
        &["fault 0 names target 2"],
    );
    names(
        &refused(|scenario| scenario.faults = vec![fault(FaultKind::Fill(1.5), 0)]),
        &["the fill of fault 0 is 1.5"],
    );
}

#[test]
fn a_workload_larger_than_the_store_is_refused_unless_files_are_removed() {
    let capacity = 4 << 40;
    let error = refused(|scenario| scenario.workload.steps[0].bytes = capacity + 1);
    names(&error, &[&(capacity + 1).to_string(), &capacity.to_string()]);
    let mut scenario = idle(topology(2, 2, 1));
    let job = scenario.job(1);
    let stream = scenario.stream(job, 0);
    for _ in 0..3 {
        let file = scenario.file(job, "0.0,0.1,1.0,1.1");
        scenario.step(step(stream, StepKind::Write, file, capacity / 2));
        scenario.step(step(stream, StepKind::Remove, file, 0));
    }
    let outcome = scenario.outcome();
    assert!(outcome.is_complete && outcome.jobs[0].refused_bytes == 0);
    assert_eq!(outcome.targets[0].used_bytes, 0);
}
