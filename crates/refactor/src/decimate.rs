//! Uniform decimation: levels of every d-th sample, and residuals sorted by magnitude.
//!
//! Source: "io-variation" paper, section III-B, equations (1) to (4): level `l` keeps every `d^l`-th element of the
//! linearised array, beginning with the first; an augmentation is what the next finer level differs from the straight
//! lines between the samples of the coarser one. Residuals of largest magnitude come first, so a part of an
//! augmentation corrects most. Samples that lie on the line have none. Every operation rounds as IEEE 754 says, so
//! results are the same bit for bit everywhere.

use crate::codec::{Segment, TileCodec};
use crate::sample::Sample;

/// The codec: layer 0 is the coarsest level, layer 1 its augmentation, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimate {
    /// Decimation ratios of levels 1 to k; each is a multiple of the one before.
    pub ratios: Vec<usize>,
}

/// Where index and residual stand in the record of one.
struct Record {
    index_bytes: usize,
}

impl Record {
    fn new(samples: usize) -> Self {
        Self { index_bytes: if u32::try_from(samples).is_ok() { 4 } else { 8 } }
    }

    fn put<T: Sample>(&self, index: usize, residual: T, bytes: &mut [u8]) {
        let (position, value) = bytes.split_at_mut(self.index_bytes);
        position.copy_from_slice(&(index as u64).to_le_bytes()[..position.len()]);
        residual.put(value);
    }

    fn take<T: Sample>(&self, bytes: &[u8]) -> (usize, T) {
        let (position, value) = bytes.split_at(self.index_bytes);
        let mut index = [0; 8];
        index[..position.len()].copy_from_slice(position);
        (usize::try_from(u64::from_le_bytes(index)).unwrap_or(usize::MAX), T::take(value))
    }
}

impl Decimate {
    /// Ratios for a base of about `base_bytes`: three levels, as the paper has.
    pub fn for_base(array_bytes: usize, base_bytes: usize) -> Self {
        let octaves =
            array_bytes.div_ceil(base_bytes.max(1)).next_power_of_two().trailing_zeros().clamp(1, 40);
        match octaves {
            1 => Self { ratios: vec![2] },
            _ => Self { ratios: vec![1 << octaves.div_ceil(2), 1 << octaves] },
        }
    }

    /// Are the ratios at least 2, and each a multiple of the one before?
    pub fn is_sound(&self) -> bool {
        let mut before = 1;
        !self.ratios.is_empty()
            && self.ratios.iter().all(|ratio| {
                let is_sound = *ratio > before && ratio % before == 0;
                before = *ratio;
                is_sound
            })
    }

    /// Ratio between each level and the next coarser one, finest first.
    fn steps(&self) -> Vec<usize> {
        let mut before = 1;
        self.ratios.iter().map(|ratio| ratio / std::mem::replace(&mut before, *ratio)).collect()
    }

    /// Lengths of levels 0 to k.
    fn level_lengths(&self, samples: usize) -> Vec<usize> {
        std::iter::once(samples).chain(self.ratios.iter().map(|ratio| samples.div_ceil(*ratio))).collect()
    }
}

impl<T: Sample> TileCodec<T> for Decimate {
    fn encode(&self, samples: &[T], _shape: [usize; 4]) -> Vec<Segment> {
        let mut level: Vec<T> = samples.to_vec();
        let mut augmentations = Vec::new();
        for step in self.steps() {
            let coarse: Vec<T> = level.iter().copied().step_by(step).collect();
            augmentations.push(augmentation(&level, &coarse, step));
            level = coarse;
        }
        let mut base = vec![0; level.len() * T::KIND.bytes()];
        for (sample, bytes) in level.iter().zip(base.chunks_exact_mut(T::KIND.bytes())) {
            sample.put(bytes);
        }
        std::iter::once(base)
            .chain(augmentations.into_iter().rev())
            .enumerate()
            .map(|(layer, bytes)| Segment { layer: layer as u16, bytes })
            .collect()
    }

    fn decode(&self, shape: [usize; 4], segments: &[&[u8]]) -> Vec<T> {
        let lengths = self.level_lengths(shape.iter().product());
        let coarsest = lengths.last().copied().unwrap_or_default();
        let base = segments.first().copied().unwrap_or_default();
        let mut level: Vec<T> = base.chunks_exact(T::KIND.bytes()).take(coarsest).map(T::take).collect();
        let last = level.last().copied().unwrap_or_default();
        level.resize(coarsest, if last.is_finite() { last } else { T::default() });
        for (number, step) in self.steps().iter().enumerate().rev() {
            level = prolong(&level, lengths[number], *step);
            let layer = self.ratios.len() - number;
            correct(&mut level, segments.get(layer).copied().unwrap_or_default());
        }
        level
    }
}

/// Equations (1) and (2): the records of one augmentation, largest magnitude first.
fn augmentation<T: Sample>(fine: &[T], coarse: &[T], step: usize) -> Vec<u8> {
    let estimate = prolong(coarse, fine.len(), step);
    let mut residuals: Vec<(u64, u64)> = Vec::new();
    for (index, (sample, estimate)) in fine.iter().zip(&estimate).enumerate() {
        if index % step != 0 && sample.distance(*estimate) != 0.0 {
            residuals.push((!sample.minus(*estimate).magnitude(), index as u64));
        }
    }
    let residuals = sorted(residuals);
    let record = Record::new(fine.len());
    let record_bytes = record.index_bytes + T::KIND.bytes();
    let mut bytes = vec![0; residuals.len() * record_bytes];
    for ((_, index), bytes) in residuals.iter().zip(bytes.chunks_exact_mut(record_bytes)) {
        let index = *index as usize;
        record.put(index, fine[index].minus(estimate[index]), bytes);
    }
    bytes
}

/// Bits of one digit when sorting: counts of all digits fit into the first-level cache.
const DIGIT_BITS: u32 = 11;

/// Pairs in rising order of their first number; those of equal ones stay in their order.
///
/// By digits, from the lowest: a comparison sort of as many pairs takes several times as long. Digits that are the same
/// in all pairs are skipped.
fn sorted(mut pairs: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let first = pairs.first().map_or(0, |(key, _)| *key);
    let varying = pairs.iter().fold(0, |bits, (key, _)| bits | (key ^ first));
    let mut other = vec![(0, 0); pairs.len()];
    for shift in (0..u64::BITS).step_by(DIGIT_BITS as usize) {
        let digit = |bits: u64| (bits >> shift) as usize & ((1 << DIGIT_BITS) - 1);
        if digit(varying) == 0 {
            continue;
        }
        let mut places = [0_usize; 1 << DIGIT_BITS];
        pairs.iter().for_each(|(key, _)| places[digit(*key)] += 1);
        let mut place = 0;
        for count in &mut places {
            place += std::mem::replace(count, place);
        }
        for pair in &pairs {
            let place = &mut places[digit(pair.0)];
            other[*place] = *pair;
            *place += 1;
        }
        std::mem::swap(&mut pairs, &mut other);
    }
    pairs
}

/// Equations (3) and (4): add the residuals that are there to the estimate.
fn correct<T: Sample>(level: &mut [T], records: &[u8]) {
    let record = Record::new(level.len());
    for bytes in records.chunks_exact(record.index_bytes + T::KIND.bytes()) {
        let (index, residual) = record.take::<T>(bytes);
        if let Some(sample) = level.get_mut(index) {
            *sample = sample.plus(residual);
        }
    }
}

/// `Estimate`: straight lines between the samples of the coarser level; behind the last one it stays as it is.
fn prolong<T: Sample>(coarse: &[T], length: usize, step: usize) -> Vec<T> {
    let mut fine = Vec::with_capacity(length);
    for (index, left) in coarse.iter().enumerate() {
        let right = coarse.get(index + 1).unwrap_or(left);
        fine.push(*left);
        let positions = 1..step.min(length - index * step);
        fine.extend(positions.map(|position| T::interpolate(*left, *right, position, step)));
    }
    fine
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn restored<T: Sample>(codec: &Decimate, samples: &[T], layers: usize) -> Vec<T> {
        let shape = [1, 1, 1, samples.len()];
        let segments = codec.encode(samples, shape);
        let bytes: Vec<&[u8]> =
            segments.iter().take(layers).map(|segment| segment.bytes.as_slice()).collect();
        codec.decode(shape, &bytes)
    }

    #[test]
    fn the_example_of_figure_5() {
        let codec = Decimate { ratios: vec![4] };
        let samples = [8.0_f32, 1.0, 7.0, 2.0, 16.0];
        assert_eq!(restored(&codec, &samples, 1), [8.0, 10.0, 12.0, 14.0, 16.0]);
        let segments = codec.encode(&samples, [1, 1, 1, 5]);
        let residuals: Vec<(usize, f32)> =
            segments[1].bytes.chunks_exact(8).map(|bytes| Record::new(5).take(bytes)).collect();
        assert_eq!(residuals, [(3, -12.0), (1, -9.0), (2, -5.0)]);
        assert_eq!(restored(&codec, &samples, 2), samples);
    }

    proptest! {
        #[test]
        fn pairs_are_sorted_as_by_comparisons(keys in proptest::collection::vec(any::<u64>(), 0..300), narrow in 0..64) {
            let pairs: Vec<(u64, u64)> =
                keys.iter().enumerate().map(|(index, key)| (key >> narrow, index as u64)).collect();
            let mut expected = pairs.clone();
            expected.sort();
            prop_assert_eq!(sorted(pairs), expected);
        }
    }

    #[test]
    fn integers_and_numbers_that_are_none_come_back() {
        let codec = Decimate { ratios: vec![2, 8] };
        let integers: Vec<i64> = (0..100).map(|n: i64| (n * 7919 % 31 - 15) * (i64::MAX / 16)).collect();
        assert_eq!(restored(&codec, &integers, 3), integers);
        let floats = [0.0, f64::NAN, 1.0, f64::INFINITY, 2.0, f64::NEG_INFINITY, 5e-324, 3.0, f64::NAN, 4.0];
        let back = restored(&codec, &floats, 3);
        assert!(floats.iter().zip(&back).all(|(one, other)| one.distance(*other) == 0.0), "{back:?}");
    }

    #[test]
    fn ratios_follow_from_the_size_of_the_base() {
        assert_eq!(Decimate::for_base(1 << 20, 1 << 13).ratios, [16, 128]);
        assert_eq!(Decimate::for_base(100, 60).ratios, [2]);
        assert!(!Decimate { ratios: vec![4, 6] }.is_sound());
        assert!(!Decimate { ratios: vec![] }.is_sound());
        assert!(Decimate { ratios: vec![2, 4, 512] }.is_sound());
    }
}
