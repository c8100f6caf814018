//! The report that a server sends to each peer at the end of an interval.

use std::rc::Rc;
use weir_fairshare::JobId;
use weir_placement::online::Figures;
use weir_placement::TargetId;

/// One server's report.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) server: u16,
    /// The number of the server's start.
    pub(super) boot: u32,
    pub(super) sequence: u64,
    /// Demands of jobs, by ascending job and device; the same place as in the report before where they are the same.
    pub(super) uses: Rc<Vec<DeviceUse>>,
    pub(super) targets: Vec<TargetReport>,
    /// Bytes that the server placed on targets lately.
    pub(super) placed: Vec<(TargetId, f32)>,
}

/// A job's use of a device, as in a report: single precision goes over the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DeviceUse {
    pub(super) job: JobId,
    pub(super) device: u8,
    pub(super) wanted: Option<f32>,
}

/// A target's part of a report.
#[derive(Debug)]
pub(super) struct TargetReport {
    pub(super) target: TargetId,
    pub(super) figures: Figures,
    pub(super) rates: Vec<(u8, f32)>,
}
