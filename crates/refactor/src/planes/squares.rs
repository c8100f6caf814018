//! The sum of the coefficients' squared errors as bands are read, without decoding.
//!
//! The sums are exact: the decoder's estimate of a coefficient follows from the bits that it knows, and every coefficient
//! is compared with its estimate at every plane. So sparse and artificial fields, whose bits are not spread by chance,
//! are told as well as others.

use super::lattice::BLOCK;
use super::layout::{integer_norm_log2, Layout};
use super::passes::PASSES;
use super::steps::{Centres, Steps};

/// Ends of bands within a pass are kept where the straight line is off by more than this part.
const OFF_LINE_MAX: f64 = 0.005;

/// Squared errors of a tile's coefficients.
pub(super) struct Squares {
    bands: Vec<Known>,
    integer: bool,
    /// Coefficients that are known not to be zero before each plane.
    significant: Vec<usize>,
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
    /// Bytes of the segment at which it ends.
    pub(super) bytes: usize,
    /// Bytes of the segment, and the squares when they are there.
    pub(super) inner: Vec<(usize, f64)>,
    /// Coefficients that were known not to be zero before its plane.
    pub(super) significant: usize,
}

impl Squares {
    pub(super) fn new(layout: &Layout, integer: bool) -> Self {
        let known = |index| Known {
            from_bit: vec![0.0; layout.bits(index) + 1],
            gains: vec![0.0; layout.bits(index)],
            magnitudes: Vec::new(),
        };
        Self { bands: (0..layout.plan.bands.len()).map(known).collect(), integer, significant: vec![0] }
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

    /// Note how many coefficients the next plane finds.
    pub(super) fn finds(&mut self, count: usize) {
        self.significant.extend(self.significant.last().map(|before| before + count));
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
            let inner = off_line(begun, &marks, (bytes, squares));
            passes.push(Pass { squares, bytes, inner, significant: self.significant[number / PASSES] });
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
