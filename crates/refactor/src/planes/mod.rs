//! The progressive codec of one tile: wavelet transform, bit-planes, entropy coder.
//!
//! Samples less their centre are transformed along all axes (`bands`, `transform`, `lifting`) into coefficients of
//! unit gain, so that a plane of bits weighs the same in every band, and the error of the samples is that of the
//! coefficients. Bands are cut into blocks of 64 (`lattice`), a plane of a block being one word (`magnitudes`);
//! planes are coded from the top (`passes`), significance by adaptive models of four bits (`model`) and an
//! asymmetric numeral system (`rans`), everything else as it is.
//!
//! A segment is one pass of one plane of all bands, coarse bands first; any prefix decodes. The first segment (layer 0)
//! holds the centre and the highest plane. A pass of few symbols has no segment: it stands at the beginning of the next
//! one; in a tile that is the whole array, even one of many symbols. What follows a missing segment is of no use.
//!
//! Samples must be finite: one that is not yields a tile of arbitrary samples, but no panic. Doubles have 50 planes at
//! most below the largest coefficient, and none below `2^-1000`. Integers by the reversible transform are exact when
//! all planes are there.

mod bands;
mod boxes;
mod choice;
mod decode;
mod encode;
mod lattice;
mod layout;
mod lifting;
mod magnitudes;
mod measure;
mod model;
mod number;
mod offsets;
mod passes;
mod rans;
mod squares;
mod steps;
#[cfg(test)]
mod tests;
mod transform;
mod words;

use crate::codec::{Coded, Segment, TileCodec};
use crate::judge::{Converted, Measuring};
use crate::pieces::Pieces;
pub(crate) use choice::Choosing;
pub use model::Learning;
pub(crate) use number::scaled;
pub use number::Number;
use std::borrow::Cow;
pub(crate) use words::{dispatch, Kernel, Words};

/// The parameters that all tiles of an array share. Coefficients have unit gain in the L2 norm, so a plane of exponent
/// `e` means a quantiser step of `2^e` in units of the samples, in every band of every tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Exponent of the highest plane of any tile.
    pub top: i32,
    /// Exponent of the last plane. Integers by the reversible transform have no more planes than make them exact.
    pub finest: i32,
    /// The axes that are decomposed before the others.
    pub first: First,
    /// The transform of integers.
    pub integers: Integers,
    /// The haste of the models.
    pub learning: Learning,
}

/// The axes that are decomposed to their ends before the others are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The axes that can be halved less often than the longest come first, in containers of version 4 and before.
    Shorter,
    /// The axes that are set come first. The slowest axis is the first of the four, and axes that the array lacks are
    /// before it.
    Axes([bool; 4]),
}

/// The transform of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integers {
    /// The coefficients are integers, too, by short filters: all planes restore every bit.
    Reversible,
    /// The integers are transformed as floats, and restored floats are rounded: fewer bits for the same error, and no end
    /// to the planes.
    Rounded,
}

impl Settings {
    /// All axes are decomposed together, integers reversibly.
    pub fn new(top: i32, finest: i32) -> Self {
        Self {
            top,
            finest,
            first: First::Axes([false; 4]),
            integers: Integers::Reversible,
            learning: Learning::Steady,
        }
    }

    /// Whether samples of this kind are rounded.
    fn rounds<T: Number>(&self) -> bool {
        T::INTEGER && self.integers == Integers::Rounded
    }
}

/// The nearest sample.
fn rounded<T: Number>(value: f64) -> T {
    T::from_f64(value.round())
}

/// Encode a tile of finite samples in C order.
pub fn encode_tile<T: Number>(samples: &[T], shape: [usize; 4], settings: Settings) -> Vec<Segment> {
    coded(samples, shape, settings, None).segments
}

/// The best estimate that the segments of layers 0, 1, ... give.
pub fn decode_tile<T: Number>(shape: [usize; 4], settings: Settings, segments: &[&[u8]]) -> Vec<T> {
    let mut samples = vec![T::default(); shape.iter().product()];
    restore(shape, settings, segments, &mut samples);
    samples
}

fn coded<T: Number>(
    samples: &[T],
    shape: [usize; 4],
    settings: Settings,
    measuring: Option<&Measuring<'_, T>>,
) -> Coded<'static> {
    if !settings.rounds::<T>() {
        return encode::encoded(samples, shape, settings, measuring, false);
    }
    let doubles: Vec<f64> = samples.iter().map(|sample| sample.to_f64()).collect();
    let judge = measuring.map(|measuring| Converted { judge: measuring.judge, convert: rounded::<T> });
    let measuring =
        measuring.zip(judge.as_ref()).map(|(measuring, judge)| measuring.converted(judge, measuring.unit));
    let measuring = measuring.as_ref();
    encode::encoded(&doubles, shape, settings, measuring, true)
}

fn restore<T: Number>(shape: [usize; 4], settings: Settings, segments: &[&[u8]], samples: &mut [T]) {
    if !settings.rounds::<T>() {
        return decode::decode(shape, settings, segments, samples);
    }
    let mut doubles = vec![0.0; samples.len()];
    decode::decode(shape, settings, segments, &mut doubles);
    samples.iter_mut().zip(doubles).for_each(|(sample, double)| *sample = rounded(double));
}

impl<T: Number> TileCodec<T> for Settings {
    fn encode<'a>(
        &self,
        samples: Cow<'a, [T]>,
        shape: [usize; 4],
        _threads: usize,
        measuring: &Measuring<'_, T>,
    ) -> Coded<'a>
    where
        T: 'a,
    {
        coded(&samples, shape, *self, Some(measuring))
    }

    fn decode(&self, shape: [usize; 4], segments: &[Pieces<'_>], _threads: usize, samples: &mut [T]) {
        let joined: Vec<Cow<'_, [u8]>> = segments.iter().map(Pieces::joined).collect();
        let segments: Vec<&[u8]> = joined.iter().map(|bytes| bytes.as_ref()).collect();
        restore(shape, *self, &segments, samples);
    }
}
