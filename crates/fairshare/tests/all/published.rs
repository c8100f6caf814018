//! One behaviour, or more, that each scheduler's paper publishes, on a virtual clock.

use crate::simulation::{job, sharing_under, Client, Simulation};
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

fn client(id: u64, service_micros: u64, think_micros: u64) -> Client {
    let (service, think) = (Nanos::from_micros(service_micros), Nanos::from_micros(think_micros));
    Client { job: JobId(id), service, think }
}

/// A number of clients that keeps a job's queue from ever being empty.
fn backlog(id: u64, service_micros: u64) -> [Client; 8] {
    [client(id, service_micros, 0); 8]
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

/// ThemisIO, figure 8(a): a job of four nodes and one of one node, of one server. It measured 3.96 to 1.
#[test]
fn statistical_tokens_divide_by_size() {
    let mut simulation = Simulation::new(with_jobs("size-fair", "statistical-token", 1, &[4, 1]), 1);
    simulation.run(&[backlog(1, 10), backlog(2, 10)].concat(), Nanos::from_millis(1_000));
    let ratio = simulation.fraction(1) / simulation.fraction(2);
    assert!((3.9..4.1).contains(&ratio), "{ratio}");
}

/// Opportunity fairness is of those present at a draw: one synchronous process is absent at every other one, so
/// against three it gets a third, not its half.
#[test]
fn statistical_tokens_forget_who_is_absent() {
    let mut simulation = Simulation::new(with_jobs("job-fair", "statistical-token", 1, &[1, 1]), 1);
    simulation.run(
        &[client(1, 100, 1), client(2, 100, 1), client(2, 100, 1), client(2, 100, 1)],
        Nanos::from_millis(2_000),
    );
    let third = simulation.fraction(1);
    assert!((0.32..0.35).contains(&third), "{third}");
}

/// ThemisIO, section 5.4: GIFT's interval "leads to a long delay in I/O resource adjustment". A job that begins
/// while another has the device waits for the next interval, then has its share at once.
#[test]
fn gift_adjusts_only_with_the_next_interval() {
    let mut simulation = Simulation::new(with_jobs("job-fair", "gift", 0, &[1, 1]), 1);
    simulation.start(&backlog(1, 500), Nanos::ZERO);
    simulation.start(&backlog(2, 500), Nanos::from_millis(100));
    simulation.run_until(Nanos::from_millis(500));
    assert_eq!((simulation.served_nanos(1), simulation.served_nanos(2)), (500_000_000, 0));
    simulation.run_until(Nanos::from_millis(1_500));
    assert_eq!((simulation.served_nanos(1), simulation.served_nanos(2)), (1_000_000_000, 500_000_000));
}

/// GIFT's total is below ThemisIO's in figure 12, because the unused part of an allotment is lost.
#[test]
fn gift_loses_what_a_job_leaves_unused() {
    let until = Nanos::from_millis(4_000);
    let run = |algorithm| {
        let mut simulation = Simulation::new(with_jobs("job-fair", algorithm, 0, &[1, 1]), 1);
        // The second asks for a fifth of the device, with pauses shorter than a grace.
        simulation.start(&[client(2, 1_000, 3_999)], Nanos::ZERO);
        simulation.start(&backlog(1, 500), Nanos::ZERO);
        simulation.run_until(until);
        [1, 2].map(|id| simulation.served_nanos(id) as f64 / until.0 as f64)
    };
    let [backlogged, idling] = run("gift");
    // The second came first, so that the first interval was its own.
    assert!((backlogged - 0.5 * 3.5 / 4.0).abs() < 0.001, "{backlogged}");
    assert!((0.15..=0.2).contains(&idling), "{idling}");
    let total: f64 = run("virtual-time").iter().sum();
    assert!(total > 0.999, "the same without intervals: {total}");
}

/// Qian et al.: when the classes together want more than the server has, each keeps its rate, whatever the
/// requests of the others are like.
#[test]
fn tbf_keeps_rates_when_oversubscribed() {
    let mut simulation = Simulation::new(with_jobs("size-fair", "tbf", 0, &[5, 3, 2]), 1);
    let clients = [backlog(1, 50), backlog(2, 100), backlog(3, 1_000)].concat();
    simulation.run(&clients, Nanos::from_millis(4_000));
    for (id, rate) in [(1, 0.5), (2, 0.3), (3, 0.2)] {
        let fraction = simulation.fraction(id);
        assert!((fraction - rate).abs() < 0.002, "job {id}: {fraction}, owed {rate}");
    }
    assert!(simulation.served.values().map(|time| time.0).sum::<u64>() > 3_990_000_000);
}

/// PSSB: the unused part of a class is divided among the others in proportion to their rates, here 3 to 2.
#[test]
fn tbf_shares_spare_bandwidth_in_proportion_to_rates() {
    let mut simulation = Simulation::new(with_jobs("size-fair", "tbf", 0, &[5, 3, 2]), 1);
    let clients = [&[client(1, 100, 900)][..], &backlog(2, 100), &backlog(3, 100)].concat();
    simulation.run(&clients, Nanos::from_millis(4_000));
    let [asked, three, two] = [1, 2, 3].map(|id| simulation.served_nanos(id) as f64 / 4e9);
    assert!((0.08..=0.1).contains(&asked), "{asked}");
    assert!((three / two - 1.5).abs() < 0.005, "{three} and {two}");
    assert!(asked + three + two > 0.995, "{asked}, {three} and {two}");
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
