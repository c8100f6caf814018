//! A simulated server: its devices, and its exchange with its peers.
//!
//! The steps at the end of an interval are those of `weir_exchange`.

use super::divisions::Divisions;
use super::station::Station;
use crate::check::Settings;
use crate::core::machines::Machines;
use crate::core::reports::{Told, Uses};
use crate::core::time::nanos;
use crate::scenario::Scenario;
use std::rc::Rc;
use weir_device::{Health, Load};
use weir_exchange::{measure, placements, report_target, Exchange};
use weir_fairshare::{device_number, JobAttributes, Nanos};
use weir_placement::online::Placer;
use weir_placement::{ServerId, SplitMix64, TargetId};
use weir_wire::TargetReport;

/// Time of a division for each use of a device by a job: `sharing division 128 1000 user-then-size-fair` of this crate's examples.
const DIVISION_NANOSECONDS_PER_USE: u64 = 2_100;

/// The settings that all servers have in common.
pub(super) struct Site<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) settings: &'a Settings,
    pub(super) lambda: Nanos,
    jobs: Rc<[JobAttributes]>,
}

/// A server.
pub(super) struct Server {
    number: u16,
    /// Its starts.
    boot: u32,
    /// Its targets, and the metadata service last.
    pub(super) stations: Vec<Station>,
    loads: Vec<Load>,
    health: Vec<Health>,
    exchange: Exchange<Told>,
}

impl<'a> Site<'a> {
    /// The site of a scenario that was checked.
    pub(super) fn new(scenario: &'a Scenario, settings: &'a Settings) -> Site<'a> {
        let jobs = settings.jobs.iter().copied().collect();
        Site { scenario, settings, lambda: nanos(scenario.lambda_seconds), jobs }
    }

    fn class(&self, target: TargetId) -> &str {
        &self.scenario.topology.servers[usize::from(target.server.0)].targets[usize::from(target.index)].class
    }

    /// The start of a device's dice, as `crates/core/src/requests/devices.rs` makes it of a number of the start.
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
        let (sharing, make) = (&site.settings.sharing, site.settings.algorithms.chooser.as_ref());
        let mut stations: Vec<Station> =
            targets.map(|(target, index)| Station::target(target, sharing, make, dice(index))).collect();
        stations.push(Station::metadata(own.metadata_seconds, sharing, make, dice(u64::MAX)));
        let nothing = Told { server: number, boot, jobs: Rc::clone(&site.jobs), ..Told::default() };
        let mut exchange = Exchange::new(nothing, site.lambda, now);
        let servers = (0..site.scenario.topology.servers.len() as u16).filter(|&server| server != number);
        servers.for_each(|server| exchange.meet(ServerId(server)));
        Server {
            number,
            boot,
            loads: vec![Load::default(); stations.len()],
            health: vec![Health::default(); own.targets.len()],
            stations,
            exchange,
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

    /// Its exchange.
    pub(super) fn exchange(&mut self) -> &mut Exchange<Told> {
        &mut self.exchange
    }

    /// Closes an interval that is over: loads, report, placement and division, in this order.
    pub(super) fn close_interval(
        &mut self,
        site: &Site,
        machines: &Machines,
        (placer, divisions): (&mut Placer, &mut Divisions<'_>),
        now: Nanos,
    ) {
        if !self.exchange.take_due(now) {
            return;
        }
        for (load, station) in self.loads.iter_mut().zip(&self.stations) {
            load.look(&station.device, site.lambda);
        }
        self.renew(site, machines, placer, now);
        self.exchange.inform(placer, now);
        self.divide(divisions, now);
        // Answers are awaited until the interval ends.
        self.exchange.give_up();
    }

    /// Takes a peer's report; `is_answer` tells whether it answers one of this server.
    pub(super) fn hear(
        &mut self,
        (report, is_answer): (Told, bool),
        divisions: &mut Divisions<'_>,
        now: Nanos,
    ) {
        if is_answer {
            self.exchange.answered(ServerId(report.server));
        }
        self.exchange.hear(report, now);
        self.divide(divisions, now);
    }

    /// The server ends; what it left under way is of a start that is over.
    pub(super) fn end(&mut self) {
        self.boot += 1;
    }

    /// Looks again at everything that the report tells.
    fn renew(&mut self, site: &Site, machines: &Machines, placer: &Placer, now: Nanos) {
        let mut uses: Uses =
            measure(self.stations.iter_mut().map(|station| &mut station.device), now).collect();
        uses.sort_unstable_by_key(|(job, usage)| (*job, usage.device));
        let targets = self.look_at_targets(site, machines, now);
        let own = self.exchange.own_mut();
        if *own.uses != uses {
            own.uses = Rc::new(uses);
        }
        (own.sequence, own.targets, own.placed) = (own.sequence + 1, targets, placements(placer).into());
    }

    /// Compares each target with those of its class.
    fn look_at_targets(&mut self, site: &Site, machines: &Machines, now: Nanos) -> Rc<[TargetReport]> {
        let own = |index: usize| TargetId { server: ServerId(self.number), index: index as u16 };
        let targets = &self.stations[..self.metadata()];
        let rates: Vec<Vec<(u8, f32)>> = targets.iter().map(|station| station.present_rates(now)).collect();
        let here = rates.iter().enumerate().map(|(index, rates)| (own(index), &rates[..]));
        let peers = self.exchange.usual(here, |target| Some(site.class(target)), now);
        for (index, (health, rates)) in self.health.iter_mut().zip(&rates).enumerate() {
            health.judge(rates, site.class(own(index)), &peers, None, now.0 / 1_000_000, Nanos::ZERO);
        }
        drop(peers);
        let told = |(index, (target, rates)): (usize, _)| {
            let account = (&self.loads[index], &self.health[index]);
            report_target(target, &self.stations[index].device, account, rates)
        };
        machines.rooms(self.number).zip(rates).enumerate().map(told).collect()
    }

    /// Divides the devices by the reports of all, where the last division is not too recent.
    fn divide(&mut self, divisions: &mut Divisions<'_>, now: Nanos) {
        if !self.exchange.may_divide(now) {
            return;
        }
        let believed = self.exchange.believed(now);
        let uses: u64 = believed.clone().map(|report| report.uses.len() as u64).sum();
        let mut divided = divisions.by(believed).portions(self.number);
        let metadata = self.metadata();
        for (index, station) in self.stations.iter_mut().enumerate() {
            let portions = divided.remove(&device_number(index, metadata)).unwrap_or_default();
            station.device.set_portions(&portions, now);
        }
        self.exchange.divided(now, Nanos(DIVISION_NANOSECONDS_PER_USE * uses));
    }
}
