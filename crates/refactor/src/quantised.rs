//! Floats that take few values: integers in disguise, packed 16-bit data, counts.
//!
//! Their values are listed once; samples become places in the list, which the reversible integer transform codes. So
//! they are restored without loss long before a transform of floats would have got to their last bits.

use crate::bytes::{put_integer, Reader};
use crate::codec::{Coded, TileCodec};
use crate::escape::decompressed;
use crate::judge::{Converted, Measuring};
use crate::ordinary::Ordinary;
use crate::pieces::Pieces;
use crate::planes::{Number, Settings};
use crate::sample::Sample;
use std::borrow::Cow;

/// Most values in a list.
const VALUES_MAX: usize = 1 << 16;
/// A list must be used by so many samples for each of its values.
const SAMPLES_PER_VALUE: usize = 16;
/// Values must lie so near to a straight line, as a part of their range, that errors of places are errors of values.
const CURVATURE_MAX: f64 = 0.02;
/// Samples looked at before all are.
const PROBES: usize = 4096;

/// Codes places in a list of values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantised<T> {
    pub(crate) settings: Settings,
    pub(crate) values: Vec<T>,
}

/// The values of floats that take few of them, in rising order; none if they take many or crookedly spaced ones.
pub(crate) fn values_of<T: Number>(samples: &[T], ordinary: Ordinary) -> Option<Vec<T>> {
    if T::INTEGER || samples.len() < 2 * SAMPLES_PER_VALUE {
        return None;
    }
    let most = (samples.len() / SAMPLES_PER_VALUE).min(VALUES_MAX);
    // Continuous data shows almost as many values as samples.
    let step = samples.len().div_ceil(PROBES);
    let probes: Vec<T> = samples.iter().copied().step_by(step).collect();
    if distinct(probes.clone()).len() > most.min(probes.len() * 3 / 4) {
        return None;
    }
    let mut seen = std::collections::HashSet::new();
    let mut last = None;
    for sample in samples.iter().filter(|sample| ordinary.holds(**sample)) {
        let bits = sample.to_f64().to_bits();
        if last != Some(bits) && seen.insert(bits) && seen.len() > most {
            return None;
        }
        last = Some(bits);
    }
    let mut values: Vec<T> = seen.into_iter().map(|bits| T::from_f64(f64::from_bits(bits))).collect();
    values.sort_unstable_by(|one, other| one.to_f64().total_cmp(&other.to_f64()));
    (values.len() > 1 && is_straight(&values)).then_some(values)
}

fn distinct<T: Sample>(samples: Vec<T>) -> Vec<u64> {
    let mut bits: Vec<u64> = samples.iter().map(|sample| sample.to_f64().to_bits()).collect();
    bits.sort_unstable();
    bits.dedup();
    bits
}

fn is_straight<T: Sample>(values: &[T]) -> bool {
    let (first, last) = (values[0].to_f64(), values[values.len() - 1].to_f64());
    let step = mean_step(values);
    let off = |(place, value): (usize, &T)| (value.to_f64() - first - step * place as f64).abs();
    values.iter().enumerate().map(off).all(|off| off <= CURVATURE_MAX * (last - first) + step)
}

/// The mean distance of neighbouring values, of which there are at least two.
pub(crate) fn mean_step<T: Sample>(values: &[T]) -> f64 {
    (values[values.len() - 1].to_f64() - values[0].to_f64()) / (values.len() - 1) as f64
}

impl<T: Number> Quantised<T> {
    fn place(&self, sample: T) -> i32 {
        let before = |value: &T| value.to_f64().total_cmp(&sample.to_f64()).is_lt();
        self.values.partition_point(before) as i32
    }

    fn value(&self, place: i32) -> T {
        self.values[place.clamp(0, self.values.len() as i32 - 1) as usize]
    }

    /// The list for the header: bits of the values, each less the one before, twice.
    pub(crate) fn put_values(values: &[T], bytes: &mut Vec<u8>) {
        let mut plain = Vec::new();
        let (mut before, mut difference) = (0_u64, 0_u64);
        for value in values {
            let bits = value.to_f64().to_bits();
            let next = bits.wrapping_sub(before);
            plain.extend_from_slice(&next.wrapping_sub(difference).to_le_bytes());
            (before, difference) = (bits, next);
        }
        let shuffled: Vec<u8> = (0..8).flat_map(|byte| plain.iter().skip(byte).step_by(8).copied()).collect();
        let packed = zstd::bulk::compress(&shuffled, 9).unwrap_or_default();
        put_integer(values.len() as u64, bytes);
        put_integer(packed.len() as u64, bytes);
        bytes.extend_from_slice(&packed);
    }

    pub(crate) fn take_values(reader: &mut Reader<'_>) -> Option<Vec<f64>> {
        let count = reader.length().filter(|count| (2..=VALUES_MAX).contains(count))?;
        let length = reader.length()?;
        let shuffled =
            decompressed(reader.take(length)?, count * 8).filter(|bytes| bytes.len() == count * 8)?;
        let (mut before, mut difference) = (0_u64, 0_u64);
        let value = |place: usize| {
            let second =
                (0..8).fold(0, |sum, byte| sum | u64::from(shuffled[byte * count + place]) << (8 * byte));
            difference = difference.wrapping_add(second);
            before = before.wrapping_add(difference);
            f64::from_bits(before)
        };
        Some((0..count).map(value).collect())
    }
}

impl<T: Number> TileCodec<T> for Quantised<T> {
    fn encode<'a>(
        &self,
        samples: Cow<'a, [T]>,
        shape: [usize; 4],
        threads: usize,
        measuring: &Measuring<'_, T>,
    ) -> Coded<'a>
    where
        T: 'a,
    {
        let mut before = (samples.first().copied().unwrap_or_default(), 0);
        before.1 = self.place(before.0);
        let places: Vec<i32> = samples
            .iter()
            .map(|sample| {
                if *sample != before.0 {
                    before = (*sample, self.place(*sample));
                }
                before.1
            })
            .collect();
        let judge = Converted { judge: measuring.judge, convert: |place: i32| self.value(place) };
        let unit = measuring.unit * mean_step(&self.values);
        self.settings.encode(Cow::Owned(places), shape, threads, &measuring.converted(&judge, unit))
    }

    fn decode(&self, shape: [usize; 4], segments: &[Pieces<'_>], threads: usize, samples: &mut [T]) {
        let mut places = vec![0_i32; samples.len()];
        self.settings.decode(shape, segments, threads, &mut places);
        samples.iter_mut().zip(places).for_each(|(sample, place)| *sample = self.value(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_and_smooth_data_has_none() {
        let packed: Vec<f32> = (0..20_000).map(|n: i32| (n * 7919 % 777) as f32 * 0.01 + 273.15).collect();
        let values = values_of(&packed, Ordinary::FINITE).expect("few values");
        assert!(values.len() < 778);
        let mut bytes = Vec::new();
        Quantised::put_values(&values, &mut bytes);
        let back = Quantised::<f32>::take_values(&mut Reader::new(&bytes)).expect("whole");
        assert_eq!(back.iter().map(|value| *value as f32).collect::<Vec<_>>(), values);
        let smooth: Vec<f32> = (0..20_000).map(|n| (n as f32 * 0.01).sin()).collect();
        assert!(values_of(&smooth, Ordinary::FINITE).is_none());
        let powers: Vec<f64> = (0..2000).map(|n| 2.0_f64.powi(n % 30)).collect();
        assert!(values_of(&powers, Ordinary::FINITE).is_none());
    }
}
