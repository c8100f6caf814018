//! The placers of the home servers: the product's, each with its server's turn and dice.
//!
//! In the request model each home has a placer, which the exchange of its server informs. In the flow model homes that know the
//! same have one ([`Shared`]); so they do for the files that are there before the run of either.

use super::machines::Machines;
use super::reports::Told;
use super::shared::{Home, Shared};
use super::time::seconds;
use crate::check::Settings;
use crate::scenario::Fault;
use std::sync::Arc;
use weir_exchange::{placements, Exchange};
use weir_fairshare::Nanos;
use weir_placement::online::{Placed, Placer, Refusal};
use weir_placement::{Layout, LayoutSpecification, ServerId, TargetId};

/// The placers of a store's homes.
#[derive(Debug)]
pub(crate) struct Placers {
    seed: u64,
    lambda: Nanos,
    /// A placer that knows nothing.
    blank: Placer,
    pub(super) homes: Vec<Home>,
    /// What homes share; none once exchanges of the model inform them.
    shared: Option<Shared>,
}

impl Placers {
    pub(crate) fn new(machines: &Machines, settings: &Settings, lambda: Nanos, seed: u64) -> Placers {
        let targets: Vec<TargetId> =
            (0..machines.targets.len() as u32).map(|number| machines.name(number)).collect();
        let mut blank = Placer::new(ServerId(0), &targets, settings.defaults);
        blank.set_allocator(settings.allocator);
        if let Some(maker) = &settings.algorithms.allocator {
            blank.set_own_allocator(Arc::clone(maker));
        }
        let homes =
            (0..machines.servers.len() as u16).map(|number| Home::new(number, &blank, seed)).collect();
        let shared = Some(Shared::new(blank.clone(), lambda));
        Placers { seed, lambda, blank, homes, shared }
    }

    /// Before the run the servers will exchange their reports so many times more, at most
    /// [`EXCHANGES_BEFORE_MAX`](super::shared::EXCHANGES_BEFORE_MAX).
    pub(crate) fn await_exchanges_before(&mut self, count: usize) {
        self.shared.iter_mut().for_each(|shared| shared.await_exchanges_before(count));
    }

    /// A fault hits machines, and may silence them.
    pub(crate) fn hit(&mut self, fault: &Fault, machines: &mut Machines, now: Nanos) {
        if let Some(shared) = &mut self.shared {
            shared.hear(&mut self.homes, (machines, now));
        }
        machines.hit(fault, now);
        self.shared.iter_mut().for_each(|shared| shared.part(&mut self.homes, machines));
    }

    /// From now on exchanges of the model inform each home's placer. The homes placed the files of `there` before, and heard of them.
    pub(crate) fn informed_by_model(&mut self, machines: &Machines, there: &[(u32, &Layout)]) {
        self.shared = None;
        for &(home, layout) in there {
            self.placer(home).placed(layout, 0);
        }
        let told = |(number, home): (u16, &Home)| {
            let placed = home.own.as_deref().map(placements).unwrap_or_default().into();
            Told { placed, ..Told::of_room(machines, number, 0) }
        };
        let reports: Vec<Told> = (0..).zip(&self.homes).map(told).collect();
        for (own, home) in self.homes.iter_mut().enumerate() {
            let Some(placer) = &mut home.own else { continue };
            let mut exchange = Exchange::new(reports[own].clone(), self.lambda, Nanos::ZERO);
            let others = reports.iter().enumerate().filter(|&(other, _)| other != own);
            others.for_each(|(_, report)| _ = exchange.hear(report.clone(), Nanos::ZERO));
            exchange.inform(placer, Nanos::ZERO);
        }
    }

    /// The own placer of a home.
    pub(crate) fn placer(&mut self, home: u32) -> &mut Placer {
        self.homes[home as usize].own_or_copy(&self.blank)
    }

    /// The server of this number, which the model informs, starts anew, and knows of no file that it placed lately.
    pub(crate) fn forget(&mut self, home: u32) {
        self.homes[home as usize] = Home::new(home as u16, &self.blank, self.seed);
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
        match &mut self.shared {
            Some(shared) => shared.note(&mut self.homes, (home, &layout, None), (machines, now)),
            None => {
                let placer = self.placer(home);
                placer.placed(&layout, seconds(now) as i64);
                placer.awaits(number, &layout, seconds(now));
            }
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

    /// First bytes of the home's file of this number came.
    pub(crate) fn written(&mut self, home: u32, number: u64, now: Nanos) {
        if let Some(placer) = &mut self.homes[home as usize].own {
            placer.written(number, seconds(now));
        }
    }

    /// A file that the home placed at `created` is gone.
    pub(crate) fn removed(
        &mut self,
        (home, layout, created): (u32, &Layout, Nanos),
        (machines, now): (&Machines, Nanos),
    ) {
        match &mut self.shared {
            Some(shared) => shared.note(&mut self.homes, (home, layout, Some(created)), (machines, now)),
            None => {
                let own = &mut self.homes[home as usize].own;
                own.iter_mut().for_each(|placer| placer.removed(layout, seconds(created) as i64));
            }
        }
    }

    #[cfg(test)]
    pub(super) fn shared(&self) -> &Shared {
        self.shared.as_ref().expect("homes that share a placer")
    }

    /// Asks a placer that knows what the home knows, with the home's turn and dice.
    fn ask<T>(
        &mut self,
        home: u32,
        present: (&Machines, Nanos),
        question: impl FnOnce(&mut Placer) -> T,
    ) -> T {
        match &mut self.shared {
            Some(shared) => shared.ask(&mut self.homes, home, present, question),
            None => question(self.placer(home)),
        }
    }
}
