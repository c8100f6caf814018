//! The range of an array's samples.

use crate::ordinary::{self, Ordinary};
use crate::parallel;
use crate::planes::{dispatch, Kernel, Words};
use crate::sample::Sample;

/// The smallest and the largest sample that the codec takes, both 0 if there is none; and whether it takes all.
pub(crate) fn range<T: Sample>(samples: &[T], ordinary: Ordinary, threads: usize) -> ((f64, f64), bool) {
    let pieces: Vec<&[T]> = samples.chunks(ordinary::PIECE_SAMPLES).collect();
    let range_of = |piece: usize| dispatch(Ranging { samples: pieces[piece], ordinary });
    let ranges = parallel::map(pieces.len(), threads, range_of);
    let takes_all = ranges.iter().all(|(_, takes_all)| *takes_all);
    let both = |one: (T, T), other: (T, T)| (lesser(one.0, other.0), greater(one.1, other.1));
    let range = ranges.into_iter().filter_map(|(range, _)| range).reduce(both);
    (range.map_or((0.0, 0.0), |(low, high)| (low.to_f64(), high.to_f64())), takes_all)
}

/// Lanes that need not wait for each other.
const LANES: usize = 32;

/// Looks through samples by the processor's own instructions.
struct Ranging<'a, T> {
    samples: &'a [T],
    ordinary: Ordinary,
}

impl<T: Sample> Kernel for Ranging<'_, T> {
    type Output = (Option<(T, T)>, bool);

    #[inline(always)]
    fn run<W: Words>(self, _words: W) -> Self::Output {
        let Self { samples, ordinary } = self;
        let (rows, rest) = samples.as_chunks::<LANES>();
        let first = samples.first().copied().unwrap_or_default();
        let (mut lows, mut highs, mut is_finite) = ([first; LANES], [first; LANES], true);
        for row in rows {
            for lane in 0..LANES {
                lows[lane] = lesser(row[lane], lows[lane]);
                highs[lane] = greater(row[lane], highs[lane]);
            }
            is_finite &= row.iter().fold(true, |all, sample| all & sample.is_finite());
        }
        is_finite &= rest.iter().all(|sample| sample.is_finite());
        let low = lows.iter().chain(rest).copied().fold(first, lesser);
        let high = highs.iter().chain(rest).copied().fold(first, greater);
        if is_finite && ordinary.has_no_gap() && ordinary.holds(low) && ordinary.holds(high) {
            return ((!samples.is_empty()).then_some((low, high)), true);
        }
        let taken = samples.iter().copied().filter(|sample| ordinary.holds(*sample));
        let both = |(low, high): (T, T), sample: T| (lesser(sample, low), greater(sample, high));
        let range = taken.fold(None, |range: Option<(T, T)>, sample| {
            Some(both(range.unwrap_or((sample, sample)), sample))
        });
        (range, !ordinary.has_no_gap() && ordinary.holds_all(samples))
    }
}

#[inline(always)]
fn lesser<T: Sample>(one: T, other: T) -> T {
    if one < other {
        one
    } else {
        other
    }
}

#[inline(always)]
fn greater<T: Sample>(one: T, other: T) -> T {
    if one > other {
        one
    } else {
        other
    }
}
