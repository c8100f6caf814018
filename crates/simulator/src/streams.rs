//! The streams of a workload: the order of their steps, their pauses, and the barriers at which they meet.

use crate::workload::{Step, StepKind, Workload};

/// The progress of every stream.
pub(crate) struct Streams {
    /// Numbers of steps, those of one stream side by side and in their order.
    order: Vec<u32>,
    /// Where the steps of each stream begin in `order`; one more than there are streams.
    first: Vec<u32>,
    /// Steps that each stream has begun.
    begun: Vec<u32>,
    /// Barriers that each stream has come to.
    met: Vec<u32>,
    /// By job, by the number of the barrier: streams that are yet to come to it, and those that wait there.
    barriers: Vec<Vec<Barrier>>,
    /// Streams of each job that have steps left.
    left: Vec<u32>,
    steps_done: u64,
}

#[derive(Clone, Debug, Default)]
struct Barrier {
    awaited: u32,
    waiting: Vec<u32>,
}

/// A stream's next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turn {
    /// The number of the step.
    pub(crate) step: u32,
    /// The moment at which it begins, in seconds.
    pub(crate) at_seconds: f64,
}

impl Streams {
    /// All streams before their first step.
    pub(crate) fn new(workload: &Workload) -> Streams {
        let mut first = vec![0u32; workload.streams.len() + 1];
        for step in &workload.steps {
            first[step.stream as usize + 1] += 1;
        }
        for stream in 1..first.len() {
            first[stream] += first[stream - 1];
        }
        let mut next = first.clone();
        let mut order = vec![0; workload.steps.len()];
        let mut met = vec![0u32; workload.streams.len()];
        let mut barriers = vec![Vec::new(); workload.jobs.len()];
        for (number, step) in workload.steps.iter().enumerate() {
            let stream = step.stream as usize;
            order[next[stream] as usize] = number as u32;
            next[stream] += 1;
            if step.kind == StepKind::Barrier {
                let of_job: &mut Vec<Barrier> = &mut barriers[workload.streams[stream].job as usize];
                let turn = met[stream] as usize;
                if of_job.len() == turn {
                    of_job.push(Barrier::default());
                }
                of_job[turn].awaited += 1;
                met[stream] += 1;
            }
        }
        met.fill(0);
        let mut left = vec![0; workload.jobs.len()];
        for (stream, bounds) in workload.streams.iter().zip(first.windows(2)) {
            left[stream.job as usize] += u32::from(bounds[0] < bounds[1]);
        }
        Streams { order, begun: vec![0; met.len()], first, met, barriers, left, steps_done: 0 }
    }

    /// The next step of a stream that ended its last one, or its job's start, at `now_seconds`; none where all are done.
    #[inline]
    pub(crate) fn next(&mut self, workload: &Workload, stream: u32, now_seconds: f64) -> Option<Turn> {
        let place = self.first[stream as usize] + self.begun[stream as usize];
        if place == self.first[stream as usize + 1] {
            return None;
        }
        self.begun[stream as usize] += 1;
        let step = self.order[place as usize];
        let Step { after_seconds, not_before_seconds, .. } = workload.steps[step as usize];
        let job = &workload.jobs[workload.streams[stream as usize].job as usize];
        let earliest = job.arrival_seconds + not_before_seconds;
        Some(Turn { step, at_seconds: earliest.max(now_seconds + after_seconds) })
    }

    /// A stream has ended a step. Answers whether that was the last one of its job.
    #[inline]
    pub(crate) fn end(&mut self, workload: &Workload, stream: u32) -> bool {
        self.steps_done += 1;
        let index = stream as usize;
        if self.first[index] + self.begun[index] < self.first[index + 1] {
            return false;
        }
        let left = &mut self.left[workload.streams[index].job as usize];
        *left -= 1;
        *left == 0
    }

    /// A stream has come to its next barrier. Answers the streams that go on: none before the last one has come.
    pub(crate) fn meet(&mut self, workload: &Workload, stream: u32) -> Vec<u32> {
        let turn = self.met[stream as usize] as usize;
        self.met[stream as usize] += 1;
        let job = workload.streams[stream as usize].job as usize;
        let barrier = &mut self.barriers[job][turn];
        barrier.waiting.push(stream);
        barrier.awaited -= 1;
        if barrier.awaited > 0 {
            return Vec::new();
        }
        std::mem::take(&mut barrier.waiting)
    }

    /// Steps that were ended.
    pub(crate) fn steps_done(&self) -> u64 {
        self.steps_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Job, Stream};

    fn step(stream: u32, kind: StepKind, after_seconds: f64, not_before_seconds: f64) -> Step {
        Step {
            stream,
            kind,
            after_seconds,
            not_before_seconds,
            file: 0,
            offset: 0,
            bytes: 0,
            request_bytes: 0,
            depth: 0,
        }
    }

    fn workload(steps: Vec<Step>) -> Workload {
        let job = Job {
            name: "a".into(),
            user: "u".into(),
            group: "g".into(),
            nodes: 1,
            priority: 1,
            arrival_seconds: 10.0,
        };
        let streams = vec![Stream { job: 0, node: 0 }; 2];
        Workload { jobs: vec![job], streams, files: Vec::new(), steps }
    }

    #[test]
    fn steps_go_in_order_after_their_pauses_and_not_before_their_moments() {
        let compute = StepKind::Compute;
        let workload = workload(vec![
            step(1, compute, 2.0, 0.0),
            step(0, compute, 0.0, 5.0),
            step(1, compute, 1.0, 4.5),
        ]);
        let mut streams = Streams::new(&workload);
        let turn = |step, at_seconds| Some(Turn { step, at_seconds });
        assert_eq!(streams.next(&workload, 1, 10.0), turn(0, 12.0));
        assert_eq!(streams.next(&workload, 0, 10.0), turn(1, 15.0));
        assert!(!streams.end(&workload, 1));
        assert_eq!(streams.next(&workload, 1, 12.0), turn(2, 14.5));
        assert!(!streams.end(&workload, 1));
        assert_eq!(streams.next(&workload, 1, 14.5), None);
        assert!(streams.end(&workload, 0));
        assert_eq!(streams.steps_done(), 3);
    }

    /// The second barrier of stream 1 is not one of stream 0, which nobody waits for there.
    #[test]
    fn a_barrier_holds_the_streams_that_come_to_it() {
        let barrier = StepKind::Barrier;
        let workload = workload(vec![
            step(0, barrier, 0.0, 0.0),
            step(1, barrier, 0.0, 0.0),
            step(1, barrier, 0.0, 0.0),
        ]);
        let mut streams = Streams::new(&workload);
        assert_eq!(streams.meet(&workload, 1), Vec::<u32>::new());
        assert_eq!(streams.meet(&workload, 0), [1, 0]);
        assert_eq!(streams.meet(&workload, 1), [1]);
    }
}
