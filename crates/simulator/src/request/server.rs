//! A simulated server: its devices, its placer, its reports, and its belief about its peers.
//!
//! The end of an interval has the steps, and their order, of `exchange_if_due` of
//! `crates/server/src/server/exchange.rs`.

use super::divisions::Divisions;
use super::knowledge::Knowledge;
use super::reports::{DeviceUse, Report, TargetReport};
use super::station::Station;
use crate::check::Settings;
use crate::core::machines::Machines;
use crate::core::time::{nanos, seconds};
use crate::scenario::Scenario;
use std::rc::Rc;
use weir_device::{Health, Load, Peers};
use weir_fairshare::{device_number, Nanos};
use weir_placement::online::{Figures, Placer, Presence};
use weir_placement::{ServerId, SplitMix64, TargetId};

/// The settings that all servers have in common.
pub(super) struct Site<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) settings: &'a Settings,
    pub(super) lambda: Nanos,
}

/// A server.
pub(super) struct Server {
    number: u16,
    /// Its starts.
    boot: u32,
    started: Nanos,
    /// Its targets, and the metadata service last.
    pub(super) stations: Vec<Station>,
    loads: Vec<Load>,
    health: Vec<Health>,
    knowledge: Knowledge,
    report: Rc<Report>,
    /// Peers whose answer to the last exchange is outstanding.
    exchanging: Vec<bool>,
}

impl<'a> Site<'a> {
    /// The site of a scenario that was checked.
    pub(super) fn new(scenario: &'a Scenario, settings: &'a Settings) -> Site<'a> {
        Site { scenario, settings, lambda: nanos(scenario.lambda_seconds) }
    }

    fn class(&self, target: TargetId) -> &str {
        &self.scenario.topology.servers[usize::from(target.server.0)].targets[usize::from(target.index)].class
    }

    /// The start of a device's dice, as `crates/server/src/requests/devices.rs` makes it of a number of the start.
    fn dice(&self, server: u16, boot: u32, device: u64) -> u64 {
        let mut start = SplitMix64(self.scenario.seed ^ u64::from(server) << 48 ^ u64::from(boot) << 32);
        start.draw() ^ device
    }
}

impl Server {
    /// A server that starts at `now` for the `boot`th time and knows nothing.
    pub(super) fn start(site: &Site, number: u16, boot: u32, now: Nanos) -> Server {
        let own = &site.scenario.topology.servers[usize::from(number)];
        let dice = |device| site.dice(number, boot, device);
        let targets = own.targets.iter().zip(0..);
        let mut stations: Vec<Station> = targets
            .map(|(target, index)| Station::target(target, &site.settings.sharing, dice(index)))
            .collect();
        stations.push(Station::metadata(own.metadata_seconds, &site.settings.sharing, dice(u64::MAX)));
        let servers = site.scenario.topology.servers.len();
        let nothing = Report {
            server: number,
            boot,
            sequence: 0,
            uses: Rc::default(),
            targets: Vec::new(),
            placed: Vec::new(),
        };
        Server {
            number,
            boot,
            started: now,
            loads: vec![Load::default(); stations.len()],
            health: vec![Health::default(); own.targets.len()],
            stations,
            knowledge: Knowledge::new(number, site.lambda, now),
            report: Rc::new(nothing),
            exchanging: vec![false; servers],
        }
    }

    /// Its starts so far.
    pub(super) fn boot(&self) -> u32 {
        self.boot
    }

    /// Its number.
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// The number of its metadata service among its stations.
    pub(super) fn metadata(&self) -> usize {
        self.stations.len() - 1
    }

    /// Its last report.
    pub(super) fn report(&self) -> &Rc<Report> {
        &self.report
    }

    /// Closes an interval: loads, report, placement and division, in this order.
    pub(super) fn close_interval(
        &mut self,
        site: &Site,
        machines: &Machines,
        (placer, divisions): (&mut Placer, &mut Divisions<'_>),
        now: Nanos,
    ) {
        for (load, station) in self.loads.iter_mut().zip(&self.stations) {
            load.look(&station.device, site.lambda);
        }
        let uses = self.measure(now);
        self.renew(site, machines, (uses, placer), now);
        self.divide(divisions, now);
        // Answers are awaited until the interval ends.
        self.exchanging.fill(false);
    }

    /// The peers that are to have the report now.
    pub(super) fn begin_exchange(&mut self) -> Vec<u16> {
        let own = usize::from(self.number);
        let idle = |peer: &usize| *peer != own && !self.exchanging[*peer];
        let idle: Vec<usize> = (0..self.exchanging.len()).filter(idle).collect();
        idle.iter().for_each(|&peer| self.exchanging[peer] = true);
        idle.into_iter().map(|peer| peer as u16).collect()
    }

    /// Takes a peer's report; `is_answer` tells whether it answers one of this server.
    pub(super) fn hear(
        &mut self,
        (report, is_answer): (&Rc<Report>, bool),
        divisions: &mut Divisions<'_>,
        now: Nanos,
    ) {
        if is_answer {
            self.exchanging[usize::from(report.server)] = false;
        }
        self.knowledge.take(report, now);
        self.divide(divisions, now);
    }

    /// The server ends; what it left under way is of a start that is over.
    pub(super) fn end(&mut self) {
        self.boot += 1;
    }

    /// Makes the next report, and lets the placer know it.
    fn renew(
        &mut self,
        site: &Site,
        machines: &Machines,
        (uses, placer): (Vec<DeviceUse>, &mut Placer),
        now: Nanos,
    ) {
        let is_same = *self.report.uses == uses;
        self.report = Rc::new(Report {
            server: self.number,
            boot: self.boot,
            sequence: self.report.sequence + 1,
            uses: if is_same { Rc::clone(&self.report.uses) } else { Rc::new(uses) },
            targets: self.look_at_targets(site, machines, now),
            placed: placer.reported().collect(),
        });
        let heard = self.knowledge.figures(&self.report, now);
        let since = seconds(now.saturating_since(self.started));
        placer.refresh(since, |target| heard.figures(target));
    }

    /// The demand of each job on each device.
    fn measure(&mut self, now: Nanos) -> Vec<DeviceUse> {
        let metadata = self.metadata();
        let mut uses = Vec::new();
        for (index, station) in self.stations.iter_mut().enumerate() {
            let device = device_number(index, metadata);
            let wanted = station.device.measure(now);
            uses.extend(wanted.map(|(job, wanted)| DeviceUse {
                job,
                device,
                wanted: wanted.map(|wanted| wanted as f32),
            }));
        }
        uses.sort_unstable_by_key(|usage| (usage.job, usage.device));
        uses
    }

    /// Compares each target with those of its class, and tells its figures.
    fn look_at_targets(&mut self, site: &Site, machines: &Machines, now: Nanos) -> Vec<TargetReport> {
        let metadata = self.metadata();
        let own = |index: usize| TargetId { server: ServerId(self.number), index: index as u16 };
        let rates: Vec<Vec<(u8, f32)>> =
            self.stations[..metadata].iter().map(|station| station.present_rates(now)).collect();
        let heard = self.knowledge.fresh(now).flat_map(|report| &report.targets);
        let heard = heard.map(|target| (Some(site.class(target.target)), &target.rates[..]));
        let own_rates =
            rates.iter().enumerate().map(|(index, rates)| (Some(site.class(own(index))), &rates[..]));
        let peers: Peers = heard.chain(own_rates).collect();
        for (index, (health, rates)) in self.health.iter_mut().zip(&rates).enumerate() {
            health.judge(rates, site.class(own(index)), &peers, None, now.0 / 1_000_000, Nanos::ZERO);
        }
        drop(peers);
        let told = |(index, rates): (usize, Vec<(u8, f32)>)| {
            let (target, health, load) = (own(index), &self.health[index], &self.loads[index]);
            let machine = &machines.targets[machines.number(target) as usize];
            let figures = Figures {
                capacity_bytes: machine.capacity_bytes,
                free_bytes: machine.free_bytes(),
                speed: f64::from(health.speed as f32),
                is_slow: health.slow_since.is_some(),
                presence: Presence::Alive,
                backlog_seconds: f64::from(load.backlog_seconds as f32),
                bytes_per_second: rates.iter().map(|&(_, rate)| f64::from(rate)).fold(0.0, f64::max),
                placed_bytes: 0.0,
                busy: None,
            };
            TargetReport { target, figures, rates }
        };
        rates.into_iter().enumerate().map(told).collect()
    }

    /// Divides the devices by the reports of all, where the last division is not too recent.
    fn divide(&mut self, divisions: &mut Divisions<'_>, now: Nanos) {
        let Some(divided) = self.knowledge.divide(&self.report, divisions, now) else { return };
        let metadata = self.metadata();
        let mut divided = divided.into_iter().peekable();
        for (index, station) in self.stations.iter_mut().enumerate() {
            let number = device_number(index, metadata);
            let portions = divided.next_if(|(device, _)| *device == number);
            station.device.set_portions(&portions.map(|(_, portions)| portions).unwrap_or_default(), now);
        }
    }
}
