//! The windows of a job that are nearest to one of them in demand.

const TINY: f64 = 1e-9;
/// Squared distances are compared in steps of a part of this many: the last bits of a logarithm depend on the library.
const DISTANCE_STEPS: f64 = 1e9;

/// Rows of numbers, one for each window, on a common scale.
#[derive(Debug)]
pub(crate) struct Demands {
    width: usize,
    scaled: Vec<f64>,
}

impl Demands {
    /// Brings each column to the mean 0 and the deviation 1.
    pub(crate) fn scaled(width: usize, mut values: Vec<f64>) -> Demands {
        let count = (values.len() / width) as f64;
        for column in 0..width {
            let mean = values.iter().skip(column).step_by(width).fold(0.0, |sum, each| sum + each) / count;
            let squares = values.iter().skip(column).step_by(width).map(|each| (each - mean) * (each - mean));
            let deviation = (squares.fold(0.0, |sum, each| sum + each) / count).sqrt().max(TINY);
            for each in values.iter_mut().skip(column).step_by(width) {
                *each = (*each - mean) / deviation;
            }
        }
        Demands { width, scaled: values }
    }

    /// Squared distances of all windows from one, in whole steps.
    pub(crate) fn distances(&self, number: usize) -> Vec<f64> {
        let from = &self.scaled[number * self.width..(number + 1) * self.width];
        let distance = |to: &[f64]| {
            let squares = from.iter().zip(to).map(|(from, to)| (from - to) * (from - to));
            (squares.fold(0.0, |sum, each| sum + each) * DISTANCE_STEPS).round_ties_even()
        };
        self.scaled.chunks_exact(self.width).map(distance).collect()
    }
}

/// The places of the `most` nearest windows; of those as near, the earliest.
pub(crate) fn nearest(distances: &[f64], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..distances.len()).collect();
    if most < order.len() {
        order.select_nth_unstable_by(most - 1, |&one, &other| {
            distances[one].total_cmp(&distances[other]).then(one.cmp(&other))
        });
        order.truncate(most);
    }
    order
}

/// The quantile of values, of which there is at least one.
pub(crate) fn quantile(mut values: Vec<f64>, quantile: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let place = quantile * (values.len() - 1) as f64;
    let low = (place as usize).min(values.len() - 1);
    let high = (low + 1).min(values.len() - 1);
    values[low] + (values[high] - values[low]) * (place - low as f64)
}
