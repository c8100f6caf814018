//! A pair of jobs that write to one target under stride scheduling, in the simulator.

use std::ops::ControlFlow;
use std::sync::Arc;
use weir_fairshare::Chooser;
use weir_simulator::{
    run_by, Algorithms, Clients, File, Hop, Job, Mode, Placement, Scenario, Server, Step, StepKind, Stream,
    Target, Topology, Transfer, Workload,
};
use weir_stride::Stride;

const MEBIBYTE: u64 = 1 << 20;
const FAST: Hop = Hop { bytes_per_second: 1e10, latency_seconds: 1e-6 };

/// One target of 1 GB/s, and two jobs of so many nodes that have more to write than there is time for.
fn pair(nodes: [u32; 2]) -> Scenario {
    let target = Target::plain(1 << 40, Transfer { bytes_per_second: 1e9, fixed_seconds: 0.0 });
    let server = Server {
        link: FAST,
        processor_bytes_per_second: None,
        metadata_seconds: 1e-5,
        targets: vec![target],
    };
    let topology = Topology {
        name: "one target".into(),
        layout: None,
        clients: Clients { nodes: 2, link: FAST },
        routers: Vec::new(),
        servers: vec![server],
    };
    let job = |number: usize| Job {
        name: format!("job-{number}"),
        user: format!("user-{number}"),
        group: "group".into(),
        nodes: nodes[number],
        priority: 1,
        arrival_seconds: 0.0,
    };
    let write = |stream: u32| Step {
        stream,
        kind: StepKind::Write,
        after_seconds: 0.0,
        not_before_seconds: 0.0,
        file: stream,
        offset: 0,
        bytes: 4_000 * MEBIBYTE,
        request_bytes: MEBIBYTE,
        depth: 8,
    };
    let workload = Workload {
        jobs: vec![job(0), job(1)],
        streams: vec![Stream { job: 0, node: 0 }, Stream { job: 1, node: 1 }],
        files: (0..2).map(|job| File { job, placement: Placement::Usual, bytes: 0, home: None }).collect(),
        steps: vec![write(0), write(1)],
    };
    Scenario { mode: Mode::Request, until_seconds: Some(2.0), ..Scenario::of(topology, workload) }
}

#[test]
fn jobs_get_the_shares_that_the_policy_owes_them() {
    let make = |_: u64| -> Box<dyn Chooser> { Box::<Stride>::default() };
    let algorithms = Algorithms { chooser: Some(Arc::new(make)), ..Algorithms::default() };
    for (nodes, expected) in [([1, 1], 0.5), ([3, 1], 0.75), ([1, 9], 0.1)] {
        let outcome =
            run_by(&pair(nodes), &algorithms, &mut |_| ControlFlow::Continue(())).expect("a scenario");
        let [first, second] = [0, 1].map(|job| outcome.jobs[job].device_seconds);
        let share = first / (first + second);
        assert!((share - expected).abs() < 0.01, "{nodes:?}: the first job got {share} of the time");
    }
}
