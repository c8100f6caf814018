//! Uniform decimation: levels of every d-th sample, and residuals sorted by magnitude.
//!
//! Source: "io-variation" paper, section III-B, equations (1) to (4): level `l` keeps every `d^l`-th element of the
//! linearised array, beginning with the first; an augmentation is the difference between the next finer level and the
//! straight lines between the samples of the coarser one, as a reader of everything before restores them. Residuals of
//! largest magnitude come first, so a part of an augmentation corrects most. Samples that lie on the line have none.
//! Every operation rounds by IEEE 754, so results are the same bit for bit everywhere.

use crate::codec::{Coded, Progress, Segment, TileCodec};
use crate::judge::{judged, Errors, Judge, Measuring};
use crate::lines::{for_each_piece, prolong, runs};
use crate::parallel;
use crate::residuals::{sorted_records, Augmentation, Record};
use crate::sample::Sample;

/// The codec: layer 0 is the coarsest level, layer 1 its augmentation, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimate {
    /// Decimation ratios of levels 1 to k; each is a multiple of the one before.
    pub ratios: Vec<usize>,
}

/// The factor by which derived squares of coarser levels are raised.
const COARSE_MARGIN: f64 = 1.35;
/// Corrections of a coarser level may raise the squares for a while by this factor.
const RISE_MAX: f64 = 1.05;

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
    fn encode(
        &self,
        samples: &[T],
        _shape: [usize; 4],
        threads: usize,
        measuring: &Measuring<'_, T>,
    ) -> Coded {
        let steps = self.steps();
        let coarsest = self.ratios.last().copied().unwrap_or(1);
        let mut level: Vec<T> = samples.iter().copied().step_by(coarsest).collect();
        let mut base = vec![0; level.len() * T::KIND.bytes()];
        for (sample, bytes) in level.iter().zip(base.chunks_exact_mut(T::KIND.bytes())) {
            sample.put(bytes);
        }
        let judge = measuring.judge;
        let nothing = judged(judge, samples.len(), |range, piece| piece.resize(range.len(), T::default()));
        let mut known = left_by(&level, &steps, samples.len(), threads, judge);
        let mut progress = vec![Progress { layer: 0, bytes: 0, errors: nothing, measured: true }];
        progress.push(Progress { bytes: base.len().saturating_sub(1), ..progress[0] });
        progress.push(Progress { layer: 0, bytes: base.len(), errors: known, measured: true });
        let mut segments = vec![Segment { layer: 0, bytes: base }];
        for (number, (ratio, step)) in steps.iter().enumerate().rev() {
            let layer = (self.ratios.len() - number) as u16;
            let augmentation = sorted_records(samples, *ratio, &level, *step, threads);
            // On the finest level, the residuals that are not applied are the error, but for the rounding error.
            let (after, exact) = match number {
                0 => (augmentation.rounding, true),
                _ => {
                    level = finer(&level, samples.len().div_ceil(*ratio), *step, threads);
                    correct(&mut level, &augmentation.bytes);
                    (left_by(&level, &steps[..number], samples.len(), threads, judge), false)
                }
            };
            append_progress(&augmentation, layer, (known, after), exact, &mut progress);
            segments.push(Segment { layer, bytes: augmentation.bytes });
            known = after;
        }
        Coded { segments, progress }
    }

    fn decode(&self, _shape: [usize; 4], segments: &[&[u8]], threads: usize, samples: &mut [T]) {
        let steps = self.steps();
        let Some(((_, finest), coarser)) = steps.split_first() else { return };
        let coarsest = self.ratios.last().map_or(0, |ratio| samples.len().div_ceil(*ratio));
        let base = segments.first().copied().unwrap_or_default();
        let mut level: Vec<T> = base.chunks_exact(T::KIND.bytes()).take(coarsest).map(T::take).collect();
        let last = level.last().copied().unwrap_or_default();
        level.resize(coarsest, if last.is_finite() { last } else { T::default() });
        let mut augmentations = segments.iter().skip(1).copied().chain(std::iter::repeat(&[][..]));
        for ((ratio, step), records) in coarser.iter().rev().zip(&mut augmentations) {
            level = finer(&level, samples.len().div_ceil(*ratio), *step, threads);
            correct(&mut level, records);
        }
        prolong(&level, *finest, threads, samples);
        augmentations.take(1).for_each(|records| correct(samples, records));
    }
}

/// The errors of the samples that straight lines give, from a level down to the finest.
fn left_by<T: Sample>(
    level: &[T],
    steps: &[(usize, usize)],
    samples: usize,
    threads: usize,
    judge: &dyn Judge<T>,
) -> Errors {
    let Some(((_, finest), coarser)) = steps.split_first() else { return Errors::default() };
    let mut level = std::borrow::Cow::Borrowed(level);
    for (ratio, step) in coarser.iter().rev() {
        level = finer(&level, samples.div_ceil(*ratio), *step, threads).into();
    }
    let runs = runs(samples, *finest);
    let errors = parallel::map(runs.len(), threads, |run| {
        let mut errors = Errors::default();
        for_each_piece(&level, runs[run].clone(), *finest, |start, piece| {
            errors = errors.and(judge.errors(start, piece));
        });
        errors
    });
    errors.into_iter().fold(Errors::default(), Errors::and)
}

/// Appends the error that is left while an augmentation is read whose beginning and end leave these errors. The errors
/// of a coarser level's samples reach the finest by straight lines: in squares, by a factor that beginning and end
/// give.
fn append_progress(
    augmentation: &Augmentation,
    layer: u16,
    (before, after): (Errors, Errors),
    exact: bool,
    progress: &mut Vec<Progress>,
) {
    let all = augmentation.marks.first().map_or(0.0, |mark| mark.left.squares);
    let factor =
        if all > 0.0 { COARSE_MARGIN * (before.squares - after.squares).max(0.0) / all } else { 0.0 };
    for mark in &augmentation.marks {
        let squares = match exact {
            true => after.squares + mark.left.squares,
            false => (RISE_MAX * after.squares + factor * mark.left.squares)
                .min(RISE_MAX * before.squares.max(after.squares)),
        };
        let errors = Errors { squares, largest: after.largest + mark.left.largest };
        // A record counts when all of its bytes are there.
        let bytes = ((mark.records + 1) * augmentation.record_bytes).min(augmentation.bytes.len()) - 1;
        progress.push(Progress { layer, bytes, errors, measured: exact });
    }
    progress.push(Progress { layer, bytes: augmentation.bytes.len(), errors: after, measured: true });
}

/// Equations (3) and (4): add the residuals that are there to the estimate.
fn correct<T: Sample>(level: &mut [T], records: &[u8]) {
    let record = Record::new(level.len());
    for bytes in records.chunks_exact(record.bytes::<T>()) {
        let (index, residual) = record.take::<T>(bytes);
        if let Some(sample) = level.get_mut(index) {
            *sample = sample.plus(residual);
        }
    }
}

/// The next finer level, without corrections.
fn finer<T: Sample>(coarse: &[T], length: usize, step: usize, threads: usize) -> Vec<T> {
    let mut level = vec![T::default(); length];
    prolong(coarse, step, threads, &mut level);
    level
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Original;
    use crate::ordinary::Ordinary;

    fn coded<T: Sample>(codec: &Decimate, samples: &[T]) -> Coded {
        let judge = Original { samples, taken: Some(Ordinary::FINITE) };
        codec.encode(
            samples,
            [1, 1, 1, samples.len()],
            2,
            &Measuring { judge: &judge, unit: 1.0, base_bytes: 0 },
        )
    }

    fn restored<T: Sample>(codec: &Decimate, samples: &[T], layers: usize) -> Vec<T> {
        let segments = coded(codec, samples).segments;
        let bytes: Vec<&[u8]> =
            segments.iter().take(layers).map(|segment| segment.bytes.as_slice()).collect();
        let mut restored = vec![T::default(); samples.len()];
        codec.decode([1, 1, 1, samples.len()], &bytes, 2, &mut restored);
        restored
    }

    #[test]
    fn the_example_of_figure_5() {
        let codec = Decimate { ratios: vec![4] };
        let samples = [8.0_f32, 1.0, 7.0, 2.0, 16.0];
        assert_eq!(restored(&codec, &samples, 1), [8.0, 10.0, 12.0, 14.0, 16.0]);
        let segments = coded(&codec, &samples).segments;
        let residuals: Vec<(usize, f32)> =
            segments[1].bytes.chunks_exact(8).map(|bytes| Record::new(5).take(bytes)).collect();
        assert_eq!(residuals, [(3, -12.0), (1, -9.0), (2, -5.0)]);
        assert_eq!(restored(&codec, &samples, 2), samples);
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
    fn a_ratio_may_be_larger_than_the_array() {
        let codec = Decimate { ratios: vec![3, 3 << 60] };
        let samples = [8.0_f32, 1.0, 7.0, 2.0, 16.0];
        assert_eq!(restored(&codec, &samples, 1), [8.0; 5]);
        assert_eq!(restored(&codec, &samples, 3), samples);
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
