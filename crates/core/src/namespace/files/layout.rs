//! Layouts and placements in the values of extended attributes.

use crate::namespace::change::Change;
use crate::namespace::errno::EINVAL;
use crate::namespace::intents::Bytes;
use std::fmt::Write as _;
use weir_placement::online::Record;
use weir_placement::{LayoutDefaults, LayoutRequest, LayoutSpecification, Stripes};
use weir_wire::Errno;
use weir_wire::{Ino, Moment};

/// The attribute with the reasons of a file's placement. The server makes it with the file; nobody sets it.
pub(crate) const PLACEMENT: &[u8] = b"weir.placement";

/// The text of `weir.layout` on a directory: the layout of files made in the directory, and whether it spreads.
pub(crate) fn directory_text(request: &LayoutRequest, defaults: LayoutDefaults) -> String {
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

/// Reads a value of `weir.layout`: a layout in the spelling of `lfs setstripe`, `spread=yes|no`, or both.
pub(crate) fn parse(text: &[u8]) -> Result<LayoutRequest, Errno> {
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
        layout.is_within_limits().then_some(()).ok_or(EINVAL)?;
        request.layout = Some(layout);
    }
    Ok(request)
}

/// The record of a new file's placement, for the journal.
pub(crate) fn placement(ino: Ino, why: &Record, at: Moment) -> Change {
    Change::XattrSet { ino, name: Bytes::from(PLACEMENT), value: Some(Bytes::from(why.encode())), at }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: LayoutDefaults = LayoutDefaults { stripe_bytes: 1 << 20, stripe_count: 0 };

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
