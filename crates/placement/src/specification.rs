//! Requests for a layout, before its targets are chosen.

use crate::component::{share, END_OF_FILE};
use crate::layout::check;
use crate::{limits, LayoutError, TargetId};
use serde::{Deserialize, Serialize};

/// A layout as a user, a directory or a prediction asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutSpecification {
    /// In the order of the file; one for a file striped in one way.
    pub components: Vec<ComponentSpecification>,
}

/// One component of a [`LayoutSpecification`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentSpecification {
    /// One past its last file byte; `None` is the end of the file.
    pub end: Option<u64>,
    /// Bytes of one stripe; the store's default where absent.
    pub stripe_bytes: Option<u64>,
    /// On how many targets, or on which.
    pub stripes: Stripes,
}

/// The targets that a component asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stripes {
    /// The number that the store gives by default.
    #[default]
    Default,
    /// So many, where there are so many.
    Count(u16),
    /// Every target.
    All,
    /// These targets, in this order.
    Targets(Vec<TargetId>),
}

/// The values of a layout that names none of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutDefaults {
    /// Bytes of one stripe.
    pub stripe_bytes: u64,
    /// Targets of a file; 0 means all.
    pub stripe_count: u16,
}

/// The request of a directory for the files and directories made in it; absent values are inherited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutRequest {
    /// Layout of new files.
    pub layout: Option<LayoutSpecification>,
    /// New subdirectories get homes on all servers by consistent hashing.
    pub spread: Option<bool>,
}

impl Stripes {
    /// The number of targets, in a store that has `targets` and gives `default` (0: all) without a request.
    pub fn count(&self, default: u16, targets: usize) -> usize {
        let asked = match self {
            Stripes::Default if default > 0 => usize::from(default),
            Stripes::Default | Stripes::All => targets,
            Stripes::Count(count) => usize::from(*count),
            Stripes::Targets(named) => return named.len(),
        };
        asked.min(targets)
    }
}

impl LayoutSpecification {
    /// A file striped in one way from end to end.
    pub fn striped(stripe_bytes: Option<u64>, stripes: Stripes) -> LayoutSpecification {
        LayoutSpecification { components: vec![ComponentSpecification { end: None, stripe_bytes, stripes }] }
    }

    /// Checks everything that needs no knowledge of the store.
    ///
    /// # Errors
    /// As [`crate::Layout::new`].
    pub fn check(&self) -> Result<(), LayoutError> {
        check(self.components.iter().map(|component| {
            let targets = match &component.stripes {
                Stripes::Count(0) => Some(&[][..]),
                Stripes::Targets(targets) => Some(&targets[..]),
                Stripes::Default | Stripes::All | Stripes::Count(_) => None,
            };
            // Only an absent end is the file's.
            let end = component.end.map_or(END_OF_FILE, |end| end.min(END_OF_FILE - 1));
            (end, component.stripe_bytes, targets)
        }))
    }

    /// Whether it names one of these targets.
    pub fn names_any(&self, targets: &[TargetId]) -> bool {
        self.components.iter().any(|component| match &component.stripes {
            Stripes::Targets(named) => named.iter().any(|target| targets.contains(&target.device())),
            Stripes::Default | Stripes::All | Stripes::Count(_) => false,
        })
    }

    /// Whether it is a layout, and within the [`limits`] of a store.
    pub fn is_within_limits(&self) -> bool {
        let is_paged = |bytes: u64| bytes.is_multiple_of(limits::STRIPE_BYTES_MIN);
        let sizes = limits::STRIPE_BYTES_MIN..=limits::STRIPE_BYTES_MAX;
        let fits = |component: &ComponentSpecification| {
            component.end.is_none_or(is_paged)
                && component.stripe_bytes.is_none_or(|bytes| sizes.contains(&bytes) && is_paged(bytes))
        };
        self.components.len() <= limits::COMPONENTS
            && self.components.iter().all(fits)
            && self.check().is_ok()
    }

    /// Checks it against a store of `targets`.
    ///
    /// # Errors
    /// [`LayoutError::TooManyStripes`].
    pub fn check_stripes(&self, targets: usize) -> Result<(), LayoutError> {
        let too_many =
            self.components.iter().enumerate().find_map(|(index, component)| match component.stripes {
                Stripes::Count(stripes) if usize::from(stripes) > targets => Some((index + 1, stripes)),
                _ => None,
            });
        match too_many {
            Some((component, stripes)) => Err(LayoutError::TooManyStripes { component, stripes, targets }),
            None => Ok(()),
        }
    }

    /// Bytes that each stripe of each component holds of a file of `file_bytes`, on a system of `targets` where a stripe
    /// has `stripe_bytes` and a component `stripes` targets (0: all) unless the layout says otherwise.
    pub fn shares(&self, file_bytes: u64, stripe_bytes: u64, stripes: u16, targets: usize) -> Vec<Vec<u64>> {
        let mut start = 0;
        let shares = self.components.iter().map(|component| {
            let end = component.end.unwrap_or(END_OF_FILE);
            let held = file_bytes.min(end).saturating_sub(start);
            start = end;
            let count = component.stripes.count(stripes, targets);
            let stripe_bytes = component.stripe_bytes.unwrap_or(stripe_bytes);
            (0..count).map(|stripe| share(stripe_bytes, count, stripe, held)).collect()
        });
        shares.collect()
    }

    /// The Lustre manual's advice against this layout on a system of `targets`. A layout should stop growing when its
    /// stripes together equal or exceed the number of targets (Lustre Operations Manual, "Progressive File Layout";
    /// Tarazu, section 2.3). `None` where there is no such advice.
    pub fn warning(&self, targets: usize) -> Option<String> {
        let mut sum = 0usize;
        for (index, component) in self.components.iter().enumerate() {
            let count = component.stripes.count(0, targets);
            let before = sum;
            sum += count;
            let grows = index > 0 && component.stripes != Stripes::All;
            if grows && before < targets && sum > targets {
                return Some(format!(
                    "the components up to number {} have {sum} stripes together, more than the {targets} targets: \
                     let the layout stop growing there, with a last component of -E -1 -c -1",
                    index + 1
                ));
            }
        }
        None
    }
}

impl LayoutRequest {
    /// This request, with values of `parent` in place of absent ones.
    pub fn or(self, parent: &LayoutRequest) -> LayoutRequest {
        LayoutRequest {
            layout: self.layout.or_else(|| parent.layout.clone()),
            spread: self.spread.or(parent.spread),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_layout_is_refused() {
        let refused = |text: &str| text.parse::<LayoutSpecification>().unwrap_err().to_string();
        assert!(refused("-E 1M -c 1 -E 1M -c 2 -E -1").contains("extents overlap"));
        assert!(refused("-E 1M -c 1").contains("give it the end -1"));
        assert!(refused("-o 0.1,0.2,0.1").contains("names target 0.1 twice"));
        assert!(refused("-S 0").contains("stripe size of zero"));
        assert!(refused("-o ,").contains("not a target"));
        assert_eq!(LayoutSpecification::default().check(), Err(LayoutError::Empty));
        let none = LayoutSpecification::striped(None, Stripes::Count(0));
        assert_eq!(none.check(), Err(LayoutError::NoStripes { component: 1 }));
    }

    #[test]
    fn a_layout_that_grows_past_the_targets_is_warned_about() {
        let warning = |text: &str| text.parse::<LayoutSpecification>().unwrap().warning(35);
        assert_eq!(warning("-E 128M -c 1 -E 512M -c 3 -E 2G -c 8 -E -1 -c 16"), None);
        assert!(warning("-E 128M -c 1 -E 2G -c 12 -E -1 -c 32").unwrap().contains("45 stripes together"));
        let too_many = "-c 36".parse::<LayoutSpecification>().unwrap().check_stripes(35);
        assert_eq!(too_many, Err(LayoutError::TooManyStripes { component: 1, stripes: 36, targets: 35 }));
        assert_eq!(warning("-E 128M -c 1 -E 2G -c 12 -E -1 -c -1"), None);
        assert_eq!(warning("-c 35"), None);
    }

    #[test]
    fn the_shares_of_stripes_are_those_of_the_paper_s_table() {
        let mib = |count: u64| count << 20;
        let text = "-E 128M -c 1 -E 512M -c 3 -S 128M -E 2G -c 8 -S 192M -E -1 -c 16 -S 384M";
        let layout: LayoutSpecification = text.parse().unwrap();
        let shares = layout.shares(mib(8192), mib(1), 0, 35);
        assert_eq!(shares, [vec![mib(128)], vec![mib(128); 3], vec![mib(192); 8], vec![mib(384); 16]]);
        let shares = layout.shares(mib(600), mib(1), 0, 35);
        assert_eq!(shares[2], [vec![mib(88)], vec![0; 7]].concat());
        assert_eq!(shares[3], [0; 16]);
        let default = LayoutSpecification::striped(None, Stripes::Default);
        assert_eq!(default.shares(mib(3), mib(1), 0, 2), [[mib(2), mib(1)]]);
    }

    #[test]
    fn a_directory_inherits_what_it_does_not_say() {
        let layout = Some(LayoutSpecification::striped(Some(65536), Stripes::All));
        let parent = LayoutRequest { layout: layout.clone(), spread: Some(true) };
        let own = LayoutRequest { layout: None, spread: Some(false) };
        assert_eq!(own.or(&parent), LayoutRequest { layout, spread: Some(false) });
    }
}
