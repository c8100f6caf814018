//! Bytes that lie in several places, as those of the blocks of a container do.

use std::borrow::Cow;
use std::ops::Range;

/// Shorter pieces are copied together, so that pieces take little memory beside their bytes.
const BORROWED_BYTES_MIN: usize = 512;

/// A string of bytes in pieces.
#[derive(Clone, Debug, Default)]
pub struct Pieces<'a> {
    pieces: Vec<Cow<'a, [u8]>>,
    /// The place of each piece's first byte in the string.
    starts: Vec<usize>,
    length: usize,
}

impl<'a> Pieces<'a> {
    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: Cow<'a, [u8]>) {
        let length = bytes.len();
        match self.pieces.last_mut() {
            _ if length == 0 => return,
            Some(Cow::Owned(last)) if length < BORROWED_BYTES_MIN => last.extend_from_slice(&bytes),
            _ => {
                let is_short = length < BORROWED_BYTES_MIN;
                self.pieces.push(if is_short { Cow::Owned(bytes.into_owned()) } else { bytes });
                self.starts.push(self.length);
            }
        }
        self.length += length;
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// All bytes.
    pub fn joined(&self) -> Cow<'_, [u8]> {
        self.range(0..self.length)
    }

    /// The bytes of a range, copied only where they lie in several pieces.
    ///
    /// # Panics
    /// The range ends behind the last byte.
    pub(crate) fn range(&self, range: Range<usize>) -> Cow<'_, [u8]> {
        assert!(range.end <= self.length, "{range:?} of {} bytes", self.length);
        let first = self.starts.partition_point(|start| *start <= range.start).saturating_sub(1);
        let Some(piece) = self.pieces.get(first) else { return Cow::Borrowed(&[]) };
        let (from, to) = (range.start - self.starts[first], range.end - self.starts[first]);
        if let Some(within) = piece.get(from..to) {
            return Cow::Borrowed(within);
        }
        let mut gathered = Vec::with_capacity(range.len());
        gathered.extend_from_slice(&piece[from..]);
        for piece in &self.pieces[first + 1..] {
            let missing = range.len() - gathered.len();
            if missing == 0 {
                break;
            }
            gathered.extend_from_slice(&piece[..missing.min(piece.len())]);
        }
        Cow::Owned(gathered)
    }
}

impl<'a> From<&'a [u8]> for Pieces<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        std::iter::once(bytes).collect()
    }
}

impl<'a> FromIterator<&'a [u8]> for Pieces<'a> {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(pieces: I) -> Self {
        let mut all = Self::default();
        pieces.into_iter().for_each(|piece| all.push(Cow::Borrowed(piece)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_those_of_all_bytes_in_a_row(lengths in proptest::collection::vec(0_usize..1500, 0..9), one in any::<u16>(), other in any::<u16>()) {
            let bytes: Vec<u8> = (0..lengths.iter().sum::<usize>()).map(|number| (number * 31 % 251) as u8).collect();
            let mut rest = bytes.as_slice();
            let pieces: Pieces<'_> = lengths.iter().map(|length| rest.split_off(..*length).unwrap_or_default()).collect();
            prop_assert_eq!(pieces.len(), bytes.len());
            prop_assert!(*pieces.joined() == *bytes);
            let (one, other) = (usize::from(one) % (bytes.len() + 1), usize::from(other) % (bytes.len() + 1));
            let range = one.min(other)..one.max(other);
            prop_assert!(*pieces.range(range.clone()) == bytes[range]);
        }
    }
}
