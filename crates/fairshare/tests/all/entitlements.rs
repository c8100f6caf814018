//! Weights, reservations and limits through the whole scheduler, with a virtual clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_fairshare::{
    scheduler, Entitlement, Entitlements, GroupId, Holder, JobAttributes, JobId, JobName, Nanos, Scheduler,
    Settings, Sharing, Token, UserId,
};
use weir_testing::job;

const COST: Nanos = Nanos::from_micros(100);
const SECOND: Nanos = Nanos::from_millis(1_000);

fn sharing(policy: &str, granted: &[(Holder, Entitlement)]) -> Sharing {
    let mut entitlements = Entitlements::default();
    for &(holder, entitlement) in granted {
        entitlements.grant(holder, entitlement).unwrap();
    }
    Sharing::new(policy.parse().unwrap(), None, Arc::new(entitlements)).unwrap()
}

fn reserved(fraction: f64) -> Entitlement {
    Entitlement { reservation: Some(fraction), ..Entitlement::default() }
}

fn limited(fraction: f64) -> Entitlement {
    Entitlement { limit: Some(fraction), ..Entitlement::default() }
}

/// A device that serves one request at a time, for backlogged jobs.
struct Device {
    scheduler: Box<dyn Scheduler>,
    now: Nanos,
    served: BTreeMap<JobId, u64>,
    tokens: u64,
}

impl Device {
    fn new(sharing: &Sharing, jobs: &[JobAttributes]) -> Device {
        let scheduler = scheduler(sharing, Settings::default());
        let mut device = Device { scheduler, now: Nanos::ZERO, served: BTreeMap::new(), tokens: 0 };
        for job in jobs {
            device.scheduler.upsert_job(*job, Nanos::ZERO);
            device.served.insert(job.job, 0);
            // Two, so that it never asks for nothing: a job without requests may catch up on no more than its credit.
            device.enqueue(job.job, COST);
            device.enqueue(job.job, COST);
        }
        device
    }

    fn enqueue(&mut self, job: JobId, cost: Nanos) {
        self.tokens += 1;
        self.scheduler.enqueue(job, Token(self.tokens), cost, self.now).unwrap();
    }

    /// Serves until `until`; each job sends a request of `cost(job)` for each that is dispatched.
    fn run(&mut self, until: Nanos, cost: impl Fn(JobId) -> Nanos) {
        while self.now < until {
            let Some(dispatch) = self.scheduler.dispatch(self.now) else {
                let release = self.scheduler.next_release().expect("something is queued, and withheld");
                assert!(release > self.now, "withheld until a moment that has come");
                self.now = release;
                continue;
            };
            self.enqueue(dispatch.job, cost(dispatch.job));
            self.now = self.now + dispatch.cost;
            self.scheduler.complete(dispatch.job, dispatch.cost, dispatch.cost, self.now);
            *self.served.get_mut(&dispatch.job).unwrap() += dispatch.cost.0;
        }
    }

    /// Fractions of the time up to now that the jobs were served.
    fn fractions(&self) -> Vec<f64> {
        self.served.values().map(|&served| served as f64 / self.now.0 as f64).collect()
    }

    /// Fractions of the time that the device owes its jobs.
    fn owed(&self) -> Vec<f64> {
        let shares = self.scheduler.shares(self.now);
        shares.iter().map(|share| share.owed.expect("a policy that owes")).collect()
    }
}

/// Asserts what the jobs were served, within three parts in a thousand, because a second is ten thousand requests; and
/// that the device says that it owes them the same.
fn assert_fractions(device: &Device, expected: &[f64]) {
    for (fraction, expected) in device.fractions().iter().zip(expected) {
        assert!((fraction - expected).abs() < 0.003, "{:?} where {expected:?} is right", device.fractions());
    }
    for (owed, expected) in device.owed().iter().zip(expected) {
        assert!((owed - expected).abs() < 1e-4, "{:?} owed where {expected:?} is right", device.owed());
    }
}

fn after_a_second(sharing: &Sharing, jobs: &[JobAttributes]) -> Device {
    let mut device = Device::new(sharing, jobs);
    device.run(SECOND, |_| COST);
    device
}

#[test]
fn a_reservation_lifts_its_holder_and_the_others_divide_the_rest() {
    let jobs = [job(1, 1, 1, 1), job(2, 2, 1, 3), job(3, 3, 1, 6)];
    let sharing = sharing("size-fair", &[(Holder::User(UserId(1)), reserved(0.4))]);
    assert_fractions(&after_a_second(&sharing, &jobs), &[0.4, 0.2, 0.4]);
}

#[test]
fn a_reservation_below_the_share_changes_nothing() {
    let jobs = [job(1, 1, 1, 6), job(2, 2, 1, 4)];
    let sharing = sharing("size-fair", &[(Holder::Job(JobName(1)), reserved(0.5))]);
    assert_fractions(&after_a_second(&sharing, &jobs), &[0.6, 0.4]);
}

#[test]
fn a_holders_jobs_divide_its_reservation_by_the_policy() {
    let jobs = [job(1, 1, 7, 1), job(2, 2, 7, 2), job(3, 3, 8, 27)];
    let sharing = sharing("size-fair", &[(Holder::Group(GroupId(7)), reserved(0.6))]);
    assert_fractions(&after_a_second(&sharing, &jobs), &[0.2, 0.4, 0.4]);
}

#[test]
fn a_limit_holds_even_where_the_device_then_idles() {
    let alone = [job(1, 1, 1, 1)];
    let granted = [(Holder::User(UserId(1)), limited(0.25))];
    assert_fractions(&after_a_second(&sharing("job-fair", &granted), &alone), &[0.25]);
    let three = [job(1, 1, 1, 1), job(2, 1, 1, 1), job(3, 2, 1, 1)];
    assert_fractions(&after_a_second(&sharing("job-fair", &granted), &three), &[0.125, 0.125, 0.75]);
    let sizes = [job(1, 1, 1, 1), job(2, 1, 1, 4), job(3, 2, 1, 5)];
    assert_fractions(&after_a_second(&sharing("size-fair", &granted), &sizes), &[0.05, 0.2, 0.75]);
    let groups = [job(1, 1, 1, 1), job(2, 2, 1, 4), job(3, 3, 2, 5)];
    let granted = [(Holder::Group(GroupId(1)), limited(0.2))];
    assert_fractions(&after_a_second(&sharing("user-fair", &granted), &groups), &[0.1, 0.1, 0.8]);
}

/// A user whose forty jobs each claim a hundred nodes had 99.9 % of the time under `size-fair` and nothing else: only a
/// bound of the user, of its group, or a level of the policy above the jobs stops it.
#[test]
fn a_user_that_splits_itself_or_claims_nodes_gets_no_more_than_its_bound() {
    let honest = job(0, 2, 2, 4);
    let split = |count: u64, nodes: u32| (1..=count).map(move |id| job(id, 1, 1, nodes));
    let honest_part = |sharing: &Sharing, count, nodes| {
        let jobs: Vec<JobAttributes> = std::iter::once(honest).chain(split(count, nodes)).collect();
        let mut device = Device::new(sharing, &jobs);
        device.run(SECOND, |_| COST);
        device.fractions()[0]
    };
    let holders = [Holder::User(UserId(1)), Holder::Group(GroupId(1))];
    for (count, nodes) in [(1, 4), (1, 100), (40, 1), (40, 100)] {
        for holder in holders {
            for policy in ["size-fair", "job-fair"] {
                let part = honest_part(&sharing(policy, &[(holder, limited(0.25))]), count, nodes);
                assert!(
                    (part - 0.75).abs() < 0.003,
                    "{policy}, {holder:?}: {part} beside {count} of {nodes}"
                );
            }
        }
        for policy in ["user-then-size-fair", "group-then-job-fair"] {
            let part = honest_part(&sharing(policy, &[]), count, nodes);
            assert!((part - 0.5).abs() < 0.003, "{policy}: {part} beside {count} of {nodes}");
        }
    }
    let part = honest_part(&sharing("size-fair", &[]), 40, 100);
    assert!(part < 0.002, "without a bound the claim counts: {part}");
}

#[test]
fn weight_reservation_and_limit_hold_together() {
    let jobs = [job(1, 1, 1, 1), job(2, 2, 1, 1), job(3, 3, 1, 1), job(4, 4, 1, 1)];
    let granted = [
        (Holder::User(UserId(1)), reserved(0.5)),
        (Holder::User(UserId(2)), limited(0.05)),
        (Holder::User(UserId(3)), Entitlement { weight: 2.0, ..Entitlement::default() }),
    ];
    // 0.45 are left for users 3 and 4, two to one.
    assert_fractions(&after_a_second(&sharing("user-fair", &granted), &jobs), &[0.5, 0.05, 0.3, 0.15]);
}

/// Requests as long as the time between two of a limited holder's once cost it a quarter of its limit: each came late
/// by the request in service, and that time was lost.
#[test]
fn what_long_requests_of_others_delay_is_made_up_for() {
    let jobs = [job(1, 1, 1, 1), job(2, 2, 1, 1), job(3, 3, 1, 1)];
    let granted = [(Holder::User(UserId(1)), limited(0.2)), (Holder::User(UserId(2)), reserved(0.5))];
    let mut device = Device::new(&sharing("user-fair", &granted), &jobs);
    device.run(Nanos(10 * SECOND.0), |_| Nanos::from_micros(4_100));
    assert_fractions(&device, &[0.2, 0.5, 0.3]);
}

#[test]
fn one_holder_may_have_all_three() {
    let jobs = [job(1, 1, 1, 1), job(2, 2, 1, 1), job(3, 3, 1, 1)];
    let all = |weight| Entitlement { weight, reservation: Some(0.2), limit: Some(0.4) };
    for (weight, expected) in [(0.1, [0.2, 0.4, 0.4]), (1.0, [1.0 / 3.0; 3]), (9.0, [0.4, 0.3, 0.3])] {
        let sharing = sharing("user-fair", &[(Holder::User(UserId(1)), all(weight))]);
        assert_fractions(&after_a_second(&sharing, &jobs), &expected);
    }
}

#[test]
fn reservations_of_the_whole_leave_the_others_what_is_not_used() {
    let jobs = [job(1, 1, 1, 1), job(2, 2, 1, 1)];
    let sharing = sharing("user-fair", &[(Holder::User(UserId(1)), reserved(1.0))]);
    let mut device = Device::new(&sharing, &jobs);
    device.run(SECOND, |_| COST);
    assert!(device.fractions()[1] < 0.001, "all is reserved: {:?}", device.fractions());
    let job = JobId(1);
    assert_eq!(device.scheduler.remove_job(job, device.now).len(), 2);
    device.served = BTreeMap::from([(JobId(2), 0)]);
    let begin = device.now;
    device.run(begin + SECOND, |_| COST);
    assert!(device.served[&JobId(2)] >= SECOND.0, "nobody else is there any more");
}

#[test]
fn a_clock_that_jumps_ahead_leaves_a_second_to_catch_up_at_most() {
    let jobs = [job(1, 1, 1, 1), job(2, 2, 1, 1)];
    let sharing = sharing("user-fair", &[(Holder::User(UserId(1)), reserved(0.5))]);
    let mut device = after_a_second(&sharing, &jobs);
    device.now = device.now + Nanos(3_600 * SECOND.0);
    let before = device.served.clone();
    device.run(device.now + Nanos(4 * SECOND.0), |_| COST);
    let gained: Vec<u64> = device.served.iter().map(|(job, served)| served - before[job]).collect();
    assert!(gained[1] > SECOND.0, "the other user is not shut out: {gained:?}");
}

proptest! {
    /// Whatever is granted, and whatever requests cost: nobody is beyond a limit by more than a request and
    /// its catch-up, everybody with a reservation has it but for a request of each job, and the time that
    /// no limit forbids is used. A failure prints the case that repeats it.
    #[test]
    fn bounds_hold_whatever_is_granted(
        granted in prop::collection::vec((0..3_u8, 0.01..0.3_f64, prop::option::of(0.3..1.0_f64)), 4),
        nodes in prop::collection::vec(1..50_u32, 4),
        cost_micros in prop::collection::vec(10..2_000_u64, 4),
        policy in prop::sample::select(vec!["job-fair", "size-fair", "user-then-size-fair", "group-fair"]),
    ) {
        let jobs: Vec<JobAttributes> =
            (0..4).map(|id| job(id as u64, id as u64, id as u64 % 2, nodes[id])).collect();
        let holders: Vec<(Holder, Entitlement)> = granted.iter().enumerate().map(|(id, &(kind, reservation, limit))| {
            let holder = match kind {
                0 => Holder::User(UserId(id as u64)),
                1 => Holder::Job(JobName(id as u64)),
                _ => Holder::User(UserId(id as u64)),
            };
            (holder, Entitlement { weight: 1.0, reservation: Some(reservation.min(0.25)), limit })
        }).collect();
        let mut device = Device::new(&sharing(policy, &holders), &jobs);
        device.run(Nanos(2 * SECOND.0), |job| Nanos::from_micros(cost_micros[job.0 as usize]));
        let request = 0.002_f64;
        let all_limits: f64 = holders.iter().map(|(_, granted)| granted.limit.unwrap_or(1.0)).sum();
        for (fraction, (_, granted)) in device.fractions().iter().zip(&holders) {
            if let Some(limit) = granted.limit {
                prop_assert!(*fraction <= limit + 3.0 * request, "{fraction} of {limit}");
            }
            let reservation = granted.reservation.unwrap();
            prop_assert!(*fraction >= reservation - 4.0 * request, "{fraction} of {reservation}");
        }
        for (fraction, owed) in device.fractions().iter().zip(device.owed()) {
            prop_assert!((fraction - owed).abs() < 6.0 * request, "{fraction} where {owed} is owed");
        }
        let used: f64 = device.fractions().iter().sum();
        prop_assert!(used >= all_limits.min(1.0) - 0.02, "{used} used of {}", all_limits.min(1.0));
    }
}
