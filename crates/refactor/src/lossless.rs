//! The last residual: the difference between the bits of the samples and of those restored, by zstd.
//!
//! Bits count as integers, whose differences are small where samples are near. They are stored byte by byte, the lowest
//! bytes of all samples first, since the high ones are mostly zero.

use crate::escape::decompressed;
use crate::sample::Sample;

const LEVEL: i32 = 3;

/// The residual, empty if nothing differs.
pub(crate) fn encode<T: Sample>(samples: &[T], restored: &[T]) -> Vec<u8> {
    let bytes = T::KIND.bytes();
    let differences: Vec<u64> =
        samples.iter().zip(restored).map(|(one, other)| folded(bits(*one), bits(*other), bytes)).collect();
    if differences.iter().all(|difference| *difference == 0) {
        return Vec::new();
    }
    let mut plain = Vec::with_capacity(samples.len() * bytes);
    for byte in 0..bytes {
        plain.extend(differences.iter().map(|difference| (difference >> (8 * byte)) as u8));
    }
    zstd::bulk::compress(&plain, LEVEL).unwrap_or_default()
}

/// Corrects restored samples.
pub(crate) fn decode<T: Sample>(residual: &[u8], restored: &mut [T]) {
    let bytes = T::KIND.bytes();
    if residual.is_empty() {
        return;
    }
    let Some(plain) = decompressed(residual, restored.len() * bytes) else { return };
    if plain.len() != restored.len() * bytes {
        return;
    }
    let count = restored.len();
    for (index, sample) in restored.iter_mut().enumerate() {
        let difference =
            (0..bytes).fold(0, |sum, byte| sum | u64::from(plain[byte * count + index]) << (8 * byte));
        *sample = from_bits(unfolded(difference, bits(*sample), bytes));
    }
}

fn bits<T: Sample>(sample: T) -> u64 {
    let mut bytes = [0; 8];
    sample.put(&mut bytes[..T::KIND.bytes()]);
    u64::from_le_bytes(bytes)
}

fn from_bits<T: Sample>(bits: u64) -> T {
    T::take(&bits.to_le_bytes()[..T::KIND.bytes()])
}

/// The difference modulo the sample's width, small ones of either sign being small numbers.
fn folded(one: u64, other: u64, bytes: usize) -> u64 {
    let unused = 64 - 8 * bytes as u32;
    let difference = (one.wrapping_sub(other) << unused) as i64 >> unused;
    ((difference << 1) ^ (difference >> 63)) as u64 & (u64::MAX >> unused)
}

fn unfolded(folded: u64, other: u64, bytes: usize) -> u64 {
    let difference = (folded >> 1) ^ (folded & 1).wrapping_neg();
    other.wrapping_add(difference) & (u64::MAX >> (64 - 8 * bytes as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_bit_comes_back(pairs in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..50)) {
            let samples: Vec<f32> = pairs.iter().map(|(bits, _)| f32::from_bits(*bits)).collect();
            let mut restored: Vec<f32> = pairs.iter().map(|(_, bits)| f32::from_bits(*bits)).collect();
            decode(&encode(&samples, &restored), &mut restored);
            let bits = |all: &[f32]| all.iter().map(|sample| sample.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&samples), bits(&restored));
        }

        #[test]
        fn integers_of_one_byte_too(pairs in proptest::collection::vec((any::<i8>(), any::<i8>()), 0..50)) {
            let (samples, mut restored): (Vec<i8>, Vec<i8>) = pairs.into_iter().unzip();
            decode(&encode(&samples, &restored), &mut restored);
            prop_assert_eq!(samples, restored);
        }
    }
}
