//! The known differences between the two models (docs/design/simulator.md), and how large they may be.

use crate::stores::{add_writers, disk, in_turn, outcome_in, store};
use std::ops::RangeInclusive;
use weir_simulator::{Mode, Scenario};

/// The end of a job by flows and by requests, in seconds.
fn ends(scenario: &Scenario, job: usize) -> [f64; 2] {
    [Mode::Flow, Mode::Request].map(|mode| outcome_in(scenario, mode).jobs[job].ended_seconds)
}

/// Asserts that a job ends by flows after so many times the seconds that it takes by requests.
#[track_caller]
fn assert_ratio(scenario: &Scenario, job: usize, allowed: RangeInclusive<f64>) {
    let [flow, request] = ends(scenario, job);
    let ratio = flow / request;
    assert!(
        allowed.contains(&ratio),
        "{flow} s by flows, {request} s by requests: {ratio:.3} is not within {allowed:?}"
    );
}

/// Four jobs of one stream write one request to each of four targets in turn. By requests a target serves one job after the other,
/// so that soon all targets are busy; by flows jobs share a target at every moment.
#[test]
fn jobs_with_one_transfer_at_a_time_end_late_by_flows() {
    assert_ratio(&in_turn(4, 1, 1), 0, 3.5..=4.0);
}

/// Streams that begin together send many requests by turns, and by flows one stream comes after the other.
#[test]
fn many_requests_that_come_by_turns_end_early_by_flows() {
    assert_ratio(&in_turn(1, 4, 32), 0, 0.92..=0.97);
}

/// A job's file lies on a fast target, which another job uses too, and on a slow one, which holds the job back.
#[test]
fn a_job_that_waits_on_a_busy_target_counts_as_one_that_wants_all_of_it() {
    let mut scenario = store(1, 2, &disk(800.0, 20.0));
    scenario.topology.servers[0].targets[1] = disk(200.0, 20.0);
    add_writers(&mut scenario, 1, 1, "0.0,0.1", 512);
    add_writers(&mut scenario, 1, 1, "0.0", 4096);
    assert_ratio(&scenario, 0, 0.6..=0.7);
}

/// A second job comes to one target of a file that is striped over four.
#[test]
fn a_second_job_beside_a_striped_file_is_late_by_flows() {
    for seed in 0..5 {
        let mut scenario = Scenario { seed, lambda_seconds: 0.05, ..store(2, 2, &disk(400.0, 30.0)) };
        add_writers(&mut scenario, 1, 1, "0.0,0.1,1.0,1.1", 2048);
        add_writers(&mut scenario, 1, 1, "0.0", 400);
        assert_ratio(&scenario, 1, 1.05..=1.2);
    }
}

/// The first division comes with a server's first exchange, which the seed draws, and after lambda by flows.
#[test]
fn the_first_division_comes_up_to_one_lambda_late_by_flows() {
    for (seed, lambda_seconds) in (0..24).zip([0.1, 0.2, 0.4].into_iter().cycle()) {
        let mut scenario = Scenario { seed, lambda_seconds, ..store(2, 1, &disk(500.0, 20.0)) };
        add_writers(&mut scenario, 1, 1, "0.0,1.0", 400);
        add_writers(&mut scenario, 1, 1, "0.0", 300);
        let [flow, request] = ends(&scenario, 1);
        let late = flow - request;
        assert!(
            (0.0..=lambda_seconds).contains(&late),
            "seed {seed}, lambda {lambda_seconds} s: {flow} s by flows, {request} s by requests"
        );
    }
}
