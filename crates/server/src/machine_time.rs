//! The time of this machine, as its kernel tells it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_core::clock::Time;
use weir_fairshare::Nanos;

/// The monotonic clock and the wall clock of the kernel.
pub(crate) struct MachineTime {
    origin: Instant,
}

impl MachineTime {
    /// The time from now on.
    pub(crate) fn start() -> MachineTime {
        MachineTime { origin: Instant::now() }
    }
}

impl Time for MachineTime {
    fn elapsed(&self) -> Nanos {
        Nanos::from(self.origin.elapsed())
    }

    fn unix(&self) -> Duration {
        unix_time()
    }
}

/// Unix time in seconds, for the threads of the control API.
pub(crate) fn wall_seconds() -> u64 {
    unix_time().as_secs()
}

/// Unix time in seconds, to the millisecond, for entries of the audit: JSON gives each such number back as it was.
pub(crate) fn wall_moment() -> f64 {
    unix_time().as_millis() as f64 / 1000.0
}

fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A number of the machine and of its last start, which is another one after each start; 0 where the system has none.
pub(crate) fn machine_start() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or(0)
}
