//! Reports of this server's targets, and the reports of all servers for the placer of new files.

use crate::control::{PlacementStatus, Placements};
use crate::notices::notice;
use crate::server::Server;
use weir_device::{Peers, UnderWay, Usual};
use weir_fairshare::{DeviceSpeed, Nanos};
use weir_placement::online::{Figures, Heard, Tally};
use weir_placement::{ServerStatistics, TargetId};
use weir_wire::{MachineLoad, PlacedReport, ServerReport, TargetReport};

/// A full target is told of once in this time: what is written meanwhile is refused too, and goes elsewhere.
const FULL_TOLD_PAUSE: Nanos = Nanos::from_millis(10);
/// Placed bytes below this are not worth a report.
const REPORTED_BYTES_MIN: f64 = 1.0;

impl Server {
    /// What this server has to say of its targets.
    pub(crate) fn report_targets(&mut self) {
        let now = self.wall_milliseconds();
        let rates = self.present_rates();
        self.judge_targets(&rates, now);
        let targets = self.targets.iter().enumerate().map(|(index, target)| {
            let (capacity_bytes, used_bytes) = target.fill();
            let (load, health) = (&self.loads[index], &self.health[index]);
            TargetReport {
                target: TargetId { server: self.id, index: index as u16 },
                capacity_bytes,
                used_bytes,
                load: load.ratio,
                queued: self.devices[index].queued() as u64,
                backlog_seconds: load.backlog_seconds as f32,
                rates: rates[index].clone(),
                speed: health.speed as f32,
                slow_since: health.slow_since,
            }
        });
        self.report.targets = targets.collect();
        let placed = self.namespace.placer().placed_lately();
        let placed = placed.filter(|(_, bytes)| *bytes >= REPORTED_BYTES_MIN);
        self.report.placed =
            placed.map(|(target, bytes)| PlacedReport { target, bytes: bytes as f32 }).collect();
    }

    /// A target here refused bytes for want of room: that is told at once, here and to the other servers, as what follows
    /// until the next exchange may be many files.
    pub(crate) fn tell_of_full(&mut self) {
        let now = self.now();
        if now.saturating_since(self.told_full) < FULL_TOLD_PAUSE {
            return;
        }
        self.told_full = now;
        self.report_targets();
        self.report.sequence += 1;
        self.refresh_placement();
        self.exchange(now + Nanos::from_millis(self.config.lambda_milliseconds));
    }

    /// Tells who chooses the targets of new files what all servers said last.
    pub(crate) fn refresh_placement(&mut self) {
        let now = self.now();
        let mut heard = Heard::new(self.reports.is_within_age(now));
        let reports: Vec<&ServerReport> =
            self.reports.fresh(now).chain(std::iter::once(&self.report)).collect();
        for report in &reports {
            let busy = busy_of(report);
            for target in &report.targets {
                heard.tell(target.target, Figures { busy, ..figures_of(target) });
            }
        }
        let others = reports.iter().filter(|report| report.server != self.id);
        for placed in others.flat_map(|report| &report.placed) {
            heard.place(placed.target, f64::from(placed.bytes));
        }
        self.namespace
            .placer_mut()
            .refresh(crate::accounts::jobs::seconds(now), |target| heard.figures(target));
    }

    /// A target's part of `/v1/status`.
    pub(crate) fn placement_of(&self, index: usize) -> PlacementStatus {
        let health = &self.health[index];
        PlacementStatus {
            class: self.config.servers[usize::from(self.id.0)].targets[index].class().to_string(),
            speed_ratio: health.speed,
            achieved_bytes_per_second: health.achieved_bytes_per_second,
            expected_bytes_per_second: health.expected_bytes_per_second,
            slow_since: health.slow_since.map(|milliseconds| milliseconds as f64 / 1e3),
            backlog_seconds: self.loads[index].backlog_seconds,
        }
    }

    /// What was placed since the server started.
    pub(crate) fn placements(&self) -> Placements {
        let Tally { stripes, refused, targets } = self.namespace.placer().tally();
        let targets = targets.into_iter().map(|(target, count)| (target.to_string(), count)).collect();
        let stripes = stripes.into_iter().map(|(name, count)| (name.to_string(), count)).collect();
        Placements { stripes, targets, refused }
    }

    /// Emulates another speed on a target, or none; false where it is not one of this server.
    pub(crate) fn set_speed(&mut self, target: TargetId, speed: Option<DeviceSpeed>) -> bool {
        let index = usize::from(target.index);
        if target.server != self.id || index >= self.targets.len() {
            return false;
        }
        self.devices[index].set_speed(speed);
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

    /// What each target achieves, by class of requests; also those in service count.
    fn present_rates(&self) -> Vec<Vec<(u8, f32)>> {
        let now = self.clock_now();
        let mut under_way: Vec<Vec<UnderWay>> = vec![Vec::new(); self.targets.len()];
        for (_, pending) in &self.pending {
            let Some((device, work, service)) = pending.in_service(&self.devices, now) else { continue };
            if let Some(requests) = under_way.get_mut(device) {
                requests.push(UnderWay { direction: work.direction, bytes: work.bytes, service });
            }
        }
        let rates = under_way.into_iter().zip(&self.devices);
        rates.map(|(requests, device)| device.rates().present(requests.into_iter())).collect()
    }

    /// Compares each target of this server with those of its class on all servers.
    fn judge_targets(&mut self, own: &[Vec<(u8, f32)>], now: u64) {
        let heard = self.reports.fresh(self.now()).flat_map(|report| &report.targets);
        let mut all: Vec<(TargetId, Usual)> =
            heard.map(|target| (target.target, &target.rates[..])).collect();
        let number = |index: usize| TargetId { server: self.id, index: index as u16 };
        all.extend(own.iter().enumerate().map(|(index, rates)| (number(index), &rates[..])));
        let config = |target: TargetId| {
            let server = self.config.servers.get(usize::from(target.server.0))?;
            server.targets.get(usize::from(target.index))
        };
        let class = |target| config(target).map(|config| config.class());
        let peers: Peers = all.into_iter().map(|(target, rates)| (class(target), rates)).collect();
        for (index, rates) in own.iter().enumerate() {
            let Some(config) = config(number(index)) else { continue };
            let expected = config.expected.map(|rate| rate as f64);
            self.health[index].judge(rates, config.class(), &peers, expected, now);
        }
    }
}

fn figures_of(report: &TargetReport) -> Figures {
    let streaming = report.rates.iter().map(|&(_, rate)| f64::from(rate)).fold(0.0, f64::max);
    let finite = |number: f64| if number.is_finite() && number >= 0.0 { number } else { 0.0 };
    Figures {
        capacity_bytes: report.capacity_bytes,
        free_bytes: report.capacity_bytes.saturating_sub(report.used_bytes),
        speed: finite(f64::from(report.speed)),
        is_slow: report.slow_since.is_some(),
        is_alive: true,
        backlog_seconds: finite(f64::from(report.backlog_seconds)),
        bytes_per_second: finite(streaming),
        placed_bytes: 0.0,
        busy: None,
    }
}

fn busy_of(report: &ServerReport) -> Option<f64> {
    let MachineLoad { processors, memory, network } = report.load;
    let [processors, memory, network] = [processors, memory, network]
        .map(|part| part.filter(|part| part.is_finite()).map(|part| f64::from(part.clamp(0.0, 1.0))));
    ServerStatistics { server: report.server, bytes_per_second: None, processors, memory, network }.busy()
}
