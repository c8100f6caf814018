//! The distance of restored samples from the original.

use crate::fills::Apart;
use crate::ordinary::Ordinary;
use crate::sample::Sample;

/// Sums run in so many lanes, so that they need not wait for each other.
const LANES: usize = 8;

/// Errors of some samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// The sum of their squares.
    pub squares: f64,
    /// The largest.
    pub largest: f64,
}

impl Errors {
    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { squares: self.squares + other.squares, largest: self.largest.max(other.largest) }
    }

    /// The greater of both, each by itself.
    pub(crate) fn or(self, other: Self) -> Self {
        Self { squares: self.squares.max(other.squares), largest: self.largest.max(other.largest) }
    }

    /// The errors of one sample with this distance.
    pub(crate) fn of_one(distance: f64) -> Self {
        Self { squares: distance * distance, largest: distance }
    }

    /// The errors of samples whose distances from the original are those of `distance`.
    #[inline(always)]
    pub(crate) fn of<T: Copy>(one: &[T], other: &[T], distance: impl Fn(T, T) -> f64) -> Self {
        let (mut squares, mut largest) = ([0.0; LANES], [0.0; LANES]);
        let (ones, others) = (one.chunks_exact(LANES), other.chunks_exact(LANES));
        let rest = ones.remainder().iter().zip(others.remainder());
        for (one, other) in ones.zip(others) {
            for lane in 0..LANES {
                let distance = distance(one[lane], other[lane]);
                squares[lane] += distance * distance;
                largest[lane] = if distance > largest[lane] { distance } else { largest[lane] };
            }
        }
        let lanes = Self { squares: squares.iter().sum(), largest: largest.into_iter().fold(0.0, f64::max) };
        let all = rest.fold(lanes, |all, (one, other)| all.and(Self::of_one(distance(*one, *other))));
        // Squares that overflowed are as far as can be.
        if all.squares.is_finite() {
            all
        } else {
            Self {
                squares: f64::INFINITY,
                largest: if all.largest > 0.0 { all.largest } else { f64::INFINITY },
            }
        }
    }
}

/// Knows the original of a tile.
pub trait Judge<T>: Sync {
    /// The errors of the tile's samples from `start` on.
    fn errors(&self, start: usize, restored: &[T]) -> Errors;
}

/// A judge, and the further wishes of an encoder that chooses where it measures.
pub struct Measuring<'a, T> {
    /// The judge of the distances of samples.
    pub judge: &'a dyn Judge<T>,
    /// The judge's distance between samples of the codec that lie one apart.
    pub unit: f64,
    /// Bytes of the tile that belong to the base, about.
    pub base_bytes: usize,
    /// The tile is the whole array: no other tile's bytes stand between its own.
    pub is_alone: bool,
}

impl<T> Measuring<'_, T> {
    /// The same wishes for samples in other units, of which another judge knows the distances.
    pub(crate) fn converted<'b, S>(&self, judge: &'b dyn Judge<S>, unit: f64) -> Measuring<'b, S> {
        Measuring { judge, unit, base_bytes: self.base_bytes, is_alone: self.is_alone }
    }
}

/// Judges by the samples themselves.
pub(crate) struct Original<'a, T> {
    pub(crate) samples: &'a [T],
    /// The samples that the codec takes, where it does not take all of them. The others are restored by other means.
    pub(crate) taken: Option<Ordinary>,
    /// The power of two that distances are multiplied by: squares of very small or large ones are no doubles.
    pub(crate) scale: f64,
    /// The reader's values in place of estimates that are fill values.
    pub(crate) apart: &'a Apart<T>,
}

impl<T: Sample> Judge<T> for Original<'_, T> {
    fn errors(&self, start: usize, restored: &[T]) -> Errors {
        let apart: Vec<T>;
        let restored = if self.apart.is_empty() {
            restored
        } else {
            apart = restored.iter().map(|sample| self.apart.of(*sample)).collect();
            &apart
        };
        let own = &self.samples[start..start + restored.len()];
        let distance = |one: T, other: T| match T::KIND.is_float() {
            true => (one.to_f64() - other.to_f64()).abs(),
            false => one.distance(other),
        };
        let taken = |one: T, other: T| match self.taken {
            Some(taken) if !taken.holds(one) => 0.0,
            _ => distance(one, other),
        };
        match self.taken {
            _ if self.scale != 1.0 => {
                Errors::of(own, restored, |one, other| scaled_up(taken(one, other), self.scale))
            }
            None => Errors::of(own, restored, distance),
            Some(_) => Errors::of(own, restored, taken),
        }
    }
}

/// A distance in the judge's units; never 0 for one that is not.
#[inline]
pub(crate) fn scaled_up(distance: f64, scale: f64) -> f64 {
    let scaled = distance * scale;
    if distance > 0.0 && scaled < f64::MIN_POSITIVE {
        f64::MIN_POSITIVE
    } else {
        scaled
    }
}

/// Judges samples that another judge knows in other units.
pub(crate) struct Converted<'a, T, F> {
    pub(crate) judge: &'a dyn Judge<T>,
    pub(crate) convert: F,
}

impl<S: Copy, T, F: Fn(S) -> T + Sync> Judge<S> for Converted<'_, T, F> {
    fn errors(&self, start: usize, restored: &[S]) -> Errors {
        let converted: Vec<T> = restored.iter().map(|sample| (self.convert)(*sample)).collect();
        self.judge.errors(start, &converted)
    }
}

/// Samples that are restored and judged at a time: they stay in the first-level cache.
const PIECE_SAMPLES: usize = 2048;

/// The errors of `count` samples, of which `restore` appends a range.
#[inline(always)]
pub(crate) fn judged<T>(
    judge: &dyn Judge<T>,
    count: usize,
    mut restore: impl FnMut(std::ops::Range<usize>, &mut Vec<T>),
) -> Errors {
    let mut piece = Vec::with_capacity(PIECE_SAMPLES);
    let mut errors = Errors::default();
    for start in (0..count).step_by(PIECE_SAMPLES) {
        piece.clear();
        restore(start..(start + PIECE_SAMPLES).min(count), &mut piece);
        errors = errors.and(judge.errors(start, &piece));
    }
    errors
}
