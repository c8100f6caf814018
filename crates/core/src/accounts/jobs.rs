//! The job table: the jobs that have been here, their work, and the device time that they were owed and received.

use crate::accounts::delays::{Delays, Receivers, WaitedForLine};
use crate::accounts::device_account::{Accounted, DeviceAccount, DeviceLine, Interval};
use crate::accounts::observed::{Kind, Observed, ObservedLine, ObservedOf};
use crate::accounts::waits::{WaitSummary, Waits};
use crate::accounts::work::{Sum, User, Users, Work};
use crate::clock::seconds;
use serde::Serialize;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use weir_device::{Debt, Debts};
use weir_fairshare::{Dispatch, JobAttributes, JobShare, Nanos};
use weir_wire::{job_attributes, Claims, DeviceUse, JobId, JobReport};

/// Time of silence after which a job has no place in devices and in reports to other servers.
const RETIREMENT: Nanos = Nanos::from_millis(600_000);
/// Jobs remembered at once; beyond it the longest silent one is forgotten first.
const JOBS_MAX: usize = 20_000;
/// Jobs by name in the list of the delays of a job; the server knows some more, and the rest as a sum.
const WAITED_FOR_SHOWN: usize = 8;

/// Encoded bytes of a job's report beside its names, at most.
const REPORT_FIXED_BYTES: usize = 64;
/// Encoded bytes of a job's use of one device, at most.
const USE_BYTES: usize = 6;
/// Most bytes of all jobs' reports: a frame's payload, less the reports of the targets.
const REPORTS_BYTES_MAX: usize = weir_wire::limits::PAYLOAD_BYTES - 64 * 1024;

/// The names and attributes that a job is accounted under.
#[derive(Debug)]
pub(crate) struct JobIdentity {
    name: String,
    user: String,
    group: String,
    uid: u32,
    attributes: JobAttributes,
}

/// Everything a server knows of one job.
pub(crate) struct Job {
    identity: Rc<JobIdentity>,
    connections: usize,
    last_seen: Nanos,
    /// The last moment at which another server reported it.
    reported: Nanos,
    /// Whether it has no place in devices and reports: it was silent for [`RETIREMENT`], or has never been at this server.
    is_retired: bool,
    work: Work,
    /// The sum of the work of all jobs of its user.
    user: Sum,
    waits: Waits,
    delays: Delays,
    /// Its account with each device that it has used.
    devices: Vec<DeviceAccount>,
    /// Device time that the server gave to anybody while this job was active at any server of the store, the part of it that
    /// was given under a policy that owes shares, and the part of that which was owed to the job.
    contended: f64,
    owing: f64,
    owed: f64,
    received: f64,
    active: bool,
}

/// One line of `weir jobs`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct JobLine {
    pub(crate) job: String,
    pub(crate) id: String,
    pub(crate) user: String,
    pub(crate) group: String,
    pub(crate) uid: u32,
    pub(crate) nodes: u32,
    pub(crate) priority: u32,
    pub(crate) active: bool,
    pub(crate) connections: usize,
    pub(crate) operations: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    /// Device time that its requests were charged when they were dispatched, as the cost model expected it.
    pub(crate) charged_seconds: f64,
    /// Device time that they really took.
    pub(crate) device_seconds: f64,
    pub(crate) queue_wait_seconds_median: f64,
    pub(crate) queue_wait_seconds_p90: f64,
    pub(crate) queue_wait_seconds_p99: f64,
    pub(crate) queue_wait_seconds_max: f64,
    /// Sum over requests.
    pub(crate) queue_wait_seconds_total: f64,
    /// Device time that others received while it had requests queued, the greatest first.
    pub(crate) waited_for: Vec<WaitedForLine>,
    /// The same of all others together.
    pub(crate) waited_for_others_seconds: f64,
    /// The devices that it has used.
    pub(crate) devices: Vec<DeviceLine>,
    /// Device time that this server gave to anybody while the job was active at any server, the part of it that was given under
    /// a policy that owes shares, and the parts that were owed to the job and received; sums over servers give its shares of the
    /// whole store.
    pub(crate) contended_seconds: f64,
    pub(crate) owing_seconds: f64,
    pub(crate) owed_seconds: f64,
    pub(crate) received_seconds: f64,
    /// Share of this server's device time that the policy owed the job while it was active at any server; absent before it was,
    /// and under `fifo`.
    pub(crate) share_owed: Option<f64>,
    /// Share that it received.
    pub(crate) share_received: Option<f64>,
    pub(crate) last_seen_seconds: f64,
}

/// A job as it is shown.
#[derive(Clone, Debug)]
pub(crate) struct ShownJob {
    pub(crate) line: JobLine,
    pub(crate) waits: Arc<WaitSummary>,
}

/// The jobs of one server.
#[derive(Default)]
pub(crate) struct Jobs {
    jobs: HashMap<JobId, Job>,
    users: Users,
    /// The jobs that are active at other servers.
    elsewhere: HashSet<JobId>,
    /// The debts of each device in its present window.
    debts: Vec<Debts>,
}

impl Jobs {
    /// Enters the job of `claims`, or notes that it is still there. The answer names the job when it comes again.
    pub(crate) fn meet(&mut self, claims: &Claims, now: Nanos) -> Rc<JobIdentity> {
        let identity = Rc::new(JobIdentity::of(claims));
        self.meet_again(&identity, now).identity = Rc::clone(&identity);
        identity
    }

    /// Notes that a job is still there. A job that was silent for so long that it was forgotten is entered anew.
    pub(crate) fn meet_again(&mut self, identity: &Rc<JobIdentity>, now: Nanos) -> &mut Job {
        let job = self
            .jobs
            .entry(identity.attributes.job)
            .or_insert_with(|| Job::new(Rc::clone(identity), self.users.sum(identity.user()), now));
        job.note_sign_of_life(now);
        job
    }

    /// Every user whose jobs have been here, with the sum of their work.
    pub(crate) fn users(&self) -> Vec<(User, Work)> {
        self.users.all()
    }

    pub(crate) fn job_mut(&mut self, id: JobId) -> Option<&mut Job> {
        self.jobs.get_mut(&id)
    }

    /// The number of the metadata device grew to this one.
    pub(crate) fn renumber_metadata(&mut self, metadata: usize) {
        if self.debts.len() >= metadata {
            self.debts.insert(metadata - 1, Debts::default());
        }
        for device in self.jobs.values_mut().filter_map(|job| job.devices.last_mut()) {
            device.renumber_metadata(metadata);
        }
    }

    /// Begins an accounting interval: nobody is active until a device says so.
    pub(crate) fn begin_interval(&mut self) {
        for job in self.jobs.values_mut() {
            job.active = false;
        }
    }

    /// Notes the jobs that other servers report. An active job that was never here is entered too, because the time that is
    /// given here meanwhile counts for its shares of the whole store.
    pub(crate) fn note_elsewhere<'a>(&mut self, reports: impl Iterator<Item = &'a JobReport>, now: Nanos) {
        self.elsewhere.clear();
        for report in reports {
            let is_active = report.active || !report.uses.is_empty();
            let has_room = self.jobs.len() < JOBS_MAX;
            let job = match self.jobs.entry(report.job) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) if is_active && has_room => {
                    let identity = Rc::new(JobIdentity::reported(report));
                    let user = self.users.sum(identity.user());
                    place.insert(Job { is_retired: true, ..Job::new(identity, user, now) })
                }
                Entry::Vacant(_) => continue,
            };
            job.reported = now;
            if is_active {
                self.elsewhere.insert(report.job);
            }
        }
    }

    /// Accounts an interval of all devices, each with its number. The time that they gave counts for every job that was active
    /// at one of them or at another server, so that the shares of jobs that are active at the same times have one denominator.
    pub(crate) fn account(&mut self, intervals: &[(usize, Interval<'_>)]) {
        if let Some((_, Interval { began, .. })) = intervals.first() {
            self.settle(|debts| debts.is_due(*began));
        }
        let (mut given, mut owing) = (0.0, 0.0);
        let mut concerned = self.elsewhere.clone();
        for (device, interval) in intervals {
            let of_device: f64 = interval.received.values().map(|&time| seconds(time)).sum();
            given += of_device;
            if interval.shares.iter().any(|share| share.owed.is_some()) {
                owing += of_device;
            }
            self.account_device(*device, interval, of_device, &mut concerned);
        }
        for id in concerned {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            job.contended += given;
            job.owing += owing;
        }
    }

    /// Accounts the interval of a device that gave so many seconds, and adds the jobs that were active there to `active`.
    fn account_device(
        &mut self,
        device: usize,
        interval: &Interval<'_>,
        given: f64,
        active: &mut HashSet<JobId>,
    ) {
        let receivers = Receivers::of(interval.received);
        if device >= self.debts.len() {
            self.debts.resize_with(device + 1, Debts::default);
        }
        let concerned = |share: &&JobShare| share.active || interval.received.contains_key(&share.job);
        for share in interval.shares.iter().filter(concerned) {
            let id = share.job;
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let own = interval.received.get(&share.job).map_or(0.0, |&time| seconds(time));
            active.insert(id);
            job.received += own;
            job.active |= share.active;
            let account = job.device_account(device);
            let queued_part = account.note(share, interval);
            if let Some(owed) = share.owed {
                let waited = queued_part * seconds(interval.ended.saturating_since(interval.began));
                let debt = Debt { promised: given * owed, used: own, waited };
                self.debts[device].add(id, debt, (interval.began, interval.ended));
            }
            if queued_part > 0.0 {
                account.observed().wait(id, own, queued_part, &receivers);
                job.delays.add(id, own, queued_part, &receivers);
            }
        }
    }

    /// Settles the debts of devices.
    fn settle(&mut self, is_due: impl Fn(&Debts) -> bool) {
        for debts in self.debts.iter_mut().filter(|debts| is_due(debts)) {
            for (id, seconds) in debts.settle() {
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.owed += seconds;
                }
            }
        }
    }

    /// Retires jobs that have been silent for [`RETIREMENT`], and forgets jobs that have been silent for longer than finished
    /// jobs are `kept`. Returns the jobs that lose their places in devices.
    pub(crate) fn expire(&mut self, now: Nanos, kept: Nanos) -> Vec<JobId> {
        let (mut leaving, mut gone) = (Vec::new(), Vec::new());
        for (&id, job) in self.jobs.iter_mut().filter(|(_, job)| job.connections == 0) {
            let silent = now.saturating_since(job.last_seen);
            if silent > RETIREMENT.min(kept) && !std::mem::replace(&mut job.is_retired, true) {
                leaving.push(id);
            }
            if silent > kept && now.saturating_since(job.reported) > kept {
                gone.push(id);
            }
        }
        let excess = (self.jobs.len() - gone.len()).saturating_sub(JOBS_MAX);
        if excess > 0 {
            let mut idle: Vec<_> = self.jobs.iter().filter(|(_, job)| job.connections == 0).collect();
            idle.sort_by_key(|(_, job)| job.last_seen.max(job.reported));
            let forgotten = &idle[..idle.len().min(gone.len() + excess)];
            leaving.extend(forgotten.iter().filter(|(_, job)| !job.is_retired).map(|(&id, _)| id));
            gone = forgotten.iter().map(|(&id, _)| id).collect();
        }
        for id in &gone {
            self.jobs.remove(id);
        }
        leaving
    }

    /// The jobs there are now.
    pub(crate) fn ids(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }

    /// A job's line of the table, for people, and its waits; none where it was forgotten. `accounted` tells of each device.
    pub(crate) fn shown(&mut self, id: JobId, now: Nanos, accounted: &[Accounted]) -> Option<ShownJob> {
        self.settle(|_| true);
        let waits = self.jobs.get_mut(&id)?.waits.summary();
        let job = self.jobs.get(&id)?;
        let devices = job.devices.iter().map(|device| device.line(accounted)).collect();
        let line = JobLine { devices, ..job.line(id, now, &waits, self.waited_for(&job.delays)) };
        Some(ShownJob { line, waits })
    }

    /// The delays of a job, the greatest first, and the sum of the delays that are not shown or whose jobs are not known any more.
    fn waited_for(&self, delays: &Delays) -> (Vec<WaitedForLine>, f64) {
        let (greatest, mut others) = delays.greatest(WAITED_FOR_SHOWN);
        let mut lines: Vec<WaitedForLine> = Vec::with_capacity(greatest.len());
        for (id, seconds) in greatest {
            let Some(other) = self.jobs.get(&id) else {
                others += seconds;
                continue;
            };
            let JobIdentity { name, user, uid, .. } = &*other.identity;
            lines.push(WaitedForLine { job: name.clone(), user: user.clone(), uid: *uid, seconds });
        }
        (lines, others)
    }

    /// Takes the work and the waits of every job on every device since the last call: at most `count` lines, those with the
    /// most time in progress or waited; answers the number of the others, too.
    pub(crate) fn take_observed(&mut self, count: usize) -> (Vec<ObservedLine>, usize) {
        let mut taken: Vec<(JobId, usize, Observed)> = Vec::new();
        for (&id, job) in &mut self.jobs {
            let observed = job
                .devices
                .iter_mut()
                .filter_map(|account| Some((account.device(), account.take_observed()?)));
            taken.extend(observed.map(|(device, observed)| (id, device, observed)));
        }
        let left_out = taken.len().saturating_sub(count);
        if left_out > 0 {
            taken.select_nth_unstable_by(count, |left, right| right.2.weight().total_cmp(&left.2.weight()));
            taken.truncate(count);
        }
        let line = |(id, device, observed): &(JobId, usize, Observed)| {
            let JobIdentity { name, user, uid, .. } = &*self.jobs.get(id)?.identity;
            let of = ObservedOf { job: name.clone(), user: user.clone(), uid: *uid, device: *device };
            Some(observed.line(of, self.waited_for(observed.delays())))
        };
        let mut lines: Vec<ObservedLine> = taken.iter().filter_map(line).collect();
        lines.sort_by(|left, right| left.order().cmp(&right.order()));
        (lines, left_out)
    }

    /// The jobs that are not retired, for other servers; where the table does not fit one frame, without the jobs that do nothing
    /// and have been silent for longest. `uses` is the use that each job makes of this server's devices now.
    pub(crate) fn reports(&self, mut uses: HashMap<JobId, Vec<DeviceUse>>) -> Vec<JobReport> {
        let report = |(&id, job): (&JobId, &Job)| JobReport {
            job: id,
            name: job.identity.name.clone(),
            user: job.identity.user.clone(),
            group: job.identity.group.clone(),
            uid: job.identity.uid,
            nodes: job.identity.attributes.nodes,
            priority: job.identity.attributes.priority.0,
            active: job.active,
            device_seconds: seconds(job.work.device),
            uses: uses.remove(&id).unwrap_or_default(),
        };
        let length = |report: &JobReport| {
            let names = report.name.len() + report.user.len() + report.group.len();
            REPORT_FIXED_BYTES + names + USE_BYTES * report.uses.len()
        };
        let present = self.jobs.iter().filter(|(_, job)| !job.is_retired);
        let mut reports: Vec<JobReport> = present.map(report).collect();
        if reports.iter().map(length).sum::<usize>() > REPORTS_BYTES_MAX {
            let last_seen = |report: &JobReport| self.jobs.get(&report.job).map(|job| job.last_seen);
            reports
                .sort_by_cached_key(|report| (report.uses.is_empty(), std::cmp::Reverse(last_seen(report))));
            let mut total = 0;
            reports.retain(|report| {
                total += length(report);
                total <= REPORTS_BYTES_MAX
            });
        }
        reports
    }
}

impl JobIdentity {
    fn of(claims: &Claims) -> JobIdentity {
        JobIdentity {
            name: claims.job.clone(),
            user: claims.user.clone(),
            group: claims.group.clone(),
            uid: claims.uid,
            attributes: attributes(claims),
        }
    }

    fn reported(report: &JobReport) -> JobIdentity {
        let JobReport { job, name, user, group, uid, nodes, priority, .. } = report;
        JobIdentity {
            name: name.clone(),
            user: user.clone(),
            group: group.clone(),
            uid: *uid,
            attributes: job_attributes(*job, (name, user, group), *nodes, *priority),
        }
    }

    fn user(&self) -> User {
        User { name: self.user.clone(), group: self.group.clone(), uid: Some(self.uid) }
    }

    /// The attributes for the policy.
    pub(crate) fn attributes(&self) -> JobAttributes {
        self.attributes
    }
}

impl Job {
    fn new(identity: Rc<JobIdentity>, user: Sum, now: Nanos) -> Job {
        Job {
            identity,
            user,
            connections: 0,
            last_seen: now,
            reported: Nanos::ZERO,
            is_retired: false,
            work: Work::default(),
            waits: Waits::default(),
            delays: Delays::default(),
            devices: Vec::new(),
            contended: 0.0,
            owing: 0.0,
            owed: 0.0,
            received: 0.0,
            active: false,
        }
    }

    /// A request is dispatched: it waited, and is charged.
    pub(crate) fn dispatched(&mut self, dispatch: &Dispatch) {
        self.waits.note(dispatch.waited);
        self.note(Work { charged: dispatch.cost, ..Work::default() });
    }

    /// A device served a request of the job with `bytes` bytes, which ended at `ended`, `took` after its arrival.
    pub(crate) fn count(&mut self, device: usize, kind: Kind, bytes: u64, (took, ended): (Nanos, Nanos)) {
        let bytes_of = |other: Kind| if kind == other { bytes } else { 0 };
        let (bytes_read, bytes_written) = (bytes_of(Kind::Read), bytes_of(Kind::Write));
        self.note(Work { operations: 1, bytes_read, bytes_written, ..Work::default() });
        self.device_account(device).observed().complete(kind, bytes, took, ended);
    }

    /// The job closed a file, which no device serves.
    pub(crate) fn count_close(&mut self, metadata: usize) {
        self.device_account(metadata).observed().close();
    }

    fn note(&mut self, more: Work) {
        self.work += more;
        let mut sum = self.user.get();
        sum += more;
        self.user.set(sum);
    }

    /// The job gave a sign of life.
    fn note_sign_of_life(&mut self, now: Nanos) {
        self.last_seen = now;
        self.is_retired = false;
    }

    /// A connection of the job was proved.
    pub(crate) fn connected(&mut self) {
        self.connections += 1;
    }

    /// A connection of the job ended.
    pub(crate) fn disconnected(&mut self, now: Nanos) {
        self.connections = self.connections.saturating_sub(1);
        self.last_seen = now;
    }

    /// A device has worked for it.
    pub(crate) fn spend(&mut self, device: usize, actual: Nanos) {
        self.note(Work { device: actual, ..Work::default() });
        let account = self.device_account(device);
        account.spend(actual);
    }

    fn device_account(&mut self, device: usize) -> &mut DeviceAccount {
        let found = self.devices.binary_search_by_key(&device, DeviceAccount::device);
        let index = found.unwrap_or_else(|index| {
            self.devices.insert(index, DeviceAccount::new(device));
            index
        });
        &mut self.devices[index]
    }

    /// Share of this server's device time that the policy owed the job while it was active at any server.
    pub(crate) fn share_owed(&self) -> Option<f64> {
        (self.owing > 0.0).then(|| self.owed / self.owing)
    }

    /// Share of this server's device time that it received while it was active at any server.
    pub(crate) fn share_received(&self) -> Option<f64> {
        (self.contended > 0.0).then(|| self.received / self.contended)
    }

    /// All of its line but its devices.
    fn line(
        &self,
        id: JobId,
        now: Nanos,
        waits: &WaitSummary,
        waited_for: (Vec<WaitedForLine>, f64),
    ) -> JobLine {
        JobLine {
            job: self.identity.name.clone(),
            id: id.to_string(),
            user: self.identity.user.clone(),
            group: self.identity.group.clone(),
            uid: self.identity.uid,
            nodes: self.identity.attributes.nodes,
            priority: self.identity.attributes.priority.0,
            active: self.active,
            connections: self.connections,
            operations: self.work.operations,
            bytes_read: self.work.bytes_read,
            bytes_written: self.work.bytes_written,
            charged_seconds: seconds(self.work.charged),
            device_seconds: seconds(self.work.device),
            queue_wait_seconds_median: waits.median,
            queue_wait_seconds_p90: waits.p90,
            queue_wait_seconds_p99: waits.p99,
            queue_wait_seconds_max: waits.max,
            queue_wait_seconds_total: waits.total,
            waited_for: waited_for.0,
            waited_for_others_seconds: waited_for.1,
            devices: Vec::new(),
            contended_seconds: self.contended,
            owing_seconds: self.owing,
            owed_seconds: self.owed,
            received_seconds: self.received,
            share_owed: self.share_owed(),
            share_received: self.share_received(),
            last_seen_seconds: seconds(now.saturating_since(self.last_seen)),
        }
    }
}

/// The attributes of the job of `claims`, for the policy.
pub(crate) fn attributes(claims: &Claims) -> JobAttributes {
    let Claims { job, user, group, nodes, priority, .. } = claims;
    job_attributes(claims.job_id(), (job, user, group), *nodes, *priority)
}

#[cfg(test)]
mod tests;
