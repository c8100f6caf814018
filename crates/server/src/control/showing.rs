//! What the server shows of itself: snapshots for the control API, each made for all who asked since the one before.
//!
//! The job table is copied in slices, so that a turn of the loop stays short however many jobs there are; what is
//! written of it is written by the threads that answer.

use crate::accounts::jobs::{seconds, Accounted, ShownJob};
use crate::control::board::Board;
use crate::control::snapshot::Snapshot;
use crate::control::{
    CostStatus, DeviceStatus, DirectionCost, PeerStatus, Shown, SpeedStatus, Status, TargetStatus,
};
use crate::server::Server;
use std::sync::Arc;
use weir_fairshare::Nanos;
use weir_placement::{ServerId, TargetId};
use weir_wire::JobId;

/// The status is made at most this often: it is a matter of microseconds, and people wait for it.
const STATUS_PAUSE: Nanos = Nanos::from_millis(50);
/// The job table is copied at most this often.
const JOBS_PAUSE_MIN: Nanos = Nanos::from_millis(250);
/// With many jobs less often, so that the copying takes at most a twentieth of the loop's time.
const JOBS_COST_FACTOR: u64 = 20;
/// Nobody waits longer for it all the same, however many jobs there are: commands wait for five seconds.
const JOBS_PAUSE_MAX: Nanos = Nanos::from_millis(2_000);
/// How long the loop copies in one turn: as long as a few small requests take.
const SLICE: Nanos = Nanos(200_000);
/// Jobs copied between two looks at the clock.
const LOOK: usize = 8;

/// The snapshots that callers of the control API wait for.
#[derive(Default)]
pub(crate) struct Boards {
    pub(crate) status: Board<Status>,
    pub(crate) table: Board<Snapshot>,
}

/// What is asked for and when it is made.
#[derive(Default)]
pub(crate) struct Showing {
    boards: Arc<Boards>,
    status_asked: bool,
    table_asked: bool,
    next_status: Nanos,
    next_table: Nanos,
    copying: Option<Copying>,
}

/// A job table that is copied over several turns.
struct Copying {
    left: Vec<JobId>,
    jobs: Vec<ShownJob>,
    spent: Nanos,
}

impl Showing {
    /// Where snapshots are shown.
    pub(crate) fn boards(&self) -> Arc<Boards> {
        Arc::clone(&self.boards)
    }

    /// Notes that somebody waits for a snapshot.
    pub(crate) fn ask(&mut self, shown: Shown) {
        match shown {
            Shown::Status => self.status_asked = true,
            Shown::Table => self.table_asked = true,
        }
    }

    /// When a snapshot that was asked for may be made.
    pub(crate) fn due(&self) -> impl Iterator<Item = Nanos> {
        let status = self.status_asked.then_some(self.next_status);
        let table = (self.table_asked && self.copying.is_none()).then_some(self.next_table);
        status.into_iter().chain(table)
    }

    /// Whether the next turn has to go on copying.
    pub(crate) fn is_copying(&self) -> bool {
        self.copying.is_some()
    }
}

impl Server {
    /// Makes what is asked for and due; copies one slice of the job table.
    pub(crate) fn show(&mut self) {
        let now = self.now();
        if self.showing.status_asked && now >= self.showing.next_status {
            self.showing.status_asked = false;
            self.showing.next_status = now + STATUS_PAUSE;
            self.showing.boards.status.begin();
            let status = self.status();
            self.showing.boards.status.show(status);
        }
        let is_idle = self.showing.copying.is_none();
        if is_idle && self.showing.table_asked && now >= self.showing.next_table {
            self.showing.table_asked = false;
            self.showing.boards.table.begin();
            let began = self.clock_now();
            for device in 0..self.devices.len() {
                self.account_device(device);
            }
            let left = self.jobs.ids();
            let jobs = Vec::with_capacity(left.len());
            let spent = self.clock_now().saturating_since(began);
            self.showing.copying = Some(Copying { left, jobs, spent });
        }
        if let Some(copying) = self.showing.copying.take() {
            self.copy_jobs(copying);
        }
    }

    fn copy_jobs(&mut self, mut copying: Copying) {
        let (now, accounted) = (self.now(), self.accounted());
        let began = self.clock_now();
        let mut spent = Nanos::ZERO;
        while !copying.left.is_empty() && spent < SLICE {
            let rest = copying.left.len().saturating_sub(LOOK);
            for id in copying.left.drain(rest..) {
                copying.jobs.extend(self.jobs.shown(id, now, &accounted));
            }
            spent = self.clock_now().saturating_since(began);
        }
        copying.spent = copying.spent + spent;
        if !copying.left.is_empty() {
            self.showing.copying = Some(copying);
            return;
        }
        let pause = (JOBS_COST_FACTOR * copying.spent.0).clamp(JOBS_PAUSE_MIN.0, JOBS_PAUSE_MAX.0);
        self.showing.next_table = now + Nanos(pause);
        let snapshot = Snapshot::new(self.status(), copying.jobs, self.refusals, self.malformed);
        self.showing.boards.table.show(snapshot);
    }

    /// The devices, and when each was last accounted.
    fn accounted(&self) -> Vec<Accounted> {
        let name = |index: usize| match self.targets.get(index) {
            Some(_) => TargetId { server: self.id, index: index as u16 }.to_string(),
            None => format!("{}.metadata", self.id),
        };
        let accounting = self.accounting.iter().enumerate();
        accounting.map(|(index, accounting)| Accounted { device: name(index), at: accounting.last }).collect()
    }

    fn status(&self) -> Status {
        let targets = self.targets.iter().enumerate().map(|(index, target)| {
            let (capacity_bytes, used_bytes) = target.fill();
            TargetStatus {
                target: TargetId { server: self.id, index: index as u16 }.to_string(),
                backend: target.backend(),
                capacity_bytes,
                used_bytes,
                keeps: target.keeps(),
                placement: self.placement_of(index),
                device: self.device_status(index),
            }
        });
        let age = |server: &ServerId| {
            let heard = self.reports.heard_at(*server);
            heard.map(|heard| seconds(self.now().saturating_since(heard)))
        };
        let mut peers: Vec<PeerStatus> = self
            .peers
            .keys()
            .map(|server| PeerStatus { server: server.0, age_seconds: age(server) })
            .collect();
        peers.sort_by_key(|peer| peer.server);
        Status {
            server: self.id.0,
            version: env!("CARGO_PKG_VERSION"),
            boot: format!("{:016x}", self.boot),
            uptime_seconds: seconds(self.now()),
            policy: self.sharing.policy().to_string(),
            scheduler: self.sharing.algorithm().to_string(),
            allocator: self.namespace.placer().allocator().to_string(),
            connections: self.links.len(),
            outstanding: self.pending.len(),
            held_bytes: self.memory.bytes(),
            inodes: self.namespace.statistics().inodes,
            durable: self.journal.is_some(),
            journal: self.journal_status(),
            full: self.is_journal_full,
            load: self.machine.load(),
            targets: targets.collect(),
            metadata: self.device_status(self.devices.len() - 1),
            placements: self.placements(),
            peers,
            reports_ignored: self.reports.ignored(),
        }
    }

    fn device_status(&self, index: usize) -> DeviceStatus {
        let device = &self.devices[index];
        let rate = |speed: weir_fairshare::TransferSpeed| {
            Some(speed.bytes_per_second.get()).filter(|&rate| rate != u64::MAX)
        };
        let cost = |speed: weir_fairshare::TransferSpeed| DirectionCost {
            fixed_seconds: seconds(speed.fixed),
            bytes_per_second: rate(speed),
        };
        DeviceStatus {
            load: self.loads[index].ratio,
            queued: device.queued(),
            latency_seconds: self.loads[index].latency_seconds,
            busy_seconds: seconds(device.busy()),
            cost: CostStatus { read: cost(device.cost().read), write: cost(device.cost().write) },
            speed: device.speed().map(|speed| SpeedStatus {
                read_bytes_per_second: rate(speed.read),
                write_bytes_per_second: rate(speed.write),
                fixed_seconds: seconds(speed.read.fixed),
            }),
        }
    }
}
