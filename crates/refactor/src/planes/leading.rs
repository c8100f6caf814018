//! The sum of the coefficients' errors at the end of each pass, without decoding.
//!
//! A coefficient's error is its magnitude before its leading bit is known, and depends on the bits behind it
//! afterwards. So counts of leading bits, by the two bits behind them, give the sum of squares at every pass: those two
//! bits place a coefficient within a quarter of its octave, and the bits further behind count as even.

use super::lattice::BLOCK;
use super::layout::{integer_norm_log2, Layout};
use super::number::{CENTRE, CENTRE_LEADING};

/// Quarters of an octave.
const QUARTERS: usize = 4;
/// The gain in squares of a plane's first pass, as a part of the gain that its share of the coefficients would have:
/// coefficients that are alike lie together.
const LIKELY_GAIN: f64 = 0.9;
/// The variance of an even distribution over an interval of length one.
const EVEN_VARIANCE: f64 = 1.0 / 12.0;

/// Coefficients of a tile by band and leading bit.
pub(super) struct Leading {
    bands: Vec<Octaves>,
    integer: bool,
}

/// Coefficients of a band by leading bit.
struct Octaves {
    coefficients: usize,
    quarters: Vec<[u32; QUARTERS]>,
    /// The coefficients that the first pass of their plane finds.
    likely: Vec<u32>,
}

/// Sums of squared errors of the coefficients that share a leading bit, in steps of the band.
#[derive(Clone, Copy, Default)]
struct Sums {
    unknown: f64,
    /// The error where no bit behind the leading one is known, and where one is.
    behind: [f64; 2],
    count: f64,
}

impl Leading {
    pub(super) fn new(layout: &Layout, integer: bool) -> Self {
        let octaves = |(index, band): (usize, &super::bands::Band)| Octaves {
            coefficients: band.extents.iter().product(),
            quarters: vec![[0; QUARTERS]; layout.bits(index)],
            likely: vec![0; layout.bits(index)],
        };
        Self { bands: layout.plan.bands.iter().enumerate().map(octaves).collect(), integer }
    }

    /// Count a block by its lowest `used` planes.
    #[inline(always)]
    pub(super) fn count(&mut self, band: usize, planes: &[u64; BLOCK], used: usize) {
        let mut above = 0;
        for plane in (0..used).rev() {
            let leading = planes[plane] & !above;
            above |= planes[plane];
            if leading == 0 {
                continue;
            }
            let first = leading & if plane > 0 { planes[plane - 1] } else { 0 };
            let second = if plane > 1 { planes[plane - 2] } else { 0 };
            let parts =
                [leading & !first & !second, leading & !first & second, first & !second, first & second];
            for (count, part) in self.bands[band].quarters[plane].iter_mut().zip(parts) {
                *count += part.count_ones();
            }
        }
    }

    /// Note how many the first pass of a plane has found.
    pub(super) fn found_likely(&mut self, band: usize, bit: usize, count: u32) {
        self.bands[band].likely[bit] = count;
    }

    /// The sum of squares once each of these planes' passes is done: one entry a pass.
    pub(super) fn squares(&self, layout: &Layout, passes: usize) -> Vec<f64> {
        let planes = (layout.highest - layout.lowest + 1) as usize;
        let mut all = vec![0.0; planes * passes];
        for (index, band) in self.bands.iter().enumerate() {
            let sums = band.sums(self.integer);
            let rest = if self.integer { 0.0 } else { band.never_found() / 3.0 };
            let norm_log2 = match self.integer {
                true => integer_norm_log2(&layout.plan.bands[index]),
                false => f64::from(layout.exponents[index]),
            };
            let unit = (2.0 * norm_log2).exp2();
            for (plane, squares) in all.chunks_exact_mut(passes).enumerate() {
                let bit = layout.highest - plane as i32 - layout.exponents[index];
                let done = self.after(&sums, bit);
                let begun = match usize::try_from(bit).ok().filter(|bit| *bit < sums.len()) {
                    Some(bit) => self.after(&sums, bit as i32 + 1) - self.gained(band, &sums, bit),
                    None => done,
                };
                squares[0] += unit * (begun + rest);
                squares[passes - 1] += unit * (done + rest);
            }
        }
        all
    }

    /// The error that is left when all bits from `bit` up are known.
    fn after(&self, sums: &[Sums], bit: i32) -> f64 {
        let known = bit.clamp(0, sums.len() as i32) as usize;
        let unknown: f64 = sums[..known].iter().map(|sums| sums.unknown).sum();
        let left = |(leading, sums): (usize, &Sums)| match leading - known {
            near @ (0 | 1) if !self.integer => sums.behind[near],
            _ => sums.count * self.interval(known),
        };
        unknown + sums.iter().enumerate().skip(known).map(left).sum::<f64>()
    }

    /// The gain of a plane's first pass.
    fn gained(&self, band: &Octaves, sums: &[Sums], bit: usize) -> f64 {
        let all = &sums[bit];
        if all.count == 0.0 {
            return 0.0;
        }
        let share = f64::from(band.likely[bit]) / all.count;
        match self.integer {
            // Near the last bits, found and unfound coefficients cancel each other less than chance would have it.
            true => 0.5 * share * (all.unknown - all.count * self.interval(bit)),
            false => LIKELY_GAIN * share * (all.unknown - all.behind[0]),
        }
    }

    /// The mean square of the unknown part of a magnitude whose bits from `bit` up are known.
    fn interval(&self, bit: usize) -> f64 {
        let width = (bit as f64).exp2();
        match (self.integer, bit) {
            (false, _) => width * width * (EVEN_VARIANCE + (0.5 - CENTRE).powi(2)),
            (true, 0) => 0.0,
            // Whole numbers of an even interval, restored just below its middle.
            (true, _) => (width * width - 1.0) * EVEN_VARIANCE + 0.25,
        }
    }
}

impl Octaves {
    fn never_found(&self) -> f64 {
        self.coefficients as f64 - self.quarters.iter().flatten().map(|count| f64::from(*count)).sum::<f64>()
    }

    fn sums(&self, integer: bool) -> Vec<Sums> {
        let of = |(bit, counts): (usize, &[u32; QUARTERS])| {
            let scale = (bit as f64).exp2().powi(2);
            let counts = if integer { counts.map(f64::from) } else { spread(counts.map(f64::from), bit) };
            let mut sums = Sums::default();
            for (quarter, count) in counts.into_iter().enumerate() {
                // For integers with no more than two bits behind the leading one, these are all.
                let is_all = integer && bit < 3;
                let (middle, variance) = if is_all { (0.0, 0.0) } else { (0.125, EVEN_VARIANCE / 16.0) };
                let place = quarter as f64 / 4.0 + middle;
                let half = if place < 0.5 { 0.0 } else { 0.5 };
                let square = |off: f64| scale * count * (off * off + variance);
                sums.unknown += square(1.0 + place);
                sums.behind[0] += square(place - CENTRE_LEADING);
                sums.behind[1] += square(place - half - 0.5 * CENTRE);
                sums.count += count;
            }
            sums
        };
        self.quarters.iter().enumerate().map(of).collect()
    }
}

/// Counts by quarter where the bits that tell quarters apart lie below the last one.
fn spread([a, b, c, d]: [f64; QUARTERS], bit: usize) -> [f64; QUARTERS] {
    match bit {
        0 => [(a + b + c + d) / 4.0; QUARTERS],
        1 => [(a + b) / 2.0, (a + b) / 2.0, (c + d) / 2.0, (c + d) / 2.0],
        _ => [a, b, c, d],
    }
}
