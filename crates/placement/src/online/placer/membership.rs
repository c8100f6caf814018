//! Targets that join and leave a store while files are placed.

use super::super::awaited::Awaited;
use super::super::cluster::Unfit;
use super::{Chooser, Placer};
use crate::TargetId;
use std::cell::RefCell;
use std::collections::BTreeMap;

impl Placer {
    /// Takes another target of the store in.
    pub fn add(&mut self, target: TargetId) {
        let before = self.cluster.targets.clone();
        self.cluster.add(target);
        if self.cluster.targets.len() == before.len() {
            return;
        }
        let counts: BTreeMap<TargetId, u64> =
            before.iter().copied().zip(self.given.iter().copied()).collect();
        let targets = &self.cluster.targets;
        self.given = targets.iter().map(|target| counts.get(target).copied().unwrap_or(0)).collect();
        let index_now =
            |index: u32| targets.binary_search(&before[index as usize]).ok().map(|index| index as u32);
        let probed = std::mem::take(&mut self.probed);
        self.probed = probed.into_iter().filter_map(|(index, at)| Some((index_now(index)?, at))).collect();
        // Awaited files and the allocator know targets by their places among all.
        self.awaited = Awaited::default();
        self.seat.chooser = RefCell::new(Chooser::of(&self.by, self.seed));
        self.find_probes();
    }

    /// Gives a target no stripes from now on, because it retires, or gives it stripes again.
    pub fn close(&mut self, target: TargetId, is_closed: bool) {
        self.cluster.close(target, is_closed);
        self.find_probes();
    }

    /// Whether the store has a target, closed or not.
    pub fn has(&self, target: TargetId) -> bool {
        self.cluster.targets.binary_search(&target).is_ok()
    }

    /// Whether a target of the store takes stripes, as far as it does not retire.
    pub fn is_kept(&self, target: TargetId) -> bool {
        self.cluster.find(target).is_some_and(|index| self.cluster.unfit(index) != Some(Unfit::Closed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LayoutDefaults, LayoutSpecification, ServerId, Stripes};

    const DEFAULTS: LayoutDefaults = LayoutDefaults { stripe_bytes: 1 << 20, stripe_count: 1 };

    fn target(server: u16, index: u16) -> TargetId {
        TargetId { server: ServerId(server), index }
    }

    fn placer() -> Placer {
        let targets = [target(0, 0), target(0, 1), target(1, 0)];
        Placer::new(ServerId(0), &targets, DEFAULTS)
    }

    /// Makes files of one stripe; answers their number on each target.
    fn make(placer: &mut Placer, files: u64) -> BTreeMap<TargetId, usize> {
        let mut found = BTreeMap::new();
        for sequence in 0..files {
            let layout = placer.place(sequence, None).unwrap().layout;
            placer.placed(&layout, sequence as i64);
            *found.entry(layout.targets()[0]).or_default() += 1;
        }
        found
    }

    #[test]
    fn a_new_target_takes_its_share_and_not_everything() {
        let mut placer = placer();
        make(&mut placer, 30);
        placer.add(target(0, 2));
        let found = make(&mut placer, 40);
        assert_eq!(found.len(), 4);
        assert!(found.values().all(|&files| (8..=12).contains(&files)), "{found:?}");
        assert_eq!(placer.tally().targets.values().sum::<u64>(), 70, "earlier stripes keep their targets");
    }

    #[test]
    fn a_closed_target_gets_nothing_and_counts_for_nothing_until_it_is_open_again() {
        let mut placer = placer();
        placer.close(target(0, 1), true);
        assert!(!make(&mut placer, 30).contains_key(&target(0, 1)));
        let all = LayoutSpecification::striped(None, Stripes::All);
        assert_eq!(placer.place(1, Some(&all)).unwrap().layout.targets().len(), 2);
        let three = LayoutSpecification::striped(None, Stripes::Count(3));
        assert!(placer.check(&three).is_err(), "nobody asks for more than there are");
        let placed = placer.place(1, Some(&three)).unwrap();
        assert_eq!(placed.layout.targets().len(), 2, "what was asked for before gets what is left");
        let named = LayoutSpecification::striped(None, Stripes::Targets(vec![target(0, 1)]));
        assert!(placer.place(1, Some(&named)).is_err());
        assert!(!placer.is_kept(target(0, 1)));
        placer.close(target(0, 1), false);
        assert!(make(&mut placer, 30).contains_key(&target(0, 1)));
        assert_eq!(placer.place(1, Some(&three)).unwrap().layout.targets().len(), 3);
    }
}
