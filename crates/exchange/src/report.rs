//! The content of a report, and the figures that a server looks at for it.

use crate::reports::Origin;
use weir_device::{Device, Health, Load};
use weir_fairshare::{device_number, JobId, Nanos, StoreDevice, StoreUses};
use weir_placement::online::{Figures, Placer, Presence};
use weir_placement::{ServerStatistics, TargetId};
use weir_wire::{
    job_attributes, DeviceUse, MachineLoad, PlacedReport, ServerReport, TargetReport, TargetRoom,
};

/// The words of one server to the others about itself.
pub trait Report {
    /// Its place among all reports of the store.
    fn origin(&self) -> Origin;

    /// The server's targets.
    fn targets(&self) -> &[TargetReport];

    /// The bytes that the server placed lately.
    fn placed(&self) -> &[PlacedReport];

    /// The use of the server's machine, from 0 to 1, where it is known.
    fn busy(&self) -> Option<f64> {
        None
    }

    /// Tells the uses of the server's devices.
    fn tell_uses(&self, uses: &mut StoreUses);
}

/// The uses that some reports tell. By ascending server all servers believe the same of a job.
pub fn uses_of<'r, R: Report + 'r>(reports: impl Iterator<Item = &'r R>) -> StoreUses {
    let mut uses = StoreUses::default();
    reports.for_each(|report| report.tell_uses(&mut uses));
    uses
}

/// The demand of each job on each device of a server, whose last device is the metadata service, since the last look.
pub fn measure<'d>(
    devices: impl ExactSizeIterator<Item = &'d mut Device> + 'd,
    now: Nanos,
) -> impl Iterator<Item = (JobId, DeviceUse)> + 'd {
    let metadata = devices.len() - 1;
    devices.enumerate().flat_map(move |(index, device)| {
        let number = device_number(index, metadata);
        let usage =
            move |wanted: Option<f64>| DeviceUse { device: number, wanted: wanted.map(|part| part as f32) };
        device.measure(now).map(move |(job, wanted)| (job, usage(wanted)))
    })
}

/// The report of a target that has this room and achieves these rates.
pub fn report_target(
    (target, room): (TargetId, TargetRoom),
    device: &Device,
    (load, health): (&Load, &Health),
    rates: Vec<(u8, f32)>,
) -> TargetReport {
    TargetReport {
        target,
        room,
        load: load.ratio,
        queued: device.queued() as u64,
        backlog_seconds: load.backlog_seconds as f32,
        rates,
        speed: health.speed as f32,
        slow_since: health.slow_since,
    }
}

/// The bytes that a home server placed lately, as it reports them.
pub fn placements(placer: &Placer) -> Vec<PlacedReport> {
    placer.reported().map(|(target, bytes)| PlacedReport { target, bytes }).collect()
}

/// The figures of a target for a placer. A report may come from anywhere, so its numbers are checked.
pub(crate) fn figures_of(report: &TargetReport) -> Figures {
    let streaming = report.rates.iter().map(|&(_, rate)| f64::from(rate)).fold(0.0, f64::max);
    let finite = |number: f64| if number.is_finite() && number >= 0.0 { number } else { 0.0 };
    Figures {
        capacity_bytes: report.room.capacity_bytes,
        free_bytes: report.room.free_bytes(),
        speed: finite(f64::from(report.speed)),
        is_slow: report.slow_since.is_some(),
        presence: Presence::Alive,
        backlog_seconds: finite(f64::from(report.backlog_seconds)),
        bytes_per_second: finite(streaming),
        placed_bytes: 0.0,
        busy: None,
    }
}

impl Report for ServerReport {
    fn origin(&self) -> Origin {
        let &ServerReport { server, boot, started, sequence, .. } = self;
        Origin { server: server.0, boot, started, sequence }
    }

    fn targets(&self) -> &[TargetReport] {
        &self.targets
    }

    fn placed(&self) -> &[PlacedReport] {
        &self.placed
    }

    fn busy(&self) -> Option<f64> {
        let MachineLoad { processors, memory, network } = self.load;
        let [processors, memory, network] = [processors, memory, network]
            .map(|part| part.filter(|part| part.is_finite()).map(|part| f64::from(part.clamp(0.0, 1.0))));
        ServerStatistics { server: self.server, bytes_per_second: None, processors, memory, network }.busy()
    }

    fn tell_uses(&self, uses: &mut StoreUses) {
        for job in &self.jobs {
            let attributes =
                || job_attributes(job.job, (&job.name, &job.user, &job.group), job.nodes, job.priority);
            for usage in &job.uses {
                let device = StoreDevice { server: self.server.0, number: usage.device };
                uses.tell(device, job.job, attributes, usage.wanted.map(f64::from));
            }
        }
    }
}
