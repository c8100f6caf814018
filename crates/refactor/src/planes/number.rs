//! The kinds of numbers that are coded, and the kinds of coefficients that their transforms work on.

use super::lattice::BLOCK;
use super::lifting::Lift;
use super::magnitudes::Magnitudes;
use crate::sample::Sample;

/// A sample that the codec takes.
pub trait Number: Sample {
    /// Integers are transformed reversibly.
    const INTEGER: bool;

    /// The nearest sample to `value`; the nearest end of the range if it lies outside.
    fn from_f64(value: f64) -> Self;

    /// `self - centre`, modulo 2^64 where 64 bits do not hold it.
    fn centred(self, centre: i64) -> i64;

    /// `offset + centre`; what lies outside the range is put to its nearest end, or wraps round where `wrapping` says
    /// that the samples span so much that [`Number::centred`] did.
    fn uncentred(offset: i64, centre: i64, wrapping: bool) -> Self;
}

macro_rules! float_number {
    ($float:ty) => {
        impl Number for $float {
            const INTEGER: bool = false;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $float
            }

            fn centred(self, centre: i64) -> i64 {
                (self as i64).wrapping_sub(centre)
            }

            fn uncentred(offset: i64, centre: i64, _wrapping: bool) -> Self {
                offset.wrapping_add(centre) as $float
            }
        }
    };
}

macro_rules! integer_number {
    ($($integer:ty)*) => {$(
        impl Number for $integer {
            const INTEGER: bool = true;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $integer
            }

            #[inline(always)]
            fn centred(self, centre: i64) -> i64 {
                (self as i64).wrapping_sub(centre)
            }

            #[inline(always)]
            fn uncentred(offset: i64, centre: i64, wrapping: bool) -> Self {
                if wrapping {
                    return offset.wrapping_add(centre) as $integer;
                }
                let value = i128::from(offset) + i128::from(centre as $integer);
                value.clamp(i128::from(<$integer>::MIN), i128::from(<$integer>::MAX)) as $integer
            }
        }
    )*};
}

float_number!(f32);
float_number!(f64);
integer_number!(i8 i16 i32 i64 u8 u16 u32 u64);

/// Coefficients whose bits a 32-bit word holds.
const HALF: usize = BLOCK / 2;

/// A number that the transform yields.
pub(super) trait Coefficient: Lift {
    /// Magnitudes in whole steps, rounded towards zero, and a word of signs (one is negative).
    fn quantised(block: &[Self; BLOCK], step_inverse: f64) -> (Magnitudes, u64);

    /// The coefficients that `magnitudes`, of which all bits below those of `uncertain` are unknown, stand for.
    fn restored(
        magnitudes: &Magnitudes,
        negative: u64,
        uncertainty: &Uncertainty,
        step: f64,
    ) -> [Self; BLOCK];
}

/// What the known planes leave open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uncertainty {
    /// Width of the interval of most magnitudes, in steps: a power of two.
    pub(super) width: u64,
    /// Coefficients whose interval is only half as wide.
    pub(super) halved: u64,
}

/// Where in its interval a magnitude is restored of which only the leading bit is known, and one of which more is known.
/// Magnitudes are denser near zero: the centre of mass lies below the middle.
const CENTRE_LEADING: f64 = 0.42;
const CENTRE: f64 = 0.48;

macro_rules! float_coefficient {
    ($float:ty, $word:ty) => {
        impl Coefficient for $float {
            #[inline(always)]
            fn quantised(block: &[Self; BLOCK], step_inverse: f64) -> (Magnitudes, u64) {
                let mut magnitudes = Magnitudes::ZERO;
                let step_inverse = step_inverse as $float;
                let mut negative = 0;
                for (bit, &value) in block.iter().enumerate() {
                    negative |= u64::from(value < 0.0) << bit;
                    let steps = (value.abs() * step_inverse) as $word;
                    magnitudes.low[bit] = steps as u32;
                    #[allow(arithmetic_overflow)]
                    if <$word>::BITS > 32 {
                        magnitudes.high[bit] = (steps as u64 >> 32) as u32;
                    }
                }
                (magnitudes, negative)
            }

            #[inline(always)]
            fn restored(
                magnitudes: &Magnitudes,
                negative: u64,
                uncertainty: &Uncertainty,
                step: f64,
            ) -> [Self; BLOCK] {
                let mut block = [0.0; BLOCK];
                let width = uncertainty.width as $word;
                let step = step as $float;
                for (half, values) in block.chunks_exact_mut(HALF).enumerate() {
                    let first = half * HALF;
                    let halved = (uncertainty.halved >> first) as u32;
                    let negative = (negative >> first) as u32;
                    for (bit, value) in values.iter_mut().enumerate() {
                        let mut magnitude = magnitudes.low[first + bit] as $word;
                        if <$word>::BITS > 32 {
                            magnitude |= (u64::from(magnitudes.high[first + bit]) << 32) as $word;
                        }
                        let width = if halved & 1 << bit != 0 { width / 2 } else { width };
                        let centre = if magnitude == width { CENTRE_LEADING } else { CENTRE } as $float;
                        let steps = (magnitude as $float + centre * width as $float) * step;
                        let steps = if magnitude == 0 { 0.0 } else { steps };
                        *value = if negative & 1 << bit != 0 { -steps } else { steps };
                    }
                }
                block
            }
        }
    };
}

float_coefficient!(f32, i32);
float_coefficient!(f64, i64);

impl Coefficient for i64 {
    #[inline(always)]
    fn quantised(block: &[Self; BLOCK], _step_inverse: f64) -> (Magnitudes, u64) {
        let mut magnitudes = Magnitudes::ZERO;
        let mut negative = 0;
        for (bit, &value) in block.iter().enumerate() {
            negative |= u64::from(value < 0) << bit;
            let magnitude = value.unsigned_abs();
            magnitudes.low[bit] = magnitude as u32;
            magnitudes.high[bit] = (magnitude >> 32) as u32;
        }
        (magnitudes, negative)
    }

    #[inline(always)]
    fn restored(
        magnitudes: &Magnitudes,
        negative: u64,
        uncertainty: &Uncertainty,
        _step: f64,
    ) -> [Self; BLOCK] {
        let mut block = [0; BLOCK];
        for (bit, value) in block.iter_mut().enumerate() {
            let magnitude = u64::from(magnitudes.high[bit]) << 32 | u64::from(magnitudes.low[bit]);
            let width = uncertainty.width >> (uncertainty.halved >> bit & 1);
            let centre = if magnitude == 0 { 0 } else { width.saturating_sub(1) / 2 };
            let magnitude = magnitude.wrapping_add(centre) as i64;
            *value = if negative >> bit & 1 == 1 { magnitude.wrapping_neg() } else { magnitude };
        }
        block
    }
}
