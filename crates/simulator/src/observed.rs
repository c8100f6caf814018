//! Windows of a simulated store, as its servers would tell them, and the times of one job's steps.
//!
//! Windows have the counters of `weir_device::Activity`, and the counts that a server keeps of a job at a device.

use serde::{Deserialize, Serialize};
use weir_device::{Statistic, Statistics};

/// Samples of a window, as in `crates/core/src/accounts/windows.rs`.
pub(crate) const SAMPLES: u64 = 10;
/// Most pairs of a window and a device in a run: each takes some 400 bytes.
pub(crate) const LINES_MAX: f64 = 1e6;

/// The job of which windows and steps are kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observe {
    /// The job.
    pub job: u32,
    /// Length of a window.
    pub window_seconds: f64,
}

/// The windows of a run, and the steps of the observed job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Windows without a gap; the first begins with the run, and the last ends with it or after it.
    pub windows: Vec<Window>,
    /// Steps of the job in the order of their ends; steps that did not end are left out.
    pub steps: Vec<StepTime>,
}

/// A stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The devices, server by server; the metadata service of a server comes after its targets.
    pub devices: Vec<DeviceWindow>,
}

/// A device in a window, and the work of the observed job there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceWindow {
    /// Its server.
    pub server: u32,
    /// Its number on that server; absent for the metadata service.
    pub index: Option<u32>,
    /// Counters of the device.
    pub counters: Counters,
    /// Work of the job.
    pub job: JobWork,
}

/// The counters of a device. Times are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Requests that were completed.
    pub reads: Counter,
    /// Requests that were completed.
    pub writes: Counter,
    /// Sectors of 512 bytes that completed requests read.
    pub read_sectors: Counter,
    /// Sectors of 512 bytes that completed requests wrote.
    pub written_sectors: Counter,
    /// Time between the arrivals of completed reads and their ends.
    pub read_milliseconds: Counter,
    /// Time between the arrivals of completed writes and their ends.
    pub write_milliseconds: Counter,
    /// Requests that were queued or in service when a sample was taken.
    pub in_progress: Counter,
    /// Time that the device worked.
    pub busy_milliseconds: Counter,
    /// Time in progress, summed over all requests.
    pub queued_milliseconds: Counter,
}

/// A counter, reduced over the samples of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counter {
    /// Sum over the samples.
    pub sum: f64,
    /// Mean over the samples.
    pub mean: f64,
    /// Standard deviation of the samples.
    pub deviation: f64,
}

/// The work of a job at a device in a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobWork {
    /// Reads that were completed.
    pub reads: u64,
    /// Writes that were completed.
    pub writes: u64,
    /// Bytes of these reads.
    pub read_bytes: u64,
    /// Bytes of these writes.
    pub written_bytes: u64,
    /// Time between the arrivals of the completed requests and their ends, metadata operations among them.
    pub request_seconds: f64,
    /// Device time that the job received.
    pub device_seconds: f64,
    /// Device time that others received while the job had requests queued, by ascending job.
    pub waited_for: Vec<WaitedFor>,
}

/// The wait of a job for another one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitedFor {
    /// The other job.
    pub job: u32,
    /// Device time that it received meanwhile.
    pub seconds: f64,
}

/// The time of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// Its place among the steps of the workload.
    pub step: u32,
    /// Its begin.
    pub begin_seconds: f64,
    /// Its length.
    pub seconds: f64,
}

impl From<Statistic> for Counter {
    fn from(Statistic { sum, mean, deviation }: Statistic) -> Counter {
        Counter { sum, mean, deviation }
    }
}

impl From<Statistics> for Counters {
    fn from(statistics: Statistics) -> Counters {
        Counters {
            reads: statistics.reads.into(),
            writes: statistics.writes.into(),
            read_sectors: statistics.read_sectors.into(),
            written_sectors: statistics.written_sectors.into(),
            read_milliseconds: statistics.read_milliseconds.into(),
            write_milliseconds: statistics.write_milliseconds.into(),
            in_progress: statistics.in_progress.into(),
            busy_milliseconds: statistics.busy_milliseconds.into(),
            queued_milliseconds: statistics.queued_milliseconds.into(),
        }
    }
}
