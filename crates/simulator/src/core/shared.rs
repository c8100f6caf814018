//! The knowledge that home servers share, where all of them exchange reports at one moment.
//!
//! All homes that hear each other believe the same after an exchange. So they have one placer, which is informed by the product's
//! exchange when the first home asks after that moment: a placer each would cost as many times more as there are servers. A home that
//! knows more, because it made or removed files since, has a copy of this placer until the next exchange. A silent home has a placer
//! and an exchange of its own until it is heard again. The others hear of the files that it makes, though.

use super::machines::Machines;
use super::reports::Told;
use std::collections::BTreeMap;
use weir_exchange::Exchange;
use weir_fairshare::Nanos;
use weir_placement::online::{Placer, Seat, EXCHANGES_MAX};
use weir_placement::{Layout, ServerId};

/// Files that were there before the run are placed in so many turns at most, with an exchange after each.
pub(crate) const EXCHANGES_BEFORE_MAX: usize = 16;
/// Between two exchanges before the run nothing of a placed file fades. A placer tells exchanges apart by their moments, though.
const BETWEEN_BEFORE: Nanos = Nanos::from_micros(1);
/// The begin of the run, as moments count. To placers earlier ones are below 0, so no home expects files of others for those that
/// were made in turn.
const BEGIN: Nanos = Nanos(BETWEEN_BEFORE.0 * (1 + EXCHANGES_BEFORE_MAX as u64));
/// The number of a listener that is no server: it tells nothing.
const NOBODY: u16 = u16::MAX;

/// The knowledge of all homes.
#[derive(Debug)]
pub(super) struct Shared {
    placer: Placer,
    exchange: Exchange<Told>,
    /// The exchanges of silent servers, which heard nobody since they are silent.
    apart: BTreeMap<u16, Exchange<Told>>,
    /// The moment of the exchange by which the placer was informed.
    heard: Nanos,
    /// Exchanges that are still to come before the run.
    coming_before: u64,
    /// Files made and removed since.
    news: Vec<News>,
}

/// A home server.
#[derive(Debug)]
pub(super) struct Home {
    /// Where the home has a placer of its own, that placer has its seat.
    seat: Seat,
    /// Files that it made.
    pub(super) files: u64,
    /// Whether it made or removed files since the last exchange.
    has_news: bool,
    /// Its own placer: the product's, or a copy of the shared one until the next exchange.
    pub(super) own: Option<Box<Placer>>,
}

#[derive(Debug)]
struct News {
    home: u32,
    layout: Layout,
    /// For a removal, the moment of the exchange before the file was made, in seconds of the placer.
    removed_of: Option<f64>,
}

impl Shared {
    /// Nothing was heard yet.
    pub(super) fn new(placer: Placer, lambda: Nanos) -> Shared {
        Shared {
            placer,
            exchange: Exchange::new(Told { server: NOBODY, ..Told::default() }, lambda, BEGIN),
            apart: BTreeMap::new(),
            heard: Nanos::ZERO,
            coming_before: 0,
            news: Vec::new(),
        }
    }

    /// Before the run the servers will exchange their reports so many times more, at most [`EXCHANGES_BEFORE_MAX`].
    pub(super) fn await_exchanges_before(&mut self, count: usize) {
        self.coming_before = count as u64;
    }

    /// Servers may be silent from now on: all of them heard the last exchange.
    pub(super) fn part(&mut self, homes: &mut [Home], machines: &Machines) {
        for (server, machine) in (0..).zip(&machines.servers) {
            if machine.silent_since.is_some() && !self.apart.contains_key(&server) {
                self.copy(homes, server.into());
                self.apart.insert(server, self.exchange.clone());
            }
        }
    }

    /// Asks a placer that knows what the home knows.
    pub(super) fn ask<T>(
        &mut self,
        homes: &mut [Home],
        home: u32,
        (machines, now): (&Machines, Nanos),
        question: impl FnOnce(&mut Placer) -> T,
    ) -> T {
        self.hear(homes, (machines, now));
        if homes[home as usize].has_news {
            self.copy(homes, home);
        }
        let Home { own, seat, .. } = &mut homes[home as usize];
        if let Some(own) = own {
            return question(own);
        }
        self.placer.change_seat(seat);
        let answer = question(&mut self.placer);
        self.placer.change_seat(seat);
        answer
    }

    /// Remembers what a home tells at the next exchange: a file made, or gone that was made at a moment.
    pub(super) fn note(
        &mut self,
        homes: &mut [Home],
        (home, layout, created): (u32, &Layout, Option<Nanos>),
        present: (&Machines, Nanos),
    ) {
        self.hear(homes, present);
        let removed_of = created.map(|created| self.exchange.seconds(self.moment(created)));
        let news = News { home, layout: layout.clone(), removed_of };
        if let Some(own) = &mut homes[home as usize].own {
            news.count(own, self.exchange.seconds(self.heard));
        }
        homes[home as usize].has_news = true;
        self.news.push(news);
    }

    /// The moment of the last exchange.
    fn moment(&self, now: Nanos) -> Nanos {
        let lambda = self.exchange.lambda();
        Nanos(BEGIN.0 + now.0 / lambda.0 * lambda.0 - self.coming_before * BETWEEN_BEFORE.0)
    }

    /// The placer is informed by the last exchange.
    pub(super) fn hear(&mut self, homes: &mut [Home], (machines, now): (&Machines, Nanos)) {
        let at = self.moment(now);
        if self.heard == at {
            return;
        }
        let heard_seconds = self.exchange.seconds(self.heard);
        for news in self.news.drain(..) {
            let home = &mut homes[news.home as usize];
            // The seat of a copy has counted them.
            if home.own.is_some() {
                news.count(&mut self.placer, heard_seconds);
            } else {
                self.placer.change_seat(&mut home.seat);
                news.count(&mut self.placer, heard_seconds);
                self.placer.change_seat(&mut home.seat);
            }
        }
        pass(&mut self.placer, &self.exchange, (self.heard, at));
        for (server, machine) in (0..).zip(&machines.servers) {
            let home = &mut homes[usize::from(server)];
            home.has_news = false;
            let told = Told::of_room(machines, server, at.0);
            if machine.silent_since.is_none() {
                self.exchange.hear(told, at);
                self.apart.remove(&server);
                home.drop_copy();
            } else if let (Some(exchange), Some(placer)) = (self.apart.get_mut(&server), &mut home.own) {
                *exchange.own_mut() = told;
                pass(placer, exchange, (self.heard, at));
                exchange.inform(placer, at);
            }
        }
        self.exchange.inform(&mut self.placer, at);
        self.heard = at;
    }

    /// A home has a copy of the placer from now on, with its news.
    fn copy(&mut self, homes: &mut [Home], number: u32) {
        let home = &mut homes[number as usize];
        if home.own.is_some() {
            return;
        }
        let copy = home.own_or_copy(&self.placer);
        for news in self.news.iter().filter(|news| news.home == number) {
            news.count(copy, self.exchange.seconds(self.heard));
        }
    }
}

/// The exchanges after `heard` and before `at`: the first told of what was placed before it, the others of nothing new.
fn pass(placer: &mut Placer, exchange: &Exchange<Told>, (heard, at): (Nanos, Nanos)) {
    let lambda = exchange.lambda();
    let number = |moment: Nanos| moment.saturating_since(BEGIN).0 / lambda.0;
    let seconds = |number: u64| exchange.seconds(BEGIN + Nanos(number * lambda.0));
    let first = if heard < BEGIN { 0 } else { number(heard) + 1 };
    let end = number(at);
    if first < end {
        placer.refresh(seconds(first), |_| None);
    }
    for number in (first + 1).max(end.saturating_sub(EXCHANGES_MAX as u64))..end {
        placer.hear_nothing(seconds(number));
    }
}

impl Home {
    /// A home that made no file. Seed 0 throws the dice of the product.
    pub(super) fn new(number: u16, blank: &Placer, seed: u64) -> Home {
        let seat = blank.new_seat(ServerId(number), u64::from(number) ^ seed << 16);
        Home { seat, files: 0, has_news: false, own: None }
    }

    /// Its own placer; where it has none yet, a copy of `placer` from now on.
    pub(super) fn own_or_copy(&mut self, placer: &Placer) -> &mut Placer {
        self.own.get_or_insert_with(|| {
            let mut copy = Box::new(placer.clone());
            copy.change_seat(&mut self.seat);
            copy
        })
    }

    /// Takes its seat back from its copy of the shared placer, if it has one.
    fn drop_copy(&mut self) {
        if let Some(mut copy) = self.own.take() {
            copy.change_seat(&mut self.seat);
        }
    }
}

impl News {
    /// Counts it in a placer that was informed at a moment.
    fn count(&self, placer: &mut Placer, heard_seconds: f64) {
        match self.removed_of {
            None => placer.placed(&self.layout, heard_seconds as i64),
            Some(made_seconds) => placer.removed_at_age(&self.layout, heard_seconds - made_seconds),
        }
    }
}

#[cfg(test)]
mod tests;
