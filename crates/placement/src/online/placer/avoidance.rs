//! Targets that the new files of a job avoid while others take their stripes.

use super::super::record::{LeftOut, Record};
use super::super::refusal::Refusal;
use super::{Placed, Placer};
use crate::{Layout, LayoutSpecification, TargetId, TargetState};

/// A file that is to be placed.
pub(super) struct NewFile<'a> {
    pub(super) sequence: u64,
    /// The targets as the caller names them.
    asked: &'a [TargetId],
    /// The named targets that could take stripes, by index, ascending. None where nothing else could.
    pub(super) avoided: Vec<u32>,
    /// Other targets that take stripes, and other slow ones.
    pub(super) open: usize,
    slow: usize,
}

impl NewFile<'_> {
    /// Whether the target of this index may get stripes.
    pub(super) fn takes(&self, index: u32) -> bool {
        self.avoided.binary_search(&index).is_err()
    }

    /// Most stripes of a file that asks for no number.
    pub(super) fn usual_stripes_max(&self) -> usize {
        if self.open > 0 {
            self.open
        } else {
            self.slow
        }
    }
}

impl Placer {
    /// The layout of a new file that gets no stripes on the `avoided` targets while others take as many as were asked for.
    /// A target that the request names counts all the same. `sequence` is the number of the file's inode.
    ///
    /// # Errors
    /// The reason why it gets no targets.
    pub fn place_avoiding(
        &self,
        sequence: u64,
        specification: Option<&LayoutSpecification>,
        avoided: &[TargetId],
    ) -> Result<Placed, Refusal> {
        self.place_file(&self.new_file(sequence, avoided), specification)
    }

    /// Whether the store has a target that is not among these. A full or closed one counts: it may take stripes again.
    pub fn has_another(&self, avoided: &[TargetId]) -> bool {
        self.cluster.targets.iter().any(|target| !avoided.contains(target))
    }

    pub(super) fn new_file<'a>(&self, sequence: u64, asked: &'a [TargetId]) -> NewFile<'a> {
        let (open, slow) = (&self.cluster.open, &self.cluster.slow);
        let mut avoided = self.avoidable(asked);
        if avoided.len() == open.len() + slow.len() {
            avoided.clear();
        }
        let among_open = avoided.iter().filter(|&index| open.binary_search(index).is_ok()).count();
        let among_slow = avoided.len() - among_open;
        let (open, slow) = (open.len() - among_open, slow.len() - among_slow);
        NewFile { sequence, asked, avoided, open, slow }
    }

    /// Has the allocator pass over targets; answers their figures for [`Placer::show`].
    pub(super) fn hide(&self, avoided: &[u32]) -> Vec<(usize, TargetState)> {
        if avoided.is_empty() {
            return Vec::new();
        }
        let mut view = self.view();
        let hide = |&index: &u32| {
            let index = index as usize;
            let state = view.targets()[index];
            // The balanced allocator keeps its conclusions as long as no speed changes. The others look at no room.
            let is_balanced = self.by.is_balanced();
            let (speed, free_bytes) = if is_balanced { (state.speed, 0) } else { (0.0, state.free_bytes) };
            let _ = view.update_target(index, speed, state.load_bytes, free_bytes);
            (index, state)
        };
        avoided.iter().map(hide).collect()
    }

    /// Gives targets the figures back that they had before [`Placer::hide`].
    pub(super) fn show(&self, hidden: Vec<(usize, TargetState)>) {
        if hidden.is_empty() {
            return;
        }
        let mut view = self.view();
        for (index, TargetState { speed, load_bytes, free_bytes, .. }) in hidden {
            let _ = view.update_target(index, speed, load_bytes, free_bytes);
        }
    }

    /// Notes in the record of a file the targets that it avoided, and its stripes on those that it did not. A file whose maker
    /// named all targets avoided none.
    pub(super) fn note_avoided(
        &self,
        file: &NewFile<'_>,
        layout: &Layout,
        is_named: bool,
        record: &mut Record,
    ) {
        let used = || layout.components().iter().flat_map(|component| &component.targets);
        let is_used = |target: TargetId| used().any(|each| each.device() == target);
        let targets = file.avoided.iter().map(|&index| self.cluster.targets[index as usize]);
        let left_out: Vec<TargetId> = targets.filter(|&target| !is_used(target)).collect();
        if !is_named {
            record.avoided = LeftOut::of(left_out.iter().copied(), left_out.len());
        }
        record.taken = used().filter(|target| file.asked.contains(&target.device())).count() as u16;
    }

    /// The indices of those targets that take stripes, ascending.
    fn avoidable(&self, asked: &[TargetId]) -> Vec<u32> {
        let takes = |&index: &usize| self.cluster.unfit(index).is_none();
        let found = asked.iter().filter_map(|&target| self.cluster.find(target)).filter(takes);
        let mut indices: Vec<u32> = found.map(|index| index as u32).collect();
        indices.sort_unstable();
        indices.dedup();
        indices
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Figures;
    use super::*;
    use crate::{AllocatorName, LayoutDefaults, ServerId};
    use proptest::prelude::*;

    const DEFAULTS: LayoutDefaults = LayoutDefaults { stripe_bytes: 1 << 20, stripe_count: 1 };
    const SERVERS: u16 = 3;

    fn target(server: u16, index: u16) -> TargetId {
        TargetId { server: ServerId(server), index }
    }

    fn all() -> Vec<TargetId> {
        (0..SERVERS).flat_map(|server| [target(server, 0), target(server, 1)]).collect()
    }

    /// The home of server 0, with the free bytes and the slowness of each target.
    fn placer(name: AllocatorName, figures: impl Fn(TargetId) -> (u64, bool)) -> Placer {
        let mut placer = Placer::new(ServerId(0), &all(), DEFAULTS);
        placer.set_allocator(name);
        placer.refresh(1.0, |target| {
            let (free_bytes, is_slow) = figures(target);
            Some(Figures { capacity_bytes: 1 << 30, free_bytes, is_slow, ..Figures::UNKNOWN })
        });
        placer
    }

    fn make(placer: &mut Placer, sequence: u64, text: &str, avoided: &[TargetId]) -> Placed {
        let asked: Option<LayoutSpecification> = (!text.is_empty()).then(|| text.parse().unwrap());
        let placed = placer.place_avoiding(sequence, asked.as_ref(), avoided).unwrap();
        placer.placed(&placed.layout, sequence as i64);
        placed
    }

    const NAMES: [AllocatorName; 3] =
        [AllocatorName::Balanced, AllocatorName::LustreStandard, AllocatorName::Random];

    #[test]
    fn new_files_avoid_targets_and_those_of_others_do_not() {
        for name in NAMES {
            let mut placer = placer(name, |_| (1 << 29, false));
            let avoided = [target(0, 0), target(0, 1), target(2, 1)];
            for sequence in 0..60 {
                let text = ["", "-c 2", "-c -1", "-E 1M -c 1 -E -1 -c 2"][sequence as usize % 4];
                let Placed { layout, record } = make(&mut placer, sequence, text, &avoided);
                assert!(layout.targets().iter().all(|target| !avoided.contains(target)), "{name} {text}");
                assert_eq!((record.avoided.count, record.taken), (3, 0), "{name} {text}");
            }
            let others =
                (0..60).flat_map(|sequence| make(&mut placer, sequence, "", &[]).layout.targets().to_vec());
            let others: Vec<TargetId> = others.collect();
            assert!(avoided.iter().all(|target| others.contains(target)), "{name}: {others:?}");
        }
    }

    #[test]
    fn a_number_of_stripes_and_named_targets_count_for_more() {
        for name in NAMES {
            let mut placer = placer(name, |_| (1 << 29, false));
            let Placed { layout, record } = make(&mut placer, 1, "-c 5", &all()[..2]);
            assert_eq!((layout.targets().len(), record.avoided.count, record.taken), (5, 1, 1), "{name}");
            let Placed { layout, record } = make(&mut placer, 2, "-o 0.1", &all()[..2]);
            assert_eq!((layout.targets(), record.taken), (&[target(0, 1)][..], 1));
        }
    }

    #[test]
    fn full_targets_are_nothing_that_is_left() {
        for name in NAMES {
            // Server 0 is avoided, server 1 is full, and of server 2 one target is slow.
            let figures = |target: TargetId| match target.server.0 {
                1 => (0, false),
                _ => (1 << 29, target == self::target(2, 1)),
            };
            let mut placer = placer(name, figures);
            let mut avoided = vec![target(0, 0), target(0, 1), target(1, 0)];
            assert_eq!(make(&mut placer, 1, "-c -1", &avoided).record.taken, 0);
            avoided.push(target(2, 0));
            assert_eq!(make(&mut placer, 2, "-c -1", &avoided).layout.targets(), [target(2, 1)]);
            avoided.push(target(2, 1));
            assert!(placer.has_another(&avoided), "a full target counts");
            let Placed { layout, record } = make(&mut placer, 3, "", &avoided);
            assert_eq!((layout.targets().len(), record.avoided.count, record.taken), (1, 0, 1), "{name}");
            assert!(!placer.has_another(&all()));
        }
    }

    proptest! {
        /// A choice that avoids targets leaves the loads, the speeds and the room of all targets as they were.
        #[test]
        fn hidden_targets_come_back_as_they_were(
            files in proptest::collection::vec((0usize..3, 0usize..6, 1u16..4), 1..40),
        ) {
            for (sequence, (name, first, count)) in (0..).zip(files) {
                let mut placer = placer(NAMES[name], |target| ((1 << 28) + u64::from(target.index), false));
                (0..sequence).for_each(|sequence| _ = make(&mut placer, sequence, "", &[]));
                let avoided: Vec<TargetId> = all().into_iter().cycle().skip(first).take(2).collect();
                let text = format!("-E 1M -c 1 -E -1 -c {count}");
                let before = placer.view().targets().to_vec();
                let placed = placer.place_avoiding(sequence, Some(&text.parse().unwrap()), &avoided).unwrap();
                let after = placer.view().targets().to_vec();
                prop_assert_eq!(after, before);
                prop_assert!(placed.layout.targets().iter().all(|target| !avoided.contains(target)));
            }
        }
    }
}
