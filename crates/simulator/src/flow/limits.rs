//! Limits of holders: a device has no more than a part of its time for all jobs of a holder together.

use super::classes::Start;
use super::network::{Network, Use};
use std::collections::BTreeMap;
use weir_fairshare::{Holder, JobAttributes};

/// The limits, as a resource for each holder and device that a job of the holder used.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    holders: Vec<(Holder, f64)>,
    /// By device and holder: the resource, and its part of the device.
    resources: BTreeMap<(u32, u32), (u32, f64)>,
}

impl Limits {
    /// The limits among the entitlements of these holders: a holder, its reservation, its limit.
    pub(crate) fn new(holders: &[(Holder, Option<f64>, Option<f64>)]) -> Limits {
        let limited = holders.iter().filter_map(|&(holder, _, limit)| Some((holder, limit?)));
        Limits { holders: limited.collect(), resources: BTreeMap::new() }
    }

    /// A flow of a job with a limit uses the limit's time of each of its devices as the devices' own.
    pub(crate) fn add_to(&mut self, start: &mut Start, job: &JobAttributes, network: &mut Network) {
        for (number, &(holder, limit)) in self.holders.iter().enumerate() {
            if !holder.holds(job) {
                continue;
            }
            // A limit of a job's name is that of each job of the name.
            let of = match holder {
                Holder::Job(_) | Holder::Single(_) => self.holders.len() as u32 + start.job,
                Holder::Group(_) | Holder::User(_) => number as u32,
            };
            for part in &start.parts {
                let new = || (network.add_resource(limit * network.capacity(part.resource)), limit);
                let (resource, _) = *self.resources.entry((part.device, of)).or_insert_with(new);
                start.uses.push(Use::new(resource, part.fraction * part.device_seconds));
            }
        }
    }

    /// A device works at another part of its rate: so do the limits on it.
    pub(crate) fn set_capacity(&self, device: u32, capacity: f64, network: &mut Network) {
        let of_device = self.resources.range((device, 0)..(device + 1, 0));
        for &(resource, limit) in of_device.map(|(_, limited)| limited) {
            network.set_capacity(resource, limit * capacity);
        }
    }
}
