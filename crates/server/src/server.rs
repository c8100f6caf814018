//! The server's state, how it starts, and what it does from time to time.

use crate::accounts::jobs::{Interval, Jobs};
use crate::accounts::machine::Machine;
use crate::config::ClusterConfig;
use crate::control::showing::Showing;
use crate::control::Question;
use crate::descriptors::Budget;
use crate::error::ServerError;
use crate::events::Events;
use crate::journal::{Journal, Losses};
use crate::links::admission::Admission;
use crate::links::clients::{Clients, Held, Waiting};
use crate::links::memory::Memory;
use crate::links::Link;
use crate::locks::LockTable;
use crate::namespace::{Change, IntentId, Namespace, Settings};
use crate::notices::notice;
use crate::notices::Notices;
use crate::peers::confirmations::Confirmations;
use crate::peers::fairness::device_number;
use crate::peers::reports::Reports;
use crate::peers::Peer;
use crate::requests::data::{Errand, Syncs};
use crate::requests::durability::Durability;
use crate::requests::intake::Intake;
use crate::requests::metadata::Continued;
use crate::requests::room::Room;
use crate::requests::service::Pending;
use crate::requests::watch::Watches;
use crate::storage::Reserve;
use crate::storage::Target;
use crate::workers::Workers;
use slab::Slab;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_device::{Device, Health, Load};
use weir_fairshare::{Algorithm, Nanos, Policy, Sharing, SharingError};
use weir_placement::ServerId;
use weir_wire::{
    ClientId, DeviceUse, Ino, JobId, MachineLoad, Moment, RequestId, Sequence, ServerAddress, ServerReport,
    SiteKey,
};

/// Inodes of one server: about half a kilobyte each in memory.
const INODES_MAX: u64 = 32 << 20;
/// How long after a restart only locks and files held before it are given out.
const RECLAIM_GRACE: Nanos = Nanos::from_millis(10_000);
/// How often silent clients and jobs are looked for.
const EXPIRY_INTERVAL: Nanos = Nanos::from_millis(500);

/// Shares are accounted at most this often: a fifth of the time for which a job stays active after a request.
const ACCOUNT_PAUSE_MIN: Nanos = Nanos::from_millis(1);
/// With many jobs less often, so that accounting takes at most a fiftieth of the loop's time.
const ACCOUNT_COST_FACTOR: u64 = 50;

/// When the shares of a device's jobs were last accounted, and when they are again at the earliest.
#[derive(Clone, Copy, Default)]
pub(crate) struct Accounting {
    pub(crate) last: Nanos,
    next: Nanos,
}

/// One server of a store.
pub(crate) struct Server {
    pub(crate) id: ServerId,
    pub(crate) boot: u64,
    pub(crate) key: SiteKey,
    pub(crate) config: ClusterConfig,
    pub(crate) sharing: Sharing,
    pub(crate) registry: mio::Registry,
    pub(crate) events: Events,
    pub(crate) links: Slab<Link>,
    pub(crate) link_serial: u64,
    pub(crate) pending: Slab<Pending>,
    pub(crate) clients: Clients,
    pub(crate) jobs: Jobs,
    pub(crate) locks: LockTable,
    pub(crate) watches: Watches,
    pub(crate) confirmations: Confirmations,
    pub(crate) namespace: Namespace,
    pub(crate) journal: Option<Journal<Change>>,
    /// Room for removals and a start, of a durable store.
    pub(crate) reserve: Option<Reserve>,
    /// The journal's file system had no room at the last record.
    pub(crate) is_journal_full: bool,
    pub(crate) targets: Vec<Target>,
    /// One for each target, and the metadata device last.
    pub(crate) devices: Vec<Device>,
    pub(crate) loads: Vec<Load>,
    pub(crate) accounting: Vec<Accounting>,
    pub(crate) machine: Machine,
    /// Of each target.
    pub(crate) health: Vec<Health>,
    pub(crate) workers: Workers,
    pub(crate) errands: Slab<Errand>,
    pub(crate) peers: HashMap<ServerId, Peer>,
    pub(crate) addresses: HashMap<ServerId, ServerAddress>,
    /// What the other servers said last, and what this one says now.
    pub(crate) reports: Reports,
    pub(crate) report: ServerReport,
    /// Devices are not divided anew before then.
    pub(crate) next_division: Nanos,
    /// Peers whose answer to the last exchange is outstanding.
    pub(crate) exchanging: HashSet<ServerId>,
    pub(crate) home: PathBuf,
    /// Requests that wait for the settlement of an intent.
    pub(crate) continued: HashMap<IntentId, Vec<(Nanos, Continued)>>,
    /// Requests that wait for an intent or another server, and resends of them that get the same answer.
    pub(crate) unfinished: HashMap<(ClientId, RequestId), usize>,
    pub(crate) followers: HashMap<usize, Vec<usize>>,
    pub(crate) asked: Slab<crate::requests::metadata::Asked>,
    pub(crate) waiting: Waiting,
    /// Append turns that others wait for, and when each was renewed.
    pub(crate) turns_renewed: HashMap<(Ino, Sequence), Nanos>,
    pub(crate) held: Vec<Held>,
    /// Requests whose detached payload is arriving.
    pub(crate) receiving: HashSet<usize>,
    /// Requests whose senders are slow, by the moment from which they are served what has arrived.
    pub(crate) slow_senders: VecDeque<(Nanos, usize)>,
    /// The device that is served next, and whether one was left unserved as its turn was over.
    pub(crate) next_device: usize,
    pub(crate) unserved: bool,
    /// Intents whose effects are done, which the journal did not take.
    pub(crate) effects_to_repeat: Vec<IntentId>,
    /// What waits for the journal to reach stable storage.
    pub(crate) durability: Durability,
    pub(crate) room: Room,
    /// Of each target, whether it lies on another device than the journal.
    pub(crate) is_apart: Vec<bool>,
    /// Links with output to send.
    pub(crate) dirty: Vec<usize>,
    /// Links that may have something to read.
    pub(crate) ready: Vec<usize>,
    pub(crate) intake: Intake,
    pub(crate) syncs: Syncs,
    /// Links that wait for memory, the longest waiting first.
    pub(crate) held_back: VecDeque<usize>,
    pub(crate) busy_devices: bool,
    pub(crate) memory: Memory,
    pub(crate) admission: Admission,
    pub(crate) notices: Notices,
    pub(crate) refusals: u64,
    pub(crate) malformed: u64,
    pub(crate) showing: Showing,
    origin: Instant,
    now: Nanos,
    wall_offset: Duration,
    pub(crate) next_exchange: Nanos,
    /// When the other servers were last told at once that a target here is full.
    pub(crate) told_full: Nanos,
    /// When links that wait for memory are looked at again.
    pub(crate) next_retry: Nanos,
    next_expiry: Nanos,
    grace_until: Option<Nanos>,
}

impl Server {
    /// Opens targets and journal and replays it.
    ///
    /// # Errors
    /// [`ServerError`] for a target or journal that cannot be opened.
    pub(crate) fn open(
        config: ClusterConfig,
        id: ServerId,
        folder: &Path,
        key: SiteKey,
        (registry, events): (mio::Registry, Events),
        budget: Budget,
        losses: Losses,
    ) -> Result<Server, ServerError> {
        let own = &config.servers[usize::from(id.0)];
        let sharing = config
            .sharing()
            .map_err(|what| ServerError::Configuration { path: folder.to_path_buf(), what })?;
        let mut boot = [0; 8];
        let random = rustix::rand::getrandom(&mut boot, rustix::rand::GetRandomFlags::empty());
        random.map_err(|errno| ServerError::Loop { what: "draw a boot number", source: errno.into() })?;
        let boot = u64::from_le_bytes(boot);
        let reserve = config.is_durable().then(|| Reserve::open(folder));
        if let Some(reserve) = &reserve {
            reserve.make_room_to_start();
        }
        let own_targets = own.targets.len();
        let mut targets = Vec::new();
        let mut devices = Vec::new();
        for (index, target) in own.targets.iter().enumerate() {
            targets.push(Target::open(target, folder, index, budget.objects)?);
            let speed = target.speed.as_ref().map(crate::config::SpeedConfig::device_speed);
            devices.push(Device::new(&sharing, speed, boot ^ index as u64));
        }
        let (intake, syncs) = (Intake::new(sharing.policy()), Syncs::new(sharing.policy()));
        let metadata_speed = own.metadata_speed.as_ref().map(crate::config::SpeedConfig::device_speed);
        devices.push(Device::new(&sharing, metadata_speed, !boot));
        let settings = Settings {
            server: id,
            servers: (0..config.servers.len() as u16).map(ServerId).collect(),
            targets: config.targets(),
            layout: config.layout_defaults(),
            inodes_max: INODES_MAX,
            key: key.clone(),
        };
        let mut namespace = Namespace::new(settings);
        namespace.placer_mut().set_allocator(config.layout.allocator);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut server = Server {
            id,
            boot,
            key,
            sharing,
            registry,
            events,
            links: Slab::new(),
            link_serial: 0,
            pending: Slab::new(),
            clients: Clients::default(),
            jobs: Jobs::default(),
            locks: LockTable::new(),
            watches: Watches::default(),
            confirmations: Confirmations::default(),
            namespace,
            journal: None,
            reserve,
            is_journal_full: false,
            loads: vec![Load::default(); devices.len()],
            accounting: vec![Accounting::default(); devices.len()],
            machine: Machine::default(),
            health: vec![Health::default(); targets.len()],
            targets,
            devices,
            workers: Workers::start()?,
            errands: Slab::new(),
            peers: HashMap::new(),
            addresses: HashMap::new(),
            reports: Reports::every(Nanos::from_millis(config.lambda_milliseconds)),
            report: ServerReport {
                server: id,
                boot,
                started: wall.as_millis() as u64,
                sequence: 0,
                load: MachineLoad::default(),
                jobs: Vec::new(),
                targets: Vec::new(),
                placed: Vec::new(),
            },
            next_division: Nanos::ZERO,
            exchanging: HashSet::new(),
            home: PathBuf::new(),
            continued: HashMap::new(),
            unfinished: HashMap::new(),
            followers: HashMap::new(),
            asked: Slab::new(),
            waiting: HashMap::new(),
            turns_renewed: HashMap::new(),
            held: Vec::new(),
            receiving: HashSet::new(),
            slow_senders: VecDeque::new(),
            next_device: 0,
            unserved: false,
            effects_to_repeat: Vec::new(),
            durability: Durability::default(),
            room: Room::default(),
            is_apart: vec![false; own_targets],
            dirty: Vec::new(),
            ready: Vec::new(),
            intake,
            syncs,
            held_back: VecDeque::new(),
            busy_devices: false,
            memory: Memory::default(),
            admission: Admission::new(&budget),
            notices: Notices::default(),
            refusals: 0,
            malformed: 0,
            showing: Showing::default(),
            origin: Instant::now(),
            now: Nanos::ZERO,
            wall_offset: wall,
            next_exchange: Nanos::ZERO,
            told_full: Nanos::ZERO,
            next_retry: Nanos::ZERO,
            next_expiry: Nanos::ZERO,
            grace_until: None,
            config,
        };
        server.recover(folder, losses)?;
        Ok(server)
    }

    /// Only what was held before a restart is given out for a while.
    pub(crate) fn begin_grace(&mut self) {
        self.locks.begin_grace();
        self.grace_until = Some(RECLAIM_GRACE);
    }

    /// The time of this turn of the loop, since the server started.
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// The time right now.
    pub(crate) fn clock_now(&self) -> Nanos {
        Nanos::from(self.origin.elapsed())
    }

    /// Sets the time of this turn.
    pub(crate) fn read_clock(&mut self) {
        self.now = self.clock_now();
    }

    /// Unix time in seconds.
    pub(crate) fn wall_seconds(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    /// Unix time in milliseconds.
    pub(crate) fn wall_milliseconds(&self) -> u64 {
        (self.wall_offset + Duration::from(self.now)).as_millis() as u64
    }

    /// Unix time of this turn, for time stamps; it never goes back while the server runs.
    pub(crate) fn moment(&self) -> Moment {
        let wall = self.wall_offset + Duration::from(self.now);
        Moment { seconds: wall.as_secs() as i64, nanoseconds: wall.subsec_nanos() }
    }

    /// When something has to be done even if nothing arrives.
    pub(crate) fn next_deadline(&self) -> Nanos {
        let finishes = self.devices.iter().filter_map(Device::next_finish);
        let releases = self.devices.iter().filter_map(Device::next_release);
        let (showings, syncs) = (self.showing.due(), self.durability.due());
        let due = finishes.chain(releases).chain(showings).chain(syncs);
        let mut deadline = due.fold(self.next_expiry, Nanos::min);
        if self.is_exchanging() {
            deadline = deadline.min(self.next_exchange);
        }
        if !self.held.is_empty() || !self.held_back.is_empty() {
            deadline = deadline.min(self.now + Nanos::from_millis(25));
        }
        if let Some(&(due, _)) = self.slow_senders.front() {
            deadline = deadline.min(due);
        }
        deadline
    }

    /// An idle single server needs no interval; with peers the exchange is also the sign of life.
    fn is_exchanging(&self) -> bool {
        self.config.servers.len() > 1 || !self.pending.is_empty() || self.busy_devices
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self) {
        let now = self.now;
        if now >= self.next_exchange {
            let lambda = Nanos::from_millis(self.config.lambda_milliseconds);
            self.next_exchange = now + lambda;
            self.account(lambda);
            self.update_report();
            self.refresh_placement();
            self.divide_devices();
            self.exchange(now + lambda);
            self.busy_devices = false;
        }
        if !self.held.is_empty() {
            self.release_drops();
        }
        self.retry_held_back();
        self.sync_if_due();
        if now >= self.next_expiry {
            self.next_expiry = now + EXPIRY_INTERVAL;
            self.expire(now);
        }
    }

    fn expire(&mut self, now: Nanos) {
        self.expire_clients(now);
        self.expire_waits(now);
        self.expire_turns(now);
        self.expire_moves();
        self.repeat_effects();
        self.expire_senders(now);
        self.expire_holders(now);
        self.confirmations.expire(now);
        self.watches.expire(now);
        self.tell_homes();
        for job in self.jobs.expire(now) {
            for device in &mut self.devices {
                device.remove_job(job, now);
            }
            self.intake.remove_job(job, now);
            self.syncs.device.remove_job(job, now);
        }
        for key in self.admission.overdue(now) {
            self.close_link(key.index);
        }
        self.notices.end_intervals(now);
        if self.grace_until.is_some_and(|until| now >= until) {
            self.grace_until = None;
            let answers = self.locks.end_grace();
            self.answer_locks(answers);
            self.expire_orphans();
        }
        self.compact_journal();
        if let Some(reserve) = &self.reserve {
            reserve.refill();
            self.is_journal_full = self.is_journal_full && !reserve.has_room();
        }
        self.renew_journal();
        self.expire_roomless();
        self.sync_mark();
    }

    /// Closes an interval: loads, and who is active.
    fn account(&mut self, interval: Nanos) {
        self.jobs.begin_interval();
        for index in 0..self.devices.len() {
            self.account_device(index);
            self.loads[index].look(&self.devices[index], interval);
        }
    }

    /// Accounts what a device gave to whom since the last call, against what it owed to whom is active now.
    pub(crate) fn account_device(&mut self, index: usize) {
        let begin = self.clock_now();
        let (device, ended) = (&mut self.devices[index], self.now);
        let began = std::mem::replace(&mut self.accounting[index].last, ended);
        // In an interval without length nothing can be told of what was worked in it: it is left for the next.
        let received = if began < ended { device.take_worked() } else { HashMap::new() };
        let interval = Interval { began, ended, shares: &device.shares(ended), received: &received };
        self.jobs.account(index, &interval);
        let end = self.clock_now();
        let pause = ACCOUNT_PAUSE_MIN.0.max(ACCOUNT_COST_FACTOR * end.saturating_since(begin).0);
        self.accounting[index].next = end + Nanos(pause);
    }

    /// Accounts a device that has served something, if the last time is long enough ago.
    pub(crate) fn account_if_due(&mut self, index: usize) {
        if self.now >= self.accounting[index].next {
            self.account_device(index);
        }
    }

    /// Looks again at what this server has to say of itself.
    fn update_report(&mut self) {
        let metadata = self.devices.len() - 1;
        let mut uses: HashMap<JobId, Vec<DeviceUse>> = HashMap::new();
        for (index, device) in self.devices.iter_mut().enumerate() {
            let number = device_number(index, metadata);
            for (job, wanted) in device.measure(self.now) {
                let wanted = wanted.map(|wanted| wanted as f32);
                uses.entry(job).or_default().push(DeviceUse { device: number, wanted });
            }
        }
        self.machine.look(self.now);
        self.report.load = self.machine.load();
        self.report_targets();
        self.report.jobs = self.jobs.reports(uses);
        self.report.sequence += 1;
    }

    /// Answers the control API.
    pub(crate) fn answer_question(&mut self, question: Question) {
        match question {
            Question::Show(shown) => self.showing.ask(shown),
            Question::SetPolicy(policy, algorithm, answer) => {
                let _ = answer.try_send(self.set_policy(policy, algorithm));
            }
            Question::SetAllocator(name, answer) => {
                let placer = self.namespace.placer_mut();
                notice!("allocator {} -> {name}", placer.allocator());
                placer.set_allocator(name);
                let _ = answer.try_send(());
            }
            Question::SetSpeed(target, speed, answer) => {
                let _ = answer.try_send(self.set_speed(target, speed));
            }
        }
    }

    fn set_policy(&mut self, policy: Policy, algorithm: Option<Algorithm>) -> Result<Sharing, SharingError> {
        let sharing = self.sharing.with(policy, algorithm)?;
        for device in &mut self.devices {
            device.set_sharing(&sharing);
        }
        self.intake.set_policy(sharing.policy());
        self.syncs.device.set_sharing(&Sharing::of(sharing.policy().clone()));
        let (before, now) = (&self.sharing, &sharing);
        notice!(
            "policy {} by {} -> {} by {}",
            before.policy(),
            before.algorithm(),
            now.policy(),
            now.algorithm()
        );
        self.sharing = sharing.clone();
        Ok(sharing)
    }
}
