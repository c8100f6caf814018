//! The terms of a lease of the sharing: another policy, and weights and limits of jobs, for a few seconds.

use crate::clock::seconds;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use weir_fairshare::{Grant, Nanos, Policy, Sharing};

/// Longest lease: a holder that died is forgotten soon, and one that lives renews its lease meanwhile.
const SECONDS_MAX: f64 = 60.0;
/// Most jobs of a lease: each costs an entry that schedulers look up for every job that begins.
const JOBS_MAX: usize = 64;

/// The share of all jobs of a name, beside that of the site.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct LeasedJob {
    job: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<f64>,
}

/// A lease that is to be in force.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseWanted {
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    jobs: Vec<LeasedJob>,
    seconds: f64,
}

/// The lease in force, and the sharing that it makes.
#[derive(Debug, Serialize)]
pub(crate) struct LeaseTold {
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
    pub(crate) fn policy(&self) -> Result<Option<Policy>, String> {
        let parsed = self.policy.as_deref().map(str::parse::<Policy>).transpose();
        parsed.map_err(|error| error.to_string())
    }

    /// The shares of jobs, as a site writes them.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        let grant = |each: &LeasedJob| Grant {
            job: Some(each.job.clone()),
            weight: each.weight,
            limit: each.limit,
            ..Grant::default()
        };
        self.jobs.iter().map(grant).collect()
    }

    /// Checks the length of the lease and the number of its jobs.
    ///
    /// # Errors
    /// The fault, in a sentence.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(0.0..=SECONDS_MAX).contains(&self.seconds) {
            return Err(format!("a lease is of 0 to {SECONDS_MAX} seconds"));
        }
        if self.jobs.len() > JOBS_MAX {
            return Err(format!("a lease has at most {JOBS_MAX} jobs"));
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
