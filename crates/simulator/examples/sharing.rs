//! Sharing at scale: a store of saturated targets in the request model, and how far jobs are from their shares.
//!
//! `sharing SERVERS JOBS SECONDS POLICY SCHEDULER LAMBDA_SECONDS LOSS REQUEST_BYTES` prints one JSON object. Each job keeps
//! requests queued on one to four targets, so the time that the policy owes it is that of one division of the whole store.
//! `sharing division SERVERS JOBS POLICY` prints the time of such a division for each use of a device by a job.

use std::ops::ControlFlow;
use std::time::Instant;
use weir_fairshare::{
    shares, GroupId, JobAttributes, JobId, JobName, Presence, Priority, Sharing, StoreDevice, StoreUses, Use,
    UserId,
};
use weir_placement::SplitMix64;
use weir_simulator::{
    run, Clients, File, Hop, Job, Mode, Outcome, Placement, Scenario, Server, Step, StepKind, Stream, Target,
    Topology, Transfer, Workload,
};

/// Requests of a job that are under way on each of its targets.
const DEPTH: u32 = 4;
/// Window over which shares are compared: some twenty requests of each job on each target.
const WINDOW_SECONDS: f64 = 0.5;
/// Shares are fair from the first window on after which no more of the time than this is given wrongly.
const FAIR: f64 = 0.05;
const TARGET_BYTES_PER_SECOND: f64 = 1e9;
const SEED: u64 = 7;
/// Divisions whose mean time is taken.
const DIVISIONS: u32 = 20;

struct Arguments {
    servers: usize,
    jobs: usize,
    seconds: f64,
    policy: String,
    scheduler: String,
    lambda_seconds: f64,
    loss: f64,
    request_bytes: u64,
}

fn number(text: &str) -> f64 {
    text.parse::<f64>().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if let [_, servers, jobs, policy] = &given[..] {
        return divide(number(servers) as usize, number(jobs) as usize, policy);
    }
    let [servers, jobs, seconds, policy, scheduler, lambda, loss, request_bytes] = &given[..] else {
        panic!("usage: sharing SERVERS JOBS SECONDS POLICY SCHEDULER LAMBDA_SECONDS LOSS REQUEST_BYTES");
    };
    measure(&Arguments {
        servers: number(servers) as usize,
        jobs: number(jobs) as usize,
        seconds: number(seconds),
        policy: policy.clone(),
        scheduler: scheduler.clone(),
        lambda_seconds: number(lambda),
        loss: number(loss),
        request_bytes: number(request_bytes) as u64,
    });
}

/// Times the division of the store at one server, of which all servers make as many as their time allows.
fn divide(servers: usize, jobs: usize, policy: &str) {
    let (_, presences) = work(servers, jobs, 1.0, 1 << 20);
    let sharing = Sharing::of(policy.parse().unwrap_or_else(|error| panic!("{error}")));
    let mut told: Vec<(usize, &Presence)> =
        presences.iter().flat_map(|one| one.uses.iter().map(move |usage| (usage.device, one))).collect();
    told.sort_by_key(|(device, one)| (*device, one.attributes.job));
    let begin = Instant::now();
    for _ in 0..DIVISIONS {
        let mut uses = StoreUses::default();
        for (server, one) in &told {
            let device = StoreDevice { server: *server as u16, number: 0 };
            uses.tell(device, one.attributes.job, || one.attributes, None);
        }
        let portions = uses.portions(&sharing, 0);
        assert!(portions.len() <= 1, "one target a server");
    }
    let nanoseconds = begin.elapsed().as_nanos() as f64 / f64::from(DIVISIONS);
    println!(
        "{{\"uses\": {}, \"division_ms\": {:.3}, \"nanoseconds_per_use\": {:.0}}}",
        told.len(),
        nanoseconds / 1e6,
        nanoseconds / told.len() as f64
    );
}

/// Runs the store, and prints how far it was from the shares that it owed.
fn measure(arguments: &Arguments) {
    let (scenario, owed) = scenario(arguments);
    let begin = (Instant::now(), processor_seconds());
    let outcome =
        run(&scenario, &mut |_| ControlFlow::Continue(())).unwrap_or_else(|error| panic!("{error}"));
    let wall_seconds = begin.0.elapsed().as_secs_f64();
    let processor_seconds = processor_seconds() - begin.1;
    let bytes: u64 = outcome.targets.iter().map(|target| target.written_bytes).sum();
    let requests = bytes / arguments.request_bytes;
    let errors = errors(&outcome, &owed);
    let late = errors.len() / 2;
    let settled = errors[late..].iter().sum::<f64>() / (errors.len() - late) as f64;
    let fair_from = errors.iter().rposition(|error| *error > FAIR).map_or(0, |last| last + 1);
    let fair_after = if fair_from < errors.len() {
        format!("{}", fair_from as f64 * WINDOW_SECONDS)
    } else {
        "null".into()
    };
    println!(
        "{{\"policy\": \"{}\", \"scheduler\": \"{}\", \"lambda_seconds\": {}, \"loss\": {}, \"first_error\": {:.4}, \
         \"settled_error\": {settled:.4}, \"total_error\": {:.4}, \"fair_after_seconds\": {fair_after}, \
         \"requests\": {requests}, \"wall_seconds\": {wall_seconds:.3}, \"processor_seconds\": {processor_seconds:.3}, \"requests_per_second\": {:.0}, \
         \"used\": {:.4}, \"peak_mib\": {}}}",
        arguments.policy,
        arguments.scheduler,
        arguments.lambda_seconds,
        arguments.loss,
        errors[0],
        total_error(&outcome, &owed),
        requests as f64 / processor_seconds,
        outcome.targets.iter().map(|target| target.busy_seconds).sum::<f64>()
            / (outcome.seconds * arguments.servers as f64),
        peak_mib(),
    );
}

/// Jobs that write to one to four targets for so long, and what they want.
fn work(servers: usize, jobs: usize, seconds: f64, request_bytes: u64) -> (Workload, Vec<Presence>) {
    let mut random = SplitMix64(SEED);
    let mut below = |most: usize| (random.draw() % most as u64) as usize;
    let mut workload = Workload::default();
    let mut presences = Vec::new();
    for number in 0..jobs {
        let (size, user, group, priority) =
            (1 << below(7), below(jobs / 10 + 1), below(10), 1 + below(3) as u32);
        workload.jobs.push(Job {
            name: format!("job{number}"),
            user: format!("user{user}"),
            group: format!("group{group}"),
            nodes: size,
            priority,
            arrival_seconds: 0.0,
        });
        let mut targets: Vec<usize> = (0..1 + below(4)).map(|_| below(servers)).collect();
        targets.sort_unstable();
        targets.dedup();
        let uses = targets.iter().map(|&device| Use { device, wanted: None }).collect();
        let attributes = JobAttributes {
            job: JobId(number as u64),
            name: JobName(number as u64),
            user: UserId(user as u64),
            group: GroupId(group as u64),
            nodes: size,
            priority: Priority(priority),
        };
        presences.push(Presence { attributes, uses });
        for target in targets {
            let stream = workload.streams.len() as u32;
            workload.streams.push(Stream { job: number as u32, node: number as u32 });
            let placement = Placement::Named(format!("-S 1M -o {target}.0"));
            workload.files.push(File { job: number as u32, placement, bytes: 0, home: None });
            workload.steps.push(Step {
                stream,
                kind: StepKind::Write,
                after_seconds: 0.0,
                not_before_seconds: 0.0,
                file: stream,
                offset: 0,
                // More than a target can do in all of the time.
                bytes: (2.0 * seconds * TARGET_BYTES_PER_SECOND) as u64,
                request_bytes,
                depth: DEPTH,
            });
        }
    }
    (workload, presences)
}

/// The scenario, and the device time in a second that the policy owes each job.
fn scenario(arguments: &Arguments) -> (Scenario, Vec<f64>) {
    let Arguments { servers, jobs, seconds, request_bytes, .. } = *arguments;
    let (workload, presences) = work(servers, jobs, seconds, request_bytes);
    let sharing = Sharing::of(arguments.policy.parse().unwrap_or_else(|error| panic!("{error}")));
    let owed = shares(&sharing, &presences, servers);
    let scenario = Scenario {
        seed: SEED,
        mode: Mode::Request,
        policy: arguments.policy.clone(),
        scheduler: Some(arguments.scheduler.clone()),
        stripe_count: 1,
        lambda_seconds: arguments.lambda_seconds,
        exchange_loss: arguments.loss,
        sample_seconds: WINDOW_SECONDS,
        until_seconds: Some(seconds),
        ..Scenario::of(topology(servers, jobs as u32), workload)
    };
    (scenario, owed)
}

fn topology(servers: usize, nodes: u32) -> Topology {
    let link = |gigabytes: f64| Hop { bytes_per_second: gigabytes * 1e9, latency_seconds: 2e-6 };
    let transfer = Transfer { bytes_per_second: TARGET_BYTES_PER_SECOND, fixed_seconds: 10e-6 };
    let target = Target::plain(1 << 50, transfer);
    let server = Server {
        link: link(12.5),
        processor_bytes_per_second: None,
        metadata_seconds: 20e-6,
        targets: vec![target],
    };
    Topology {
        name: "sharing".into(),
        layout: None,
        clients: Clients { nodes, link: link(12.5) },
        routers: Vec::new(),
        servers: vec![server; servers],
    }
}

/// For each window the part of the time that was not given to whom it was owed.
fn errors(outcome: &Outcome, owed: &[f64]) -> Vec<f64> {
    let windows = outcome.jobs[0].device_series.len();
    let error = |window: usize| {
        let received: Vec<f64> =
            outcome.jobs.iter().map(|job| f64::from(job.device_series[window])).collect();
        misgiven(&received, owed)
    };
    (0..windows).map(error).collect()
}

fn total_error(outcome: &Outcome, owed: &[f64]) -> f64 {
    misgiven(&outcome.jobs.iter().map(|job| job.device_seconds).collect::<Vec<f64>>(), owed)
}

/// Half the sum of the differences between the parts received and the parts owed.
fn misgiven(received: &[f64], owed: &[f64]) -> f64 {
    let (all, all_owed): (f64, f64) = (received.iter().sum(), owed.iter().sum());
    received.iter().zip(owed).map(|(received, owed)| (received / all - owed / all_owed).abs()).sum::<f64>()
        / 2.0
}

/// Time that processors spent on this process, which has one thread: what a run takes on an idle machine.
fn processor_seconds() -> f64 {
    let account = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = account.split(' ').next().and_then(|field| field.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}

/// Greatest memory of the process, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) / 1024
}
