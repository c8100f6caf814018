//! The rate that a device really gives a request, by direction and size.

use weir_fairshare::{Direction, Nanos};

/// Requests up to 4 KiB, and so on by a factor of 4 up to 4 MiB and more: within a class the fixed part of a request's
/// time weighs about the same.
const SIZE_CLASSES: u8 = 6;
/// Classes of both directions.
pub(crate) const CLASSES: u8 = 2 * SIZE_CLASSES;
const SMALLEST_BYTES: u64 = 4096;
/// The usual rate follows from the last so many requests of a class.
const KEPT: usize = 9;
/// Least number of requests for a speed.
const FEW: usize = 4;
/// The usual rate is exceeded by one request of so many. Stalls make requests slower and never faster: a target that is
/// slow itself is slow in all its requests, and where a busy machine is the reason, some are as fast as ever.
const FASTEST: usize = 4;
/// Times below this are as good as this: each request takes as much on its way, so that no job feels the difference.
const TIME_MIN: Nanos = Nanos::from_micros(200);
/// A request that has been in service for less says nothing yet: it may wait for its sender.
const UNDER_WAY_MIN: Nanos = Nanos::from_millis(100);
/// Age, before the device's last request, from which on a class is not compared any more.
const FORGOTTEN: Nanos = Nanos::from_millis(10_000);

/// The speeds that a device achieved lately.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    classes: [Recent; CLASSES as usize],
    last: Nanos,
}

/// A request in service.
#[derive(Clone, Copy, Debug)]
pub struct UnderWay {
    /// Whether the device reads or writes.
    pub direction: Direction,
    /// The bytes of the whole request.
    pub bytes: u64,
    /// The time that the device spent on the request.
    pub service: Nanos,
}

/// The last requests of one direction and size.
#[derive(Clone, Debug, Default)]
struct Recent {
    seen: [Seen; KEPT],
    count: usize,
    next: usize,
    at: Nanos,
}

/// One request.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    bytes_per_second: f32,
    /// Whether it took so little time that the rate is the least one that it may have had.
    is_least: bool,
}

impl Rates {
    /// A request of `bytes` took `service` of the device's time and ended at `now`. One without bytes says nothing.
    pub fn observe(&mut self, direction: Direction, bytes: u64, service: Nanos, now: Nanos) {
        if bytes == 0 {
            return;
        }
        let recent = &mut self.classes[usize::from(class_of(direction, bytes))];
        let nanoseconds = service.max(TIME_MIN).0 as f64;
        let bytes_per_second = (bytes as f64 * 1e9 / nanoseconds) as f32;
        recent.seen[recent.next] = Seen { bytes_per_second, is_least: service < TIME_MIN };
        recent.next = (recent.next + 1) % KEPT;
        recent.count = (recent.count + 1).min(KEPT);
        (recent.at, self.last) = (now, now);
    }

    /// The usual rate of each class that was seen lately; a class of which a request under way cannot reach it any more has
    /// the rate that this one can reach at most.
    pub fn present(&self, under_way: impl Iterator<Item = UnderWay>) -> Vec<(u8, f32)> {
        let mut rates = self.usual();
        for UnderWay { direction, bytes, service } in under_way {
            if bytes == 0 || service < UNDER_WAY_MIN {
                continue;
            }
            let class = class_of(direction, bytes);
            let most = (bytes as f64 * 1e9 / service.0 as f64) as f32;
            match rates.iter_mut().find(|(known, _)| *known == class) {
                Some((_, rate)) => *rate = rate.min(most),
                None => rates.push((class, most)),
            }
        }
        rates
    }

    /// The rate of the largest class among the `present` ones, if it was measured: requests that took less than the time from which on
    /// times are told apart have only a least rate.
    pub fn measured(&self, present: &[(u8, f32)]) -> Option<(u8, f32)> {
        let &(class, rate) = present.iter().max_by_key(|(class, _)| size_of(*class))?;
        let recent = &self.classes[usize::from(class)];
        let is_least =
            recent.count >= FEW && recent.usual().is_least && recent.usual().bytes_per_second <= rate;
        (!is_least).then_some((class, rate))
    }

    /// The usual rate of each class that was seen lately.
    fn usual(&self) -> Vec<(u8, f32)> {
        let is_seen =
            |recent: &&Recent| recent.count >= FEW && self.last.saturating_since(recent.at) <= FORGOTTEN;
        let classes = (0..).zip(&self.classes).filter(|(_, recent)| is_seen(recent));
        classes.map(|(class, recent)| (class, recent.usual().bytes_per_second)).collect()
    }
}

impl Recent {
    /// The upper quartile.
    fn usual(&self) -> Seen {
        let mut requests = self.seen;
        let seen = &mut requests[..self.count];
        seen.sort_unstable_by(|one, other| other.bytes_per_second.total_cmp(&one.bytes_per_second));
        seen[self.count / FASTEST]
    }
}

/// The class of a request: reads first, each direction from small to large.
fn class_of(direction: Direction, bytes: u64) -> u8 {
    let base = match direction {
        Direction::Read => 0,
        Direction::Write => SIZE_CLASSES,
    };
    let steps = (bytes.max(1).div_ceil(SMALLEST_BYTES)).next_power_of_two().ilog2().div_ceil(2);
    base + (steps as u8).min(SIZE_CLASSES - 1)
}

/// The size of a class's requests, of either direction.
pub(crate) fn size_of(class: u8) -> u8 {
    class % SIZE_CLASSES
}

/// The most bytes of a class's requests, but for the largest class, whose requests have at least so many.
pub(crate) fn bytes_of(class: u8) -> u64 {
    SMALLEST_BYTES << (2 * size_of(class))
}

/// Whether requests of a class are large enough to show the rate at which bytes stream.
pub(crate) fn is_streaming(class: u8) -> bool {
    size_of(class) >= SIZE_CLASSES - 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(rates: &Rates, class: u8) -> Option<f32> {
        rates.usual().into_iter().find(|&(known, _)| known == class).map(|(_, rate)| rate)
    }

    #[test]
    fn classes_are_by_factors_of_four_and_directions_apart() {
        let of = |bytes| class_of(Direction::Read, bytes);
        assert_eq!([1, 4096, 4097, 16 << 10, 64 << 10, 256 << 10].map(of), [0, 0, 1, 1, 2, 3]);
        assert_eq!([(256 << 10) + 1, 1 << 20, 4 << 20, 64 << 20].map(of), [4, 4, 5, 5]);
        assert_eq!(class_of(Direction::Write, 64 << 20), 11);
        assert!(is_streaming(of(1 << 20)) && !is_streaming(class_of(Direction::Write, 4096)));
    }

    #[test]
    fn the_usual_rate_is_not_that_of_stalls_and_follows_a_change_within_a_few_requests() {
        let mut rates = Rates::default();
        let mut observe = |millis| {
            rates.observe(Direction::Write, 1 << 20, Nanos::from_millis(millis), Nanos::ZERO);
            usual(&rates, 10)
        };
        for millis in [1, 900, 30] {
            assert_eq!(observe(millis), None, "a few requests say nothing");
        }
        let fast = Some((1u64 << 20) as f32 * 1e3);
        for millis in [1, 900, 1, 30, 40, 1, 50, 1, 60] {
            assert_eq!(observe(millis), fast, "a busy machine stalls every other request");
        }
        let slow = (1..20).find(|_| observe(58) == Some((1u64 << 20) as f32 * 1e3 / 58.0));
        assert_eq!(slow, Some(6), "no more than two of nine are faster");
        let fast_again = (1..20).find(|_| observe(1) == fast);
        assert_eq!(fast_again, Some(3));
    }

    #[test]
    fn what_was_seen_long_before_the_last_request_is_not_told() {
        let mut rates = Rates::default();
        for _ in 0..FEW {
            rates.observe(Direction::Read, 4096, Nanos::from_millis(1), Nanos::ZERO);
        }
        for _ in 0..FEW {
            rates.observe(Direction::Write, 4096, Nanos::from_millis(1), FORGOTTEN);
        }
        assert_eq!(rates.usual().len(), 2);
        rates.observe(Direction::Write, 4096, Nanos::from_millis(1), Nanos(FORGOTTEN.0 + 1));
        assert_eq!(rates.usual(), [(6, 4096.0 * 1e3)]);
    }

    #[test]
    fn a_request_that_takes_longer_than_usual_is_seen_before_it_ends() {
        let mut rates = Rates::default();
        let under_way = |millis| UnderWay {
            direction: Direction::Write,
            bytes: 1 << 20,
            service: Nanos::from_millis(millis),
        };
        let present = |rates: &Rates, millis| {
            let found = rates.present(std::iter::once(under_way(millis)));
            found.into_iter().find(|&(class, _)| class == 10).map(|(_, rate)| rate)
        };
        let mebibyte = (1u64 << 20) as f32;
        assert_eq!((present(&rates, 99), present(&rates, 200)), (None, Some(mebibyte * 5.0)));
        for _ in 0..FEW {
            rates.observe(Direction::Write, 1 << 20, Nanos::from_millis(50), Nanos::ZERO);
        }
        assert_eq!(present(&rates, 99), Some(mebibyte * 20.0));
        assert_eq!(present(&rates, 200), Some(mebibyte * 5.0));
    }

    #[test]
    fn differences_that_no_job_feels_are_none() {
        let mut rates = Rates::default();
        for micros in [1, 2, 1, 150] {
            rates.observe(Direction::Read, 4096, Nanos::from_micros(micros), Nanos::ZERO);
        }
        assert_eq!(rates.usual(), [(0, 4096.0 * 1e9 / 2e5)]);
    }

    /// A target in memory answers 8 KiB in a few microseconds. The figure of 41 MB/s that follows from the least time that is told
    /// apart says nothing about it.
    #[test]
    fn a_rate_is_measured_only_over_times_that_are_told_apart() {
        for (bytes, micros, is_measured) in [
            (8 << 10, 5, false),
            (8 << 10, 900, true),
            (1 << 20, 150, false),
            (1 << 20, 250, true),
            (4 << 20, 400, true),
        ] {
            let mut rates = Rates::default();
            for _ in 0..FEW {
                rates.observe(Direction::Write, bytes, Nanos::from_micros(micros), Nanos::ZERO);
            }
            let measured = rates.measured(&rates.usual());
            assert_eq!(measured.is_some(), is_measured, "{bytes} bytes in {micros} us");
            if let Some((_, rate)) = measured {
                assert!((f64::from(rate) * micros as f64 / 1e6 / bytes as f64 - 1.0).abs() < 1e-6);
            }
            let stuck = UnderWay { direction: Direction::Write, bytes, service: Nanos::from_millis(500) };
            let present = rates.present(std::iter::once(stuck));
            assert!(
                rates.measured(&present).is_some(),
                "{bytes} bytes that take half a second are a measurement"
            );
        }
        assert_eq!(Rates::default().measured(&[]), None);
    }
}
