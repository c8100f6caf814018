use super::*;

fn jobs_of(uids: std::ops::Range<u32>) -> Jobs {
    let mut jobs = Jobs::default();
    for uid in uids {
        jobs.meet(&weir_testing::claims(uid), Nanos(u64::from(uid)));
    }
    jobs
}

#[test]
fn a_finished_job_is_kept_for_as_long_as_the_site_says() {
    let (mut jobs, id) = (jobs_of(0..1), weir_testing::claims(0).job_id());
    let kept = Nanos(RETIREMENT.0 * 9);
    assert_eq!(jobs.expire(RETIREMENT, kept), []);
    assert_eq!(jobs.reports(HashMap::new()).len(), 1);
    assert_eq!(jobs.expire(RETIREMENT + Nanos(1), kept), [id], "it leaves the devices");
    assert_eq!(jobs.reports(HashMap::new()), []);
    assert_eq!(jobs.expire(kept, kept), [], "it has left them");
    assert_eq!(jobs.ids(), [id]);
    assert_eq!(jobs.expire(kept + Nanos(1), kept), []);
    assert_eq!(jobs.ids(), []);
}

#[test]
fn a_job_that_is_kept_for_a_short_time_leaves_the_devices_with_the_table() {
    let (mut jobs, kept) = (jobs_of(0..1), Nanos::from_millis(50));
    assert_eq!(jobs.expire(kept + Nanos(1), kept), [weir_testing::claims(0).job_id()]);
    assert_eq!(jobs.ids(), []);
}

#[test]
fn a_retired_job_that_comes_back_is_reported_again() {
    let mut jobs = jobs_of(0..1);
    let later = RETIREMENT + Nanos(1);
    assert_eq!(jobs.expire(later, Nanos(u64::MAX)).len(), 1);
    jobs.meet(&weir_testing::claims(0), later);
    assert_eq!(jobs.reports(HashMap::new()).len(), 1);
    assert_eq!(jobs.expire(later + later, Nanos(u64::MAX)).len(), 1, "and retires again");
}

/// A mount names its callers once, and a caller that was idle for long was not in the table any more, whatever it did.
#[test]
fn a_forgotten_job_that_works_again_is_known_as_before() {
    let (mut jobs, claims, kept) = (Jobs::default(), weir_testing::claims(7), Nanos::from_millis(50));
    let identity = jobs.meet(&claims, Nanos::ZERO);
    let later = kept + Nanos(1);
    assert_eq!(jobs.expire(later, kept), [claims.job_id()]);
    assert_eq!(jobs.ids(), []);
    jobs.meet_again(&identity, later);
    let report = &jobs.reports(HashMap::new())[0];
    assert_eq!(
        (&report.name, &report.user, &report.group, report.uid, report.nodes, report.priority),
        (&claims.job, &claims.user, &claims.group, claims.uid, claims.nodes, claims.priority)
    );
    jobs.meet_again(&identity, later + kept);
    assert_eq!(jobs.expire(later + kept, kept), [], "each request is a sign of life");
    assert_eq!(jobs.ids(), [claims.job_id()]);
}

const SECOND: Nanos = Nanos::from_millis(1_000);

/// Accounts a second in which each device gave these parts of it to jobs that waited and that it promised those shares, by
/// the jobs' uids.
fn account(jobs: &mut Jobs, devices: &[&[(u32, f64, Option<f64>)]]) {
    let id = |uid| weir_testing::claims(uid).job_id();
    let share = |&(uid, _, owed): &(u32, f64, Option<f64>)| {
        let (queued, charged, backlogged) = (1, Nanos::ZERO, SECOND);
        JobShare { job: id(uid), owed, active: true, queued, charged, backlogged }
    };
    let given = |&(uid, part, _): &(u32, f64, Option<f64>)| (id(uid), Nanos((part * 1e9) as u64));
    let shares: Vec<Vec<JobShare>> = devices.iter().map(|jobs| jobs.iter().map(share).collect()).collect();
    let received: Vec<HashMap<JobId, Nanos>> =
        devices.iter().map(|jobs| jobs.iter().map(given).collect()).collect();
    let interval = |(shares, received)| Interval { began: Nanos::ZERO, ended: SECOND, shares, received };
    let intervals = shares.iter().map(Vec::as_slice).zip(&received).map(interval).enumerate();
    jobs.account(&intervals.collect::<Vec<_>>());
    jobs.settle(|_| true);
}

/// The device time of each of three jobs at some servers: contended, owing, owed and received.
fn times(servers: &[&Jobs]) -> [[f64; 4]; 3] {
    [0, 1, 2].map(|uid| {
        let id = weir_testing::claims(uid).job_id();
        let of =
            |jobs: &&Jobs| jobs.jobs.get(&id).map(|job| [job.contended, job.owing, job.owed, job.received]);
        let known = servers.iter().filter_map(of);
        known.fold([0.0; 4], |sum, job| std::array::from_fn(|index| sum[index] + job[index]))
    })
}

fn assert_near(found: &[f64], expected: &[f64]) {
    let is_near = |(found, expected): (&f64, &f64)| (found - expected).abs() < 1e-9;
    assert!(found.iter().zip(expected).all(is_near), "{found:?} instead of {expected:?}");
}

/// Each job's time was divided by that of the devices which it used, so three jobs on two devices had 150 % together.
#[test]
fn jobs_that_are_active_at_the_same_time_have_the_whole_together_whichever_devices_they_use() {
    let mut jobs = jobs_of(0..3);
    let half = Some(0.5);
    account(&mut jobs, &[&[(0, 0.5, half), (1, 0.5, half)], &[(0, 0.4, half), (2, 0.6, half)]]);
    let expected = [[2.0, 2.0, 1.0, 0.9], [2.0, 2.0, 0.5, 0.5], [2.0, 2.0, 0.5, 0.6]];
    assert_near(times(&[&jobs]).as_flattened(), expected.as_flattened());
}

#[test]
fn a_limited_job_that_has_a_device_alone_is_owed_all_that_its_limit_leaves_it() {
    let mut jobs = jobs_of(0..2);
    account(&mut jobs, &[&[(0, 0.25, Some(0.25))], &[(1, 0.75, Some(1.0))]]);
    let expected = [[1.0, 1.0, 0.25, 0.25], [1.0, 1.0, 0.75, 0.75]];
    assert_near(times(&[&jobs])[..2].as_flattened(), expected.as_flattened());
}

#[test]
fn a_policy_that_owes_nothing_leaves_no_time_to_divide_by() {
    let mut jobs = jobs_of(0..2);
    account(&mut jobs, &[&[(0, 0.5, None), (1, 0.5, None)]]);
    assert_near(&times(&[&jobs])[0], &[1.0, 0.0, 0.0, 0.5]);
    assert_eq!(jobs.jobs[&weir_testing::claims(0).job_id()].share_owed(), None);
}

#[test]
fn the_time_of_a_server_counts_for_the_jobs_that_are_active_at_another_one() {
    let mut servers = [jobs_of(0..2), Jobs::default()];
    servers[1].meet(&weir_testing::claims(0), Nanos::ZERO);
    servers[1].meet(&weir_testing::claims(2), Nanos::ZERO);
    let half = Some(0.5);
    let active = |jobs: &mut Jobs| -> Vec<JobReport> {
        jobs.jobs.values_mut().for_each(|job| job.active = true);
        jobs.reports(HashMap::new())
    };
    let reports = servers.each_mut().map(active);
    for (server, heard) in servers.iter_mut().zip(reports.iter().rev()) {
        server.note_elsewhere(heard.iter(), SECOND);
    }
    account(&mut servers[0], &[&[(0, 0.5, half), (1, 0.5, half)]]);
    account(&mut servers[1], &[&[(0, 0.4, half), (2, 0.6, half)]]);
    let expected = [[2.0, 2.0, 1.0, 0.9], [2.0, 2.0, 0.5, 0.5], [2.0, 2.0, 0.5, 0.6]];
    assert_near(times(&[&servers[0], &servers[1]]).as_flattened(), expected.as_flattened());
    assert_eq!(servers[0].reports(HashMap::new()).len(), 2, "a job is reported only where it has been");
}

#[test]
fn a_job_of_another_server_is_kept_for_as_long_as_it_is_reported_and_leaves_with_the_others() {
    let (mut jobs, mut there, kept) = (Jobs::default(), jobs_of(0..1), Nanos::from_millis(50));
    there.note_elsewhere(std::iter::empty(), Nanos::ZERO);
    let idle = there.reports(HashMap::new());
    jobs.note_elsewhere(idle.iter(), Nanos::ZERO);
    assert_eq!(jobs.ids(), [], "a job that has done nothing there counts nowhere");
    let active: Vec<JobReport> = idle.iter().map(|job| JobReport { active: true, ..job.clone() }).collect();
    jobs.note_elsewhere(active.iter(), Nanos::ZERO);
    jobs.note_elsewhere(idle.iter(), SECOND);
    assert_eq!(jobs.expire(SECOND + kept, kept), []);
    assert_eq!(jobs.ids().len(), 1);
    assert_eq!(jobs.expire(SECOND + kept + Nanos(1), kept), [], "it has no place in devices");
    assert_eq!(jobs.ids(), []);
}

#[test]
fn other_servers_cannot_fill_the_table_beyond_its_limit() {
    let mut jobs = jobs_of(0..JOBS_MAX as u32);
    let report = Jobs::reports(&jobs_of(JOBS_MAX as u32..JOBS_MAX as u32 + 1), HashMap::new());
    let active: Vec<JobReport> = report.into_iter().map(|job| JobReport { active: true, ..job }).collect();
    jobs.note_elsewhere(active.iter(), SECOND);
    assert_eq!(jobs.ids().len(), JOBS_MAX);
}

#[test]
fn of_too_many_jobs_the_longest_silent_are_forgotten() {
    let mut jobs = jobs_of(0..JOBS_MAX as u32 + 2);
    let mut gone = jobs.expire(Nanos(0), RETIREMENT);
    gone.sort();
    let mut oldest = [0, 1].map(|uid| weir_testing::claims(uid).job_id());
    oldest.sort();
    assert_eq!(gone, oldest);
    assert_eq!(jobs.ids().len(), JOBS_MAX);
}
