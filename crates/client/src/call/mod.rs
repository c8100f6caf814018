//! A call as values without I/O: they are told what happened and at which moment, and say what comes next.
//!
//! A [`Course`] is one call of a program: one request, or several where the home of the file has to be asked for its fence
//! first. A [`Delivery`] is one request on its way to one server. It begins with an [`Approach`], the attempts at a connection,
//! and so does each resend; [`Tries`] are those at several servers. A [`Greeting`] opens a new connection. A [`Turn`] is the client's turn
//! to append to a file, [`Attempts`] and [`Detours`] are what a read or write has behind it, and a [`Way`] leads a path from
//! home to home. A [`Standing`] is what all calls know of one server, in atomics.
//!
//! No value here calls the system, reads a clock, waits or takes a lock. Whoever drives one owns the connection and the wait:
//! `exchange.rs` and `connect.rs` for threads of programs. Moments are durations since the session began.

mod approach;
mod attempts;
mod course;
mod delivery;
mod detour;
mod greeting;
#[cfg(test)]
mod greeting_law_tests;
#[cfg(test)]
mod law_tests;
mod standing;
mod tries;
mod turn;
#[cfg(test)]
mod turn_law_tests;
mod way;
#[cfg(test)]
mod way_law_tests;

pub(crate) use approach::{Approach, Failed};
pub(crate) use attempts::Attempts;
pub(crate) use course::{Course, Verdict};
pub(crate) use delivery::{Break, Delivery, Stall};
pub(crate) use detour::{Detours, Failure};
pub(crate) use greeting::{Greeted, Greeting, Guest};
pub(crate) use standing::Standing;
pub(crate) use tries::Tries;
pub(crate) use turn::{Appended, Turn, Wrote};
pub(crate) use way::Way;

use std::time::Duration;

/// The patience of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The longest silence of a server.
    pub(crate) silence: Duration,
    /// Whether a server that takes no connection now is tried again.
    pub(crate) tries_again: bool,
}

/// Longest wait for a silent server that was lost a moment ago.
const LOST_ATTEMPT: Duration = Duration::from_secs(1);

impl Bounds {
    /// The bound on the silence of a server, which is shorter where the server was lost a moment ago.
    pub(crate) fn silence_of(&self, standing: &Standing, now: Duration) -> Duration {
        if standing.counts_as_lost(now) {
            return self.silence.min(LOST_ATTEMPT);
        }
        self.silence
    }
}
