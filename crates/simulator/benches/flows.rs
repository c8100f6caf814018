//! The speed of the flow model: a burst of flows over a large store, and a day of a centre.
//!
//! `cargo bench -p weir-simulator --bench flows` prints one line of JSON for each part: seconds of real time of a whole run, with the
//! check of the scenario and the placement of files, and the greatest memory of the process until then.

use std::ops::ControlFlow;
use std::time::Instant;
use weir_placement::SplitMix64;
use weir_simulator::{
    run, Clients, File, Hop, Job, Placement, Scenario, Server, Step, StepKind, Stream, Target, Topology,
    Transfer, Workload,
};

const SERVERS: usize = 450;
const TARGETS_OF_SERVER: usize = 8;
const NODES: u32 = 448;
const FLOWS: u32 = 100_000;
const MEBIBYTE: u64 = 1 << 20;
const HOUR_SECONDS: u64 = 3_600;
/// 10,000 a day.
const JOBS_OF_HOUR: u32 = 417;
const DAY_STREAMS: u32 = 4;
const DAY_ROUNDS: u32 = 40;

/// A name and the maker of its scenario.
type Part = (&'static str, fn() -> Scenario);

fn main() {
    let chosen: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|part| part == name);
    let parts: [Part; 6] = [
        ("flows", || burst("fifo", 12.5e9, 1)),
        ("flows-linked", || burst("fifo", 5e9, 1)),
        ("flows-shared", || burst("job-fair", 12.5e9, 32)),
        ("hour", || day(1, DAY_ROUNDS)),
        ("day", || day(24, DAY_ROUNDS)),
        ("day-files", || day(24, 1)),
    ];
    for (name, make) in parts {
        if is_chosen(name) {
            measure(name, &make());
        }
    }
}

fn measure(name: &str, scenario: &Scenario) {
    let (began, began_seconds) = (Instant::now(), processor_seconds());
    let outcome = match run(scenario, &mut |_| ControlFlow::Continue(())) {
        Ok(outcome) => outcome,
        Err(error) => panic!("{name}: {error}"),
    };
    let (seconds, processor_seconds) = (began.elapsed().as_secs_f64(), processor_seconds() - began_seconds);
    assert!(outcome.is_complete, "{name}");
    println!(
        "{{\"part\": \"{name}\", \"seconds\": {seconds:.3}, \"processor_seconds\": {processor_seconds:.3}, \"steps\": {}, \"events\": {}, \"simulated_seconds\": {:.3}, \
         \"memory_mib\": {}}}",
        scenario.workload.steps.len(),
        outcome.events,
        outcome.seconds,
        memory_mib()
    );
}

/// Time that processors spent on this process, which has one thread: what a run takes on an idle machine.
fn processor_seconds() -> f64 {
    let account = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = account.split(' ').next().and_then(|field| field.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}

/// The greatest memory of this process so far.
fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or(0) / 1024
}

fn topology(node_rate: f64) -> Topology {
    let hop = |bytes_per_second| Hop { bytes_per_second, latency_seconds: 1e-6 };
    let transfer = Transfer { bytes_per_second: 1e9, fixed_seconds: 0.0 };
    let target = Target::plain(1 << 44, transfer);
    let server = Server {
        link: hop(12.5e9),
        processor_bytes_per_second: None,
        metadata_seconds: 0.0,
        targets: vec![target; TARGETS_OF_SERVER],
    };
    Topology {
        name: "3600 targets".into(),
        layout: None,
        clients: Clients { nodes: NODES, link: hop(node_rate) },
        routers: Vec::new(),
        servers: vec![server; SERVERS],
    }
}

fn scenario(topology: Topology, policy: &str, workload: Workload) -> Scenario {
    let store = Scenario::of(topology, workload);
    Scenario { seed: 1, policy: policy.into(), stripe_count: 1, lambda_seconds: 0.5, ..store }
}

fn job(number: u32, arrival_seconds: f64) -> Job {
    Job {
        name: format!("job{number}"),
        user: format!("user{}", number % 97),
        group: format!("group{}", number % 13),
        nodes: 1 + number % 64,
        priority: 1,
        arrival_seconds,
    }
}

/// Writes that begin together, each of another size, on targets drawn at random.
fn burst(policy: &str, node_rate: f64, jobs: u32) -> Scenario {
    let mut dice = SplitMix64(7);
    let mut workload =
        Workload { jobs: (0..jobs).map(|number| job(number, 0.0)).collect(), ..Workload::default() };
    for flow in 0..FLOWS {
        let node = flow % NODES;
        let (server, target) = (dice.draw() % SERVERS as u64, dice.draw() % TARGETS_OF_SERVER as u64);
        workload.streams.push(Stream { job: node % jobs, node });
        let placement = Placement::Named(format!("-o {server}.{target}"));
        workload.files.push(File { job: node % jobs, placement, bytes: 0, home: None });
        workload.steps.push(Step {
            stream: flow,
            kind: StepKind::Write,
            after_seconds: 0.0,
            not_before_seconds: 0.0,
            file: flow,
            offset: 0,
            bytes: 64 * MEBIBYTE + dice.draw() % (64 * MEBIBYTE),
            request_bytes: MEBIBYTE,
            depth: 4,
        });
    }
    scenario(topology(node_rate), policy, workload)
}

/// Jobs that come over some hours of a day, each of which computes and writes in turn, with a file for each process and `rounds` of
/// it, and reads at its end.
fn day(hours: u32, rounds: u32) -> Scenario {
    let mut dice = SplitMix64(11);
    let mut workload = Workload::default();
    for number in 0..hours * JOBS_OF_HOUR {
        let arrival = dice.draw() % (u64::from(hours) * HOUR_SECONDS);
        workload.jobs.push(job(number, arrival as f64));
        let period = 20.0 + (dice.draw() % 120) as f64;
        for _ in 0..DAY_STREAMS {
            let stream = workload.streams.len() as u32;
            workload.streams.push(Stream { job: number, node: (dice.draw() % u64::from(NODES)) as u32 });
            let bytes = (16 + dice.draw() % 2048) * MEBIBYTE;
            let step = |kind, file, bytes, after_seconds| Step {
                stream,
                kind,
                after_seconds,
                not_before_seconds: 0.0,
                file,
                offset: 0,
                bytes,
                request_bytes: MEBIBYTE,
                depth: 4,
            };
            for round in 0..DAY_ROUNDS {
                if round % rounds == 0 {
                    let placement = Placement::Layout("-c 4".into());
                    workload.files.push(File { job: number, placement, bytes: 0, home: None });
                }
                let file = workload.files.len() as u32 - 1;
                let offset = u64::from(round % rounds) * bytes;
                let kind = if offset == 0 { StepKind::Create } else { StepKind::Compute };
                workload.steps.push(step(kind, file, 0, period));
                workload.steps.push(Step { offset, ..step(StepKind::Write, file, bytes, 0.0) });
                workload.steps.push(step(StepKind::Barrier, file, 0, 0.0));
            }
            let last = workload.files.len() as u32 - 1;
            workload.steps.push(step(StepKind::Read, last, bytes, 0.0));
        }
    }
    scenario(topology(12.5e9), "user-then-size-fair", workload)
}
