//! Speeds and loads for allocators, from measurements of targets and servers.
//!
//! - *Health*: the speed of a target is the speed that it achieves beside its expected one. A target that achieves a
//!   tenth has a tenth of the speed, and so gets a tenth of the work of its peers.
//! - *Space*: while free space is even, bandwidth alone decides. Where free space is uneven, even stripes would fill one
//!   target while others are empty, and later files would get fewer targets. So a target that is fuller than the window
//!   of Lustre's own allocator allows (Tarazu, equation 1) slows down in proportion to its free space. Full targets are
//!   left out.
//! - *Load*: bytes that wait, and the present traffic for as long as the new files will be written. A server has the
//!   loads of its targets.
//! - *Servers*: the busiest of processors, memory and network holds the others up, so it alone counts. The work that keeps
//!   a machine busy goes on while files are written, however large they are. So it makes the machine's targets slower by
//!   a factor, and is no number of bytes. Noise must not unbalance files, and where all machines are equally busy there is
//!   nothing to choose. So only the part beyond half, and clearly beyond the least busy server, counts.

use super::{AllocationError, ServerState, TargetState, View};
use crate::{ServerId, TargetId};
use std::collections::HashMap;

/// Part of the most free space by which a target's may be less before it slows down (Lustre's `qos_threshold_rr`).
const WINDOW: f64 = 0.17;

/// A target fuller than this takes no stripes: the files on it need room to grow.
const FILL_MAX: f64 = 0.99;

/// The least health: a target that achieves nothing still gets a stripe now and then, or it could never recover.
const HEALTH_LEAST: f64 = 0.01;

/// A server that is busy up to here has all that its targets need.
const BUSY_USUAL: f64 = 0.5;

/// And so has one that is busier than the least busy one by no more than this: averages of the same machine, taken at
/// different times, differ by less.
const BUSY_MARGIN: f64 = 0.25;

/// The part of a saturated machine that new work gets: programs take turns on processors and links.
const LEFT_LEAST: f64 = 0.1;

/// Number of means beyond which a queue counts: the rest is bytes of placed files, seen twice.
const QUEUE_USUAL: f64 = 2.0;

/// Figures of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetStatistics {
    /// The target.
    pub target: TargetId,
    /// The speed of a target of this kind: its rated speed, or the median of its peers. 0 excludes the target.
    pub expected_bytes_per_second: f64,
    /// The speed that the target achieved while it had work; absent until it had some.
    pub achieved_bytes_per_second: Option<f64>,
    /// The bytes that the target moves now.
    pub traffic_bytes_per_second: f64,
    /// The bytes that wait for the target, or were placed on it and are not written yet.
    pub pending_bytes: f64,
    /// Its size.
    pub total_bytes: u64,
    /// The free bytes of the target.
    pub free_bytes: u64,
}

/// Figures of a server. Parts are from 0 to 1, and absent where they are not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerStatistics {
    /// The server.
    pub server: ServerId,
    /// The bytes that the server can move; absent: as many as its targets together.
    pub bytes_per_second: Option<f64>,
    /// Part of its processors' time that is used.
    pub processors: Option<f64>,
    /// Part of its memory that is used and cannot be reclaimed.
    pub memory: Option<f64>,
    /// Part of its network's bandwidth that is used.
    pub network: Option<f64>,
}

impl ServerStatistics {
    /// The use of the busiest part.
    pub fn busy(&self) -> Option<f64> {
        [self.processors, self.memory, self.network].into_iter().flatten().reduce(f64::max)
    }
}

impl View {
    /// The view of these figures, for files that will be written in `horizon_seconds`.
    ///
    /// # Errors
    /// As [`View::new`].
    pub fn of_statistics(
        targets: &[TargetStatistics],
        servers: &[ServerStatistics],
        horizon_seconds: f64,
    ) -> Result<View, AllocationError> {
        let free: Vec<(u64, u64)> =
            targets.iter().map(|known| (known.free_bytes, known.total_bytes)).collect();
        let busy: Vec<Option<f64>> = servers.iter().map(ServerStatistics::busy).collect();
        let lefts = busy_factors(&busy);
        let left_of: HashMap<ServerId, f64> =
            servers.iter().map(|known| known.server).zip(lefts.iter().copied()).collect();
        let mut of_targets: HashMap<ServerId, (f64, f64)> = HashMap::new();
        let states = targets.iter().zip(space_factors(&free)).map(|(known, factor)| {
            let server = known.target.server;
            let expected = known.expected_bytes_per_second;
            let left = left_of.get(&server).copied().unwrap_or(1.0);
            let speed = expected * health(known.achieved_bytes_per_second, expected) * left;
            let load_bytes = known.pending_bytes + known.traffic_bytes_per_second * horizon_seconds;
            let sum = of_targets.entry(server).or_default();
            *sum = (sum.0 + speed, sum.1 + load_bytes);
            TargetState {
                target: known.target,
                speed: speed * factor,
                load_bytes,
                free_bytes: known.free_bytes,
            }
        });
        let states: Vec<TargetState> = states.collect();
        let servers = servers.iter().zip(lefts).map(|(known, left)| {
            let (speed, load_bytes) = of_targets.get(&known.server).copied().unwrap_or_default();
            let speed = known.bytes_per_second.map_or(speed, |speed| speed * left);
            ServerState { server: known.server, speed, load_bytes }
        });
        View::new(states, &servers.collect::<Vec<_>>())
    }
}

/// The factors on the speeds of targets, from a tenth to 1, that follow from the use of each server's machine: from 0
/// to 1, or not known.
pub fn busy_factors(busy: &[Option<f64>]) -> Vec<f64> {
    let least = busy.iter().flatten().copied().fold(1.0, f64::min);
    let usual = BUSY_USUAL.max(least + BUSY_MARGIN);
    let factor = |busy: &Option<f64>| match *busy {
        Some(busy) if busy > usual => (1.0 - (busy - usual) / (1.0 - BUSY_USUAL)).max(LEFT_LEAST),
        _ => 1.0,
    };
    busy.iter().map(factor).collect()
}

/// The part of each queue that counts as load: the part beyond twice the mean, and beyond `least`. Any unit.
pub fn queue_excess(queues: &[f64], least: f64) -> Vec<f64> {
    let mean = queues.iter().sum::<f64>() / queues.len().max(1) as f64;
    let usual = least.max(QUEUE_USUAL * mean);
    queues.iter().map(|queue| (queue - usual).max(0.0)).collect()
}

/// Part of the expected speed that a target achieves: from a hundredth to 1, which it has until it was seen at work.
///
/// More than is expected counts as 1: a cache's burst does not last.
pub fn health(achieved_bytes_per_second: Option<f64>, expected_bytes_per_second: f64) -> f64 {
    match achieved_bytes_per_second {
        Some(achieved) if expected_bytes_per_second > 0.0 => {
            (achieved / expected_bytes_per_second).clamp(HEALTH_LEAST, 1.0)
        }
        _ => 1.0,
    }
}

/// The factor on each target's speed that follows from its fill, by free and total bytes: 0 for a full target.
pub fn space_factors(space: &[(u64, u64)]) -> Vec<f64> {
    let most = space.iter().map(|&(free, _)| free).max().unwrap_or(0) as f64;
    let factor = |&(free, total): &(u64, u64)| {
        let is_full = free == 0 || (free as f64) < (1.0 - FILL_MAX) * total as f64;
        if is_full {
            0.0
        } else {
            (free as f64 / most / (1.0 - WINDOW)).min(1.0)
        }
    };
    space.iter().map(factor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(index: u16, achieved: Option<f64>, free_bytes: u64) -> TargetStatistics {
        TargetStatistics {
            target: TargetId { server: ServerId(0), index },
            expected_bytes_per_second: 100.0,
            achieved_bytes_per_second: achieved,
            traffic_bytes_per_second: 10.0,
            pending_bytes: 5.0,
            total_bytes: 1000,
            free_bytes,
        }
    }

    #[test]
    fn a_target_is_as_fast_as_what_it_achieves() {
        let achieved = [None, Some(100.0), Some(250.0), Some(10.0), Some(0.0)];
        let targets: Vec<_> = achieved
            .into_iter()
            .enumerate()
            .map(|(index, achieved)| known(index as u16, achieved, 500))
            .collect();
        let view = View::of_statistics(&targets, &[], 2.0).unwrap();
        let speeds: Vec<f64> = view.targets().iter().map(|state| state.speed).collect();
        assert_eq!(speeds, [100.0, 100.0, 100.0, 10.0, 1.0]);
        assert!(view.targets().iter().all(|state| state.load_bytes == 25.0));
    }

    #[test]
    fn fill_counts_beyond_the_window_and_excludes_the_full() {
        let factors =
            space_factors(&[(1000, 1000), (840, 1000), (415, 1000), (9, 1000), (0, 1000), (20, 1000)]);
        assert_eq!(&factors[..2], [1.0, 1.0]);
        assert!((factors[2] - 0.5).abs() < 1e-12);
        assert_eq!(&factors[3..5], [0.0, 0.0]);
        assert!(factors[5] > 0.0 && factors[5] < 0.03);
        assert_eq!(space_factors(&[(0, 0)]), [0.0]);
    }

    fn server(number: u16, processors: f64) -> ServerStatistics {
        ServerStatistics {
            server: ServerId(number),
            bytes_per_second: None,
            processors: Some(processors),
            memory: None,
            network: None,
        }
    }

    #[test]
    fn a_server_is_as_busy_as_its_busiest_part() {
        let parts = ServerStatistics { memory: Some(0.1), network: Some(0.7), ..server(0, 0.2) };
        assert_eq!(parts.busy(), Some(0.7));
        assert_eq!(ServerStatistics { processors: None, ..server(0, 0.0) }.busy(), None);
    }

    #[test]
    fn a_busy_server_slows_its_targets_down_and_has_their_load() {
        let elsewhere = TargetId { server: ServerId(1), index: 0 };
        let targets = [
            known(0, None, 500),
            known(1, Some(50.0), 500),
            TargetStatistics { target: elsewhere, ..known(0, None, 500) },
        ];
        let narrow = ServerStatistics { bytes_per_second: Some(80.0), ..server(1, 0.1) };
        let view = View::of_statistics(&targets, &[server(0, 0.9), narrow], 2.0).unwrap();
        let speeds: Vec<f64> = view.targets().iter().map(|state| state.speed).collect();
        assert!(speeds.iter().zip([20.0, 10.0, 100.0]).all(|(speed, is)| (speed - is).abs() < 1e-9));
        let servers: Vec<_> = view.servers().iter().map(|state| (state.speed, state.load_bytes)).collect();
        assert!((servers[0].0 - 30.0).abs() < 1e-9);
        assert_eq!((servers[0].1, servers[1]), (50.0, (80.0, 25.0)));
    }

    #[test]
    fn only_who_is_clearly_busier_than_the_least_busy_has_less_left() {
        for equal in [
            &[Some(0.0), Some(0.5), Some(0.31)][..],
            &[Some(0.6), Some(0.84), None],
            &[Some(0.98), Some(0.99), Some(1.0)],
            &[Some(1.0)],
            &[None, None],
            &[],
        ] {
            assert!(busy_factors(equal).iter().all(|&factor| factor == 1.0), "{equal:?}");
        }
        let factors = busy_factors(&[Some(0.05), Some(0.9), Some(1.0), None, Some(0.75)]);
        let expected = [1.0, 0.2, 0.1, 1.0, 0.5];
        assert!(factors.iter().zip(expected).all(|(factor, is)| (factor - is).abs() < 1e-9), "{factors:?}");
        let crossed = busy_factors(&[Some(0.7), Some(0.96)])[1];
        assert!((crossed - 0.98).abs() < 1e-9, "who is just beyond has a little less: {crossed}");
    }

    #[test]
    fn of_queues_only_what_stands_out_counts() {
        assert_eq!(queue_excess(&[0.0, 9.0, 0.0], 0.0), [0.0, 3.0, 0.0]);
        assert_eq!(queue_excess(&[0.0, 9.0, 0.0], 8.0), [0.0, 1.0, 0.0]);
        assert_eq!(queue_excess(&[2.0, 3.0, 4.0], 0.0), [0.0, 0.0, 0.0]);
        assert!(queue_excess(&[], 1.0).is_empty());
    }
}
