//! Keeping a rate.

use std::time::{Duration, Instant};

/// Longest sleep without a look at whether to end.
const TICK: Duration = Duration::from_millis(100);

/// Lets bytes pass at a rate: each part waits for the time that those before it have taken.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: Option<u64>,
    /// The moment at which the next part may pass.
    next: Instant,
}

impl Pace {
    /// At `rate` bytes a second; at once where there is none.
    pub(crate) fn new(rate: Option<u64>, now: Instant) -> Pace {
        Pace { rate, next: now }
    }

    /// The moment at which `bytes` that come at `now` may pass. Later bytes pass after them. Unused time is lost.
    fn admit(&mut self, bytes: u64, now: Instant) -> Instant {
        let Some(rate) = self.rate else { return now };
        let at = self.next.max(now);
        self.next = at + Duration::from_secs_f64(bytes as f64 / rate as f64);
        at
    }

    /// Waits until `bytes` may pass; `false` as soon as `is_over` says so.
    pub(crate) fn wait(&mut self, bytes: u64, is_over: impl Fn() -> bool) -> bool {
        let at = self.admit(bytes, Instant::now());
        loop {
            if is_over() {
                return false;
            }
            match at.checked_duration_since(Instant::now()) {
                Some(left) if left > Duration::ZERO => std::thread::sleep(left.min(TICK)),
                _ => return true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_pass_one_after_the_other_at_the_rate() {
        let now = Instant::now();
        let mut pace = Pace::new(Some(1000), now);
        assert_eq!(pace.admit(500, now), now);
        assert_eq!(pace.admit(2000, now), now + Duration::from_millis(500));
        let later = now + Duration::from_secs(10);
        assert_eq!(pace.admit(1000, later), later, "what was not used is lost");
        assert_eq!(pace.admit(1, later), later + Duration::from_secs(1));
        assert_eq!(Pace::new(None, now).admit(u64::MAX, now), now);
    }

    #[test]
    fn who_waits_can_be_ended() {
        let mut pace = Pace::new(Some(1), Instant::now());
        assert!(pace.wait(1 << 40, || false));
        assert!(!pace.wait(1, || true));
    }
}
