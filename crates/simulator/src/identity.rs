//! Jobs and entitlements of a scenario as the scheduler knows them.

use crate::scenario::Scenario;
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_fairshare::{
    Entitlements, Grant, GroupId, Holder, JobAttributes, JobId, JobName, Priority, Sharing, UserId,
};

/// Numbers of the names of jobs, users and groups: their places in the order of the names.
struct Names<'a>(BTreeMap<&'a str, u64>);

impl<'a> Names<'a> {
    fn of(scenario: &'a Scenario) -> Names<'a> {
        let granted = scenario.entitlements.iter().flat_map(Grant::names);
        let jobs = scenario.workload.jobs.iter();
        let jobs = jobs.flat_map(|job| [&job.name, &job.user, &job.group].map(String::as_str));
        let mut names: BTreeMap<&str, u64> = granted.chain(jobs).map(|name| (name, 0)).collect();
        names.values_mut().zip(0..).for_each(|(number, place)| *number = place);
        Names(names)
    }

    fn number(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(u64::MAX)
    }
}

/// The jobs of a workload, each by its number there.
pub(crate) fn attributes(scenario: &Scenario) -> Vec<JobAttributes> {
    let names = Names::of(scenario);
    let Workload { jobs, .. } = &scenario.workload;
    let attributes = |(number, job): (u64, &crate::workload::Job)| JobAttributes {
        job: JobId(number),
        name: JobName(names.number(&job.name)),
        user: UserId(names.number(&job.user)),
        group: GroupId(names.number(&job.group)),
        nodes: job.nodes,
        priority: Priority(job.priority),
    };
    (0..).zip(jobs).map(attributes).collect()
}

/// The sharing of the scenario's targets.
///
/// # Errors
/// The reason why policy, scheduler and entitlements make none.
pub(crate) fn sharing(scenario: &Scenario) -> Result<Sharing, String> {
    let names = Names::of(scenario);
    let entitlements = Entitlements::granted(&scenario.entitlements, |name| names.number(name))?;
    let policy = scenario.policy.parse().map_err(|error| format!("{error}"))?;
    let algorithm = scenario.scheduler.as_deref().map(str::parse).transpose();
    let algorithm = algorithm.map_err(|error| format!("{error}"))?;
    Sharing::new(policy, algorithm, Arc::new(entitlements)).map_err(|error| error.to_string())
}

/// The holders of entitlements of a scenario whose sharing was made, and their entitlements.
pub(crate) fn entitled(scenario: &Scenario) -> Vec<(Holder, &Grant)> {
    let names = Names::of(scenario);
    let holder = |grant: &Grant| grant.holder(|name| names.number(name));
    scenario.entitlements.iter().filter_map(|grant| Some((holder(grant).ok()?, grant))).collect()
}
