//! Lists of byte ranges that do not overlap, in order.

use weir_wire::{Extent, Request};

/// Bytes of an object: the first one, and one past the last one.
pub(crate) type Range = (u64, u64);

/// The bytes of an extent.
pub(crate) fn range_of(extent: &Extent) -> Range {
    (extent.offset, extent.offset + u64::from(extent.length))
}

/// The bytes of `ranges` that are in none of `others`.
pub(crate) fn subtracted(ranges: &[Range], others: &[Range]) -> Vec<Range> {
    let mut left = ranges.to_vec();
    for &(begin, end) in others.iter().filter(|(begin, end)| begin < end) {
        left = left
            .into_iter()
            .flat_map(|(first, last)| [(first, last.min(begin)), (first.max(end), last)])
            .filter(|(first, last)| first < last)
            .collect();
    }
    left
}

/// The parts of a range that are in one of `ranges`.
pub(crate) fn common((begin, end): Range, ranges: &[Range]) -> impl Iterator<Item = Range> + Clone + '_ {
    ranges
        .iter()
        .map(move |&(first, last)| (first.max(begin), last.min(end)))
        .filter(|(begin, end)| begin < end)
}

/// The bytes of its object that a request changes. An allocation changes none.
pub(crate) fn changed_ranges(request: &Request) -> Vec<Range> {
    match request {
        Request::Reserve { punch: false, .. } => Vec::new(),
        request => reached_ranges(request),
    }
}

/// The bytes of its object that a request changes or gives room.
pub(crate) fn reached_ranges(request: &Request) -> Vec<Range> {
    match request {
        Request::Write { extents, .. } => extents.iter().map(range_of).collect(),
        Request::Reserve { offset, length, .. } => vec![(*offset, offset.saturating_add(*length))],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges() -> impl Strategy<Value = Vec<Range>> {
        // Gaps and lengths, one after another.
        proptest::collection::vec((0u64..5, 1u64..5), 0..6).prop_map(|parts| {
            let mut at = 0;
            let range = |(gap, length): (u64, u64)| {
                let begin = at + gap;
                at = begin + length;
                (begin, at)
            };
            parts.into_iter().map(range).collect()
        })
    }

    proptest! {
        /// Compared byte by byte, and the results are in order and apart.
        #[test]
        fn ranges_are_sets_of_bytes(
            some in ranges(), others in proptest::collection::vec((0u64..40, 0u64..40), 0..6), begin in 0u64..40, length in 0u64..20,
        ) {
            let has = |ranges: &[Range], byte: u64| ranges.iter().any(|&(begin, end)| begin <= byte && byte < end);
            let left = subtracted(&some, &others);
            let within: Vec<Range> = common((begin, begin + length), &some).collect();
            for byte in 0..80 {
                prop_assert_eq!(has(&left, byte), has(&some, byte) && !has(&others, byte));
                prop_assert_eq!(has(&within, byte), has(&some, byte) && (begin..begin + length).contains(&byte));
            }
            for list in [left, within] {
                prop_assert!(list.iter().all(|(begin, end)| begin < end));
                prop_assert!(list.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            }
        }
    }
}
