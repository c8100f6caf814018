//! Stride scheduling (Waldspurger and Weihl, MIT/LCS/TM-528, 1995): a scheduler of one's own for the simulator.
//!
//! Each job has a pass. The job with the least pass is served, and its pass grows by the cost of its request over its share.
//! `docs/extend/scheduler.md` walks through this file; `tests/pair.rs` runs it.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use weir_fairshare::{Choice, Chooser, JobId, Nanos, Waiting};

/// Least share of a job, so that a job which is owed nothing has a stride.
const SHARE_MIN: f64 = 1e-9;

/// The passes of the jobs of one device.
#[derive(Clone, Debug, Default)]
pub struct Stride {
    passes: HashMap<JobId, f64>,
    /// The pass of the job that was served last: that of a job which comes now.
    present: f64,
}

impl Chooser for Stride {
    fn choose(&mut self, waiting: &[Waiting], _now: Nanos) -> Choice {
        // A job that was away has no credit for that time.
        let present = self.present;
        let pass =
            |job: &Waiting| self.passes.get(&job.attributes.job).map_or(present, |pass| pass.max(present));
        let passes: Vec<f64> = waiting.iter().map(pass).collect();
        let place =
            (0..passes.len()).min_by(|&one, &other| passes[one].total_cmp(&passes[other])).unwrap_or(0);
        let job = &waiting[place];
        self.present = passes[place];
        let stride = job.cost.0 as f64 / job.owed.max(SHARE_MIN);
        self.passes.insert(job.attributes.job, passes[place] + stride);
        Choice::Serve(place)
    }
}
