//! Samples to offsets from their centre, and back: all that is compiled for each kind of samples. The transform, the planes
//! and the coder are compiled for the kinds of offsets alone.

use super::number::Number;
use super::words::{dispatch, Kernel, Words};
use crate::codec::Progress;
use crate::judge::{judged, Errors, Judge};
use crate::sample::DataType;

/// The distances of a tile's samples from their centre.
#[derive(Debug, PartialEq)]
pub(super) enum Offsets {
    Whole(Vec<i64>),
    Single(Vec<f32>),
    Double(Vec<f64>),
}

/// The least and the most of the samples, of which there is at least one.
#[inline(always)]
pub(super) fn range<T: Number>(samples: &[T]) -> (T, T) {
    samples.iter().fold((samples[0], samples[0]), |(least, most), &sample| {
        (if sample < least { sample } else { least }, if sample > most { sample } else { most })
    })
}

/// [`range`], by the processor's own instructions.
pub(super) fn ends<T: Number>(samples: &[T]) -> (T, T) {
    dispatch(Ends(samples))
}

struct Ends<'a, T>(&'a [T]);

impl<T: Number> Kernel for Ends<'_, T> {
    type Output = (T, T);

    #[inline(always)]
    fn run<W: Words>(self, _words: W) -> (T, T) {
        range(self.0)
    }
}

/// The offsets that `convert` makes of samples.
pub(super) fn converted<T: Number, C: Copy + Default>(samples: &[T], convert: impl Fn(T) -> C) -> Vec<C> {
    let mut offsets = vec![C::default(); samples.len()];
    convert_to(samples, &mut offsets, convert);
    offsets
}

/// Sets numbers to what `convert` makes of others.
pub(super) fn convert_to<S: Copy, T>(from: &[S], to: &mut [T], convert: impl Fn(S) -> T) {
    dispatch(Converting { from, to, convert });
}

struct Converting<'a, S, T, F> {
    from: &'a [S],
    to: &'a mut [T],
    convert: F,
}

impl<S: Copy, T, F: Fn(S) -> T> Kernel for Converting<'_, S, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self, _words: W) {
        let Self { from, to, convert } = self;
        to.iter_mut().zip(from).for_each(|(own, number)| *own = convert(*number));
    }
}

/// A tile that knows how far estimates of its samples are off.
pub(super) trait Original {
    /// The errors of whole offsets.
    fn whole(&self, offsets: &[i64]) -> Errors;

    /// The errors of offsets in units of `step`.
    fn single(&self, offsets: &[f32], step: f64) -> Errors;

    /// The errors of offsets in units of `step`.
    fn double(&self, offsets: &[f64], step: f64) -> Errors;

    /// The part that rounding to the kind of the samples adds to errors that are not much smaller than their last bit.
    fn rounding(&self) -> Errors;

    /// The error that is left of an unknown tile, and of a tile whose head is known.
    fn beginning(&self, head_bytes: usize) -> Vec<Progress>;
}

/// The samples of a tile and their judge.
pub(super) struct Tile<'a, T> {
    pub(super) samples: &'a [T],
    pub(super) judge: &'a dyn Judge<T>,
    /// The judge's distance between samples that lie one apart.
    pub(super) unit: f64,
    /// Bits of the value that was subtracted from all samples: of a double or an integer.
    pub(super) centre: u64,
    pub(super) wrapping: bool,
}

impl<T: Number> Tile<'_, T> {
    fn errors<C: Copy>(&self, offsets: &[C], sample: impl Fn(C) -> T) -> Errors {
        dispatch(Judging { judge: self.judge, offsets, sample })
    }
}

impl<T: Number> Original for Tile<'_, T> {
    fn whole(&self, offsets: &[i64]) -> Errors {
        self.errors(offsets, |offset| T::uncentred(offset, self.centre as i64, self.wrapping))
    }

    fn single(&self, offsets: &[f32], step: f64) -> Errors {
        let centre = f64::from_bits(self.centre);
        self.errors(offsets, |offset| T::from_f64(f64::from(offset) * step + centre).bounded())
    }

    fn double(&self, offsets: &[f64], step: f64) -> Errors {
        let centre = f64::from_bits(self.centre);
        self.errors(offsets, |offset| T::from_f64(offset * step + centre).bounded())
    }

    fn rounding(&self) -> Errors {
        let last_bit = match T::KIND {
            DataType::Float32 => f64::from(f32::EPSILON),
            DataType::Float64 => f64::EPSILON,
            _ => return Errors::default(),
        };
        let all = dispatch(Powers(self.samples));
        let unit = self.unit * last_bit;
        Errors { squares: all.squares * unit * unit / 12.0, largest: all.largest * unit / 2.0 }
    }

    fn beginning(&self, head_bytes: usize) -> Vec<Progress> {
        let centre = match T::INTEGER {
            true => T::uncentred(0, self.centre as i64, true),
            false => T::from_f64(f64::from_bits(self.centre)),
        };
        let errors = |value: T| {
            judged(self.judge, self.samples.len(), |range, piece| piece.resize(range.len(), value))
        };
        let nothing = errors(T::default());
        let head = |bytes, errors| Progress { layer: 0, bytes, errors, measured: true };
        vec![head(0, nothing), head(head_bytes.saturating_sub(1), nothing), head(head_bytes, errors(centre))]
    }
}

struct Judging<'a, C, T, F> {
    judge: &'a dyn Judge<T>,
    offsets: &'a [C],
    sample: F,
}

impl<C: Copy, T, F: Fn(C) -> T> Kernel for Judging<'_, C, T, F> {
    type Output = Errors;

    #[inline(always)]
    fn run<W: Words>(self, _words: W) -> Errors {
        let Self { judge, offsets, sample } = self;
        judged(judge, offsets.len(), |range, piece| {
            piece.extend(offsets[range].iter().map(|offset| sample(*offset)));
        })
    }
}

/// The powers of two below samples: the sum of their squares, and the largest.
struct Powers<'a, T>(&'a [T]);

const LANES: usize = 8;
/// The exponent bits of a double.
const EXPONENT_BITS: u64 = 0x7ff << 52;

impl<T: Number> Kernel for Powers<'_, T> {
    type Output = Errors;

    #[inline(always)]
    fn run<W: Words>(self, _words: W) -> Errors {
        let mut lanes = [Errors::default(); LANES];
        for row in self.0.chunks(LANES) {
            for (lane, sample) in lanes.iter_mut().zip(row) {
                let power = f64::from_bits(sample.to_f64().to_bits() & EXPONENT_BITS);
                lane.squares += power * power;
                lane.largest = if power > lane.largest { power } else { lane.largest };
            }
        }
        lanes.into_iter().fold(Errors::default(), Errors::and)
    }
}
