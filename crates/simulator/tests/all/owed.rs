//! The device time that a policy owes: to those alone who can use it, and under `fifo` to nobody.

use crate::scenarios::{idle, step, topology, Work, MEBIBYTE};
use weir_simulator::{Fault, FaultKind, Mode, Outcome, Scenario, Step, StepKind};

const MODES: [Mode; 2] = [Mode::Flow, Mode::Request];

/// The part of the device time that went to other jobs than it was owed to.
fn astray(outcome: &Outcome) -> f64 {
    let owed: f64 = outcome.jobs.iter().map(|job| job.owed_seconds).sum();
    let received: f64 = outcome.jobs.iter().map(|job| job.device_seconds).sum();
    let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
    let errors = outcome
        .jobs
        .iter()
        .map(|job| (share(job.owed_seconds, owed) - share(job.device_seconds, received)).abs());
    errors.sum::<f64>() / 2.0
}

/// A job of one stream that writes to these targets, with so many requests under way.
fn writer(scenario: &mut Scenario, targets: &str, mebibytes: u64, depth: u32) -> u32 {
    let job = scenario.job(1);
    let stream = scenario.stream(job, job);
    let file = scenario.file(job, targets);
    let write = step(stream, StepKind::Write, file, mebibytes * MEBIBYTE);
    scenario.step(Step { depth, ..write });
    job
}

/// A job that waits for each of its small requests was owed all of its target's time once, and its neighbour, on a target of its own,
/// had got what was owed to it.
#[test]
fn jobs_that_never_meet_are_owed_what_they_use() {
    for mode in MODES {
        let mut scenario = Scenario { mode, ..idle(topology(2, 1, 2)) };
        for server in &mut scenario.topology.servers {
            server.link.latency_seconds = 0.01;
        }
        writer(&mut scenario, "0.0", 256, 1);
        writer(&mut scenario, "1.0", 2048, 16);
        let outcome = scenario.outcome();
        let slow = &outcome.jobs[0];
        assert!(slow.device_seconds < 0.2 * slow.busy_seconds, "the first job waits: {slow:?}");
        assert!(astray(&outcome) < 0.005, "{mode:?}: {:.4} of {:?}", astray(&outcome), outcome.jobs);
    }
}

/// By requests the first job waits for the request in service, and a server takes this for a want of time.
#[test]
fn what_a_job_cannot_use_is_owed_to_its_neighbour() {
    let mut scenario = idle(topology(1, 1, 2));
    scenario.topology.clients.link.latency_seconds = 0.005;
    writer(&mut scenario, "0.0", 256, 1);
    writer(&mut scenario, "0.0", 4096, 64);
    let outcome = scenario.outcome();
    assert!(astray(&outcome) < 0.005, "{:.4} of {:?}", astray(&outcome), outcome.jobs);
}

/// Both jobs wait for the dead server, the second one with all of its work: nobody has the time that it would get there.
#[test]
fn nothing_is_owed_of_a_server_that_is_away() {
    for mode in MODES {
        let mut scenario = Scenario { mode, ..idle(topology(2, 1, 2)) };
        writer(&mut scenario, "0.0,1.0", 1024, 8);
        let second = writer(&mut scenario, "1.0", 1024, 8);
        scenario.workload.jobs[second as usize].arrival_seconds = 1.0;
        let fault = |at_seconds, kind| Fault { at_seconds, kind, server: 1, target: 0 };
        scenario.faults = vec![fault(0.1, FaultKind::Dies), fault(5.0, FaultKind::Returns)];
        let outcome = scenario.outcome();
        assert!(outcome.is_complete);
        let owed: f64 = outcome.jobs.iter().map(|job| job.owed_seconds).sum();
        let received: f64 = outcome.jobs.iter().map(|job| job.device_seconds).sum();
        assert!((owed / received - 1.0).abs() < 0.05, "{mode:?}: {owed} s owed, {received} s received");
        assert!(astray(&outcome) < 0.05, "{mode:?}: {:.4} of {:?}", astray(&outcome), outcome.jobs);
    }
}

#[test]
fn fifo_owes_nothing() {
    for mode in MODES {
        let mut scenario = Scenario { mode, policy: "fifo".into(), ..idle(topology(1, 1, 2)) };
        writer(&mut scenario, "0.0", 256, 1);
        writer(&mut scenario, "0.0", 1024, 16);
        let outcome = scenario.outcome();
        assert!(outcome.jobs.iter().all(|job| job.owed_seconds == 0.0 && job.device_seconds > 0.0));
    }
}
