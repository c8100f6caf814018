//! The report that a server sends to each peer at the end of an interval.

use std::rc::Rc;
use weir_exchange::{Origin, Report};
use weir_fairshare::{JobAttributes, JobId, StoreDevice, StoreUses};
use weir_wire::{DeviceUse, PlacedReport, TargetReport};

/// Demands of jobs on a server's devices, by ascending job and device.
pub(super) type Uses = Vec<(JobId, DeviceUse)>;

/// One server's report.
///
/// It is the product's, but for the names of jobs, which the scenario has: a run has millions of reports.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) server: u16,
    /// The number of the server's start. Starts of a simulated server are numbered in their order.
    pub(super) boot: u32,
    pub(super) sequence: u64,
    /// The scenario's jobs, by their numbers.
    pub(super) jobs: Rc<[JobAttributes]>,
    /// The same place as in the report before where they are the same.
    pub(super) uses: Rc<Uses>,
    pub(super) targets: Vec<TargetReport>,
    pub(super) placed: Vec<PlacedReport>,
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

    fn busy(&self) -> Option<f64> {
        None
    }

    fn tell_uses(&self, uses: &mut StoreUses) {
        for (job, usage) in &*self.uses {
            let device = StoreDevice { server: self.server, number: usage.device };
            let attributes = || self.jobs[job.0 as usize];
            uses.tell(device, *job, attributes, usage.wanted.map(f64::from));
        }
    }
}
