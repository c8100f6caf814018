//! From what is measured of targets and servers to the speeds and loads that allocators see.
//!
//! - *Health*: a target is as fast as what it achieves against what is expected of it. One that achieves a tenth has
//!   a tenth of the speed, and so gets a tenth of the work of its peers.
//! - *Space*: while free space is even, bandwidth alone decides. Where it is not, even stripes would fill one target
//!   while others are empty, after which files get fewer targets: so a target that is fuller than the window of
//!   Lustre's own allocator allows (Tarazu, equation 1) slows down in proportion to its free space. Full ones are left out.
//! - *Load*: bytes that wait, and the traffic that is there already for as long as the new files will be written.
//! - *Servers*: the busiest of processor, memory, network and queue is what holds the others up, so it alone counts.

use super::{AllocationError, ServerState, TargetState, View};
use crate::{ServerId, TargetId};
use std::collections::HashMap;

/// Part of the most free space by which a target's may be less before it slows down (Lustre's `qos_threshold_rr`).
const WINDOW: f64 = 0.17;

/// A target fuller than this takes no stripes: what is written there already needs room to grow.
const FILL_MAX: f64 = 0.99;

/// The least health: a target that achieves nothing still gets a stripe now and then, or it could never recover.
const HEALTH_LEAST: f64 = 0.01;

/// What is known of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetStatistics {
    /// Which target.
    pub target: TargetId,
    /// What a target of its kind achieves: its rated speed, or the median of its peers. 0: not to be used.
    pub expected_bytes_per_second: f64,
    /// What it achieved while it had work; absent until that was seen.
    pub achieved_bytes_per_second: Option<f64>,
    /// What it moves now.
    pub traffic_bytes_per_second: f64,
    /// What waits for it, or was placed on it and is not written yet.
    pub pending_bytes: f64,
    /// Its size.
    pub total_bytes: u64,
    /// What is free of it.
    pub free_bytes: u64,
}

/// What is known of a server. Parts are from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerStatistics {
    /// Which server.
    pub server: ServerId,
    /// What it can move; absent: as much as its targets together.
    pub bytes_per_second: Option<f64>,
    /// Part of its processors' time that is used.
    pub processor: f64,
    /// Part of its memory that is used and cannot be reclaimed.
    pub memory: f64,
    /// Part of its network's bandwidth that is used.
    pub network: f64,
    /// Part of its service slots that are taken, or of its queue's limit.
    pub queue: f64,
}

impl ServerStatistics {
    /// How busy it is: as its busiest part.
    pub fn busy(&self) -> f64 {
        [self.processor, self.memory, self.network, self.queue].into_iter().fold(0.0, f64::max).min(1.0)
    }
}

impl View {
    /// The view of what is known, for files that will be written in `horizon_seconds`.
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
        let mut speed_of_server: HashMap<ServerId, f64> = HashMap::new();
        let states = targets.iter().zip(space_factors(&free)).map(|(known, factor)| {
            let expected = known.expected_bytes_per_second;
            let speed = expected * health(known.achieved_bytes_per_second, expected);
            *speed_of_server.entry(known.target.server).or_default() += speed;
            TargetState {
                target: known.target,
                speed: speed * factor,
                load_bytes: known.pending_bytes + known.traffic_bytes_per_second * horizon_seconds,
                free_bytes: known.free_bytes,
            }
        });
        let states: Vec<TargetState> = states.collect();
        let servers: Vec<ServerState> = servers
            .iter()
            .map(|known| {
                let of_targets = speed_of_server.get(&known.server).copied().unwrap_or(0.0);
                let speed = known.bytes_per_second.unwrap_or(of_targets);
                ServerState {
                    server: known.server,
                    speed,
                    load_bytes: known.busy() * speed * horizon_seconds,
                }
            })
            .collect();
        View::new(states, &servers)
    }
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

/// For the free and total bytes of each target, what its fill leaves of its speed: 0 for a full one.
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

    #[test]
    fn a_server_is_as_busy_as_its_busiest_part() {
        let server = ServerStatistics {
            server: ServerId(0),
            bytes_per_second: None,
            processor: 0.2,
            memory: 0.1,
            network: 0.7,
            queue: 0.0,
        };
        let view =
            View::of_statistics(&[known(0, None, 500), known(1, Some(50.0), 500)], &[server], 2.0).unwrap();
        assert_eq!(view.servers()[0].speed, 150.0);
        assert!((view.servers()[0].load_bytes - 0.7 * 150.0 * 2.0).abs() < 1e-9);
        let narrow = ServerStatistics { bytes_per_second: Some(80.0), ..server };
        let view = View::of_statistics(&[known(0, None, 500)], &[narrow], 1.0).unwrap();
        assert_eq!(view.servers()[0].speed, 80.0);
    }
}
