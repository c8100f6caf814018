//! The choice of a transform, by what each leaves of a part of the array.
//!
//! A coefficient costs the bits of its magnitude above a step. Summed over two steps, that tells which axes to decompose
//! first, and which filters suit integers: 4 dB lie between the best and the worst for months of a map of ice.

use super::bands::{halvings_of, Axes, AXES};
use super::boxes::for_each_row;
use super::layout::{compact, integer_norm_log2};
use super::offsets::range;
use super::words::{Kernel, Words};
use super::{transform, First, Integers};

/// Exponents of the steps, from that of half the range on.
const STEPS: [i32; 2] = [-6, -10];
/// Bits of a magnitude's sign and of its place.
const BITS_OF_FOUND: i32 = 2;
/// Each axis that is decomposed before the others must save this part of the bits: it makes more bands, and smaller ones.
const SAVED_MIN: f64 = 0.015;

/// A part of an array.
pub(crate) struct Choosing<'a> {
    /// In C order.
    pub(crate) samples: &'a [f64],
    pub(crate) shape: [usize; 4],
    /// The distance of neighbouring values, if samples are whole multiples of one.
    pub(crate) unit: Option<f64>,
}

impl Kernel for Choosing<'_> {
    type Output = (First, Integers);

    #[inline(always)]
    fn run<W: Words>(self, _words: W) -> Self::Output {
        let mut best = (f64::INFINITY, First::Axes([false; AXES]), Integers::Reversible);
        let (low, high) = if self.samples.is_empty() { (0.0, 0.0) } else { range(self.samples) };
        let (centre, half) = (low / 2.0 + high / 2.0, high / 2.0 - low / 2.0);
        if half <= 0.0 {
            return (best.1, best.2);
        }
        let floats: Vec<f32> = self.samples.iter().map(|value| ((value - centre) / half) as f32).collect();
        let whole =
            |unit: f64| self.samples.iter().map(|value| ((value - centre) / unit).round() as i64).collect();
        let whole: Option<(Vec<i64>, f64)> = self.unit.map(|unit| (whole(unit), unit / half));
        // No closure: the compiler must inline everything for the processor's own instructions to be used.
        for (first, named) in orders(self.shape) {
            let demanded = 1.0 + SAVED_MIN * named as f64;
            if let Some((whole, unit)) = &whole {
                let bits = demanded * reversible(whole.clone(), *unit, (self.shape, first)) as f64;
                if bits < best.0 {
                    best = (bits, first, Integers::Reversible);
                }
            }
            let bits = demanded * smooth(floats.clone(), (self.shape, first)) as f64;
            if bits < best.0 {
                let integers = if whole.is_some() { Integers::Rounded } else { Integers::Reversible };
                best = (bits, first, integers);
            }
        }
        (best.1, best.2)
    }
}

/// The sets of axes that make different plans, and their numbers.
fn orders(shape: [usize; AXES]) -> impl Iterator<Item = (First, usize)> {
    let can_be_halved = shape.map(|length| halvings_of(length) > 0);
    let last = can_be_halved.iter().rposition(|can| *can);
    let most = can_be_halved.iter().filter(|can| **can).count().saturating_sub(1);
    let set = |bits: usize| -> Axes { [0, 1, 2, 3].map(|axis| bits >> axis & 1 == 1) };
    let sets = (0..1 << AXES).map(move |bits: usize| (set(bits), bits.count_ones() as usize));
    let is_plan = move |(early, named): &(Axes, usize)| {
        let named = *named;
        let is_possible = early.iter().zip(&can_be_halved).all(|(named, can)| *can || !named);
        // If one axis is left, it makes no difference which.
        let is_other = named < most || named == 0 || named == most && last.is_some_and(|last| !early[last]);
        is_possible && is_other
    };
    sets.filter(is_plan).map(|(early, named)| (First::Axes(early), named))
}

/// Bits of the coefficients of samples between -1 and 1.
#[inline(always)]
fn smooth(mut samples: Vec<f32>, (shape, first): ([usize; AXES], First)) -> u64 {
    let (extents, plan) = compact(shape, first);
    transform::forward(&mut samples, extents, &plan);
    cost(&samples)
}

/// The same of whole multiples of `unit`, by the reversible transform.
#[inline(always)]
fn reversible(mut samples: Vec<i64>, unit: f64, (shape, first): ([usize; AXES], First)) -> u64 {
    let (extents, plan) = compact(shape, first);
    transform::forward(&mut samples, extents, &plan);
    let mut sum = 0;
    let mut row = Vec::new();
    for band in &plan.bands {
        let weight = (unit * integer_norm_log2(band).exp2()) as f32;
        for_each_row(band.origin, band.extents, extents, |start, length| {
            row.clear();
            row.extend(samples[start..start + length].iter().map(|value| *value as f32 * weight));
            sum += cost(&row);
        });
    }
    sum
}

/// Bits of coefficients.
#[inline(always)]
fn cost(coefficients: &[f32]) -> u64 {
    let mut sums = [0_u32; 2];
    for value in coefficients {
        let own = (value.to_bits() >> 23 & 0xff) as i32 - 127;
        for (sum, step) in sums.iter_mut().zip(STEPS) {
            let bits = own - step + 1;
            *sum += if bits > 0 { (bits + BITS_OF_FOUND) as u32 } else { 0 };
        }
    }
    u64::from(sums[0]) + u64::from(sums[1])
}

#[cfg(test)]
mod tests {
    use super::super::dispatch;
    use super::*;

    /// Numbers from -1 to 1 without any order.
    fn rough(seed: usize) -> f64 {
        let mixed = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 32) as u32 as f64 / f64::from(1_u32 << 31) - 1.0
    }

    fn chosen(
        shape: [usize; 4],
        unit: Option<f64>,
        sample: impl Fn(usize, usize, usize) -> f64,
    ) -> (First, Integers) {
        let [_, depth, rows, columns] = shape;
        let samples: Vec<f64> = (0..depth * rows * columns)
            .map(|n| sample(n / (rows * columns), n / columns % rows, n % columns))
            .collect();
        dispatch(Choosing { samples: &samples, shape, unit })
    }

    #[test]
    fn an_axis_that_is_smoother_than_the_others_is_decomposed_first() {
        let seasons =
            |month: usize, row: usize, column: usize| (month as f64 / 9.0).sin() * rough(40 * row + column);
        let (first, _) = chosen([1, 64, 40, 40], None, seasons);
        assert_eq!(first, First::Axes([false, true, false, false]));
        let alike = |x: usize, y: usize, z: usize| rough(x + 100 * y + 10_000 * z);
        assert_eq!(chosen([1, 40, 40, 40], None, alike).0, First::Axes([false; 4]));
        assert_eq!(chosen([1, 9, 9, 9], None, |_, _, _| 7.0).0, First::Axes([false; 4]));
    }

    #[test]
    fn smooth_integers_are_rounded_and_sharp_ones_are_not() {
        let hills = |_, row: usize, column: usize| {
            (900.0 * ((row as f64 / 31.0).sin() + (column as f64 / 23.0).cos())
                + 20.0 * rough(300 * row + column))
            .round()
        };
        assert_eq!(chosen([1, 1, 300, 300], Some(1.0), hills).1, Integers::Rounded);
        let disc = |_, row: usize, column: usize| {
            f64::from(u8::from(row.abs_diff(150).pow(2) + column.abs_diff(150).pow(2) < 9000))
        };
        assert_eq!(chosen([1, 1, 300, 300], Some(1.0), disc).1, Integers::Reversible);
    }

    #[test]
    fn no_plan_is_tried_twice() {
        let shapes = [[1, 1, 1, 24], [1, 1, 24, 24], [1, 24, 24, 24], [24; 4], [1, 2, 24, 24]];
        for (shape, plans) in shapes.into_iter().zip([1, 2, 5, 12, 2]) {
            let mut seen = std::collections::HashSet::new();
            for (first, _) in orders(shape) {
                let (_, plan) = compact(shape, first);
                let mut bands: Vec<_> = plan.bands.iter().map(|band| (band.origin, band.extents)).collect();
                bands.sort_unstable();
                assert!(seen.insert(bands), "{shape:?} {first:?}");
            }
            assert_eq!(seen.len(), plans, "{shape:?}");
        }
    }
}
