//! Uniform decimation: levels of every d-th sample, and residuals sorted by magnitude.
//!
//! Source: "io-variation" paper, section III-B, equations (1) to (4): level `l` keeps every `d^l`-th element of the
//! linearised array, beginning with the first; an augmentation is the difference between the next finer level and the
//! straight lines between the samples of the coarser one, as a reader of everything before restores them. Residuals of
//! largest magnitude come first, so a part of an augmentation corrects most: four neighbours at a time, in eight steps of
//! magnitude an octave. Neighbours that lie on the line have none. Every operation rounds by IEEE 754, so results are the
//! same bit for bit everywhere.

use crate::codec::{bytes_of, Coded, Progress, Segment, TileCodec};
use crate::judge::{Errors, Measuring};
use crate::lines::Lines;
use crate::pieces::Pieces;
use crate::records;
use crate::residuals::{Augmentation, Level, Proof};
use crate::sample::{put_all, DataType, Sample};
use std::borrow::Cow;

/// The codec: layer 0 is the coarsest level, layer 1 its augmentation, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimate {
    /// Decimation ratios of levels 1 to k; each is a multiple of the one before.
    pub ratios: Vec<usize>,
    /// The layout of augmentations.
    pub layout: Layout,
}

/// The layout of an augmentation of [`Decimate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Groups of four neighbours in buckets of magnitude.
    Buckets,
    /// Single residuals with their positions, sorted: read, and not written any more.
    Sorted,
}

impl Decimate {
    /// Ratios for a base of about `base_bytes`: three levels, as the paper has.
    pub fn for_base(array_bytes: usize, base_bytes: usize) -> Self {
        let octaves =
            array_bytes.div_ceil(base_bytes.max(1)).next_power_of_two().trailing_zeros().clamp(1, 40);
        match octaves {
            1 => Self::new(vec![2]),
            _ => Self::new(vec![1 << octaves.div_ceil(2), 1 << octaves]),
        }
    }

    /// The codec of these ratios.
    pub fn new(ratios: Vec<usize>) -> Self {
        Self { ratios, layout: Layout::Buckets }
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

    /// Ratio of each level and step to the next coarser one, finest first.
    fn steps(&self) -> Vec<(usize, usize)> {
        let mut before = 1;
        let step = |ratio: &usize| {
            let own = std::mem::replace(&mut before, *ratio);
            (own, ratio / own)
        };
        self.ratios.iter().map(step).collect()
    }
}

impl<T: Sample> TileCodec<T> for Decimate {
    fn encode<'a>(
        &self,
        samples: Cow<'a, [T]>,
        _shape: [usize; 4],
        threads: usize,
        measuring: &Measuring<'_, T>,
    ) -> Coded<'a>
    where
        T: 'a,
    {
        let steps = self.steps();
        let length = samples.len();
        let coarsest = self.ratios.last().copied().unwrap_or(1);
        let mut coarse: Vec<T> = samples.iter().copied().step_by(coarsest).collect();
        let mut base = vec![0; coarse.len() * T::KIND.bytes()];
        put_all(&coarse, &mut base);
        let base_bytes = base.len();
        let mut segments = vec![Segment { layer: 0, bytes: base }];
        let mut proofs = Vec::new();
        for (layer, (ratio, step)) in (1..).zip(steps.iter().skip(1).rev()) {
            let own = Level {
                samples: Cow::Borrowed(samples.as_ref()),
                ratio: *ratio,
                coarse,
                step: *step,
                scale: measuring.unit,
            };
            let augmentation = Augmentation::new(own, threads);
            let bytes = bytes_of(&augmentation, threads);
            let mut finer = vec![T::default(); length.div_ceil(*ratio)];
            augmentation.lines().prolong(threads, &mut finer, &Pieces::from(bytes.as_slice()));
            proofs.push(augmentation.proof());
            segments.push(Segment { layer, bytes });
            coarse = finer;
        }
        let Some((ratio, step)) = steps.first().copied() else { return Coded::default() };
        let finest =
            Augmentation::new(Level { samples, ratio, coarse, step, scale: measuring.unit }, threads);
        proofs.push(finest.proof());
        let progress = progress::<T>(&proofs, &steps, length, base_bytes);
        Coded { segments, deferred: Some(Box::new(finest)), progress }
    }

    fn decode(&self, _shape: [usize; 4], segments: &[Pieces<'_>], threads: usize, samples: &mut [T]) {
        let steps = self.steps();
        let Some(((_, finest), coarser)) = steps.split_first() else { return };
        let prolong = |coarse: &[T], step: usize, level: &mut [T], bytes: &Pieces<'_>| {
            let lines = Lines { coarse, step };
            match self.layout {
                Layout::Buckets => lines.prolong(threads, level, bytes),
                Layout::Sorted => {
                    lines.prolong(threads, level, &Pieces::default());
                    records::correct(level, &bytes.joined());
                }
            }
        };
        let coarsest = self.ratios.last().map_or(0, |ratio| samples.len().div_ceil(*ratio));
        let base = segments.first().map(Pieces::joined).unwrap_or_default();
        let mut level: Vec<T> = base.chunks_exact(T::KIND.bytes()).take(coarsest).map(T::take).collect();
        let last = level.last().copied().unwrap_or_default();
        level.resize(coarsest, if last.is_finite() { last } else { T::default() });
        let nothing = Pieces::default();
        let mut augmentations = segments.iter().skip(1).chain(std::iter::repeat(&nothing));
        for ((ratio, step), bytes) in coarser.iter().rev().zip(&mut augmentations) {
            let mut finer = vec![T::default(); samples.len().div_ceil(*ratio)];
            prolong(&level, *step, &mut finer, bytes);
            level = finer;
        }
        augmentations.take(1).for_each(|bytes| prolong(&level, *finest, samples, bytes));
    }
}

/// The errors while augmentations are read, coarsest first.
///
/// The errors of the finest level are its residuals. A residual of a coarser level that is not applied yet is spread over the
/// finer levels by straight lines: at no sample by more than itself, and in squares by no more than its ratio, since
/// weights are convex. So the error is at most the sum of these and of the error that all of the level leaves, in the root
/// of the squares (Minkowski's inequality) as in the largest.
fn progress<T: Sample>(
    augmentations: &[Proof],
    steps: &[(usize, usize)],
    samples: usize,
    base_bytes: usize,
) -> Vec<Progress> {
    let Some(finest) = augmentations.last() else { return Vec::new() };
    let mut layers: Vec<Vec<Progress>> = Vec::new();
    // The error that is left when all of a layer is applied.
    let mut after = finest.rounding;
    for (augmentation, (number, (ratio, _))) in augmentations.iter().rev().zip(steps.iter().enumerate()) {
        let layer = (augmentations.len() - number) as u16;
        let spread = |left: Errors| match number {
            0 => left.and(after),
            _ if left.largest == 0.0 => after,
            _ => {
                let rounding = interpolation_rounding::<T>(finest.nothing.largest, number);
                let squares = *ratio as f64 * (left.squares + left.largest * left.largest);
                let root = after.squares.sqrt() + squares.sqrt() + rounding * (samples as f64).sqrt();
                Errors { squares: root * root, largest: after.largest + left.largest + rounding }
            }
        };
        let measured = number == 0;
        let point = |bytes, errors| Progress { layer, bytes, errors, measured };
        let mut left = Errors::default();
        let mut own = vec![point(augmentation.length, after)];
        for group in augmentation.groups.iter().rev() {
            left = left.and(group.errors);
            let errors = spread(left);
            // Records of a group are in no order of magnitude: all of it must be there.
            let end = own.last().map_or(0, |next| next.bytes);
            own.extend([point(end.saturating_sub(1).max(group.start), errors), point(group.start, errors)]);
        }
        own.reverse();
        after = spread(left);
        layers.push(own);
    }
    let point = |bytes, errors| Progress { layer: 0, bytes, errors, measured: false };
    let nothing = finest.nothing;
    let base = [(0, nothing), (base_bytes.saturating_sub(1), nothing), (base_bytes, after)];
    layers.push(base.map(|(bytes, errors)| point(bytes, errors)).into());
    layers.into_iter().rev().flatten().collect()
}

/// The most that the rounding of straight lines through so many finer levels adds, where samples are of this magnitude:
/// products, sums and weights are off by half a last bit each, on the way of either estimate.
fn interpolation_rounding<T: Sample>(magnitude: f64, levels: usize) -> f64 {
    match T::KIND {
        DataType::Float32 => (4 * levels + 2) as f64 * f64::from(f32::EPSILON) * magnitude,
        DataType::Float64 => (4 * levels + 2) as f64 * f64::EPSILON * magnitude,
        // Each level is rounded down.
        _ => levels as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fills::Apart;
    use crate::judge::Original;
    use crate::ordinary::Ordinary;

    fn coded<T: Sample>(codec: &Decimate, samples: &[T]) -> Vec<Segment> {
        let judge = Original { samples, taken: Some(Ordinary::FINITE), scale: 1.0, apart: &Apart::default() };
        let measuring = Measuring { judge: &judge, unit: 1.0, base_bytes: 0, is_alone: true };
        let mut coded = codec.encode(Cow::Borrowed(samples), [1, 1, 1, samples.len()], 2, &measuring);
        coded.complete(2);
        coded.segments
    }

    fn restored<T: Sample>(codec: &Decimate, samples: &[T], layers: usize) -> Vec<T> {
        let segments = coded(codec, samples);
        let bytes: Vec<Pieces<'_>> =
            segments.iter().take(layers).map(|segment| Pieces::from(segment.bytes.as_slice())).collect();
        let mut restored = vec![T::default(); samples.len()];
        codec.decode([1, 1, 1, samples.len()], &bytes, 2, &mut restored);
        restored
    }

    #[test]
    fn the_example_of_figure_5() {
        let codec = Decimate::new(vec![4]);
        let samples = [8.0_f32, 1.0, 7.0, 2.0, 16.0];
        assert_eq!(restored(&codec, &samples, 1), [8.0, 10.0, 12.0, 14.0, 16.0]);
        let segments = coded(&codec, &samples);
        // One group of one record: window 0, record 0, and the residuals of the paper.
        let (head, residuals) = segments[1].bytes.split_at(4);
        assert_eq!(head, [0, 1, 0, 0]);
        let residuals: Vec<f32> = residuals.chunks_exact(4).map(f32::take).collect();
        assert_eq!(residuals, [0.0, -9.0, -5.0, -12.0]);
        assert_eq!(restored(&codec, &samples, 2), samples);
    }

    #[test]
    fn augmentations_of_version_3_are_applied() {
        let codec = Decimate { layout: Layout::Sorted, ..Decimate::new(vec![4]) };
        let base: Vec<u8> = [8.0_f32, 16.0].iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let record =
            |(position, residual): (u32, f32)| [position.to_le_bytes(), residual.to_le_bytes()].concat();
        let records: Vec<u8> =
            [(3, -12.0), (1, -9.0), (9, 5.0), (2, -5.0)].into_iter().flat_map(record).collect();
        let mut restored = [0.0_f32; 5];
        codec.decode([1, 1, 1, 5], &[base.as_slice().into(), records.as_slice().into()], 2, &mut restored);
        assert_eq!(restored, [8.0, 1.0, 7.0, 2.0, 16.0]);
        codec.decode([1, 1, 1, 5], &[base.as_slice().into(), records[..17].into()], 2, &mut restored);
        assert_eq!(restored, [8.0, 1.0, 12.0, 2.0, 16.0]);
    }

    #[test]
    fn integers_and_numbers_that_are_none_come_back() {
        let codec = Decimate::new(vec![2, 8]);
        let integers: Vec<i64> = (0..100).map(|n: i64| (n * 7919 % 31 - 15) * (i64::MAX / 16)).collect();
        assert_eq!(restored(&codec, &integers, 3), integers);
        let floats = [0.0, f64::NAN, 1.0, f64::INFINITY, 2.0, f64::NEG_INFINITY, 5e-324, 3.0, f64::NAN, 4.0];
        let back = restored(&codec, &floats, 3);
        assert!(floats.iter().zip(&back).all(|(one, other)| one.distance(*other) == 0.0), "{back:?}");
    }

    #[test]
    fn a_ratio_may_be_larger_than_the_array() {
        let codec = Decimate::new(vec![3, 3 << 60]);
        let samples = [8.0_f32, 1.0, 7.0, 2.0, 16.0];
        assert_eq!(restored(&codec, &samples, 1), [8.0; 5]);
        assert_eq!(restored(&codec, &samples, 3), samples);
    }

    #[test]
    fn ratios_follow_from_the_size_of_the_base() {
        assert_eq!(Decimate::for_base(1 << 20, 1 << 13).ratios, [16, 128]);
        assert_eq!(Decimate::for_base(100, 60).ratios, [2]);
        assert!(!Decimate::new(vec![4, 6]).is_sound());
        assert!(!Decimate::new(vec![]).is_sound());
        assert!(Decimate::new(vec![2, 4, 512]).is_sound());
    }
}
