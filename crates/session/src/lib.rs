//! A client of a store as values without I/O: they are told what happened and at which moment, and say what comes next.
//!
//! A [`Course`] is one call of a program: one request, or several where the home of the file has to be asked for its fence
//! first. A [`Delivery`] is one request on its way to one server. It begins with an [`Approach`], the attempts at a connection,
//! and so does each resend; [`Tries`] are those at several servers. A [`Greeting`] opens a new connection. A [`Turn`] is the client's turn
//! to append to a file, [`Attempts`] and [`Detours`] are what a read or write has behind it, and a [`Way`] leads a path from
//! home to home. A [`Standing`] is what all calls know of one server, in atomics, and [`Held`] what the client holds there.
//!
//! No value here calls the system, reads a clock, waits or takes a lock. Whoever drives one owns the connection and the wait:
//! `crates/client` for threads of programs, `crates/world` for tasks in virtual time. Moments are durations since the session began.
#![forbid(unsafe_code)]

mod approach;
mod attempts;
mod course;
mod delivery;
mod detour;
mod error;
mod greeting;
#[cfg(test)]
mod greeting_law_tests;
mod held;
#[cfg(test)]
mod law_tests;
mod place;
mod standing;
mod tries;
mod turn;
#[cfg(test)]
mod turn_law_tests;
mod way;

pub use approach::{Approach, Failed};
pub use attempts::Attempts;
pub use course::{Course, Verdict};
pub use delivery::{Break, Delivery, Stall};
pub use detour::{Detours, Failure};
pub use error::{ClientError, Result};
pub use greeting::{Greeted, Greeting, Guest};
pub use held::{lock_request, Held, HeldLock};
pub use place::{trim_start, Place, Size};
pub use standing::Standing;
pub use tries::Tries;
pub use turn::{Appended, Ending, Turn, Wrote};
pub use way::Way;

use std::time::Duration;

/// The patience of a call.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The longest silence of a server.
    pub silence: Duration,
    /// Whether a server that takes no connection now is tried again.
    pub tries_again: bool,
}

/// Longest wait for a silent server that was lost a moment ago.
const LOST_ATTEMPT: Duration = Duration::from_secs(1);

impl Bounds {
    /// The bound on the silence of a server, which is shorter where the server was lost a moment ago.
    pub fn silence_of(&self, standing: &Standing, now: Duration) -> Duration {
        if standing.counts_as_lost(now) {
            return self.silence.min(LOST_ATTEMPT);
        }
        self.silence
    }
}
