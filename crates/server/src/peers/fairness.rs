//! Fairness over servers: the portions of a server's own devices, from the reports of all servers.

use std::collections::HashMap;
use weir_fairshare::{Portions, Sharing, StoreDevice, StoreUses};
use weir_placement::ServerId;
use weir_wire::{JobReport, ServerReport};

/// The portions of `own`'s devices, by their numbers, as all the reports (its own among them) divide the
/// devices of the store.
pub(crate) fn portions(sharing: &Sharing, own: ServerId, reports: &[&ServerReport]) -> HashMap<u8, Portions> {
    let mut reports = reports.to_vec();
    reports.sort_by_key(|report| report.server);
    let mut uses = StoreUses::default();
    for report in reports {
        for job in &report.jobs {
            for usage in &job.uses {
                let device = StoreDevice { server: report.server.0, number: usage.device };
                let wanted = usage.wanted.map(f64::from);
                uses.tell(device, job.job, || attributes(job), wanted);
            }
        }
    }
    uses.portions(sharing, own.0)
}

fn attributes(job: &JobReport) -> weir_fairshare::JobAttributes {
    crate::accounts::jobs::attributes_of(job.job, &job.name, &job.user, &job.group, job.nodes, job.priority)
}

#[cfg(test)]
mod tests;
