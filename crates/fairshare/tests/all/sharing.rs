//! Schedulers as a server uses them: through the trait, with requests in service and a clock.

use std::collections::BTreeMap;

use crate::jobs::{job, sharing_under};
use proptest::prelude::*;
use weir_fairshare::{
    replace_sharing, scheduler, Algorithm, Dispatch, JobId, Nanos, Policy, Portions, Refusal, Scheduler,
    Settings, Sharing, Token, REQUEST_COST_MAX,
};

const MILLISECOND: Nanos = Nanos::from_millis(1);

fn sharing(policy: &str) -> Sharing {
    Sharing::of(policy.parse().unwrap())
}

fn under_algorithm(policy: &str, algorithm: &str) -> Box<dyn Scheduler> {
    scheduler(&sharing_under(policy, algorithm).unwrap(), Settings::default())
}

fn under(policy: &str) -> Box<dyn Scheduler> {
    scheduler(&sharing(policy), Settings::default())
}

/// Every common policy under every scheduler that goes with it.
fn every_sharing() -> Vec<Sharing> {
    let under =
        |policy: &'static str| Algorithm::NAMES.iter().filter_map(move |name| sharing_under(policy, name));
    Policy::NAMES.into_iter().flat_map(under).collect()
}

/// Whether it answers whenever a request is queued.
fn is_work_conserving(sharing: &Sharing) -> bool {
    !matches!(sharing.algorithm(), Algorithm::Gift | Algorithm::Tbf)
}

/// `crates/simulator/tests/all/loops.rs` tests that these are the shares received.
#[test]
fn size_fair_owes_four_to_one() {
    for algorithm in ["virtual-time", "tbf", "statistical-token"] {
        let mut scheduler = under_algorithm("size-fair", algorithm);
        for (id, nodes) in [(1, 4), (2, 1)] {
            scheduler.upsert_job(job(id, nodes), Nanos::ZERO);
            scheduler.enqueue(JobId(id), Token(id), MILLISECOND, Nanos::ZERO).unwrap();
        }
        let shares = scheduler.shares(MILLISECOND);
        assert_eq!((shares[0].owed, shares[1].owed), (Some(0.8), Some(0.2)));
    }
}

/// A job alone gets everything, and its gains from then are not held against it.
#[test]
fn unused_time_goes_to_whoever_asks_and_is_not_repaid() {
    let mut scheduler = under("job-fair");
    scheduler.upsert_job(job(1, 1), Nanos::ZERO);
    scheduler.upsert_job(job(2, 1), Nanos::ZERO);
    let mut now = Nanos::ZERO;
    for token in 0..4_000 {
        scheduler.enqueue(JobId(1), Token(token), MILLISECOND, now).unwrap();
    }
    for _ in 0..2_000 {
        assert_eq!(scheduler.dispatch(now).unwrap().job, JobId(1));
        now = now + MILLISECOND;
        scheduler.complete(JobId(1), MILLISECOND, MILLISECOND, now);
    }
    for token in 4_000..5_000 {
        scheduler.enqueue(JobId(2), Token(token), MILLISECOND, now).unwrap();
    }
    let first: Vec<JobId> = (0..100).map(|_| scheduler.dispatch(now).unwrap().job).collect();
    let newcomer = first.iter().filter(|&&job| job == JobId(2)).count();
    assert!((49..=51).contains(&newcomer), "{newcomer} of 100");
}

/// A job that pauses within its grace, again and again, catches up no more than the credit.
#[test]
fn credit_is_capped() {
    let settings = Settings { grace: Nanos::from_millis(1_000), ..Settings::default() };
    let mut scheduler = scheduler(&sharing("job-fair"), settings);
    for id in [1, 2] {
        scheduler.upsert_job(job(id, 1), Nanos::ZERO);
    }
    let cost = Nanos::from_micros(100);
    scheduler.enqueue(JobId(2), Token(0), cost, Nanos::ZERO).unwrap();
    for token in 1..4_000 {
        scheduler.enqueue(JobId(1), Token(token), cost, Nanos::ZERO).unwrap();
    }
    for _ in 0..3_000 {
        scheduler.dispatch(Nanos(1)).unwrap();
    }
    for token in 10_000..10_400 {
        scheduler.enqueue(JobId(2), Token(token), cost, Nanos(2)).unwrap();
    }
    let burst = std::iter::from_fn(|| scheduler.dispatch(Nanos(3)))
        .take_while(|dispatch| dispatch.job == JobId(2))
        .count();
    assert!((10..=42).contains(&burst), "{burst} requests of 0.1 ms against a credit of 2 ms");
}

/// Every backlogged job is served within one round of the others, whatever they weigh and cost.
#[test]
fn nobody_starves_among_ten_thousand() {
    let mut scheduler = under("size-fair");
    let jobs = 10_000_u64;
    for id in 0..jobs {
        scheduler.upsert_job(job(id, 1 + (id % 7) as u32 * 100), Nanos::ZERO);
        for token in 0..2 {
            scheduler.enqueue(JobId(id), Token(token), Nanos(1_000), Nanos::ZERO).unwrap();
        }
    }
    let weights: u64 = (0..jobs).map(|id| 1 + id % 7 * 100).sum();
    let mut last = vec![0_u64; jobs as usize];
    for turn in 0..200_000_u64 {
        let served = scheduler.dispatch(Nanos::ZERO).unwrap().job;
        let gap = turn - std::mem::replace(&mut last[served.0 as usize], turn);
        let weight = 1 + served.0 % 7 * 100;
        let bound = 2 * weights / weight + jobs;
        assert!(gap <= bound, "{served} waited {gap} turns, bound {bound}");
        scheduler.enqueue(served, Token(turn), Nanos(1_000), Nanos::ZERO).unwrap();
    }
    for heavy in (0..jobs).filter(|id| id % 7 != 0) {
        assert!(last[heavy as usize] > 0, "job {heavy} was never served");
    }
}

/// Every scheduler serves ten thousand jobs, and releases every request that it withholds.
#[test]
fn ten_thousand_jobs_are_all_served_by_every_scheduler() {
    for algorithm in Algorithm::NAMES {
        let policy = if algorithm == "fifo" { "fifo" } else { "size-fair" };
        let mut scheduler = under_algorithm(policy, algorithm);
        let jobs = 10_000;
        for id in 0..jobs {
            scheduler.upsert_job(job(id, 1 + id as u32 % 7 * 100), Nanos::ZERO);
            for token in 0..6 {
                scheduler.enqueue(JobId(id), Token(token), Nanos::from_micros(100), Nanos::ZERO).unwrap();
            }
        }
        let mut now = Nanos::ZERO;
        let mut served = vec![0_u32; jobs as usize];
        while !scheduler.is_empty() {
            let dispatch = dispatch_or_release(&mut *scheduler, &mut now);
            served[dispatch.job.0 as usize] += 1;
        }
        assert!(served.iter().all(|&requests| requests == 6), "{algorithm}");
    }
}

/// The next request, for which time passes if need be.
fn dispatch_or_release(scheduler: &mut dyn Scheduler, now: &mut Nanos) -> Dispatch {
    if let Some(dispatch) = scheduler.dispatch(*now) {
        return dispatch;
    }
    let release = scheduler.next_release().expect("what is withheld is released");
    assert!(release > *now, "released at {release} already, and withheld at {now}");
    *now = release;
    scheduler.dispatch(release).expect("a request at the moment of its release")
}

/// Jobs that come each millisecond, ask once and go do not push out one that stays.
#[test]
fn jobs_that_come_and_go_leave_the_steady_one_its_share() {
    for algorithm in ["virtual-time", "statistical-token"] {
        let fraction = steady_fraction(under_algorithm("job-fair", algorithm));
        assert!((0.33..0.67).contains(&fraction), "{algorithm}: {fraction}");
    }
}

fn steady_fraction(mut scheduler: Box<dyn Scheduler>) -> f64 {
    scheduler.upsert_job(job(0, 1), Nanos::ZERO);
    let cost = Nanos::from_micros(100);
    let mut steady = 0;
    let mut fleeting = 0;
    for millisecond in 0..2_000_u64 {
        let now = Nanos::from_millis(millisecond);
        let id = 1 + millisecond;
        scheduler.upsert_job(job(id, 1), now);
        for token in 0..10 {
            scheduler.enqueue(JobId(0), Token(token), cost, now).unwrap_or(());
            scheduler.enqueue(JobId(id), Token(token), cost, now).unwrap();
        }
        for slot in 0..10 {
            let dispatch = scheduler.dispatch(now + Nanos::from_micros(100 * slot)).unwrap();
            *(if dispatch.job == JobId(0) { &mut steady } else { &mut fleeting }) += 1;
            scheduler.complete(dispatch.job, cost, cost, now + Nanos::from_micros(100 * slot + 100));
        }
        if millisecond % 2 == 1 {
            scheduler.remove_job(JobId(id - 1), now);
            scheduler.remove_job(JobId(id), now);
        }
    }
    f64::from(steady) / f64::from(steady + fleeting)
}

/// Charges follow the time used, so a job whose requests take three times the estimate gets a third
/// of the requests.
#[test]
fn a_charge_is_corrected_when_the_request_ends() {
    let mut scheduler = under("job-fair");
    let estimated = Nanos::from_micros(100);
    let mut used = [Nanos::ZERO; 2];
    for id in 0..2 {
        scheduler.upsert_job(job(id, 1), Nanos::ZERO);
        for token in 0..4_000 {
            scheduler.enqueue(JobId(id), Token(token), estimated, Nanos::ZERO).unwrap();
        }
    }
    let mut now = Nanos::ZERO;
    for _ in 0..4_000 {
        let dispatch = scheduler.dispatch(now).unwrap();
        let actual = Nanos(estimated.0 * (1 + 2 * dispatch.job.0));
        now = now + actual;
        used[dispatch.job.0 as usize] = used[dispatch.job.0 as usize] + actual;
        scheduler.complete(dispatch.job, estimated, actual, now);
    }
    assert!(used[0].0.abs_diff(used[1].0) <= 2 * estimated.0 * 3, "{used:?}");
    let charged: Vec<Nanos> = scheduler.shares(now).iter().map(|share| share.charged).collect();
    assert_eq!(charged, used);
}

#[test]
fn a_job_is_active_until_its_grace_is_over() {
    for sharing in every_sharing() {
        let mut scheduler = scheduler(&sharing, Settings::default());
        let grace = Settings::default().grace;
        scheduler.upsert_job(job(1, 1), Nanos::ZERO);
        scheduler.upsert_job(job(2, 1), Nanos::ZERO);
        let owes = *sharing.policy() != Policy::Fifo;
        let owed = |scheduler: &dyn Scheduler, now| -> Vec<(bool, Option<f64>)> {
            scheduler.shares(now).iter().map(|share| (share.active, share.owed)).collect()
        };
        let expected =
            |accounts: [(bool, f64); 2]| accounts.map(|(active, owed)| (active, owes.then_some(owed)));
        assert_eq!(owed(&*scheduler, Nanos::ZERO), expected([(false, 0.0), (false, 0.0)]));
        for id in [1, 2] {
            scheduler.enqueue(JobId(id), Token(id), MILLISECOND, Nanos::ZERO).unwrap();
        }
        assert_eq!(owed(&*scheduler, Nanos::ZERO), expected([(true, 0.5), (true, 0.5)]), "{sharing:?}");
        let first = scheduler.dispatch(Nanos::ZERO).unwrap();
        scheduler.complete(first.job, MILLISECOND, MILLISECOND, MILLISECOND);
        let second = scheduler.dispatch(MILLISECOND).unwrap();
        let just_before = Nanos(MILLISECOND.0 + grace.0 - 1);
        assert_eq!(owed(&*scheduler, just_before), expected([(true, 0.5), (true, 0.5)]), "{sharing:?}");
        let over = Nanos(just_before.0 + 1);
        assert_eq!(owed(&*scheduler, over), expected([(false, 0.0), (true, 1.0)]), "{sharing:?}");
        scheduler.complete(second.job, MILLISECOND, MILLISECOND, over);
        assert_eq!(owed(&*scheduler, over), expected([(false, 0.0), (true, 1.0)]), "{sharing:?}");
    }
}

#[test]
fn limits_are_named_and_refuse_without_a_trace() {
    let settings = Settings { queued_max_per_job: 2, queued_max_total: 3, ..Settings::default() };
    for sharing in every_sharing() {
        let mut scheduler = scheduler(&sharing, settings);
        let mut enqueue = |id, token| scheduler.enqueue(JobId(id), Token(token), MILLISECOND, Nanos::ZERO);
        assert_eq!(enqueue(1, 0), Err(Refusal::UnknownJob { job: JobId(1) }));
        scheduler.upsert_job(job(1, 1), Nanos::ZERO);
        scheduler.upsert_job(job(2, 1), Nanos::ZERO);
        let mut enqueue = |id, token| scheduler.enqueue(JobId(id), Token(token), MILLISECOND, Nanos::ZERO);
        enqueue(1, 1).unwrap();
        enqueue(1, 2).unwrap();
        assert_eq!(enqueue(1, 3), Err(Refusal::JobQueueFull { job: JobId(1), limit: 2 }));
        enqueue(2, 4).unwrap();
        assert_eq!(enqueue(2, 5), Err(Refusal::TotalQueueFull { limit: 3 }));
        assert_eq!(scheduler.len(), 3);
    }
}

/// The stated rule for a clock that jumps backwards: it counts as standing still.
#[test]
fn a_clock_that_jumps_backwards_stands_still() {
    for sharing in every_sharing() {
        let mut scheduler = scheduler(&sharing, Settings::default());
        let late = Nanos::from_millis(1_000);
        scheduler.upsert_job(job(1, 1), late);
        scheduler.enqueue(JobId(1), Token(1), MILLISECOND, Nanos::from_millis(10)).unwrap();
        let dispatch = scheduler.dispatch(Nanos::ZERO).unwrap();
        assert_eq!(dispatch.waited, Nanos::ZERO);
        scheduler.complete(JobId(1), MILLISECOND, MILLISECOND, Nanos::from_millis(20));
        assert!(scheduler.shares(Nanos::from_millis(900))[0].active, "grace counts from the latest moment");
        let over = late + Settings::default().grace;
        assert!(!scheduler.shares(over)[0].active);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Enqueue { job: u64, cost: u64 },
    Dispatch,
    Complete { pick: usize, actual: u64 },
    Cancel { pick: usize },
    Remove { job: u64 },
    Resize { job: u64, nodes: u32 },
    Divide { job: u64, portion: f64 },
    Replace { sharing: usize },
    Pause { micros: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let job = 0..6_u64;
    let cost = prop_oneof![40 => 1..3_000_000_u64, 1 => Just(0), 1 => Just(REQUEST_COST_MAX.0)];
    prop_oneof![
        8 => (job.clone(), cost).prop_map(|(job, cost)| Step::Enqueue { job, cost }),
        6 => Just(Step::Dispatch),
        4 => (any::<usize>(), 0..9_000_000_u64).prop_map(|(pick, actual)| Step::Complete { pick, actual }),
        1 => any::<usize>().prop_map(|pick| Step::Cancel { pick }),
        1 => job.clone().prop_map(|job| Step::Remove { job }),
        1 => (job.clone(), 0..500_u32).prop_map(|(job, nodes)| Step::Resize { job, nodes }),
        1 => (job, 0.0..1.0).prop_map(|(job, portion)| Step::Divide { job, portion }),
        1 => any::<usize>().prop_map(|sharing| Step::Replace { sharing }),
        2 => (0..9_000_u64).prop_map(|micros| Step::Pause { micros }),
    ]
}

/// A caller's knowledge of its scheduler.
struct Caller {
    scheduler: Box<dyn Scheduler>,
    sharing: Sharing,
    queued: Vec<(JobId, Token)>,
    running: Vec<Dispatch>,
    /// The charge of each registered job, in nanoseconds.
    charged: BTreeMap<JobId, i64>,
    now: Nanos,
}

impl Caller {
    fn new(sharing: Sharing) -> Caller {
        Caller {
            scheduler: scheduler(&sharing, Settings::default()),
            sharing,
            queued: Vec::new(),
            running: Vec::new(),
            charged: BTreeMap::new(),
            now: Nanos::ZERO,
        }
    }

    fn take(&mut self, step: Step, number: u64) {
        let now = self.now;
        match step {
            Step::Enqueue { job: id, cost } => {
                if !self.charged.contains_key(&JobId(id)) {
                    self.scheduler.upsert_job(job(id, 1), now);
                    self.charged.insert(JobId(id), 0);
                }
                self.scheduler.enqueue(JobId(id), Token(number), Nanos(cost), now).unwrap();
                self.queued.push((JobId(id), Token(number)));
            }
            Step::Dispatch => match self.scheduler.dispatch(now) {
                None if is_work_conserving(&self.sharing) => assert!(self.queued.is_empty()),
                None => assert_eq!(self.scheduler.next_release().is_some(), !self.queued.is_empty()),
                Some(dispatch) => self.dispatched(dispatch),
            },
            Step::Complete { pick, actual } if !self.running.is_empty() => {
                let dispatch = self.running.swap_remove(pick % self.running.len());
                self.scheduler.complete(dispatch.job, dispatch.cost, Nanos(actual), now);
                if let Some(charged) = self.charged.get_mut(&dispatch.job) {
                    *charged += actual as i64 - dispatch.cost.0 as i64;
                }
            }
            Step::Cancel { pick } if !self.queued.is_empty() => {
                let (job, token) = self.queued.remove(pick % self.queued.len());
                assert!(self.scheduler.cancel(job, token));
                assert!(!self.scheduler.cancel(job, token));
            }
            Step::Remove { job } => self.remove(JobId(job)),
            Step::Resize { job: id, nodes } => {
                self.charged.entry(JobId(id)).or_default();
                self.scheduler.upsert_job(job(id, nodes), now);
            }
            Step::Divide { job, portion } => {
                let portions = Portions::from([(JobId(job), vec![portion])]);
                self.scheduler.set_portions(&portions, now);
            }
            Step::Replace { sharing } => self.replace(sharing),
            Step::Pause { micros } => self.now = now + Nanos::from_micros(micros),
            Step::Complete { .. } | Step::Cancel { .. } => {}
        }
    }

    fn dispatched(&mut self, dispatch: Dispatch) {
        let place = self.queued.iter().position(|&(job, _)| job == dispatch.job).unwrap();
        assert_eq!(self.queued.remove(place).1, dispatch.token);
        assert!((Nanos(1)..=REQUEST_COST_MAX).contains(&dispatch.cost));
        *self.charged.get_mut(&dispatch.job).unwrap() += dispatch.cost.0 as i64;
        self.running.push(dispatch);
    }

    fn remove(&mut self, job: JobId) {
        let of_job = self.queued.iter().filter(|entry| entry.0 == job);
        let expected: Vec<Token> = of_job.map(|entry| entry.1).collect();
        assert_eq!(self.scheduler.remove_job(job, self.now), expected);
        self.queued.retain(|entry| entry.0 != job);
        self.charged.remove(&job);
        // A job that comes back has nothing of its former requests in service.
        self.running.retain(|dispatch| dispatch.job != job);
    }

    fn replace(&mut self, choice: usize) {
        let all = every_sharing();
        self.sharing = all[choice % all.len()].clone();
        let nobody = scheduler(&self.sharing, Settings::default());
        let current = std::mem::replace(&mut self.scheduler, nobody);
        self.scheduler = replace_sharing(current, &self.sharing);
    }

    fn check(&self) {
        assert_eq!(self.scheduler.len(), self.queued.len());
        let shares = self.scheduler.shares(self.now);
        let owed: Option<f64> = shares.iter().map(|share| share.owed).sum();
        let expected = if shares.iter().any(|share| share.active) { 1.0 } else { 0.0 };
        let is_right = owed.is_none_or(|owed| (owed - expected).abs() < 1e-9);
        assert!(is_right, "owed fractions sum to {owed:?}");
        let charged = shares.iter().map(|share| (share.job, share.charged));
        let expected = self.charged.iter().map(|(&job, &charged)| (job, Nanos(charged.max(0) as u64)));
        assert_eq!(charged.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}

proptest! {
    /// Whatever happens, with policy, scheduler and portions changed in between: no queued request is
    /// lost, repeated or overtaken by a later one of its job, none waits while the target is free unless it is
    /// withheld until a stated moment, the owed fractions sum to one, and each job is charged what its requests
    /// took. In the end everything is served, each withheld request at its release.
    #[test]
    fn nothing_is_lost_and_jobs_stay_in_order(
        first in any::<prop::sample::Index>(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let all = every_sharing();
        let mut caller = Caller::new(all[first.index(all.len())].clone());
        for (number, step) in steps.into_iter().enumerate() {
            caller.take(step, number as u64);
            caller.check();
        }
        while !caller.queued.is_empty() {
            let dispatch = dispatch_or_release(&mut *caller.scheduler, &mut caller.now);
            caller.dispatched(dispatch);
            caller.check();
        }
        prop_assert!(caller.scheduler.dispatch(caller.now).is_none());
        prop_assert_eq!(caller.scheduler.next_release(), None);
    }

    /// The moment that a scheduler states is kept, also where graces end in between, and whatever the clock does.
    #[test]
    fn what_is_withheld_leaves_at_its_release(
        algorithm in prop::sample::select(vec!["gift", "tbf"]),
        steps in prop::collection::vec((step(), 0..20_u64), 1..200),
    ) {
        let mut caller = Caller::new(sharing_under("user-then-size-fair", algorithm).unwrap());
        for (number, (step, back_millis)) in steps.into_iter().enumerate() {
            if matches!(step, Step::Replace { .. }) {
                continue;
            }
            caller.take(step, number as u64);
            if let Some(dispatch) = caller.scheduler.dispatch(caller.now) {
                caller.dispatched(dispatch);
            } else if let Some(release) = caller.scheduler.next_release().filter(|_| back_millis % 4 == 0) {
                let earlier = Nanos(caller.now.0.saturating_sub(back_millis * 1_000_000));
                prop_assert!(caller.scheduler.dispatch(earlier).is_none());
                let dispatch = caller.scheduler.dispatch(release);
                prop_assert!(dispatch.is_some(), "nothing at {release}");
                caller.dispatched(dispatch.unwrap());
                caller.now = release;
            }
            caller.check();
        }
    }
}
