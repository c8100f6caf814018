//! Residuals of one level of decimation, those of largest magnitude first.
//!
//! Four neighbours are one record, and a bucket holds the records whose largest residual shares exponent and leading bits:
//! so nothing is sorted, and a record costs little more than its residuals. Within a bucket positions rise, by windows of
//! the level that a second-level cache holds. Residuals are computed twice, to count and to write them, which is cheaper
//! than keeping them. A window is written in that cache first, since each bucket of it lies elsewhere in the container.
//! Windows are shared by threads; their borders and sums do not depend on the number of those.

use crate::bytes::put_integer;
use crate::codec::Deferred;
use crate::judge::{scaled_up, Errors};
use crate::lines::Lines;
use crate::parallel;
use crate::planes::{dispatch, Kernel, Words};
use crate::sample::{put_all, Sample};
use std::borrow::Cow;
use std::ops::Range;

/// Neighbours that make a record.
pub(crate) const RECORD_SAMPLES: usize = 4;
/// Records of a window, whose numbers take two bytes.
const WINDOW_RECORDS: usize = 1 << 14;
pub(crate) const WINDOW_SAMPLES: usize = WINDOW_RECORDS * RECORD_SAMPLES;
/// Bytes of a record's number.
pub(crate) const NUMBER_BYTES: usize = 2;
/// Samples that are estimated at a time: all that is computed of them stays in the first-level cache.
const PIECE_SAMPLES: usize = PIECE_RECORDS * RECORD_SAMPLES;
const PIECE_RECORDS: usize = 256;
/// Lanes that need not wait for each other.
const LANES: usize = 16;

/// Records of one bucket and window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// The place of its first byte in the augmentation.
    pub(crate) start: usize,
    /// The error of the estimates that its records correct.
    pub(crate) errors: Errors,
}

/// A level and the coarser one that estimates it.
pub(crate) struct Level<'a, T: Sample> {
    pub(crate) samples: Cow<'a, [T]>,
    /// The level has every so many samples.
    pub(crate) ratio: usize,
    pub(crate) coarse: Vec<T>,
    /// The distance of the coarser level's samples in the level.
    pub(crate) step: usize,
    /// The power of two that errors are multiplied by.
    pub(crate) scale: f64,
}

/// The residuals of a level, counted and not written yet.
pub(crate) struct Augmentation<'a, T: Sample> {
    level: Level<'a, T>,
    windows: Vec<Counted>,
    /// Window and bytes of each group, in the order of their bytes.
    order: Vec<(usize, usize)>,
    proof: Proof,
}

/// The errors that are left when only the first groups of an augmentation are applied.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    /// The number of bytes of the augmentation.
    pub(crate) length: usize,
    /// In the order of their bytes.
    pub(crate) groups: Vec<Group>,
    /// The error that is left when all residuals are applied.
    pub(crate) rounding: Errors,
    /// The error when all samples of the level count as 0, at most.
    pub(crate) nothing: Errors,
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

impl<'a, T: Sample> Augmentation<'a, T> {
    /// The residuals of a level.
    pub(crate) fn new(level: Level<'a, T>, threads: usize) -> Self {
        let count = level.length().div_ceil(WINDOW_SAMPLES);
        let windows = parallel::map(count, threads, |window| dispatch(Counting { level: &level, window }));
        let mut keys: Vec<(u16, usize, usize)> = Vec::new();
        for (window, counted) in windows.iter().enumerate() {
            keys.extend(counted.used.iter().enumerate().map(|(number, used)| (used.0, window, number)));
        }
        keys.sort_unstable_by_key(|(bucket, window, _)| (std::cmp::Reverse(*bucket), *window));
        let (mut order, mut groups) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        let (mut head, mut length) = (Vec::new(), 0);
        for (_, window, number) in keys {
            let (_, records, errors) = windows[window].used[number];
            head.clear();
            put_head(window, records, &mut head);
            let bytes = head.len() + records as usize * record_bytes::<T>();
            order.push((window, bytes));
            groups.push(Group { start: length, errors });
            length += bytes;
        }
        let rounding = windows.iter().fold(Errors::default(), |errors, counted| errors.and(counted.rounding));
        let largest = windows.iter().fold(0.0, |most: f64, counted| most.max(counted.magnitude_max));
        let nothing = Errors { squares: largest * largest * level.length() as f64, largest };
        Self { level, windows, order, proof: Proof { length, groups, rounding, nothing } }
    }

    /// The errors that it leaves.
    pub(crate) fn proof(&self) -> Proof {
        self.proof.clone()
    }

    /// The samples of the coarser level, and their distance.
    pub(crate) fn lines(&self) -> Lines<'_, T> {
        self.level.lines()
    }
}

impl<T: Sample> Deferred for Augmentation<'_, T> {
    fn length(&self) -> usize {
        self.proof.length
    }

    fn write(&self, places: Vec<&mut [u8]>, threads: usize) {
        let mut of_windows: Vec<Vec<&mut [u8]>> =
            self.windows.iter().map(|counted| Vec::with_capacity(counted.used.len())).collect();
        let mut places = places.into_iter();
        let mut rest: &mut [u8] = &mut [];
        for (window, length) in &self.order {
            let mut missing = *length;
            while missing > 0 {
                if rest.is_empty() {
                    let Some(next) = places.next() else { return };
                    rest = next;
                }
                let count = missing.min(rest.len());
                let (taken, behind) = std::mem::take(&mut rest).split_at_mut(count);
                missing -= count;
                of_windows[*window].push(taken);
                rest = behind;
            }
        }
        let work = of_windows.into_iter().enumerate().collect();
        parallel::for_each_with(work, threads, Vec::new, |bytes: &mut Vec<u8>, (number, places)| {
            dispatch(Writing { level: &self.level, number, counted: &self.windows[number], bytes });
            let mut bytes = bytes.as_slice();
            for place in places {
                let (own, behind) = bytes.split_at(place.len());
                place.copy_from_slice(own);
                bytes = behind;
            }
        });
    }
}

impl<T: Sample> Level<'_, T> {
    fn length(&self) -> usize {
        self.samples.len().div_ceil(self.ratio)
    }

    fn lines(&self) -> Lines<'_, T> {
        Lines { coarse: &self.coarse, step: self.step }
    }

    fn window(&self, number: usize) -> Range<usize> {
        let start = number * WINDOW_SAMPLES;
        start..(start + WINDOW_SAMPLES).min(self.length())
    }

    /// Each sum is a loop of its own over a piece, so that it runs over several samples at once.
    #[inline(always)]
    fn counted_by(&self, window: Range<usize>, scaled: impl Fn(f64) -> f64) -> Counted {
        let mut all = vec![(0_u32, Errors::default()); T::BUCKETS];
        let mut buckets = vec![0; window.len().div_ceil(RECORD_SAMPLES)];
        let mut rounding = Errors::default();
        let (mut lows, mut highs) = ([T::default(); LANES], [T::default(); LANES]);
        let mut errors = [0.0_f64; PIECE_SAMPLES];
        let mut sums = [Errors::default(); PIECE_RECORDS];
        let mut restored = [T::default(); PIECE_SAMPLES];
        self.for_each_piece(window, |number, samples, estimates, records| {
            for (error, (sample, estimate)) in errors.iter_mut().zip(samples.iter().zip(estimates)) {
                *error = scaled(sample.difference(*estimate));
            }
            errors[samples.len()..].fill(0.0);
            for (sum, errors) in sums.iter_mut().zip(errors.as_chunks().0) {
                *sum = sum_of(errors);
            }
            let buckets = &mut buckets[number..number + records.len()];
            for (bucket, residuals) in buckets.iter_mut().zip(records) {
                *bucket = residuals.map(T::bucket).into_iter().fold(0, u16::max);
            }
            for (bucket, sum) in buckets.iter().zip(&sums) {
                let (count, errors) = &mut all[usize::from(*bucket)];
                *count += 1;
                *errors = Errors {
                    squares: errors.squares + sum.squares,
                    largest: if sum.largest > errors.largest { sum.largest } else { errors.largest },
                };
            }
            let restored = &mut restored[..samples.len()];
            let corrected = estimates.iter().zip(records.as_flattened());
            for (restored, (estimate, residual)) in restored.iter_mut().zip(corrected) {
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

    /// Calls `work` with the number in the window of each piece's first record, the samples of the piece, their estimates
    /// and the records of their residuals, which end with zeros.
    #[inline(always)]
    fn for_each_piece(
        &self,
        window: Range<usize>,
        mut work: impl FnMut(usize, &[T], &[T], &[[T; RECORD_SAMPLES]]),
    ) {
        let mut estimates = [T::default(); PIECE_SAMPLES];
        let mut residuals = [[T::default(); RECORD_SAMPLES]; PIECE_RECORDS];
        let mut gathered = Vec::new();
        for start in window.clone().step_by(PIECE_SAMPLES) {
            let count = PIECE_SAMPLES.min(window.end - start);
            let estimates = &mut estimates[..count];
            self.lines().estimate(start, estimates);
            let samples = if self.ratio == 1 {
                &self.samples[start..start + count]
            } else {
                gathered.clear();
                let own = self.samples[start * self.ratio..].iter().step_by(self.ratio);
                gathered.extend(own.take(count));
                gathered.as_slice()
            };
            let flat = residuals.as_flattened_mut();
            for (residual, (sample, estimate)) in flat.iter_mut().zip(samples.iter().zip(&*estimates)) {
                *residual = sample.minus(*estimate);
            }
            flat[count..].fill(T::default());
            let records = &residuals[..count.div_ceil(RECORD_SAMPLES)];
            work((start - window.start) / RECORD_SAMPLES, samples, estimates, records);
        }
    }

    /// The groups of a window one behind the other, each with its head.
    #[inline(always)]
    fn written(&self, number: usize, counted: &Counted, bytes: &mut Vec<u8>) {
        let record_bytes = record_bytes::<T>();
        bytes.clear();
        let mut places = vec![0; T::BUCKETS];
        for (bucket, count, _) in &counted.used {
            put_head(number, *count, bytes);
            places[usize::from(*bucket)] = bytes.len();
            bytes.resize(bytes.len() + *count as usize * record_bytes, 0);
        }
        self.for_each_piece(self.window(number), |first, _, _, records| {
            for ((number, bucket), residuals) in (first..).zip(&counted.buckets[first..]).zip(records) {
                if *bucket == 0 {
                    continue;
                }
                let place = &mut places[usize::from(*bucket)];
                let record = &mut bytes[*place..*place + record_bytes];
                let (position, values) = record.split_at_mut(NUMBER_BYTES);
                position.copy_from_slice(&(number as u16).to_le_bytes());
                put_all(residuals, values);
                *place += record_bytes;
            }
        });
    }
}

/// Counts the residuals of a window by the processor's own instructions.
struct Counting<'a, T: Sample> {
    level: &'a Level<'a, T>,
    window: usize,
}

impl<T: Sample> Kernel for Counting<'_, T> {
    type Output = Counted;

    #[inline(always)]
    fn run<W: Words>(self, _words: W) -> Counted {
        let (window, scale) = (self.level.window(self.window), self.level.scale);
        if scale == 1.0 {
            self.level.counted_by(window, |distance| distance)
        } else {
            self.level.counted_by(window, |distance| scaled_up(distance, scale))
        }
    }
}

/// Writes the groups of a window by the processor's own instructions.
struct Writing<'a, T: Sample> {
    level: &'a Level<'a, T>,
    number: usize,
    counted: &'a Counted,
    bytes: &'a mut Vec<u8>,
}

impl<T: Sample> Kernel for Writing<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self, _words: W) {
        self.level.written(self.number, self.counted, self.bytes);
    }
}

/// Lowers and raises each lane to its samples.
#[inline(always)]
fn extremes<T: Sample>(samples: &[T], lows: &mut [T; LANES], highs: &mut [T; LANES]) {
    let mut widen = |row: &[T]| {
        for ((low, high), sample) in lows.iter_mut().zip(highs.iter_mut()).zip(row) {
            *low = if *sample < *low { *sample } else { *low };
            *high = if *sample > *high { *sample } else { *high };
        }
    };
    let (rows, rest) = samples.as_chunks::<LANES>();
    rows.iter().for_each(|row| widen(row));
    widen(rest);
}

/// The errors of a record's samples.
#[inline(always)]
fn sum_of(errors: &[f64; RECORD_SAMPLES]) -> Errors {
    let [a, b, c, d] = errors.map(|error| error * error);
    let greater = |one: f64, other: f64| if one > other { one } else { other };
    let [e, f, g, h] = *errors;
    Errors { squares: (a + b) + (c + d), largest: greater(greater(e, f), greater(g, h)) }
}

#[inline(always)]
pub(crate) fn record_bytes<T: Sample>() -> usize {
    NUMBER_BYTES + RECORD_SAMPLES * T::KIND.bytes()
}

/// Appends the beginning of a group: the number of its window, and of its records.
fn put_head(window: usize, records: u32, bytes: &mut Vec<u8>) {
    put_integer(window as u64, bytes);
    put_integer(records.into(), bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Reader;
    use crate::codec::bytes_of;
    use crate::pieces::Pieces;
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
            let samples = Cow::Borrowed(samples.as_slice());
            let level = Level { samples: samples.clone(), ratio: 1, coarse, step, scale: 1.0 };
            let found = Augmentation::new(level, 2);
            let bytes = bytes_of(&found, 2);
            let records = records::<i32>(&bytes);
            let largest = |residuals: &[i32]| residuals.iter().map(|residual| residual.bucket()).max().unwrap_or(0);
            for pair in records.windows(2) {
                let (one, other) = (largest(&pair[0].2), largest(&pair[1].2));
                prop_assert!(one > other || one == other && pair[0].1 < pair[1].1);
            }
            let mut restored = vec![0; samples.len()];
            found.lines().prolong(2, &mut restored, &Pieces::from(bytes.as_slice()));
            prop_assert_eq!(&*restored, &*samples);
            let mut gaps = vec![0; bytes.len()];
            found.write(gaps.chunks_mut(7).collect(), 2);
            prop_assert_eq!(&gaps, &bytes);
            let squares: f64 = records.iter().flat_map(|record| &record.2).map(|residual| f64::from(*residual).powi(2)).sum();
            let told: f64 = found.proof.groups.iter().map(|group| group.errors.squares).sum();
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
    }
}
