//! The home servers: which one a file has, and what each knows of the store when it places a file.
//!
//! A home server adopts the figures of all targets once an exchange, as the product's does. All homes that hear each other
//! know the same after an exchange, so they share one placer, which adopts the figures when the first file after an exchange is placed:
//! at most one interval later than the product's. A home that knows more, because it made or removed files since, or less, because it is
//! silent, has a copy of this placer until the next exchange. A server that is silent counts as dead after the product's time.

use super::machines::Machines;
use super::time::seconds;
use crate::check::Settings;
use weir_exchange::{lateness_max, silence_max};
use weir_fairshare::Nanos;
use weir_placement::online::{Figures, Placed, Placer, Presence, Refusal, Seat, EXCHANGES_MAX};
use weir_placement::{AllocatorName, Layout, LayoutDefaults, LayoutSpecification, ServerId, TargetId};

/// Files that were there before the run are placed in so many turns at most, with an exchange after each.
pub(crate) const EXCHANGES_BEFORE_MAX: usize = 16;

/// The number of the exchange at which the run begins.
const FIRST_OF_RUN: u64 = 1 + EXCHANGES_BEFORE_MAX as u64;

/// Between two exchanges before the run nothing of a placed file fades. A placer tells exchanges apart by their moments, though.
const BETWEEN_BEFORE_SECONDS: f64 = 1e-6;

/// The home servers of a store.
#[derive(Debug)]
pub(crate) struct Homes {
    seed: u64,
    targets: Vec<TargetId>,
    defaults: LayoutDefaults,
    allocator: AllocatorName,
    lambda: Nanos,
    silent_max: Nanos,
    homes: Vec<Home>,
    common: Common,
    /// Exchanges that are still to come before the run.
    coming_before: u64,
    /// Whether the model tells the placers the figures, by exchanges of its own.
    is_told: bool,
}

#[derive(Debug)]
struct Home {
    /// Where it has a placer of its own, that one has its seat.
    seat: Seat,
    /// Files that it made.
    files: u64,
    /// The number of the exchange after which it last made or removed a file.
    busy_exchange: u64,
    /// Its own placer: where the model tells it the figures, or a copy of the common one until the next exchange.
    own: Option<Box<Placer>>,
}

/// The knowledge of all homes.
#[derive(Debug)]
struct Common {
    placer: Placer,
    /// Number and moment of the exchange whose figures it has.
    exchange: u64,
    seconds: f64,
    /// Files made and removed that were not told yet.
    news: Vec<News>,
    /// Homes with a copy.
    copied: Vec<u32>,
}

#[derive(Debug)]
struct News {
    /// The exchange before it.
    exchange: u64,
    home: u32,
    layout: Layout,
    /// For a removal, the moment of the exchange before the file was made.
    removed_of: Option<f64>,
}

impl Homes {
    pub(crate) fn new(machines: &Machines, settings: &Settings, lambda: Nanos, seed: u64) -> Homes {
        let count = machines.targets.len() as u32;
        let targets: Vec<TargetId> = (0..count).map(|number| machines.name(number)).collect();
        let mut homes = Homes {
            seed,
            defaults: settings.defaults,
            allocator: settings.allocator,
            lambda,
            silent_max: silence_max(lambda),
            homes: Vec::new(),
            common: Common {
                placer: new_placer(0, &targets, (settings.defaults, settings.allocator)),
                exchange: 0,
                seconds: 0.0,
                news: Vec::new(),
                copied: Vec::new(),
            },
            targets,
            coming_before: 0,
            is_told: false,
        };
        homes.homes = (0..machines.servers.len() as u32).map(|number| homes.start(number)).collect();
        homes
    }

    /// A home that made no file.
    fn start(&self, number: u32) -> Home {
        // Seed 0 throws the dice of the product.
        let seed = u64::from(number) ^ self.seed << 16;
        let seat = self.common.placer.new_seat(ServerId(number as u16), seed);
        Home { seat, files: 0, busy_exchange: 0, own: None }
    }

    /// Before the run the servers will exchange their figures so many times, at most [`EXCHANGES_BEFORE_MAX`].
    pub(crate) fn await_exchanges_before(&mut self, count: usize) {
        self.coming_before = count as u64;
    }

    /// The servers exchange their figures once more before the run.
    pub(crate) fn exchange_before(&mut self) {
        self.coming_before = self.coming_before.saturating_sub(1);
    }

    /// From now on the model tells each home's placer the figures of the store, by exchanges of its own. The homes placed the files of
    /// `there` before.
    pub(crate) fn tell_by_model(&mut self, machines: &Machines, there: &[(u32, &Layout)]) {
        self.hear(machines, Nanos::ZERO);
        self.is_told = true;
        for &(home, layout) in there {
            self.placer(home).placed(layout, 0);
        }
        let all: Vec<f64> = self.common.placer.placed_lately().map(|(_, bytes)| bytes).collect();
        for placer in self.homes.iter_mut().filter_map(|home| home.own.as_mut()) {
            let own: Vec<f64> = placer.placed_lately().map(|(_, bytes)| bytes).collect();
            placer.refresh(0.0, |target| {
                let number = machines.number(target) as usize;
                let placed_bytes = (all[number] - own[number]).max(0.0);
                Some(Figures { placed_bytes, ..figures(machines, number as u32, Presence::Alive) })
            });
        }
    }

    /// The placer of a home, to be told.
    pub(crate) fn placer(&mut self, home: u32) -> &mut Placer {
        let Homes { targets, homes, defaults, allocator, .. } = self;
        let Home { own, seat, .. } = &mut homes[home as usize];
        own.get_or_insert_with(|| {
            let mut placer = Box::new(new_placer(home, targets, (*defaults, *allocator)));
            placer.change_seat(seat);
            placer
        })
    }

    /// The server of this number, which the model tells, starts anew, and knows of no file that it placed lately.
    pub(crate) fn forget(&mut self, home: u32) {
        self.homes[home as usize] = self.start(home);
    }

    /// First bytes of the home's file of this number came.
    pub(crate) fn written(&mut self, home: u32, number: u64, now: Nanos) {
        if let Some(placer) = &mut self.homes[home as usize].own {
            placer.written(number, seconds(now));
        }
    }

    /// The home server of a file whose workload names none: stable, and even over files.
    pub(crate) fn usual(&self, file: u32) -> u32 {
        file % self.homes.len() as u32
    }

    /// Chooses the layout of a new file of a home server, and gives it a number there.
    pub(crate) fn place(
        &mut self,
        home: u32,
        asked: Option<&LayoutSpecification>,
        (machines, now): (&Machines, Nanos),
    ) -> Result<(u64, Layout), Refusal> {
        let number = self.homes[home as usize].files;
        let placed = self.ask(home, (machines, now), |placer| placer.place(number, asked));
        let Placed { layout, .. } = placed?;
        self.homes[home as usize].files += 1;
        if self.is_told {
            let placer = self.placer(home);
            placer.placed(&layout, seconds(now) as i64);
            placer.awaits(number, &layout, seconds(now));
        } else {
            self.note(home, &layout, (None, now));
        }
        Ok((number, layout))
    }

    /// The layout of a file whose targets in `full` have no room for bytes behind `size_bytes`.
    pub(crate) fn place_behind(
        &mut self,
        home: u32,
        (layout, asked, size_bytes): (&Layout, Option<&LayoutSpecification>, u64),
        full: &[TargetId],
        (machines, now): (&Machines, Nanos),
    ) -> Result<Layout, Refusal> {
        let behind = |placer: &mut Placer| placer.place_behind(layout, asked, size_bytes, full);
        Ok(self.ask(home, (machines, now), behind)?.layout)
    }

    /// A file that the home placed at `created` is gone.
    pub(crate) fn removed(&mut self, home: u32, layout: &Layout, (created, now): (Nanos, Nanos)) {
        if !self.is_told {
            self.note(home, layout, (Some(created), now));
        } else if let Some(placer) = &mut self.homes[home as usize].own {
            placer.removed(layout, seconds(created) as i64);
        }
    }

    /// Asks a placer that knows what the home knows, with the home's turn and dice.
    fn ask<T>(
        &mut self,
        home: u32,
        (machines, now): (&Machines, Nanos),
        question: impl FnOnce(&mut Placer) -> T,
    ) -> T {
        if self.is_told {
            self.placer(home);
        } else {
            self.hear(machines, now);
            self.copy_where_needed(home, (machines, now));
        }
        let Homes { homes, common, .. } = self;
        let Home { own, seat, .. } = &mut homes[home as usize];
        if let Some(own) = own {
            return question(own);
        }
        common.placer.change_seat(seat);
        let answer = question(&mut common.placer);
        common.placer.change_seat(seat);
        answer
    }

    /// Remembers what a home tells at the next exchange: a file made, or removed that was made at a moment.
    fn note(&mut self, home: u32, layout: &Layout, (created, now): (Option<Nanos>, Nanos)) {
        let exchange = self.exchange(now);
        let removed_of = created.map(|created| self.exchange_seconds(created));
        let news = News { exchange, home, layout: layout.clone(), removed_of };
        let server = &mut self.homes[home as usize];
        server.busy_exchange = exchange;
        // A copy of an exchange before is not asked any more.
        if let Some(own) = server.own.as_mut().filter(|_| self.common.exchange == exchange) {
            news.count(own, self.common.seconds);
        }
        self.common.news.push(news);
    }

    /// The number of the last exchange.
    fn exchange(&self, now: Nanos) -> u64 {
        FIRST_OF_RUN - self.coming_before + now.0 / self.lambda.0
    }

    /// The moment of the last exchange, in seconds; below 0 before the run.
    fn exchange_seconds(&self, now: Nanos) -> f64 {
        seconds(Nanos(now.0 / self.lambda.0 * self.lambda.0))
            - self.coming_before as f64 * BETWEEN_BEFORE_SECONDS
    }

    /// The common placer learns the figures of the last exchange.
    fn hear(&mut self, machines: &Machines, now: Nanos) {
        let (exchange, at) = (self.exchange(now), self.exchange_seconds(now));
        let Homes { homes, common, silent_max, lambda, .. } = self;
        if common.exchange == exchange {
            return;
        }
        let count = common.news.partition_point(|news| news.exchange < exchange);
        let mut told = common.exchange;
        for news in common.news.drain(..count) {
            if news.exchange > told {
                pass(&mut common.placer, (told, news.exchange), *lambda);
                told = news.exchange;
                common.seconds = seconds_of(told, *lambda);
                common.placer.refresh(common.seconds, |_| None);
            }
            let home = &mut homes[news.home as usize];
            // A copy knows the news of its own exchange.
            if home.own.is_some() && news.exchange == common.exchange {
                news.count(&mut common.placer, common.seconds);
                continue;
            }
            home.drop_copy();
            common.placer.change_seat(&mut home.seat);
            news.count(&mut common.placer, common.seconds);
            common.placer.change_seat(&mut home.seat);
        }
        for home in common.copied.drain(..) {
            homes[home as usize].drop_copy();
        }
        pass(&mut common.placer, (told, exchange), *lambda);
        (common.exchange, common.seconds) = (exchange, at);
        common.placer.refresh(at, |target| {
            let number = machines.number(target);
            let server = machines.targets[number as usize].server;
            Some(figures(machines, number, presence(machines, server, (now, *silent_max))))
        });
    }

    /// A home that does not know the same as the others has a copy of their placer.
    fn copy_where_needed(&mut self, home: u32, (machines, now): (&Machines, Nanos)) {
        let Homes { homes, common, silent_max, .. } = self;
        let server = &mut homes[home as usize];
        let others = presence(machines, home, (now, *silent_max));
        let is_deaf = others != Presence::Alive;
        if server.own.is_some() || !(is_deaf || server.busy_exchange == common.exchange) {
            return;
        }
        let mut copy = Box::new(common.placer.clone());
        copy.change_seat(&mut server.seat);
        if is_deaf {
            copy.refresh(common.seconds, |target| {
                let number = machines.number(target);
                let is_own = machines.targets[number as usize].server == home;
                Some(figures(machines, number, if is_own { Presence::Alive } else { others }))
            });
        }
        for news in common.news.iter().filter(|news| news.home == home) {
            news.count(&mut copy, common.seconds);
        }
        server.own = Some(copy);
        common.copied.push(home);
    }
}

impl Home {
    /// Takes its seat back from its copy of the common placer, if it has one.
    fn drop_copy(&mut self) {
        if let Some(mut copy) = self.own.take() {
            copy.change_seat(&mut self.seat);
        }
    }
}

/// The exchanges between two of which a placer is told: the first told of what was placed before it, the others of nothing new. Those
/// before the run are all told.
fn pass(placer: &mut Placer, (before, after): (u64, u64), lambda: Nanos) {
    let first = (before + 1).max(FIRST_OF_RUN);
    if first < after {
        placer.refresh(seconds_of(first, lambda), |_| None);
    }
    for exchange in (first + 1).max(after.saturating_sub(EXCHANGES_MAX as u64))..after {
        placer.hear_nothing(seconds_of(exchange, lambda));
    }
}

/// The moment of an exchange of the run.
fn seconds_of(exchange: u64, lambda: Nanos) -> f64 {
    seconds(Nanos((exchange - FIRST_OF_RUN) * lambda.0))
}

impl News {
    /// Counts it in a placer whose figures are of a moment.
    fn count(&self, placer: &mut Placer, heard_seconds: f64) {
        match self.removed_of {
            None => placer.placed(&self.layout, heard_seconds as i64),
            Some(made_seconds) => placer.removed_at_age(&self.layout, heard_seconds - made_seconds),
        }
    }
}

fn new_placer(
    home: u32,
    targets: &[TargetId],
    (defaults, allocator): (LayoutDefaults, AllocatorName),
) -> Placer {
    let mut placer = Placer::new(ServerId(home as u16), targets, defaults);
    placer.set_allocator(allocator);
    placer
}

/// The figures of a target, without the bytes that homes placed there.
fn figures(machines: &Machines, number: u32, presence: Presence) -> Figures {
    let machine = &machines.targets[number as usize];
    let (capacity_bytes, free_bytes) = (machine.capacity_bytes, machine.free_bytes());
    Figures { capacity_bytes, free_bytes, presence, ..Figures::UNKNOWN }
}

/// The state of a server to the others. A silent server hears nothing of them either, so it is theirs to it, too.
fn presence(machines: &Machines, server: u32, (now, silent_max): (Nanos, Nanos)) -> Presence {
    let since = machines.servers[server as usize].silent_since;
    match since.map_or(Nanos::ZERO, |since| now.saturating_since(since)) {
        silence if silence <= silent_max => Presence::Alive,
        silence if silence <= lateness_max(silent_max) => Presence::Late,
        _ => Presence::Dead,
    }
}

#[cfg(test)]
mod tests;
