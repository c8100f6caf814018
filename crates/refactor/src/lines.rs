//! A level of decimation as straight lines between the samples of the coarser one: `Estimate` of the paper. Behind the last
//! of these it stays as it is.

use crate::parallel;
use crate::sample::Sample;
use std::ops::Range;

/// A level has so many runs at most.
const RUNS_MAX: usize = 64;
/// A run has so many samples at least, and then some until its last line ends.
const RUN_SAMPLES_MIN: usize = 1 << 18;
/// Estimates that are made at a time: they stay in the first-level cache.
const PIECE_SAMPLES: usize = 2048;

/// Runs of a level: whole lines, the same for any number of threads.
pub(crate) fn runs(length: usize, step: usize) -> Vec<Range<usize>> {
    let run = (length / RUNS_MAX).max(RUN_SAMPLES_MIN).div_ceil(step).saturating_mul(step);
    (0..length).step_by(run).map(|start| start..start.saturating_add(run).min(length)).collect()
}

/// Call `work` with pieces of a run of a level, as straight lines between samples of the coarser level give them: where
/// each begins, and its samples.
#[inline(always)]
pub(crate) fn for_each_piece<T: Sample>(
    coarse: &[T],
    run: Range<usize>,
    step: usize,
    mut work: impl FnMut(usize, &[T]),
) {
    let mut piece = vec![T::default(); piece_length(step).min(run.len())];
    for start in run.clone().step_by(piece_length(step)) {
        let count = piece.len().min(run.end - start);
        lines(coarse, start, step, &mut piece[..count]);
        work(start, &piece[..count]);
    }
}

/// Whole lines.
fn piece_length(step: usize) -> usize {
    (PIECE_SAMPLES / step).max(1).saturating_mul(step)
}

/// Set a level to the estimate from the coarser one, of which it has `step` times the samples.
pub(crate) fn prolong<T: Sample>(coarse: &[T], step: usize, threads: usize, level: &mut [T]) {
    let length = piece_length(step);
    let pieces = level.chunks_mut(length).enumerate().collect();
    parallel::for_each(pieces, threads, |(number, piece)| lines(coarse, number * length, step, piece));
}

/// The samples from `start` on, at which a line begins.
#[inline(always)]
fn lines<T: Sample>(coarse: &[T], start: usize, step: usize, samples: &mut [T]) {
    for (index, line) in (start / step..).zip(samples.chunks_mut(step)) {
        let left = coarse[index];
        let right = coarse.get(index + 1).copied().unwrap_or(left);
        for (position, estimate) in line.iter_mut().enumerate() {
            *estimate = T::interpolate(left, right, position, step);
        }
        line[0] = left;
    }
}
