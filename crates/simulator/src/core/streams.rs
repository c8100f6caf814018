//! The streams of a run: which step each is at, and which barriers it waits at.

use super::time::nanos;
use crate::workload::{Step, Workload};
use weir_fairshare::Nanos;

/// The streams, and their places in their steps.
#[derive(Debug)]
pub(crate) struct Streams<'a> {
    workload: &'a Workload,
    /// The steps of all streams, stream after stream, by their numbers in the workload.
    order: Vec<u32>,
    states: Vec<StreamState>,
    /// The barriers of each job, by turn.
    barriers: Vec<Vec<Barrier>>,
    done: u64,
}

#[derive(Clone, Debug)]
struct StreamState {
    /// Place of its next step in `order`, and one past its last.
    next: u32,
    end: u32,
    /// Barriers that it came to.
    barriers: u32,
    /// End of its last step.
    since: Nanos,
}

/// A meeting of the streams of a job.
#[derive(Clone, Debug, Default)]
struct Barrier {
    /// Streams that have a barrier of this turn and did not come yet.
    awaited: u32,
    waiting: Vec<u32>,
}

impl<'a> Streams<'a> {
    pub(crate) fn new(workload: &'a Workload) -> Streams<'a> {
        let count = workload.streams.len();
        let mut first = vec![0u32; count + 1];
        for step in &workload.steps {
            first[step.stream as usize + 1] += 1;
        }
        for stream in 0..count {
            first[stream + 1] += first[stream];
        }
        let mut place = first.clone();
        let mut order = vec![0; workload.steps.len()];
        let mut turns = vec![0u32; count];
        let mut barriers: Vec<Vec<Barrier>> = vec![Vec::new(); workload.jobs.len()];
        for (number, step) in workload.steps.iter().enumerate() {
            let stream = step.stream as usize;
            order[place[stream] as usize] = number as u32;
            place[stream] += 1;
            if step.kind == crate::workload::StepKind::Barrier {
                let of_job = &mut barriers[workload.streams[stream].job as usize];
                let turn = turns[stream] as usize;
                turns[stream] += 1;
                if of_job.len() == turn {
                    of_job.push(Barrier::default());
                }
                of_job[turn].awaited += 1;
            }
        }
        let state = |stream: usize| StreamState {
            next: first[stream],
            end: first[stream + 1],
            barriers: 0,
            since: Nanos::ZERO,
        };
        Streams { workload, order, states: (0..count).map(state).collect(), barriers, done: 0 }
    }

    pub(crate) fn count(&self) -> usize {
        self.states.len()
    }

    /// Steps that are done.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    pub(crate) fn job(&self, stream: u32) -> u32 {
        self.workload.streams[stream as usize].job
    }

    pub(crate) fn node(&self, stream: u32) -> u32 {
        self.workload.streams[stream as usize].node
    }

    /// The step that the stream is at, or comes to.
    pub(crate) fn step(&self, stream: u32) -> Option<&'a Step> {
        self.number(stream).map(|number| &self.workload.steps[number as usize])
    }

    /// The place of that step in the workload.
    pub(crate) fn number(&self, stream: u32) -> Option<u32> {
        let state = &self.states[stream as usize];
        (state.next < state.end).then(|| self.order[state.next as usize])
    }

    /// The moment at which the stream may begin its step.
    pub(crate) fn begin(&self, stream: u32, step: &Step) -> Nanos {
        let arrival = self.workload.jobs[self.job(stream) as usize].arrival_seconds;
        let state = &self.states[stream as usize];
        let earliest = nanos(arrival) + nanos(step.not_before_seconds);
        (state.since.max(nanos(arrival)) + nanos(step.after_seconds)).max(earliest)
    }

    /// The stream's step is done.
    pub(crate) fn end(&mut self, stream: u32, now: Nanos) {
        let state = &mut self.states[stream as usize];
        state.next += 1;
        state.since = now;
        self.done += 1;
    }

    /// The stream comes to a barrier. Answers the streams that go on: all of the barrier, if this one is the last.
    pub(crate) fn meet(&mut self, stream: u32) -> Vec<u32> {
        let state = &mut self.states[stream as usize];
        let turn = state.barriers as usize;
        state.barriers += 1;
        let job = self.workload.streams[stream as usize].job as usize;
        let barrier = &mut self.barriers[job][turn];
        barrier.waiting.push(stream);
        barrier.awaited -= 1;
        if barrier.awaited == 0 {
            std::mem::take(&mut barrier.waiting)
        } else {
            Vec::new()
        }
    }
}
