//! Layouts as text: the options of `lfs setstripe` (lfs-setstripe(1)).
//!
//! `-E END` begins a component that ends there (`-1` or `eof`: the end of the file), `-S SIZE` is its stripe size, `-c
//! COUNT` its stripes (`-1`: all targets, `0`: the default) and `-o TARGET[,TARGET...]` its targets. Without `-E`
//! the options are those of a layout of one component.

use crate::component::END_OF_FILE;
use crate::{
    ComponentSpecification, Layout, LayoutError, LayoutSpecification, Stripes, TargetId, TargetNameError,
};
use std::fmt;
use std::str::FromStr;

/// Most components of a text: bounds the layouts from untrusted text.
pub(crate) const COMPONENTS: usize = 64;
/// Most targets `-o` may name, for the same reason.
const TARGETS: usize = 4096;

/// A text that is no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpellingError {
    /// An option without its value.
    #[error("`{0}` needs a value")]
    NoValue(String),
    /// An option that is not one of a layout.
    #[error("`{0}` is not an option of a layout: use -E END, -S SIZE, -c COUNT, -o TARGET,TARGET...")]
    Option(String),
    /// A value that is no size.
    #[error("`{0}` is not a size: use bytes, 64k, 1M or 2G")]
    Size(String),
    /// A value that is no stripe count.
    #[error("`{0}` is not a stripe count: use 1 to 65535, -1 for all targets or 0 for the default")]
    Count(String),
    /// An option that stands twice in one component.
    #[error("`{0}` stands twice in component {1}")]
    Twice(String, usize),
    /// Options before the first `-E` of a layout of several components.
    #[error("`{0}` stands before the first -E: in a layout with -E every component begins with one")]
    BeforeFirst(String),
    /// `-c` that says another number of targets than `-o` names.
    #[error("component {component} has -c {count}, and -o names {named} targets")]
    CountOfTargets {
        /// Its number, from 1.
        component: usize,
        /// The number of `-c`.
        count: u16,
        /// The number of targets that `-o` names.
        named: usize,
    },
    /// More than this crate reads.
    #[error("a layout has at most {COMPONENTS} components of at most {TARGETS} targets")]
    TooLong,
    /// A name that is no target.
    #[error(transparent)]
    Target(#[from] TargetNameError),
    /// Components that make no layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// The options between two `-E`.
#[derive(Default)]
struct Options {
    end: Option<Option<u64>>,
    stripe_bytes: Option<u64>,
    count: Option<Stripes>,
    targets: Option<Vec<TargetId>>,
}

impl FromStr for LayoutSpecification {
    type Err = SpellingError;

    fn from_str(text: &str) -> Result<LayoutSpecification, SpellingError> {
        let mut components: Vec<Options> = Vec::new();
        let mut words = text.split_ascii_whitespace();
        while let Some(word) = words.next() {
            let (word, glued) = divided(word);
            let option = short_form(word);
            if !matches!(option, "-E" | "-S" | "-c" | "-o") {
                return Err(SpellingError::Option(word.to_owned()));
            }
            let value =
                glued.or_else(|| words.next()).ok_or_else(|| SpellingError::NoValue(word.to_owned()))?;
            if components.is_empty() || option == "-E" {
                components.push(Options::default());
            }
            if components.len() > COMPONENTS {
                return Err(SpellingError::TooLong);
            }
            let number = components.len();
            if option == "-E" && number == 2 && components[0].end.is_none() {
                let first = text.split_ascii_whitespace().next().unwrap_or_default();
                return Err(SpellingError::BeforeFirst(first.to_owned()));
            }
            if let Some(current) = components.last_mut() {
                current.take(option, value, number)?;
            }
        }
        let components =
            components.into_iter().enumerate().map(|(index, options)| options.component(index + 1));
        let specification = LayoutSpecification { components: components.collect::<Result<_, _>>()? };
        specification.check()?;
        Ok(specification)
    }
}

impl Options {
    fn take(&mut self, option: &str, value: &str, number: usize) -> Result<(), SpellingError> {
        let is_new = match option {
            "-E" => self.end.replace(extent_end(value)?).is_none(),
            "-S" => self.stripe_bytes.replace(size(value)?).is_none(),
            "-c" => self.count.replace(stripe_count(value)?).is_none(),
            _ => self.targets.replace(target_list(value)?).is_none(),
        };
        is_new.then_some(()).ok_or_else(|| SpellingError::Twice(option.to_owned(), number))
    }

    fn component(self, number: usize) -> Result<ComponentSpecification, SpellingError> {
        let stripes = match (self.count, self.targets) {
            (Some(Stripes::Count(count)), Some(targets)) if usize::from(count) != targets.len() => {
                return Err(SpellingError::CountOfTargets { component: number, count, named: targets.len() });
            }
            (_, Some(targets)) => Stripes::Targets(targets),
            (count, None) => count.unwrap_or_default(),
        };
        Ok(ComponentSpecification { end: self.end.flatten(), stripe_bytes: self.stripe_bytes, stripes })
    }
}

/// An option and the value that stands in the same word, as `lfs` takes it: `-c2`, `--stripe-count=2`.
fn divided(word: &str) -> (&str, Option<&str>) {
    match word.get(..2) {
        Some("--") => word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value))),
        Some(option @ ("-E" | "-S" | "-c" | "-o")) if word.len() > 2 => (option, Some(&word[2..])),
        _ => (word, None),
    }
}

fn short_form(word: &str) -> &str {
    match word {
        "--component-end" | "--comp-end" => "-E",
        "--stripe-size" => "-S",
        "--stripe-count" => "-c",
        "--ost" | "--targets" => "-o",
        other => other,
    }
}

fn extent_end(value: &str) -> Result<Option<u64>, SpellingError> {
    match value {
        "-1" | "eof" | "EOF" => Ok(None),
        _ => size(value).map(Some),
    }
}

/// Bytes, with the binary units of `lfs`.
pub(crate) fn size(value: &str) -> Result<u64, SpellingError> {
    let wrong = || SpellingError::Size(value.to_owned());
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let shift = match value[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = value[..digits].parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(1 << shift).filter(|&bytes| bytes < END_OF_FILE);
    bytes.ok_or_else(wrong)
}

pub(crate) fn stripe_count(value: &str) -> Result<Stripes, SpellingError> {
    match value {
        "-1" => Ok(Stripes::All),
        "0" => Ok(Stripes::Default),
        _ => value.parse().map(Stripes::Count).map_err(|_| SpellingError::Count(value.to_owned())),
    }
}

fn target_list(value: &str) -> Result<Vec<TargetId>, SpellingError> {
    if value.split(',').count() > TARGETS {
        return Err(SpellingError::TooLong);
    }
    Ok(value.split(',').map(str::parse).collect::<Result<_, _>>()?)
}

impl fmt::Display for LayoutSpecification {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, component) in self.components.iter().enumerate() {
            if index > 0 {
                formatter.write_str(" ")?;
            }
            if self.components.len() > 1 {
                write_end(formatter, component.end)?;
            }
            match &component.stripes {
                Stripes::Default => formatter.write_str("-c 0")?,
                Stripes::All => formatter.write_str("-c -1")?,
                Stripes::Count(count) => write!(formatter, "-c {count}")?,
                Stripes::Targets(targets) => write_targets(formatter, targets)?,
            }
            if let Some(bytes) = component.stripe_bytes {
                write!(formatter, " -S {}", Size(bytes))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, component) in self.components().iter().enumerate() {
            if index > 0 {
                formatter.write_str(" ")?;
            }
            if self.components().len() > 1 {
                write_end(formatter, Some(component.end).filter(|&end| end != END_OF_FILE))?;
            }
            write_targets(formatter, &component.targets)?;
            write!(formatter, " -S {}", Size(component.stripe_bytes))?;
        }
        Ok(())
    }
}

fn write_end(formatter: &mut fmt::Formatter<'_>, end: Option<u64>) -> fmt::Result {
    match end {
        Some(end) => write!(formatter, "-E {} ", Size(end)),
        None => formatter.write_str("-E -1 "),
    }
}

fn write_targets(formatter: &mut fmt::Formatter<'_>, targets: &[TargetId]) -> fmt::Result {
    formatter.write_str("-o ")?;
    for (index, target) in targets.iter().enumerate() {
        write!(formatter, "{}{target}", if index > 0 { "," } else { "" })?;
    }
    Ok(())
}

/// Bytes in the largest unit that says them exactly.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "T"), (30, "G"), (20, "M"), (10, "k")];
        let exact = units.iter().find(|(shift, _)| self.0 > 0 && self.0.is_multiple_of(1 << shift));
        match exact {
            Some((shift, unit)) => write!(formatter, "{}{unit}", self.0 >> shift),
            None => write!(formatter, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_paper_s_first_configuration_is_read() {
        let text = "-E 128M -c 1 -E 512M -c 3 -E 2G -c 8 -E -1 -c 16";
        let layout: LayoutSpecification = text.parse().unwrap();
        let ends: Vec<_> = layout.components.iter().map(|component| component.end).collect();
        assert_eq!(ends, [Some(128 << 20), Some(512 << 20), Some(2 << 30), None]);
        let counts: Vec<_> = layout.components.iter().map(|component| component.stripes.clone()).collect();
        assert_eq!(counts, [1, 3, 8, 16].map(Stripes::Count));
        assert_eq!(layout.to_string(), text);
    }

    #[test]
    fn one_component_needs_no_end() {
        let layout: LayoutSpecification = "-S 1M -c 4".parse().unwrap();
        assert_eq!(layout, LayoutSpecification::striped(Some(1 << 20), Stripes::Count(4)));
        let layout: LayoutSpecification = "-o 0.1,3.2 -c 2".parse().unwrap();
        assert_eq!(layout.to_string(), "-o 0.1,3.2");
        let layout: LayoutSpecification = "--stripe-size 64k".parse().unwrap();
        assert_eq!(layout, LayoutSpecification::striped(Some(65536), Stripes::Default));
    }

    #[test]
    fn values_stand_in_the_same_word_as_their_options_too() {
        for text in ["-S1M -c2", "--stripe-size=1M --stripe-count=2", "-S 1M -c2"] {
            let layout: LayoutSpecification = text.parse().unwrap();
            assert_eq!(layout, LayoutSpecification::striped(Some(1 << 20), Stripes::Count(2)), "{text}");
        }
        let layout: LayoutSpecification = "-E64M -c1 -E-1 -c-1".parse().unwrap();
        assert_eq!(layout, "-E 64M -c 1 -E -1 -c -1".parse().unwrap());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |text: &str| text.parse::<LayoutSpecification>().unwrap_err().to_string();
        assert!(wrong("-c").contains("needs a value"));
        assert!(wrong("-z 5").contains("`-z` is not an option"));
        assert!(wrong("-S 5x").contains("`5x` is not a size"));
        assert!(wrong("-S 99999999999999999999").contains("is not a size"));
        assert!(wrong("-c 70000").contains("is not a stripe count"));
        assert!(wrong("-c 1 -c 2").contains("stands twice"));
        assert!(wrong("-c 1 -E 1M -c 2 -E -1").contains("before the first -E"));
        assert!(wrong("-c 3 -o 0.1,0.2").contains("-o names 2 targets"));
        assert!(wrong("").contains("at least one component"));
    }

    proptest! {
        #[test]
        fn layouts_are_read_as_they_are_written(
            parts in proptest::collection::vec((1u64..1 << 40, proptest::option::of(1u64..1 << 33), 0u16..9), 1..6),
        ) {
            let mut end = 0;
            let last = parts.len() - 1;
            let components = parts.into_iter().enumerate().map(|(index, (bytes, stripe_bytes, kind))| {
                end += bytes;
                let named = |count| (0..count).map(|index| TargetId { server: crate::ServerId(index), index }).collect();
                let stripes = match kind {
                    0 => Stripes::Default,
                    1 => Stripes::All,
                    2..=4 => Stripes::Count(kind),
                    _ => Stripes::Targets(named(kind)),
                };
                ComponentSpecification { end: (index < last).then_some(end), stripe_bytes, stripes }
            });
            let layout = LayoutSpecification { components: components.collect() };
            prop_assert_eq!(layout.to_string().parse::<LayoutSpecification>(), Ok(layout));
        }

        #[test]
        fn any_text_is_a_layout_or_refused(text in "(-[EScox] ?|[0-9.,kMG-]{0,6} ?){0,12}") {
            if let Ok(layout) = text.parse::<LayoutSpecification>() {
                prop_assert_eq!(layout.check(), Ok(()));
                prop_assert_eq!(layout.to_string().parse::<LayoutSpecification>(), Ok(layout));
            }
        }
    }
}
