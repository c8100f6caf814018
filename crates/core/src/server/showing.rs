//! The server as the control API shows it.

use super::Server;
use crate::accounts::device_account::Accounted;
use crate::accounts::served::Served;
use crate::clock::seconds;
use crate::control::question::{Objects, Observed, Quotas};
use crate::control::snapshot::Snapshot;
use crate::control::status::{
    CostStatus, DeviceStatus, DirectionCost, LeavingStatus, PeerStatus, SpeedStatus, Status, TargetStatus,
};
use crate::storage::KEEPS_NOTHING;
use std::sync::Arc;
use weir_fairshare::{Nanos, TransferSpeed};
use weir_placement::{ServerId, TargetId};
use weir_wire::QuotaTable;

impl Server {
    /// Makes the snapshots that are asked for and due; copies one slice of the job table.
    pub(crate) fn show(&mut self) {
        let now = self.clock.now();
        if self.showing.begin_status(now) {
            let status = self.status();
            self.showing.show_status(status);
        }
        if self.showing.begin_table(now) {
            let began = self.clock.within_step();
            self.accounts.account_devices(self.requests.devices_mut().all_mut(), &self.clock);
            let jobs = self.accounts.jobs().ids();
            let spent = self.clock.within_step().saturating_since(began);
            self.showing.begin_copy(jobs, spent);
        }
        if !self.showing.is_copying() {
            return;
        }
        let accounted = self.accounted();
        if let Some(jobs) = self.showing.copy(self.accounts.jobs(), &accounted, &self.clock) {
            let (refusals, malformed) = self.links.refused();
            let users = self.accounts.jobs().users();
            let began = self.clock.within_step();
            let Quotas { lines: quota_lines, table: limits } = self.limited();
            self.showing.lengthen_pause(self.clock.within_step().saturating_since(began), &self.clock);
            let (status, served) = (self.status(), self.served());
            let snapshot = Snapshot { status, jobs, users, served, quota_lines, limits, refusals, malformed };
            self.showing.show_table(snapshot);
        }
    }

    /// The requests that each device has served, by its name.
    fn served(&self) -> Vec<(String, Served)> {
        let served = self.requests.devices().served().iter().enumerate();
        served.map(|(index, served)| (self.device_name(index), *served)).collect()
    }

    /// The use of every owner; nothing where there are no limits, so that nobody walks over all owners for nothing.
    fn limited(&mut self) -> Quotas {
        match self.membership.settings().quotas.is_empty() {
            true => Quotas { lines: Vec::new(), table: QuotaTable::default() },
            false => self.quotas(),
        }
    }

    /// The devices, and the last moment at which they were accounted.
    fn accounted(&self) -> Vec<Accounted> {
        let (devices, at) = (self.requests.devices().all().len(), self.accounts.accounted());
        (0..devices).map(|index| Accounted { device: self.device_name(index), at }).collect()
    }

    fn status(&self) -> Status {
        let now = self.clock.now();
        let (own, is_durable) = (self.membership.own(), self.durability.is_durable());
        let targets = self.targets.iter().enumerate().filter(|(_, target)| !target.has_retired());
        let targets = targets.map(|(index, target)| {
            let room = target.room();
            TargetStatus {
                target: self.site.target(index).to_string(),
                backend: target.backend(),
                capacity_bytes: room.capacity_bytes,
                used_bytes: room.used_bytes,
                spare_bytes: target.spare_bytes(),
                disk: room.disk.map(|disk| disk.id.to_string()),
                disk_free_bytes: room.disk.map(|disk| disk.free_bytes),
                trouble: target.trouble(now),
                device_failures: target.device_failures(),
                // Bytes are lost to their users where their names are.
                keeps: if is_durable { target.keeps() } else { KEEPS_NOTHING },
                state: own.targets[index].state,
                placement: self.placement_of(index),
                device: self.device_status(index),
                absent: target.is_absent(),
                failing_since: self.accounts.standing(index).failing_since(),
                full_since: self.accounts.standing(index).full_since(),
            }
        });
        let leaving = self.exchange.own().leaving.iter();
        let leaving =
            leaving.map(|left| LeavingStatus { target: left.target.to_string(), objects: left.objects });
        let sharing = self.membership.decided_sharing();
        let kept = self.namespace.kept_memory();
        Status {
            server: self.site.id.0,
            version: env!("CARGO_PKG_VERSION"),
            boot: format!("{:016x}", self.site.boot),
            state: own.state,
            uptime_seconds: seconds(now),
            policy: sharing.policy().to_string(),
            scheduler: sharing.algorithm().to_string(),
            allocator: self.namespace.files().places().placer().allocator().to_string(),
            connections: self.links.len(),
            outstanding: self.requests.len().saturating_sub(self.requests.pages_here().polls()),
            held_bytes: self.links.held_bytes(),
            kept_bytes: kept.bytes,
            kept_bytes_max: kept.bytes_max,
            inodes: self.namespace.statistics().inodes,
            unpublished_bytes: self.namespace.files().held_bytes()
                + self.peers.objects_here().held_bytes(self.site.id),
            durable: is_durable,
            identity: self.home.identity(),
            journal: self.durability.status(now),
            full: self.durability.is_full(),
            load: self.accounts.machine_load(),
            targets: targets.collect(),
            taken_ports: self.membership.taken_ports().to_vec(),
            servers: self.membership.config().servers.len(),
            target_numbers: self.targets.len(),
            leaving: leaving.collect(),
            metadata: self.device_status(self.requests.devices().metadata()),
            placements: self.placements(),
            peers: self.peer_status(now),
            reports_ignored: self.exchange.ignored(),
            clock_seconds: self.clock.wall_milliseconds() as f64 / 1e3,
        }
    }

    /// The windows after a number.
    pub(super) fn observed(&self, after: u64) -> Observed {
        Observed {
            server: self.site.id.0,
            boot: format!("{:016x}", self.site.boot),
            length: self.windows.length(),
            windows: self.windows.after(after),
        }
    }

    /// The objects of each target, or the directory that holds them.
    pub(super) fn listed_objects(&mut self) -> Vec<(TargetId, Objects)> {
        let numbers = (0..self.targets.len()).map(|index| self.site.target(index));
        let numbers: Vec<TargetId> = numbers.collect();
        let listed = self.targets.iter_mut().zip(numbers).filter_map(|(target, number)| {
            let objects = match target.directory() {
                Some(directory) => Objects::In(Arc::clone(directory.files())),
                None => Objects::Here(target.memory()?.listed()),
            };
            Some((number, objects))
        });
        listed.collect()
    }

    fn peer_status(&self, now: Nanos) -> Vec<PeerStatus> {
        let age = |server| self.exchange.heard_at(server).map(|heard| seconds(now.saturating_since(heard)));
        let status = |server: ServerId| PeerStatus { server: server.0, age_seconds: age(server) };
        self.exchange.peers().map(status).collect()
    }

    fn device_status(&self, index: usize) -> DeviceStatus {
        let (device, load) = (&self.requests.devices().all()[index], self.accounts.load(index));
        let rate = |speed: TransferSpeed| Some(speed.bytes_per_second.get()).filter(|&rate| rate != u64::MAX);
        let cost = |speed: TransferSpeed| DirectionCost {
            fixed_seconds: seconds(speed.fixed),
            bytes_per_second: rate(speed),
        };
        DeviceStatus {
            load: load.ratio,
            queued: device.queued(),
            latency_seconds: load.latency_seconds,
            busy_seconds: seconds(device.busy()),
            cost: CostStatus { read: cost(device.cost().read), write: cost(device.cost().write) },
            speed: device.speed().map(|speed| SpeedStatus {
                read_bytes_per_second: rate(speed.read),
                write_bytes_per_second: rate(speed.write),
                fixed_seconds: seconds(speed.read.fixed),
            }),
        }
    }

    /// The name of a device: that of its target, or that of the metadata of this server.
    pub(super) fn device_name(&self, index: usize) -> String {
        match self.targets.get(index) {
            Some(_) => self.site.target(index).to_string(),
            None => format!("{}.metadata", self.site.id),
        }
    }
}
