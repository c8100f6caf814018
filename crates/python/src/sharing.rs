//! The shares that a policy owes jobs, for programs that judge or change a sharing.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use weir_fairshare::{
    Entitlements, Grant, GroupId, JobAttributes, JobId, JobName, Policy, Priority, Sharing, UserId,
};
use weir_wire::name_number;

/// The part of a device's time that each job is owed while exactly these jobs want more than theirs.
///
/// A job is (name, user, group, nodes, priority), and no two are of one name and user. `grants` are entitlements as JSON, in
/// the form of the `[[share]]` tables, and `further` are those of a lease beside them. Raises ValueError where the policy owes nobody anything, or where policy and grants
/// do not go together.
#[pyfunction]
pub(crate) fn owed_shares(
    policy: &str,
    jobs: Vec<(String, String, String, u32, u32)>,
    grants: &str,
    further: &str,
) -> PyResult<Vec<f64>> {
    let wrong = |error: String| PyValueError::new_err(error);
    let policy = policy.parse::<Policy>().map_err(|error| wrong(error.to_string()))?;
    if policy == Policy::Fifo {
        return Err(wrong("fifo owes nobody anything".to_owned()));
    }
    let read =
        |text: &str| serde_json::from_str::<Vec<Grant>>(text).map_err(|error| wrong(error.to_string()));
    let entitlements = Entitlements::granted(&read(grants)?, name_number).map_err(wrong)?;
    let entitlements = entitlements.with(&read(further)?, name_number).map_err(wrong)?;
    let sharing =
        Sharing::new(policy, None, Arc::new(entitlements)).map_err(|error| wrong(error.to_string()))?;
    let attributes = |(number, job): (u64, &(String, String, String, u32, u32))| JobAttributes {
        job: JobId(number),
        name: JobName(name_number(&job.0)),
        user: UserId(name_number(&job.1)),
        group: GroupId(name_number(&job.2)),
        nodes: job.3,
        priority: Priority(job.4),
    };
    let attributes: Vec<JobAttributes> = (0..).zip(&jobs).map(attributes).collect();
    let whole: Vec<(&JobAttributes, &[f64])> = attributes.iter().map(|job| (job, &[][..])).collect();
    Ok(sharing.owed(&whole))
}
