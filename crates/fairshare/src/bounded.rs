//! The shares that jobs are owed where groups, users and jobs have reservations and limits.
//!
//! The scheduler serves a holder that is behind its reservation before it asks the share tree, and does not serve a holder
//! that is beyond its limit. While all jobs want more than theirs, each holder therefore has the greater of its share and
//! its reservation, at most its limit, and the tree divides the rest of the time.

use crate::branch::Branch;
use crate::claims::Claims;
use crate::entitlement::{Entitlements, Holder};
use crate::job::{JobAttributes, JobId};
use std::collections::BTreeMap;

/// Most steps towards the shares. Each takes away all of the error but the part of the tree's time that holders with
/// reservations have there.
const STEPS: usize = 24;
/// Error of a holder's share that is left.
const SETTLED: f64 = 1e-5;

/// A holder with a reservation or a limit, and its jobs.
struct Bound {
    /// Places of its jobs, and the part of its reservation that each is owed.
    members: Vec<(usize, f64)>,
    reservation: f64,
    limit: f64,
    /// Part of the device's time that it is given before the tree is asked.
    given: f64,
}

/// The fraction of a device's time that each of these distinct jobs is owed while exactly these want more than theirs, by
/// their paths through the share tree.
pub(crate) fn owed(paths: &[Vec<Branch>], jobs: &[&JobAttributes], entitlements: &Entitlements) -> Vec<f64> {
    let claims = Claims::of(paths.iter().cloned());
    let mut bounds = bounds_of(paths, jobs, entitlements);
    if bounds.is_empty() {
        return claims.owed();
    }
    let mut most = vec![f64::INFINITY; jobs.len()];
    let mut owed = Vec::new();
    for _ in 0..STEPS {
        owed = divide(&claims, &bounds, &most);
        let mut error = 0.0_f64;
        for bound in &mut bounds {
            let has: f64 = bound.members.iter().map(|&(job, _)| owed[job]).sum();
            if has > bound.limit {
                error = error.max(has - bound.limit);
                // The limit withholds all of its jobs at once, which leaves their proportions.
                for &(job, _) in &bound.members {
                    most[job] = most[job].min(owed[job] * bound.limit / has);
                }
            } else {
                let given = (bound.given + bound.reservation - has).clamp(0.0, bound.reservation);
                error = error.max((given - bound.given).abs());
                bound.given = given;
            }
        }
        if error <= SETTLED {
            break;
        }
    }
    owed
}

/// The shares of the jobs where holders are given a part of their reservations first, and no job has more than its `most`.
fn divide(claims: &Claims, bounds: &[Bound], most: &[f64]) -> Vec<f64> {
    let mut first = vec![0.0; most.len()];
    for bound in bounds {
        for &(job, part) in &bound.members {
            first[job] += bound.given * part;
        }
    }
    for (first, &most) in first.iter_mut().zip(most) {
        *first = first.min(most);
    }
    // Holders of several kinds may have reserved more than there is.
    let all = first.iter().sum::<f64>().max(1.0);
    first.iter_mut().for_each(|first| *first /= all);
    let left = 1.0 - first.iter().sum::<f64>();
    let open: Vec<f64> = first.iter().zip(most).map(|(first, most)| (most - first).max(0.0)).collect();
    let in_turn = claims.owed_within(left.max(0.0), &open);
    first.iter().zip(in_turn).map(|(first, in_turn)| first + in_turn).collect()
}

fn bounds_of(paths: &[Vec<Branch>], jobs: &[&JobAttributes], entitlements: &Entitlements) -> Vec<Bound> {
    if !entitlements.bound_anyone() {
        return Vec::new();
    }
    // A grant for a job name holds for each job of the name by itself.
    let mut holders: BTreeMap<(Holder, Option<JobId>), Bound> = BTreeMap::new();
    for (place, job) in jobs.iter().enumerate() {
        for (holder, granted) in entitlements.bounds(job) {
            let alone = matches!(holder, Holder::Job(_)).then_some(job.job);
            let (reservation, limit) = (granted.reservation.unwrap_or(0.0), granted.limit.unwrap_or(1.0));
            let bound = Bound { members: Vec::new(), reservation, limit, given: 0.0 };
            holders.entry((holder, alone)).or_insert(bound).members.push((place, 1.0));
        }
    }
    let mut bounds: Vec<Bound> = holders.into_values().collect();
    for bound in &mut bounds {
        let parts = Claims::of(bound.members.iter().map(|&(place, _)| paths[place].clone())).owed();
        bound.members.iter_mut().zip(parts).for_each(|(member, part)| member.1 = part);
    }
    bounds
}
