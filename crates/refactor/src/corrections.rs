//! A level of decimation restored from the coarser one and the residuals that are there.
//!
//! Each window of the level is estimated and corrected while a second-level cache holds it.

use crate::bytes::Reader;
use crate::lines::Lines;
use crate::parallel;
use crate::pieces::Pieces;
use crate::planes::{dispatch, Kernel, Words};
use crate::residuals::{record_bytes, NUMBER_BYTES, RECORD_SAMPLES, WINDOW_SAMPLES};
use crate::sample::{take_all, Sample};
use std::ops::Range;

/// The longest beginning of a group: two integers of 64 bits.
const HEAD_BYTES_MAX: usize = 20;

impl<T: Sample> Lines<'_, T> {
    /// Equations (3) and (4): sets a level to the estimate, and adds the residuals that are there.
    pub(crate) fn prolong(&self, threads: usize, level: &mut [T], augmentation: &Pieces<'_>) {
        let groups = groups::<T>(level.len().div_ceil(WINDOW_SAMPLES), augmentation);
        let work = level.chunks_mut(WINDOW_SAMPLES).zip(groups).enumerate().collect();
        parallel::for_each(work, threads, |(number, (window, groups))| {
            dispatch(Restoring {
                lines: *self,
                start: number * WINDOW_SAMPLES,
                window,
                groups,
                augmentation,
            });
        });
    }
}

/// The places of the records of each window.
fn groups<T: Sample>(windows: usize, augmentation: &Pieces<'_>) -> Vec<Vec<Range<usize>>> {
    let mut groups = vec![Vec::new(); windows];
    let mut start = 0;
    loop {
        let head = augmentation.range(start..augmentation.len().min(start + HEAD_BYTES_MAX));
        let mut reader = Reader::new(&head);
        let (Some(window), Some(count)) = (reader.length(), reader.length()) else { break };
        // No group is empty: one takes as many bytes as are kept of it, or more.
        let Some(groups) = groups.get_mut(window).filter(|_| count > 0) else { break };
        start += head.len() - reader.rest().len();
        let there = (augmentation.len() - start) / record_bytes::<T>();
        let end = start + count.min(there) * record_bytes::<T>();
        groups.push(start..end);
        if count > there {
            break;
        }
        start = end;
    }
    groups
}

/// Restores a window by the processor's own instructions.
struct Restoring<'a, T> {
    lines: Lines<'a, T>,
    start: usize,
    window: &'a mut [T],
    groups: Vec<Range<usize>>,
    augmentation: &'a Pieces<'a>,
}

impl<T: Sample> Kernel for Restoring<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self, _words: W) {
        self.lines.estimate(self.start, self.window);
        for group in self.groups {
            add(&self.augmentation.range(group), self.window);
        }
    }
}

/// Adds the residuals of records.
#[inline(always)]
fn add<T: Sample>(records: &[u8], window: &mut [T]) {
    for record in records.chunks_exact(record_bytes::<T>()) {
        let (number, residuals) = record.split_at(NUMBER_BYTES);
        let start = usize::from(u16::from_le_bytes([number[0], number[1]])) * RECORD_SAMPLES;
        let residuals: [T; RECORD_SAMPLES] = take_all(residuals);
        match window.get_mut(start..start + RECORD_SAMPLES) {
            Some(four) => {
                four.iter_mut().zip(residuals).for_each(|(sample, residual)| *sample = sample.plus(residual))
            }
            None => {
                let few = window.get_mut(start..).unwrap_or_default();
                few.iter_mut().zip(residuals).for_each(|(sample, residual)| *sample = sample.plus(residual));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hostile_groups_are_taken_as_far_as_they_go(bytes in proptest::collection::vec(any::<u8>(), 0..200), length in 0_usize..300, piece in 1_usize..50) {
            let mut whole = vec![0_i16; length];
            Lines { coarse: &vec![0; length], step: 1 }.prolong(1, &mut whole, &Pieces::from(bytes.as_slice()));
            let mut level = vec![0_i16; length];
            let pieces: Pieces<'_> = bytes.chunks(piece).collect();
            Lines { coarse: &vec![0; length], step: 1 }.prolong(2, &mut level, &pieces);
            prop_assert_eq!(whole, level);
            let mut level = vec![0.0_f64; length];
            Lines { coarse: &vec![0.0; length], step: 1 }.prolong(2, &mut level, &pieces);
        }
    }
}
