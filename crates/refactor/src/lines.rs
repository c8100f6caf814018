//! A level of decimation as straight lines between the samples of the coarser one: `Estimate` of the paper. Behind the last
//! of these it stays as it is.

use crate::sample::Sample;

/// The samples of the coarser level, and the distance of its samples in the finer one.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'a, T> {
    pub(crate) coarse: &'a [T],
    pub(crate) step: usize,
}

impl<T: Sample> Lines<'_, T> {
    /// Sets samples to the estimate from `start` on.
    #[inline(always)]
    pub(crate) fn estimate(&self, start: usize, samples: &mut [T]) {
        if samples.is_empty() {
            return;
        }
        let (index, place) = (start / self.step, start % self.step);
        if place == 0 {
            return T::lines(&self.coarse[index..], self.step, samples);
        }
        let (begun, whole) = samples.split_at_mut(samples.len().min(self.step - place));
        let left = self.coarse[index];
        T::line(left, self.coarse.get(index + 1).copied().unwrap_or(left), place, self.step, begun);
        if !whole.is_empty() {
            T::lines(&self.coarse[index + 1..], self.step, whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_are_those_between_two_samples(
            coarse in proptest::collection::vec(any::<i32>(), 1..9), step in 1_usize..20, start in 0_usize..40,
        ) {
            fn check<T: Sample>(coarse: &[T], step: usize, start: usize) {
                let length = (coarse.len() * step).saturating_sub(start);
                let mut level = vec![T::default(); length];
                Lines { coarse, step }.estimate(start, &mut level);
                for (place, sample) in (start..).zip(&level) {
                    let left = coarse[place / step];
                    let right = coarse.get(place / step + 1).copied().unwrap_or(left);
                    let expected = match place % step {
                        0 => left,
                        position => T::interpolate(left, right, position, step),
                    };
                    assert_eq!(*sample, expected);
                }
            }
            check(&coarse, step, start);
            check(&coarse.iter().map(|sample| *sample as u8).collect::<Vec<_>>(), step, start);
            check(&coarse.iter().map(|sample| i64::from(*sample) << 31).collect::<Vec<_>>(), step, start);
            check(&coarse.iter().map(|sample| *sample as f32 * 0.3).collect::<Vec<_>>(), step, start);
        }
    }
}
