//! Fill values: values that mark a sample as missing.
//!
//! A fill value is stored exactly, wherever it lies among the data, and is no part of any measure of errors. No other
//! sample is restored as one: a reader that masks by value would lose the sample.

use crate::bytes::Reader;
use crate::planes::Number;
use crate::sample::Sample;

/// Most fill values of an array: files state one `_FillValue` and a few values of `missing_value`.
pub const FILLS_MAX: usize = 8;

/// A fill value of an array, by [`Sample::key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill(u64);

impl Fill {
    /// The fill value that equals a sample; both zeros are one.
    pub fn of<T: Sample>(sample: T) -> Self {
        Self(sample.key())
    }

    /// The value as a sample.
    pub fn sample<T: Sample>(self) -> T {
        T::from_key(self.0)
    }
}

/// The finite fill values of an array. Samples that are no finite numbers are not coded in any array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fills {
    keys: [u64; FILLS_MAX],
    count: usize,
}

impl Fills {
    pub(crate) const NONE: Self = Self { keys: [0; FILLS_MAX], count: 0 };

    /// The first [`FILLS_MAX`] finite ones.
    pub(crate) fn finite<T: Sample>(fills: &[Fill]) -> Self {
        let mut all = Self::NONE;
        for fill in fills.iter().filter(|fill| fill.sample::<T>().is_finite()).take(FILLS_MAX) {
            all.keys[all.count] = fill.0;
            all.count += 1;
        }
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(crate) fn holds<T: Sample>(&self, sample: T) -> bool {
        self.count > 0 && self.keys[..self.count].contains(&sample.key())
    }
}

/// The values that restored samples have in place of the fill values that a codec happened to estimate.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Apart<T> {
    /// Each fill value, and the value in its place.
    pairs: Vec<(T, T)>,
    /// The most that an error may grow by it.
    distance: f64,
}

impl<T: Number> Apart<T> {
    /// For an array whose other samples lie in a range. In place of a fill value outside of the range stands the near
    /// end of the range, to which no sample is farther than to the fill value.
    pub(crate) fn new(fills: &[Fill], range: (f64, f64)) -> Self {
        let all = Fills::finite::<T>(fills);
        let (least, most) = (T::from_f64(range.0), T::from_f64(range.1));
        let mut apart = Self { pairs: Vec::new(), distance: 0.0 };
        for fill in all.keys[..all.count].iter().map(|key| T::from_key(*key)) {
            let other = |start: T, step: fn(T) -> T| {
                std::iter::successors(Some(start), |sample| Some(step(*sample)))
                    .take(FILLS_MAX + 1)
                    .find(|sample| !all.holds(*sample) && (least..=most).contains(sample))
            };
            let start = if fill < least {
                least
            } else if fill > most {
                most
            } else {
                fill
            };
            let Some(stand_in) = other(start, T::above).or_else(|| other(start, T::below)) else { continue };
            if start == fill {
                apart.distance = apart.distance.max(fill.difference(stand_in));
            }
            apart.pairs.push((fill, stand_in));
        }
        apart
    }
}

impl<T: Sample> Apart<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The most that an error may grow.
    pub(crate) fn distance(&self) -> f64 {
        self.distance
    }

    /// A restored sample, or the value in its place if it is a fill value.
    #[inline]
    pub(crate) fn of(&self, sample: T) -> T {
        self.pairs.iter().find(|(fill, _)| *fill == sample).map_or(sample, |(_, other)| *other)
    }
}

/// Appends the number of fill values, and their keys.
pub(crate) fn put(fills: &[Fill], bytes: &mut Vec<u8>) {
    bytes.push(fills.len() as u8);
    fills.iter().for_each(|fill| bytes.extend_from_slice(&fill.0.to_le_bytes()));
}

/// Takes the fill values that [`put`] appended; none if there are none or too many.
pub(crate) fn take(reader: &mut Reader<'_>) -> Option<Vec<Fill>> {
    let count = reader.byte().filter(|count| (1..=FILLS_MAX).contains(&usize::from(*count)))?;
    let key = |bytes: &[u8]| Some(Fill(u64::from_le_bytes(bytes.try_into().ok()?)));
    (0..count).map(|_| reader.take(8).and_then(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sample_is_restored_as_a_fill_value() {
        let fills = [Fill::of(3_i16), Fill::of(4_i16), Fill::of(i16::MIN)];
        let apart = Apart::<i16>::new(&fills, (-7.0, 4.0));
        assert_eq!([3, 4, i16::MIN, 5].map(|sample| apart.of(sample)), [2, 2, -7, 5]);
        assert_eq!(apart.distance(), 2.0);
        let apart = Apart::<f32>::new(&[Fill::of(-9999.0_f32), Fill::of(f32::NAN)], (250.0, 310.0));
        assert_eq!((apart.of(-9999.0), apart.of(280.0), apart.distance()), (250.0, 280.0, 0.0));
        let apart = Apart::<f64>::new(&[Fill::of(-0.0_f64)], (-1.0, 1.0));
        assert_eq!(apart.of(0.0), 0.0_f64.next_up());
    }

    #[test]
    fn values_of_every_kind_come_back() {
        assert_eq!(Fill::of(u64::MAX).sample::<u64>(), u64::MAX);
        assert_eq!(Fill::of(i64::MIN + 1).sample::<i64>(), i64::MIN + 1);
        assert_eq!(Fill::of(-9_i8).sample::<i8>(), -9);
        assert_eq!(Fill::of(1e20_f32).sample::<f32>(), 1e20);
        let mut bytes = Vec::new();
        put(&[Fill::of(f64::NAN), Fill::of(-999.0)], &mut bytes);
        let taken = take(&mut Reader::new(&bytes)).expect("whole");
        assert!(taken[0].sample::<f64>().is_nan() && taken[1].sample::<f64>() == -999.0);
        assert_eq!(take(&mut Reader::new(&[9; 100])), None);
    }
}
