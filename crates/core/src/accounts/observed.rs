//! The work of a job at one device in one window: the requests that were completed, and the device time that the job waited
//! for others.

use crate::accounts::delays::{Delays, Receivers, WaitedForLine};
use crate::clock::seconds;
use serde::Serialize;
use std::collections::VecDeque;
use weir_fairshare::Nanos;
use weir_wire::JobId;

/// The kinds of requests that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Stat,
    Open,
    Close,
    List,
    Make,
    Remove,
    Rename,
    /// Any other change, such as that of attributes.
    Change,
}

/// Most requests of a job at a device that are counted as under way at once: the memory of a window stays small.
const UNDER_WAY_MAX: usize = 64;
/// Kinds of requests.
const KINDS: usize = Kind::Change as usize + 1;

/// The work of a job at a device since a window began. A job with nothing to do has none.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    counts: [u64; KINDS],
    read_bytes: u64,
    written_bytes: u64,
    in_progress: Nanos,
    device: Nanos,
    delays: Delays,
    /// The ends of the last requests, the oldest first, with the number of requests that were under way just before.
    ends: VecDeque<(Nanos, usize)>,
    /// The greatest of these numbers.
    under_way: usize,
}

/// The job and the number of the device.
#[derive(Clone, Debug)]
pub(crate) struct ObservedOf {
    pub(crate) job: String,
    pub(crate) user: String,
    pub(crate) uid: u32,
    pub(crate) device: usize,
}

/// The work of a job at a device as it is shown.
#[derive(Clone, Debug, Serialize)]
pub struct ObservedLine {
    job: String,
    user: String,
    uid: u32,
    /// The name of the device.
    device: String,
    #[serde(skip)]
    number: usize,
    reads: u64,
    writes: u64,
    read_bytes: u64,
    written_bytes: u64,
    stats: u64,
    opens: u64,
    closes: u64,
    lists: u64,
    makes: u64,
    removes: u64,
    renames: u64,
    changes: u64,
    /// Time between the arrivals of the completed requests and their ends.
    request_seconds: f64,
    /// Completed requests that were under way at once, at most.
    under_way_max: usize,
    /// Device time that the job received.
    device_seconds: f64,
    /// Device time that others received while the job had requests queued, the greatest first.
    waited_for: Vec<WaitedForLine>,
    /// The same of all others together.
    waited_for_others_seconds: f64,
}

impl Observed {
    /// A request ended, so long after its arrival.
    pub(crate) fn complete(&mut self, kind: Kind, bytes: u64, took: Nanos, ended: Nanos) {
        self.counts[kind as usize] += 1;
        match kind {
            Kind::Read => self.read_bytes += bytes,
            Kind::Write => self.written_bytes += bytes,
            _ => {}
        }
        self.in_progress = self.in_progress + took;
        self.note_under_way(Nanos(ended.0.saturating_sub(took.0)), ended);
    }

    /// A file was closed, which no device serves.
    pub(crate) fn close(&mut self) {
        self.counts[Kind::Close as usize] += 1;
    }

    /// A request was under way between two moments: also just before the ends of others in between. Most requests are under
    /// way just before one ends.
    fn note_under_way(&mut self, arrived: Nanos, ended: Nanos) {
        if self.ends.len() == UNDER_WAY_MAX {
            self.ends.pop_front();
        }
        self.ends.push_back((ended, 0));
        for (_, number) in self.ends.iter_mut().rev().take_while(|(end, _)| *end > arrived) {
            *number += 1;
            self.under_way = self.under_way.max(*number);
        }
    }

    /// The device has worked for the job.
    pub(crate) fn spend(&mut self, time: Nanos) {
        self.device = self.device + time;
    }

    /// The job, which received `own` seconds itself, had requests queued for this part of an interval.
    pub(crate) fn wait(&mut self, job: JobId, own: f64, part: f64, receivers: &Receivers) {
        self.delays.add(job, own, part, receivers);
    }

    /// The device time that the job waited for others.
    pub(crate) fn delays(&self) -> &Delays {
        &self.delays
    }

    /// The time by which the work of one job comes before that of another where not all are kept.
    pub(crate) fn weight(&self) -> f64 {
        seconds(self.in_progress) + seconds(self.device)
    }

    /// The work as it is shown.
    pub(crate) fn line(&self, of: ObservedOf, waited_for: (Vec<WaitedForLine>, f64)) -> ObservedLine {
        let count = |kind: Kind| self.counts[kind as usize];
        ObservedLine {
            job: of.job,
            user: of.user,
            uid: of.uid,
            device: String::new(),
            number: of.device,
            reads: count(Kind::Read),
            writes: count(Kind::Write),
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            stats: count(Kind::Stat),
            opens: count(Kind::Open),
            closes: count(Kind::Close),
            lists: count(Kind::List),
            makes: count(Kind::Make),
            removes: count(Kind::Remove),
            renames: count(Kind::Rename),
            changes: count(Kind::Change),
            request_seconds: seconds(self.in_progress),
            under_way_max: self.under_way,
            device_seconds: seconds(self.device),
            waited_for: waited_for.0,
            waited_for_others_seconds: waited_for.1,
        }
    }
}

impl ObservedLine {
    /// The order of lines in a window.
    pub(crate) fn order(&self) -> (&str, u32, usize) {
        (&self.job, self.uid, self.number)
    }

    /// The user of the job.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The line with the name of its device.
    pub(crate) fn named(mut self, names: &[String]) -> ObservedLine {
        self.device = names.get(self.number).cloned().unwrap_or_default();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The greatest number of requests under way at once, of requests that arrived and ended at moments in milliseconds.
    fn under_way(requests: &[(u64, u64)]) -> usize {
        let mut observed = Observed::default();
        for &(arrived, ended) in requests {
            let (arrived, ended) = (Nanos::from_millis(arrived), Nanos::from_millis(ended));
            observed.complete(Kind::Read, 1, ended.saturating_since(arrived), ended);
        }
        observed.under_way
    }

    #[test]
    fn requests_under_way_at_once_are_counted_and_those_one_after_the_other_are_not() {
        assert_eq!(under_way(&[]), 0);
        assert_eq!(under_way(&[(0, 10), (10, 20), (20, 30)]), 1);
        assert_eq!(under_way(&[(0, 10), (5, 20), (8, 30)]), 3);
        // A long request, and short ones of another process beside it, one after the other.
        assert_eq!(under_way(&[(1, 10), (10, 20), (20, 30), (0, 40)]), 2);
        assert_eq!(under_way(&[(0, 50); 3 * UNDER_WAY_MAX]), UNDER_WAY_MAX);
    }
}
