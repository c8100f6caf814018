//! The kinds of numbers that are coded, and the kinds of coefficients that their transforms work on.

use super::lattice::BLOCK;
use super::lifting::Lift;
use super::magnitudes::Magnitudes;
use super::steps::{Steps, CENTRE, CENTRE_LEADING};
use crate::sample::Sample;

/// A sample that the codec takes.
pub trait Number: Sample {
    /// Integers are transformed reversibly.
    const INTEGER: bool;

    /// The nearest sample to `value`; the nearest end of the range if it lies outside.
    fn from_f64(value: f64) -> Self;

    /// `self - centre`, modulo 2^64 where 64 bits do not hold it.
    fn centred(self, centre: i64) -> i64;

    /// `offset + centre`. A value outside the range becomes its nearest end, or wraps round where `wrapping` is set
    /// because the samples span so much that [`Number::centred`] wrapped.
    fn uncentred(offset: i64, centre: i64, wrapping: bool) -> Self;

    /// `self / 2^exponent`; integers are rounded down, and their exponent is below their bits.
    fn divided(self, exponent: i32) -> Self;

    /// `self * 2^exponent`; an integer becomes the middle of those that [`Number::divided`] makes it of, and the nearest
    /// such number in the range if there is none.
    fn multiplied(self, exponent: i32) -> Self;
}

/// `value * 2^exponent`; in two steps, since the power itself may be no double.
pub(crate) fn scaled(value: f64, exponent: i32) -> f64 {
    let half = exponent / 2;
    value * f64::from(half).exp2() * f64::from(exponent - half).exp2()
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

            #[inline(always)]
            fn divided(self, exponent: i32) -> Self {
                scaled(f64::from(self), -exponent) as $float
            }

            #[inline(always)]
            fn multiplied(self, exponent: i32) -> Self {
                scaled(f64::from(self), exponent) as $float
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

            #[inline(always)]
            fn divided(self, exponent: i32) -> Self {
                self >> exponent.clamp(0, <$integer>::BITS as i32 - 1)
            }

            #[inline(always)]
            fn multiplied(self, exponent: i32) -> Self {
                let exponent = exponent.clamp(0, <$integer>::BITS as i32 - 1);
                let (least, most) = (<$integer>::MIN >> exponent, <$integer>::MAX >> exponent);
                let middle = ((1_u64 << exponent) / 2) as $integer;
                (self.clamp(least, most) << exponent) + middle
            }
        }
    )*};
}

float_number!(f32);
float_number!(f64);
integer_number!(i8 i16 i32 i64 u8 u16 u32 u64);

/// Coefficients whose bits a 32-bit word holds.
const HALF: usize = BLOCK / 2;
/// Bits of half a magnitude.
const HALF_BITS: usize = 32;

/// A number that the transform yields.
pub(super) trait Coefficient: Lift {
    /// A magnitude in steps.
    type Steps: Steps;

    /// Magnitudes in steps, not rounded.
    fn steps(block: &[Self; BLOCK], step_inverse: f64) -> [Self::Steps; BLOCK];

    /// Magnitudes of so many bits in whole steps, rounded towards zero, and a word of signs (one is negative).
    fn quantised(block: &[Self; BLOCK], step_inverse: f64, bits: usize) -> (Magnitudes, u64);

    /// The coefficients that `magnitudes` stand for: their known bits, in units of `step`.
    fn restored(
        magnitudes: &Magnitudes,
        negative: u64,
        uncertainty: &Uncertainty,
        step: f64,
    ) -> [Self; BLOCK];
}

/// The interval that the known planes leave open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uncertainty {
    /// Bits below those that are known of most magnitudes.
    pub(super) bits: usize,
    /// Coefficients of which the lowest of these is not known either.
    pub(super) doubled: u64,
}

macro_rules! float_coefficient {
    ($float:ty) => {
        impl Coefficient for $float {
            type Steps = $float;

            #[inline(always)]
            fn steps(block: &[Self; BLOCK], step_inverse: f64) -> [Self; BLOCK] {
                let step_inverse = step_inverse as $float;
                let mut steps = [0.0; BLOCK];
                for (step, value) in steps.iter_mut().zip(block) {
                    *step = value.abs() * step_inverse;
                }
                steps
            }

            #[inline(always)]
            fn quantised(block: &[Self; BLOCK], step_inverse: f64, bits: usize) -> (Magnitudes, u64) {
                let mut magnitudes = Magnitudes::ZERO;
                let step_inverse = step_inverse as $float;
                let mut negative = 0;
                for (bit, &value) in block.iter().enumerate() {
                    negative |= u64::from(value < 0.0) << bit;
                }
                if bits < HALF_BITS {
                    for (low, &value) in magnitudes.low.iter_mut().zip(block) {
                        *low = (value.abs() * step_inverse) as i32 as u32;
                    }
                    return (magnitudes, negative);
                }
                for (bit, &value) in block.iter().enumerate() {
                    let steps = (value.abs() * step_inverse) as i64 as u64;
                    magnitudes.low[bit] = steps as u32;
                    magnitudes.high[bit] = (steps >> HALF_BITS) as u32;
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
                let step = step as $float;
                let wide = magnitudes.high.iter().fold(0, |union, high| union | high) != 0
                    || magnitudes.low.iter().fold(0, |union, low| union | low) >> (HALF_BITS - 1) != 0;
                for (half, values) in block.chunks_exact_mut(HALF).enumerate() {
                    let first = half * HALF;
                    let doubled = (uncertainty.doubled >> first) as u32;
                    let negative = (negative >> first) as u32;
                    for (bit, value) in values.iter_mut().enumerate() {
                        *value = magnitudes.low[first + bit] as i32 as $float;
                    }
                    if wide {
                        for (bit, value) in values.iter_mut().enumerate() {
                            let high = u64::from(magnitudes.high[first + bit]) << HALF_BITS;
                            *value = (high | u64::from(magnitudes.low[first + bit])) as $float;
                        }
                    }
                    for (bit, value) in values.iter_mut().enumerate() {
                        let magnitude = *value;
                        let width = if doubled & 1 << bit != 0 { 2.0 } else { 1.0 };
                        let centre = if magnitude == width { CENTRE_LEADING } else { CENTRE } as $float;
                        let steps = (magnitude + centre * width) * step;
                        let steps = if magnitude == 0.0 { 0.0 } else { steps };
                        *value = if negative & 1 << bit != 0 { -steps } else { steps };
                    }
                }
                block
            }
        }
    };
}

float_coefficient!(f32);
float_coefficient!(f64);

impl Coefficient for i64 {
    type Steps = f64;

    #[inline(always)]
    fn steps(block: &[Self; BLOCK], _step_inverse: f64) -> [f64; BLOCK] {
        let mut steps = [0.0; BLOCK];
        for (step, value) in steps.iter_mut().zip(block) {
            *step = value.unsigned_abs() as f64;
        }
        steps
    }

    #[inline(always)]
    fn quantised(block: &[Self; BLOCK], _step_inverse: f64, _bits: usize) -> (Magnitudes, u64) {
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
            let bits = uncertainty.bits as u32 + (uncertainty.doubled >> bit & 1) as u32;
            let unknown = 1_u64.checked_shl(bits).unwrap_or(0).wrapping_sub(1);
            let centre = if magnitude == 0 { 0 } else { unknown / 2 };
            let magnitude = (magnitude << uncertainty.bits).wrapping_add(centre) as i64;
            *value = if negative >> bit & 1 == 1 { magnitude.wrapping_neg() } else { magnitude };
        }
        block
    }
}
