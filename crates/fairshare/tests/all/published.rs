//! Behaviours that schedulers' papers publish, of the scheduler alone. `crates/simulator/tests/all/loops.rs` has those of clients
//! in closed loops.

use crate::jobs::{job, sharing_under};
use weir_fairshare::{scheduler, JobId, Nanos, Scheduler, Settings, Token};

/// A scheduler with jobs 1, 2, … of these sizes.
fn with_jobs(policy: &str, algorithm: &str, seed: u64, nodes: &[u32]) -> Box<dyn Scheduler> {
    let settings = Settings { seed, ..Settings::default() };
    let mut scheduler = scheduler(&sharing_under(policy, algorithm).unwrap(), settings);
    for (index, &nodes) in nodes.iter().enumerate() {
        scheduler.upsert_job(job(1 + index as u64, nodes), Nanos::ZERO);
    }
    scheduler
}

/// The relative error of jobs' shares, root mean square, when each of 50 was to be served `requests` times.
fn draw_error(requests: u64, rounds: u64) -> f64 {
    let jobs = 50;
    let mut squares = 0.0;
    for seed in 0..rounds {
        let mut scheduler = with_jobs("job-fair", "statistical-token", seed, &[1; 50]);
        let mut served = vec![0_u64; jobs as usize + 1];
        for id in 1..=jobs {
            scheduler.enqueue(JobId(id), Token(0), Nanos(1_000), Nanos::ZERO).unwrap();
        }
        for _ in 0..requests * jobs {
            let dispatch = scheduler.dispatch(Nanos::ZERO).unwrap();
            served[dispatch.job.0 as usize] += 1;
            scheduler.enqueue(dispatch.job, Token(0), Nanos(1_000), Nanos::ZERO).unwrap();
        }
        let expected = requests as f64;
        let error = |&served: &u64| (served as f64 / expected - 1.0).powi(2);
        squares += served[1..].iter().map(error).sum::<f64>() / jobs as f64;
    }
    (squares / rounds as f64).sqrt()
}

/// ThemisIO, section 3: "an application has to have a sufficiently large I/O workload to make the statistical token
/// design effective". The error is that of a binomial distribution.
#[test]
fn statistical_tokens_converge_as_dice_do() {
    let binomial = |requests: f64| ((1.0 - 1.0 / 50.0) / requests).sqrt();
    for requests in [10, 100, 400] {
        let (error, expected) = (draw_error(requests, 40), binomial(requests as f64));
        assert!(
            (error / expected - 1.0).abs() < 0.05,
            "{requests} requests a job: {error}, {expected} expected"
        );
    }
}

fn dispatched_at(scheduler: &mut dyn Scheduler, now: Nanos) -> [usize; 2] {
    let jobs: Vec<JobId> =
        std::iter::from_fn(|| scheduler.dispatch(now)).map(|dispatch| dispatch.job).collect();
    [1, 2].map(|id| jobs.iter().filter(|&&job| job == JobId(id)).count())
}

/// A bucket holds three requests, as in Lustre; then a class waits for its tokens. HTC: a server that comes late makes
/// up the missed tokens, but of at most a second.
#[test]
fn tbf_withholds_bursts_and_compensates_lateness() {
    let cost = Nanos::from_millis(1);
    let mut scheduler = with_jobs("job-fair", "tbf", 0, &[1, 1]);
    for token in 0..4_000 {
        scheduler.enqueue(JobId(1 + token % 2), Token(token), cost, Nanos::ZERO).unwrap();
    }
    assert_eq!(dispatched_at(&mut *scheduler, Nanos::ZERO), [3, 3]);
    assert_eq!(scheduler.next_release(), Some(Nanos::from_millis(2)), "a millisecond at half the device");
    assert_eq!(dispatched_at(&mut *scheduler, Nanos::from_millis(2)), [1, 1]);
    assert_eq!(dispatched_at(&mut *scheduler, Nanos::from_millis(102)), [50, 50]);
    // One of ten seconds was served: the request that had waited longest, and those of a second at half the device.
    assert_eq!(dispatched_at(&mut *scheduler, Nanos::from_millis(10_102)), [501, 501]);
}
