//! The health of a target: its speed beside the expected one, which comes from peers of the same class or from the
//! site.

use std::collections::HashMap;

use weir_fairshare::Nanos;

use crate::rates::{bytes_of, is_streaming, size_of, CLASSES};

/// Part of the expected speed below which a target is slow.
const SLOW_BELOW: f64 = 0.5;
/// A slow one is no longer so once it achieves this part: between the two nothing changes.
const WELL_FROM: f64 = 0.75;
/// Speeds that count as usual, beside the usual speed, so that noise does not unbalance files.
const USUAL: std::ops::RangeInclusive<f64> = 0.75..=1.5;

/// One target's usual rates by class, as [`crate::Rates::present`] tells them.
pub type Usual<'a> = &'a [(u8, f32)];

/// The usual rates of all targets that are heard of, by the names of their classes.
#[derive(Clone, Debug, Default)]
pub struct Peers<'a> {
    classes: HashMap<&'a str, Vec<Usual<'a>>>,
    all: Vec<Usual<'a>>,
}

/// The class of each target, where it is known, and its usual rates.
impl<'a> FromIterator<(Option<&'a str>, Usual<'a>)> for Peers<'a> {
    fn from_iter<T: IntoIterator<Item = (Option<&'a str>, Usual<'a>)>>(targets: T) -> Peers<'a> {
        let mut peers = Peers::default();
        for (class, rates) in targets {
            if let Some(class) = class {
                peers.classes.entry(class).or_default().push(rates);
            }
            peers.all.push(rates);
        }
        peers
    }
}

/// Figures of one target's speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Health {
    /// The rate of its last requests, in bytes a second; none where they had too few bytes, or took too little time, to show a rate.
    pub achieved_bytes_per_second: Option<f64>,
    /// The rate that such requests were expected to achieve.
    pub expected_bytes_per_second: Option<f64>,
    /// Its speed beside the store's usual target.
    pub speed: f64,
    /// The begin of its slowness, in milliseconds of Unix time.
    pub slow_since: Option<u64>,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            achieved_bytes_per_second: None,
            expected_bytes_per_second: None,
            speed: 1.0,
            slow_since: None,
        }
    }
}

impl Health {
    /// Looks at a target again.
    ///
    /// `own` are its rates, which are also among those of its `class` in `peers`; `expected` is the site's number in bytes
    /// a second; `now` is in milliseconds of Unix time. Where the machine makes its processes wait for processors, their
    /// requests may take `stall` longer, and times below it tell nothing of targets.
    pub fn judge(
        &mut self,
        own: Usual,
        class: &str,
        peers: &Peers,
        expected: Option<f64>,
        now: u64,
        stall: Nanos,
    ) {
        let all = &peers.all[..];
        let class = peers.classes.get(class).map_or(&[][..], Vec::as_slice);
        let Some(&(size, achieved)) = own.iter().max_by_key(|(class, _)| size_of(*class)) else {
            self.speed = relative(class, all);
            return;
        };
        // The site's number is a rate at which bytes stream: small requests are not held against it.
        let expected = expected.filter(|_| is_streaming(size));
        let told =
            |size: u8, rate: f32| rate.min((bytes_of(size) as f64 * 1e9 / stall.0.max(1) as f64) as f32);
        let ratio = match expected {
            Some(expected) => f64::from(told(size, achieved)) / f64::from(told(size, expected as f32)),
            None => mean_ratio(own.iter().filter_map(|&(size, rate)| {
                let usual = usual_of(class, size)?;
                Some((told(size, rate), told(size, usual)))
            })),
        };
        match self.slow_since {
            None if ratio < SLOW_BELOW => self.slow_since = Some(now),
            Some(_) if ratio >= WELL_FROM => self.slow_since = None,
            _ => {}
        }
        let own_part = if USUAL.contains(&ratio) { 1.0 } else { ratio };
        self.speed = own_part * relative(class, all);
    }

    /// Takes up the rate to show after a judgement: that of the target's requests of one class, as [`crate::Rates::measured`] tells
    /// it. Small requests show the time that each takes rather than a rate of bytes, so theirs is shown of a slow target alone.
    pub fn show(&mut self, measured: Option<(u8, f32)>, class: &str, peers: &Peers, expected: Option<f64>) {
        let measured = measured.filter(|&(requests, _)| is_streaming(requests) || self.slow_since.is_some());
        let usual = |requests| {
            let alike = peers.classes.get(class).map_or(&[][..], Vec::as_slice);
            expected.filter(|_| is_streaming(requests)).or_else(|| usual_of(alike, requests).map(f64::from))
        };
        self.achieved_bytes_per_second = measured.map(|(_, rate)| f64::from(rate));
        self.expected_bytes_per_second = measured.and_then(|(requests, _)| usual(requests));
    }
}

/// The speed of a class beside all targets.
fn relative(class: &[Usual], all: &[Usual]) -> f64 {
    if class.len() == all.len() {
        return 1.0;
    }
    let sizes = 0..CLASSES;
    let ratio = mean_ratio(sizes.filter_map(|size| Some((usual_of(class, size)?, usual_of(all, size)?))));
    if USUAL.contains(&ratio) {
        1.0
    } else {
        ratio
    }
}

/// The upper median of the speeds that targets achieve with requests of one class.
fn usual_of(targets: &[Usual], size: u8) -> Option<f32> {
    let of_size = |rates: &Usual| rates.iter().find(|&&(known, _)| known == size).map(|&(_, rate)| rate);
    let mut rates: Vec<f32> = targets.iter().filter_map(of_size).collect();
    rates.sort_unstable_by(f32::total_cmp);
    rates.get(rates.len() / 2).copied()
}

/// The geometric mean of the ratios of pairs; 1 of none.
fn mean_ratio(pairs: impl Iterator<Item = (f32, f32)>) -> f64 {
    let (mut sum, mut count) = (0.0, 0u32);
    for (rate, usual) in pairs {
        sum += (f64::from(rate) / f64::from(usual)).ln();
        count += 1;
    }
    if count == 0 {
        1.0
    } else {
        (sum / f64::from(count)).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(health: &mut Health, own: f32, peers: &[f32], expected: Option<f64>, now: u64) {
        let rates: Vec<[(u8, f32); 1]> =
            std::iter::once(&own).chain(peers).map(|&rate| [(10, rate)]).collect();
        let class: Peers = rates.iter().map(|rate| (Some("disk"), &rate[..])).collect();
        health.judge(&rates[0], "disk", &class, expected, now, Nanos::ZERO);
        health.show(Some(rates[0][0]), "disk", &class, expected);
    }

    #[test]
    fn a_rate_is_shown_of_large_requests_and_of_slow_targets() {
        let small: Usual = &[(1, 40.0)];
        let usual: Usual = &[(1, 90.0)];
        let peers: Peers =
            [(Some("disk"), small), (Some("disk"), usual), (Some("disk"), usual)].into_iter().collect();
        let mut health = Health { slow_since: Some(1), ..Health::default() };
        let mut shown = |slow_since, measured| {
            health.slow_since = slow_since;
            health.show(measured, "disk", &peers, None);
            (health.achieved_bytes_per_second, health.expected_bytes_per_second)
        };
        assert_eq!(shown(Some(1), Some(small[0])), (Some(40.0), Some(90.0)));
        assert_eq!(shown(None, Some(small[0])), (None, None), "latency is no rate");
        assert_eq!(shown(None, Some((10, 7.0))), (Some(7.0), None));
        assert_eq!(shown(None, None), (None, None), "no rate stays from before");
    }

    #[test]
    fn a_target_under_half_of_its_peers_is_slow_until_it_reaches_three_quarters() {
        let mut health = Health::default();
        let peers = [1000.0, 980.0, 1010.0];
        for (now, own, slow_since, speed) in [
            (1, 510.0, None, 0.51),
            (2, 490.0, Some(2), 0.49),
            (3, 700.0, Some(2), 0.70),
            (4, 17.0, Some(2), 0.017),
            (5, 760.0, None, 1.0),
            (6, 510.0, None, 0.51),
        ] {
            judged(&mut health, own, &peers, None, now);
            assert_eq!(health.slow_since, slow_since, "{own}");
            assert!((health.speed / speed - 1.0).abs() < 0.02, "{own}: {}", health.speed);
        }
        assert_eq!(health.achieved_bytes_per_second, Some(510.0));
        assert_eq!(health.expected_bytes_per_second, Some(1000.0));
    }

    #[test]
    fn of_two_the_slower_is_slow_and_one_alone_needs_the_number_of_the_site() {
        let mut health = Health::default();
        judged(&mut health, 10.0, &[1000.0], None, 1);
        assert_eq!(health.slow_since, Some(1));
        let mut health = Health::default();
        judged(&mut health, 10.0, &[], None, 1);
        assert_eq!((health.slow_since, health.speed), (None, 1.0));
        judged(&mut health, 10.0, &[], Some(100.0), 2);
        assert_eq!(health.slow_since, Some(2));
        assert_eq!(health.expected_bytes_per_second, Some(100.0));
    }

    /// Requests of 4 MiB that take 0.3 ms at one target and 4 ms at another differ by less than a time slice. Where a
    /// request takes 17 s, no machine is the reason.
    #[test]
    fn a_target_of_a_busy_machine_is_not_slow_for_times_that_its_process_may_have_waited() {
        let (fast, stalled, slow) = ([(11, 14e9)], [(11, 1e9)], [(11, 25e4)]);
        let peers: Peers =
            [&fast, &stalled, &fast, &fast].map(|rates| (Some("ram"), &rates[..])).into_iter().collect();
        let judged = |own: Usual, stall| {
            let mut health = Health::default();
            health.judge(own, "ram", &peers, None, 1, stall);
            (health.slow_since, health.speed)
        };
        assert_eq!(judged(&stalled, Nanos::from_millis(50)), (None, 1.0));
        assert_eq!(judged(&stalled, Nanos::ZERO).0, Some(1), "on a machine with processors to spare");
        assert_eq!(judged(&slow, Nanos::from_millis(50)).0, Some(1));
    }

    #[test]
    fn what_was_never_seen_is_as_fast_as_its_class() {
        let (disk, flash) = ([(10, 100.0)], [(10, 1000.0)]);
        let nothing: Usual = &[];
        let flashes = [(Some("flash"), &flash[..]); 3];
        let disks = [(Some("disk"), &disk[..]), (Some("disk"), nothing)];
        let all: Peers = flashes.into_iter().chain(disks).collect();
        let mut health = Health::default();
        health.judge(nothing, "disk", &all, None, 1, Nanos::ZERO);
        assert!((health.speed - 0.1).abs() < 1e-6, "{}", health.speed);
        assert_eq!((health.slow_since, health.achieved_bytes_per_second), (None, None));
        health.judge(&disk, "disk", &all, None, 1, Nanos::ZERO);
        assert!((health.speed - 0.1).abs() < 1e-6, "a class of its own, not a slow target");
        assert_eq!(health.slow_since, None);
    }

    #[test]
    fn sizes_are_compared_each_with_its_own() {
        let own: Usual = &[(0, 50.0), (10, 1000.0)];
        let peer: Usual = &[(0, 50.0), (11, 4000.0)];
        let mut health = Health::default();
        let peers: Peers = [own, peer, peer].into_iter().map(|rates| (Some("disk"), rates)).collect();
        health.judge(own, "disk", &peers, None, 1, Nanos::ZERO);
        assert_eq!((health.slow_since, health.speed), (None, 1.0));
    }
}
