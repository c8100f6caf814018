//! The server's clock: one moment for each turn of the loop, the time right now where a measurement needs it, and two alarms.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_fairshare::Nanos;
use weir_wire::Moment;

/// How long after a restart only locks and files that were held before are given out.
const RECLAIM_GRACE: Nanos = Nanos::from_millis(10_000);
/// How often the server looks for silent clients and jobs.
const EXPIRY_INTERVAL: Nanos = Nanos::from_millis(500);

/// The clock of one server.
pub(crate) struct Clock {
    origin: Instant,
    now: Nanos,
    /// Unix time at the origin.
    wall_offset: Duration,
    next_expiry: Nanos,
    grace_until: Option<Nanos>,
}

/// A number of the machine and of its last start, which is another one after each start; 0 where the system has none.
pub(crate) fn machine_start() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or(0)
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Clock {
        let wall_offset = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock {
            origin: Instant::now(),
            now: Nanos::ZERO,
            wall_offset,
            next_expiry: Nanos::ZERO,
            grace_until: None,
        }
    }

    /// The time of this turn of the loop, since the server started.
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// The time right now, since the server started.
    pub(crate) fn right_now(&self) -> Nanos {
        Nanos::from(self.origin.elapsed())
    }

    /// Sets the time of this turn.
    pub(crate) fn read(&mut self) {
        self.now = self.right_now();
    }

    /// The next moment at which the server looks for everything that has expired.
    pub(crate) fn next_expiry(&self) -> Nanos {
        self.next_expiry
    }

    /// Whether that moment has come, which then comes again an interval later.
    pub(crate) fn take_expiry(&mut self) -> bool {
        let is_due = self.now >= self.next_expiry;
        if is_due {
            self.next_expiry = self.now + EXPIRY_INTERVAL;
        }
        is_due
    }

    /// Only locks and files that were held before the restart are given out for a while.
    pub(crate) fn begin_grace(&mut self) {
        self.grace_until = Some(RECLAIM_GRACE);
    }

    /// Whether that while is over; true once.
    pub(crate) fn take_end_of_grace(&mut self) -> bool {
        let is_over = self.grace_until.is_some_and(|until| self.now >= until);
        if is_over {
            self.grace_until = None;
        }
        is_over
    }

    /// Unix time of the start.
    pub(crate) fn started(&self) -> Nanos {
        Nanos::from(self.wall_offset)
    }

    /// Unix time of the start, in milliseconds.
    pub(crate) fn started_milliseconds(&self) -> u64 {
        self.wall_offset.as_millis() as u64
    }

    /// Unix time of this turn, in milliseconds.
    pub(crate) fn wall_milliseconds(&self) -> u64 {
        (self.wall_offset + Duration::from(self.now)).as_millis() as u64
    }

    /// Unix time of this turn, for time stamps; it never goes back while the server runs.
    pub(crate) fn moment(&self) -> Moment {
        let wall = self.wall_offset + Duration::from(self.now);
        Moment { seconds: wall.as_secs() as i64, nanoseconds: wall.subsec_nanos() }
    }
}

/// Unix time in seconds, as the system has it now.
pub(crate) fn wall_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Nanoseconds as seconds.
pub(crate) fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}
