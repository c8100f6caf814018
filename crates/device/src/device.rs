//! A device: one target, or the metadata of a server, with the scheduler that divides its time.

use crate::anticipation::Anticipation;
use crate::rates::Rates;
use crate::usage::Usage;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use weir_fairshare::{
    replace_sharing, scheduler, scheduler_by, Chooser, CostModel, DeviceSpeed, Direction, Dispatch,
    JobAttributes, JobId, JobShare, Nanos, Portions, Scheduler, Settings, Sharing, Token, TransferSpeed,
};

/// Requests in service at once on a device that is not emulated. Few, so that the policy decides late:
/// a request in service can no longer be overtaken.
const SLOTS: usize = 4;
/// First guess of a learned cost: a fast local device. It is wrong for one or two dozen requests at most.
const PRIOR: TransferSpeed = TransferSpeed {
    fixed: Nanos::from_micros(5),
    bytes_per_second: match std::num::NonZeroU64::new(4_000_000_000) {
        Some(rate) => rate,
        None => std::num::NonZeroU64::MIN,
    },
};

/// The direction and size of a request, by which its time is estimated.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Whether the device reads or writes.
    pub direction: Direction,
    /// The bytes to move; 0 for a request without any.
    pub bytes: u64,
}

/// The time when an emulated device has finished a request.
type Finish = Reverse<(Nanos, u64)>;

/// A scheduler, its cost model, and the requests in service.
pub struct Device {
    scheduler: Option<Box<dyn Scheduler>>,
    usage: Usage,
    model: CostModel,
    /// The speeds that requests really achieve.
    rates: Rates,
    speed: Option<DeviceSpeed>,
    /// The moment at which the emulated device has finished all its requests.
    busy_until: Nanos,
    /// Requests were queued, and withheld: the device then stood idle until the next was dispatched.
    withheld: bool,
    anticipation: Anticipation,
    /// The moment until which it waits for the job that it anticipates.
    waits_until: Option<Nanos>,
    finishing: BinaryHeap<Finish>,
    in_service: usize,
    /// Requests in service whose senders have paused.
    dry: Vec<u64>,
    registered: HashMap<JobId, JobAttributes>,
    busy: Nanos,
    served: u64,
    /// Time it worked for each job since [`Device::take_worked`].
    worked: HashMap<JobId, Nanos>,
}

impl Device {
    /// A device under a policy; with a `speed` it is emulated. Dice, where the scheduler has some, start at
    /// `seed`.
    pub fn new(sharing: &Sharing, speed: Option<DeviceSpeed>, seed: u64) -> Device {
        Device::with(scheduler(sharing, settings(seed)), speed)
    }

    /// A device whose requests `chooser` orders; the policy tells it what jobs are owed.
    pub fn chosen_by(chooser: Box<dyn Chooser>, sharing: &Sharing, speed: Option<DeviceSpeed>) -> Device {
        Device::with(scheduler_by(chooser, sharing, settings(0)), speed)
    }

    fn with(scheduler: Box<dyn Scheduler>, speed: Option<DeviceSpeed>) -> Device {
        Device {
            scheduler: Some(scheduler),
            usage: Usage::default(),
            model: model(speed),
            rates: Rates::default(),
            speed,
            busy_until: Nanos::ZERO,
            withheld: false,
            anticipation: Anticipation::default(),
            waits_until: None,
            finishing: BinaryHeap::new(),
            in_service: 0,
            dry: Vec::new(),
            registered: HashMap::new(),
            busy: Nanos::ZERO,
            served: 0,
            worked: HashMap::new(),
        }
    }

    /// Whether its speed is emulated.
    pub fn speed(&self) -> Option<DeviceSpeed> {
        self.speed
    }

    /// Emulates another speed from the next request on, or none. Requests under way end as they began.
    pub fn set_speed(&mut self, speed: Option<DeviceSpeed>) {
        (self.speed, self.model) = (speed, model(speed));
    }

    /// The speeds that requests achieved lately.
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// The cost of the device's requests, as far as it is known or learned.
    pub fn cost(&self) -> DeviceSpeed {
        self.model.speed()
    }

    /// Queues request `token` of a job; false where the scheduler refuses it.
    pub fn enqueue(&mut self, job: JobAttributes, token: u64, work: Work, now: Nanos) -> bool {
        let cost = self.model.estimate(work.direction, work.bytes);
        let Some(scheduler) = &mut self.scheduler else { return false };
        if self.registered.get(&job.job) != Some(&job) {
            scheduler.upsert_job(job, now);
            self.registered.insert(job.job, job);
        }
        let is_queued = scheduler.enqueue(job.job, Token(token), cost, now).is_ok();
        if is_queued {
            self.anticipation.note_arrival(job.job, now);
        }
        is_queued
    }

    /// The request to serve next, while a slot is free.
    pub fn dispatch(&mut self, now: Nanos) -> Option<Dispatch> {
        if !self.has_slot() {
            return None;
        }
        self.waits_until = self.anticipate(now);
        if self.waits_until.is_some() {
            self.withheld = true;
            return None;
        }
        let scheduler = self.scheduler.as_mut()?;
        if let Some((job, wait)) = self.anticipation.end_wait(now) {
            scheduler.charge(job, wait);
        }
        let Some(dispatch) = scheduler.dispatch(now) else {
            self.withheld = !scheduler.is_empty();
            return None;
        };
        if std::mem::take(&mut self.withheld) {
            self.busy_until = self.busy_until.max(now);
        }
        self.in_service += 1;
        Some(dispatch)
    }

    /// The moment until which it waits for the next request of the job that it served last; see [`Anticipation`]. Only a
    /// device of one slot waits: on any other one, a request that comes next is served beside those that began before.
    fn anticipate(&mut self, now: Nanos) -> Option<Nanos> {
        let expected = self.speed.and(self.anticipation.expected())?;
        let other = self.scheduler.as_mut()?.overtaken_by(expected.job, expected.cost, now)?;
        self.anticipation.wait(expected, other, now)
    }

    fn has_slot(&self) -> bool {
        self.in_service < if self.speed.is_some() { 1 } else { SLOTS }
    }

    /// The moment at which a withheld request may be dispatched, if a slot is free for it.
    pub fn next_release(&self) -> Option<Nanos> {
        if self.waits_until.is_some() {
            return self.waits_until;
        }
        self.scheduler.as_ref().filter(|_| self.withheld)?.next_release()
    }

    /// The moment at which the emulated device finishes a request that is dispatched now and was queued since
    /// `arrived`.
    ///
    /// The device starts a request when it became free, not when this process woke up, so oversleep does not add up.
    pub fn emulate(&mut self, dispatch: &Dispatch, work: Work, arrived: Nanos) -> Option<Nanos> {
        let finish = self.busy_until.max(arrived) + self.emulated_time(work)?;
        self.busy_until = finish;
        self.finishing.push(Reverse((finish, dispatch.token.0)));
        Some(finish)
    }

    /// The time that the emulated device has spent on a request that it finishes at `finish`.
    pub fn served_of(&self, work: Work, finish: Nanos, now: Nanos) -> Nanos {
        let whole = self.emulated_time(work).unwrap_or(Nanos::ZERO);
        whole.saturating_since(finish.saturating_since(now))
    }

    /// The next request that the emulated device has finished by `now`.
    pub fn finished(&mut self, now: Nanos) -> Option<u64> {
        match self.finishing.peek() {
            Some(&Reverse((finish, token))) if finish <= now => {
                self.finishing.pop();
                Some(token)
            }
            _ => None,
        }
    }

    /// The moment at which the next emulated request finishes.
    pub fn next_finish(&self) -> Option<Nanos> {
        self.finishing.peek().map(|&Reverse((finish, _))| finish)
    }

    /// Ends the service of a request that took `actual` of the device's time, and returns its charge now. `earlier` is
    /// the charge of its parts so far.
    pub fn complete(
        &mut self,
        dispatch: &Dispatch,
        work: Work,
        (actual, earlier): (Nanos, Option<Nanos>),
        now: Nanos,
    ) -> Nanos {
        let charged = self.interrupt(dispatch, work, (actual, earlier), now);
        let whole = earlier.unwrap_or(Nanos::ZERO) + charged;
        self.model.observe(work.direction, work.bytes, whole);
        self.rates.observe(work.direction, work.bytes, whole, now);
        self.served += 1;
        charged
    }

    /// Frees the slot of a request that is not complete, and returns its charge now. An emulated device did all of the
    /// request at once, so that nothing is left to charge for the rest.
    pub fn interrupt(
        &mut self,
        dispatch: &Dispatch,
        work: Work,
        (actual, earlier): (Nanos, Option<Nanos>),
        now: Nanos,
    ) -> Nanos {
        let charged = match self.emulated_time(work) {
            Some(_) if earlier.is_some() => Nanos::ZERO,
            Some(emulated) => emulated,
            // Requests that are in service together divide the device's time, which passes once.
            None => Nanos(actual.0 / self.in_service.max(1) as u64),
        };
        self.in_service -= 1;
        self.dry.retain(|&token| token != dispatch.token.0);
        let worked = self.worked.entry(dispatch.job).or_default();
        *worked = *worked + charged;
        self.busy = self.busy + charged;
        self.anticipation.note_end(dispatch.job, charged, now);
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.complete(dispatch.job, dispatch.cost, charged, now);
        }
        charged
    }

    /// The sender of a request in service has paused, or goes on.
    pub fn note_pause(&mut self, token: u64, is_paused: bool) {
        self.dry.retain(|&other| other != token);
        if is_paused {
            self.dry.push(token);
        }
    }

    /// The requests whose senders have paused while others wait for their slots.
    pub fn idle_slots(&self) -> &[u64] {
        let is_short = !self.has_slot() && self.queued() > 0;
        if is_short {
            &self.dry
        } else {
            &[]
        }
    }

    /// Takes a request out of the queue; false where it is not queued any more.
    pub fn cancel(&mut self, job: JobId, token: u64) -> bool {
        let is_cancelled =
            self.scheduler.as_mut().is_some_and(|scheduler| scheduler.cancel(job, Token(token)));
        if is_cancelled {
            self.anticipation.note_cancellation(job);
        }
        is_cancelled
    }

    /// Forgets a job that ended.
    pub fn remove_job(&mut self, job: JobId, now: Nanos) {
        if self.registered.remove(&job).is_some() {
            self.anticipation.remove(job);
            if let Some(scheduler) = &mut self.scheduler {
                scheduler.remove_job(job, now);
            }
        }
    }

    /// The time of a request on the emulated device, whatever the request is charged.
    fn emulated_time(&self, work: Work) -> Option<Nanos> {
        let speed = self.speed?;
        Some(match work.direction {
            Direction::Read => speed.read.time(work.bytes),
            Direction::Write => speed.write.time(work.bytes),
        })
    }

    /// Measures the demand of its jobs now, by ascending job: a fraction of its time, or (`None`) all that they can get.
    pub fn measure(&mut self, now: Nanos) -> impl Iterator<Item = (JobId, Option<f64>)> + '_ {
        if let Some(scheduler) = &self.scheduler {
            self.usage.measure(now, scheduler.backlogged(now), &scheduler.shares(now));
        }
        self.usage.wanted().iter().copied()
    }

    /// Sets which part of their weights its jobs spend here.
    pub fn set_portions(&mut self, portions: &Portions, now: Nanos) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.set_portions(portions, now);
        }
    }

    /// Continues under another policy.
    pub fn set_sharing(&mut self, sharing: &Sharing) {
        self.scheduler = self.scheduler.take().map(|current| replace_sharing(current, sharing));
    }

    /// Requests waiting.
    pub fn queued(&self) -> usize {
        self.scheduler.as_ref().map_or(0, |scheduler| scheduler.len())
    }

    /// Requests waiting and in service.
    pub fn in_progress(&self) -> usize {
        self.queued() + self.in_service
    }

    /// Every job's account.
    pub fn shares(&self, now: Nanos) -> Vec<JobShare> {
        self.scheduler.as_ref().map_or_else(Vec::new, |scheduler| scheduler.shares(now))
    }

    /// Device time each job received since the last call.
    pub fn take_worked(&mut self) -> HashMap<JobId, Nanos> {
        std::mem::take(&mut self.worked)
    }

    /// Time it worked since it started.
    pub fn busy(&self) -> Nanos {
        self.busy
    }

    /// Requests it served since it started.
    pub fn served(&self) -> u64 {
        self.served
    }
}

/// A connection holds few requests and their number is limited, so the queue's own bounds only guard against bugs.
fn settings(seed: u64) -> Settings {
    Settings { queued_max_per_job: usize::MAX, queued_max_total: usize::MAX, seed, ..Settings::default() }
}

fn model(speed: Option<DeviceSpeed>) -> CostModel {
    match speed {
        Some(speed) => CostModel::known(speed),
        None => CostModel::learned(DeviceSpeed { read: PRIOR, write: PRIOR }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;
    use std::sync::Arc;
    use weir_fairshare::{Entitlement, Entitlements, Holder, Priority, UserId};

    const WRITE: Work = Work { direction: Direction::Write, bytes: 1_000_000 };
    /// A megabyte takes a millisecond, and every request ten microseconds more.
    const WRITE_TIME: Nanos = Nanos::from_micros(1_010);

    fn speed() -> DeviceSpeed {
        let speed = TransferSpeed {
            fixed: Nanos::from_micros(10),
            bytes_per_second: NonZeroU64::new(1_000_000_000).unwrap(),
        };
        DeviceSpeed { read: speed, write: speed }
    }

    fn job(id: u64) -> JobAttributes {
        JobAttributes { priority: Priority(0), ..weir_testing::job(id, id, 1, 1) }
    }

    fn device(speed: Option<DeviceSpeed>) -> Device {
        Device::new(&Sharing::of("job-fair".parse().unwrap()), speed, 0)
    }

    fn millis(number: u64) -> Nanos {
        Nanos::from_millis(number)
    }

    /// A process that wakes up late must not make the device slower than it is said to be.
    #[test]
    fn an_emulated_device_starts_a_request_when_it_became_free_however_late_it_is_asked() {
        let mut device = device(Some(speed()));
        for token in [1, 2] {
            assert!(device.enqueue(job(1), token, WRITE, Nanos::ZERO));
        }
        let first = device.dispatch(Nanos::ZERO).unwrap();
        assert_eq!(device.emulate(&first, WRITE, Nanos::ZERO), Some(WRITE_TIME));
        assert!(device.dispatch(Nanos::ZERO).is_none(), "an emulated device has one slot");
        assert_eq!(device.finished(Nanos(WRITE_TIME.0 - 1)), None);
        let late = millis(5);
        assert_eq!(device.finished(late), Some(1));
        assert_eq!(device.complete(&first, WRITE, (late, None), late), WRITE_TIME);
        let second = device.dispatch(late).unwrap();
        assert_eq!(device.emulate(&second, WRITE, Nanos::ZERO), Some(WRITE_TIME + WRITE_TIME));
        assert_eq!(device.next_finish(), Some(WRITE_TIME + WRITE_TIME));
    }

    /// Requests that are in service together divide the time that passes once.
    #[test]
    fn a_real_device_charges_what_passed_once_to_those_in_service() {
        let mut device = device(None);
        let tokens: Vec<u64> = (0..=SLOTS as u64).collect();
        for &token in &tokens {
            assert!(device.enqueue(job(token), token, WRITE, Nanos::ZERO));
        }
        let in_service: Vec<Dispatch> = std::iter::from_fn(|| device.dispatch(Nanos::ZERO)).collect();
        assert_eq!((in_service.len(), device.queued()), (SLOTS, 1));
        let charged = device.complete(&in_service[0], WRITE, (millis(4), None), millis(4));
        assert_eq!(charged, Nanos(millis(4).0 / SLOTS as u64));
        assert_eq!((device.busy(), device.served()), (charged, 1));
        assert_eq!(device.take_worked(), HashMap::from([(in_service[0].job, charged)]));
        assert!(device.take_worked().is_empty());
    }

    /// The slot of a sender that paused is wanted only while somebody else could use it.
    #[test]
    fn slots_of_paused_senders_are_told_while_others_wait() {
        let mut device = device(None);
        for token in 0..SLOTS as u64 {
            assert!(device.enqueue(job(1), token, WRITE, Nanos::ZERO));
        }
        let in_service: Vec<Dispatch> = std::iter::from_fn(|| device.dispatch(Nanos::ZERO)).collect();
        device.note_pause(2, true);
        assert!(device.idle_slots().is_empty(), "nobody waits");
        assert!(device.enqueue(job(2), 9, WRITE, Nanos::ZERO));
        assert_eq!(device.idle_slots(), [2]);
        let paused = in_service.iter().find(|dispatch| dispatch.token == Token(2)).unwrap();
        let charged = device.interrupt(paused, WRITE, (millis(4), None), millis(4));
        assert!(device.idle_slots().is_empty() && device.served() == 0);
        assert_eq!(device.dispatch(millis(4)).map(|dispatch| dispatch.job), Some(JobId(2)));
        let rest = device.complete(paused, WRITE, (millis(4), Some(charged)), millis(8));
        assert_eq!(device.busy(), charged + rest);
    }

    /// Time in which a limit withheld every request is no time that an emulated device has in hand.
    #[test]
    fn a_device_whose_requests_were_withheld_stood_idle() {
        let mut entitlements = Entitlements::default();
        let tenth = Entitlement { weight: 1.0, reservation: None, limit: Some(0.1) };
        entitlements.grant(Holder::User(UserId(1)), tenth).unwrap();
        let sharing = Sharing::new("job-fair".parse().unwrap(), None, Arc::new(entitlements)).unwrap();
        let mut device = Device::new(&sharing, Some(speed()), 0);
        for token in [1, 2] {
            assert!(device.enqueue(job(1), token, WRITE, Nanos::ZERO));
        }
        let first = device.dispatch(Nanos::ZERO).unwrap();
        let finish = device.emulate(&first, WRITE, Nanos::ZERO).unwrap();
        assert_eq!(device.finished(finish), Some(1));
        device.complete(&first, WRITE, (finish, None), finish);
        assert!(device.dispatch(finish).is_none());
        let release = device.next_release().expect("the limit ends some time");
        assert!(release > finish);
        let second = device.dispatch(release).unwrap();
        assert_eq!(device.emulate(&second, WRITE, Nanos::ZERO), Some(release + WRITE_TIME));
    }
}
