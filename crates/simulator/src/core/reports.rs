//! The report of a server to its peers.

use super::machines::Machines;
use std::rc::Rc;
use weir_exchange::{Origin, Report};
use weir_fairshare::{JobAttributes, JobId, StoreDevice, StoreUses};
use weir_wire::{DeviceUse, PlacedReport, TargetReport};

/// Demands of jobs on a server's devices, by ascending job and device.
pub(crate) type Uses = Vec<(JobId, DeviceUse)>;

/// One server's report.
///
/// It is the product's, but for the names of jobs, which the scenario has: a run has millions of reports. Copies share what they tell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) server: u16,
    /// The number of the server's start. Starts of a simulated server are numbered in their order.
    pub(crate) boot: u32,
    pub(crate) sequence: u64,
    /// The scenario's jobs, by their numbers.
    pub(crate) jobs: Rc<[JobAttributes]>,
    /// The same place as in the report before where they are the same.
    pub(crate) uses: Rc<Uses>,
    pub(crate) targets: Rc<[TargetReport]>,
    pub(crate) placed: Rc<[PlacedReport]>,
}

impl Told {
    /// A server that tells the room on its targets, and that all of them work at the usual speed.
    pub(crate) fn of_room(machines: &Machines, server: u16, sequence: u64) -> Told {
        let targets = machines.rooms(server).map(|(target, room)| TargetReport::idle(target, room)).collect();
        Told { server, sequence, targets, ..Told::default() }
    }
}

impl Report for Told {
    fn origin(&self) -> Origin {
        let (server, boot) = (self.server, u64::from(self.boot));
        Origin { server, boot, started: boot, sequence: self.sequence }
    }

    fn targets(&self) -> &[TargetReport] {
        &self.targets
    }

    fn placed(&self) -> &[PlacedReport] {
        &self.placed
    }

    fn tell_uses(&self, uses: &mut StoreUses) {
        for (job, usage) in &*self.uses {
            let device = StoreDevice { server: self.server, number: usage.device };
            let attributes = || self.jobs[job.0 as usize];
            uses.tell(device, *job, attributes, usage.wanted.map(f64::from));
        }
    }
}
