//! Magnitudes of a block as bit-planes, and back.

use super::lattice::BLOCK;

/// Planes of one half of a magnitude.
const HALF: usize = 32;

/// The low and the high halves of a block's magnitudes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Magnitudes {
    pub(super) low: [u32; BLOCK],
    pub(super) high: [u32; BLOCK],
}

impl Magnitudes {
    pub(super) const ZERO: Self = Self { low: [0; BLOCK], high: [0; BLOCK] };

    /// Bits that the largest magnitude needs.
    #[inline(always)]
    pub(super) fn bits(&self) -> u32 {
        let (low, high) = (union(&self.low), union(&self.high));
        u64::BITS - (u64::from(high) << HALF | u64::from(low)).leading_zeros()
    }

    /// Call `work` with each of the lowest `count` planes: its bit, and a word with a bit of each magnitude.
    #[inline(always)]
    pub(super) fn for_each_plane(&self, count: usize, mut work: impl FnMut(usize, u64)) {
        for (half, first) in [(&self.low, 0), (&self.high, HALF)] {
            if count > first {
                for (plane, word) in transposed(half).into_iter().enumerate().take(count - first) {
                    work(first + plane, word);
                }
            }
        }
    }

    /// Add `1 << plane` where `word` has a one.
    #[inline(always)]
    pub(super) fn add_plane(&mut self, plane: usize, word: u64) {
        let half = if plane < HALF { &mut self.low } else { &mut self.high };
        add_plane(half, word, 1 << (plane % HALF));
    }
}

#[inline(always)]
fn union(values: &[u32; BLOCK]) -> u32 {
    values.iter().fold(0, |union, value| union | value)
}

/// Add `weight` where `word` has a one.
#[inline(always)]
fn add_plane(values: &mut [u32; BLOCK], word: u64, weight: u32) {
    for (values, word) in values.chunks_exact_mut(HALF).zip([word as u32, (word >> HALF) as u32]) {
        for (bit, value) in values.iter_mut().enumerate() {
            let selected = u32::from(word & 1 << bit != 0).wrapping_neg();
            *value |= selected & weight;
        }
    }
}

/// Bit `i` of word `p` is bit `p` of value `i`: two 32x32 transpositions (Warren, Hacker's Delight, section 7-3).
#[inline(always)]
fn transposed(values: &[u32; BLOCK]) -> [u64; HALF] {
    let mut words = [0_u64; HALF];
    for (index, word) in words.iter_mut().enumerate() {
        *word = u64::from(values[index]) | u64::from(values[index + HALF]) << HALF;
    }
    exchange::<16>(&mut words, 0x0000_ffff_0000_ffff);
    exchange::<8>(&mut words, 0x00ff_00ff_00ff_00ff);
    exchange::<4>(&mut words, 0x0f0f_0f0f_0f0f_0f0f);
    exchange::<2>(&mut words, 0x3333_3333_3333_3333);
    exchange::<1>(&mut words, 0x5555_5555_5555_5555);
    words
}

/// Exchange the off-diagonal quarters of every square of `2 * DISTANCE` bits.
#[inline(always)]
fn exchange<const DISTANCE: usize>(words: &mut [u64; HALF], mask: u64) {
    for square in words.chunks_exact_mut(2 * DISTANCE) {
        let (upper, lower) = square.split_at_mut(DISTANCE);
        for (upper, lower) in upper.iter_mut().zip(lower) {
            let difference = (*upper >> DISTANCE ^ *lower) & mask;
            *lower ^= difference;
            *upper ^= difference << DISTANCE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn planes_hold_the_magnitudes(low in proptest::array::uniform32(any::<u32>()), high in proptest::array::uniform32(any::<u32>())) {
            let mut magnitudes = Magnitudes::ZERO;
            magnitudes.low[..32].copy_from_slice(&low);
            magnitudes.low[32..].copy_from_slice(&high);
            magnitudes.high[7..39].copy_from_slice(&high);
            let mut returned = Magnitudes::ZERO;
            magnitudes.for_each_plane(64, |plane, word| returned.add_plane(plane, word));
            prop_assert_eq!(&returned, &magnitudes);
            let mut planes = Vec::new();
            magnitudes.for_each_plane(64, |plane, word| planes.push((plane, word)));
            for (plane, word) in planes {
                for bit in 0..BLOCK {
                    let half = if plane < HALF { magnitudes.low[bit] } else { magnitudes.high[bit] };
                    prop_assert_eq!(word >> bit & 1, u64::from(half >> (plane % HALF) & 1));
                }
            }
        }
    }
}
