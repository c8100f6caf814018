//! RAID-0 layouts: file offsets to (target, object offset) and back.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Number of a server in its cluster; server 0 is the home of the root directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServerId(pub u16);

/// One storage target: a server and the target's number on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TargetId {
    /// The server that owns the target.
    pub server: ServerId,
    /// Its number on that server, from 0.
    pub index: u16,
}

impl fmt::Display for ServerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.server, self.index)
    }
}

/// How a file is cut into stripes: stripe `n` lives on target `n mod targets.len()`.
///
/// Each target of a layout occurs once, so a file has at most one object on a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Bytes of one stripe; positive.
    pub stripe_bytes: u32,
    /// The targets in stripe order; never empty for a regular file.
    pub targets: Vec<TargetId>,
}

/// A contiguous run of file bytes that lies in one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index into [`Layout::targets`].
    pub stripe: usize,
    /// Offset inside the target's object.
    pub object_offset: u64,
    /// Offset inside the file.
    pub file_offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// What a directory asks of the layouts of files made in it; absent values are inherited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutRequest {
    /// Bytes of one stripe.
    pub stripe_bytes: Option<u32>,
    /// Number of targets; 0 means all.
    pub stripe_count: Option<u16>,
    /// New subdirectories get homes on all servers by consistent hashing.
    pub spread: Option<bool>,
}

impl Layout {
    /// The pieces of the file range `[offset, offset + length)`, in file order.
    pub fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = Piece> + '_ {
        let stripe_bytes = u64::from(self.stripe_bytes);
        let count = self.targets.len() as u64;
        let end = offset.saturating_add(length);
        let mut position = offset;
        std::iter::from_fn(move || {
            if position >= end {
                return None;
            }
            let number = position / stripe_bytes;
            let within = position % stripe_bytes;
            let run = if count == 1 { end - position } else { (stripe_bytes - within).min(end - position) };
            let piece = Piece {
                stripe: (number % count) as usize,
                object_offset: (number / count) * stripe_bytes + within,
                file_offset: position,
                length: run,
            };
            position += run;
            Some(piece)
        })
    }

    /// Length of the object of stripe index `stripe` in a file of `file_bytes`.
    pub fn object_bytes(&self, stripe: usize, file_bytes: u64) -> u64 {
        let stripe_bytes = u64::from(self.stripe_bytes);
        let count = self.targets.len() as u64;
        let row_bytes = stripe_bytes * count;
        let rows = file_bytes / row_bytes;
        let rest = file_bytes % row_bytes;
        let before = stripe as u64 * stripe_bytes;
        rows * stripe_bytes + rest.saturating_sub(before).min(stripe_bytes)
    }

    /// File offset of byte `object_offset` of the object of stripe index `stripe`.
    pub fn file_offset(&self, stripe: usize, object_offset: u64) -> u64 {
        let stripe_bytes = u64::from(self.stripe_bytes);
        let count = self.targets.len() as u64;
        let row = object_offset / stripe_bytes;
        (row * count + stripe as u64) * stripe_bytes + object_offset % stripe_bytes
    }
}

impl LayoutRequest {
    /// This request with `parent`'s values where it has none.
    pub fn or(self, parent: LayoutRequest) -> LayoutRequest {
        LayoutRequest {
            stripe_bytes: self.stripe_bytes.or(parent.stripe_bytes),
            stripe_count: self.stripe_count.or(parent.stripe_count),
            spread: self.spread.or(parent.spread),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(stripe_bytes: u32, count: u16) -> Layout {
        let targets = (0..count).map(|index| TargetId { server: ServerId(0), index }).collect();
        Layout { stripe_bytes, targets }
    }

    proptest! {
        #[test]
        fn pieces_cover_the_range_once_and_map_back(
            stripe_bytes in 1u32..5000, count in 1u16..7, offset in 0u64..100_000, length in 0u64..50_000,
        ) {
            let layout = layout(stripe_bytes, count);
            let mut position = offset;
            for piece in layout.pieces(offset, length) {
                prop_assert_eq!(piece.file_offset, position);
                prop_assert!(piece.length > 0);
                if count > 1 {
                    prop_assert_eq!(layout.file_offset(piece.stripe, piece.object_offset), position);
                }
                position += piece.length;
            }
            prop_assert_eq!(position, offset + length);
        }

        #[test]
        fn object_bytes_sum_to_the_file(stripe_bytes in 1u32..5000, count in 1u16..7, bytes in 0u64..200_000) {
            let layout = layout(stripe_bytes, count);
            let sum: u64 = (0..usize::from(count)).map(|stripe| layout.object_bytes(stripe, bytes)).sum();
            prop_assert_eq!(sum, bytes);
        }

        #[test]
        fn object_bytes_is_one_past_the_last_piece(
            stripe_bytes in 1u32..500, count in 1u16..7, bytes in 1u64..20_000,
        ) {
            let layout = layout(stripe_bytes, count);
            let mut ends = vec![0; usize::from(count)];
            for piece in layout.pieces(0, bytes) {
                ends[piece.stripe] = piece.object_offset + piece.length;
            }
            for (stripe, end) in ends.into_iter().enumerate() {
                prop_assert_eq!(layout.object_bytes(stripe, bytes), end);
            }
        }
    }
}
