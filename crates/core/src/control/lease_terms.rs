//! The terms of a lease of the sharing: another policy, weights and limits of jobs, and targets that their new files
//! avoid, for a few seconds.

use crate::clock::seconds;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use weir_fairshare::{JobGrant, JobName, Nanos, Policy, Sharing};
use weir_placement::{TargetId, TargetNameError};
use weir_wire::{job_number, name_number, JobId};

/// Longest lease: a holder that died is forgotten soon, and one that lives renews its lease meanwhile.
const SECONDS_MAX: f64 = 60.0;
/// Most jobs of a lease: each costs an entry that schedulers look up for every job that begins.
const JOBS_MAX: usize = 64;
/// Most targets that the new files of one job avoid: each is looked up for every file that the job makes.
const AVOIDED_MAX: usize = 64;

/// The share of one user's job of a name, beside that of the site, and the targets that its new files avoid.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct LeasedJob {
    job: String,
    uid: u32,
    #[serde(default)]
    weight: Option<f64>,
    #[serde(default)]
    limit: Option<f64>,
    #[serde(default)]
    avoid: Vec<TargetName>,
}

/// A target by its name, such as `0.1`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
struct TargetName(TargetId);

impl TryFrom<String> for TargetName {
    type Error = TargetNameError;

    fn try_from(text: String) -> Result<TargetName, TargetNameError> {
        text.parse().map(TargetName)
    }
}

impl From<TargetName> for String {
    fn from(name: TargetName) -> String {
        name.0.to_string()
    }
}

impl LeasedJob {
    fn number(&self) -> JobId {
        job_number(self.uid, &self.job)
    }

    fn avoided(&self) -> Vec<TargetId> {
        self.avoid.iter().map(|name| name.0.device()).collect()
    }

    fn words(&self) -> String {
        format!("job {} of user {}", self.job, self.uid)
    }
}

/// A lease that is to be in force.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseWanted {
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    jobs: Vec<LeasedJob>,
    seconds: f64,
}

/// The lease in force, and the sharing that it makes.
#[derive(Debug, Serialize)]
pub struct LeaseTold {
    policy: String,
    scheduler: String,
    is_leased: bool,
    jobs: Vec<LeasedJob>,
    seconds: f64,
}

impl LeaseWanted {
    /// Whether the present lease is to end.
    pub(crate) fn is_end(&self) -> bool {
        self.seconds == 0.0
    }

    /// The time for which the lease holds.
    pub(crate) fn length(&self) -> Nanos {
        Nanos::from(Duration::from_secs_f64(self.seconds))
    }

    /// The policy in place of the decided one.
    ///
    /// # Errors
    /// There is no such policy.
    fn policy(&self) -> Result<Option<Policy>, String> {
        let parsed = self.policy.as_deref().map(str::parse::<Policy>).transpose();
        parsed.map_err(|error| error.to_string())
    }

    /// The sharing of a site under the lease.
    ///
    /// # Errors
    /// The fault, in a sentence.
    pub(crate) fn sharing(&self, decided: &Sharing) -> Result<Sharing, String> {
        let sharing = match self.policy()? {
            Some(policy) => decided.with(policy, None).map_err(|error| error.to_string())?,
            None => decided.clone(),
        };
        let sharers: Vec<&LeasedJob> =
            self.jobs.iter().filter(|job| job.weight.is_some() || job.limit.is_some()).collect();
        let grant = |each: &&LeasedJob| JobGrant {
            job: each.number(),
            name: JobName(name_number(&each.job)),
            weight: each.weight,
            limit: each.limit,
        };
        let grants: Vec<JobGrant> = sharers.iter().map(grant).collect();
        let entitlements = decided.entitlements().with(&grants);
        let entitlements =
            entitlements.map_err(|(place, error)| format!("{}: {error}", sharers[place].words()))?;
        sharing.with_entitlements(Arc::new(entitlements)).map_err(|error| error.to_string())
    }

    /// Leaves out the targets that the store does not have. One that was removed is no fault of a lease that is renewed.
    pub(crate) fn keep_targets(&mut self, has: impl Fn(TargetId) -> bool) {
        self.jobs.iter_mut().for_each(|job| job.avoid.retain(|target| has(target.0)));
    }

    /// Checks that no job avoids all targets of the store; `leaves` says whether others are there.
    ///
    /// # Errors
    /// The fault, in a sentence.
    pub(crate) fn check_avoided(&self, leaves: impl Fn(&[TargetId]) -> bool) -> Result<(), String> {
        match self.jobs.iter().find(|job| !leaves(&job.avoided())) {
            Some(job) => Err(format!("{} avoids all targets of the store; leave one out", job.words())),
            None => Ok(()),
        }
    }

    /// The targets that the new files of jobs avoid.
    pub(crate) fn avoided(&self) -> HashMap<JobId, Vec<TargetId>> {
        let avoids = self.jobs.iter().filter(|job| !job.avoid.is_empty());
        avoids.map(|job| (job.number(), job.avoided())).collect()
    }

    /// Checks the length of the lease, and the lengths of its lists.
    ///
    /// # Errors
    /// The fault, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        if !(0.0..=SECONDS_MAX).contains(&self.seconds) {
            return Err(format!("a lease is of 0 to {SECONDS_MAX} seconds"));
        }
        if self.jobs.len() > JOBS_MAX {
            return Err(format!("a lease has at most {JOBS_MAX} jobs"));
        }
        let mut known = HashSet::new();
        for job in &self.jobs {
            if !known.insert(job.number()) {
                return Err(format!("{} is named twice; write both in one", job.words()));
            }
            if job.avoid.len() > AVOIDED_MAX {
                return Err(format!("{} avoids more than {AVOIDED_MAX} targets", job.words()));
            }
        }
        Ok(())
    }
}

impl LeaseTold {
    pub(crate) fn new(sharing: &Sharing, lease: Option<&LeaseWanted>, left: Nanos) -> LeaseTold {
        LeaseTold {
            policy: sharing.policy().to_string(),
            scheduler: sharing.algorithm().to_string(),
            is_leased: lease.is_some(),
            jobs: lease.map_or_else(Vec::new, |lease| lease.jobs.clone()),
            seconds: seconds(left),
        }
    }
}
