//! The exchange of one server: its report, the reports of the others, and the moments of both.

use crate::heard::Heard;
use crate::report::{figures_of, uses_of, Report};
use crate::reports::Reports;
use std::collections::BTreeSet;
use weir_device::{Peers, Usual};
use weir_fairshare::{Nanos, StoreUses};
use weir_placement::online::{Figures, Placer, Presence};
use weir_placement::{ServerId, TargetId};

/// With many jobs devices are divided less often, so that divisions take at most one part in so many of a server's time.
const DIVISION_COST_FACTOR: u64 = 20;
/// News between two exchanges are told once in this time: what they are about is found out meanwhile too.
const NEWS_PAUSE: Nanos = Nanos::from_millis(10);

/// The exchange of one server with the others.
#[derive(Clone, Debug)]
pub struct Exchange<R> {
    own: R,
    reports: Reports<R>,
    /// The server's start: until the age is over, a server may be up that was not heard of yet.
    started: Nanos,
    lambda: Nanos,
    peers: BTreeSet<ServerId>,
    /// Peers whose answer to the last report is outstanding.
    awaited: BTreeSet<ServerId>,
    next: Nanos,
    next_division: Nanos,
    /// The last moment at which news were told between two exchanges.
    told_news: Nanos,
}

impl<R: Report> Exchange<R> {
    /// A server that started at `started`, tells `own`, knows no other server, and exchanges every `lambda`.
    pub fn new(own: R, lambda: Nanos, started: Nanos) -> Exchange<R> {
        Exchange {
            own,
            reports: Reports::every(lambda),
            started,
            lambda,
            peers: BTreeSet::new(),
            awaited: BTreeSet::new(),
            next: started,
            next_division: started,
            told_news: Nanos::ZERO,
        }
    }

    /// Another server is told from now on.
    pub fn meet(&mut self, server: ServerId) {
        self.peers.insert(server);
    }

    /// The servers that are told, ascending.
    pub fn peers(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.peers.iter().copied()
    }

    /// The interval between exchanges.
    pub fn lambda(&self) -> Nanos {
        self.lambda
    }

    /// The moment of the next exchange.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Whether the exchange is due, which is then due again an interval later.
    pub fn take_due(&mut self, now: Nanos) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now + self.lambda;
        }
        is_due
    }

    /// Whether news are to be told at `now`, before the exchange is due.
    pub fn take_news(&mut self, now: Nanos) -> bool {
        let is_due = now.saturating_since(self.told_news) >= NEWS_PAUSE;
        if is_due {
            self.told_news = now;
        }
        is_due
    }

    /// The server's own report, as it was told last.
    pub fn own(&self) -> &R {
        &self.own
    }

    /// The server's own report, for what is told next. A report that tells something else has a greater number than the one before.
    pub fn own_mut(&mut self) -> &mut R {
        &mut self.own
    }

    /// The peers that are to have the report now: those that answered the last one, or did not in time.
    pub fn tell(&mut self) -> Vec<ServerId> {
        let idle: Vec<ServerId> = self.peers.difference(&self.awaited).copied().collect();
        self.awaited.extend(&idle);
        idle
    }

    /// A peer has answered the report, or has not in time.
    pub fn answered(&mut self, server: ServerId) {
        self.awaited.remove(&server);
    }

    /// No peer has more time to answer the report.
    pub fn give_up(&mut self) {
        self.awaited.clear();
    }

    /// Takes a report that arrived at `now`, and answers whether it is news. One that is late, or came before, changes nothing.
    pub fn hear(&mut self, report: R, now: Nanos) -> bool {
        self.reports.take(report.origin(), report, now)
    }

    /// The reports of the other servers that were heard of lately, by ascending server.
    pub fn fresh(&self, now: Nanos) -> impl Iterator<Item = &R> + Clone {
        self.reports.fresh(now)
    }

    /// The last reports of the other servers that are silent, and may only be held up, by ascending server.
    pub fn late(&self, now: Nanos) -> impl Iterator<Item = &R> {
        self.reports.late(now)
    }

    /// The believed reports of all servers, the own one among them, by ascending server.
    pub fn believed(&self, now: Nanos) -> impl Iterator<Item = &R> + Clone {
        let own = self.own.origin().server;
        let below = self.fresh(now).take_while(move |report| report.origin().server < own);
        let above = self.fresh(now).skip_while(move |report| report.origin().server < own);
        below.chain([&self.own]).chain(above)
    }

    /// Peers that may be up, late ones among them: a dead one frees nothing, and nobody waits for it.
    pub fn maybe_up(&self, now: Nanos) -> Vec<ServerId> {
        if self.is_starting(now) {
            return self.peers().collect();
        }
        let heard = self.fresh(now).chain(self.late(now)).map(|report| ServerId(report.origin().server));
        heard.filter(|server| self.peers.contains(server)).collect()
    }

    /// The last moment at which a server was heard of.
    pub fn heard_at(&self, server: ServerId) -> Option<Nanos> {
        self.reports.heard_at(server.0)
    }

    /// Reports that were late or came twice.
    pub fn ignored(&self) -> u64 {
        self.reports.ignored()
    }

    /// Tells the placer of new files what is believed of all targets.
    pub fn inform(&self, placer: &mut Placer, now: Nanos) {
        // What counts more comes later: the own report counts most.
        let alive = self.fresh(now).chain([&self.own]).flat_map(|report| {
            let busy = report.busy();
            report.targets().iter().map(move |target| (target.target, Figures { busy, ..figures_of(target) }))
        });
        let late = self
            .late(now)
            .flat_map(Report::targets)
            .map(|target| (target.target, Figures { presence: Presence::Late, ..figures_of(target) }));
        let mut heard = Heard::of(late.chain(alive), self.is_starting(now));
        for placed in self.fresh(now).flat_map(Report::placed) {
            heard.place(placed.target, f64::from(placed.bytes));
        }
        placer.refresh(self.seconds(now), |target| heard.figures(target));
    }

    /// The usual rates of all targets that are believed, those of the own targets from `own`, by the `class` of each.
    pub fn usual<'a>(
        &'a self,
        own: impl Iterator<Item = (TargetId, Usual<'a>)>,
        class: impl Fn(TargetId) -> Option<&'a str>,
        now: Nanos,
    ) -> Peers<'a> {
        let heard = self.fresh(now).flat_map(Report::targets);
        let heard = heard.map(|target| (target.target, &target.rates[..]));
        heard.chain(own).map(|(target, rates)| (class(target), rates)).collect()
    }

    /// Whether the server's devices may be divided anew: the last division is not too recent for the time that it took.
    pub fn may_divide(&self, now: Nanos) -> bool {
        now >= self.next_division
    }

    /// The believed uses of all devices of the store.
    pub fn uses(&self, now: Nanos) -> StoreUses {
        uses_of(self.believed(now))
    }

    /// A division by these uses began at `began` and took so long.
    pub fn divided(&mut self, began: Nanos, taken: Nanos) {
        self.next_division = began + Nanos(DIVISION_COST_FACTOR.saturating_mul(taken.0));
    }

    /// The seconds from the server's start to a moment; below 0 before it.
    pub fn seconds(&self, now: Nanos) -> f64 {
        now.0.wrapping_sub(self.started.0) as i64 as f64 / 1e9
    }

    /// Whether a server that is up may not have been heard of yet.
    fn is_starting(&self, now: Nanos) -> bool {
        self.reports.is_within_age(now.saturating_since(self.started))
    }
}

#[cfg(test)]
mod tests;
