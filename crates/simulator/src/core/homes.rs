//! The home servers: which one a file has, and what each knows of the store when it places a file.
//!
//! A home server adopts the figures of all targets once an exchange, as the product's does. Here it does so when it places its
//! first file after an exchange, since nothing else asks. The figures are those of that moment, at most one interval
//! younger than the exchange. A server that is silent counts as dead after the product's time.

use super::machines::Machines;
use super::time::seconds;
use crate::check::Settings;
use weir_device::silence_max;
use weir_fairshare::Nanos;
use weir_placement::online::{each_stripe, Figures, Placed, Placer, Refusal, HALF_LIFE_SECONDS};
use weir_placement::{Layout, LayoutSpecification, ServerId, TargetId};

/// Half-lives after which the unit of told bytes is set anew, far within the range of its numbers.
const RESCALE_HALF_LIVES: f64 = 256.0;

/// The home servers of a store.
#[derive(Debug)]
pub(crate) struct Homes {
    seed: u64,
    targets: Vec<TargetId>,
    lambda: Nanos,
    silent_max: Nanos,
    /// Made when the server places its first file.
    homes: Vec<Option<Home>>,
    /// For each target, the bytes that all servers placed there lately and told, each byte in the unit of its moment.
    told: Vec<f64>,
    /// The moment at which the unit of a placed byte is 1; it doubles with each half-life.
    unit_at: Nanos,
    /// Placements and removals that were not told yet.
    untold: Vec<Untold>,
    /// Exchanges before the run.
    exchanges_before: u64,
    /// Whether the model tells the placers the figures, by exchanges of its own.
    is_told: bool,
}

#[derive(Debug)]
struct Home {
    placer: Placer,
    /// Number of the exchange whose figures it has.
    exchange: u64,
    /// Files that it made.
    files: u64,
    /// The part of `told` that is its own.
    told: Vec<f64>,
}

#[derive(Debug)]
struct Untold {
    /// The exchange before it.
    exchange: u64,
    home: u32,
    target: u32,
    /// In the unit of the moment at which the file was made; negative for a removal.
    bytes: f64,
}

impl Homes {
    pub(crate) fn new(machines: &Machines, lambda: Nanos, seed: u64) -> Homes {
        let count = machines.targets.len();
        Homes {
            seed,
            targets: (0..count as u32).map(|number| machines.name(number)).collect(),
            lambda,
            silent_max: silence_max(lambda),
            homes: machines.servers.iter().map(|_| None).collect(),
            told: vec![0.0; count],
            unit_at: Nanos::ZERO,
            untold: Vec::new(),
            exchanges_before: 1,
            is_told: false,
        }
    }

    /// The servers exchange their figures once more before the run.
    pub(crate) fn exchange_before(&mut self) {
        self.exchanges_before += 1;
    }

    /// From now on the model tells each home's placer the figures of the store, by exchanges of its own.
    pub(crate) fn tell_by_model(&mut self) {
        self.is_told = true;
    }

    /// The placer of a home, to be told.
    pub(crate) fn placer(&mut self, home: u32, settings: &Settings) -> &mut Placer {
        &mut self.home(home, settings).placer
    }

    /// The server of this number starts anew, and knows of no file that it placed lately.
    pub(crate) fn forget(&mut self, home: u32) {
        self.homes[home as usize] = None;
    }

    /// First bytes of the home's file of this number came.
    pub(crate) fn written(&mut self, home: u32, number: u64, now: Nanos) {
        if let Some(server) = &mut self.homes[home as usize] {
            server.placer.written(number, seconds(now));
        }
    }

    fn home(&mut self, home: u32, settings: &Settings) -> &mut Home {
        let Homes { seed, targets, homes, .. } = self;
        homes[home as usize].get_or_insert_with(|| {
            let mut placer = Placer::new(ServerId(home as u16), targets, settings.defaults);
            // Seed 0 throws the dice of the product.
            placer.set_seed(u64::from(home) ^ *seed << 16);
            placer.set_allocator(settings.allocator);
            Home { placer, exchange: 0, files: 0, told: vec![0.0; targets.len()] }
        })
    }

    /// The home server of a file: stable, and even over files.
    pub(crate) fn of_file(&self, file: u32) -> u32 {
        file % self.homes.len() as u32
    }

    /// Chooses the layout of a new file of a home server, and gives it a number there.
    pub(crate) fn place(
        &mut self,
        home: u32,
        asked: Option<&LayoutSpecification>,
        (machines, settings, now): (&Machines, &Settings, Nanos),
    ) -> Result<(u64, Layout), Refusal> {
        let is_told = self.is_told;
        let server = self.refreshed(home, (machines, settings, now));
        let number = server.files;
        let Placed { layout, .. } = server.placer.place(number, asked)?;
        server.files += 1;
        server.placer.placed(&layout, seconds(now) as i64);
        if is_told {
            server.placer.awaits(number, &layout, seconds(now));
        } else {
            self.note(home, &layout, (machines, now, now), 1.0);
        }
        Ok((number, layout))
    }

    /// The layout of a file whose targets in `full` have no room for bytes behind `size_bytes`.
    pub(crate) fn place_behind(
        &mut self,
        home: u32,
        (layout, asked, size_bytes): (&Layout, Option<&LayoutSpecification>, u64),
        full: &[TargetId],
        (machines, settings, now): (&Machines, &Settings, Nanos),
    ) -> Result<Layout, Refusal> {
        let server = self.refreshed(home, (machines, settings, now));
        Ok(server.placer.place_behind(layout, asked, size_bytes, full)?.layout)
    }

    /// A file that was made at `created` is gone.
    pub(crate) fn removed(
        &mut self,
        home: u32,
        layout: &Layout,
        (machines, created, now): (&Machines, Nanos, Nanos),
    ) {
        if let Some(server) = &mut self.homes[home as usize] {
            server.placer.removed(layout, seconds(created) as i64);
            if !self.is_told {
                self.note(home, layout, (machines, created, now), -1.0);
            }
        }
    }

    /// Remembers what a home tells of a layout at the next exchange.
    fn note(
        &mut self,
        home: u32,
        layout: &Layout,
        (machines, created, now): (&Machines, Nanos, Nanos),
        sign: f64,
    ) {
        let (exchange, unit) = (self.exchange(now), self.unit(created));
        each_stripe(layout, |target, bytes| {
            let target = machines.number(target);
            self.untold.push(Untold { exchange, home, target, bytes: sign * bytes * unit });
        });
    }

    /// The number of the last exchange.
    fn exchange(&self, now: Nanos) -> u64 {
        self.exchanges_before + now.0 / self.lambda.0
    }

    /// The weight, in the sums of told bytes, of a byte that is placed at this moment.
    fn unit(&self, at: Nanos) -> f64 {
        ((seconds(at) - seconds(self.unit_at)) / HALF_LIFE_SECONDS).exp2()
    }

    /// A home with the figures of the last exchange.
    fn refreshed(
        &mut self,
        home: u32,
        (machines, settings, now): (&Machines, &Settings, Nanos),
    ) -> &mut Home {
        if self.is_told {
            return self.home(home, settings);
        }
        let exchange = self.exchange(now);
        self.tell(exchange, now);
        let unit = self.unit(now);
        self.home(home, settings);
        let Homes { homes, told, silent_max, .. } = self;
        let Some(server) = &mut homes[home as usize] else {
            unreachable!("the home has its placer since the line before")
        };
        if server.exchange == exchange {
            return server;
        }
        server.exchange = exchange;
        let own = &server.told;
        server.placer.refresh(seconds(now), |target| {
            let number = machines.number(target) as usize;
            let machine = &machines.targets[number];
            Some(Figures {
                capacity_bytes: machine.capacity_bytes,
                free_bytes: machine.free_bytes(),
                is_alive: is_heard(machines, (home, machine.server), (now, *silent_max)),
                placed_bytes: ((told[number] - own[number]) / unit).max(0.0),
                ..Figures::UNKNOWN
            })
        });
        // Figures of a target that came back were raised to the mean: that is told, too.
        let present = server.placer.placed_lately();
        for ((own, all), (_, bytes)) in server.told.iter_mut().zip(told).zip(present) {
            *all += bytes * unit - *own;
            *own = bytes * unit;
        }
        server
    }

    /// Adds up what was placed before this exchange.
    fn tell(&mut self, exchange: u64, now: Nanos) {
        let count = self.untold.partition_point(|untold| untold.exchange < exchange);
        for Untold { home, target, bytes, .. } in self.untold.drain(..count) {
            self.told[target as usize] += bytes;
            if let Some(home) = &mut self.homes[home as usize] {
                home.told[target as usize] += bytes;
            }
        }
        let unit = self.unit(now);
        if unit > RESCALE_HALF_LIVES.exp2() {
            let own = self.homes.iter_mut().flatten().map(|home| &mut home.told);
            for bytes in own.chain([&mut self.told]).flatten() {
                *bytes /= unit;
            }
            self.untold.iter_mut().for_each(|untold| untold.bytes /= unit);
            self.unit_at = now;
        }
    }
}

/// Whether the home hears of the targets of the server.
fn is_heard(machines: &Machines, (home, server): (u32, u32), (now, silent_max): (Nanos, Nanos)) -> bool {
    let is_silent = |number: u32| {
        let since = machines.servers[number as usize].silent_since;
        since.is_some_and(|since| now.saturating_since(since) > silent_max)
    };
    home == server || !(is_silent(home) || is_silent(server))
}
