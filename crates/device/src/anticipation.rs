//! Anticipation: whether a device that serves one request at a time waits for the next request of a job, rather than begin
//! another job's, which nobody could interrupt.
//!
//! A job that has one request at a time has nothing queued when its request ends. Without anticipation each of its requests
//! waits for the one that began meanwhile, so that a job that is owed four fifths of a device gets at most half of it
//! (Iyer and Druschel, "Anticipatory scheduling", SOSP 2001). The device waits only for a job whose turn it would be and that
//! is usually back within half the time of the other request, and at most for that time. The job is charged for the wait, so
//! no other job gets less than its share. A job that was waited for in vain has to be early several times before the next wait.

use std::collections::HashMap;
use weir_fairshare::{JobId, Nanos};

/// Part of the newest pause in the mean, as a divisor: one late request among many is no habit.
const PAUSES: u64 = 8;
/// Longest pause that counts: a job that was away for longer tells nothing of its next pause.
const PAUSE_MAX: Nanos = Nanos::from_millis(5);
/// The device waits for this many mean pauses, which most pauses of a synchronous client stay below. The mean of a job that
/// did not come is multiplied by it.
const PATIENCE: u64 = 2;

/// The pauses of the jobs of one device, and the wait for one of them.
#[derive(Debug, Default)]
pub(crate) struct Anticipation {
    paces: HashMap<JobId, Pace>,
    /// The job whose request ended last, if the job had no other request.
    last: Option<JobId>,
    /// The job that the device waits for, and the moment when the wait began.
    awaited: Option<(JobId, Nanos)>,
}

/// A job's habit: the time between the end of its last request and its next one, while it has none in progress.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    in_progress: u32,
    ended: Option<Nanos>,
    pause: Option<Nanos>,
    cost: Nanos,
}

/// The job whose request may come soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) job: JobId,
    /// The cost of its last request.
    pub(crate) cost: Nanos,
    ended: Nanos,
    pause: Nanos,
}

impl Anticipation {
    /// A request came.
    pub(crate) fn note_arrival(&mut self, job: JobId, now: Nanos) {
        let pace = self.paces.entry(job).or_default();
        if let (0, Some(ended)) = (pace.in_progress, pace.ended) {
            let pause = now.saturating_since(ended).min(PAUSE_MAX);
            let mean = pace.pause.map_or(pause, |mean| Nanos((mean.0 * (PAUSES - 1) + pause.0) / PAUSES));
            pace.pause = Some(mean);
        }
        pace.in_progress += 1;
    }

    /// A request left the device after it took `cost`.
    pub(crate) fn note_end(&mut self, job: JobId, cost: Nanos, now: Nanos) {
        self.last = None;
        let Some(pace) = self.paces.get_mut(&job) else { return };
        pace.in_progress = pace.in_progress.saturating_sub(1);
        pace.cost = cost;
        if pace.in_progress == 0 {
            pace.ended = Some(now);
            self.last = Some(job);
        }
    }

    /// A request was taken out of the queue.
    pub(crate) fn note_cancellation(&mut self, job: JobId) {
        if let Some(pace) = self.paces.get_mut(&job) {
            pace.in_progress = pace.in_progress.saturating_sub(1);
        }
    }

    /// Forgets a job.
    pub(crate) fn remove(&mut self, job: JobId) {
        self.paces.remove(&job);
    }

    /// The job whose request ended last, if the job has none in progress and a habit.
    pub(crate) fn expected(&self) -> Option<Expected> {
        let job = self.last?;
        let Pace { in_progress: 0, ended: Some(ended), pause: Some(pause), cost } = *self.paces.get(&job)?
        else {
            return None;
        };
        Some(Expected { job, cost, ended, pause })
    }

    /// Waits for a job while a request that takes `other` could be served: until the moment returned. None where the wait is
    /// over, or not worth it.
    pub(crate) fn wait(&mut self, expected: Expected, other: Nanos, now: Nanos) -> Option<Nanos> {
        let Expected { job, ended, pause, .. } = expected;
        let patience = Nanos(pause.0 * PATIENCE);
        let until = ended + patience;
        if patience > other || until <= now {
            return None;
        }
        self.awaited.get_or_insert((job, ended));
        Some(until)
    }

    /// Ends the wait, and returns the job that is charged for it, and its time.
    pub(crate) fn end_wait(&mut self, now: Nanos) -> Option<(JobId, Nanos)> {
        let (job, since) = self.awaited.take()?;
        if let Some(Pace { in_progress: 0, pause: Some(pause), .. }) = self.paces.get_mut(&job) {
            *pause = Nanos(pause.0 * PATIENCE).min(PAUSE_MAX);
        }
        Some((job, now.saturating_since(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId(1);
    const COST: Nanos = Nanos::from_micros(300);
    const OTHER: Nanos = Nanos::from_micros(900);

    /// A job that had one request at a time, each so long after the end of the one before; the last ended at the moment
    /// returned.
    fn after(pauses_micros: &[u64]) -> (Anticipation, Nanos) {
        let mut anticipation = Anticipation::default();
        let mut now = Nanos::from_millis(1);
        for &pause in [0].iter().chain(pauses_micros) {
            now = now + Nanos::from_micros(pause);
            anticipation.note_arrival(JOB, now);
            now = now + COST;
            anticipation.note_end(JOB, COST, now);
        }
        (anticipation, now)
    }

    #[test]
    fn a_job_is_waited_for_that_was_back_sooner_than_the_other_request_takes() {
        for (pauses, waits_micros) in [
            (vec![], None),
            (vec![200], Some(400)),
            (vec![200; 20], Some(400)),
            // No wait is longer than the other request.
            (vec![450], Some(900)),
            (vec![451], None),
            (vec![100_000], None),
            // One late request among many is no habit.
            ([vec![50; 20], vec![2_000]].concat(), Some(587)),
            ([vec![50; 20], vec![2_000; 3]].concat(), None),
        ] {
            let (mut anticipation, now) = after(&pauses);
            let until = anticipation.expected().and_then(|expected| anticipation.wait(expected, OTHER, now));
            assert_eq!(until.map(|until| until.saturating_since(now).0 / 1_000), waits_micros, "{pauses:?}");
        }
    }

    #[test]
    fn a_wait_ends_and_its_job_is_charged_for_it_once() {
        let (mut anticipation, ended) = after(&[200]);
        let expected = anticipation.expected().unwrap();
        let until = anticipation.wait(expected, OTHER, ended).unwrap();
        assert_eq!(anticipation.wait(expected, OTHER, Nanos(until.0 - 1)), Some(until));
        assert_eq!(anticipation.wait(expected, OTHER, until), None);
        assert_eq!(anticipation.end_wait(until), Some((JOB, Nanos::from_micros(400))));
        assert_eq!(anticipation.end_wait(until), None);
        assert_eq!(anticipation.wait(expected, OTHER, ended), Some(until), "the same wait, of before");
        let expected = anticipation.expected().unwrap();
        let later = anticipation.wait(expected, OTHER, ended).unwrap();
        assert_eq!(later.saturating_since(ended).0, 800_000, "it did not come");
    }

    #[test]
    fn nobody_is_waited_for_whose_other_request_is_there_or_who_was_not_served_last() {
        let (mut anticipation, now) = after(&[200, 200]);
        anticipation.note_arrival(JOB, now);
        assert_eq!(anticipation.expected(), None);
        anticipation.note_cancellation(JOB);
        assert!(anticipation.expected().is_some());
        anticipation.note_arrival(JobId(2), now);
        anticipation.note_end(JobId(2), OTHER, now + OTHER);
        assert_eq!(anticipation.expected(), None, "job 2 has no habit yet");
        anticipation.remove(JobId(2));
        assert_eq!(anticipation.expected(), None);
    }
}
