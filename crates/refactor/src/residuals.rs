//! Residuals of one level of decimation as records, those of largest magnitude first.
//!
//! Counted by their leading bits, records go straight to the part of the augmentation that is theirs; each part is then
//! sorted by digits while the caches hold it. So a residual is moved through memory twice, and only the augmentation
//! itself takes any. Threads share the level by runs, whose borders and sums do not depend on their number.

use crate::judge::Errors;
use crate::lines::{for_each_piece, runs};
use crate::parallel;
use crate::sample::Sample;
use std::ops::Range;

/// Leading bits of a magnitude by which records are spread over the augmentation: an octave of floats has 16 parts.
const SPREAD_BITS: u32 = 12;
/// Bits of one digit when a part is sorted: counts fit into the first-level cache.
const DIGIT_BITS: u32 = 10;
/// The places of index and residual in the record of one.
pub(crate) struct Record {
    index_bytes: usize,
}

impl Record {
    /// The record of a level of so many samples.
    pub(crate) fn new(samples: usize) -> Self {
        Self { index_bytes: if u32::try_from(samples).is_ok() { 4 } else { 8 } }
    }

    pub(crate) fn bytes<T: Sample>(&self) -> usize {
        self.index_bytes + T::KIND.bytes()
    }

    #[inline(always)]
    fn put<T: Sample>(&self, index: u64, residual: T, bytes: &mut [u8]) {
        let (position, value) = bytes.split_at_mut(self.index_bytes);
        match position.first_chunk_mut::<8>() {
            Some(position) => *position = index.to_le_bytes(),
            None => position.copy_from_slice(&(index as u32).to_le_bytes()),
        }
        residual.put(value);
    }

    #[inline(always)]
    pub(crate) fn take<T: Sample>(&self, bytes: &[u8]) -> (usize, T) {
        let (position, value) = bytes.split_at(self.index_bytes);
        let index = match <[u8; 4]>::try_from(position) {
            Ok(position) => u64::from(u32::from_le_bytes(position)),
            Err(_) => u64::from_le_bytes(position.try_into().unwrap_or([0xff; 8])),
        };
        (usize::try_from(index).unwrap_or(usize::MAX), T::take(value))
    }
}

/// An augmentation, and the error that is left when only its first records are applied.
pub(crate) struct Augmentation {
    pub(crate) bytes: Vec<u8>,
    pub(crate) record_bytes: usize,
    /// From none to all but a few.
    pub(crate) marks: Vec<Mark>,
    /// The error that is left when all residuals are applied.
    pub(crate) rounding: Errors,
}

/// Residuals that are not applied yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// The number of records.
    pub(crate) records: usize,
    pub(crate) left: Errors,
}

/// Equations (1) and (2): the records of the level that has every `ratio`-th sample, whose coarser level has every
/// `step`-th of those.
pub(crate) fn sorted_records<T: Sample>(
    samples: &[T],
    ratio: usize,
    coarse: &[T],
    step: usize,
    threads: usize,
) -> Augmentation {
    let length = samples.len().div_ceil(ratio);
    let record = Record::new(length);
    if record.index_bytes + T::KIND.bytes() <= 8 {
        Level { samples, ratio, coarse, step, length, record }.sorted::<u64>(threads)
    } else {
        Level { samples, ratio, coarse, step, length, record }.sorted::<(u64, u64)>(threads)
    }
}

/// A residual that is being sorted, and its place.
trait Packed: Copy + Default {
    fn new(folded: u64, index: u64) -> Self;
    fn folded(self) -> u64;
    fn index(self) -> u64;
}

impl Packed for u64 {
    #[inline(always)]
    fn new(folded: u64, index: u64) -> Self {
        folded << 32 | index
    }

    #[inline(always)]
    fn folded(self) -> u64 {
        self >> 32
    }

    #[inline(always)]
    fn index(self) -> u64 {
        self & 0xffff_ffff
    }
}

impl Packed for (u64, u64) {
    #[inline(always)]
    fn new(folded: u64, index: u64) -> Self {
        (folded, index)
    }

    #[inline(always)]
    fn folded(self) -> u64 {
        self.0
    }

    #[inline(always)]
    fn index(self) -> u64 {
        self.1
    }
}

struct Level<'a, T> {
    samples: &'a [T],
    ratio: usize,
    coarse: &'a [T],
    step: usize,
    length: usize,
    record: Record,
}

impl<T: Sample> Level<'_, T> {
    fn sorted<P: Packed>(&self, threads: usize) -> Augmentation {
        let runs = runs(self.length, self.step);
        let counted = parallel::map(runs.len(), threads, |run| self.parts(runs[run].clone()));
        let (counts, roundings): (Vec<Vec<Part>>, Vec<Errors>) = counted.into_iter().unzip();
        let rounding = roundings.into_iter().fold(self.rounding_of_coarse(), Errors::and);
        let mut parts = vec![Part::default(); 1 << SPREAD_BITS];
        for own in &counts {
            parts.iter_mut().zip(own).for_each(|(part, own)| *part = part.and(*own));
        }
        let record_bytes = self.record.bytes::<T>();
        let mut bytes = vec![0; parts.iter().map(|part| part.records).sum::<usize>() * record_bytes];
        let work = runs.into_iter().zip(places(&mut bytes, &counts, record_bytes)).collect();
        parallel::for_each(work, threads, |(run, mut places)| self.spread(run, &mut places));
        let used = parts.iter_mut().filter(|part| part.records > 0);
        let mut rest = bytes.as_mut_slice();
        let work = used.map(|part| (take(&mut rest, part.records * record_bytes), part)).collect();
        parallel::for_each(work, threads, |(records, part)| {
            let sorted: Vec<P> = self.sort_part(records);
            if T::KIND.is_float() {
                part.left = magnitudes::<T, P>(&sorted);
            }
        });
        Augmentation { bytes, record_bytes, marks: marks(&parts), rounding }
    }

    /// The residuals of each part of the augmentation, and the error that rounding leaves when all of it is applied.
    fn parts(&self, run: Range<usize>) -> (Vec<Part>, Errors) {
        let mut parts = vec![Part::default(); 1 << SPREAD_BITS];
        let mut rounding = Errors::default();
        self.for_each(run, |_, sample, estimate| {
            let residual = sample.minus(estimate);
            let part = &mut parts[part_of::<T>(residual)];
            part.records += usize::from(T::magnitude(residual.folded()) != 0);
            // Residuals of integers wrap round: an error may be larger than its residual.
            if !T::KIND.is_float() {
                part.left = part.left.and(Errors::of_one(sample.distance(estimate)));
            }
            if estimate.plus(residual) != sample {
                rounding = rounding.and(Errors::of_one(sample.distance(estimate.plus(residual))));
            }
        });
        (parts, rounding)
    }

    /// The rounding error that the coarser level leaves in its own samples.
    fn rounding_of_coarse(&self) -> Errors {
        let restored = self.coarse.iter().enumerate();
        restored.fold(Errors::default(), |errors, (index, restored)| {
            let sample = self.samples[index * self.step * self.ratio];
            errors.and(Errors::of_one(sample.distance(*restored)))
        })
    }

    /// Put the records of a run into their parts, in rising order of place.
    fn spread(&self, run: Range<usize>, places: &mut [&mut [u8]]) {
        let record_bytes = self.record.bytes::<T>();
        self.for_each(run, |index, sample, estimate| {
            let residual = sample.minus(estimate);
            if T::magnitude(residual.folded()) != 0 {
                self.record.put(
                    index as u64,
                    residual,
                    take(&mut places[part_of::<T>(residual)], record_bytes),
                );
            }
        });
    }

    /// Call `work` with place, sample and estimate of all samples of a run that the coarser level lacks.
    #[inline(always)]
    fn for_each(&self, run: Range<usize>, mut work: impl FnMut(usize, T, T)) {
        for_each_piece(self.coarse, run, self.step, |start, estimates| {
            for (interval, estimates) in estimates.chunks(self.step).enumerate() {
                let first = start + interval * self.step;
                if self.ratio == 1 {
                    let samples = &self.samples[first..first + estimates.len()];
                    for (offset, (estimate, sample)) in estimates.iter().zip(samples).enumerate().skip(1) {
                        work(first + offset, *sample, *estimate);
                    }
                } else {
                    for (offset, estimate) in estimates.iter().enumerate().skip(1) {
                        work(first + offset, self.samples[(first + offset) * self.ratio], *estimate);
                    }
                }
            }
        });
    }

    /// Sort the records of a part.
    fn sort_part<P: Packed>(&self, part: &mut [u8]) -> Vec<P> {
        let record_bytes = self.record.bytes::<T>();
        let packed = part.chunks_exact(record_bytes).map(|bytes| {
            let (index, residual) = self.record.take::<T>(bytes);
            P::new(residual.folded(), index as u64)
        });
        let mut items: Vec<P> = packed.collect();
        sort_by_digits(&mut items, |item| !T::magnitude(item.folded()));
        for (item, bytes) in items.iter().zip(part.chunks_exact_mut(record_bytes)) {
            self.record.put(item.index(), T::unfolded(item.folded()), bytes);
        }
        items
    }
}

/// The part of the augmentation that a residual belongs to.
#[inline(always)]
fn part_of<T: Sample>(residual: T) -> usize {
    let bits = 8 * T::KIND.bytes() as u32;
    // A magnitude has a bit less than the number, but for the one integer that has no positive counterpart.
    let leading = T::magnitude(residual.folded()) >> (bits - 1).saturating_sub(SPREAD_BITS);
    let last = (1 << SPREAD_BITS) - 1;
    last - (leading as usize).min(last)
}

/// The places of each run's records: the beginning of the rest of each part.
fn places<'a>(bytes: &'a mut [u8], counts: &[Vec<Part>], record_bytes: usize) -> Vec<Vec<&'a mut [u8]>> {
    let mut places: Vec<_> = counts.iter().map(|_| Vec::with_capacity(1 << SPREAD_BITS)).collect();
    let mut rest = bytes;
    for part in 0..1 << SPREAD_BITS {
        for (own, counts) in places.iter_mut().zip(counts) {
            own.push(take(&mut rest, counts[part].records * record_bytes));
        }
    }
    places
}

/// The first bytes of `rest`, which keeps the bytes behind them.
#[inline(always)]
fn take<'a>(rest: &mut &'a mut [u8], count: usize) -> &'a mut [u8] {
    let (taken, behind) = std::mem::take(rest).split_at_mut(count);
    *rest = behind;
    taken
}

/// The sum of the squares of residuals, and the largest.
fn magnitudes<T: Sample, P: Packed>(items: &[P]) -> Errors {
    let magnitude = |item: &P| T::unfolded(item.folded()).to_f64().abs();
    let mut squares = [0.0; 4];
    for item in items.chunks(squares.len()) {
        for (sum, item) in squares.iter_mut().zip(item) {
            *sum += magnitude(item).powi(2);
        }
    }
    // The items fall in magnitude.
    Errors { squares: squares.iter().sum(), largest: items.first().map_or(0.0, magnitude) }
}

/// Sort by `key`; items of equal keys stay in their order.
///
/// By digits, from the lowest: a comparison sort of as many items takes several times as long. Digits that are the same
/// in all items are skipped.
fn sort_by_digits<P: Copy + Default>(items: &mut Vec<P>, key: impl Fn(P) -> u64) {
    let Some(first) = items.first().map(|item| key(*item)) else { return };
    let varying = items.iter().fold(0, |bits, item| bits | (key(*item) ^ first));
    let mut other = vec![P::default(); items.len()];
    let mut shift = varying.trailing_zeros();
    while shift < u64::BITS && varying >> shift != 0 {
        let digit = |bits: u64| (bits >> shift) as usize & ((1 << DIGIT_BITS) - 1);
        let mut places = [0_u32; 1 << DIGIT_BITS];
        items.iter().for_each(|item| places[digit(key(*item))] += 1);
        let mut place = 0;
        for count in &mut places {
            place += std::mem::replace(count, place);
        }
        for item in &*items {
            let place = &mut places[digit(key(*item))];
            other[*place as usize] = *item;
            *place += 1;
        }
        std::mem::swap(items, &mut other);
        shift += DIGIT_BITS;
    }
}

/// Residuals whose magnitudes share their leading bits.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    records: usize,
    /// The errors when none of them is applied.
    left: Errors,
}

impl Part {
    fn and(self, other: Self) -> Self {
        Self { records: self.records + other.records, left: self.left.and(other.left) }
    }
}

/// The errors that are left at the beginning of each part that has records.
fn marks(parts: &[Part]) -> Vec<Mark> {
    let mut records: usize = parts.iter().map(|part| part.records).sum();
    let mut left = Errors::default();
    let mut marks = Vec::new();
    for part in parts.iter().rev().filter(|part| part.records > 0) {
        records -= part.records;
        left = left.and(part.left);
        marks.push(Mark { records, left });
    }
    marks.reverse();
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_are_sorted_as_by_comparisons(keys in proptest::collection::vec(any::<u64>(), 0..300), narrow in 0..64) {
            let mut items: Vec<(u64, u64)> =
                keys.iter().enumerate().map(|(index, key)| (key >> narrow, index as u64)).collect();
            let mut expected = items.clone();
            expected.sort();
            sort_by_digits(&mut items, |item| item.0);
            prop_assert_eq!(items, expected);
        }

        #[test]
        fn records_fall_in_magnitude(samples in proptest::collection::vec(any::<i32>(), 1..400), step in 2_usize..9, narrow in 0..30) {
            // No residual wraps round.
            let samples: Vec<i32> = samples.iter().map(|sample| sample >> (narrow + 1)).collect();
            let coarse: Vec<i32> = samples.iter().copied().step_by(step).collect();
            let found = sorted_records(&samples, 1, &coarse, step, 2);
            let record = Record::new(samples.len());
            let records: Vec<(usize, i32)> = found.bytes.chunks_exact(8).map(|bytes| record.take(bytes)).collect();
            let mut expected = records.clone();
            expected.sort_by_key(|(index, residual)| (std::cmp::Reverse(residual.unsigned_abs()), *index));
            prop_assert_eq!(&records, &expected);
            for mark in &found.marks {
                let rest = &records[mark.records..];
                let squares: f64 = rest.iter().map(|(_, residual)| f64::from(*residual).powi(2)).sum();
                prop_assert!((mark.left.squares - squares).abs() <= 1e-9 * squares);
                prop_assert!(mark.left.largest >= f64::from(rest[0].1).abs());
            }
        }

        #[test]
        fn residuals_unfold(bits in any::<u64>()) {
            fn check<T: Sample>(value: T) {
                assert_eq!(T::unfolded(value.folded()), value);
            }
            let float = f32::from_bits(bits as u32);
            assert_eq!(f32::unfolded(float.folded()).to_bits(), float.to_bits());
            check(bits as i8);
            check(bits as u16);
            check(bits as i32);
            check(bits as i64);
            check(bits);
        }
    }
}
