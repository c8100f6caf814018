//! The attempts at several servers that one call needs together: each has its turn, and then the others.

use crate::{Approach, Bounds, Standing};
use std::time::Duration;

/// The first turn of one server among several is this part of the bound on silence. Each further turn is twice as long.
const TURN_PARTS: u32 = 8;

/// The time for which servers are tried, all of them together. Time in which others of them answer does not count.
#[derive(Debug)]
pub struct Tries {
    bounds: Bounds,
    left: Duration,
    /// The time of one server, before the others are tried.
    turn: Duration,
}

impl Tries {
    /// The first round.
    pub fn new(bounds: Bounds) -> Tries {
        Tries { bounds, left: bounds.silence, turn: bounds.silence / TURN_PARTS }
    }

    /// Begins the next round.
    pub fn go_round(&mut self) {
        self.turn *= 2;
    }

    /// The attempts at one server in this round.
    pub fn approach(&self, standing: &Standing, now: Duration) -> Approach {
        Approach::new(self.bounds, standing, now, now + self.turn.min(self.left))
    }

    /// The server was not reached by the attempts that began at `began`, of which the last took the time `waited`. Returns
    /// whether the next round tries the server again.
    pub fn unreached(
        &mut self,
        standing: &Standing,
        (began, now): (Duration, Duration),
        waited: Duration,
    ) -> bool {
        let is_last = self.left <= self.turn || standing.counts_as_lost(began);
        self.left = self.left.saturating_sub(now.saturating_sub(began));
        // A server that refuses does so at once. A silent server takes its whole turn.
        !is_last && (self.bounds.tries_again || waited >= self.turn / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failed;
    use weir_testing::Choices;

    const SILENCE: Duration = Duration::from_secs(8);

    fn milliseconds(choices: &mut Choices, below: u64) -> Duration {
        Duration::from_millis(choices.below(below))
    }

    /// Random servers that are silent, refuse, or are back at some moment, beside others that take long to answer.
    #[test]
    fn servers_are_tried_in_turns_for_one_bound_and_found_when_they_are_back() {
        let mut choices = Choices::new();
        let (mut found, mut given_up) = (0, 0);
        for case in 0..5_000 {
            let bounds = Bounds { silence: SILENCE, tries_again: choices.below(4) > 0 };
            let mut tries = Tries::new(bounds);
            let (mut now, mut spent) = (Duration::from_secs(100), Duration::ZERO);
            let mut waiting: Vec<(Standing, Duration, bool)> = (0..1 + choices.below(5))
                .map(|_| {
                    let back = now + milliseconds(&mut choices, 24_000);
                    (Standing::default(), back, choices.below(2) == 0)
                })
                .collect();
            for round in 0.. {
                assert!(round <= 12, "case {case}: the rounds do not end");
                waiting.retain(|(standing, back, is_silent)| {
                    let began = now;
                    let mut approach = tries.approach(standing, now);
                    let waited = loop {
                        let until = approach.attempt(now);
                        if now >= *back {
                            found += 1;
                            return false;
                        }
                        let last = now;
                        now = if *is_silent { now.max(until) } else { now + Duration::from_millis(1) };
                        match approach.failed(now) {
                            Failed::Pause(pause) => now += pause,
                            Failed::Over(waited) => {
                                assert_eq!(waited, now - last);
                                break waited;
                            }
                        }
                    };
                    spent += now - began;
                    let is_again = tries.unreached(standing, (began, now), waited);
                    given_up += u64::from(!is_again);
                    let is_over = spent + Duration::from_millis(251 * (round + 1)) >= SILENCE;
                    let may_end = is_over || waiting_counts(&tries, spent) || !bounds.tries_again;
                    assert!(is_again || may_end, "case {case}: given up after {spent:?}");
                    is_again
                });
                assert!(spent <= SILENCE + Duration::from_millis(50), "case {case}: tried for {spent:?}");
                if waiting.is_empty() {
                    break;
                }
                // Others answer meanwhile, which may take longer than any bound.
                now += milliseconds(&mut choices, 20_000);
                tries.go_round();
            }
        }
        assert!(found > 1_000 && given_up > 1_000, "{found} found, {given_up} given up");
    }

    /// Whether this round is the last, as its turn is longer than what is left.
    fn waiting_counts(tries: &Tries, spent: Duration) -> bool {
        tries.turn + spent >= SILENCE
    }
}
