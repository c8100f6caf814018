//! Sums in the order in which numpy adds, so that features equal those of the training to the last bit.
//!
//! A tree asks whether a feature is above a threshold, and a threshold may lie as close to a value of the training as the
//! next number.

/// Values that one level of the sum adds without halving them, as in numpy.
const BLOCK: usize = 128;
/// Partial sums within a block, as in numpy.
const LANES: usize = 8;

/// The pairwise sum of `length` values.
pub(crate) fn pairwise(length: usize, value: &impl Fn(usize) -> f64) -> f64 {
    sum(0, length, value)
}

/// The depth is the logarithm of the length.
fn sum(first: usize, length: usize, value: &impl Fn(usize) -> f64) -> f64 {
    if length < LANES {
        return (first..first + length).fold(0.0, |sum, place| sum + value(place));
    }
    if length <= BLOCK {
        let mut lanes: [f64; LANES] = std::array::from_fn(|lane| value(first + lane));
        let whole = length - length % LANES;
        for start in (LANES..whole).step_by(LANES) {
            for (lane, sum) in lanes.iter_mut().enumerate() {
                *sum += value(first + start + lane);
            }
        }
        let [a, b, c, d, e, f, g, h] = lanes;
        let joined = ((a + b) + (c + d)) + ((e + f) + (g + h));
        return (first + whole..first + length).fold(joined, |sum, place| sum + value(place));
    }
    let half = length / 2;
    let half = half - half % LANES;
    sum(first, half, value) + sum(first + half, length - half, value)
}

/// The mean of the values at chosen places; 0 where none is chosen.
pub(crate) fn mean(length: usize, is_chosen: impl Fn(usize) -> bool, value: impl Fn(usize) -> f64) -> f64 {
    let chosen = (0..length).filter(|&place| is_chosen(place)).count();
    pairwise(length, &|place| if is_chosen(place) { value(place) } else { 0.0 }) / chosen.max(1) as f64
}

/// The ratio of two counts, bounded.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    (part / (whole + 1e-9)).clamp(-1e6, 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pairwise_sum_is_a_sum_of_any_length() {
        for length in [0, 1, 7, 8, 9, 16, 127, 128, 129, 1000, 4099] {
            let sum = pairwise(length, &|place| place as f64);
            assert_eq!(sum, (length * length.saturating_sub(1) / 2) as f64, "{length}");
        }
    }

    #[test]
    fn the_mean_of_none_is_zero() {
        assert_eq!(mean(3, |_| false, |_| 5.0), 0.0);
        assert_eq!(mean(3, |place| place != 1, |place| place as f64), 1.0);
    }
}
