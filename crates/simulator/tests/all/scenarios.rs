//! Small scenarios, to be changed by each test.

use std::ops::ControlFlow;
use weir_simulator::{
    run, Clients, File, Hop, Job, Outcome, Placement, Scenario, Server, Step, StepKind, Stream, Target,
    Topology, Transfer, Workload,
};

pub(crate) const MEBIBYTE: u64 = 1 << 20;
pub(crate) const GIGABYTES: f64 = 1e9;

pub(crate) fn hop(bytes_per_second: f64) -> Hop {
    Hop { bytes_per_second, latency_seconds: 0.0 }
}

/// A target of this rate in both directions.
pub(crate) fn target(bytes_per_second: f64) -> Target {
    let transfer = Transfer { bytes_per_second, fixed_seconds: 0.0 };
    Target::plain(1 << 40, transfer)
}

/// Servers with targets of 1 GB/s, and links of which none is ever used up by one of them.
pub(crate) fn topology(servers: usize, targets: usize, nodes: u32) -> Topology {
    let server = || Server {
        link: hop(100.0 * GIGABYTES),
        processor_bytes_per_second: None,
        metadata_seconds: 0.0,
        targets: vec![target(GIGABYTES); targets],
    };
    Topology {
        name: format!("{servers}x{targets}"),
        layout: None,
        clients: Clients { nodes, link: hop(100.0 * GIGABYTES) },
        routers: Vec::new(),
        servers: (0..servers).map(|_| server()).collect(),
    }
}

/// A scenario without work.
pub(crate) fn idle(topology: Topology) -> Scenario {
    let store = Scenario::of(topology, Workload::default());
    Scenario { policy: "job-fair".into(), stripe_count: 1, ..store }
}

pub(crate) fn step(stream: u32, kind: StepKind, file: u32, bytes: u64) -> Step {
    Step {
        stream,
        kind,
        after_seconds: 0.0,
        not_before_seconds: 0.0,
        file,
        offset: 0,
        bytes,
        request_bytes: MEBIBYTE,
        depth: 8,
    }
}

/// Additions to a scenario's workload.
pub(crate) trait Work {
    /// A job of a user and group of its own.
    fn job(&mut self, nodes: u32) -> u32;
    fn stream(&mut self, job: u32, node: u32) -> u32;
    /// A file on these targets, such as `0.1,2.0`; empty: as the allocator chooses.
    fn file(&mut self, job: u32, targets: &str) -> u32;
    fn step(&mut self, step: Step);
    /// A job with one stream on a node, which writes a file on these targets.
    fn writer(&mut self, node: u32, targets: &str, bytes: u64) -> u32;
    fn outcome(&self) -> Outcome;
}

impl Work for Scenario {
    fn job(&mut self, nodes: u32) -> u32 {
        let number = self.workload.jobs.len();
        self.workload.jobs.push(Job {
            name: format!("job{number}"),
            user: format!("user{number}"),
            group: format!("group{number}"),
            nodes,
            priority: 1,
            arrival_seconds: 0.0,
        });
        number as u32
    }

    fn stream(&mut self, job: u32, node: u32) -> u32 {
        self.workload.streams.push(Stream { job, node });
        self.workload.streams.len() as u32 - 1
    }

    fn file(&mut self, job: u32, targets: &str) -> u32 {
        let placement = match targets {
            "" => Placement::Usual,
            _ => Placement::Named(format!("-o {targets} -S 1M")),
        };
        self.workload.files.push(File { job, placement, bytes: 0, home: None });
        self.workload.files.len() as u32 - 1
    }

    fn step(&mut self, step: Step) {
        self.workload.steps.push(step);
    }

    fn writer(&mut self, node: u32, targets: &str, bytes: u64) -> u32 {
        let job = self.job(1);
        let stream = self.stream(job, node);
        let file = self.file(job, targets);
        self.step(step(stream, StepKind::Write, file, bytes));
        job
    }

    fn outcome(&self) -> Outcome {
        run(self, &mut |_| ControlFlow::Continue(())).expect("a scenario that can be run")
    }
}

/// Asserts that a number is within a part of another.
#[track_caller]
pub(crate) fn near(number: f64, expected: f64, part: f64) {
    assert!((number - expected).abs() <= part * expected.abs(), "{number} is not {expected} within {part}");
}
