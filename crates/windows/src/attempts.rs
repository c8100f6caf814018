//! The times at which a process tries to open its file of windows.
//!
//! The memory may be full for a while, and a folder another user's until somebody removes it. So a long-lived process tries
//! again, at most once in some seconds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Seconds between two attempts: an open that fails costs some microseconds, and a window has up to a minute.
const RETRY_SECONDS: u64 = 10;

/// The attempts of a process, by the seconds of a clock that never goes back.
#[derive(Debug, Default)]
pub struct Attempts {
    /// The second of the next attempt; 0 where none has failed.
    next: AtomicU64,
}

impl Attempts {
    /// The attempts of a process that has made none.
    pub const fn new() -> Attempts {
        Attempts { next: AtomicU64::new(0) }
    }

    /// Whether an attempt has failed, and none has succeeded since.
    #[inline]
    pub fn are_failing(&self) -> bool {
        self.next.load(Relaxed) != 0
    }

    /// Whether the caller is to try now. Before the first failure each thread is, so that none misses its first operations;
    /// later one for all.
    pub fn is_due(&self, now: u64) -> bool {
        let next = self.next.load(Relaxed);
        next == 0
            || now >= next && self.next.compare_exchange(next, now + RETRY_SECONDS, Relaxed, Relaxed).is_ok()
    }

    /// Notes an attempt that failed.
    pub fn fail(&self, now: u64) {
        self.next.fetch_max(now + RETRY_SECONDS, Relaxed);
    }

    /// Notes an attempt that succeeded.
    pub fn succeed(&self) {
        self.next.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_try_until_one_fails_and_then_one_of_them_in_ten_seconds() {
        let attempts = Attempts::new();
        assert!(attempts.is_due(100) && attempts.is_due(100) && !attempts.are_failing());
        attempts.fail(100);
        attempts.fail(99);
        assert!(attempts.are_failing() && !attempts.is_due(109));
        assert!(attempts.is_due(110) && !attempts.is_due(110) && !attempts.is_due(119));
        assert!(attempts.is_due(125), "an attempt that never came to its end holds up no other");
        attempts.succeed();
        assert!(!attempts.are_failing());
    }
}
