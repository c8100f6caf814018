//! The shares that a policy owes jobs, for programs that judge or change a sharing.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use weir_fairshare::{Entitlements, Grant, JobAttributes, JobGrant, JobId, Policy, Sharing};
use weir_wire::{job_attributes, name_number};

/// The part of a device's time that each job is owed while exactly these jobs want more than theirs.
///
/// A job is (name, user, group, nodes, priority). `grants` are entitlements as JSON, in the form of the `[[share]]` tables, and
/// `weights` are factors of a lease beside them, one for each job. Raises ValueError where the policy owes nobody anything, where
/// policy and grants do not go together, and where there are not as many weights as jobs.
#[pyfunction]
pub(crate) fn owed_shares(
    policy: &str,
    jobs: Vec<(String, String, String, u32, u32)>,
    grants: &str,
    weights: Vec<f64>,
) -> PyResult<Vec<f64>> {
    let wrong = |error: String| PyValueError::new_err(error);
    let policy = policy.parse::<Policy>().map_err(|error| wrong(error.to_string()))?;
    if policy == Policy::Fifo {
        return Err(wrong("fifo owes nobody anything".to_owned()));
    }
    if weights.len() != jobs.len() {
        return Err(wrong(format!("{} weights for {} jobs", weights.len(), jobs.len())));
    }
    let grants = serde_json::from_str::<Vec<Grant>>(grants).map_err(|error| wrong(error.to_string()))?;
    let attributes = |(number, job): (u64, &(String, String, String, u32, u32))| {
        job_attributes(JobId(number), (&job.0, &job.1, &job.2), job.3, job.4)
    };
    let attributes: Vec<JobAttributes> = (0..).zip(&jobs).map(attributes).collect();
    let further = attributes.iter().zip(&weights).filter(|(_, &weight)| weight != 1.0);
    let further = further.map(|(job, &weight)| JobGrant {
        job: job.job,
        name: job.name,
        weight: Some(weight),
        limit: None,
    });
    let entitlements = Entitlements::granted(&grants, name_number).map_err(wrong)?;
    let entitlements = entitlements
        .with(&further.collect::<Vec<JobGrant>>())
        .map_err(|(place, error)| wrong(format!("weight {place}: {error}")))?;
    let sharing =
        Sharing::new(policy, None, Arc::new(entitlements)).map_err(|error| wrong(error.to_string()))?;
    let whole: Vec<(&JobAttributes, &[f64])> = attributes.iter().map(|job| (job, &[][..])).collect();
    Ok(sharing.owed(&whole))
}
