//! Windows of a simulated store, and the times of one job's steps.

use crate::scenarios::{near, step, Work};
use crate::stores::{disk, store};
use weir_simulator::{run, DeviceWindow, Mode, Observe, Observed, Scenario, Step, StepKind};

const KIBIBYTE: u64 = 1 << 10;
/// Device time of a request of 100,000 bytes on the disk below.
const REQUEST_SECONDS: f64 = 0.011;

/// A store of one target and a metadata service, whose requests take whole milliseconds, and no network between.
fn scenario() -> Scenario {
    let mut scenario = store(1, 1, &disk(10.0, 1_000.0));
    scenario.policy = "fifo".into();
    scenario.topology.clients.link.latency_seconds = 0.0;
    scenario.topology.servers[0].link.latency_seconds = 0.0;
    scenario.topology.servers[0].metadata_seconds = 0.004;
    scenario
}

/// A job that makes a file, writes so many requests to it, and looks at it after each.
fn writer(scenario: &mut Scenario, requests: u64) -> u32 {
    let job = scenario.job(1);
    let node = job;
    let (stream, file) = (scenario.stream(job, node), scenario.file(job, ""));
    scenario.step(step(stream, StepKind::Create, file, 0));
    for request in 0..requests {
        let write = step(stream, StepKind::Write, file, 100_000);
        scenario.step(Step { offset: request * 128 * KIBIBYTE, request_bytes: 0, ..write });
        scenario.step(step(stream, StepKind::Metadata, file, 1));
    }
    job
}

fn observed(scenario: &mut Scenario, job: u32, window_seconds: f64) -> Observed {
    scenario.observe = Some(Observe { job, window_seconds });
    scenario.until_seconds = Some(60.0);
    scenario.outcome().observed.expect("a job was observed")
}

/// The devices of all windows at this place.
fn at(observed: &Observed, place: usize) -> impl Iterator<Item = &DeviceWindow> {
    observed.windows.iter().map(move |window| &window.devices[place])
}

#[test]
fn windows_have_all_work_of_a_job_and_of_its_devices() {
    let mut scenario = scenario();
    let job = writer(&mut scenario, 40);
    let observed = observed(&mut scenario, job, 0.1);
    // One creation, and 40 times a write and a look.
    let whole = 0.004 + 40.0 * (REQUEST_SECONDS + 0.004);
    assert_eq!(observed.windows.len(), (whole / 0.1).ceil() as usize);
    let target = || at(&observed, 0);
    assert!(target().all(|window| window.index == Some(0)));
    assert_eq!(target().map(|window| window.job.writes).sum::<u64>(), 40);
    assert_eq!(target().map(|window| window.job.written_bytes).sum::<u64>(), 4_000_000);
    assert_eq!(target().map(|window| window.counters.writes.sum).sum::<f64>(), 40.0);
    near(target().map(|window| window.job.device_seconds).sum(), 40.0 * REQUEST_SECONDS, 0.01);
    near(target().map(|window| window.counters.busy_milliseconds.sum).sum(), 440.0, 0.01);
    assert_eq!(target().map(|window| window.job.waited_for.len()).sum::<usize>(), 0, "it is alone");
    let metadata = || at(&observed, 1);
    assert!(metadata().all(|window| window.index.is_none() && window.job.writes == 0));
    assert_eq!(metadata().map(|window| window.counters.reads.sum).sum::<f64>(), 40.0, "a look is a read");
    assert_eq!(
        metadata().map(|window| window.counters.writes.sum).sum::<f64>(),
        1.0,
        "a creation is a write"
    );
    near(metadata().map(|window| window.job.request_seconds).sum(), 41.0 * 0.004, 0.01);
}

#[test]
fn steps_have_their_times_and_waits_name_the_other_job() {
    let mut alone = scenario();
    let job = writer(&mut alone, 10);
    let quiet = observed(&mut alone, job, 0.1);
    let mut among = scenario();
    let job = writer(&mut among, 10);
    let others = [writer(&mut among, 1_000), writer(&mut among, 1_000)];
    let slowed = observed(&mut among, job, 0.1);
    assert_eq!(quiet.steps.len(), 21);
    let places = |observed: &Observed| observed.steps.iter().map(|step| step.step).collect::<Vec<_>>();
    assert_eq!(places(&quiet), (0..21).collect::<Vec<u32>>());
    assert_eq!(places(&quiet), places(&slowed), "the same steps, in the same places");
    near(quiet.steps[1].seconds, REQUEST_SECONDS, 0.01);
    near(quiet.steps[1].begin_seconds, 0.004, 0.01);
    let time = |observed: &Observed| observed.steps.iter().map(|step| step.seconds).sum::<f64>();
    let waited: Vec<_> = slowed
        .windows
        .iter()
        .flat_map(|window| window.devices.iter().flat_map(|device| device.job.waited_for.iter()))
        .collect();
    assert!(waited.iter().all(|waited| others.contains(&waited.job)));
    // The devices work without a pause, so each step takes its own time and that of the others.
    let seconds: f64 = waited.iter().map(|waited| waited.seconds).sum();
    near(time(&slowed), time(&quiet) + seconds, 0.02);
    assert!(time(&slowed) > 1.5 * time(&quiet));
}

#[test]
fn an_observation_changes_nothing_else_and_has_bounds() {
    let mut scenario = scenario();
    let job = writer(&mut scenario, 10);
    writer(&mut scenario, 20);
    scenario.until_seconds = Some(60.0);
    let unobserved = scenario.outcome();
    observed(&mut scenario, job, 0.05);
    let mut outcome = scenario.outcome();
    assert!(outcome.events > unobserved.events, "samples are events");
    (outcome.observed, outcome.events) = (None, unobserved.events);
    assert_eq!(outcome, unobserved);

    let refused = |change: fn(&mut Scenario), text: &str| {
        let mut changed = scenario.clone();
        change(&mut changed);
        let error = run(&changed, &mut |_| std::ops::ControlFlow::Continue(())).expect_err("a fault");
        assert!(error.to_string().contains(text), "{error}");
    };
    refused(|scenario| scenario.mode = Mode::Flow, "flows have no requests");
    refused(|scenario| scenario.until_seconds = None, "until_seconds");
    refused(|scenario| scenario.observe = Some(Observe { job: 9, window_seconds: 1.0 }), "job 9");
    refused(|scenario| scenario.observe = Some(Observe { job: 0, window_seconds: 0.0 }), "window_seconds");
}
