//! Fairness over servers: from what all servers said, the portions of a server's own devices.

use std::collections::HashMap;
use weir_fairshare::{divide, Portions, Presence, Sharing, Use};
use weir_placement::ServerId;
use weir_wire::{JobReport, ServerReport, METADATA_DEVICE};

/// The portions of `own`'s devices, by their numbers, as all the reports (its own among them) divide the
/// devices of the store. Targets and metadata are divided apart: time of the one is no substitute for time
/// of the other.
pub(crate) fn portions(sharing: &Sharing, own: ServerId, reports: &[&ServerReport]) -> HashMap<u8, Portions> {
    let mut by_device = HashMap::new();
    for is_metadata in [false, true] {
        by_device.extend(portions_of_kind(sharing, own, reports, is_metadata));
    }
    by_device
}

fn portions_of_kind(
    sharing: &Sharing,
    own: ServerId,
    reports: &[&ServerReport],
    is_metadata: bool,
) -> Vec<(u8, Portions)> {
    let mut reports = reports.to_vec();
    // Where servers know different things of a job, all believe the same one.
    reports.sort_by_key(|report| report.server);
    let mut devices: Vec<(ServerId, u8)> = Vec::new();
    let mut numbers: HashMap<(ServerId, u8), usize> = HashMap::new();
    let mut presences: Vec<Presence> = Vec::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    for report in reports {
        for job in &report.jobs {
            for usage in job.uses.iter().filter(|usage| (usage.device == METADATA_DEVICE) == is_metadata) {
                let device = (report.server, usage.device);
                let number = *numbers.entry(device).or_insert_with(|| {
                    devices.push(device);
                    devices.len() - 1
                });
                let place = *places.entry(job.job.0).or_insert_with(|| {
                    presences.push(Presence { attributes: attributes(job), uses: Vec::new() });
                    presences.len() - 1
                });
                let wanted = usage.wanted.map(|wanted| f64::from(wanted).clamp(0.0, 1.0));
                presences[place].uses.push(Use { device: number, wanted });
            }
        }
    }
    let division = divide(sharing, &presences, devices.len());
    let of_own = devices.into_iter().zip(division.portions).filter(|((server, _), _)| *server == own);
    of_own.map(|((_, device), portions)| (device, portions)).collect()
}

/// How reports number the device `index` of a server whose last one, `metadata`, is its metadata service.
pub(crate) fn device_number(index: usize, metadata: usize) -> u8 {
    if index == metadata {
        METADATA_DEVICE
    } else {
        index as u8
    }
}

fn attributes(job: &JobReport) -> weir_fairshare::JobAttributes {
    crate::jobs::attributes_of(job.job, &job.name, &job.user, &job.group, job.nodes, job.priority)
}

#[cfg(test)]
mod tests;
