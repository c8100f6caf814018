//! The server's clock: one moment for each turn of the loop, the limits of the parts of a turn, and two alarms.
//!
//! The core never asks the system for the time: it has a [`Time`], which the edge gives it.

use std::sync::Arc;
use std::time::Duration;
use weir_fairshare::Nanos;
use weir_wire::Moment;

/// How long after a restart only locks and files that were held before are given out.
const RECLAIM_GRACE: Nanos = Nanos::from_millis(10_000);
/// How often the server looks for silent clients and jobs.
const EXPIRY_INTERVAL: Nanos = Nanos::from_millis(500);

/// The time outside of the core. Workers measure their work by the same time.
pub trait Time: Send + Sync {
    /// The time since some fixed moment. It never goes back, and passes within a step as well.
    fn elapsed(&self) -> Nanos;

    /// Unix time, which the machine's owner may set back and forth.
    fn unix(&self) -> Duration;
}

/// The clock of one server.
pub(crate) struct Clock {
    time: Arc<dyn Time>,
    /// The moment of the start.
    origin: Nanos,
    now: Nanos,
    /// Unix time of the start.
    started: Duration,
    /// Unix time of this turn.
    wall: Duration,
    next_expiry: Nanos,
    grace_until: Option<Nanos>,
}

/// The end of one part of a turn of the loop.
#[derive(Clone, Copy)]
pub(crate) struct TimeLimit(Nanos);

impl TimeLimit {
    /// Whether the limit is reached at a moment.
    pub(crate) fn is_reached(self, at: Nanos) -> bool {
        at >= self.0
    }
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start(time: Arc<dyn Time>) -> Clock {
        let wall = time.unix();
        Clock {
            origin: time.elapsed(),
            now: Nanos::ZERO,
            started: wall,
            wall,
            next_expiry: Nanos::ZERO,
            grace_until: None,
            time,
        }
    }

    /// The time of this turn of the loop, since the server started.
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// The time within this step, since the server started. It tells how long a part of a step took, which is charged to whom the
    /// part was for; whatever is decided is decided by [`Clock::now`].
    pub(crate) fn within_step(&self) -> Nanos {
        self.time.elapsed().saturating_since(self.origin)
    }

    /// The limit of a part of this turn that may take so long from now on.
    pub(crate) fn limit(&self, length: Nanos) -> TimeLimit {
        TimeLimit(self.within_step() + length)
    }

    /// Whether the time of a part of this turn is over.
    pub(crate) fn is_over(&self, limit: TimeLimit) -> bool {
        limit.is_reached(self.within_step())
    }

    /// Sets the time of this turn.
    pub(crate) fn read(&mut self) {
        self.now = self.within_step();
        self.wall = self.time.unix();
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
        Nanos::from(self.started)
    }

    /// Unix time of the start, in milliseconds.
    pub(crate) fn started_milliseconds(&self) -> u64 {
        self.started.as_millis() as u64
    }

    /// Unix time in seconds, as the machine's owner has it set now: credentials end by it.
    pub(crate) fn wall_seconds(&self) -> u64 {
        self.time.unix().as_secs()
    }

    /// Unix time of this turn, in milliseconds.
    pub(crate) fn wall_milliseconds(&self) -> u64 {
        self.wall.as_millis() as u64
    }

    /// Unix time of this turn, for time stamps. It goes forth and back with the machine's own, as the stamps of a local file
    /// system do: a machine that slept, or whose clock was set, stamps files with the time that its programs see.
    pub(crate) fn moment(&self) -> Moment {
        Moment { seconds: self.wall.as_secs() as i64, nanoseconds: self.wall.subsec_nanos() }
    }
}

/// Nanoseconds as seconds.
pub fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A machine's two clocks, which a test sets.
    #[derive(Default)]
    pub(crate) struct SetTime(pub(crate) Mutex<(Nanos, Duration)>);

    impl Time for SetTime {
        fn elapsed(&self) -> Nanos {
            self.0.lock().unwrap().0
        }

        fn unix(&self) -> Duration {
            self.0.lock().unwrap().1
        }
    }

    #[test]
    fn stamps_follow_the_clock_of_the_machine_and_waits_do_not() {
        let time = Arc::new(SetTime::default());
        *time.0.lock().unwrap() = (Nanos::from_millis(100_000), Duration::from_secs(5_000));
        let mut clock = Clock::start(time.clone());
        // The machine slept for ten minutes, then its clock was set back by an hour.
        for (elapsed, wall) in [(101, 5_001), (102, 5_602), (103, 2_003)] {
            *time.0.lock().unwrap() = (Nanos::from_millis(1_000 * elapsed), Duration::from_secs(wall));
            clock.read();
            assert_eq!(clock.now(), Nanos::from_millis(1_000 * (elapsed - 100)));
            assert_eq!(clock.moment(), Moment { seconds: wall as i64, nanoseconds: 0 });
            assert_eq!(clock.wall_milliseconds(), wall * 1_000);
        }
        assert_eq!(clock.started_milliseconds(), 5_000_000, "the start was when it was");
    }
}
