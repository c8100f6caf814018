//! The division against examples that were done by hand, and against an exact one.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::*;
use crate::branch::Branch;

fn job(id: u64, user: u64, nodes: u32) -> JobAttributes {
    JobAttributes::numbered(id, user, 1, nodes, 1)
}

fn everywhere(attributes: JobAttributes, devices: &[usize]) -> Presence {
    let uses = devices.iter().map(|&device| Use { device, wanted: None }).collect();
    Presence { attributes, uses }
}

fn size_fair() -> Sharing {
    Sharing::of("size-fair".parse().unwrap())
}

fn shares(sharing: &Sharing, jobs: &[Presence], devices: usize) -> Vec<f64> {
    divide(sharing, jobs, devices).shares.iter().map(|share| (share * 1e3).round() / 1e3).collect()
}

/// ThemisIO's figure 5: the job on both servers counts half on each.
#[test]
fn figure_5() {
    let jobs =
        [everywhere(job(1, 1, 16), &[0, 1]), everywhere(job(2, 1, 8), &[0]), everywhere(job(3, 1, 8), &[1])];
    let division = divide(&size_fair(), &jobs, 2);
    assert_eq!(shares(&size_fair(), &jobs, 2), [1.0, 0.5, 0.5]);
    for (device, other) in [(0, JobId(2)), (1, JobId(3))] {
        let portions = &division.portions[device];
        assert!((portions[&JobId(1)][0] - 0.5).abs() < 1e-3, "{portions:?}");
        assert!((portions[&other][0] - 1.0).abs() < 1e-9, "{portions:?}");
        assert_eq!(portions.len(), 2);
    }
}

/// The token rule of the paper would give the first job 1.5 servers of 2 here, where it is owed 1.33.
#[test]
fn a_job_with_a_device_to_itself_leaves_the_other() {
    let jobs = [everywhere(job(1, 1, 16), &[0, 1]), everywhere(job(2, 1, 8), &[0])];
    assert_eq!(shares(&size_fair(), &jobs, 2), [1.333, 0.667]);
}

#[test]
fn disjoint_jobs_have_what_their_devices_give() {
    let jobs =
        [everywhere(job(1, 1, 1), &[0]), everywhere(job(2, 1, 8), &[1]), everywhere(job(3, 1, 8), &[1])];
    assert_eq!(shares(&size_fair(), &jobs, 2), [1.0, 0.5, 0.5]);
}

/// Under user-fair the inner node's portion counts too: user 1 has a job on each server.
#[test]
fn a_users_jobs_on_two_servers_count_as_one_user() {
    let sharing = Sharing::of("user-fair".parse().unwrap());
    let jobs = [
        everywhere(job(1, 1, 1), &[0]),
        everywhere(job(2, 1, 1), &[1]),
        everywhere(job(3, 2, 1), &[0]),
        everywhere(job(4, 3, 1), &[1]),
    ];
    // Each user is owed 2/3 of a server, so each of user 1's jobs 1/3 where it runs.
    assert_eq!(shares(&sharing, &jobs, 2), [0.333, 0.333, 0.667, 0.667]);
    let on_first = &divide(&sharing, &jobs, 2).portions[0];
    assert!((on_first[&JobId(1)][0] - 0.5).abs() < 1e-3, "half of user 1's weight: {on_first:?}");
    assert!((on_first[&JobId(1)][1] - 1.0).abs() < 1e-3, "all of job 1's: {on_first:?}");
}

#[test]
fn who_wants_little_somewhere_is_not_paid_with_it() {
    let mut jobs = [everywhere(job(1, 1, 1), &[0, 1]), everywhere(job(2, 1, 1), &[0])];
    jobs[0].uses[1].wanted = Some(0.02);
    // Each job should have 0.51 of the 1.02 used devices.
    assert_eq!(shares(&size_fair(), &jobs, 2), [0.51, 0.51]);
}

#[test]
fn nobody_is_divided_among_nobody() {
    let division = divide(&size_fair(), &[], 3);
    assert_eq!((division.portions.len(), division.shares.len()), (3, 0));
    let idle = Presence { attributes: job(1, 1, 1), uses: Vec::new() };
    assert_eq!(divide(&size_fair(), &[idle], 1).shares, [0.0]);
}

/// The exact weighted max-min division by bottlenecks: of all sets of jobs, the one whose devices give
/// it least for its weight gets just that, and the others divide the remaining devices.
fn bottlenecks(jobs: &[(f64, u32)], devices: u32) -> Vec<f64> {
    let mut shares = vec![0.0; jobs.len()];
    let mut left: Vec<usize> = (0..jobs.len()).collect();
    let mut free = devices;
    while !left.is_empty() {
        let level = |set: u32| {
            let members = left.iter().enumerate().filter(|(place, _)| set >> place & 1 == 1);
            let (weight, reach) = members.fold((0.0, 0), |(weight, reach), (_, &job)| {
                (weight + jobs[job].0, reach | (jobs[job].1 & free))
            });
            f64::from(reach.count_ones()) / weight
        };
        let sets = 1..1_u32 << left.len();
        // Among equal levels the larger set wins, so that no part of it comes again.
        let narrowest = sets
            .min_by(|&a, &b| {
                let (left, right) = (level(a), level(b));
                if (left - right).abs() < 1e-12 {
                    b.count_ones().cmp(&a.count_ones())
                } else {
                    left.total_cmp(&right)
                }
            })
            .unwrap();
        let share = level(narrowest);
        let mut taken = 0;
        let mut rest = Vec::new();
        for (place, &job) in left.iter().enumerate() {
            if narrowest >> place & 1 == 1 {
                shares[job] = share * jobs[job].0;
                taken |= jobs[job].1;
            } else {
                rest.push(job);
            }
        }
        free &= !taken;
        left = rest;
    }
    shares
}

/// The division as its definitions have it, with every sum in the order of the jobs: the portions of each device.
fn naive_portions(sharing: &Sharing, jobs: &[Presence], devices: usize) -> Vec<Portions> {
    let paths: Vec<Vec<Branch>> = jobs.iter().map(|job| sharing.path(&job.attributes, &[])).collect();
    let share = |path: &[Branch], depth: usize| {
        let siblings = paths.iter().filter(|other| other.len() > depth && other[..depth] == path[..depth]);
        let siblings: HashSet<Branch> = siblings.map(|other| other[depth]).collect();
        f64::from(path[depth].weight) / siblings.iter().map(|branch| f64::from(branch.weight)).sum::<f64>()
    };
    let owed: Vec<f64> =
        paths.iter().map(|path| (0..path.len()).map(|depth| share(path, depth)).product()).collect();
    let spent = naive_market(jobs, &owed, devices);
    let portions_on = |device: usize| {
        let here = |job: usize| {
            let place = jobs[job].uses.iter().position(|usage| usage.device == device)?;
            Some(spent[job][place])
        };
        let portion = |path: &[Branch], depth: usize| {
            let below = || (0..jobs.len()).filter(|&job| paths[job].get(..=depth) == Some(&path[..=depth]));
            let spent_below = below().filter_map(here).fold(0.0, |sum, spent| sum + spent);
            (spent_below / below().fold(0.0, |sum, job| sum + owed[job])).min(1.0)
        };
        let of_job = |job: usize| {
            here(job)?;
            let path = &paths[job];
            Some((jobs[job].attributes.job, (0..path.len()).map(|depth| portion(path, depth)).collect()))
        };
        (0..jobs.len()).filter_map(of_job).collect()
    };
    (0..devices).map(portions_on).collect()
}

/// The money that each job spends on each of its uses.
fn naive_market(jobs: &[Presence], owed: &[f64], devices: usize) -> Vec<Vec<f64>> {
    let all_of = |job: &Presence| -> BTreeSet<usize> {
        job.uses.iter().filter(|usage| usage.wanted.is_none()).map(|usage| usage.device).collect()
    };
    let own = |job: &Presence| -> f64 { job.uses.iter().filter_map(|usage| usage.wanted).sum() };
    let rest = |device: usize| {
        let uses = jobs.iter().flat_map(|job| &job.uses).filter(|usage| usage.device == device);
        uses.fold(1.0, |rest, usage| rest - usage.wanted.unwrap_or(0.0)).max(REST_MIN)
    };
    let rest: Vec<f64> = (0..devices).map(rest).collect();
    // A buyer's devices, own time and money, and its bids with that on its own time last.
    let mut buyers: Vec<(BTreeSet<usize>, f64, f64, Vec<f64>)> = Vec::new();
    let mut buyer_of_job = Vec::new();
    for (job, &money) in jobs.iter().zip(owed) {
        let wanted = (all_of(job), own(job));
        let alike = |buyer: &(_, f64, _, _)| buyer.1 == 0.0 && (&buyer.0, buyer.1) == (&wanted.0, wanted.1);
        let known = buyers.iter().position(alike);
        buyer_of_job.push(known.unwrap_or(buyers.len()));
        match known {
            Some(buyer) => buyers[buyer].2 += money,
            None => buyers.push((wanted.0, wanted.1, money, Vec::new())),
        }
    }
    for (all_of, own, money, bids) in &mut buyers {
        let parts = all_of.len() as f64 + if *own > 0.0 { 1.0 } else { 0.0 };
        *bids = vec![*money / parts; all_of.len()];
        bids.push(if *own > 0.0 { *money / parts } else { 0.0 });
    }
    for _ in 0..ROUNDS_MAX {
        let mut yields = vec![0.0; devices];
        for (all_of, _, _, bids) in &buyers {
            all_of.iter().zip(bids).for_each(|(&device, bid)| yields[device] += bid);
        }
        for (yielded, rest) in yields.iter_mut().zip(&rest) {
            *yielded = rest / *yielded;
        }
        let mut is_settled = true;
        for (all_of, own, money, bids) in &mut buyers {
            let bought: f64 = all_of.iter().zip(&*bids).map(|(&device, bid)| bid * yields[device]).sum();
            let price = *money / (*own + bought).max(f64::MIN_POSITIVE);
            for (&device, bid) in all_of.iter().zip(bids.iter_mut()) {
                let next = *bid * yields[device] * price;
                is_settled &= (next - *bid).abs() < SETTLED * *money;
                *bid = next;
            }
            bids[all_of.len()] = if *own > 0.0 { price * *own } else { 0.0 };
        }
        if is_settled {
            break;
        }
    }
    let spent = |(job, presence): (usize, &Presence)| {
        let (all_of, own, money, bids) = &buyers[buyer_of_job[job]];
        let on = |usage: &Use| match usage.wanted {
            Some(wanted) => bids[all_of.len()] * wanted / own.max(f64::MIN_POSITIVE),
            None => owed[job] / money * bids[all_of.range(..usage.device).count()],
        };
        presence.uses.iter().map(|usage| on(usage).max(PORTION_MIN * owed[job])).collect()
    };
    jobs.iter().enumerate().map(spent).collect()
}

/// A job by its user, group, nodes, the bits of its devices, and what it wants of each.
type DrawnJob = (u64, u64, u32, u32, Vec<Option<f64>>);

proptest! {
    /// Bit for bit: a division that is found faster decides nothing anew.
    #[test]
    fn the_division_is_that_of_its_definitions(
        jobs in prop::collection::vec(
            (0..3_u64, 0..3_u64, 1..6_u32, 1..32_u32, prop::collection::vec(prop::option::of(0.0..0.6_f64), 5)),
            0..14,
        ),
        policy in prop::sample::select(vec![
            "job-fair", "size-fair", "user-fair", "user-then-size-fair", "group-then-user-then-size-fair",
            "priority-then-size-fair", "size-then-user-fair",
        ]),
    ) {
        let sharing = Sharing::of(policy.parse().unwrap());
        let presence = |(id, (user, group, nodes, reach, wanted)): (u64, &DrawnJob)| {
            let reached = (0..5).filter(|device| reach >> device & 1 == 1);
            let uses = reached.map(|device| Use { device, wanted: wanted[device] }).collect();
            Presence { attributes: JobAttributes::numbered(id, *user, *group, *nodes, nodes % 3), uses }
        };
        let presences: Vec<Presence> = (0..).zip(&jobs).map(presence).collect();
        prop_assert_eq!(divide(&sharing, &presences, 5).portions, naive_portions(&sharing, &presences, 5));
    }

    /// On random overlaps, within a hundredth of a device of the exact division. A failure prints the
    /// case that repeats it.
    #[test]
    fn the_market_finds_the_max_min_division(
        jobs in prop::collection::vec((1..20_u32, 1..16_u32), 1..7),
    ) {
        let presences: Vec<Presence> = jobs.iter().enumerate().map(|(id, &(nodes, reach))| {
            let devices: Vec<usize> = (0..4).filter(|device| reach >> device & 1 == 1).collect();
            everywhere(job(id as u64, 1, nodes), &devices)
        }).collect();
        let weighted: Vec<(f64, u32)> = jobs.iter().map(|&(nodes, reach)| (f64::from(nodes), reach)).collect();
        let exact = bottlenecks(&weighted, 0b1111);
        let division = divide(&size_fair(), &presences, 4);
        for (share, exact) in division.shares.iter().zip(&exact) {
            prop_assert!((share - exact).abs() < 0.01, "{:?} where exactly {:?}", division.shares, exact);
        }
    }

    /// The shares of a device's tree from the portions are the shares of the market: no time is promised twice.
    #[test]
    fn portions_divide_each_device_as_the_market_did(
        jobs in prop::collection::vec((1..4_u64, 1..20_u32, 1..8_u32), 1..6),
    ) {
        let sharing = Sharing::of("user-then-size-fair".parse().unwrap());
        let presences: Vec<Presence> = jobs.iter().enumerate().map(|(id, &(user, nodes, reach))| {
            let devices: Vec<usize> = (0..3).filter(|device| reach >> device & 1 == 1).collect();
            everywhere(job(id as u64, user, nodes), &devices)
        }).collect();
        let division = divide(&sharing, &presences, 3);
        let mut received = vec![0.0; presences.len()];
        for portions in &division.portions {
            let here: Vec<usize> = (0..presences.len())
                .filter(|&job| portions.contains_key(&presences[job].attributes.job))
                .collect();
            let paths: Vec<_> = here
                .iter()
                .map(|&job| {
                    let attributes = &presences[job].attributes;
                    sharing.path(attributes, &portions[&attributes.job])
                })
                .collect();
            for (&job, owed) in here.iter().zip(Claims::of(paths.into_iter()).owed()) {
                received[job] += owed;
            }
        }
        for (received, share) in received.iter().zip(&division.shares) {
            prop_assert!((received - share).abs() < 0.05, "{received} of {share} in {division:?}");
        }
    }
}
