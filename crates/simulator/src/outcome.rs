//! The answer of a run: what each job, target and server did.

use crate::observed::Observed;
use serde::{Deserialize, Serialize};

/// A simulated run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Moment of the last event.
    pub seconds: f64,
    /// Whether all work was done; false where the run was stopped before.
    pub is_complete: bool,
    /// Events that the engine took.
    pub events: u64,
    /// Interval of the series: that of the scenario, doubled until a series has at most [`Outcome::INTERVALS_MAX`].
    pub sample_seconds: f64,
    /// The jobs, in the order of the workload.
    pub jobs: Vec<JobOutcome>,
    /// The targets, server by server.
    pub targets: Vec<TargetOutcome>,
    /// The servers.
    pub servers: Vec<ServerOutcome>,
    /// Greatest use of a target's capacity by the workload, divided by the mean use: Tarazu's equation 4; 1 where nothing was
    /// written.
    pub target_cost: f64,
    /// The job that the scenario observes; absent where it observes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
}

impl Outcome {
    /// Most intervals of a series. A caller does not know how long a run takes, and 3,600 targets with one value for each
    /// second of a day would take 1.2 GB.
    pub const INTERVALS_MAX: usize = 1024;
}

/// A job's part of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobOutcome {
    /// Begin of its first step.
    pub started_seconds: f64,
    /// End of its last step; the end of the run, if steps are left.
    pub ended_seconds: f64,
    /// Whether all its steps were done.
    pub is_complete: bool,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time in which any of its streams was in a read.
    pub reading_seconds: f64,
    /// Time in which any of its streams was in a write.
    pub writing_seconds: f64,
    /// Time in which any of its streams was in any step but a pause or a barrier.
    pub busy_seconds: f64,
    /// Device time that targets spent on it.
    pub device_seconds: f64,
    /// Device time that the policy owed it: at each target the job's share among the jobs that then wanted the target, over
    /// time, as far as the job could use it; what it could not use was owed to the others there. 0 under `fifo`, which owes
    /// nothing.
    pub owed_seconds: f64,
    /// Files that could not be made, because no target was left for them.
    pub refused_files: u64,
    /// Bytes of writes that were refused, because their targets were full and no other place was left for them.
    #[serde(default)]
    pub refused_bytes: u64,
    /// Device time received in each interval of the series.
    pub device_series: Vec<f32>,
}

/// A target's part of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetOutcome {
    /// Its server.
    pub server: u32,
    /// Its number on that server.
    pub index: u32,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// Bytes in use at the end.
    pub used_bytes: u64,
    /// Stripes of files that it was given.
    pub stripes: u64,
    /// Time in which it worked.
    pub busy_seconds: f64,
    /// Part of each interval of the series in which it worked.
    pub busy_series: Vec<f32>,
}

/// A server's part of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerOutcome {
    /// Bytes that came to it.
    pub received_bytes: u64,
    /// Bytes that it sent.
    pub sent_bytes: u64,
    /// Part of its link's rate in the busier direction that was used in each interval of the series.
    pub link_series: Vec<f32>,
    /// Part of its processor that was used in each interval of the series; empty where the processor has no bound.
    pub processor_series: Vec<f32>,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// The virtual time.
    pub seconds: f64,
    /// Events taken.
    pub events: u64,
    /// Steps done, of all.
    pub steps_done: u64,
    /// Steps of the workload.
    pub steps: u64,
}
