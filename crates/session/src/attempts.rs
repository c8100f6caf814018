//! The attempts of a call that begins again because the file is being shortened or laid out anew.

use crate::{ClientError, Result};
use rustix::io::Errno as System;
use std::time::Duration;

/// Attempts that follow each other at once. One is usually enough.
const EAGER_ATTEMPTS: u32 = 4;
/// Longest pause between two attempts: a cut over several servers takes less.
const PAUSE_MAX: Duration = Duration::from_millis(8);

/// The attempts of a call. A time bounds them, because a cut over several servers may take long. Pauses lie between them,
/// because objects answer "stale" until the cut is over.
#[derive(Debug)]
pub struct Attempts {
    limit: Duration,
    began: Option<Duration>,
    count: u32,
}

impl Attempts {
    /// Attempts for `limit`, the bound on a server's silence.
    pub fn new(limit: Duration) -> Attempts {
        Attempts { limit, began: None, count: 0 }
    }

    /// Begins a new attempt. Returns the pause before it.
    ///
    /// # Errors
    /// `EIO` where others shortened the file at every attempt until the limit.
    pub fn again(&mut self, now: Duration) -> Result<Duration> {
        let began = *self.began.get_or_insert(now);
        self.count += 1;
        if self.count <= EAGER_ATTEMPTS {
            return Ok(Duration::ZERO);
        }
        if now.saturating_sub(began) >= self.limit {
            return Err(ClientError::number(System::IO.raw_os_error()));
        }
        let doublings = (self.count - EAGER_ATTEMPTS).min(8);
        Ok((Duration::from_micros(50) * (1 << doublings)).min(PAUSE_MAX))
    }
}
