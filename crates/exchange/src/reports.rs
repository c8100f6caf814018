//! The last report of each other server, however the network delays, repeats or loses reports.

use std::collections::BTreeMap;
use weir_fairshare::Nanos;

/// A server that was not heard of for so many exchanges, and this long, is left out until it speaks again.
const SILENT_EXCHANGES: u64 = 5;
const SILENT_MIN: Nanos = Nanos::from_millis(1_000);
/// A server that was silent for so many times as long counts as dead. Until then it is late: a busy machine holds servers up.
const DEAD_SILENCES: u64 = 5;

/// The longest silence of a server that still counts as alive, where servers report every `lambda`.
pub fn silence_max(lambda: Nanos) -> Nanos {
    SILENT_MIN.max(Nanos(SILENT_EXCHANGES.saturating_mul(lambda.0)))
}

/// The longest silence of a server that counts as late, where one that counts as alive is silent for at most `silence_max`.
pub fn lateness_max(silence_max: Nanos) -> Nanos {
    Nanos(silence_max.0.saturating_mul(DEAD_SILENCES))
}

/// The place of a report among all reports of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Number of the reporting server.
    pub server: u16,
    /// The server's start: unlike that of any other.
    pub boot: u64,
    /// The moment of the start by the server's clock; only its order counts.
    pub started: u64,
    /// The number of the report since the start.
    pub sequence: u64,
}

/// The newest report of each server.
#[derive(Clone, Debug)]
pub(crate) struct Reports<R> {
    /// By server.
    heard: BTreeMap<u16, Heard<R>>,
    silence_max: Nanos,
    ignored: u64,
}

#[derive(Clone, Debug)]
struct Heard<R> {
    origin: Origin,
    report: R,
    at: Nanos,
}

impl<R> Reports<R> {
    /// Nothing was heard yet of servers that report every `lambda`.
    pub(crate) fn every(lambda: Nanos) -> Reports<R> {
        Reports { heard: BTreeMap::new(), silence_max: silence_max(lambda), ignored: 0 }
    }

    /// Takes a report that arrived at `now`, and answers whether it is news. One that is late, or came before, changes
    /// nothing.
    ///
    /// The later of two starts of a server counts, by its clock; where that was set back, it counts once the
    /// other has been silent for long.
    pub(crate) fn take(&mut self, origin: Origin, report: R, now: Nanos) -> bool {
        let is_newer = self.heard.get(&origin.server).is_none_or(|Heard { origin: known, at, .. }| {
            if known.boot == origin.boot {
                return known.sequence < origin.sequence;
            }
            known.started < origin.started || now.saturating_since(*at) > self.silence_max
        });
        if is_newer {
            self.heard.insert(origin.server, Heard { origin, report, at: now });
        } else {
            self.ignored += 1;
        }
        is_newer
    }

    /// The reports of servers that have been heard of lately, by ascending server.
    pub(crate) fn fresh(&self, now: Nanos) -> impl Iterator<Item = &R> + Clone {
        let is_fresh = move |heard: &&Heard<R>| now.saturating_since(heard.at) <= self.silence_max;
        self.heard.values().filter(is_fresh).map(|heard| &heard.report)
    }

    /// The reports of servers that are late, by ascending server.
    pub(crate) fn late(&self, now: Nanos) -> impl Iterator<Item = &R> {
        let is_late = move |heard: &&Heard<R>| {
            let silence = now.saturating_since(heard.at);
            silence > self.silence_max && silence <= lateness_max(self.silence_max)
        };
        self.heard.values().filter(is_late).map(|heard| &heard.report)
    }

    /// Whether a server that is up may not have been heard of yet, so long after this one started.
    pub(crate) fn is_within_age(&self, since: Nanos) -> bool {
        since <= self.silence_max
    }

    /// The last moment at which a server was heard of.
    pub(crate) fn heard_at(&self, server: u16) -> Option<Nanos> {
        self.heard.get(&server).map(|heard| heard.at)
    }

    /// Reports that were late or came twice.
    pub(crate) fn ignored(&self) -> u64 {
        self.ignored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAMBDA: Nanos = Nanos::from_millis(100);

    type OfOne = Reports<(u64, u64)>;

    fn take(reports: &mut OfOne, (boot, started, sequence): (u64, u64, u64), now: Nanos) -> bool {
        reports.take(Origin { server: 1, boot, started, sequence }, (boot, sequence), now)
    }

    fn newest(reports: &OfOne, now: Nanos) -> (u64, u64) {
        *reports.fresh(now).next().unwrap()
    }

    #[test]
    fn late_and_repeated_reports_change_nothing() {
        let mut reports = OfOne::every(LAMBDA);
        for (sequence, is_news, expected) in
            [(3, true, 3), (2, false, 3), (3, false, 3), (5, true, 5), (4, false, 5)]
        {
            assert_eq!(take(&mut reports, (7, 1, sequence), Nanos::ZERO), is_news);
            assert_eq!(newest(&reports, Nanos::ZERO), (7, expected));
        }
        assert_eq!(reports.ignored(), 3);
    }

    /// A server that was started anew itself cannot know which starts of others are over: a late report of
    /// one once passed for a new start, and shut out the real one for good.
    #[test]
    fn a_late_report_of_an_earlier_start_is_not_a_new_start() {
        let mut reports = OfOne::every(LAMBDA);
        for (boot, started, sequence, expected) in [
            (8, 20, 1, (8, 1)),
            (7, 10, 900, (8, 1)),
            (8, 20, 2, (8, 2)),
            (9, 30, 1, (9, 1)),
            (8, 20, 3, (9, 1)),
        ] {
            take(&mut reports, (boot, started, sequence), Nanos::ZERO);
            assert_eq!(newest(&reports, Nanos::ZERO), expected);
        }
    }

    #[test]
    fn a_start_with_a_clock_set_back_counts_once_the_one_before_is_silent() {
        let mut reports = OfOne::every(LAMBDA);
        take(&mut reports, (7, 100, 900), Nanos::ZERO);
        take(&mut reports, (8, 50, 1), SILENT_MIN);
        assert_eq!(newest(&reports, SILENT_MIN), (7, 900));
        let later = Nanos(SILENT_MIN.0 + 1);
        take(&mut reports, (8, 50, 2), later);
        assert_eq!(newest(&reports, later), (8, 2));
    }

    #[test]
    fn a_server_that_is_silent_is_late_then_dead_until_it_speaks() {
        let mut reports = OfOne::every(Nanos::from_millis(500));
        let (alive, late) = (Nanos::from_millis(2_500), Nanos::from_millis(12_500));
        take(&mut reports, (7, 1, 1), Nanos::ZERO);
        for (silence, counts) in
            [(alive, (1, 0)), (Nanos(alive.0 + 1), (0, 1)), (late, (0, 1)), (Nanos(late.0 + 1), (0, 0))]
        {
            assert_eq!(
                (reports.fresh(silence).count(), reports.late(silence).count()),
                counts,
                "{silence:?}"
            );
        }
        let later = Nanos(late.0 + 1);
        take(&mut reports, (7, 1, 2), later);
        assert_eq!((reports.fresh(later).count(), reports.late(later).count()), (1, 0));
        assert_eq!(reports.heard_at(1), Some(later));
    }

    #[test]
    fn a_silent_server_is_late_after_a_second_or_five_exchanges() {
        for (lambda, silence) in [(10, 1_000), (200, 1_000), (400, 2_000), (10_000, 50_000)] {
            assert_eq!(silence_max(Nanos::from_millis(lambda)), Nanos::from_millis(silence));
        }
    }
}
