//! Floats so small or so large that the transform would leave their range: denormals, and those near the largest.
//!
//! They are coded as multiples of a power of two.

use crate::codec::{Coded, TileCodec};
use crate::judge::{Converted, Measuring};
use crate::planes::{Number, Settings};

/// Ranges whose exponent is farther from 0 than this are scaled. Single precision holds some 126 on either side, of
/// which planes and transform need about 40.
pub(crate) const EXPONENT_MAX: i32 = 64;

/// Codes samples divided by `2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scaled {
    /// In units of the divided samples.
    pub(crate) settings: Settings,
    pub(crate) exponent: i32,
}

/// `sample * 2^exponent`; in two steps, since the power itself may be no double.
pub(crate) fn scaled<T: Number>(sample: T, exponent: i32) -> T {
    let half = exponent / 2;
    T::from_f64(sample.to_f64() * f64::from(half).exp2() * f64::from(exponent - half).exp2())
}

impl<T: Number> TileCodec<T> for Scaled {
    fn encode(
        &self,
        samples: &[T],
        shape: [usize; 4],
        threads: usize,
        measuring: &Measuring<'_, T>,
    ) -> Coded {
        let samples: Vec<T> = samples.iter().map(|sample| scaled(*sample, -self.exponent)).collect();
        let judge = Converted { judge: measuring.judge, convert: |sample: T| scaled(sample, self.exponent) };
        let unit = measuring.unit * f64::from(self.exponent).exp2();
        self.settings.encode(
            &samples,
            shape,
            threads,
            &Measuring { judge: &judge, unit, base_bytes: measuring.base_bytes },
        )
    }

    fn decode(&self, shape: [usize; 4], segments: &[&[u8]], threads: usize, samples: &mut [T]) {
        self.settings.decode(shape, segments, threads, samples);
        samples.iter_mut().for_each(|sample| *sample = scaled(*sample, self.exponent));
    }
}
