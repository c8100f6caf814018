//! Schedulers and allocators of one's own in the place of those that a scenario names.

use crate::stores::{add_writers, disk, store};
use std::ops::ControlFlow;
use std::sync::Arc;
use weir_fairshare::{Choice, Chooser, Nanos, Waiting};
use weir_placement::online::AllocatorMaker;
use weir_placement::{Allocation, AllocationError, Allocator, Demand, View};
use weir_simulator::{run_by, Algorithms, Mode, Outcome, Scenario};

/// Serves the job of most nodes, whatever the policy says.
struct LargestFirst;

impl Chooser for LargestFirst {
    fn choose(&mut self, waiting: &[Waiting], _: Nanos) -> Choice {
        let largest = (0..waiting.len()).max_by_key(|&place| waiting[place].attributes.nodes);
        Choice::Serve(largest.unwrap_or(0))
    }
}

/// Serves nobody in the first second.
struct Late;

impl Chooser for Late {
    fn choose(&mut self, _: &[Waiting], now: Nanos) -> Choice {
        let begin = Nanos(1_000_000_000);
        if now < begin {
            Choice::Hold(begin)
        } else {
            Choice::Serve(0)
        }
    }
}

/// Places every stripe on the last targets.
struct Last;

impl AllocatorMaker for Last {
    fn name(&self) -> &str {
        "last"
    }

    fn make(&self, _: u64) -> Box<dyn Allocator + Send + Sync> {
        Box::new(Last)
    }
}

impl Allocator for Last {
    fn name(&self) -> &str {
        "last"
    }

    fn allocate(
        &mut self,
        view: &View,
        demands: &[Demand],
        _: &mut dyn FnMut() -> u64,
    ) -> Result<Allocation, AllocationError> {
        let last = |count: u16| (0..view.targets().len() as u32).rev().take(usize::from(count)).collect();
        let targets: Vec<Vec<u32>> = demands.iter().map(|demand| last(demand.stripes)).collect();
        Allocation::of(view, demands, &targets)
    }
}

fn outcome(scenario: &Scenario, algorithms: &Algorithms) -> Outcome {
    run_by(scenario, algorithms, &mut |_| ControlFlow::Continue(())).expect("a scenario that runs")
}

fn chosen_by<C: Chooser + 'static>(make: fn() -> C) -> Algorithms {
    let make = move |_: u64| -> Box<dyn Chooser> { Box::new(make()) };
    Algorithms { chooser: Some(Arc::new(make)), ..Algorithms::default() }
}

/// A job of 4 nodes and one of 1, both with more to write than there is time for.
fn pair() -> Scenario {
    let mut scenario = store(1, 1, &disk(1_000.0, 20.0));
    scenario.policy = "job-fair".into();
    scenario.until_seconds = Some(2.0);
    for nodes in [4, 1] {
        add_writers(&mut scenario, nodes, 1, "0.0", 8_000);
    }
    scenario
}

#[test]
fn a_chooser_orders_the_requests_of_a_device() {
    let jobs = |algorithms: &Algorithms| outcome(&pair(), algorithms).jobs;
    let [fair, starved] = [Algorithms::default(), chosen_by(|| LargestFirst)]
        .map(|algorithms| jobs(&algorithms)[1].device_seconds);
    assert!(fair > 0.9, "under job-fair half of two seconds: {fair}");
    assert!(starved < 0.1, "beside a job of more nodes: {starved}");
}

#[test]
fn a_chooser_may_serve_nobody_for_a_while() {
    let served: f64 = outcome(&pair(), &chosen_by(|| Late)).jobs.iter().map(|job| job.device_seconds).sum();
    assert!((0.9..=1.0).contains(&served), "one of two seconds: {served}");
}

#[test]
fn flows_have_no_requests_to_order() {
    let flows = Scenario { mode: Mode::Flow, ..pair() };
    let refused = run_by(&flows, &chosen_by(|| Late), &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(refused.to_string().contains("`request` for a scheduler of one's own"), "{refused}");
}

#[test]
fn an_allocator_chooses_the_targets_of_files_in_both_models() {
    for mode in [Mode::Flow, Mode::Request] {
        let mut scenario = store(2, 2, &disk(1_000.0, 20.0));
        (scenario.mode, scenario.stripe_count) = (mode, 1);
        add_writers(&mut scenario, 1, 8, "", 4);
        let algorithms = Algorithms { allocator: Some(Arc::new(Last)), ..Algorithms::default() };
        let bytes: Vec<u64> =
            outcome(&scenario, &algorithms).targets.iter().map(|target| target.written_bytes).collect();
        assert_eq!(bytes[..3], [0, 0, 0], "{mode:?}");
        assert!(bytes[3] > 0, "{mode:?}");
    }
}
