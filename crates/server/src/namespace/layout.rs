//! Which targets a new file gets, and layouts as text.

use super::errno::{EINVAL, ENOSPC, ENXIO};
use std::fmt::Write as _;
use weir_placement::{
    Component, ComponentSpecification, Layout, LayoutRequest, LayoutSpecification, ServerId, Stripes,
    TargetId, END_OF_FILE,
};
use weir_wire::{limits, Errno};

/// What a layout has where it does not say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutDefaults {
    /// Bytes of one stripe.
    pub stripe_bytes: u64,
    /// Targets of a file; 0 means all.
    pub stripe_count: u16,
}

/// The targets of the cluster, as this server hands them out.
#[derive(Clone, Debug)]
pub(super) struct Targets {
    /// Of this server.
    home: Vec<TargetId>,
    /// Of the others, a target of each server in turn.
    others: Vec<TargetId>,
    defaults: LayoutDefaults,
}

impl Targets {
    pub(super) fn new(server: ServerId, targets: &[TargetId], defaults: LayoutDefaults) -> Targets {
        let (mut home, mut others): (Vec<_>, Vec<_>) =
            targets.iter().partition(|target| target.server == server);
        home.sort_unstable();
        others.sort_unstable_by_key(|target: &TargetId| (target.index, target.server));
        Targets { home, others, defaults }
    }

    /// The layout of the file with inode number `sequence`: its first stripe on this server, so that a small file
    /// is read and written where its size is kept; the rest on the others in turn.
    pub(super) fn layout(
        &self,
        sequence: u64,
        specification: Option<&LayoutSpecification>,
    ) -> Result<Layout, Errno> {
        let all = self.home.len() + self.others.len();
        if all == 0 {
            return Err(ENOSPC);
        }
        let default = LayoutSpecification::striped(None, Stripes::Default);
        let specification = specification.unwrap_or(&default);
        check(specification)?;
        let mut left = limits::STRIPES;
        let components = specification.components.iter().map(|component| {
            let targets = match &component.stripes {
                Stripes::Targets(named) => {
                    named.iter().all(|target| self.has(*target)).then(|| named.clone()).ok_or(ENXIO)?
                }
                asked => {
                    let count = asked.count(self.defaults.stripe_count, all);
                    let is_open = !matches!(asked, Stripes::Count(_));
                    self.choose(sequence, if is_open { count.min(left) } else { count })
                }
            };
            left = left.checked_sub(targets.len()).ok_or(EINVAL)?;
            Ok(Component {
                end: component.end.unwrap_or(END_OF_FILE),
                stripe_bytes: component.stripe_bytes.unwrap_or(self.defaults.stripe_bytes),
                targets,
            })
        });
        Layout::new(components.collect::<Result<_, Errno>>()?).map_err(|_| EINVAL)
    }

    fn choose(&self, sequence: u64, count: usize) -> Vec<TargetId> {
        let home = rotated(&self.home, sequence);
        let others = rotated(&self.others, sequence.wrapping_mul(count.max(2) as u64 - 1));
        let (first, rest) = home.split_at(self.home.len().min(1));
        first.iter().chain(&others).chain(rest).copied().take(count).collect()
    }

    fn has(&self, target: TargetId) -> bool {
        self.home.binary_search(&target).is_ok() || self.others.contains(&target)
    }
}

/// `targets`, beginning with number `start` modulo their count.
fn rotated(targets: &[TargetId], start: u64) -> Vec<TargetId> {
    let mut rotated = targets.to_vec();
    if !rotated.is_empty() {
        rotated.rotate_left((start % targets.len() as u64) as usize);
    }
    rotated
}

/// The limits of the store on a layout that is one.
fn check(specification: &LayoutSpecification) -> Result<(), Errno> {
    let is_paged = |bytes: u64| bytes.is_multiple_of(limits::STRIPE_BYTES_MIN);
    let sizes = limits::STRIPE_BYTES_MIN..=limits::STRIPE_BYTES_MAX;
    let fits = |component: &ComponentSpecification| {
        component.end.is_none_or(is_paged)
            && component.stripe_bytes.is_none_or(|bytes| sizes.contains(&bytes) && is_paged(bytes))
    };
    let is_right = specification.components.len() <= limits::COMPONENTS
        && specification.components.iter().all(fits)
        && specification.check().is_ok();
    is_right.then_some(()).ok_or(EINVAL)
}

/// The text of `weir.layout` on a directory: the layout that files made in it get, and whether it spreads.
pub(super) fn directory_text(request: &LayoutRequest, defaults: LayoutDefaults) -> String {
    let default = LayoutSpecification::striped(None, Stripes::Default);
    let mut layout = request.layout.clone().unwrap_or(default);
    for component in &mut layout.components {
        component.stripe_bytes.get_or_insert(defaults.stripe_bytes);
        if component.stripes == Stripes::Default {
            component.stripes = match defaults.stripe_count {
                0 => Stripes::All,
                count => Stripes::Count(count),
            };
        }
    }
    let mut text = layout.to_string();
    // Writing to a String cannot fail.
    let _ = write!(text, " spread={}", if request.spread == Some(true) { "yes" } else { "no" });
    text
}

/// Reads what `weir.layout` is set to: a layout in the spelling of `lfs setstripe`, `spread=yes|no`, or both.
pub(super) fn parse(text: &[u8]) -> Result<LayoutRequest, Errno> {
    let text = std::str::from_utf8(text).map_err(|_| EINVAL)?;
    let words = text.trim_end_matches('\0').split_ascii_whitespace();
    let (settings, layout): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains('='));
    let mut request = LayoutRequest::default();
    for setting in settings {
        request.spread = Some(match setting {
            "spread=yes" => true,
            "spread=no" => false,
            _ => return Err(EINVAL),
        });
    }
    if !layout.is_empty() {
        let layout: LayoutSpecification = layout.join(" ").parse().map_err(|_| EINVAL)?;
        check(&layout)?;
        request.layout = Some(layout);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const DEFAULTS: LayoutDefaults = LayoutDefaults { stripe_bytes: 1 << 20, stripe_count: 0 };

    fn targets(servers: u16, each: u16) -> Vec<TargetId> {
        (0..servers)
            .flat_map(|server| (0..each).map(move |index| TargetId { server: ServerId(server), index }))
            .collect()
    }

    fn striped(stripes: Stripes) -> LayoutSpecification {
        LayoutSpecification::striped(None, stripes)
    }

    #[test]
    fn a_layout_begins_at_home_and_names_each_target_once() {
        let hand_out = Targets::new(ServerId(1), &targets(3, 2), DEFAULTS);
        for sequence in 0..20 {
            for count in 0..8 {
                let stripes = if count == 0 { Stripes::All } else { Stripes::Count(count) };
                let layout = hand_out.layout(sequence, Some(&striped(stripes))).unwrap();
                let wanted = if count == 0 { 6 } else { usize::from(count).min(6) };
                assert_eq!(layout.targets().len(), wanted);
                assert_eq!(layout.targets()[0].server, ServerId(1));
                assert_eq!(layout.targets().iter().collect::<HashSet<_>>().len(), wanted);
            }
        }
    }

    #[test]
    fn files_take_the_targets_in_turn() {
        let hand_out = Targets::new(ServerId(0), &targets(3, 2), DEFAULTS);
        for count in [1, 2, 3] {
            let mut uses = std::collections::BTreeMap::new();
            for sequence in 0..400 {
                let layout = hand_out.layout(sequence, Some(&striped(Stripes::Count(count)))).unwrap();
                for target in layout.targets() {
                    *uses.entry(*target).or_insert(0) += 1;
                }
            }
            let home = uses.values().take(2).copied().collect::<HashSet<_>>();
            let others = uses.values().skip(2).copied().collect::<HashSet<_>>();
            assert_eq!((home.len(), others.len()), (1, usize::from(count > 1)), "{uses:?}");
        }
    }

    #[test]
    fn every_component_gets_its_targets_within_the_limits() {
        let hand_out = Targets::new(ServerId(0), &targets(20, 15), DEFAULTS);
        let layout = |text: &str| hand_out.layout(7, Some(&text.parse().unwrap()));
        let counts = |layout: Layout| -> Vec<usize> {
            layout.components().iter().map(|component| component.targets.len()).collect()
        };
        assert_eq!(
            counts(layout("-E 128M -c 1 -E 512M -c 3 -E 2G -c 8 -E -1 -c 16").unwrap()),
            [1, 3, 8, 16]
        );
        assert_eq!(counts(layout("-E 1M -c 300 -E -1 -c -1").unwrap()), [300, limits::STRIPES - 300]);
        assert_eq!(counts(layout("-E 1M -o 19.14,0.0 -E -1 -c 4").unwrap()), [2, 4]);
        assert_eq!(layout("-E 1M -c 300 -E -1 -c 300"), Err(EINVAL));
        assert_eq!(layout("-o 20.0"), Err(ENXIO));
        assert_eq!(layout("-E 5000 -c 1 -E -1"), Err(EINVAL), "a page would have two stripes");
    }

    #[test]
    fn layouts_are_read_as_they_are_written() {
        let layout = "-c 4 -S 64k".parse().unwrap();
        let request = LayoutRequest { layout: Some(layout), spread: Some(true) };
        assert_eq!(parse(directory_text(&request, DEFAULTS).as_bytes()), Ok(request));
        assert_eq!(directory_text(&LayoutRequest::default(), DEFAULTS), "-c -1 -S 1M spread=no");
        assert_eq!(parse(b"spread=no"), Ok(LayoutRequest { spread: Some(false), ..Default::default() }));
        for wrong in ["-S 1", "-S 4097", "-c 70000", "spread=maybe", "-E 1M -c 1", "x", "-E 5000 -c 1 -E -1"]
        {
            assert_eq!(parse(wrong.as_bytes()), Err(EINVAL), "{wrong}");
        }
    }
}
