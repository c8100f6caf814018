//! Blocks: payload bytes with a checksum behind every few of them.
//!
//! A chunk's payload is cut every so many bytes, the later the chunk, the more; behind each block stands its checksum,
//! little-endian. It covers the container's header and the block's place too: a sound block of another container, or of
//! another place, is damage.

use crate::version::VERSION_SHORT;

/// Bytes of one checksum.
pub(crate) const CHECKSUM_BYTES: u64 = 4;
/// The longest blocks are at least this long, so that checksums cost at most 0.4 % of a large prefix.
const LONGEST_BYTES_MIN: usize = 1024;
/// Blocks are at most this long, so that a damaged one costs little.
const LONGEST_BYTES_MAX: usize = 16 * 1024;
/// Blocks of a chunk have at most this part of the bytes up to its end, but where those are few: a cut of the stream loses
/// half a block on average.
const BLOCK_PART: u64 = 32;
/// Blocks are at least this long ...
const BLOCK_BYTES_MIN: u64 = 32;
/// ... and this long in [`VERSION_SHORT`].
const BLOCK_BYTES_MIN_SHORT: u64 = 128;

/// The longest blocks of an array.
pub(crate) fn longest(array_bytes: usize) -> usize {
    (array_bytes / 4096).next_power_of_two().clamp(LONGEST_BYTES_MIN, LONGEST_BYTES_MAX)
}

/// The blocks of the chunk that ends at a place of the payload. The first bytes of an array lose least to checksums and to
/// half a block together where a block is as long as two square roots of the bytes.
pub(crate) fn of_chunk(end: u64, longest: u64, version: u16) -> u64 {
    let part = (end / BLOCK_PART).max(1);
    match version {
        ..VERSION_SHORT => longest,
        VERSION_SHORT => part.next_power_of_two().max(BLOCK_BYTES_MIN_SHORT).min(longest),
        _ => {
            let least = end.saturating_mul(4).isqrt().next_power_of_two().max(BLOCK_BYTES_MIN);
            (1 << part.ilog2()).max(least).min(longest)
        }
    }
}

/// Bytes that a payload takes with its checksums.
pub(crate) fn stored_bytes(payload_bytes: u64, block_bytes: u64) -> u64 {
    payload_bytes + payload_bytes.div_ceil(block_bytes) * CHECKSUM_BYTES
}

/// The checksum of the block at a place of the payload, in the container whose header has that checksum.
pub(crate) fn checksum(header: u32, place: u64, block: &[u8]) -> [u8; CHECKSUM_BYTES as usize] {
    crc32c::crc32c_append(crc32c::crc32c_append(header, &place.to_le_bytes()), block).to_le_bytes()
}

/// The payload of one stored block, if its checksum is right.
pub(crate) fn checked(header: u32, place: u64, stored: &[u8]) -> Option<&[u8]> {
    let (block, stored) = stored.split_at_checked(stored.len().checked_sub(CHECKSUM_BYTES as usize)?)?;
    (checksum(header, place, block) == stored).then_some(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::VERSION;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn checksums_and_half_a_block_cost_little_more_than_they_must(end in 1_u64..1 << 16) {
            let block = of_chunk(end, 1 << 14, VERSION);
            let cost = (CHECKSUM_BYTES * end) as f64 / block as f64 + block as f64 / 2.0;
            // A block as long as the root of eight times the bytes costs the least.
            let least = (2.0 * (CHECKSUM_BYTES * end) as f64).sqrt();
            prop_assert!(cost <= 2.0 * least || block == BLOCK_BYTES_MIN, "{end} {block}");
        }

        #[test]
        fn blocks_of_any_chunk_are_powers_of_two(end in any::<u64>(), longest in 5_u32..17, version in 3_u16..7) {
            let longest = 1 << longest;
            let block = of_chunk(end, longest, version);
            prop_assert!(block.is_power_of_two() && block <= longest);
        }
    }
}
