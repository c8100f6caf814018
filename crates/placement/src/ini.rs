//! Layouts as text: the configuration file of Tarazu (section 5.5.2, figure 12).
//!
//! `[Client]` gives the number of `Buckets`. Each `[Bucket_N]` is a component with the `Extent` at which it ends and
//! the number of `Stripe`s, and, beyond the figure, the stripe `Size`. Text behind `;` or `#` is a remark.

use crate::spelling::{size, stripe_count, Size};
use crate::{ComponentSpecification, LayoutSpecification, SpellingError, Stripes};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A text that is no layout file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IniError {
    /// A line that is neither a section nor a setting.
    #[error("line {line}: `{text}` is neither [SECTION] nor KEY = VALUE")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The text in that place.
        text: String,
    },
    /// A section or setting that there is none of.
    #[error(
        "line {line}: unknown `{text}`: expected [Client] with Buckets, [Bucket_N] with Extent, Stripe, Size"
    )]
    Unknown {
        /// Its number, from 1.
        line: usize,
        /// The text in that place.
        text: String,
    },
    /// A bucket that is missing, or a setting of it.
    #[error("[Bucket_{bucket}] has no {setting}")]
    Missing {
        /// Its number, from 1.
        bucket: usize,
        /// The setting.
        setting: &'static str,
    },
    /// A number of buckets that does not fit.
    #[error("[Client] says {said} buckets, and the file has {found}")]
    Buckets {
        /// The number that the file gives.
        said: String,
        /// The number that the file has.
        found: usize,
    },
    /// A value that is wrong.
    #[error("line {line}: {error}")]
    Value {
        /// Its number, from 1.
        line: usize,
        /// The error of the spelling.
        error: SpellingError,
    },
    /// Buckets that make no layout.
    #[error(transparent)]
    Layout(#[from] SpellingError),
}

#[derive(Default)]
struct Bucket {
    end: Option<Option<u64>>,
    stripes: Option<Stripes>,
    stripe_bytes: Option<u64>,
}

enum Section {
    None,
    Client,
    Bucket(usize),
}

impl LayoutSpecification {
    /// Reads the paper's configuration file.
    ///
    /// # Errors
    /// [`IniError`], with the line.
    pub fn from_ini(text: &str) -> Result<LayoutSpecification, IniError> {
        let mut section = Section::None;
        let mut said = None;
        let mut buckets: BTreeMap<usize, Bucket> = BTreeMap::new();
        for (index, whole) in text.lines().enumerate() {
            let line = index + 1;
            let content = whole.split([';', '#']).next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            if let Some(name) = content.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = named(name).ok_or_else(|| IniError::Unknown { line, text: content.to_owned() })?;
                if let Section::Bucket(number) = section {
                    buckets.entry(number).or_default();
                }
                continue;
            }
            let (key, value) =
                content.split_once('=').ok_or_else(|| IniError::Line { line, text: content.to_owned() })?;
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match (&section, key.as_str()) {
                (Section::Client, "buckets") => said = Some(value.to_owned()),
                (Section::Bucket(number), _) => {
                    buckets.entry(*number).or_default().set(&key, value, line)?;
                }
                _ => return Err(IniError::Unknown { line, text: content.to_owned() }),
            }
        }
        finish(said, &buckets)
    }

    /// The paper's configuration file of this layout. Explicit targets have no place in it: only their number.
    pub fn to_ini(&self) -> String {
        let mut text = format!("; lfs setstripe {self}\n\n[Client]\nBuckets = {}\n", self.components.len());
        for (index, component) in self.components.iter().enumerate() {
            let end = component.end.map_or("-1".to_owned(), |end| Size(end).to_string());
            let count = match &component.stripes {
                Stripes::Default => "0".to_owned(),
                Stripes::All => "-1".to_owned(),
                Stripes::Count(count) => count.to_string(),
                Stripes::Targets(targets) => targets.len().to_string(),
            };
            // Writing to a String cannot fail.
            let _ = write!(text, "\n[Bucket_{}]\nExtent = {end}\nStripe = {count}\n", index + 1);
            if let Some(bytes) = component.stripe_bytes {
                let _ = writeln!(text, "Size = {}", Size(bytes));
            }
        }
        text
    }
}

impl Bucket {
    fn set(&mut self, key: &str, value: &str, line: usize) -> Result<(), IniError> {
        let wrong = |error| IniError::Value { line, error };
        match key {
            "extent" if value == "-1" => self.end = Some(None),
            "extent" => self.end = Some(Some(size(value).map_err(wrong)?)),
            "stripe" => self.stripes = Some(stripe_count(value).map_err(wrong)?),
            "size" => self.stripe_bytes = Some(size(value).map_err(wrong)?),
            _ => return Err(IniError::Unknown { line, text: key.to_owned() }),
        }
        Ok(())
    }
}

fn named(section: &str) -> Option<Section> {
    let name = section.trim().to_ascii_lowercase();
    if name == "client" {
        return Some(Section::Client);
    }
    let number: usize = name.strip_prefix("bucket_")?.parse().ok()?;
    (1..=crate::spelling::COMPONENTS).contains(&number).then_some(Section::Bucket(number))
}

fn finish(said: Option<String>, buckets: &BTreeMap<usize, Bucket>) -> Result<LayoutSpecification, IniError> {
    let found = buckets.keys().next_back().copied().unwrap_or(0);
    if said.as_deref().is_none_or(|said| said.parse() != Ok(found)) {
        return Err(IniError::Buckets { said: said.unwrap_or_else(|| "no number of".to_owned()), found });
    }
    let component = |number: usize| {
        let missing = |setting| IniError::Missing { bucket: number, setting };
        let bucket = buckets.get(&number).ok_or(missing("section"))?;
        Ok(ComponentSpecification {
            end: bucket.end.ok_or(missing("Extent"))?,
            stripe_bytes: bucket.stripe_bytes,
            stripes: bucket.stripes.clone().ok_or(missing("Stripe"))?,
        })
    };
    let components = (1..=found).map(component).collect::<Result<_, IniError>>()?;
    let specification = LayoutSpecification { components };
    specification.check().map_err(SpellingError::from)?;
    Ok(specification)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONFIGURATION_1: &str = "-E 128M -c 1 -E 512M -c 3 -E 2G -c 8 -E -1 -c 16";

    #[test]
    fn the_paper_s_figure_12_is_read() {
        let text = "; a remark\n[Client]\nBuckets = 4   # here: 4\n\
            [Bucket_1]\nExtent = 128M ; -E 128M -c 1\nStripe = 1\n[Bucket_2]\nExtent = 512M\nStripe = 3\n\
            [Bucket_3]\nExtent = 2G\nStripe = 8\n[Bucket_4]\nExtent = -1\nStripe = 16\n";
        assert_eq!(LayoutSpecification::from_ini(text).unwrap().to_string(), CONFIGURATION_1);
    }

    #[test]
    fn files_are_read_as_they_are_written() {
        for spelling in [CONFIGURATION_1, "-c 4 -S 64k", "-E 1M -c 1 -S 64k -E -1 -c -1 -S 4M", "-c 0"] {
            let layout: LayoutSpecification = spelling.parse().unwrap();
            assert_eq!(LayoutSpecification::from_ini(&layout.to_ini()), Ok(layout));
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let wrong = |text: &str| LayoutSpecification::from_ini(text).unwrap_err().to_string();
        assert!(wrong("[Client]\nBuckets = 1\n[Bucket_1]\nExtent = soon\n")
            .contains("line 4: `soon` is not a size"));
        assert!(
            wrong("[Client]\nBuckets = 2\n[Bucket_1]\nExtent = -1\nStripe = 1\n").contains("says 2 buckets")
        );
        assert!(wrong("[Client]\nBuckets = 1\n[Bucket_1]\nExtent = -1\n").contains("has no Stripe"));
        assert!(wrong("[Server]\n").contains("line 1: unknown `[Server]`"));
        assert!(wrong("[Client]\nBuckets 4\n").contains("line 2: `Buckets 4` is neither"));
        assert!(wrong(
            "[Client]\nBuckets = 2\n[Bucket_1]\nExtent = 2M\nStripe = 1\n[Bucket_2]\nExtent = 1M\nStripe = 1"
        )
        .contains("extents overlap"));
        assert!(wrong("").contains("no number of buckets"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_layout_or_refused(text in "(\\[Client\\]|\\[Bucket_[0-9]\\]|(Buckets|Extent|Stripe|Size) = [-0-9kM]{0,4}|.{0,9}|\n){0,20}") {
            if let Ok(layout) = LayoutSpecification::from_ini(&text) {
                prop_assert_eq!(layout.check(), Ok(()));
            }
        }
    }
}
