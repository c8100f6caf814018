//! The sum of the coefficients' squared errors as bands are read, without decoding.
//!
//! The sums are exact: the decoder's estimate of a coefficient follows from the bits that it knows, and every coefficient
//! is compared with its estimate at every plane. So sparse and artificial fields, whose bits are not spread by chance,
//! are told as well as others.

use super::lattice::BLOCK;
use super::layout::{integer_norm_log2, Layout};
use super::number::{CENTRE, CENTRE_LEADING};
use super::passes::PASSES;

/// Ends of bands within a pass are kept where the straight line is off by more than this part.
const OFF_LINE_MAX: f64 = 0.005;
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
    leading: f64,
    later: f64,
}

impl Centres {
    fn new(integer: bool, bit: usize) -> Self {
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
                let scale = (-(bit as f64)).exp2();
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

/// Squared errors of a tile's coefficients.
pub(super) struct Squares {
    bands: Vec<Known>,
    integer: bool,
}

/// Squared errors of a band, in steps of its least bit.
struct Known {
    /// When all bits from this one up are known.
    from_bit: Vec<f64>,
    /// The fall of the squares by the first pass of each plane.
    gains: Vec<f64>,
    /// Magnitudes of all blocks.
    magnitudes: Vec<[f32; BLOCK]>,
}

/// The end of a pass: the coefficients' squared errors, and those within it where they are off the straight line.
pub(super) struct Pass {
    pub(super) squares: f64,
    /// Bytes of the segment, and the squares when they are there.
    pub(super) inner: Vec<(usize, f64)>,
}

impl Squares {
    pub(super) fn new(layout: &Layout, integer: bool) -> Self {
        let known = |index| Known {
            from_bit: vec![0.0; layout.bits(index) + 1],
            gains: vec![0.0; layout.bits(index)],
            magnitudes: Vec::new(),
        };
        Self { bands: (0..layout.plan.bands.len()).map(known).collect(), integer }
    }

    /// Make room for the blocks of a band.
    pub(super) fn open(&mut self, band: usize, blocks: usize) {
        self.bands[band].magnitudes.resize(blocks, [0.0; BLOCK]);
    }

    /// Add a block that needs `used` bits.
    #[inline(always)]
    pub(super) fn add<S: Steps>(&mut self, band: usize, place: usize, steps: &[S; BLOCK], used: usize) {
        let integer = self.integer;
        let band = &mut self.bands[band];
        let unknown = S::unknown(steps);
        let (below, above) = band.from_bit.split_at_mut(used);
        for (bit, squares) in below.iter_mut().enumerate() {
            *squares += S::known(steps, bit, Centres::new(integer, bit));
        }
        above.iter_mut().for_each(|squares| *squares += unknown);
        if used > 0 {
            for (single, step) in band.magnitudes[place].iter_mut().zip(steps) {
                *single = step.single();
            }
        }
    }

    /// Note the coefficients of a block that the first pass of a plane finds.
    #[inline(always)]
    pub(super) fn found(&mut self, band: usize, place: usize, bit: usize, mut found: u64) {
        let count = f64::from(found.count_ones());
        let band = &mut self.bands[band];
        let mut sum = 0.0;
        while found != 0 {
            sum += f64::from(band.magnitudes[place][found.trailing_zeros() as usize]);
            found &= found - 1;
        }
        let estimate = (1.0 + Centres::new(self.integer, bit).leading) * (bit as f64).exp2();
        band.gains[bit] += estimate * (2.0 * sum - count * estimate);
    }

    /// The ends of all passes. `ends` has the bytes of each pass's segment at which each of its bands ends.
    pub(super) fn passes(&self, layout: &Layout, ends: &[Vec<(usize, usize)>]) -> Vec<Pass> {
        let unit = |(index, band)| {
            let norm_log2 = match self.integer {
                true => integer_norm_log2(band),
                false => f64::from(layout.exponents[index]),
            };
            (2.0 * norm_log2).exp2()
        };
        let units: Vec<f64> = layout.plan.bands.iter().enumerate().map(unit).collect();
        let unknown = |(band, unit): (&Known, &f64)| unit * band.from_bit.last().copied().unwrap_or(0.0);
        let mut now: Vec<f64> = self.bands.iter().zip(&units).map(unknown).collect();
        let mut passes = Vec::with_capacity(ends.len());
        for (number, ends) in ends.iter().enumerate() {
            let exponent = layout.highest - (number / PASSES) as i32;
            let begun: f64 = now.iter().sum();
            let mut marks = Vec::with_capacity(ends.len());
            for (band, bytes) in ends {
                let Some(bit) = layout.bit(*band, exponent) else { continue };
                let known = &self.bands[*band];
                let left = match number % PASSES {
                    0 => (known.from_bit[bit + 1] - known.gains[bit]).max(0.0),
                    _ => known.from_bit[bit],
                };
                now[*band] = units[*band] * left;
                marks.push((*bytes, now.iter().sum()));
            }
            let (bytes, squares) = marks.last().copied().unwrap_or((0, begun));
            passes.push(Pass { squares, inner: off_line(begun, &marks, (bytes, squares)) });
        }
        passes
    }
}

/// The marks that the straight line from the last one chosen to the end is off.
fn off_line(begun: f64, marks: &[(usize, f64)], end: (usize, f64)) -> Vec<(usize, f64)> {
    let mut from = (0, begun);
    let mut chosen = Vec::new();
    for mark in marks {
        if mark.0 <= from.0 || mark.0 >= end.0 {
            continue;
        }
        let part = (mark.0 - from.0) as f64 / (end.0 - from.0) as f64;
        let line = from.1 * (1.0 - part) + end.1 * part;
        if (line - mark.1).abs() > OFF_LINE_MAX * mark.1 {
            chosen.push(*mark);
            from = *mark;
        }
    }
    chosen
}

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
