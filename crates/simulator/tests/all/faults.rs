//! Faults in the flow model: each takes effect at its moment, on what it hits and on nothing else.

use crate::scenarios::{idle, near, step, topology, Work, GIGABYTES, MEBIBYTE};
use weir_simulator::{Fault, FaultKind, Fullness, Scenario, Step, StepKind};

const GIBIBYTE: u64 = 1024 * MEBIBYTE;
const SECOND: f64 = GIBIBYTE as f64 / GIGABYTES;
const TOLERANCE: f64 = 1e-3;

fn fault(at_seconds: f64, kind: FaultKind, server: u32) -> Fault {
    Fault { at_seconds, kind, server, target: 0 }
}

/// Two servers of one target each; a job writes 4 GiB to each of them.
fn two_writers() -> Scenario {
    let mut scenario = idle(topology(2, 1, 2));
    scenario.writer(0, "0.0", 4 * GIBIBYTE);
    scenario.writer(1, "1.0", 4 * GIBIBYTE);
    scenario
}

#[test]
fn a_target_that_slows_holds_up_its_flows_alone() {
    let mut scenario = two_writers();
    scenario.faults =
        vec![fault(SECOND, FaultKind::Speed(0.25), 0), fault(5.0 * SECOND, FaultKind::Speed(1.0), 0)];
    let outcome = scenario.outcome();
    near(outcome.jobs[0].ended_seconds, 7.0 * SECOND, TOLERANCE);
    near(outcome.jobs[1].ended_seconds, 4.0 * SECOND, TOLERANCE);
    near(outcome.targets[0].busy_seconds, 7.0 * SECOND, TOLERANCE);
}

#[test]
fn flows_of_a_dead_server_stand_still_until_it_returns() {
    let mut scenario = two_writers();
    scenario.faults = vec![fault(SECOND, FaultKind::Dies, 1), fault(3.0 * SECOND, FaultKind::Returns, 1)];
    let outcome = scenario.outcome();
    near(outcome.jobs[0].ended_seconds, 4.0 * SECOND, TOLERANCE);
    near(outcome.jobs[1].ended_seconds, 6.0 * SECOND, TOLERANCE);
    near(outcome.targets[1].busy_seconds, 4.0 * SECOND, TOLERANCE);
}

#[test]
fn a_run_whose_server_never_returns_ends_incomplete_with_what_was_done() {
    let mut scenario = two_writers();
    scenario.faults = vec![fault(SECOND, FaultKind::Dies, 1)];
    let outcome = scenario.outcome();
    assert!(!outcome.is_complete && outcome.jobs[0].is_complete && !outcome.jobs[1].is_complete);
    near(outcome.jobs[1].written_bytes as f64, GIBIBYTE as f64, TOLERANCE);
    assert_eq!(outcome.jobs[0].written_bytes, 4 * GIBIBYTE);
}

/// Jobs of twelve processes whose server died were complete once, 584 years later: rounding had left their flows a rate.
#[test]
fn jobs_on_a_server_that_dies_do_not_end_however_many_flows_meet_there() {
    for (servers, targets) in [(2, 2), (2, 3), (3, 1), (3, 2), (4, 2), (8, 8)] {
        for processes in [1, 5, 12] {
            let mut scenario = idle(topology(servers, targets, 4));
            let job = scenario.job(4);
            for process in 0..processes {
                let stream = scenario.stream(job, process % 4);
                let names: Vec<String> = (0..servers * targets)
                    .map(|number| format!("{}.{}", number / targets, number % targets))
                    .collect();
                let file = scenario.file(job, &names.join(","));
                scenario.step(step(stream, StepKind::Write, file, 2 * GIBIBYTE));
            }
            scenario.faults = vec![fault(0.01, FaultKind::Dies, 1)];
            let dead = scenario.outcome();
            assert!(!dead.is_complete && dead.seconds < 1000.0, "{servers}x{targets}: {}", dead.seconds);
            assert!(dead.jobs[0].written_bytes < u64::from(processes) * 2 * GIBIBYTE);
            scenario.faults = vec![fault(0.01, FaultKind::Speed(0.0), 1)];
            let still = scenario.outcome();
            assert!(!still.is_complete && still.seconds < 1000.0, "{servers}x{targets}: {}", still.seconds);
            scenario.faults.push(fault(1.0, FaultKind::Speed(1.0), 1));
            assert!(scenario.outcome().is_complete);
        }
    }
}

/// The clock ends after 584 years.
#[test]
fn a_flow_that_would_outlast_the_clock_does_not_end() {
    let mut scenario = two_writers();
    scenario.faults = vec![fault(SECOND, FaultKind::Speed(1e-15), 1)];
    let outcome = scenario.outcome();
    assert!(outcome.jobs[0].is_complete && !outcome.jobs[1].is_complete);
    near(outcome.seconds, 4.0 * SECOND, TOLERANCE);
}

/// One stream that makes a file every tenth of a second, by which placement is seen.
fn maker(servers: usize, files: u32) -> Scenario {
    let mut scenario = idle(topology(servers, 1, 1));
    let job = scenario.job(1);
    let stream = scenario.stream(job, 0);
    for _ in 0..files {
        // Homes are the numbers of files modulo servers: all files of the test have home 0.
        (1..servers).for_each(|_| _ = scenario.file(job, ""));
        let file = scenario.workload.files.len() as u32;
        let file = file.next_multiple_of(servers as u32);
        while scenario.workload.files.len() as u32 <= file {
            scenario.file(job, "");
        }
        scenario.step(Step { after_seconds: 0.1, ..step(stream, StepKind::Create, file, 0) });
    }
    scenario
}

#[test]
fn a_dead_server_gets_no_files_once_it_was_silent_and_gets_some_again() {
    let stripes = |faults: Vec<Fault>| {
        let mut scenario = maker(3, 60);
        scenario.faults = faults;
        let outcome = scenario.outcome();
        assert!(outcome.is_complete);
        outcome.targets.iter().map(|target| target.stripes).collect::<Vec<_>>()
    };
    let usual = stripes(Vec::new());
    assert!(usual.iter().all(|&stripes| (15..=25).contains(&stripes)), "{usual:?}");
    // Until the sixth second no file goes there but in the second after its death, in which no one knows of it.
    let dead = stripes(vec![fault(0.05, FaultKind::Dies, 1)]);
    assert!((1..=5).contains(&dead[1]), "{dead:?}");
    let returned = stripes(vec![fault(0.05, FaultKind::Dies, 1), fault(3.0, FaultKind::Returns, 1)]);
    assert!(returned[1] > dead[1] + 5 && returned[1] < usual[1], "{returned:?}");
}

#[test]
fn a_parted_server_serves_its_clients_and_gets_no_files_of_others() {
    let mut scenario = maker(3, 60);
    scenario.faults = vec![fault(0.05, FaultKind::Parted, 1)];
    scenario.writer(0, "1.0", 2 * GIBIBYTE);
    let outcome = scenario.outcome();
    near(outcome.jobs[1].ended_seconds, 2.0 * SECOND, TOLERANCE);
    assert!((1..=5).contains(&outcome.targets[1].stripes), "{:?}", outcome.targets);
    let mut joined = scenario.clone();
    joined.faults.push(fault(3.0, FaultKind::Joined, 1));
    assert!(joined.outcome().targets[1].stripes > outcome.targets[1].stripes + 5);
}

/// The home itself is parted: it knows its own targets alone.
#[test]
fn a_parted_home_places_on_its_own_targets() {
    let mut scenario = maker(3, 60);
    scenario.faults = vec![fault(0.05, FaultKind::Parted, 0)];
    let outcome = scenario.outcome();
    assert!(outcome.targets[0].stripes > 45, "{:?}", outcome.targets);
}

#[test]
fn a_target_slows_as_it_fills() {
    let mut scenario = two_writers();
    let curve = vec![Fullness { used: 0.5, rate: 1.0 }, Fullness { used: 1.0, rate: 0.5 }];
    for server in &mut scenario.topology.servers {
        server.targets[0].capacity_bytes = 64 * GIBIBYTE;
        server.targets[0].fullness.clone_from(&curve);
    }
    scenario.faults = vec![fault(0.0, FaultKind::Fill(0.75), 0)];
    let outcome = scenario.outcome();
    // The write takes its room when it begins: 52 of 64 GiB are in use then.
    near(outcome.jobs[0].ended_seconds, 4.0 * SECOND / 0.6875, TOLERANCE);
    near(outcome.jobs[1].ended_seconds, 4.0 * SECOND, TOLERANCE);
    assert_eq!(outcome.targets[0].used_bytes, 52 * GIBIBYTE);
}

/// A file that may go on elsewhere does, from its end on, as the product's; a file on named targets does not.
#[test]
fn a_write_that_meets_a_full_target_goes_on_elsewhere_or_is_refused() {
    let mut scenario = idle(topology(2, 1, 1));
    scenario.topology.servers[0].targets[0].capacity_bytes = 8 * GIBIBYTE;
    let job = scenario.job(1);
    let stream = scenario.stream(job, 0);
    let file = scenario.file(job, "");
    for part in 0..4 {
        let write = step(stream, StepKind::Write, file, GIBIBYTE);
        scenario.step(Step { offset: part * GIBIBYTE, after_seconds: 1.0, ..write });
    }
    let placed = scenario.outcome();
    let (first, other) = if placed.targets[0].stripes > 0 { (0, 1) } else { (1, 0) };
    assert_eq!(placed.targets[first].written_bytes, 4 * GIBIBYTE);
    // The second write is under way then.
    scenario.faults = vec![fault(1.5 + 1.0 * SECOND, FaultKind::Fill(1.0), first as u32)];
    let outcome = scenario.outcome();
    assert!(outcome.is_complete && outcome.jobs[0].refused_bytes == 0);
    assert!(outcome.targets[first].written_bytes < 4 * GIBIBYTE, "{:?}", outcome.targets);
    assert_eq!(outcome.targets[first].written_bytes + outcome.targets[other].written_bytes, 4 * GIBIBYTE);

    let mut named = idle(topology(2, 1, 1));
    named.writer(0, "0.0", GIBIBYTE);
    named.workload.steps[0].after_seconds = 1.0;
    named.faults = vec![fault(0.5, FaultKind::Fill(1.0), 0)];
    let outcome = named.outcome();
    assert_eq!((outcome.jobs[0].written_bytes, outcome.jobs[0].refused_bytes), (0, GIBIBYTE));
}
