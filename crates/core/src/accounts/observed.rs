//! The work of a job at one device in one window: the requests that were completed, and the device time that the job waited
//! for others.

use crate::accounts::delays::{Delays, Receivers, WaitedForLine};
use crate::clock::seconds;
use serde::Serialize;
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
    /// Device time that the job received.
    device_seconds: f64,
    /// Device time that others received while the job had requests queued, the greatest first.
    waited_for: Vec<WaitedForLine>,
    /// The same of all others together.
    waited_for_others_seconds: f64,
}

impl Observed {
    /// A request was completed, so long after its arrival.
    pub(crate) fn complete(&mut self, kind: Kind, bytes: u64, took: Nanos) {
        self.counts[kind as usize] += 1;
        match kind {
            Kind::Read => self.read_bytes += bytes,
            Kind::Write => self.written_bytes += bytes,
            _ => {}
        }
        self.in_progress = self.in_progress + took;
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
