//! The token bucket filter of Lustre (Qian et al., SC'17) with its two strategies that ThemisIO compared itself
//! with (section 5.4): hard token compensation (HTC) and proportional sharing of spare bandwidth (PSSB).
//!
//! Each job is a class with a bucket of tokens, which fills at the class's rate; a request is served when its
//! class has the tokens for it, the one whose tokens sufficed first before the others (Lustre's deadlines).
//! *HTC*: tokens of requests that wait although they may be served, because the server is late, are kept beyond
//! the bucket's depth, up to a second. *PSSB*: tokens that run over the bucket of a class without requests go
//! to the classes that have some, in proportion to their rates. After the paper's description of both.
//!
//! Departures: a token is a nanosecond of device time, not a request; rates are what the policy owes the
//! active jobs, not what rules say in requests per second, so that together they are the device's speed.

use std::collections::BTreeSet;

use crate::job::JobAttributes;
use crate::schedulers::jobs::JobTable;
use crate::schedulers::paths::Paths;
use crate::schedulers::queues::Discipline;
use crate::schedulers::{Dispatch, Portions};
use crate::sharing::Sharing;
use crate::time::Nanos;

/// A bucket holds the tokens of this many requests like the last one to come first: Lustre's default depth. So
/// a job with few small requests at a time loses tokens while large ones of others are served.
const DEPTH_REQUESTS: i128 = 3;
/// The most that a late server makes up: a second, the window over which ThemisIO measures shares.
const COMPENSATION_MAX: i128 = 1_000_000_000;
/// The rate at which one class may use the whole device. Rates are whole, so that sums of them are exact.
const RATE_WHOLE: i128 = 1 << 40;
/// More tokens than any bucket holds.
const TOKENS_FULL: i128 = 1 << 62;

/// Serves classes that have tokens, by deadline.
pub(crate) struct Tbf {
    paths: Paths,
    /// Buckets by slot.
    buckets: Vec<Bucket>,
    /// The time in nanoseconds that a class with requests queued has had to collect tokens at its rate. It runs faster
    /// than time by the spared rate, and stands while no class has requests.
    clock: i128,
    /// Up to when the clock was taken on.
    settled: Nanos,
    /// The classes with requests queued: when on the clock their tokens suffice, arrival of the request, slot.
    waiting: BTreeSet<(i128, u64, usize)>,
    /// Active classes without requests whose buckets are not full yet: when they will be, slot.
    filling: BTreeSet<(Nanos, usize)>,
    /// The sum of the rates of classes waiting.
    rate_waiting: i128,
    /// The sum of the rates of active classes without requests whose buckets are full.
    rate_spared: i128,
    /// Whether jobs, weights or activity changed since the rates were set.
    is_stale: bool,
}

/// The tokens of one class.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Its part of [`RATE_WHOLE`]; 0 while the job is inactive.
    rate: i128,
    /// In nanoseconds of device time.
    depth: i128,
    fill: Fill,
}

#[derive(Clone, Copy, Debug)]
enum Fill {
    /// A class without requests, which held `tokens` at `since`.
    Idle { tokens: i128, since: Nanos, place: Idle },
    /// Requests are queued: its tokens are counted from when on the clock it was, or will be, empty.
    Waiting { empty: i128, deadline: i128, arrival: u64 },
}

/// The entry of a class without requests.
#[derive(Clone, Copy, Debug)]
enum Idle {
    /// Nowhere: its job is inactive, or was when rates were set.
    Out,
    /// Among those filling.
    Filling { full: Nanos },
    /// In the sum of spared rates.
    Spared,
}

impl Default for Bucket {
    fn default() -> Bucket {
        let fill = Fill::Idle { tokens: TOKENS_FULL, since: Nanos::ZERO, place: Idle::Out };
        Bucket { rate: 0, depth: 0, fill }
    }
}

impl Tbf {
    /// Without jobs.
    pub(crate) fn new(sharing: &Sharing, jobs: &JobTable) -> Tbf {
        Tbf {
            paths: Paths::new(sharing.clone()),
            settled: jobs.latest(),
            buckets: Vec::new(),
            clock: 0,
            waiting: BTreeSet::new(),
            filling: BTreeSet::new(),
            rate_waiting: 0,
            rate_spared: 0,
            is_stale: true,
        }
    }

    /// Takes the clock on to `now`, through the moments at which buckets fill.
    #[inline]
    fn settle(&mut self, now: Nanos) {
        while let Some(&(full, slot)) = self.filling.first().filter(|&&(full, _)| full <= now) {
            self.run_clock(full);
            self.filling.pop_first();
            let bucket = &mut self.buckets[slot];
            if let Fill::Idle { place, .. } = &mut bucket.fill {
                *place = Idle::Spared;
            }
            self.rate_spared += bucket.rate;
        }
        self.run_clock(now);
    }

    /// Takes the clock on, at most as far as a late server makes up.
    fn run_clock(&mut self, until: Nanos) {
        let elapsed = until.saturating_since(self.settled);
        self.settled = self.settled.max(until);
        if let Some(&(deadline, _, _)) = self.waiting.first() {
            let clock = self.clock + self.gained(elapsed, self.rate_spared);
            self.clock = clock.min(self.clock.max(deadline + COMPENSATION_MAX));
        }
    }

    /// The gain of the clock in `elapsed` while so much is spared and any class waits.
    fn gained(&self, elapsed: Nanos, rate_spared: i128) -> i128 {
        i128::from(elapsed.0) * (self.rate_waiting + rate_spared) / self.rate_waiting
    }

    /// The progress of the server on the clock. A late server is late for all classes: a class that had nothing queued
    /// meanwhile need not wait until the others have caught up.
    fn level(&self) -> i128 {
        self.waiting.first().map_or(self.clock, |&(deadline, _, _)| deadline.min(self.clock))
    }

    /// The class whose tokens suffice, and did so first.
    fn eligible(&self) -> Option<usize> {
        self.waiting.first().filter(|&&(deadline, _, _)| deadline <= self.clock).map(|&(_, _, slot)| slot)
    }

    /// Takes a class out of wherever it is entered.
    #[inline]
    fn unlink(&mut self, slot: usize) {
        let Bucket { rate, fill, .. } = self.buckets[slot];
        match fill {
            Fill::Waiting { deadline, arrival, .. } => {
                self.waiting.remove(&(deadline, arrival, slot));
                self.rate_waiting -= rate;
            }
            Fill::Idle { place: Idle::Filling { full }, .. } => {
                self.filling.remove(&(full, slot));
            }
            Fill::Idle { place: Idle::Spared, .. } => self.rate_spared -= rate,
            Fill::Idle { place: Idle::Out, .. } => {}
        }
    }

    /// Counts the tokens, as of now, of a class that was taken out.
    fn count(&mut self, slot: usize, level: i128) {
        let Bucket { rate, fill, .. } = self.buckets[slot];
        let tokens = match fill {
            Fill::Waiting { empty, .. } => (level - empty) * rate / RATE_WHOLE,
            Fill::Idle { tokens, since, .. } => {
                tokens + i128::from(self.settled.saturating_since(since).0) * rate / RATE_WHOLE
            }
        };
        self.buckets[slot].fill = Fill::Idle { tokens, since: self.settled, place: Idle::Out };
    }

    /// Enters a class that is out and whose tokens were counted now, as its queue says.
    fn put_in(&mut self, jobs: &JobTable, slot: usize, level: i128) {
        let Bucket { rate, depth, fill } = self.buckets[slot];
        let Fill::Idle { tokens, since, .. } = fill else { return };
        if let Some(request) = jobs.queue(slot).front() {
            let depth = i128::from(request.cost().0) * DEPTH_REQUESTS;
            let empty = level - tokens.min(depth) * RATE_WHOLE / rate;
            self.rate_waiting += rate;
            self.buckets[slot].depth = depth;
            self.wait(jobs, slot, empty);
            return;
        }
        let tokens = tokens.min(depth);
        let missing = u64::try_from(ceil_div((depth - tokens) * RATE_WHOLE, rate)).unwrap_or(u64::MAX);
        let place = if missing == 0 {
            self.rate_spared += rate;
            Idle::Spared
        } else {
            let full = since + Nanos(missing);
            self.filling.insert((full, slot));
            Idle::Filling { full }
        };
        self.buckets[slot].fill = Fill::Idle { tokens, since, place };
    }

    /// Enters a class among those waiting, with its first request.
    #[inline]
    fn wait(&mut self, jobs: &JobTable, slot: usize, empty: i128) {
        let Some(request) = jobs.queue(slot).front() else { return };
        let (cost, arrival) = (i128::from(request.cost().0), request.arrival);
        let deadline = empty + ceil_div(cost * RATE_WHOLE, self.buckets[slot].rate);
        self.buckets[slot].fill = Fill::Waiting { empty, deadline, arrival };
        self.waiting.insert((deadline, arrival, slot));
    }

    /// Enters a class anew after its first request has changed or `charge` was taken from its tokens. A class
    /// that is out stays out, until rates are set.
    fn re_enter(&mut self, jobs: &JobTable, slot: usize, charge: i64) {
        let rate = self.buckets[slot].rate;
        if rate == 0 {
            return;
        }
        self.unlink(slot);
        if let Fill::Waiting { empty, .. } = &mut self.buckets[slot].fill {
            *empty += i128::from(charge) * RATE_WHOLE / rate;
            if !jobs.queue(slot).is_empty() {
                let empty = *empty;
                self.rate_waiting += rate;
                self.wait(jobs, slot, empty);
                return;
            }
        }
        let level = self.level();
        self.count(slot, level);
        self.put_in(jobs, slot, level);
    }

    /// Sets the rates anew where anything they depend on has changed; tokens stay, and a class that was
    /// inactive gets those for the time it was.
    fn set_rates(&mut self, jobs: &JobTable) {
        if !std::mem::take(&mut self.is_stale) {
            return;
        }
        let level = self.level();
        let (active, inactive): (Vec<usize>, Vec<usize>) =
            jobs.occupied().partition(|&slot| jobs.is_active(slot));
        for &slot in active.iter().chain(&inactive) {
            if self.buckets[slot].rate > 0 {
                self.unlink(slot);
                self.count(slot, level);
                self.buckets[slot].rate = 0;
            }
        }
        for (&slot, owed) in active.iter().zip(self.paths.owed(jobs, &active)) {
            self.buckets[slot].rate = ((owed * RATE_WHOLE as f64) as i128).max(1);
            self.count(slot, level);
            self.put_in(jobs, slot, level);
        }
    }
}

impl Discipline for Tbf {
    /// A job without a bucket gets a full one; its rate is set with the next decision.
    fn enter(&mut self, _: &JobTable, slot: usize) {
        if slot >= self.buckets.len() {
            self.buckets.resize(slot + 1, Bucket::default());
        }
    }

    fn leave(&mut self, _: &JobTable, slot: usize) {
        self.unlink(slot);
        self.buckets[slot] = Bucket::default();
        self.is_stale = true;
    }

    fn change(&mut self, _: &JobTable, _: usize, _: &JobAttributes) {
        self.is_stale = true;
    }

    #[inline]
    fn advance(&mut self, _: &JobTable, now: Nanos) {
        self.settle(now);
    }

    fn activate(&mut self, _: usize) {
        self.is_stale = true;
    }

    fn deactivate(&mut self, _: usize) {
        self.is_stale = true;
    }

    #[inline]
    fn arrive(&mut self, jobs: &JobTable, slot: usize, _: u64, _: Nanos) {
        if jobs.queue(slot).len() == 1 {
            self.re_enter(jobs, slot, 0);
        }
    }

    fn withdraw(&mut self, jobs: &JobTable, slot: usize, _: u64, was_first: bool) {
        if was_first {
            self.re_enter(jobs, slot, 0);
        }
    }

    #[inline]
    fn dispatch(&mut self, jobs: &mut JobTable, now: Nanos) -> Option<Dispatch> {
        // First as promised by `next_release`, which knew the rates until now.
        let promised = self.eligible();
        self.set_rates(jobs);
        let slot = promised.or_else(|| self.eligible())?;
        let started = jobs.start(slot, now);
        self.re_enter(jobs, slot, started.charge);
        Some(started.dispatch)
    }

    fn next_release(&self) -> Option<Nanos> {
        let Some(&(deadline, _, _)) = self.waiting.first() else { return Some(self.settled) };
        let mut missing = (deadline - self.clock).max(0);
        let mut at = self.settled;
        let mut rate_spared = self.rate_spared;
        for &(full, slot) in &self.filling {
            let gained = self.gained(full.saturating_since(at), rate_spared);
            if gained >= missing {
                break;
            }
            missing -= gained;
            at = at.max(full);
            rate_spared += self.buckets[slot].rate;
        }
        let wait = ceil_div(missing * self.rate_waiting, self.rate_waiting + rate_spared);
        Some(at + Nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    fn set_portions(&mut self, jobs: &JobTable, portions: &Portions) {
        self.paths.set_portions(jobs, portions);
        self.is_stale = true;
    }

    fn owed(&self, jobs: &JobTable, now: Nanos) -> Option<Vec<f64>> {
        Some(self.paths.owed_at(jobs, now))
    }
}

fn ceil_div(dividend: i128, divisor: i128) -> i128 {
    dividend / divisor + i128::from(dividend % divisor > 0)
}
