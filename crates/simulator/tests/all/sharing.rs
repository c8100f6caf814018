//! A whole store that shares its targets among jobs: by reports that are lost, late or cut off, and always alike.

use crate::scenarios::{step, Work, MEBIBYTE};
use crate::stores::{add_writers, disk, store};
use std::process::Command;
use weir_simulator::{Fault, FaultKind, Outcome, Scenario, Step, StepKind};

/// The jobs of ThemisIO's figure 5: 16 nodes on two servers, and 8 on each of them. All want more than there is.
fn figure_five() -> Scenario {
    let mut scenario = store(3, 1, &disk(1_000.0, 20.0));
    scenario.topology.servers[2].targets = vec![disk(100.0, 20.0)];
    scenario.policy = "size-fair".into();
    scenario.until_seconds = Some(3.0);
    let job = add_writers(&mut scenario, 16, 1, "0.0", 8_000);
    for (nodes, on) in [(8, "0.0"), (8, "1.0"), (1, "2.0")] {
        add_writers(&mut scenario, nodes, 1, on, 8_000);
    }
    let stream = scenario.stream(job, 5);
    let file = scenario.file(job, "1.0");
    scenario.workload.steps.push(step(stream, StepKind::Write, file, 8_000 * MEBIBYTE));
    scenario
}

/// Device time in the last two of three seconds: of each job, and of each target.
fn settled(scenario: &Scenario) -> (Vec<f64>, Vec<f64>) {
    let early = Scenario { until_seconds: Some(1.0), ..scenario.clone() }.outcome();
    let late = scenario.outcome();
    let jobs = late.jobs.iter().zip(&early.jobs);
    let targets = late.targets.iter().zip(&early.targets);
    (
        jobs.map(|(late, early)| late.device_seconds - early.device_seconds).collect(),
        targets.map(|(late, early)| late.busy_seconds - early.busy_seconds).collect(),
    )
}

/// A job of 16 nodes over two servers counts half on each, so it gets as much there as one of 8.
#[test]
fn a_store_divides_its_time_over_servers_and_avoids_a_slow_target() {
    for (loss, delay_seconds) in [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1)] {
        let mut scenario =
            Scenario { exchange_loss: loss, exchange_delay_seconds: delay_seconds, ..figure_five() };
        let maker = scenario.job(1);
        let stream = scenario.stream(maker, 6);
        for _ in 0..20 {
            let file = scenario.file(maker, "");
            let create = step(stream, StepKind::Create, file, 0);
            scenario.workload.steps.push(Step { not_before_seconds: 2.0, ..create });
        }
        let (jobs, targets) = settled(&scenario);
        for (target, own) in [(0, 1), (1, 2)] {
            let ratio = (targets[target] - jobs[own]) / jobs[own];
            let case = format!("loss {loss}, delay {delay_seconds}: {ratio} on {target}");
            assert!((ratio - 1.0).abs() < 0.05, "16 nodes over two servers, 8 on one: half each, not {case}");
            assert!(targets[target] > 1.98, "{targets:?}");
        }
        let whole = scenario.outcome();
        let owed = whole.jobs[0].owed_seconds / whole.jobs[1].owed_seconds;
        assert!((owed - 2.0).abs() < 0.05, "owed {owed} times as much");
        let stripes: Vec<u64> = whole.targets.iter().map(|target| target.stripes).collect();
        assert_eq!(
            (stripes.iter().sum::<u64>(), stripes[2]),
            (25, 1),
            "no new file, although its server is a home"
        );
    }
}

/// Without reports each server divides by what it sees: 16 nodes against 8. A part in a hundred arrives and is believed for a second.
#[test]
fn servers_that_hear_nothing_divide_by_what_they_see() {
    for scenario in [
        Scenario { exchange_loss: 1.0, ..figure_five() },
        Scenario {
            faults: vec![Fault { at_seconds: 0.0, kind: FaultKind::Parted, server: 0, target: 0 }],
            ..figure_five()
        },
    ] {
        let (served, _) = settled(&scenario);
        // On the first server two to one; the job has as much on the other one in the first scenario alone.
        assert!((served[1] - 2.0 / 3.0).abs() < 0.05, "{served:?}");
    }
}

#[test]
fn a_device_may_be_shared_by_every_scheduler() {
    for (scheduler, error_max) in
        [("virtual-time", 0.05), ("statistical-token", 0.15), ("gift", 0.25), ("tbf", 0.1)]
    {
        let scenario = Scenario { scheduler: Some(scheduler.into()), ..figure_five() };
        let (served, _) = settled(&scenario);
        let ratio = served[0] / served[1];
        assert!((ratio / 2.0 - 1.0).abs() < error_max, "{scheduler}: {served:?}");
    }
}

/// Everything that draws or waits: losses, delays, dice of the scheduler, files that are placed, faults.
fn lively() -> Scenario {
    let mut scenario = figure_five();
    (scenario.exchange_loss, scenario.exchange_delay_seconds) = (0.2, 0.01);
    scenario.scheduler = Some("statistical-token".into());
    scenario.until_seconds = None;
    scenario.sample_seconds = 0.25;
    scenario.stripe_count = 2;
    for _ in 0..20 {
        add_writers(&mut scenario, 3, 2, "", 40);
    }
    let fault = |at_seconds, kind, server| Fault { at_seconds, kind, server, target: 0 };
    scenario.faults = vec![
        fault(0.5, FaultKind::Dies, 0),
        fault(1.5, FaultKind::Returns, 0),
        fault(2.0, FaultKind::Speed(0.5), 1),
    ];
    scenario
}

/// The bits of an outcome.
fn bits(outcome: &Outcome) -> String {
    format!("{outcome:?}")
}

#[test]
fn a_scenario_has_one_outcome_in_every_thread_and_process() {
    let here = bits(&lively().outcome());
    let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(|| bits(&lively().outcome()))).collect();
    for thread in threads {
        assert_eq!(thread.join().expect("a run"), here);
    }
    let program = std::env::current_exe().expect("the path of this program");
    let mut there = Command::new(program);
    there.args(["--exact", "sharing::print_the_lively_one", "--ignored", "--nocapture"]);
    let printed = there.output().expect("a second process");
    let printed = String::from_utf8(printed.stdout).expect("text");
    assert!(printed.contains(&here), "another process has another outcome");
    let other = bits(&Scenario { seed: 2, ..lively() }.outcome());
    assert_ne!(other, here, "another seed is another run");
}

/// For the second process of the test before.
#[test]
#[ignore = "a part of another test"]
fn print_the_lively_one() {
    println!("{}", bits(&lively().outcome()));
}
