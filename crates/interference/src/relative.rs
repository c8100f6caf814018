//! Features that compare a window with the job's own other windows, so that they mean the same for any job.
//!
//! Models are trained on them, too; `tests/window_features.py` has the same features by numpy, and a test compares the two.

use crate::nearness::{nearest, quantile, Demands};
use crate::sums::{pairwise, ratio};
use crate::windows::Windows;
use std::cmp::Ordering;

/// A job with fewer windows has no quiet behaviour to compare with.
pub const WINDOWS_MIN: usize = 10;
/// Windows of like demand among which the quiet ones are looked for, and the part of them that counts as quiet.
const NEIGHBOURS: [(usize, f64); 2] = [(20, 0.25), (60, 0.1)];
const TINY: f64 = 1e-9;
const MEGABYTE: f64 = 1e6;
/// Counts of operations by their places: reads, writes, stats, opens, closes.
const OPERATIONS: [usize; 5] = [0, 1, 4, 5, 6];
const RANKED: [&str; 4] = ["operations", "bytes", "seconds", "rate"];

/// The names of the features.
pub fn names() -> Vec<String> {
    let above = NEIGHBOURS
        .iter()
        .flat_map(|(most, _)| ["operations", "all"].map(|demand| format!("above_quiet_{most}_{demand}")));
    above.chain(RANKED.map(|name| format!("rank_{name}"))).collect()
}

/// The windows of a job, ready to be compared with each other.
#[derive(Debug)]
pub struct Relative {
    /// Demands of each window on a common scale: operations alone, and all.
    demands: [Demands; 2],
    /// Logarithms of the I/O times.
    seconds: Vec<f64>,
    /// Values of which the ranks are features, in the order of `RANKED`.
    ranked: [Vec<f64>; 4],
}

impl Relative {
    /// Compares the windows of a job; none where there are fewer than [`WINDOWS_MIN`].
    pub fn of(windows: &Windows<'_>) -> Option<Relative> {
        if windows.len() < WINDOWS_MIN {
            return None;
        }
        let (mut operations, mut all) = (Vec::new(), Vec::new());
        let mut ranked: [Vec<f64>; 4] = Default::default();
        for number in 0..windows.len() {
            let window = windows.window(number);
            let servers = window.servers();
            let sum = |count: usize| pairwise(servers, &|server| window.count(server, count));
            let counts = OPERATIONS.map(sum);
            let moved = [sum(2) / MEGABYTE, sum(3) / MEGABYTE];
            let touched = (0..servers).filter(|&server| window.data(server) > 0.0).count();
            operations.extend(counts.map(f64::ln_1p));
            all.extend(counts.map(f64::ln_1p));
            all.extend(moved.map(|moved| (moved * 1e3).ln_1p()));
            all.push((touched as f64).ln_1p());
            let count = pairwise(counts.len(), &|place| counts[place]);
            ranked[0].push(count);
            ranked[1].push(moved[0] + moved[1]);
            ranked[2].push(window.io_seconds);
            ranked[3].push(ratio(count, window.io_seconds));
        }
        let width = OPERATIONS.len();
        let demands = [Demands::scaled(width, operations), Demands::scaled(width + 3, all)];
        let seconds = windows.io_seconds().iter().map(|seconds| seconds.max(TINY).ln()).collect();
        Some(Relative { demands, seconds, ranked })
    }

    /// The features of one window, in the order of [`names`]; none where there is no such window.
    pub fn features(&self, number: usize) -> Vec<f64> {
        if number >= self.seconds.len() {
            return Vec::new();
        }
        let near = self.demands.each_ref().map(|demands| demands.distances(number));
        let above = NEIGHBOURS.iter().flat_map(|&(most, quiet)| {
            let above = |distances: &Vec<f64>| {
                let of_like = nearest(distances, most).iter().map(|&place| self.seconds[place]).collect();
                self.seconds[number] - quantile(of_like, quiet)
            };
            near.each_ref().map(above)
        });
        above.chain(self.ranked.iter().map(|values| rank(values, values[number]))).collect()
    }
}

/// The rank of a value from 0 to 1, the mean rank of equal ones.
fn rank(values: &[f64], value: f64) -> f64 {
    let (mut below, mut equal) = (0_usize, 0_usize);
    for each in values {
        match each.total_cmp(&value) {
            Ordering::Less => below += 1,
            Ordering::Equal => equal += 1,
            Ordering::Greater => {}
        }
    }
    (below as f64 + (equal as f64 + 1.0) / 2.0) / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::{CLIENT, REDUCED};

    #[test]
    fn a_window_that_took_longer_for_the_same_demand_is_above_the_quiet_ones() {
        let mut seconds = vec![1.0; 30];
        seconds[29] = std::f64::consts::E;
        let client: Vec<f64> = (0..30).flat_map(|_| [4.0, 0.0, 4096.0, 0.0, 0.0, 0.0, 0.0]).collect();
        let server = vec![0.0; 30 * REDUCED];
        assert_eq!(client.len(), 30 * CLIENT.len());
        let windows = Windows::new(1, &seconds, &[1; 30], &[0; 30], &client, &server).unwrap();
        let relative = Relative::of(&windows).unwrap();
        let last = relative.features(29);
        assert_eq!(last.len(), names().len());
        assert!(last[..4].iter().all(|above| (above - 1.0).abs() < 1e-12), "{last:?}");
        assert_eq!(last[6], 1.0, "the rank of its time");
        assert_eq!(relative.features(0)[..4], [0.0; 4]);
        assert_eq!(relative.features(0)[6], 0.5, "the mean rank of 29 equal times of 30");
        assert!(relative.features(30).is_empty());
        let few = Windows::new(1, &seconds[..9], &[1; 9], &[0; 9], &client[..63], &server[..9 * REDUCED]);
        assert!(Relative::of(&few.unwrap()).is_none());
    }
}
