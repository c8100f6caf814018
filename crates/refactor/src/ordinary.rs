//! The samples that a codec takes: numbers of the others' magnitude.
//!
//! Fill values that the caller states are no part of the field, whatever they are. Where nothing is stated, fill values
//! are guessed: one of 1e20 in a field of temperatures would leave the temperatures no plane of bits of their own.
//! Samples far above all others that are rare or take few values are then coded like samples that are no numbers.

use crate::fills::{Fill, Fills};
use crate::parallel;
use crate::sample::{DataType, Sample};

/// Samples that one thread looks through at a time.
pub(crate) const PIECE_SAMPLES: usize = 1 << 18;
/// Number of exponents without a sample below an outlier: an outlier has more than 128 times the others' magnitude.
const GAP_EXPONENTS: usize = 7;
/// Outliers of any value are at most one in so many samples.
const SAMPLES_PER_OUTLIER: usize = 1024;
/// Most values that outliers of any number take: marks of missing, masked, land.
const FILL_VALUES_MAX: usize = 4;
/// Parts of the largest number: a sample is one, a residual two, and one is left for roundings.
const SUMMANDS: f64 = 4.0;
/// Exponents of doubles.
const EXPONENTS: usize = 1 << 11;
const FRACTION_BITS: u32 = 52;
/// Samples that are counted at a time.
const COUNT_LANES: usize = 4;

/// The samples of an array that its codec takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ordinary {
    magnitude_max: f64,
    /// The fill values that are stated.
    fills: Fills,
    /// All samples of the array are known to be ordinary.
    all: bool,
}

impl Ordinary {
    /// All finite numbers.
    pub(crate) const FINITE: Self = Self { magnitude_max: f64::MAX, fills: Fills::NONE, all: false };

    /// The finite numbers that are no outliers among `samples`.
    pub(crate) fn of<T: Sample>(samples: &[T], threads: usize) -> Self {
        let mut ordinary = Self::FINITE;
        let pieces: Vec<&[T]> = samples.chunks(PIECE_SAMPLES).collect();
        let mut counts = vec![0_usize; EXPONENTS];
        for piece in parallel::map(pieces.len(), threads, |piece| counts_of(pieces[piece])) {
            counts.iter_mut().zip(piece).for_each(|(all, count)| *all += count as usize);
        }
        // Samples of exponent 0 are nothing beside all others, but no reason to call those outliers.
        let mut occupied = (1..EXPONENTS).rev().filter(|exponent| counts[*exponent] > 0).peekable();
        let mut above = 0;
        while let Some(lowest) = occupied.next() {
            above += counts[lowest];
            match occupied.peek() {
                Some(next) if lowest - next <= GAP_EXPONENTS => {}
                Some(_)
                    if above * SAMPLES_PER_OUTLIER <= samples.len()
                        || ordinary.takes_few(samples, lowest) =>
                {
                    // The largest double of the exponent below the outliers'.
                    let bits = ((lowest as u64) << FRACTION_BITS) - 1;
                    ordinary.magnitude_max = f64::from_bits(bits);
                    above = 0;
                }
                _ => break,
            }
        }
        ordinary
    }

    /// The finite numbers of which a residual, twice as large, can be added to another without an overflow.
    pub(crate) fn summable<T: Sample>() -> Self {
        match T::KIND {
            DataType::Float32 => Self { magnitude_max: f64::from(f32::MAX) / SUMMANDS, ..Self::FINITE },
            DataType::Float64 => Self { magnitude_max: f64::MAX / SUMMANDS, ..Self::FINITE },
            // Integers wrap round, there and back.
            _ => Self::FINITE,
        }
    }

    /// The same without the fill values that are stated.
    pub(crate) fn without<T: Sample>(self, fills: &[Fill]) -> Self {
        Self { fills: Fills::finite::<T>(fills), ..self }
    }

    /// Whether all samples between two that the codec takes are taken.
    pub(crate) fn has_no_gap(&self) -> bool {
        self.fills.is_empty()
    }

    /// The same for an array all of whose samples are known to be ordinary, or are not.
    pub(crate) fn of_array(self, all: bool) -> Self {
        Self { all, ..self }
    }

    /// Whether a codec takes it.
    #[inline]
    pub(crate) fn holds<T: Sample>(&self, sample: T) -> bool {
        sample.is_finite() && sample.to_f64().abs() <= self.magnitude_max && !self.fills.holds(sample)
    }

    /// Whether a codec takes all of these samples of the array; without a branch for each, so that several are looked at at once.
    pub(crate) fn holds_all<T: Sample>(&self, samples: &[T]) -> bool {
        if self.all {
            return true;
        }
        if *self == Self::FINITE {
            return samples.iter().fold(true, |all, sample| all & sample.is_finite());
        }
        samples.iter().fold(true, |all, sample| all & self.holds(*sample))
    }

    /// Whether the samples from an exponent on have no more values than those that stand for something else.
    fn takes_few<T: Sample>(&self, samples: &[T], lowest: usize) -> bool {
        let mut values: Vec<T> = Vec::new();
        samples.iter().filter(|sample| self.holds(**sample) && exponent(**sample) >= lowest).all(|sample| {
            if !values.contains(sample) {
                values.push(*sample);
            }
            values.len() <= FILL_VALUES_MAX
        })
    }
}

/// The number of samples of each exponent; those of the last exponent are no finite numbers.
fn counts_of<T: Sample>(samples: &[T]) -> Vec<u32> {
    // Neighbours mostly have the same exponent: in one table, each would wait for the one before.
    let mut counts = vec![[0_u32; COUNT_LANES]; EXPONENTS];
    for row in samples.chunks(COUNT_LANES) {
        for (lane, sample) in row.iter().enumerate() {
            counts[exponent(*sample) & (EXPONENTS - 1)][lane] += 1;
        }
    }
    counts[EXPONENTS - 1] = [0; COUNT_LANES];
    counts.into_iter().map(|lanes| lanes.iter().sum()).collect()
}

/// The biased exponent of a sample as a double.
#[inline]
fn exponent<T: Sample>(sample: T) -> usize {
    (sample.to_f64().abs().to_bits() >> FRACTION_BITS) as usize
}

#[cfg(test)]
mod tests {
    use super::Ordinary;

    fn waves(count: usize) -> Vec<f32> {
        (0..count).map(|n| 280.0 + 20.0 * (n as f32 * 0.01).sin()).collect()
    }

    fn escaped(samples: &[f32]) -> Vec<f32> {
        let ordinary = Ordinary::of(samples, 1);
        samples.iter().copied().filter(|sample| !ordinary.holds(*sample)).collect()
    }

    #[test]
    fn fill_values_are_none_of_the_field() {
        let mut field = waves(10_000);
        field[2000..5000].fill(1e20);
        field[7000..7500].fill(-9.96921e36);
        assert_eq!(escaped(&field).len(), 3500);
        let mut salinity: Vec<f32> = waves(10_000).iter().map(|value| value / 9.0).collect();
        salinity[..9000].fill(-9999.0);
        assert_eq!(escaped(&salinity).len(), 9000);
    }

    #[test]
    fn rare_outliers_of_any_value_are_none_of_the_field() {
        let mut field = waves(10_000);
        for (place, sample) in field.iter_mut().step_by(1200).enumerate() {
            *sample = 1e9 + place as f32 * 1e8;
        }
        assert_eq!(escaped(&field).len(), 9);
    }

    #[test]
    fn steep_and_sparse_fields_are_taken_whole() {
        assert_eq!(escaped(&waves(10_000)), []);
        let steep: Vec<f32> = (0..10_000).map(|n| (-0.005 * n as f32).exp()).collect();
        assert_eq!(escaped(&steep), []);
        let mut plume = vec![0.0_f32; 10_000];
        plume[17] = 1.0;
        assert_eq!(escaped(&plume), []);
        let mut two_scales = vec![1e-12_f32; 10_000];
        two_scales[..200].copy_from_slice(&waves(200));
        assert_eq!(escaped(&two_scales), []);
        assert_eq!(escaped(&[]), []);
    }

    #[test]
    fn integers_have_fill_values_too() {
        let mut packed: Vec<i16> = (0..5000).map(|n| n % 100).collect();
        packed[..50].fill(i16::MIN);
        let ordinary = Ordinary::of(&packed, 2);
        assert!(!ordinary.holds(i16::MIN) && ordinary.holds(99));
    }
}
