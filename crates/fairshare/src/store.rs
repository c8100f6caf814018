//! The uses of the devices of all servers, brought together for one division of the store.

use std::collections::HashMap;

use crate::division::{Presence, Settled, Spending, Use};
use crate::job::{JobAttributes, JobId};
use crate::schedulers::Portions;
use crate::sharing::Sharing;

/// The number of the metadata service among a server's devices; targets have their index.
pub const METADATA_DEVICE: u8 = u8::MAX;

/// The number of device `index` of a server; `metadata` is the index of its last device, the metadata service.
pub fn device_number(index: usize, metadata: usize) -> u8 {
    if index == metadata {
        METADATA_DEVICE
    } else {
        index as u8
    }
}

/// A device of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoreDevice {
    /// Its server's number.
    pub server: u16,
    /// Its number on that server.
    pub number: u8,
}

impl StoreDevice {
    /// Whether it is the metadata service of its server. Targets and metadata are divided apart: time of the one is no
    /// substitute for time of the other.
    fn is_metadata(self) -> bool {
        self.number == METADATA_DEVICE
    }
}

/// The uses of a store's devices by jobs, as the servers report them.
#[derive(Clone, Debug, Default)]
pub struct StoreUses {
    targets: Kind,
    metadata: Kind,
}

/// The uses of the devices of one kind.
#[derive(Clone, Debug, Default)]
struct Kind {
    devices: Vec<StoreDevice>,
    numbers: HashMap<StoreDevice, usize>,
    presences: Vec<Presence>,
    places: HashMap<JobId, usize>,
}

impl StoreUses {
    /// A job uses a device and wants a fraction of its time, or (`None`) all that it can get.
    ///
    /// Where servers know different things of a job, the `attributes` count that come first: told by ascending server, all
    /// servers believe the same.
    pub fn tell(
        &mut self,
        device: StoreDevice,
        job: JobId,
        attributes: impl FnOnce() -> JobAttributes,
        wanted: Option<f64>,
    ) {
        let Kind { devices, numbers, presences, places } =
            if device.is_metadata() { &mut self.metadata } else { &mut self.targets };
        let number = *numbers.entry(device).or_insert_with(|| {
            devices.push(device);
            devices.len() - 1
        });
        let place = *places.entry(job).or_insert_with(|| {
            presences.push(Presence { attributes: attributes(), uses: Vec::new() });
            presences.len() - 1
        });
        let wanted = wanted.map(|wanted| wanted.clamp(0.0, 1.0));
        presences[place].uses.push(Use { device: number, wanted });
    }

    /// The portions of the devices of server `own`, by their numbers.
    pub fn portions(mut self, sharing: &Sharing, own: u16) -> HashMap<u8, Portions> {
        for kind in [&mut self.targets, &mut self.metadata] {
            if kind.devices.iter().all(|device| device.server != own) {
                *kind = Kind::default();
            }
        }
        self.divide(sharing).portions(own)
    }

    /// Divides the devices of all servers.
    pub fn divide(self, sharing: &Sharing) -> StoreDivision {
        let divide = |Kind { devices, presences, .. }: Kind| {
            let spending = Settled::of(sharing, &presences, devices.len()).spending();
            (devices, spending)
        };
        StoreDivision { kinds: [self.targets, self.metadata].map(divide) }
    }
}

/// The division of a store among its jobs. It is the same for all servers, and has the portions of each of them.
#[derive(Clone, Debug)]
pub struct StoreDivision {
    /// The targets, and the metadata services.
    kinds: [(Vec<StoreDevice>, Spending); 2],
}

impl StoreDivision {
    /// The portions of the devices of a server, by their numbers.
    pub fn portions(&self, server: u16) -> HashMap<u8, Portions> {
        let mut by_number = HashMap::new();
        for (devices, spending) in &self.kinds {
            let places = || (0..devices.len()).filter(|&place| devices[place].server == server);
            let numbers = places().map(|place| devices[place].number);
            by_number.extend(numbers.zip(spending.portions_on(places())));
        }
        by_number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portions(told: &[(u16, u8, u64, u32)], own: u16) -> HashMap<u8, Portions> {
        let mut uses = StoreUses::default();
        for &(server, number, job, nodes) in told {
            let device = StoreDevice { server, number };
            uses.tell(device, JobId(job), || JobAttributes::numbered(job, 1, 1, nodes, 1), None);
        }
        uses.portions(&Sharing::of("size-fair".parse().unwrap()), own)
    }

    /// A job on a target of each of two servers spends half of its weight on each (ThemisIO, figure 5); its use of
    /// their metadata takes nothing from that.
    #[test]
    fn targets_are_divided_over_servers_and_metadata_apart() {
        let told = [(0, 0, 1, 16), (0, 0, 2, 8), (0, METADATA_DEVICE, 1, 16), (1, 0, 1, 16), (1, 0, 3, 8)];
        let divided = portions(&told, 0);
        assert_eq!(divided.len(), 2);
        assert!((divided[&0][&JobId(1)][0] - 0.5).abs() < 0.01);
        assert_eq!(divided[&0][&JobId(2)], [1.0]);
        assert_eq!(divided[&METADATA_DEVICE], HashMap::from([(JobId(1), vec![1.0])]));
        assert!(portions(&told, 2).is_empty());
    }

    #[test]
    fn of_what_servers_know_of_a_job_the_first_counts() {
        let first = portions(&[(0, 0, 1, 16), (0, 0, 2, 8), (1, 0, 1, 1), (1, 0, 3, 8)], 0);
        let all = portions(&[(0, 0, 1, 16), (0, 0, 2, 8), (1, 0, 1, 16), (1, 0, 3, 8)], 0);
        assert_eq!(first, all);
    }
}
