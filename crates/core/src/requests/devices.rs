//! The devices of a server, and the turns of requests at them.

use super::order::Place;
use super::request::InHand;
use crate::accounts::observed::Kind;
use crate::accounts::served::Served;
use crate::accounts::Accounts;
use crate::clock::Clock;
use crate::config::{ServerConfig, SpeedConfig};
use crate::requests::request::Token;
use std::collections::HashMap;
use weir_device::{Activity, Device, Statistics, Work};
use weir_fairshare::{DeviceSpeed, Direction, Dispatch, JobAttributes, JobId, Nanos, Portions, Sharing};
use weir_wire::{Errno, Request};

/// The price of a synchronisation is learned.
const SYNC: Work = Work { direction: Direction::Write, bytes: 0 };

/// One device for each target, and the metadata device last.
pub(crate) struct Devices {
    devices: Vec<Device>,
    /// One for each device.
    activities: Vec<Activity>,
    /// One for each device.
    served: Vec<Served>,
    sharing: Sharing,
    syncs: Syncs,
    /// The device that is served next.
    next: usize,
    /// A device was left unserved when the time of its turn was over.
    is_unserved: bool,
    /// A device has ended a request since the last exchange of reports.
    was_busy: bool,
}

/// Synchronisations of objects. They never wait behind data, but for each other: all together have some of the workers,
/// and these are divided by the policy.
struct Syncs {
    device: Device,
    waiting: HashMap<usize, ObjectSync>,
}

/// The synchronisation of one object, for the request that asked for it.
pub(crate) struct ObjectSync {
    pub(crate) token: Token,
    /// The object.
    pub(crate) place: Place,
}

impl Devices {
    /// The devices of one server.
    pub(crate) fn new(own: &ServerConfig, sharing: Sharing, boot: u64) -> Devices {
        let mut devices = Vec::new();
        for (index, target) in own.targets.iter().enumerate() {
            let speed = target.speed.as_ref().map(SpeedConfig::device_speed);
            devices.push(Device::new(&sharing, speed, boot ^ index as u64));
        }
        let metadata_speed = own.metadata_speed.as_ref().map(SpeedConfig::device_speed);
        devices.push(Device::new(&sharing, metadata_speed, !boot));
        let device = Device::new(&Sharing::of(sharing.policy().clone()), None, 0);
        let syncs = Syncs { device, waiting: HashMap::new() };
        let activities = vec![Activity::default(); devices.len()];
        let served = vec![Served::default(); devices.len()];
        Devices { devices, activities, served, sharing, syncs, next: 0, is_unserved: false, was_busy: false }
    }

    /// Takes in the device of one more target: the number of the metadata device grows by one. The caller renumbers it in
    /// requests and accounts.
    pub(crate) fn add(&mut self, speed: Option<&SpeedConfig>, boot: u64) {
        let index = self.metadata();
        let device = Device::new(&self.sharing, speed.map(SpeedConfig::device_speed), boot ^ index as u64);
        self.devices.insert(index, device);
        self.activities.insert(index, Activity::default());
        self.served.insert(index, Served::default());
    }

    /// All devices.
    pub(crate) fn all(&self) -> &[Device] {
        &self.devices
    }

    /// All devices, to measure and account them.
    pub(crate) fn all_mut(&mut self) -> &mut [Device] {
        &mut self.devices
    }

    /// The number of the metadata device.
    pub(crate) fn metadata(&self) -> usize {
        self.devices.len() - 1
    }

    /// The next request that the emulated device has finished.
    pub(crate) fn finished(&mut self, device: usize, now: Nanos) -> Option<usize> {
        self.devices[device].finished(now).map(|number| number as usize)
    }

    /// The request to serve next, while a slot is free.
    pub(crate) fn dispatch(&mut self, device: usize, now: Nanos) -> Option<Dispatch> {
        self.devices[device].dispatch(now)
    }

    /// Frees the slot of a turn without a request.
    pub(crate) fn withdraw(&mut self, device: usize, dispatch: &Dispatch, now: Nanos) {
        self.count_time(device, now);
        let nothing = Work { direction: Direction::Read, bytes: 0 };
        self.devices[device].interrupt(dispatch, nothing, (Nanos::ZERO, None), now);
    }

    /// Requests whose senders have paused while others wait for their slots.
    pub(crate) fn idle_slots(&self, device: usize) -> impl Iterator<Item = usize> + '_ {
        self.devices[device].idle_slots().iter().map(|&number| number as usize)
    }

    /// Notes whether the sender of a request with a slot has paused.
    pub(crate) fn note_pause(&mut self, number: usize, request: &InHand, is_paused: bool) {
        if let (Some(device), true) = (request.device(), request.has_slot()) {
            self.devices[device].note_pause(number as u64, is_paused);
        }
    }

    /// Queues a request at its device, for all that is left to do; false where the device does not take it.
    pub(crate) fn enqueue(&mut self, number: usize, request: &InHand, now: Nanos) -> bool {
        let Some(account) = &request.account else { return false };
        self.count_time(account.device(), now);
        let mut work = account.work();
        if account.is_begun() {
            work.bytes = request.arrival.left() as u64;
        }
        let attributes = request.sender.acting.attributes;
        let device = &mut self.devices[account.device()];
        let is_queued = device.enqueue(attributes, number as u64, work, request.arrived());
        self.was_busy |= is_queued;
        is_queued
    }

    /// Takes a request out of its queue; false where it is not queued any more.
    pub(crate) fn cancel(&mut self, number: usize, request: &InHand, now: Nanos) -> bool {
        let job = request.sender.acting.attributes.job;
        let Some(device) = request.device() else { return false };
        self.count_time(device, now);
        self.devices[device].cancel(job, number as u64)
    }

    /// A request has its turn and its slot.
    pub(crate) fn begin(&mut self, request: &mut InHand, dispatch: Dispatch, accounts: &mut Accounts) {
        let (arrived, job) = (request.arrived(), request.sender.acting.job);
        if let Some(account) = &mut request.account {
            let device = account.device();
            account.begin(dispatch, &mut self.devices[device], arrived);
        }
        if let Some(job) = accounts.jobs().job_mut(job) {
            job.dispatched(&dispatch);
        }
    }

    /// Takes the slot of a request that cannot go on now; when it can it is queued again. False where it has none.
    pub(crate) fn interrupt(&mut self, request: &mut InHand, accounts: &mut Accounts, now: Nanos) -> bool {
        let Some(account) = &mut request.account else { return false };
        let device = account.device();
        self.count_time(device, now);
        let Some(spent) = account.interrupt(&mut self.devices[device], now) else { return false };
        if let Some(job) = accounts.jobs().job_mut(request.sender.acting.job) {
            job.spend(device, spent);
        }
        self.was_busy = true;
        true
    }

    /// Frees the slot of a request that is served, if it has one, and accounts the time that it took.
    pub(crate) fn complete(&mut self, request: &mut InHand, accounts: &mut Accounts, clock: &Clock) {
        let Some(account) = &mut request.account else { return };
        let index = account.device();
        let ended = clock.within_step();
        self.count_time(index, clock.now());
        let device = &mut self.devices[index];
        let Some(spent) = account.complete(device, clock.now(), ended) else { return };
        let (work, took) = (account.work(), ended.saturating_since(request.arrived()));
        self.activities[index].complete(work.direction, work.bytes, took);
        self.served[index].complete(work.direction, work.bytes, took);
        self.was_busy = true;
        accounts.account_if_due(&mut self.devices, clock);
        let Some(job) = accounts.jobs().job_mut(request.sender.acting.job) else { return };
        job.spend(index, spent);
        job.count(index, kind_of(&request.request), work.bytes, (took, ended));
    }

    /// A request was answered with an error.
    pub(crate) fn fail(&mut self, request: &InHand, error: Errno) {
        if let Some(device) = request.device() {
            self.served[device].fail(error);
        }
    }

    /// The requests that each device has served.
    pub(crate) fn served(&self) -> &[Served] {
        &self.served
    }

    /// Counts the time of the requests in progress, before their number changes.
    fn count_time(&mut self, device: usize, now: Nanos) {
        self.activities[device].count_time(self.devices[device].in_progress(), now);
    }

    /// Takes a sample of every device.
    pub(crate) fn sample(&mut self, now: Nanos) {
        for (activity, device) in self.activities.iter_mut().zip(&self.devices) {
            activity.sample(device.in_progress(), device.busy(), now);
        }
    }

    /// Ends the window of every device.
    pub(crate) fn reduce(&mut self) -> Vec<Statistics> {
        self.activities.iter_mut().map(Activity::reduce).collect()
    }

    /// Begins to serve the devices in this turn of the loop.
    pub(crate) fn begin_turn(&mut self) {
        self.is_unserved = false;
    }

    /// The device that is served now; the next turn begins with the one after it.
    pub(crate) fn take_next(&mut self) -> usize {
        let device = self.next;
        self.next = (device + 1) % self.devices.len();
        device
    }

    /// The time of this turn is over before every device was served.
    pub(crate) fn leave_unserved(&mut self) {
        self.is_unserved = true;
    }

    /// Whether a device was left unserved.
    pub(crate) fn is_unserved(&self) -> bool {
        self.is_unserved
    }

    /// Whether a device was busy since the last call of [`Devices::end_interval`].
    pub(crate) fn was_busy(&self) -> bool {
        self.was_busy
    }

    /// An interval between exchanges ended.
    pub(crate) fn end_interval(&mut self) {
        self.was_busy = false;
    }

    /// The moments at which a device has something to do even if nothing arrives.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Nanos> + '_ {
        let finishes = self.devices.iter().filter_map(Device::next_finish);
        finishes.chain(self.devices.iter().filter_map(Device::next_release))
    }

    /// The division of device time among jobs.
    pub(crate) fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    /// Continues under another division.
    pub(crate) fn set_sharing(&mut self, sharing: Sharing) {
        for device in &mut self.devices {
            device.set_sharing(&sharing);
        }
        self.syncs.device.set_sharing(&Sharing::of(sharing.policy().clone()));
        self.sharing = sharing;
    }

    /// Emulates another speed on a device, or none.
    pub(crate) fn set_speed(&mut self, device: usize, speed: Option<DeviceSpeed>) {
        self.devices[device].set_speed(speed);
    }

    /// Divides a device by these portions.
    pub(crate) fn set_portions(&mut self, device: usize, portions: &Portions, now: Nanos) {
        self.devices[device].set_portions(portions, now);
    }

    /// Forgets a job that ended.
    pub(crate) fn remove_job(&mut self, job: JobId, now: Nanos) {
        for device in &mut self.devices {
            device.remove_job(job, now);
        }
        self.syncs.device.remove_job(job, now);
    }

    /// Queues the synchronisation of an object.
    pub(crate) fn queue_sync(&mut self, sync: ObjectSync, attributes: JobAttributes, now: Nanos) {
        let number = sync.token.number();
        self.syncs.waiting.insert(number, sync);
        self.syncs.device.enqueue(attributes, number as u64, SYNC, now);
    }

    /// The next synchronisation that has its turn.
    pub(crate) fn take_sync(&mut self, now: Nanos) -> Option<(Dispatch, ObjectSync)> {
        loop {
            let dispatch = self.syncs.device.dispatch(now)?;
            match self.syncs.waiting.remove(&(dispatch.token.0 as usize)) {
                Some(sync) => return Some((dispatch, sync)),
                None => _ = self.syncs.device.interrupt(&dispatch, SYNC, (Nanos::ZERO, None), now),
            }
        }
    }

    /// A synchronisation ended, and took so long.
    pub(crate) fn end_sync(&mut self, dispatch: &Dispatch, service: Nanos, now: Nanos) {
        self.syncs.device.complete(dispatch, SYNC, (service, None), now);
    }
}

/// The kind of a request, for the counts of its job.
fn kind_of(request: &Request) -> Kind {
    match request {
        Request::Read { .. } => Kind::Read,
        Request::Write { .. } | Request::Append { .. } => Kind::Write,
        Request::Attributes { .. }
        | Request::Layout { .. }
        | Request::Access { .. }
        | Request::ReadLink { .. }
        | Request::XattrGet { .. }
        | Request::XattrList { .. } => Kind::Stat,
        Request::Open { .. } => Kind::Open,
        Request::List { .. } => Kind::List,
        Request::Make { .. } | Request::Symlink { .. } | Request::Link { .. } => Kind::Make,
        Request::Unlink { .. } => Kind::Remove,
        Request::Rename { .. } => Kind::Rename,
        _ => Kind::Change,
    }
}
