//! The cost of a request: fixed time + bytes / bandwidth, for reads and writes apart.
//!
//! The two numbers are known (an emulated device), or learned from service times by recursive least squares with
//! exponential forgetting. An observation far from the expected time is pulled towards it first (P. Huber, "Robust
//! estimation of a location parameter", 1964).

use std::cmp::Ordering;
use std::num::NonZeroU64;

use crate::time::Nanos;

/// Observations over which the memory fades to 1/e: long enough to average a flash device's
/// garbage collection, forgotten within a second at a few hundred requests a second.
const MEMORY_OBSERVATIONS: f64 = 256.0;
/// Observations the prior counts for at first; they fade like others.
const PRIOR_OBSERVATIONS: f64 = 8.0;
/// Observations the prior counts for always: enough to keep the two numbers apart while all
/// requests have one size, too little to be felt once sizes differ.
const ANCHOR_OBSERVATIONS: f64 = 0.02;
/// The sizes at which the prior is held: a small request and a full stripe.
const PRIOR_BYTES: [f64; 2] = [4096.0, 1_048_576.0];
/// Most times of the expected time for which an observation counts, and at least the inverse. One stall of seconds then
/// moves the estimate by under 0.5 %, and stalls of one request in a hundred by some percent. The part that the bound
/// cuts off is charged when the request has ended.
const SURPRISE_MAX: f64 = 2.0;
/// So many surprises in a row, all to the same side, are no stalls: the device has changed. Stalls of
/// one request in ten come so once in a hundred million requests.
const CHANGE_OBSERVATIONS: u32 = 8;

/// Whether bytes go to the target or come from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the target.
    Read,
    /// To the target.
    Write,
}

/// The speed of a target in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferSpeed {
    /// Device time of a request without bytes.
    pub fixed: Nanos,
    /// Bytes moved in a second of device time.
    pub bytes_per_second: NonZeroU64,
}

impl TransferSpeed {
    /// The time a transfer of `bytes` takes, at least 1 ns.
    pub fn time(&self, bytes: u64) -> Nanos {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.get());
        Nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX).saturating_add(self.fixed.0).max(1))
    }
}

/// The speed of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSpeed {
    /// The speed of reads.
    pub read: TransferSpeed,
    /// The speed of writes.
    pub write: TransferSpeed,
}

/// Estimates the device time of requests to one target.
#[derive(Clone, Debug)]
pub struct CostModel {
    read: Line,
    write: Line,
}

/// Cost as a straight line over bytes, with its observations where it is learned.
#[derive(Clone, Debug)]
struct Line {
    fixed_nanoseconds: f64,
    nanoseconds_per_byte: f64,
    fit: Option<Fit>,
}

/// The observations of a learned line.
#[derive(Clone, Debug)]
struct Fit {
    prior: TransferSpeed,
    anchor: Sums,
    /// The fading observations.
    observed: Sums,
    /// The last observations, if they surprised, and all to this side.
    surprises: u32,
    side: Ordering,
}

/// The sums a least-squares line needs: of the weights w, of w x, w y, w x x and w x y.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    w: f64,
    wx: f64,
    wy: f64,
    wxx: f64,
    wxy: f64,
}

impl CostModel {
    /// A model that starts at `prior` and follows its observations.
    pub fn learned(prior: DeviceSpeed) -> CostModel {
        CostModel { read: Line::learned(prior.read), write: Line::learned(prior.write) }
    }

    /// A model of a device whose speed is known; observations do not change it.
    pub fn known(speed: DeviceSpeed) -> CostModel {
        CostModel { read: Line::known(speed.read), write: Line::known(speed.write) }
    }

    /// The device time a request is expected to take, at least 1 ns.
    pub fn estimate(&self, direction: Direction, bytes: u64) -> Nanos {
        let line = match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        };
        Nanos((line.at(bytes as f64).round() as u64).max(1))
    }

    /// The two numbers of each direction as they are now; a rate of `u64::MAX` means that bytes cost nothing.
    pub fn speed(&self) -> DeviceSpeed {
        DeviceSpeed { read: self.read.speed(), write: self.write.speed() }
    }

    /// Learns from one request of `bytes` that took `service` of device time, queueing excluded.
    pub fn observe(&mut self, direction: Direction, bytes: u64, service: Nanos) {
        let line = match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        };
        line.observe(bytes as f64, service.0 as f64);
    }
}

impl Line {
    fn known(speed: TransferSpeed) -> Line {
        Line {
            fixed_nanoseconds: speed.fixed.0 as f64,
            nanoseconds_per_byte: 1e9 / speed.bytes_per_second.get() as f64,
            fit: None,
        }
    }

    fn learned(prior: TransferSpeed) -> Line {
        let line = Line::known(prior);
        let points = |observations: f64| {
            let mut sums = Sums::default();
            for bytes in PRIOR_BYTES {
                let share = observations / PRIOR_BYTES.len() as f64;
                sums.add(share * weight(prior, bytes), bytes, line.at(bytes));
            }
            sums
        };
        let (anchor, observed) = (points(ANCHOR_OBSERVATIONS), points(PRIOR_OBSERVATIONS));
        let fit = Fit { prior, anchor, observed, surprises: 0, side: Ordering::Equal };
        Line { fit: Some(fit), ..line }
    }

    fn speed(&self) -> TransferSpeed {
        let rate = (1e9 / self.nanoseconds_per_byte).round() as u64;
        TransferSpeed {
            fixed: Nanos(self.fixed_nanoseconds.round() as u64),
            bytes_per_second: NonZeroU64::new(rate).unwrap_or(NonZeroU64::MIN),
        }
    }

    fn at(&self, bytes: f64) -> f64 {
        self.fixed_nanoseconds + bytes * self.nanoseconds_per_byte
    }

    fn observe(&mut self, bytes: f64, service_nanoseconds: f64) {
        let expected = self.at(bytes).max(1.0);
        let Some(fit) = &mut self.fit else { return };
        let bounded = service_nanoseconds.clamp(expected / SURPRISE_MAX, expected * SURPRISE_MAX);
        if fit.is_changed(service_nanoseconds.total_cmp(&bounded)) {
            fit.observed.fade(f64::from(CHANGE_OBSERVATIONS) / MEMORY_OBSERVATIONS);
        }
        fit.observed.fade(1.0 - 1.0 / MEMORY_OBSERVATIONS);
        fit.observed.add(weight(fit.prior, bytes), bytes, bounded);
        let (fixed, per_byte) = fit.observed.plus(fit.anchor).line();
        self.fixed_nanoseconds = fixed;
        self.nanoseconds_per_byte = per_byte;
    }
}

impl Fit {
    /// Counts an observation that lies beyond its bound on `side`; returns whether earlier observations count for
    /// little from now on.
    fn is_changed(&mut self, side: Ordering) -> bool {
        self.surprises = if side == self.side { self.surprises + 1 } else { 1 };
        self.side = side;
        let is_change = side != Ordering::Equal && self.surprises >= CHANGE_OBSERVATIONS;
        if is_change || side == Ordering::Equal {
            self.surprises = 0;
        }
        is_change
    }
}

/// The inverse square of the prior's cost, so that errors count relative to the cost: else the
/// large requests alone would set the fixed time of the small ones. The prior's and not the present
/// estimate, because old and new observations must keep one scale.
fn weight(prior: TransferSpeed, bytes: f64) -> f64 {
    Line::known(prior).at(bytes).max(1.0).powi(-2)
}

impl Sums {
    fn add(&mut self, weight: f64, x: f64, y: f64) {
        *self = self.plus(Sums {
            w: weight,
            wx: weight * x,
            wy: weight * y,
            wxx: weight * x * x,
            wxy: weight * x * y,
        });
    }

    fn plus(self, other: Sums) -> Sums {
        Sums {
            w: self.w + other.w,
            wx: self.wx + other.wx,
            wy: self.wy + other.wy,
            wxx: self.wxx + other.wxx,
            wxy: self.wxy + other.wxy,
        }
    }

    fn fade(&mut self, factor: f64) {
        self.w *= factor;
        self.wx *= factor;
        self.wy *= factor;
        self.wxx *= factor;
        self.wxy *= factor;
    }

    /// The least-squares line (value at 0, slope), neither of them negative: a line that would be
    /// is replaced by the best one on the boundary.
    fn line(self) -> (f64, f64) {
        let slope = (self.w * self.wxy - self.wx * self.wy) / (self.w * self.wxx - self.wx * self.wx);
        let fixed = (self.wy - slope * self.wx) / self.w;
        if slope < 0.0 {
            (self.wy / self.w, 0.0)
        } else if fixed < 0.0 {
            (0.0, self.wxy / self.wxx)
        } else {
            (fixed, slope)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(fixed_micros: u64, megabytes_per_second: u64) -> TransferSpeed {
        let bytes_per_second = NonZeroU64::new(megabytes_per_second * 1_000_000).unwrap();
        TransferSpeed { fixed: Nanos::from_micros(fixed_micros), bytes_per_second }
    }

    fn device(fixed_micros: u64, megabytes_per_second: u64) -> DeviceSpeed {
        let both = speed(fixed_micros, megabytes_per_second);
        DeviceSpeed { read: both, write: both }
    }

    fn relative_error(model: &CostModel, truth: &CostModel, bytes: u64) -> f64 {
        let expected = truth.estimate(Direction::Read, bytes).0 as f64;
        (model.estimate(Direction::Read, bytes).0 as f64 - expected).abs() / expected
    }

    const SIZES: [u64; 4] = [4 << 10, 64 << 10, 256 << 10, 2 << 20];

    fn teach(model: &mut CostModel, truth: &CostModel, sizes: &[u64], observations: usize) {
        for turn in 0..observations {
            let bytes = sizes[turn % sizes.len()];
            model.observe(Direction::Read, bytes, truth.estimate(Direction::Read, bytes));
        }
    }

    #[test]
    fn a_known_speed_is_exact_and_never_learns() {
        let mut model = CostModel::known(device(100, 1_000));
        model.observe(Direction::Write, 0, Nanos::from_millis(900));
        assert_eq!(model.estimate(Direction::Write, 1_000_000), Nanos::from_micros(1_100));
    }

    #[test]
    fn a_prior_wrong_tenfold_is_corrected() {
        let truth = CostModel::known(device(20, 5_000));
        for prior in [device(200, 500), device(2, 50_000), device(200, 50_000)] {
            let mut model = CostModel::learned(prior);
            teach(&mut model, &truth, &SIZES, 2_000);
            for bytes in SIZES {
                let error = relative_error(&model, &truth, bytes);
                assert!(error < 0.05, "{bytes} bytes from {prior:?}: {error}");
            }
        }
    }

    #[test]
    fn one_size_alone_is_learned() {
        let truth = CostModel::known(device(50, 2_000));
        let mut model = CostModel::learned(device(10, 10_000));
        teach(&mut model, &truth, &[64 << 10], 1_000);
        assert!(relative_error(&model, &truth, 64 << 10) < 0.02);
    }

    #[test]
    fn stalls_hardly_move_the_estimate() {
        let truth = CostModel::known(device(20, 2_000));
        let mut model = CostModel::learned(device(20, 2_000));
        teach(&mut model, &truth, &SIZES, 1_000);
        model.observe(Direction::Read, 64 << 10, Nanos::from_millis(3_000));
        model.observe(Direction::Read, 64 << 10, Nanos::ZERO);
        for bytes in SIZES {
            assert!(relative_error(&model, &truth, bytes) < 0.05);
        }
    }

    /// One request in a hundred at random takes a hundred times as long, as on a device that collects garbage: the
    /// time of all requests together doubles, and the estimate stays that of the usual one.
    #[test]
    fn one_request_in_a_hundred_that_takes_a_hundredfold_moves_the_estimate_by_a_few_percent() {
        let truth = CostModel::known(device(20, 2_000));
        let (mut worst, mut sum) = (0.0_f64, 0.0);
        let mut model = CostModel::learned(device(20, 2_000));
        let mut dice = 0x5EED_u64;
        const TURNS: usize = 100_000;
        for turn in 0..TURNS {
            let bytes = SIZES[turn % SIZES.len()];
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let factor = if (dice >> 33).is_multiple_of(100) { 100 } else { 1 };
            model.observe(Direction::Read, bytes, Nanos(truth.estimate(Direction::Read, bytes).0 * factor));
            let error =
                SIZES.map(|bytes| relative_error(&model, &truth, bytes)).into_iter().fold(0.0, f64::max);
            worst = worst.max(error);
            sum += error;
        }
        println!("error of the estimate: {:.3} on average, {worst:.3} at worst", sum / TURNS as f64);
        assert!(sum / (TURNS as f64) < 0.03, "{}", sum / TURNS as f64);
        assert!(worst < 0.1, "{worst}");
    }

    /// Up or down by a factor of ten, requests of one size or of all in turn.
    #[test]
    fn a_tenfold_change_of_speed_is_followed_within_a_hundred_requests_of_each_size() {
        for (before, after) in [(device(20, 2_000), device(200, 200)), (device(200, 200), device(20, 2_000))]
        {
            let (before, after) = (CostModel::known(before), CostModel::known(after));
            for sizes in [&SIZES[..1], &SIZES[1..2], &SIZES[2..3], &SIZES[3..], &SIZES] {
                let mut model = CostModel::learned(device(20, 2_000));
                teach(&mut model, &before, sizes, 2_000);
                let is_near =
                    |model: &CostModel| sizes.iter().all(|&bytes| relative_error(model, &after, bytes) < 0.1);
                let mut needed = 0;
                while !is_near(&model) && needed < 1_000 {
                    teach(&mut model, &after, sizes, sizes.len());
                    needed += 1;
                }
                println!("{sizes:?} bytes: {needed} requests of each");
                assert!(needed <= 100, "{sizes:?} bytes: {needed} requests of each");
            }
        }
    }

    #[test]
    fn what_is_learned_is_told() {
        let told = CostModel::learned(device(20, 2_000)).speed();
        assert_eq!(told, device(20, 2_000));
        let mut model = CostModel::learned(device(5, 4_000));
        teach(&mut model, &CostModel::known(device(50, 1_000)), &SIZES, 5_000);
        let read = model.speed().read;
        assert!((read.fixed.0 as f64 / 50e3 - 1.0).abs() < 0.02, "{read:?}");
        assert!((read.bytes_per_second.get() as f64 / 1e9 - 1.0).abs() < 0.02, "{read:?}");
        let free = TransferSpeed { fixed: Nanos(7), bytes_per_second: NonZeroU64::MAX };
        let free = DeviceSpeed { read: free, write: free };
        assert_eq!(CostModel::known(free).speed(), free);
    }

    #[test]
    fn a_device_that_becomes_slow_is_followed() {
        let mut model = CostModel::learned(device(20, 2_000));
        teach(&mut model, &CostModel::known(device(20, 2_000)), &SIZES, 1_000);
        let slow = CostModel::known(device(40, 200));
        teach(&mut model, &slow, &SIZES, 3_000);
        for bytes in SIZES {
            assert!(relative_error(&model, &slow, bytes) < 0.1, "{bytes}");
        }
    }

    #[test]
    fn reads_and_writes_are_learned_apart() {
        let mut model = CostModel::learned(device(20, 1_000));
        let before = model.estimate(Direction::Write, 1 << 20);
        teach(&mut model, &CostModel::known(device(20, 100)), &SIZES, 500);
        assert_eq!(model.estimate(Direction::Write, 1 << 20), before);
    }
}
