//! The times of the steps of one job.

use super::time::seconds;
use crate::observed::{Observe, StepTime};
use weir_fairshare::Nanos;

/// The steps of the observed job, if one is observed.
#[derive(Debug)]
pub(crate) struct StepTimes {
    job: Option<u32>,
    /// Begin of the step that each stream is at.
    begun: Vec<Nanos>,
    ended: Vec<StepTime>,
}

impl StepTimes {
    /// No step yet, of any of so many streams.
    pub(crate) fn new(observe: Option<Observe>, streams: usize) -> StepTimes {
        let begun = vec![Nanos::ZERO; if observe.is_some() { streams } else { 0 }];
        StepTimes { job: observe.map(|observe| observe.job), begun, ended: Vec::new() }
    }

    /// A stream of a job begins a step.
    pub(crate) fn begin(&mut self, (job, stream): (u32, u32), now: Nanos) {
        if self.job == Some(job) {
            self.begun[stream as usize] = now;
        }
    }

    /// A stream of a job ends a step, which has this place in the workload.
    pub(crate) fn end(&mut self, (job, stream): (u32, u32), step: Option<u32>, now: Nanos) {
        if self.job != Some(job) {
            return;
        }
        let begun = self.begun[stream as usize];
        let time = |step| StepTime {
            step,
            begin_seconds: seconds(begun),
            seconds: seconds(now.saturating_since(begun)),
        };
        self.ended.extend(step.map(time));
    }

    /// The steps that ended.
    pub(crate) fn into_ended(self) -> Vec<StepTime> {
        self.ended
    }
}
