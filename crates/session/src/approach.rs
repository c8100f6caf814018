//! The attempts at a connection to one server, within a bound.

use crate::{Bounds, Standing};
use std::time::Duration;

/// First pause between two attempts; it doubles up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(5);
/// Longest pause: a client finds a restarted server within this time.
const BACKOFF_MAX: Duration = Duration::from_millis(250);

/// The attempts at a connection.
#[derive(Debug)]
pub struct Approach {
    until: Duration,
    pause: Duration,
    /// The moment of the last attempt.
    began: Duration,
    is_once: bool,
}

/// The step after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Another attempt follows after a pause.
    Pause(Duration),
    /// The server is not reached. The last attempt waited for this time.
    Over(Duration),
}

impl Approach {
    /// Attempts from `now` to the moment `until` at most. One attempt is made where the server counts as lost, or where the call
    /// can do without the server.
    pub fn new(bounds: Bounds, standing: &Standing, now: Duration, until: Duration) -> Approach {
        Approach {
            until: until.min(now + bounds.silence_of(standing, now)),
            pause: BACKOFF_MIN,
            began: now,
            is_once: standing.counts_as_lost(now) || !bounds.tries_again,
        }
    }

    /// Begins an attempt. Returns the moment at which it is given up.
    pub fn attempt(&mut self, now: Duration) -> Duration {
        self.began = now;
        self.until
    }

    /// The attempt failed, and another one may succeed.
    pub fn failed(&mut self, now: Duration) -> Failed {
        if self.is_once || now + self.pause >= self.until {
            return Failed::Over(now.saturating_sub(self.began));
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(BACKOFF_MAX);
        Failed::Pause(pause)
    }
}
