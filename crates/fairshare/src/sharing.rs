//! The sharing of a site's devices: policy, scheduler and entitlements, checked together, and the path of each job
//! through the share tree that they make.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::bounded;
use crate::branch::Branch;
use crate::entitlement::{Entitlements, Holder};
use crate::job::JobAttributes;
use crate::policy::{nearest, Entity, Level, Policy};

/// Weight one in the share tree: weights there are in 1/1024, so that factors of a weight count.
const WEIGHT_ONE: f64 = 1024.0;
/// Largest weight in the share tree, of two million nodes. It keeps a request of 1 us apart from none.
const WEIGHT_MAX: f64 = (1_u32 << 31) as f64;

/// The sharing of device time: the policy, its scheduler, and the holders of more or less.
#[derive(Clone, Debug, PartialEq)]
pub struct Sharing {
    policy: Policy,
    algorithm: Algorithm,
    entitlements: Arc<Entitlements>,
}

/// The scheduler that enforces a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Deterministic virtual time over the share tree.
    VirtualTime,
    /// ThemisIO's: a job is drawn by its probability.
    StatisticalToken,
    /// GIFT's: bandwidth is allotted every half second.
    Gift,
    /// TBF's: a token bucket for each job.
    Tbf,
    /// Order of arrival; it is the scheduler of the policy `fifo` and of no other.
    Fifo,
}

/// The reason why a policy, a scheduler and entitlements do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SharingError {
    /// No scheduler has this name.
    #[error(
        "unknown scheduler `{given}`: expected one of {}{}",
        Algorithm::NAMES.join(", "),
        .nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
    )]
    UnknownScheduler {
        /// The given string.
        given: String,
        /// The scheduler whose name is nearest, where one is near.
        nearest: Option<&'static str>,
    },
    /// Only `fifo` serves in order of arrival.
    #[error("scheduler `{algorithm}` cannot enforce policy `{policy}`: `fifo` is both, and goes with nothing else")]
    Unfit {
        /// The scheduler.
        algorithm: Algorithm,
        /// The policy.
        policy: String,
    },
    /// Reservations and limits need the default scheduler.
    #[error(
        "scheduler `{algorithm}` keeps no reservations and limits: use virtual-time, or take them out of the \
         [[share]] tables"
    )]
    Unbound {
        /// The scheduler.
        algorithm: Algorithm,
    },
}

impl Sharing {
    /// Puts a policy, a scheduler (by default `fifo` for `fifo` and `virtual-time` for all others) and
    /// entitlements together.
    ///
    /// # Errors
    /// [`SharingError`] where they do not go together.
    pub fn new(
        policy: Policy,
        algorithm: Option<Algorithm>,
        entitlements: Arc<Entitlements>,
    ) -> Result<Sharing, SharingError> {
        let algorithm = algorithm.unwrap_or(Algorithm::of(&policy));
        if (policy == Policy::Fifo) != (algorithm == Algorithm::Fifo) {
            return Err(SharingError::Unfit { algorithm, policy: policy.to_string() });
        }
        if algorithm != Algorithm::VirtualTime && entitlements.bound_anyone() {
            return Err(SharingError::Unbound { algorithm });
        }
        Ok(Sharing { policy, algorithm, entitlements })
    }

    /// Another policy for the same site. Without an algorithm, the present one is kept where it can be.
    ///
    /// # Errors
    /// [`SharingError`] where they do not go together.
    pub fn with(&self, policy: Policy, algorithm: Option<Algorithm>) -> Result<Sharing, SharingError> {
        let keeps = self.algorithm != Algorithm::Fifo && policy != Policy::Fifo;
        let algorithm = algorithm.or(keeps.then_some(self.algorithm));
        Sharing::new(policy, algorithm, Arc::clone(&self.entitlements))
    }

    /// The sharing of the same site with other entitlements.
    ///
    /// # Errors
    /// [`SharingError`] where the scheduler does not keep them.
    pub fn with_entitlements(&self, entitlements: Arc<Entitlements>) -> Result<Sharing, SharingError> {
        Sharing::new(self.policy.clone(), Some(self.algorithm), entitlements)
    }

    /// A policy under its default scheduler, without entitlements.
    pub fn of(policy: Policy) -> Sharing {
        Sharing { algorithm: Algorithm::of(&policy), policy, entitlements: Arc::default() }
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The scheduler.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The holders and their entitlements.
    pub fn entitlements(&self) -> &Entitlements {
        &self.entitlements
    }

    /// The nodes from below the root to the job's leaf, outermost first; of `fifo`, the leaf alone.
    ///
    /// `portions` are factors of their weights, in the same order; where there are none, 1. The factor
    /// of a group or user that has no node of its own counts at the leaf.
    pub(crate) fn path(&self, job: &JobAttributes, portions: &[f64]) -> Vec<Branch> {
        let levels: &[Level] = match &self.policy {
            Policy::Fifo => &[],
            Policy::Fair(levels) => levels,
        };
        let (classes, last) = match levels.split_last() {
            Some((last, above)) if last.divides_jobs() => (above, *last),
            _ => (levels, Level::Job),
        };
        let mut branches: Vec<Branch> = Vec::with_capacity(classes.len() + 1);
        let mut add = |entity: Entity, weight: f64| {
            let portion = portions.get(branches.len()).copied().unwrap_or(1.0);
            let weight = (weight * portion * WEIGHT_ONE).round().clamp(1.0, WEIGHT_MAX) as u32;
            branches.push(Branch { entity, weight });
        };
        for level in classes {
            let factor = match level {
                Level::Group => self.entitlements.weight(Holder::Group(job.group)),
                Level::User => self.entitlements.weight(Holder::User(job.user)),
                _ => 1.0,
            };
            if let Some(class) = level.class(job) {
                add(class, f64::from(level.weight(job)) * factor);
            }
        }
        let mut leaf_factor = self.entitlements.weight(self.entitlements.holder_of(job));
        for (level, holder) in
            [(Level::Group, Holder::Group(job.group)), (Level::User, Holder::User(job.user))]
        {
            if !classes.contains(&level) {
                leaf_factor *= self.entitlements.weight(holder);
            }
        }
        add(Entity::Job(job.job), f64::from(last.weight(job)) * leaf_factor);
        branches
    }

    /// The fraction of a device's time that each of these distinct jobs is owed while exactly these want more than theirs.
    /// Each job comes with the portions of its weights that it spends there, outermost first; without portions it spends
    /// all.
    pub fn owed(&self, jobs: &[(&JobAttributes, &[f64])]) -> Vec<f64> {
        let paths: Vec<Vec<Branch>> = jobs.iter().map(|(job, portions)| self.path(job, portions)).collect();
        let attributes: Vec<&JobAttributes> = jobs.iter().map(|&(job, _)| job).collect();
        bounded::owed(&paths, &attributes, &self.entitlements)
    }
}

impl Algorithm {
    /// The names [`Algorithm::from_str`] accepts, in the order of declaration.
    pub const NAMES: [&'static str; 5] = ["virtual-time", "statistical-token", "gift", "tbf", "fifo"];
    const ALL: [Algorithm; 5] = [
        Algorithm::VirtualTime,
        Algorithm::StatisticalToken,
        Algorithm::Gift,
        Algorithm::Tbf,
        Algorithm::Fifo,
    ];

    /// The scheduler of a policy for which none was chosen.
    fn of(policy: &Policy) -> Algorithm {
        match policy {
            Policy::Fifo => Algorithm::Fifo,
            Policy::Fair(_) => Algorithm::VirtualTime,
        }
    }
}

impl FromStr for Algorithm {
    type Err = SharingError;

    fn from_str(given: &str) -> Result<Algorithm, SharingError> {
        let name = given.trim().to_ascii_lowercase();
        let known = Algorithm::NAMES.iter().position(|&known| known == name);
        known.map(|index| Algorithm::ALL[index]).ok_or_else(|| SharingError::UnknownScheduler {
            given: given.to_owned(),
            nearest: nearest(&name, &Algorithm::NAMES),
        })
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(Algorithm::NAMES[*self as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entitlement::Entitlement;
    use crate::job::{JobName, UserId};

    fn sharing(policy: &str) -> Sharing {
        Sharing::of(policy.parse().unwrap())
    }

    fn owed(sharing: &Sharing, jobs: &[JobAttributes]) -> Vec<f64> {
        let rounded = |owed: f64| (owed * 1e6).round() / 1e6;
        let whole: Vec<(&JobAttributes, &[f64])> = jobs.iter().map(|job| (job, &[][..])).collect();
        sharing.owed(&whole).into_iter().map(rounded).collect()
    }

    #[test]
    fn each_policy_owes_what_it_says() {
        // The four jobs of ThemisIO's figure 9: two users, 1:2 and 4:6 nodes.
        let jobs = [
            JobAttributes::numbered(1, 1, 1, 1, 1),
            JobAttributes::numbered(2, 1, 1, 2, 1),
            JobAttributes::numbered(3, 2, 1, 4, 3),
            JobAttributes::numbered(4, 2, 2, 6, 3),
        ];
        for (policy, expected) in [
            ("job-fair", [0.25, 0.25, 0.25, 0.25]),
            ("user-fair", [0.25, 0.25, 0.25, 0.25]),
            ("group-fair", [0.166667, 0.166667, 0.166667, 0.5]),
            ("size-fair", [0.076923, 0.153846, 0.307692, 0.461538]),
            ("priority-fair", [0.125, 0.125, 0.375, 0.375]),
            ("user-then-size-fair", [0.166667, 0.333333, 0.2, 0.3]),
            ("group-then-user-then-size-fair", [0.083333, 0.166667, 0.25, 0.5]),
            ("priority-then-size-fair", [0.083333, 0.166667, 0.3, 0.45]),
            ("size-then-user-fair", [0.076923, 0.153846, 0.307692, 0.461538]),
            ("user-then-group-then-job-fair", [0.25, 0.25, 0.25, 0.25]),
        ] {
            assert_eq!(owed(&sharing(policy), &jobs), expected, "{policy}");
        }
    }

    #[test]
    fn a_weight_counts_at_its_holders_node_or_else_at_its_jobs() {
        let mut entitlements = Entitlements::default();
        let weight = |weight| Entitlement { weight, ..Entitlement::default() };
        entitlements.grant(Holder::User(UserId(1)), weight(3.0)).unwrap();
        entitlements.grant(Holder::Job(JobName(2)), weight(0.5)).unwrap();
        let entitlements = Arc::new(entitlements);
        let jobs = [
            JobAttributes::numbered(1, 1, 1, 1, 1),
            JobAttributes::numbered(2, 1, 1, 1, 1),
            JobAttributes::numbered(3, 2, 1, 1, 1),
        ];
        for (policy, expected) in
            [("user-fair", [0.5, 0.25, 0.25]), ("job-fair", [0.545455, 0.272727, 0.181818])]
        {
            let sharing = Sharing::new(policy.parse().unwrap(), None, Arc::clone(&entitlements)).unwrap();
            assert_eq!(owed(&sharing, &jobs), expected, "{policy}");
        }
    }

    #[test]
    fn portions_are_factors_along_the_path() {
        let path = sharing("user-then-size-fair").path(&JobAttributes::numbered(1, 1, 1, 4, 1), &[0.5, 0.25]);
        assert_eq!(path.iter().map(|branch| branch.weight).collect::<Vec<_>>(), [512, 1024]);
        let crowd = JobAttributes::numbered(1, 1, 1, u32::MAX, 1);
        assert_eq!(sharing("size-fair").path(&crowd, &[])[0].weight, 1 << 31);
        assert_eq!(sharing("size-fair").path(&JobAttributes::numbered(1, 1, 1, 0, 1), &[1e-9])[0].weight, 1);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let mut bound = Entitlements::default();
        let limited = Entitlement { limit: Some(0.5), ..Entitlement::default() };
        bound.grant(Holder::User(UserId(1)), limited).unwrap();
        let bound = Arc::new(bound);
        let with = |policy: &str, scheduler: Option<&str>, entitlements: &Arc<Entitlements>| {
            let algorithm = scheduler.map(|name| name.parse().unwrap());
            Sharing::new(policy.parse().unwrap(), algorithm, Arc::clone(entitlements))
        };
        let free = Arc::default();
        assert_eq!(with("fifo", None, &free).unwrap().algorithm(), Algorithm::Fifo);
        assert!(matches!(with("fifo", Some("gift"), &free), Err(SharingError::Unfit { .. })));
        assert!(matches!(with("job-fair", Some("fifo"), &free), Err(SharingError::Unfit { .. })));
        assert!(matches!(with("job-fair", Some("tbf"), &bound), Err(SharingError::Unbound { .. })));
        assert!(matches!(with("fifo", None, &bound), Err(SharingError::Unbound { .. })));
        let error = "virtualtime".parse::<Algorithm>().unwrap_err().to_string();
        assert!(error.ends_with("(did you mean `virtual-time`?)"), "{error}");
    }

    #[test]
    fn a_change_of_policy_keeps_the_scheduler_where_it_can() {
        let gift = Sharing::new("job-fair".parse().unwrap(), Some(Algorithm::Gift), Arc::default()).unwrap();
        let user_fair = gift.with("user-fair".parse().unwrap(), None).unwrap();
        assert_eq!(user_fair.algorithm(), Algorithm::Gift);
        let fifo = user_fair.with(Policy::Fifo, None).unwrap();
        assert_eq!(fifo.algorithm(), Algorithm::Fifo);
        assert_eq!(fifo.with("job-fair".parse().unwrap(), None).unwrap().algorithm(), Algorithm::VirtualTime);
    }
}
