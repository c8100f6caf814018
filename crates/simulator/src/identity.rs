//! Jobs and entitlements of a scenario as the scheduler knows them.

use crate::scenario::{Entitlement, Scenario};
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_fairshare::{
    Entitlements, GroupId, Holder, JobAttributes, JobId, JobName, Priority, Sharing, UserId,
};

/// Numbers of the names of jobs, users and groups: their places in the order of the names.
struct Names<'a>(BTreeMap<&'a str, u64>);

impl<'a> Names<'a> {
    fn of(scenario: &'a Scenario) -> Names<'a> {
        let granted = scenario.entitlements.iter().flat_map(|entitlement| {
            [&entitlement.group, &entitlement.user, &entitlement.job].into_iter().flatten()
        });
        let jobs = scenario.workload.jobs.iter().flat_map(|job| [&job.name, &job.user, &job.group]);
        let mut names: BTreeMap<&str, u64> = granted.chain(jobs).map(|name| (name.as_str(), 0)).collect();
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
    let mut entitlements = Entitlements::default();
    for granted in &scenario.entitlements {
        let holder = holder(granted, &names)?;
        let usual = weir_fairshare::Entitlement::default();
        let entitlement = weir_fairshare::Entitlement {
            weight: granted.weight.unwrap_or(usual.weight),
            reservation: granted.reservation,
            limit: granted.limit,
        };
        let added = entitlements.grant(holder, entitlement);
        added.map_err(|error| format!("entitlement of {}: {error}", name_of(granted)))?;
    }
    let policy = scenario.policy.parse().map_err(|error| format!("{error}"))?;
    let algorithm = scenario.scheduler.as_deref().map(str::parse).transpose();
    let algorithm = algorithm.map_err(|error| format!("{error}"))?;
    Sharing::new(policy, algorithm, Arc::new(entitlements)).map_err(|error| error.to_string())
}

/// The holders of entitlements of a scenario whose sharing was made, and their entitlements.
pub(crate) fn entitled(scenario: &Scenario) -> Vec<(Holder, &Entitlement)> {
    let names = Names::of(scenario);
    let holders = scenario.entitlements.iter().map(|granted| (holder(granted, &names), granted));
    holders.filter_map(|(holder, granted)| Some((holder.ok()?, granted))).collect()
}

fn holder(granted: &Entitlement, names: &Names) -> Result<Holder, String> {
    match (&granted.group, &granted.user, &granted.job) {
        (Some(group), None, None) => Ok(Holder::Group(GroupId(names.number(group)))),
        (None, Some(user), None) => Ok(Holder::User(UserId(names.number(user)))),
        (None, None, Some(job)) => Ok(Holder::Job(JobName(names.number(job)))),
        _ => Err("an entitlement is of one group, one user or one job name; name exactly one".into()),
    }
}

fn name_of(granted: &Entitlement) -> &str {
    granted.group.as_deref().or(granted.user.as_deref()).or(granted.job.as_deref()).unwrap_or("nobody")
}
