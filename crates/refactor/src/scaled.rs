//! Numbers of extreme range, coded as multiples of a power of two.
//!
//! Floats so small or so large that the transform would leave their range: denormals, and those near the largest. And
//! integers whose transform would wrap round: then planes that are cut would tell nothing of the samples.

use crate::codec::{Coded, TileCodec};
use crate::judge::{Converted, Measuring};
use crate::pieces::Pieces;
use crate::planes::{scaled, Number, Settings};
use std::borrow::Cow;

/// Ranges whose exponent is farther from 0 than this are scaled. Single precision holds some 126 on either side, of
/// which planes and transform need about 40.
pub(crate) const EXPONENT_MAX: i32 = 64;

/// Integers that span more bits are scaled. In 64 bits, the rest is room for what coefficients exceed the samples by, and
/// restored ones those: in each halving of at most 2^20 samples by 1.5, and by 2 on each of four axes, either way.
pub(crate) const INTEGER_BITS_MAX: i32 = 40;

/// Codes samples divided by `2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scaled {
    /// In units of the divided samples.
    pub(crate) settings: Settings,
    pub(crate) exponent: i32,
}

impl<T: Number> TileCodec<T> for Scaled {
    fn encode<'a>(
        &self,
        samples: Cow<'a, [T]>,
        shape: [usize; 4],
        threads: usize,
        measuring: &Measuring<'_, T>,
    ) -> Coded<'a>
    where
        T: 'a,
    {
        let samples: Vec<T> = samples.iter().map(|sample| sample.divided(self.exponent)).collect();
        let judge =
            Converted { judge: measuring.judge, convert: |sample: T| sample.multiplied(self.exponent) };
        let unit = scaled(measuring.unit, self.exponent);
        self.settings.encode(Cow::Owned(samples), shape, threads, &measuring.converted(&judge, unit))
    }

    fn decode(&self, shape: [usize; 4], segments: &[Pieces<'_>], threads: usize, samples: &mut [T]) {
        self.settings.decode(shape, segments, threads, samples);
        samples.iter_mut().for_each(|sample| *sample = sample.multiplied(self.exponent));
    }
}
