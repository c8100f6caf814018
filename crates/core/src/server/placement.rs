//! Reports of this server's targets, and the reports of all servers for the placer of new files.

use super::Server;
use crate::accounts::standing::Turn;
use crate::control::status::{PlacementStatus, Placements};
use crate::notices::{notice, warning};
use weir_device::UnderWay;
use weir_exchange::{placements, report_target};
use weir_fairshare::DeviceSpeed;
use weir_placement::online::Tally;
use weir_placement::TargetId;
use weir_wire::Room;

impl Server {
    /// Sets the part of this server's report about its targets.
    pub(super) fn report_targets(&mut self) {
        self.look_at_targets();
        let rates = self.present_rates();
        self.judge_targets(&rates, self.clock.wall_milliseconds());
        let targets = self.targets.iter().zip(rates).enumerate().map(|(index, (target, rates))| {
            let told = (self.site.target(index), target.room());
            let account = (self.accounts.load(index), self.accounts.health(index));
            report_target(told, &self.requests.devices().all()[index], account, rates)
        });
        let targets = targets.collect();
        let own = self.exchange.own_mut();
        (own.targets, own.placed) = (targets, placements(self.namespace.files().places().placer()));
    }

    /// Notes which targets here are full or fail. The log tells of a target that fills up, and of one that has room again.
    fn look_at_targets(&mut self) {
        let (now, wall) = (self.clock.now(), self.clock.wall_milliseconds());
        for (index, target) in self.targets.iter().enumerate().filter(|(_, target)| !target.has_retired()) {
            let (name, room) = (self.site.target(index), target.room());
            let (used, capacity) = (room.used_bytes, room.capacity_bytes);
            let known = (!target.is_absent()).then_some(&room);
            match self.accounts.look_at_target(index, known, target.trouble(now).is_some(), wall) {
                Some(Turn::Filled) => warning!(
                    "target {name} is full: it holds {used} of {capacity} bytes, and writes to its files answer ENOSPC; remove \
                     files, or add a target with `weir target add`"
                ),
                Some(Turn::HasRoom) => notice!("target {name} has room again: it holds {used} of {capacity} bytes"),
                None => {}
            }
        }
    }

    /// Tells the namespace how much the targets here can hold.
    pub(super) fn note_capacity(&mut self) {
        let bytes = Room::of(self.exchange.own().targets.iter().map(|report| report.room)).capacity_bytes;
        self.namespace.files_mut().quotas_mut().note_capacity(bytes);
    }

    /// A target here refused bytes for want of room. That is told at once, here and to the other servers, because many files
    /// may follow until the next exchange.
    pub(super) fn tell_of_full(&mut self) {
        let now = self.clock.now();
        if !self.exchange.take_news(now) {
            return;
        }
        self.report_targets();
        self.renew_report();
        self.refresh_placement();
        self.tell_peers(now + self.exchange.lambda());
    }

    /// Tells the placer of new files the last reports of all servers.
    pub(super) fn refresh_placement(&mut self) {
        self.exchange.inform(self.namespace.files_mut().places_mut().placer_mut(), self.clock.now());
    }

    /// A target's part of `/v1/status`.
    pub(super) fn placement_of(&self, index: usize) -> PlacementStatus {
        let health = self.accounts.health(index);
        PlacementStatus {
            class: self.membership.own().targets[index].class().to_string(),
            speed_ratio: health.speed,
            achieved_bytes_per_second: health.achieved_bytes_per_second,
            expected_bytes_per_second: health.expected_bytes_per_second,
            slow_since: health.slow_since.map(|milliseconds| milliseconds as f64 / 1e3),
            backlog_seconds: self.accounts.load(index).backlog_seconds,
        }
    }

    /// The placements since the server started.
    pub(super) fn placements(&self) -> Placements {
        let Tally { stripes, refused, targets } = self.namespace.files().places().placer().tally();
        let targets = targets.into_iter().map(|(target, count)| (target.to_string(), count)).collect();
        let stripes = stripes.into_iter().map(|(name, count)| (name.to_string(), count)).collect();
        Placements { stripes, targets, refused }
    }

    /// Emulates another speed on a target, or none; false where it is not one of this server.
    pub(super) fn set_speed(&mut self, target: TargetId, speed: Option<DeviceSpeed>) -> bool {
        let index = target.number();
        if target.server != self.site.id || index >= self.targets.len() {
            return false;
        }
        self.requests.devices_mut().set_speed(index, speed);
        match speed {
            Some(speed) => notice!(
                "target {target} emulates {} bytes/s read, {} bytes/s written",
                speed.read.bytes_per_second,
                speed.write.bytes_per_second
            ),
            None => notice!("target {target} emulates no speed any more"),
        }
        true
    }

    /// The rates that each target achieves, by class of requests; requests in service count, too.
    fn present_rates(&self) -> Vec<Vec<(u8, f32)>> {
        let now = self.clock.now();
        let devices = self.requests.devices().all();
        let mut under_way: Vec<Vec<UnderWay>> = vec![Vec::new(); self.targets.len()];
        for request in self.requests.iter() {
            let Some((device, work, service)) = request.in_service(devices, now) else { continue };
            if let Some(requests) = under_way.get_mut(device) {
                requests.push(UnderWay { direction: work.direction, bytes: work.bytes, service });
            }
        }
        let rates = under_way.into_iter().zip(devices);
        rates.map(|(requests, device)| device.rates().present(requests.into_iter())).collect()
    }

    /// Compares each target of this server with the targets of its class on all servers.
    fn judge_targets(&mut self, own: &[Vec<(u8, f32)>], now: u64) {
        let (site, configs) = (&self.site, self.membership.config());
        let config = |target: TargetId| configs.target(target);
        let class = |target| config(target).map(|config| config.class());
        let here = own.iter().enumerate().map(|(index, rates)| (site.target(index), &rates[..]));
        let peers = self.exchange.usual(here, class, self.clock.now());
        for (index, rates) in own.iter().enumerate() {
            let Some(config) = config(site.target(index)) else { continue };
            let expected = config.expected.map(|rate| rate as f64);
            let device = &self.requests.devices().all()[index];
            self.accounts.judge((index, device), rates, (config.class(), expected), &peers, now);
        }
    }
}
