//! GIFT's division of a store's targets among applications for one interval: synchronous progress, then redeemed
//! coupons, then a linear program. The division is pure, and takes any number of targets.

use microlp::{ComparisonOp, OptimizationDirection, Problem};

/// The largest part of its fair share that an application may be throttled by.
const THROTTLED_MAX: f64 = 0.1;
/// Part of its past debts that an application must have been given back before it is throttled.
const REDEEMED_MIN: f64 = 0.8;
/// The debt to an application, and the redeemed part of it, before anything was owed, in intervals of a target. With it
/// an application can be throttled for the first time.
const REDEEMED_FIRST: f64 = 1.0;
/// Bandwidth below this is none: rounding.
const NEGLIGIBLE: f64 = 1e-9;
/// The price of throttling in the program, beyond the bandwidth that it takes, so that no application is throttled for
/// nothing.
const THROTTLING_COST: f64 = 1e-3;

/// The debt to an application for its throttling, in intervals of one target's bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Coupons {
    issued: f64,
    redeemed: f64,
}

/// An application with demand in this interval.
#[derive(Clone, Debug)]
pub(crate) struct Application {
    /// The targets it uses, each with its fair share there: fractions that sum to at most 1 over a target.
    pub(crate) targets: Vec<(usize, f64)>,
    pub(crate) coupons: Coupons,
}

impl Default for Coupons {
    fn default() -> Coupons {
        Coupons { issued: REDEEMED_FIRST, redeemed: REDEEMED_FIRST }
    }
}

impl Coupons {
    /// The open part of the debt.
    pub(crate) fn outstanding(&self) -> f64 {
        self.issued - self.redeemed
    }

    /// The debt that may be added before too little would have been given back.
    fn issuable(&self) -> f64 {
        (self.redeemed / REDEEMED_MIN - self.issued).max(0.0)
    }
}

/// The bandwidth of each application on each of its targets (fractions of one target), in their order. The
/// coupons are redeemed and issued on the way.
pub(crate) fn allocate(applications: &mut [Application]) -> Vec<f64> {
    let mut granted: Vec<f64> = applications.iter().map(synchronous_share).collect();
    let mut free = free_of(applications, &granted);
    let throttleable: Vec<f64> = applications.iter().zip(&granted).map(throttled_max).collect();
    redeem(applications, &mut granted, &mut free);
    if free.iter().any(|&free| free > NEGLIGIBLE) {
        let changes = program(applications, &granted, &throttleable, &free);
        for ((application, granted), change) in applications.iter_mut().zip(&mut granted).zip(changes) {
            *granted += change;
            application.coupons.issued += (-change).max(0.0) * application.targets.len() as f64;
        }
    }
    granted
}

/// Synchronous progress: an application moves on at the pace of its slowest target, so more than the least
/// of its fair shares would be of no use to it elsewhere.
fn synchronous_share(application: &Application) -> f64 {
    application.targets.iter().map(|&(_, fair)| fair).reduce(f64::min).unwrap_or(0.0)
}

fn throttled_max((application, granted): (&Application, &f64)) -> f64 {
    let targets = application.targets.len().max(1) as f64;
    (granted * THROTTLED_MAX).min(application.coupons.issuable() / targets)
}

/// The rest of each target.
fn free_of(applications: &[Application], granted: &[f64]) -> Vec<f64> {
    let targets = applications.iter().flat_map(|application| &application.targets);
    let mut free = vec![1.0; targets.map(|&(target, _)| target + 1).max().unwrap_or(0)];
    for (application, granted) in applications.iter().zip(granted) {
        for &(target, _) in &application.targets {
            free[target] -= granted;
        }
    }
    free
}

/// Rewards applications out of the rest, the earlier ones first, as far as they hold coupons.
fn redeem(applications: &mut [Application], granted: &mut [f64], free: &mut [f64]) {
    for (application, granted) in applications.iter_mut().zip(granted) {
        let targets = application.targets.len() as f64;
        let available = application.targets.iter().map(|&(target, _)| free[target]).fold(1.0, f64::min);
        let reward = (application.coupons.outstanding() / targets).min(available);
        if reward > NEGLIGIBLE {
            *granted += reward;
            application.coupons.redeemed += reward * targets;
            for &(target, _) in &application.targets {
                free[target] -= reward;
            }
        }
    }
}

/// The linear program: the changes that let the targets together carry the most, with no application throttled beyond
/// its bound and no target filled beyond its bandwidth. No changes at all would be feasible.
fn program(applications: &[Application], granted: &[f64], throttleable: &[f64], free: &[f64]) -> Vec<f64> {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let mut columns = Vec::with_capacity(applications.len());
    for ((application, granted), &throttleable) in applications.iter().zip(granted).zip(throttleable) {
        let targets = application.targets.len() as f64;
        let raised = problem.add_var(targets, (0.0, (1.0 - granted).max(0.0)));
        let throttled = problem.add_var(-targets - THROTTLING_COST, (0.0, throttleable));
        columns.push((raised, throttled));
    }
    let mut rows = vec![Vec::new(); free.len()];
    for (application, &(raised, throttled)) in applications.iter().zip(&columns) {
        for &(target, _) in &application.targets {
            rows[target].extend([(raised, 1.0), (throttled, -1.0)]);
        }
    }
    for (row, free) in rows.iter().zip(free) {
        problem.add_constraint(row.as_slice(), ComparisonOp::Le, free.max(0.0));
    }
    // Feasible and bounded, so that only a fault of the solver leaves none: the shares as they are hold then.
    let Some(solution) = problem.solve().ok().and_then(|outcome| outcome.into_solution().ok()) else {
        return vec![0.0; applications.len()];
    };
    columns
        .iter()
        .map(|&(raised, throttled)| solution.var_value(raised) - solution.var_value(throttled))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Applications that use these targets and share each equally.
    fn applications(used: &[&[usize]]) -> Vec<Application> {
        let sharers = |target| used.iter().filter(|targets| targets.contains(&target)).count() as f64;
        let application = |targets: &&[usize]| Application {
            targets: targets.iter().map(|&target| (target, 1.0 / sharers(target))).collect(),
            coupons: Coupons::default(),
        };
        used.iter().map(application).collect()
    }

    fn assert_near(left: &[f64], right: &[f64]) {
        let is_near = |(left, right): (&f64, &f64)| (left - right).abs() < 1e-9;
        assert!(
            left.len() == right.len() && left.iter().zip(right).all(is_near),
            "{left:?} is not {right:?}"
        );
    }

    /// The gap between fairness on each target and synchronous progress that the paper opens with: an application on
    /// three targets, two of which it shares with fewer others, cannot use its larger shares there. The program gives
    /// the unused shares to applications that can use them.
    #[test]
    fn the_slowest_target_sets_the_pace_and_the_rest_goes_to_others() {
        let mut all = applications(&[&[0, 1, 2], &[0], &[0], &[1], &[2]]);
        let third = 1.0 / 3.0;
        let synchronous: Vec<f64> = all.iter().map(synchronous_share).collect();
        assert_near(&synchronous, &[third, third, third, 0.5, 0.5]);
        assert_near(&free_of(&all, &synchronous), &[0.0, 1.0 / 6.0, 1.0 / 6.0]);
        assert_near(&allocate(&mut all), &[third, third, third, 2.0 * third, 2.0 * third]);
        assert!(all.iter().all(|application| application.coupons == Coupons::default()));
    }

    /// Two applications on one of three targets, which hold each other to a half: throttling the one that is
    /// there alone by a tenth of its share lets the other use as much more of all three.
    #[test]
    fn throttling_one_lets_a_wider_one_use_more_and_is_rewarded_later() {
        let mut all = applications(&[&[0, 1, 2], &[0]]);
        assert_near(&allocate(&mut all), &[0.55, 0.45]);
        assert_near(&[all[0].coupons.outstanding(), all[1].coupons.outstanding()], &[0.0, 0.05]);

        let mut later = applications(&[&[0], &[0, 1], &[1], &[1]]);
        later[0].coupons = all[1].coupons;
        let third = 1.0 / 3.0;
        // The application is owed 0.05 of target 0, which has a sixth left beside its half; the program adds the rest.
        assert_near(&allocate(&mut later), &[2.0 * third, third, third, third]);
        assert_near(&[later[0].coupons.outstanding()], &[0.0]);
    }

    #[test]
    fn an_application_that_is_owed_too_much_is_not_throttled_further() {
        let mut all = applications(&[&[0, 1, 2], &[0]]);
        let mut throttled = Vec::new();
        for _ in 0..8 {
            throttled.push(0.5 - allocate(&mut all)[1]);
        }
        assert_near(&throttled[..5], &[0.05; 5]);
        assert_near(&throttled[5..], &[0.0; 3]);
        assert_near(&[all[1].coupons.outstanding()], &[0.25]);
    }

    #[test]
    fn one_full_target_leaves_the_program_nothing() {
        let mut all = applications(&[&[0], &[0], &[0], &[0]]);
        assert_near(&allocate(&mut all), &[0.25; 4]);
        assert!(allocate(&mut []).is_empty());
    }

    proptest! {
        /// No target is overfilled, no application falls below its synchronous share by more than the bound, the whole
        /// carries at least as much as synchronous progress does, and taken bandwidth is owed.
        #[test]
        fn allocations_are_feasible_and_bounded(
            used in prop::collection::vec(prop::collection::btree_set(0..5_usize, 1..5), 1..12),
            intervals in 1..6_usize,
        ) {
            let used: Vec<Vec<usize>> = used.into_iter().map(|targets| targets.into_iter().collect()).collect();
            let mut all = applications(&used.iter().map(Vec::as_slice).collect::<Vec<_>>());
            for _ in 0..intervals {
                let before: Vec<Coupons> = all.iter().map(|application| application.coupons).collect();
                let synchronous: Vec<f64> = all.iter().map(synchronous_share).collect();
                let granted = allocate(&mut all);
                prop_assert!(free_of(&all, &granted).iter().all(|&free| free > -1e-7));
                let carried = |shares: &[f64]| -> f64 {
                    all.iter().zip(shares).map(|(application, share)| share * application.targets.len() as f64).sum()
                };
                prop_assert!(carried(&granted) > carried(&synchronous) - 1e-7);
                for (((application, before), granted), fair) in all.iter().zip(before).zip(granted).zip(synchronous) {
                    prop_assert!(granted > 0.9 * fair - 1e-7);
                    let coupons = application.coupons;
                    prop_assert!(coupons.redeemed >= REDEEMED_MIN * coupons.issued - 1e-7);
                    prop_assert!(coupons.outstanding() > -1e-7);
                    let taken = (fair - granted).max(0.0) * application.targets.len() as f64;
                    prop_assert!(coupons.issued - before.issued > taken - 1e-7);
                }
            }
        }
    }
}
