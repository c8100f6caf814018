//! Magnitudes of a block in steps of its least bit, and the squared errors of what a decoder makes of them.

use super::lattice::BLOCK;

/// The place in its interval at which a magnitude of floats is restored, where only the leading bit is known, and where
/// more is known. Magnitudes are denser near zero: the centre of mass lies below the middle.
pub(super) const CENTRE_LEADING: f64 = 0.42;
pub(super) const CENTRE: f64 = 0.48;
/// The exponent bits of the double 1.
const EXPONENT_BIAS: u64 = 1023;
/// Sums run in so many lanes.
const LANES: usize = 8;

/// Magnitudes in steps of the least bit: exact as far as the coefficients are.
pub(super) trait Steps: Copy + Default {
    /// The sum of their squares.
    fn unknown(block: &[Self; BLOCK]) -> f64;

    /// The sum of the squared errors when all bits from `bit` up are known.
    fn known(block: &[Self; BLOCK], bit: usize, centres: Centres) -> f64;

    /// The nearest value of single precision.
    fn single(self) -> f32;
}

/// The places at which unknown bits are restored, as parts of the least known one: behind a leading bit, and others.
#[derive(Clone, Copy)]
pub(super) struct Centres {
    pub(super) leading: f64,
    pub(super) later: f64,
}

impl Centres {
    pub(super) fn new(integer: bool, bit: usize) -> Self {
        if integer {
            // Whole numbers, just below the middle.
            let width = (bit as f64).exp2();
            let centre = ((width - 1.0) / 2.0).floor() / width;
            return Self { leading: centre, later: centre };
        }
        Self { leading: CENTRE_LEADING, later: CENTRE }
    }
}

macro_rules! steps {
    ($float:ty) => {
        impl Steps for $float {
            #[inline(always)]
            fn unknown(block: &[Self; BLOCK]) -> f64 {
                let mut sums = [0.0; LANES];
                for row in block.chunks_exact(LANES) {
                    for (sum, value) in sums.iter_mut().zip(row) {
                        *sum += value * value;
                    }
                }
                f64::from(sums.iter().sum::<$float>())
            }

            #[inline(always)]
            fn known(block: &[Self; BLOCK], bit: usize, centres: Centres) -> f64 {
                // The power of two, without a call.
                let scale = f64::from_bits((EXPONENT_BIAS - bit as u64) << (f64::MANTISSA_DIGITS - 1));
                let (inverse, leading, later) =
                    (scale as $float, centres.leading as $float, centres.later as $float);
                let mut sums = [0.0; LANES];
                for row in block.chunks_exact(LANES) {
                    for (sum, value) in sums.iter_mut().zip(row) {
                        let value = value * inverse;
                        let whole = value.trunc();
                        let centre = if whole >= 2.0 { later } else { leading };
                        let estimate = if whole >= 1.0 { whole + centre } else { 0.0 };
                        *sum += (value - estimate) * (value - estimate);
                    }
                }
                f64::from(sums.iter().sum::<$float>()) / (scale * scale)
            }

            #[inline(always)]
            fn single(self) -> f32 {
                self as f32
            }
        }
    };
}

steps!(f32);
steps!(f64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn squares_are_those_of_the_estimates(low in proptest::array::uniform32(0.0_f64..1000.0), bit in 0_usize..10) {
            let mut block = [0.0; BLOCK];
            block[..32].copy_from_slice(&low);
            for integer in [false, true] {
                let block = if integer { block.map(f64::trunc) } else { block };
                let width = (bit as f64).exp2();
                let squares: f64 = block.iter().map(|value| {
                    let whole = (value / width).trunc();
                    let centre = match (integer, whole == 1.0) {
                        (true, _) => ((width - 1.0) / 2.0).floor() / width,
                        (false, true) => CENTRE_LEADING,
                        (false, false) => CENTRE,
                    };
                    let estimate = if whole == 0.0 { 0.0 } else { (whole + centre) * width };
                    (value - estimate) * (value - estimate)
                }).sum();
                let found = f64::known(&block, bit, Centres::new(integer, bit));
                prop_assert!((found - squares).abs() <= 1e-9 * squares, "{found} {squares}");
            }
        }
    }
}
