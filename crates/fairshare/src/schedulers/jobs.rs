//! The registered jobs of one target: their queues, their charges, and their activity.
//!
//! A scheduler is this table and an order, so a change of policy moves the table and loses nothing. Idle jobs wait for
//! the end of their grace in a list linked through the entries, oldest first.

use std::collections::{HashMap, VecDeque};

use crate::job::{JobAttributes, JobId, Token};
use crate::schedulers::{Dispatch, JobShare, Refusal, Settings, REQUEST_COST_MAX};
use crate::time::Nanos;

/// The jobs, queues and accounts of a scheduler, on their way to another one.
#[derive(Debug)]
pub struct JobTable {
    settings: Settings,
    entries: Vec<Entry>,
    /// Times by slot, as the entries.
    times: Vec<Times>,
    /// Attributes by slot; stale where the slot is free.
    attributes: Vec<JobAttributes>,
    free: Vec<usize>,
    slots: HashMap<JobId, usize>,
    queued: usize,
    backlog: Backlog,
    arrivals: u64,
    latest: Nanos,
    idle_oldest: Option<u32>,
    idle_newest: Option<u32>,
}

/// One queued request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) token: Token,
    /// Its place in the order of arrival over all jobs.
    pub(crate) arrival: u64,
    enqueued: Nanos,
    /// The cost in nanoseconds, at most [`REQUEST_COST_MAX`], with its lowest bits first.
    cost: [u16; 3],
    /// See [`JobTable::fetch`].
    is_fetched: bool,
}

const _: () = assert!(size_of::<Request>() == 32, "two requests are one cache line");

/// A request taken out for service, with the charge of its job.
pub(crate) struct Started {
    pub(crate) dispatch: Dispatch,
    pub(crate) arrival: u64,
    /// The charge in nanoseconds: the expected cost, and the time that earlier requests took beyond (or below) theirs.
    pub(crate) charge: i64,
}

/// The fields of a job that a decision reads and writes: one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Entry {
    /// Whether the slot is in use.
    is_registered: bool,
    job: JobId,
    queue: VecDeque<Request>,
    charged: i64,
    correction: i64,
    in_service: u32,
    /// See [`JobTable::fetch`].
    is_fetched: bool,
}

const _: () = assert!(size_of::<Entry>() == 64, "an entry is one cache line");

/// The fields of a job that change with the begin and the end of its work.
#[derive(Debug, Default)]
struct Times {
    activity: Activity,
    backlog: Backlog,
}

/// The time for which requests were queued.
#[derive(Clone, Copy, Debug, Default)]
struct Backlog {
    /// The moment since when the queue has not been empty, where it is not empty.
    since: Nanos,
    /// The time for which the queue was not empty before that.
    before: Nanos,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Activity {
    #[default]
    Inactive,
    /// Requests are queued or in service.
    Busy,
    /// Within its grace: active, and linked to its neighbours in the list of idle jobs.
    Idle { since: Nanos, older: Option<u32>, newer: Option<u32> },
}

impl JobTable {
    pub(crate) fn new(settings: Settings) -> JobTable {
        JobTable {
            settings,
            entries: Vec::new(),
            times: Vec::new(),
            attributes: Vec::new(),
            free: Vec::new(),
            slots: HashMap::new(),
            queued: 0,
            backlog: Backlog::default(),
            arrivals: 0,
            latest: Nanos::ZERO,
            idle_oldest: None,
            idle_newest: None,
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The latest moment seen, `now` included: the table's time never runs backwards.
    pub(crate) fn advance(&mut self, now: Nanos) -> Nanos {
        self.latest = self.latest.max(now);
        self.latest
    }

    pub(crate) fn slot(&self, job: JobId) -> Option<usize> {
        self.slots.get(&job).copied()
    }

    /// Slots in use, in no meaningful order.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = usize> + '_ {
        self.entries.iter().enumerate().filter(|(_, entry)| entry.is_registered).map(|(slot, _)| slot)
    }

    /// One more than the last slot in use, or than one that was.
    pub(crate) fn slots(&self) -> usize {
        self.entries.len()
    }

    /// The latest moment seen.
    pub(crate) fn latest(&self) -> Nanos {
        self.latest
    }

    pub(crate) fn len(&self) -> usize {
        self.queued
    }

    pub(crate) fn attributes(&self, slot: usize) -> &JobAttributes {
        &self.attributes[slot]
    }

    pub(crate) fn queue(&self, slot: usize) -> &VecDeque<Request> {
        &self.entry(slot).queue
    }

    /// Device time charged to the job since it was registered.
    pub(crate) fn charged(&self, slot: usize) -> Nanos {
        Nanos(self.entry(slot).charged.max(0).unsigned_abs())
    }

    /// Whether the job counts as active, its grace taken as of the last [`end_grace`] call.
    ///
    /// [`end_grace`]: JobTable::end_grace
    pub(crate) fn is_active(&self, slot: usize) -> bool {
        self.times[slot].activity != Activity::Inactive
    }

    /// Whether the job counts as active at `now`.
    pub(crate) fn is_active_at(&self, slot: usize, now: Nanos) -> bool {
        match self.times[slot].activity {
            Activity::Inactive => false,
            Activity::Busy => true,
            Activity::Idle { since, .. } => {
                now.max(self.latest).saturating_since(since) < self.settings.grace
            }
        }
    }

    pub(crate) fn upsert(&mut self, attributes: JobAttributes) -> usize {
        if let Some(slot) = self.slot(attributes.job) {
            self.attributes[slot] = attributes;
            return slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            self.times.push(Times::default());
            self.attributes.push(attributes);
            self.entries.len() - 1
        });
        self.entries[slot] = Entry { is_registered: true, job: attributes.job, ..Entry::default() };
        self.times[slot] = Times::default();
        self.attributes[slot] = attributes;
        self.slots.insert(attributes.job, slot);
        slot
    }

    /// Forgets the job in `slot`; returns its queue.
    pub(crate) fn remove(&mut self, slot: usize) -> VecDeque<Request> {
        self.unlink_idle(slot);
        let entry = std::mem::take(&mut self.entries[slot]);
        self.slots.remove(&entry.job);
        self.free.push(slot);
        self.take_from_queued(entry.queue.len(), self.latest);
        entry.queue
    }

    /// Queues a request within the limits; returns its place in the order of arrival.
    #[inline]
    pub(crate) fn enqueue(
        &mut self,
        slot: usize,
        token: Token,
        cost: Nanos,
        now: Nanos,
    ) -> Result<u64, Refusal> {
        let limit = self.settings.queued_max_per_job;
        if self.entry(slot).queue.len() >= limit {
            return Err(Refusal::JobQueueFull { job: self.entry(slot).job, limit });
        }
        let limit = self.settings.queued_max_total;
        if self.queued >= limit {
            return Err(Refusal::TotalQueueFull { limit });
        }
        self.unlink_idle(slot);
        if self.queued == 0 {
            self.backlog.since = now;
        }
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.queued += 1;
        let cost = cost.clamp(Nanos(1), REQUEST_COST_MAX);
        let (entry, times) = (&mut self.entries[slot], &mut self.times[slot]);
        if entry.queue.is_empty() {
            times.backlog.since = now;
        }
        entry.queue.push_back(Request::new(token, cost, arrival, now));
        times.activity = Activity::Busy;
        Ok(arrival)
    }

    /// Takes out the job's first request for service. Its queue must not be empty.
    #[inline]
    pub(crate) fn start(&mut self, slot: usize, now: Nanos) -> Started {
        self.take_from_queued(1, now);
        let entry = &mut self.entries[slot];
        let request = entry.queue.pop_front().expect("a job chosen has a request queued");
        if entry.queue.is_empty() {
            self.times[slot].backlog.end(now);
        }
        entry.in_service += 1;
        let cost = request.cost();
        entry.charged += signed(cost);
        Started {
            dispatch: Dispatch { job: entry.job, token: request.token, cost, waited: request.waited(now) },
            arrival: request.arrival,
            charge: signed(cost) + std::mem::take(&mut entry.correction),
        }
    }

    /// Brings the job's entry near. A write does that without holding up anybody: the processor has the line brought while it
    /// goes on.
    pub(crate) fn fetch(&mut self, slot: usize) {
        self.entries[slot].is_fetched = true;
    }

    /// Brings the job's next requests near, after its entry.
    pub(crate) fn fetch_requests(&mut self, slot: usize) {
        let queue = &mut self.entries[slot].queue;
        for place in 0..2 {
            if let Some(request) = queue.get_mut(place) {
                request.is_fetched = true;
            }
        }
    }

    /// Ends a request in service. The difference is charged with the job's next request, so a
    /// completion costs no reordering; it is bounded by the largest request either way.
    pub(crate) fn complete(&mut self, slot: usize, estimated: Nanos, actual: Nanos, now: Nanos) {
        let difference = signed(actual.min(REQUEST_COST_MAX)) - signed(estimated);
        let entry = &mut self.entries[slot];
        entry.charged += difference;
        entry.correct(difference);
        entry.in_service = entry.in_service.saturating_sub(1);
        self.link_if_idle(slot, now);
    }

    /// Charges the job, with its next request, for time that no request of it took.
    pub(crate) fn charge(&mut self, slot: usize, time: Nanos) {
        self.entries[slot].correct(signed(time.min(REQUEST_COST_MAX)));
    }

    /// Takes a queued request out; returns its place in the order of arrival, and whether it was
    /// its job's first.
    pub(crate) fn cancel(&mut self, slot: usize, token: Token) -> Option<(u64, bool)> {
        let latest = self.latest;
        let entry = &mut self.entries[slot];
        let position = entry.queue.iter().position(|request| request.token == token)?;
        let request = entry.queue.remove(position)?;
        if entry.queue.is_empty() {
            self.times[slot].backlog.end(latest);
        }
        self.take_from_queued(1, latest);
        self.link_if_idle(slot, latest);
        Some((request.arrival, position == 0))
    }

    /// Makes one job whose grace is over inactive, if there is one; to be called until `None`.
    #[inline]
    pub(crate) fn end_grace(&mut self, now: Nanos) -> Option<usize> {
        let slot = self.idle_oldest? as usize;
        if self.is_active_at(slot, now) {
            return None;
        }
        self.unlink_idle(slot);
        self.times[slot].activity = Activity::Inactive;
        Some(slot)
    }

    /// The accounts of all jobs by ascending id; `owed` holds the claim of each job, by slot, where jobs have claims.
    pub(crate) fn shares(&self, now: Nanos, owed: Option<&[f64]>) -> Vec<JobShare> {
        let account = |slot: usize| {
            let entry = self.entry(slot);
            JobShare {
                job: entry.job,
                owed: owed.map(|owed| owed.get(slot).copied().unwrap_or(0.0)),
                active: self.is_active_at(slot, now),
                queued: entry.queue.len(),
                charged: self.charged(slot),
                backlogged: self.times[slot].backlog.until(now.max(self.latest), entry.queue.is_empty()),
            }
        };
        let mut shares: Vec<JobShare> = self.occupied().map(account).collect();
        shares.sort_unstable_by_key(|share| share.job);
        shares
    }

    /// Time up to `now` in which any request was queued.
    pub(crate) fn backlogged(&self, now: Nanos) -> Nanos {
        self.backlog.until(now.max(self.latest), self.queued == 0)
    }

    fn take_from_queued(&mut self, count: usize, now: Nanos) {
        let was_empty = self.queued == 0;
        self.queued -= count;
        if self.queued == 0 && !was_empty {
            self.backlog.end(now);
        }
    }

    fn entry(&self, slot: usize) -> &Entry {
        let entry = &self.entries[slot];
        debug_assert!(entry.is_registered, "an occupied slot");
        entry
    }

    /// Starts the grace of a job that has nothing queued and nothing in service any more.
    fn link_if_idle(&mut self, slot: usize, now: Nanos) {
        let older = self.idle_newest;
        let (entry, times) = (&self.entries[slot], &mut self.times[slot]);
        let nothing_left = entry.queue.is_empty() && entry.in_service == 0;
        if !nothing_left || times.activity != Activity::Busy {
            return;
        }
        times.activity = Activity::Idle { since: now, older, newer: None };
        let link = Some(slot as u32);
        self.idle_newest = link;
        self.relink(older, |_, newer| *newer = link);
        if older.is_none() {
            self.idle_oldest = link;
        }
    }

    /// Takes the job out of the list of idle jobs, if it is there.
    fn unlink_idle(&mut self, slot: usize) {
        let Activity::Idle { older, newer, .. } = self.times[slot].activity else { return };
        self.relink(older, |_, link| *link = newer);
        self.relink(newer, |link, _| *link = older);
        if older.is_none() {
            self.idle_oldest = newer;
        }
        if newer.is_none() {
            self.idle_newest = older;
        }
    }

    /// Changes the links (older, newer) of an idle job.
    fn relink(&mut self, slot: Option<u32>, change: impl FnOnce(&mut Option<u32>, &mut Option<u32>)) {
        let Some(slot) = slot else { return };
        if let Activity::Idle { older, newer, .. } = &mut self.times[slot as usize].activity {
            change(older, newer);
        }
    }
}

impl Entry {
    fn correct(&mut self, difference: i64) {
        let bound = signed(REQUEST_COST_MAX);
        self.correction = (self.correction + difference).clamp(-bound, bound);
    }
}

impl Request {
    fn new(token: Token, cost: Nanos, arrival: u64, enqueued: Nanos) -> Request {
        let cost = [0, 16, 32].map(|shift| (cost.0 >> shift) as u16);
        Request { token, arrival, enqueued, cost, is_fetched: false }
    }

    /// The time for which the request has been queued.
    pub(crate) fn waited(&self, now: Nanos) -> Nanos {
        now.saturating_since(self.enqueued)
    }

    /// The cost: 1 ns to [`REQUEST_COST_MAX`].
    pub(crate) fn cost(&self) -> Nanos {
        let [low, middle, high] = self.cost.map(u64::from);
        Nanos(high << 32 | middle << 16 | low)
    }
}

impl Backlog {
    /// The last queued request is gone.
    fn end(&mut self, now: Nanos) {
        self.before = self.until(now, false);
    }

    /// The time up to `now`, where it `has_ended` or not.
    fn until(&self, now: Nanos, has_ended: bool) -> Nanos {
        if has_ended {
            return self.before;
        }
        self.before + now.saturating_since(self.since)
    }
}

/// Device time as a signed number of nanoseconds, for differences.
fn signed(nanos: Nanos) -> i64 {
    i64::try_from(nanos.0).unwrap_or(i64::MAX)
}
