//! The last residual: the difference between the bits of the samples and of those restored, by zstd.
//!
//! Bits count as integers, whose differences are small where samples are near. They are stored digit by digit, the lowest
//! digits of all samples first, since the high ones are mostly zero. Digits of two bits, four in a byte, let zstd spend less
//! than a bit on a difference.

use crate::bytes::{unzigzag, zigzag};
use crate::escape::decompressed;
use crate::sample::Sample;

const LEVEL: i32 = 3;

/// The digits that differences are stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digits {
    /// A digit is a whole byte, in containers of version 4 and before.
    Bytes,
    /// A digit has two bits; the first sample's are the lowest in a byte.
    Pairs,
}

impl Digits {
    fn bits(self) -> usize {
        match self {
            Self::Bytes => 8,
            Self::Pairs => 2,
        }
    }

    fn in_byte(self) -> usize {
        8 / self.bits()
    }
}

/// The residual, empty if nothing differs.
pub(crate) fn encode<T: Sample>(samples: &[T], restored: &[T], digits: Digits) -> Vec<u8> {
    let bytes = T::KIND.bytes();
    let differences: Vec<u64> =
        samples.iter().zip(restored).map(|(one, other)| folded(bits(*one), bits(*other), bytes)).collect();
    if differences.iter().all(|difference| *difference == 0) {
        return Vec::new();
    }
    let mask = (1 << digits.bits()) - 1;
    let mut plain = Vec::with_capacity(plain_bytes(samples.len(), bytes, digits));
    for shift in (0..8 * bytes).step_by(digits.bits()) {
        plain.extend(differences.chunks(digits.in_byte()).map(|differences| {
            let digit =
                |(place, difference): (usize, &u64)| (difference >> shift & mask) << (place * digits.bits());
            differences.iter().enumerate().map(digit).sum::<u64>() as u8
        }));
    }
    zstd::bulk::compress(&plain, LEVEL).unwrap_or_default()
}

/// Corrects restored samples.
pub(crate) fn decode<T: Sample>(residual: &[u8], restored: &mut [T], digits: Digits) {
    let bytes = T::KIND.bytes();
    if residual.is_empty() {
        return;
    }
    let length = plain_bytes(restored.len(), bytes, digits);
    let Some(plain) = decompressed(residual, length).filter(|plain| plain.len() == length) else { return };
    let row = restored.len().div_ceil(digits.in_byte());
    let mask = (1 << digits.bits()) - 1;
    for (index, sample) in restored.iter_mut().enumerate() {
        let (byte, within) = (index / digits.in_byte(), index % digits.in_byte() * digits.bits());
        let digit = |number: usize| u64::from(plain[number * row + byte]) >> within & mask;
        let numbers = 0..8 * bytes / digits.bits();
        let difference = numbers.fold(0, |sum, number| sum | digit(number) << (number * digits.bits()));
        *sample = from_bits(unfolded(difference, bits(*sample), bytes));
    }
}

/// Bytes of the digits of so many samples.
fn plain_bytes(samples: usize, sample_bytes: usize, digits: Digits) -> usize {
    samples.div_ceil(digits.in_byte()) * (8 * sample_bytes / digits.bits())
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
    zigzag(difference) & (u64::MAX >> unused)
}

fn unfolded(folded: u64, other: u64, bytes: usize) -> u64 {
    other.wrapping_add(unzigzag(folded) as u64) & (u64::MAX >> (64 - 8 * bytes as u32))
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
            let before = restored.clone();
            for digits in [Digits::Bytes, Digits::Pairs] {
                restored.clone_from(&before);
                decode(&encode(&samples, &restored, digits), &mut restored, digits);
                let bits = |all: &[f32]| all.iter().map(|sample| sample.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(bits(&samples), bits(&restored));
            }
        }

        #[test]
        fn integers_of_one_byte_too(pairs in proptest::collection::vec((any::<i8>(), any::<i8>()), 0..50)) {
            let (samples, mut restored): (Vec<i8>, Vec<i8>) = pairs.into_iter().unzip();
            decode(&encode(&samples, &restored, Digits::Pairs), &mut restored, Digits::Pairs);
            prop_assert_eq!(samples, restored);
        }
    }
}
