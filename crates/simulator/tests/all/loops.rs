//! Schedulers behind closed loops: clients that send the next request when the last one is answered, after a think time.
//!
//! One target with nothing before it, so that its scheduler alone decides. Bytes are nanoseconds of device time.

use crate::scenarios::Work;
use crate::stores::{disk, link, store};
use weir_simulator::{Outcome, Scenario, Step, StepKind};

/// A process with one request on its way at a time, or several without think times.
#[derive(Clone, Copy)]
struct Client {
    job: u32,
    service_micros: u64,
    think_micros: u64,
    /// Requests under way, where it does not think.
    depth: u32,
    begin_millis: u64,
}

fn client(job: u32, service_micros: u64, think_micros: u64) -> Client {
    Client { job, service_micros, think_micros, depth: 1, begin_millis: 0 }
}

/// Requests that keep a job's queue from ever being empty.
fn backlog(job: u32, service_micros: u64) -> Client {
    Client { depth: 8, ..client(job, service_micros, 0) }
}

/// Jobs of these sizes, by a policy under a scheduler.
fn device(policy: &str, algorithm: &str, nodes: &[u32]) -> Scenario {
    let mut scenario = store(1, 1, &disk(1_000.0, 0.0));
    (scenario.policy, scenario.scheduler) = (policy.into(), Some(algorithm.into()));
    scenario.topology.clients.link = link(1e9, 0.0);
    scenario.topology.servers[0].link = link(1e9, 0.0);
    for &nodes in nodes {
        let job = scenario.job(nodes);
        scenario.workload.jobs[job as usize].user = "one".into();
    }
    scenario
}

/// Lets clients run for so long.
fn run(mut scenario: Scenario, clients: &[Client], millis: u64) -> Outcome {
    scenario.until_seconds = Some(millis as f64 / 1e3);
    for client in clients {
        let stream = scenario.stream(client.job, 0);
        let file = scenario.file(client.job, "0.0");
        // The file is there: else its making, too, would be scheduled.
        scenario.workload.files[file as usize].bytes = 1;
        let bytes = client.service_micros * 1_000;
        let step = Step {
            stream,
            kind: StepKind::Write,
            after_seconds: 0.0,
            not_before_seconds: client.begin_millis as f64 / 1e3,
            file,
            offset: 0,
            bytes,
            request_bytes: bytes,
            depth: client.depth,
        };
        // As many as fit, if the device did nothing else.
        let most = millis * 1_000 / (client.service_micros + client.think_micros) + 2;
        if client.think_micros == 0 {
            scenario.workload.steps.push(Step { bytes: bytes * (most + u64::from(client.depth)), ..step });
            continue;
        }
        let after_seconds = client.think_micros as f64 / 1e6;
        scenario.workload.steps.push(step);
        scenario.workload.steps.extend((1..most).map(|_| Step { after_seconds, ..step }));
    }
    scenario.outcome()
}

/// Device time of each job, in whole nanoseconds.
fn served_seconds(outcome: &Outcome) -> Vec<f64> {
    outcome.jobs.iter().map(|job| (job.device_seconds * 1e9).round() / 1e9).collect()
}

/// The job's part of the device time that was used.
fn fraction(outcome: &Outcome, job: usize) -> f64 {
    let served = served_seconds(outcome);
    served[job] / served.iter().sum::<f64>()
}

/// ThemisIO's tokens give one synchronous process 27 % against three, because it is absent at every
/// other draw; a kept lag, or tokens, give it its half.
#[test]
fn one_synchronous_process_gets_half_against_three() {
    for algorithm in ["virtual-time", "tbf"] {
        for think in [1, 10, 50, 90] {
            let clients = [0, 1, 1, 1].map(|job| client(job, 100, think));
            let outcome = run(device("job-fair", algorithm, &[1, 3]), &clients, 500);
            let half = fraction(&outcome, 0);
            assert!((0.49..=0.51).contains(&half), "{algorithm}, think {think} us: {half}");
        }
    }
}

/// The same with requests of very different cost: time is divided, not requests.
#[test]
fn small_and_large_requests_get_equal_time() {
    let clients = [(0, 50), (0, 50), (1, 1_600), (1, 1_600)].map(|(job, service)| client(job, service, 1));
    let half = fraction(&run(device("job-fair", "virtual-time", &[1, 1]), &clients, 2_000), 0);
    assert!((0.48..=0.52).contains(&half), "{half}");
}

/// A request may take more than its job has left; that is paid later. Under GIFT the other job also loses its allotment
/// of the time in which the device was busy with one request for longer than an interval.
#[test]
fn what_large_requests_take_too_much_is_paid_back() {
    for (algorithm, fraction_max) in [("virtual-time", 0.52), ("gift", 0.6), ("tbf", 0.52)] {
        let huge = Client { depth: 2, ..client(0, 700_000, 0) };
        let small = Client { depth: 1_000, ..client(1, 1_000, 0) };
        let fraction = fraction(&run(device("job-fair", algorithm, &[1, 1]), &[huge, small], 60_000), 0);
        assert!((0.48..=fraction_max).contains(&fraction), "{algorithm}: {fraction}");
    }
}

#[test]
fn size_fair_divides_four_to_one() {
    for (algorithm, error_max) in [("virtual-time", 0.001), ("tbf", 0.001), ("statistical-token", 0.02)] {
        let clients = [vec![client(1, 100, 1); 8], vec![client(0, 100, 1); 8]].concat();
        let fraction = fraction(&run(device("size-fair", algorithm, &[4, 1]), &clients, 1_000), 0);
        assert!((fraction - 0.8).abs() < error_max, "{algorithm}: {fraction}");
    }
}

/// ThemisIO, figure 8(a): a job of four nodes and one of one node, of one server. It measured 3.96 to 1.
#[test]
fn statistical_tokens_divide_by_size() {
    let clients = [backlog(0, 10), backlog(1, 10)];
    let outcome = run(device("size-fair", "statistical-token", &[4, 1]), &clients, 1_000);
    let ratio = fraction(&outcome, 0) / fraction(&outcome, 1);
    assert!((3.9..4.1).contains(&ratio), "{ratio}");
}

/// Opportunity fairness is of those present at a draw: one synchronous process is absent at every other one, so
/// against three it gets a third, not its half.
#[test]
fn statistical_tokens_forget_who_is_absent() {
    let clients = [0, 1, 1, 1].map(|job| client(job, 100, 1));
    let third = fraction(&run(device("job-fair", "statistical-token", &[1, 1]), &clients, 2_000), 0);
    assert!((0.32..0.35).contains(&third), "{third}");
}

/// ThemisIO, section 5.4: GIFT's interval "leads to a long delay in I/O resource adjustment". A job that begins
/// while another has the device waits for the next interval, then has its share at once.
#[test]
fn gift_adjusts_only_with_the_next_interval() {
    let clients = [backlog(0, 500), Client { begin_millis: 100, ..backlog(1, 500) }];
    for (millis, expected) in [(500, [500.0, 0.0]), (1_500, [1_000.0, 500.0])] {
        let outcome = run(device("job-fair", "gift", &[1, 1]), &clients, millis);
        let served = served_seconds(&outcome).into_iter().map(|seconds| seconds * 1e3);
        assert_eq!(served.collect::<Vec<f64>>(), expected, "in milliseconds, after {millis}");
    }
}

/// GIFT's total is below ThemisIO's in figure 12, because the unused part of an allotment is lost.
#[test]
fn gift_loses_what_a_job_leaves_unused() {
    let run = |algorithm| {
        // The second asks for a fifth of the device, with pauses shorter than a grace.
        let clients = [client(1, 1_000, 3_999), backlog(0, 500)];
        served_seconds(&run(device("job-fair", algorithm, &[1, 1]), &clients, 4_000))
            .into_iter()
            .map(|time| time / 4.0)
    };
    let [backlogged, idling] = run("gift").collect::<Vec<f64>>()[..] else { panic!("two jobs") };
    // The second came first, so that the first interval was its own.
    assert!((backlogged - 0.5 * 3.5 / 4.0).abs() < 0.001, "{backlogged}");
    assert!((0.15..=0.2).contains(&idling), "{idling}");
    let total: f64 = run("virtual-time").sum();
    assert!(total > 0.999, "the same without intervals: {total}");
}

/// Qian et al.: when the classes together want more than the server has, each keeps its rate, whatever the
/// requests of the others are like.
#[test]
fn tbf_keeps_rates_when_oversubscribed() {
    let clients = [backlog(0, 50), backlog(1, 100), backlog(2, 1_000)];
    let outcome = run(device("size-fair", "tbf", &[5, 3, 2]), &clients, 4_000);
    for (job, rate) in [(0, 0.5), (1, 0.3), (2, 0.2)] {
        let fraction = fraction(&outcome, job);
        assert!((fraction - rate).abs() < 0.002, "job {job}: {fraction}, owed {rate}");
    }
    assert!(served_seconds(&outcome).iter().sum::<f64>() > 3.99);
}

/// PSSB: the unused part of a class is divided among the others in proportion to their rates, here 3 to 2.
#[test]
fn tbf_shares_spare_bandwidth_in_proportion_to_rates() {
    let clients = [client(0, 100, 900), backlog(1, 100), backlog(2, 100)];
    let outcome = run(device("size-fair", "tbf", &[5, 3, 2]), &clients, 4_000);
    let parts: Vec<f64> = served_seconds(&outcome).into_iter().map(|time| time / 4.0).collect();
    let [asked, three, two] = parts[..] else { panic!("three jobs") };
    assert!((0.08..=0.1).contains(&asked), "{asked}");
    assert!((three / two - 1.5).abs() < 0.005, "{three} and {two}");
    assert!(asked + three + two > 0.995, "{asked}, {three} and {two}");
}

/// A job that has one request at a time would wait for the flood's request in service each time, and get at most half of a
/// device of which it is owed four fifths. The flood pays nothing for the waits of the device.
#[test]
fn a_device_waits_for_the_next_request_of_a_job_that_is_owed_more() {
    let seconds = 4.0;
    let flood = [client(1, 920, 5); 12];
    for (service, think) in [(920, 100), (300, 200), (300, 400), (100, 50), (3_400, 300)] {
        let scenario = || device("size-fair", "virtual-time", &[4, 1]);
        let alone = run(scenario(), &[client(0, service, think)], 4_000);
        let clients = [vec![client(0, service, think)], flood.to_vec()].concat();
        let beside = run(scenario(), &clients, 4_000);
        let slowdown = alone.jobs[0].device_seconds / beside.jobs[0].device_seconds;
        assert!(
            slowdown < 1.25,
            "{service} us of service, {think} us of thinking: {slowdown:.3} times as long"
        );
        let flood = beside.jobs[1].device_seconds / seconds;
        assert!(flood > 0.2 - 0.002, "the flood has {flood:.3} of the clock and is owed 0.2 at {service} us");
    }
}

/// A job that thinks for longer than another's request takes is not waited for, and the device stays at work.
#[test]
fn a_device_does_not_wait_for_a_job_that_thinks_for_long() {
    let clients = [vec![client(0, 300, 1_500)], vec![client(1, 920, 5); 12]].concat();
    let outcome = run(device("size-fair", "virtual-time", &[4, 1]), &clients, 4_000);
    let used: f64 = served_seconds(&outcome).iter().sum();
    assert!(used > 0.995 * 4.0, "the device worked for {used:.3} s of 4 s");
}
