//! Residuals of one level of decimation, those of largest magnitude first.
//!
//! Four neighbours are one record, and a bucket holds the records whose largest residual shares exponent and leading bits:
//! so nothing is sorted, and a record costs little more than its residuals. Within a bucket positions rise, by windows of
//! the level that a second-level cache holds. Residuals are computed twice, to count and to write them, which is cheaper
//! than keeping them. Windows are shared by threads; their borders and sums do not depend on the number of those.

use crate::bytes::{put_integer, Reader};
use crate::judge::{scaled_up, Errors};
use crate::lines::Lines;
use crate::parallel;
use crate::sample::Sample;
use std::ops::Range;

/// Neighbours that make a record.
const RECORD_SAMPLES: usize = 4;
/// Records of a window, whose numbers take two bytes.
const WINDOW_RECORDS: usize = 1 << 14;
const WINDOW_SAMPLES: usize = WINDOW_RECORDS * RECORD_SAMPLES;
/// Bytes of a record's number.
const NUMBER_BYTES: usize = 2;
/// Samples that are estimated at a time: they stay in the first-level cache.
const PIECE_SAMPLES: usize = 2048;
/// Lanes that need not wait for each other.
const LANES: usize = 16;

/// An augmentation, and the error that is left when only its first groups are applied.
pub(crate) struct Augmentation {
    pub(crate) bytes: Vec<u8>,
    /// In the order of their bytes.
    pub(crate) groups: Vec<Group>,
    /// The error that is left when all residuals are applied.
    pub(crate) rounding: Errors,
    /// The error when all samples of the level count as 0, at most.
    pub(crate) nothing: Errors,
}

/// Records of one bucket and window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// The place of its first byte in the augmentation.
    pub(crate) start: usize,
    /// The error of the estimates that its records correct.
    pub(crate) errors: Errors,
}

/// A level and the coarser one that estimates it.
pub(crate) struct Level<'a, T> {
    pub(crate) samples: &'a [T],
    /// The level has every so many samples.
    pub(crate) ratio: usize,
    pub(crate) lines: Lines<'a, T>,
    /// The power of two that errors are multiplied by.
    pub(crate) scale: f64,
}

/// The residuals of a window by bucket.
struct Counted {
    /// Bucket of each record.
    buckets: Vec<u16>,
    /// Used buckets in falling order, with the number of their records and the errors that these correct.
    used: Vec<(u16, u32, Errors)>,
    rounding: Errors,
    magnitude_max: f64,
}

impl<T: Sample> Level<'_, T> {
    /// Equations (1) and (2): the records of the level.
    pub(crate) fn augmentation(&self, threads: usize) -> Augmentation {
        let length = self.samples.len().div_ceil(self.ratio);
        let windows: Vec<Range<usize>> = (0..length)
            .step_by(WINDOW_SAMPLES)
            .map(|start| start..(start + WINDOW_SAMPLES).min(length))
            .collect();
        let counted = parallel::map(windows.len(), threads, |window| self.counted(windows[window].clone()));
        let mut order: Vec<(u16, usize, usize)> = Vec::new();
        for (window, counted) in counted.iter().enumerate() {
            order.extend(counted.used.iter().enumerate().map(|(number, used)| (used.0, window, number)));
        }
        order.sort_unstable_by_key(|(bucket, window, _)| (std::cmp::Reverse(*bucket), *window));
        let record_bytes = record_bytes::<T>();
        let heads: Vec<Vec<u8>> = order
            .iter()
            .map(|(_, window, number)| head(*window, counted[*window].used[*number].1 as usize))
            .collect();
        let lengths = order.iter().zip(&heads).map(|((_, window, number), head)| {
            head.len() + counted[*window].used[*number].1 as usize * record_bytes
        });
        let lengths: Vec<usize> = lengths.collect();
        let mut bytes = vec![0; lengths.iter().sum()];
        let mut places: Vec<Vec<&mut [u8]>> =
            counted.iter().map(|counted| Vec::with_capacity(counted.used.len())).collect();
        let mut groups = Vec::with_capacity(order.len());
        let (mut rest, mut start) = (bytes.as_mut_slice(), 0);
        for (((_, window, number), head), length) in order.iter().zip(&heads).zip(lengths) {
            let group = take(&mut rest, length);
            let (own_head, records) = group.split_at_mut(head.len());
            own_head.copy_from_slice(head);
            places[*window].push(records);
            groups.push(Group { start, errors: counted[*window].used[*number].2 });
            start += length;
        }
        let work = windows.into_iter().zip(counted.iter().zip(places)).collect();
        parallel::for_each(work, threads, |(window, (counted, places))| self.spread(window, counted, places));
        let rounding = counted.iter().fold(Errors::default(), |errors, counted| errors.and(counted.rounding));
        let largest = counted.iter().fold(0.0, |most: f64, counted| most.max(counted.magnitude_max));
        let nothing = Errors { squares: largest * largest * length as f64, largest };
        Augmentation { bytes, groups, rounding, nothing }
    }

    /// Counts the residuals of a window.
    fn counted(&self, window: Range<usize>) -> Counted {
        if self.scale == 1.0 {
            self.counted_by(window, |distance| distance)
        } else {
            self.counted_by(window, |distance| scaled_up(distance, self.scale))
        }
    }

    /// Each sum is a loop of its own over a piece, so that it runs over several samples at once.
    #[inline(always)]
    fn counted_by(&self, window: Range<usize>, scaled: impl Fn(f64) -> f64) -> Counted {
        let mut all = vec![(0_u32, Errors::default()); T::BUCKETS];
        let mut buckets = Vec::with_capacity(window.len().div_ceil(RECORD_SAMPLES));
        let mut rounding = Errors::default();
        let (mut lows, mut highs) = ([T::default(); LANES], [T::default(); LANES]);
        let mut errors = vec![0.0_f64; PIECE_SAMPLES.min(window.len())];
        let mut restored = vec![T::default(); errors.len()];
        self.for_each_piece(window, |_, samples, estimates, residuals| {
            let errors = &mut errors[..samples.len()];
            for (error, (sample, estimate)) in errors.iter_mut().zip(samples.iter().zip(estimates)) {
                *error = scaled(sample.difference(*estimate));
            }
            let records = residuals.chunks(RECORD_SAMPLES).zip(errors.chunks(RECORD_SAMPLES));
            for (residuals, errors) in records {
                let own = match <&[T; RECORD_SAMPLES]>::try_from(residuals) {
                    Ok(whole) => whole.map(T::bucket).into_iter().fold(0, u16::max),
                    Err(_) => residuals.iter().map(|residual| residual.bucket()).fold(0, u16::max),
                };
                let record = match <&[f64; RECORD_SAMPLES]>::try_from(errors) {
                    Ok(whole) => sum_of(whole),
                    Err(_) => sum_of(errors),
                };
                let (count, errors) = &mut all[usize::from(own)];
                *count += 1;
                *errors = errors.and(record);
                buckets.push(own);
            }
            let restored = &mut restored[..samples.len()];
            for (restored, (estimate, residual)) in restored.iter_mut().zip(estimates.iter().zip(residuals)) {
                *restored = estimate.plus(*residual);
            }
            let lost = |one: T, other: T| {
                let distance = one.difference(other);
                // The sum of infinities of both signs is no number.
                scaled(if distance.is_nan() { f64::INFINITY } else { distance })
            };
            rounding = rounding.and(Errors::of(samples, restored, lost));
            extremes(samples, &mut lows, &mut highs);
        });
        let used = all.iter().enumerate().skip(1).rev().filter(|(_, (count, _))| *count > 0);
        let used = used.map(|(bucket, (count, errors))| (bucket as u16, *count, *errors)).collect();
        let magnitudes = lows.into_iter().chain(highs).map(|sample| scaled(sample.to_f64().abs()));
        Counted { buckets, used, rounding, magnitude_max: magnitudes.fold(0.0, f64::max) }
    }

    /// Puts the records of a window into their places: one for each used bucket.
    fn spread(&self, window: Range<usize>, counted: &Counted, mut places: Vec<&mut [u8]>) {
        let mut place_of = vec![0_u16; T::BUCKETS];
        for (place, (bucket, ..)) in counted.used.iter().enumerate() {
            place_of[usize::from(*bucket)] = place as u16;
        }
        let width = T::KIND.bytes();
        let first = window.start;
        self.for_each_piece(window, |start, _, _, residuals| {
            let records = residuals.chunks(RECORD_SAMPLES);
            for (number, residuals) in ((start - first) / RECORD_SAMPLES..).zip(records) {
                let bucket = counted.buckets[number];
                if bucket == 0 {
                    continue;
                }
                let place = &mut places[usize::from(place_of[usize::from(bucket)])];
                let (position, values) = take(place, record_bytes::<T>()).split_at_mut(NUMBER_BYTES);
                position.copy_from_slice(&(number as u16).to_le_bytes());
                let values = values.chunks_exact_mut(width);
                match <&[T; RECORD_SAMPLES]>::try_from(residuals) {
                    Ok(whole) => values.zip(whole).for_each(|(bytes, residual)| residual.put(bytes)),
                    Err(_) => values.zip(residuals).for_each(|(bytes, residual)| residual.put(bytes)),
                }
            }
        });
    }

    /// Calls `work` with the beginning of each piece of a window, its samples, their estimates and residuals.
    #[inline(always)]
    fn for_each_piece(&self, window: Range<usize>, mut work: impl FnMut(usize, &[T], &[T], &[T])) {
        let mut estimates = vec![T::default(); PIECE_SAMPLES.min(window.len())];
        let mut residuals = estimates.clone();
        let mut gathered = Vec::new();
        for start in window.clone().step_by(PIECE_SAMPLES) {
            let count = PIECE_SAMPLES.min(window.end - start);
            let estimates = &mut estimates[..count];
            self.lines.estimate(start, estimates);
            let samples = if self.ratio == 1 {
                &self.samples[start..start + count]
            } else {
                gathered.clear();
                let own = self.samples[start * self.ratio..].iter().step_by(self.ratio);
                gathered.extend(own.take(count));
                gathered.as_slice()
            };
            let residuals = &mut residuals[..count];
            for (residual, (sample, estimate)) in residuals.iter_mut().zip(samples.iter().zip(&*estimates)) {
                *residual = sample.minus(*estimate);
            }
            work(start, samples, estimates, residuals);
        }
    }
}

/// Equations (3) and (4): adds the residuals that are there to the estimate.
pub(crate) fn correct<T: Sample>(level: &mut [T], augmentation: &[u8], threads: usize) {
    let mut groups: Vec<Vec<&[u8]>> = vec![Vec::new(); level.len().div_ceil(WINDOW_SAMPLES)];
    let mut reader = Reader::new(augmentation);
    let record_bytes = record_bytes::<T>();
    while let (Some(window), Some(count)) = (reader.length(), reader.length()) {
        // No group is empty: one takes as many bytes as are kept of it, or more.
        let Some(groups) = groups.get_mut(window).filter(|_| count > 0) else { break };
        let there = reader.rest().len() / record_bytes;
        groups.extend(reader.take(count.min(there) * record_bytes));
        if count > there {
            break;
        }
    }
    let work = level.chunks_mut(WINDOW_SAMPLES).zip(groups).collect();
    parallel::for_each(work, threads, |(window, groups): (&mut [T], Vec<&[u8]>)| {
        for record in groups.iter().flat_map(|records| records.chunks_exact(record_bytes)) {
            let (position, residuals) = record.split_at(NUMBER_BYTES);
            let start = usize::from(u16::from_le_bytes([position[0], position[1]])) * RECORD_SAMPLES;
            let residuals = residuals.chunks_exact(T::KIND.bytes());
            let add = |(sample, bytes): (&mut T, &[u8])| *sample = sample.plus(T::take(bytes));
            match window.get_mut(start..).unwrap_or_default() {
                [a, b, c, d, ..] => [a, b, c, d].into_iter().zip(residuals).for_each(add),
                few => few.iter_mut().zip(residuals).for_each(add),
            }
        }
    });
}

/// Lowers and raises each lane to its samples.
#[inline(always)]
fn extremes<T: Sample>(samples: &[T], lows: &mut [T; LANES], highs: &mut [T; LANES]) {
    for row in samples.chunks(LANES) {
        for ((low, high), sample) in lows.iter_mut().zip(highs.iter_mut()).zip(row) {
            *low = if *sample < *low { *sample } else { *low };
            *high = if *sample > *high { *sample } else { *high };
        }
    }
}

/// The errors of a record's samples.
#[inline(always)]
fn sum_of(errors: &[f64]) -> Errors {
    errors.iter().fold(Errors::default(), |sum, error| Errors {
        squares: sum.squares + error * error,
        largest: if *error > sum.largest { *error } else { sum.largest },
    })
}

#[inline(always)]
fn record_bytes<T: Sample>() -> usize {
    NUMBER_BYTES + RECORD_SAMPLES * T::KIND.bytes()
}

/// The beginning of a group: the number of its window, and of its records.
fn head(window: usize, records: usize) -> Vec<u8> {
    let mut head = Vec::new();
    put_integer(window as u64, &mut head);
    put_integer(records as u64, &mut head);
    head
}

/// The first bytes of `rest`, which keeps the bytes behind them.
#[inline(always)]
fn take<'a>(rest: &mut &'a mut [u8], count: usize) -> &'a mut [u8] {
    let (taken, behind) = std::mem::take(rest).split_at_mut(count);
    *rest = behind;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Window and number of each record, with its residuals.
    fn records<T: Sample>(bytes: &[u8]) -> Vec<(usize, usize, Vec<T>)> {
        let (mut reader, mut records) = (Reader::new(bytes), Vec::new());
        while let (Some(window), Some(count)) = (reader.length(), reader.length()) {
            for _ in 0..count {
                let record = reader.take(record_bytes::<T>()).expect("a whole record");
                let number = u16::from_le_bytes([record[0], record[1]]);
                let residuals = record[NUMBER_BYTES..].chunks_exact(T::KIND.bytes()).map(T::take).collect();
                records.push((window, usize::from(number), residuals));
            }
        }
        records
    }

    proptest! {
        #[test]
        fn records_fall_in_magnitude(samples in proptest::collection::vec(any::<i32>(), 1..400), step in 2_usize..9, narrow in 0..30) {
            // No residual wraps round.
            let samples: Vec<i32> = samples.iter().map(|sample| sample >> (narrow + 1)).collect();
            let coarse: Vec<i32> = samples.iter().copied().step_by(step).collect();
            let lines = Lines { coarse: &coarse, step };
            let level = Level { samples: &samples, ratio: 1, lines, scale: 1.0 };
            let found = level.augmentation(2);
            let records = records::<i32>(&found.bytes);
            let largest = |residuals: &[i32]| residuals.iter().map(|residual| residual.bucket()).max().unwrap_or(0);
            for pair in records.windows(2) {
                let (one, other) = (largest(&pair[0].2), largest(&pair[1].2));
                prop_assert!(one > other || one == other && pair[0].1 < pair[1].1);
            }
            let mut restored = vec![0; samples.len()];
            level.lines.estimate(0, &mut restored);
            correct(&mut restored, &found.bytes, 2);
            prop_assert_eq!(&restored, &samples);
            let squares: f64 = records.iter().flat_map(|record| &record.2).map(|residual| f64::from(*residual).powi(2)).sum();
            let told: f64 = found.groups.iter().map(|group| group.errors.squares).sum();
            prop_assert!((told - squares).abs() <= 1e-9 * squares);
        }

        #[test]
        fn buckets_rise_with_magnitude(one in any::<u64>(), other in any::<u64>()) {
            fn check<T: Sample>(one: T, other: T) {
                let magnitude = |value: T| value.to_f64().abs();
                if magnitude(one) < magnitude(other) {
                    assert!(one.bucket() <= other.bucket(), "{one:?} {other:?}");
                }
                assert_eq!(one.bucket() == 0, magnitude(one) == 0.0);
                assert!(usize::from(one.bucket()) < T::BUCKETS);
                // At most an eighth of an octave apart.
                if one.bucket() == other.bucket() && magnitude(one) > 1e-30 {
                    assert!(magnitude(one) <= 1.126 * magnitude(other) || !magnitude(one).is_finite());
                }
            }
            check(f32::from_bits(one as u32), f32::from_bits(other as u32));
            check(f64::from_bits(one), f64::from_bits(other));
            check(one as i8, other as i8);
            check(one as i32, other as i32);
            check(one as i64, other as i64);
        }

        #[test]
        fn hostile_groups_are_taken_as_far_as_they_go(bytes in proptest::collection::vec(any::<u8>(), 0..200), length in 0_usize..300) {
            let mut level = vec![0_i16; length];
            correct(&mut level, &bytes, 1);
            let mut level = vec![0.0_f64; length];
            correct(&mut level, &bytes, 2);
        }
    }
}
