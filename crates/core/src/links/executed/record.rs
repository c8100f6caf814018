//! A slot in the file of changes: a change that was carried out, or one that began, and the part of it that is left.

use crate::requests::order::Place;
use crate::requests::ranges::{common, subtracted, Range};
use weir_wire::{ClientId, Ino, RequestId};

/// Bytes of a slot in the file: eight numbers, little-endian, so that no slot lies in two pages and none is written in part.
pub(super) const SLOT_BYTES: usize = 64;
/// Ranges that a slot in the file has room for: a change of others in the midst of one in doubt leaves two.
const RANGES: usize = 2;

/// A client's request.
pub(super) type Key = (ClientId, RequestId);

/// The part of a change that is to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// All of it.
    Everything,
    /// The bytes in these ranges.
    Bytes(Vec<Range>),
    /// Nobody knows: the server was killed once more, and others had changed parts here and there.
    Unknown,
}

/// A slot in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) of: Key,
    /// The object of a change that began, and the part of it that may be left; none once the change was carried out.
    pub(super) begun: Option<(Place, Left)>,
}

impl Record {
    const BEGUN: u64 = 1;
    const UNKNOWN: u64 = 2;

    pub(super) fn done((client, request): Key) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        bytes[..8].copy_from_slice(&client.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&request.0.to_le_bytes());
        bytes
    }

    /// A change that began, and the ranges of it that may be left; none where they are unknown. Ranges beyond the room of a slot make them
    /// unknown.
    pub(super) fn begun(of: Key, (target, object): Place, left: Option<&[Range]>) -> [u8; SLOT_BYTES] {
        let left = left.filter(|ranges| ranges.len() <= RANGES);
        let state = if left.is_some() { Record::BEGUN } else { Record::UNKNOWN };
        let mut bytes = Record::done(of);
        let ranges = left.into_iter().flatten().flat_map(|(begin, end)| [*begin, *end]);
        let numbers = [state | (target as u64) << 8, object.0].into_iter().chain(ranges);
        for (place, number) in bytes[16..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// The record in a slot; none in one that is free.
    pub(super) fn decoded(bytes: &[u8]) -> Option<Record> {
        let number = |index: usize| {
            let bytes = bytes.iter().skip(index * 8).take(8).rev();
            bytes.fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        };
        let of = (ClientId(number(0)), RequestId(number(1)));
        let place = ((number(2) >> 8) as usize, Ino(number(3)));
        let ranges = (0..RANGES).map(|index| (number(4 + index * 2), number(5 + index * 2)));
        let left = Left::Bytes(ranges.filter(|(begin, end)| begin < end).collect());
        let begun = match number(2) & 0xff {
            Record::BEGUN => Some((place, left)),
            Record::UNKNOWN => Some((place, Left::Unknown)),
            _ => None,
        };
        (of.1 .0 != 0).then_some(Record { of, begun })
    }
}

impl Left {
    /// The part that is left where others change some ranges.
    pub(super) fn without(&self, ranges: &[Range]) -> Left {
        match self {
            Left::Bytes(left) => Left::Bytes(subtracted(left, ranges)),
            other => other.clone(),
        }
    }

    /// The parts of some ranges that are left.
    pub(super) fn within(&self, ranges: &[Range]) -> Vec<Range> {
        match self {
            Left::Bytes(left) => ranges.iter().flat_map(|range| common(*range, left)).collect(),
            Left::Everything | Left::Unknown => ranges.to_vec(),
        }
    }

    /// The number of bytes. Of two records of one change the later one has less.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Left::Bytes(ranges) => ranges.iter().map(|(begin, end)| end - begin).sum(),
            Left::Everything | Left::Unknown => u64::MAX,
        }
    }
}
