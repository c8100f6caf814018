//! The layout of a file that met full targets: the same as far as it has bytes, other targets behind.

use super::placer::{Placed, Placer};
use super::refusal::Refusal;
use crate::{
    limits, Component, ComponentSpecification, Layout, LayoutSpecification, Stripes, TargetId, END_OF_FILE,
};

/// The deciding rule in the record of such a file.
const DETOUR: &str = "detour";

impl Placer {
    /// The layout with other targets in the place of those that are `full`, from the first page behind `size_bytes` on.
    /// The request `asked` for the layout holds: its named targets, and its numbers of stripes.
    ///
    /// # Errors
    /// [`Refusal::Full`] where that leaves no other place: those that are left are too few, or not `full` where the file goes on.
    pub fn place_behind(
        &self,
        layout: &Layout,
        asked: Option<&LayoutSpecification>,
        size_bytes: u64,
        full: &[TargetId],
    ) -> Result<Placed, Refusal> {
        let boundary = size_bytes.next_multiple_of(limits::STRIPE_BYTES_MIN);
        let mut components: Vec<Component> = Vec::new();
        let (mut begin, mut is_other) = (0, false);
        for component in layout.components() {
            let end = component.end;
            if end <= boundary || !component.targets.iter().any(|target| full.contains(target)) {
                components.push(component.clone());
            } else {
                is_other = true;
                if begin < boundary {
                    components.push(beginning(component, begin, boundary));
                }
                let taken = layout.stripes() - component.targets.len();
                let targets = self.others(rule(asked, end), full, limits::STRIPES.saturating_sub(taken))?;
                components.push(Component { end, stripe_bytes: component.stripe_bytes, targets });
            }
            begin = end;
        }
        let stripes = components.iter().map(|component| component.targets.len()).sum::<usize>();
        if !is_other || components.len() > limits::COMPONENTS || stripes > limits::STRIPES {
            return Err(Refusal::Full);
        }
        let layout = Layout::new(components).map_err(|_| Refusal::Full)?;
        let mut record = self.record(&layout, false);
        record.by = DETOUR.into();
        Ok(Placed { layout, record })
    }

    /// Targets that are not `full`, those with the most room first.
    fn others(&self, rule: &Stripes, full: &[TargetId], most: usize) -> Result<Vec<TargetId>, Refusal> {
        let mut left = self.usable();
        // Every object of the file on a full target is in want of room.
        left.retain(|(target, _)| !full.iter().any(|full| full.device() == target.device()));
        // Stable: of those with as much room the order is that of placement.
        left.sort_by_key(|&(_, free_bytes)| std::cmp::Reverse(free_bytes));
        let wanted = self.stripes_of(rule);
        let count = match rule {
            Stripes::Targets(_) => return Err(Refusal::Full),
            Stripes::Count(_) if left.len() < wanted => return Err(Refusal::Full),
            Stripes::Count(_) => wanted,
            Stripes::Default | Stripes::All => wanted.min(left.len()).min(most),
        };
        left.truncate(count);
        let targets: Vec<TargetId> = left.into_iter().map(|(target, _)| target).collect();
        (!targets.is_empty()).then_some(targets).ok_or(Refusal::Full)
    }
}

/// A component of which only the bytes up to `end` are left, without stripes that have none of them.
fn beginning(component: &Component, begin: u64, end: u64) -> Component {
    let Component { stripe_bytes, ref targets, .. } = *component;
    let used = usize::try_from((end - begin).div_ceil(stripe_bytes)).unwrap_or(usize::MAX);
    Component { end, stripe_bytes, targets: targets[..used.min(targets.len())].to_vec() }
}

/// The request for the component that ends at `end`, or holds that end.
fn rule(asked: Option<&LayoutSpecification>, end: u64) -> &Stripes {
    let holds = |component: &&ComponentSpecification| component.end.unwrap_or(END_OF_FILE) >= end;
    let component = asked.and_then(|asked| asked.components.iter().find(holds));
    component.map_or(&Stripes::Default, |component| &component.stripes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::online::Figures;
    use crate::LayoutDefaults;
    use crate::ServerId;
    use proptest::prelude::*;

    const DEFAULTS: LayoutDefaults = LayoutDefaults { stripe_bytes: 1 << 20, stripe_count: 0 };

    fn target(server: u16) -> TargetId {
        TargetId { server: ServerId(server), index: 0 }
    }

    /// A store of servers of one target, each with twice as much room as the one before it.
    fn placer(servers: u16) -> Placer {
        let targets: Vec<TargetId> = (0..servers).map(target).collect();
        let mut placer = Placer::new(ServerId(0), &targets, DEFAULTS);
        let free = |target: TargetId| 1u64 << (30 + target.server.0);
        placer.refresh(1.0, |target| {
            let free_bytes = free(target);
            Some(Figures { capacity_bytes: 1 << 40, free_bytes, ..Figures::UNKNOWN })
        });
        placer
    }

    fn asked(text: &str) -> Option<LayoutSpecification> {
        Some(text.parse().expect("a layout"))
    }

    #[test]
    fn an_empty_file_leaves_the_full_target_and_goes_where_most_room_is() {
        let placer = placer(3);
        let layout = Layout::striped(1 << 20, (0..3).map(target).collect()).unwrap();
        let placed = placer.place_behind(&layout, None, 0, &[target(0)]).unwrap();
        assert_eq!(placed.layout, Layout::striped(1 << 20, vec![target(2), target(1)]).unwrap());
        assert_eq!(placed.record.by, DETOUR);
        let again = placer.place_behind(&placed.layout, None, 0, &[target(0), target(2)]).unwrap();
        assert_eq!(again.layout.targets(), [target(1)]);
        let none = placer.place_behind(&again.layout, None, 0, &[target(0), target(1), target(2)]);
        assert_eq!(none.unwrap_err(), Refusal::Full);
    }

    #[test]
    fn what_was_asked_holds() {
        let placer = placer(4);
        let layout = Layout::striped(1 << 20, vec![target(0), target(1)]).unwrap();
        let place =
            |text: &str, full: &[TargetId]| placer.place_behind(&layout, asked(text).as_ref(), 0, full);
        assert_eq!(
            place("-o 0.0,1.0", &[target(0)]).unwrap_err(),
            Refusal::Full,
            "named targets are the user's"
        );
        assert_eq!(place("-c 2", &[target(0)]).unwrap().layout.targets(), [target(3), target(2)]);
        let three: Vec<TargetId> = (0..3).map(target).collect();
        assert_eq!(place("-c 2", &three).unwrap_err(), Refusal::Full, "two were asked for, one is left");
        assert_eq!(place("-c -1", &three).unwrap().layout.targets(), [target(3)]);
        let elsewhere = place("-c 2", &[target(2)]);
        assert_eq!(elsewhere.unwrap_err(), Refusal::Full, "the file does not go on there");
    }

    #[test]
    fn a_file_of_components_changes_in_the_one_that_is_full() {
        let placer = placer(4);
        let text = "-E 1M -o 0.0 -E 8M -c 1 -E -1 -c 2";
        let component = |end, targets: &[u16]| Component {
            end,
            stripe_bytes: 1 << 20,
            targets: targets.iter().copied().map(target).collect(),
        };
        let layout = [component(1 << 20, &[0]), component(8 << 20, &[1]), component(END_OF_FILE, &[0, 2])];
        let layout = Layout::new(layout.to_vec()).unwrap();
        let placed = placer.place_behind(&layout, asked(text).as_ref(), (2 << 20) + 5, &[target(1)]).unwrap();
        let expected = [
            component(1 << 20, &[0]),
            component((2 << 20) + 4096, &[1]),
            component(8 << 20, &[3]),
            component(END_OF_FILE, &[0, 2]),
        ];
        assert_eq!(placed.layout.components(), expected);
    }

    proptest! {
        /// Whatever is full, and however often: every byte below the size keeps its target and its offset there.
        #[test]
        fn bytes_of_the_file_stay_where_they_are(
            servers in 2u16..7,
            stripe in 12u32..20,
            detours in proptest::collection::vec((0u64..1 << 22, any::<u8>()), 1..12),
        ) {
            let placer = placer(servers);
            let mut layout = Layout::striped(1 << stripe, (0..servers).map(target).collect()).unwrap();
            let mut size = 0;
            for (grown, bits) in detours {
                size += grown;
                let full: Vec<TargetId> = (0..servers).filter(|server| bits >> server & 1 == 1).map(target).collect();
                let Ok(placed) = placer.place_behind(&layout, None, size, &full) else { continue };
                let place = |layout: &Layout, offset| {
                    let piece = layout.pieces(offset, 1).next().unwrap();
                    (layout.targets()[piece.object], piece.object_offset)
                };
                let offsets = (0..size).step_by(4093).chain(size.checked_sub(1));
                for offset in offsets {
                    prop_assert_eq!(place(&placed.layout, offset), place(&layout, offset));
                }
                let boundary = size.next_multiple_of(limits::STRIPE_BYTES_MIN);
                for offset in (boundary..boundary + (8 << 20)).step_by(4096) {
                    prop_assert!(!full.contains(&place(&placed.layout, offset).0));
                }
                layout = placed.layout;
            }
        }
    }
}
