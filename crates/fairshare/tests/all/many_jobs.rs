//! Crowds: ten thousand jobs, jobs that come and go, and nobody starves, with a virtual clock.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use weir_fairshare::{scheduler, JobAttributes, JobId, Nanos, Priority, Scheduler, Settings, Sharing, Token};

const COST: Nanos = Nanos::from_micros(50);

/// A job whose priority follows from its nodes.
fn job(id: u64, user: u64, group: u64, nodes: u32) -> JobAttributes {
    JobAttributes { priority: Priority(1 + nodes % 3), ..weir_testing::job(id, user, group, nodes) }
}

fn under(policy: &str) -> Box<dyn Scheduler> {
    scheduler(&Sharing::of(policy.parse().unwrap()), Settings::default())
}

/// Serves one request, and queues the job's next one.
fn serve(scheduler: &mut dyn Scheduler, now: &mut Nanos, token: &mut u64) -> JobId {
    let dispatch = scheduler.dispatch(*now).unwrap();
    *now = *now + dispatch.cost;
    scheduler.complete(dispatch.job, dispatch.cost, dispatch.cost, *now);
    *token += 1;
    scheduler.enqueue(dispatch.job, Token(*token), dispatch.cost, *now).unwrap();
    dispatch.job
}

/// The claims of a recursive reading of the policy: the share of the parent, times the weight among siblings.
fn naive_shares(levels: &[&str], jobs: &[JobAttributes]) -> BTreeMap<JobId, f64> {
    let Some((level, below)) = levels.split_first() else {
        return jobs.iter().map(|job| (job.job, 1.0 / jobs.len() as f64)).collect();
    };
    let mut classes: BTreeMap<(u64, u64), Vec<JobAttributes>> = BTreeMap::new();
    for job in jobs {
        let is_last = below.is_empty();
        let key = match *level {
            "group" => (job.group.0, 1),
            "user" => (job.user.0, 1),
            "priority" => (if is_last { job.job.0 } else { 0 }, u64::from(job.priority.0)),
            "size" => (if is_last { job.job.0 } else { 0 }, u64::from(job.nodes)),
            _ => (job.job.0, 1),
        };
        classes.entry(key).or_default().push(*job);
    }
    let whole: u64 = classes.keys().map(|&(_, weight)| weight).sum();
    let mut shares = BTreeMap::new();
    for ((_, weight), members) in classes {
        let share = weight as f64 / whole as f64;
        shares.extend(naive_shares(below, &members).into_iter().map(|(job, part)| (job, share * part)));
    }
    shares
}

fn levels(policy: &str) -> Vec<&str> {
    policy.strip_suffix("-fair").unwrap().split("-then-").collect()
}

/// Three levels: after a hundred requests a job on average each has its share but for one request, and the
/// account says the same.
#[test]
fn ten_thousand_jobs_get_their_shares() {
    let policy = "group-then-user-then-size-fair";
    let jobs: Vec<JobAttributes> =
        (0..10_000).map(|id| job(id, id % 500, id % 25, 1 + (id % 7) as u32)).collect();
    let mut scheduler = under(policy);
    let (mut now, mut token) = (Nanos::ZERO, 0);
    for job in &jobs {
        scheduler.upsert_job(*job, now);
        token += 1;
        scheduler.enqueue(job.job, Token(token), COST, now).unwrap();
    }
    let mut served: HashMap<JobId, u64> = HashMap::new();
    const TURNS: u64 = 1_000_000;
    for _ in 0..TURNS {
        *served.entry(serve(&mut *scheduler, &mut now, &mut token)).or_default() += 1;
    }
    let shares = naive_shares(&levels(policy), &jobs);
    for share in scheduler.shares(now) {
        let due = shares[&share.job] * TURNS as f64;
        let error = (served[&share.job] as f64 - due).abs();
        // One request at each of three levels.
        assert!(error <= 3.0, "job {} had {} of {due} requests", share.job, served[&share.job]);
        assert!(share.owed.is_some_and(|owed| (owed - shares[&share.job]).abs() < 1e-9));
        assert_eq!(share.charged, Nanos(served[&share.job] * COST.0));
    }
}

/// Every millisecond one job leaves and another comes; those that stay have half of the time between them,
/// as two of four active jobs, and every guest has its quarter while it is there.
#[test]
fn jobs_come_and_go_every_millisecond() {
    let mut scheduler = under("job-fair");
    let (mut now, mut token) = (Nanos::ZERO, 0);
    let mut come = |scheduler: &mut dyn Scheduler, id: u64, now: Nanos| {
        scheduler.upsert_job(job(id, 1, 1, 1), now);
        token += 1;
        scheduler.enqueue(JobId(id), Token(1_000_000_000 + token), COST, now).unwrap();
    };
    for id in 0..4 {
        come(&mut *scheduler, id, now);
    }
    let mut served: BTreeMap<JobId, u64> = BTreeMap::new();
    let mut tokens = 0;
    for turn in 0..1_000_u64 {
        let until = Nanos::from_millis(turn + 1);
        while now < until {
            *served.entry(serve(&mut *scheduler, &mut now, &mut tokens)).or_default() += 1;
        }
        scheduler.remove_job(JobId(turn + 2), now);
        come(&mut *scheduler, turn + 4, now);
    }
    let total: u64 = served.values().sum();
    let resident = served[&JobId(0)] + served[&JobId(1)];
    assert!((resident as f64 / total as f64 - 0.5).abs() < 0.02, "{resident} of {total}");
    // A guest stays for two milliseconds, of which a quarter is ten requests.
    let guests: Vec<u64> = (10..1_000).map(|id| served[&JobId(id)]).collect();
    assert!(guests.iter().all(|requests| (8..=12).contains(requests)), "{guests:?}");
}

proptest! {
    /// A backlogged job waits no longer than its share allows: between two of its requests others are served
    /// for at most its own cost over its share, and one largest request at each level. A failure prints the
    /// case that repeats it.
    #[test]
    fn nobody_starves(
        members in prop::collection::vec((0..4_u64, 0..3_u64, 1..40_u32, 1..2_000_u64), 2..12),
        policy in prop::sample::select(vec![
            "job-fair", "size-fair", "priority-fair", "user-fair", "user-then-size-fair",
            "group-then-user-then-size-fair", "priority-then-user-then-job-fair", "size-then-group-fair",
        ]),
    ) {
        let jobs: Vec<JobAttributes> = members
            .iter()
            .enumerate()
            .map(|(id, &(user, group, nodes, _))| job(id as u64, user, group, nodes))
            .collect();
        let cost = |job: JobId| Nanos::from_micros(members[job.0 as usize].3);
        let mut scheduler = under(policy);
        for job in &jobs {
            scheduler.upsert_job(*job, Nanos::ZERO);
            scheduler.enqueue(job.job, Token(job.job.0), cost(job.job), Nanos::ZERO).unwrap();
        }
        let mut split = levels(policy);
        if split.ends_with(&["user"]) || split.ends_with(&["group"]) {
            split.push("job");
        }
        let shares = naive_shares(&split, &jobs);
        let largest = jobs.iter().map(|job| cost(job.job).0).max().unwrap() as f64;
        let (mut now, mut token) = (Nanos::ZERO, 1_000);
        let mut last: HashMap<JobId, Nanos> = HashMap::new();
        let check = |job: JobId, since: Option<&Nanos>, now: Nanos| {
            let waited = now.saturating_since(since.copied().unwrap_or_default()).0 as f64;
            // Each level may be ahead by a request and behind by one, as large as the largest.
            let bound = cost(job).0 as f64 / shares[&job] + 2.0 * split.len() as f64 * largest / shares[&job];
            prop_assert!(waited <= bound, "job {job} waited {waited} ns of at most {bound}");
            Ok(())
        };
        for _ in 0..3_000 {
            let job = serve(&mut *scheduler, &mut now, &mut token);
            check(job, last.get(&job), now)?;
            last.insert(job, now);
        }
        for job in &jobs {
            check(job.job, last.get(&job.job), now)?;
        }
    }
}
