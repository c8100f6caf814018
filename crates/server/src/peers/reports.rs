//! The last report of each other server, however the network delays, repeats or loses reports.

use std::collections::HashMap;
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_wire::ServerReport;

/// A server that was not heard of for so many exchanges, and this long, is left out until it speaks again.
const AGE_EXCHANGES: u64 = 5;
const AGE_MIN: Nanos = Nanos::from_millis(1_000);

/// The newest report of each server.
#[derive(Debug)]
pub(crate) struct Reports {
    heard: HashMap<ServerId, Heard>,
    age_max: Nanos,
    ignored: u64,
}

#[derive(Debug)]
struct Heard {
    report: ServerReport,
    at: Nanos,
}

impl Reports {
    /// Nothing was heard yet of servers that report every `lambda`.
    pub(crate) fn every(lambda: Nanos) -> Reports {
        let age_max = AGE_MIN.max(Nanos(AGE_EXCHANGES * lambda.0));
        Reports { heard: HashMap::new(), age_max, ignored: 0 }
    }

    /// Takes a report that arrived at `now`. One that is late, or came before, changes nothing.
    ///
    /// The later of two starts of a server counts, by its clock; where that was set back, it counts once the
    /// other has been silent for long.
    pub(crate) fn take(&mut self, report: ServerReport, now: Nanos) {
        let is_newer = self.heard.get(&report.server).is_none_or(|Heard { report: known, at }| {
            if known.boot == report.boot {
                return known.sequence < report.sequence;
            }
            known.started < report.started || now.saturating_since(*at) > self.age_max
        });
        if is_newer {
            self.heard.insert(report.server, Heard { report, at: now });
        } else {
            self.ignored += 1;
        }
    }

    /// The reports of servers that have been heard of lately.
    pub(crate) fn fresh(&self, now: Nanos) -> impl Iterator<Item = &ServerReport> {
        let is_fresh = move |heard: &&Heard| now.saturating_since(heard.at) <= self.age_max;
        self.heard.values().filter(is_fresh).map(|heard| &heard.report)
    }

    /// Whether a server that is up may not have been heard of yet, at `now` since this one started.
    pub(crate) fn is_within_age(&self, now: Nanos) -> bool {
        now <= self.age_max
    }

    /// The last moment at which a server was heard of.
    pub(crate) fn heard_at(&self, server: ServerId) -> Option<Nanos> {
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
    use weir_wire::MachineLoad;

    const LAMBDA: Nanos = Nanos::from_millis(100);

    fn report(boot: u64, started: u64, sequence: u64) -> ServerReport {
        let server = ServerId(1);
        ServerReport {
            server,
            boot,
            started,
            sequence,
            load: MachineLoad::default(),
            jobs: Vec::new(),
            targets: Vec::new(),
            placed: Vec::new(),
        }
    }

    fn newest(reports: &Reports, now: Nanos) -> (u64, u64) {
        let report = reports.fresh(now).next().unwrap();
        (report.boot, report.sequence)
    }

    #[test]
    fn late_and_repeated_reports_change_nothing() {
        let mut reports = Reports::every(LAMBDA);
        for (sequence, expected) in [(3, 3), (2, 3), (3, 3), (5, 5), (4, 5)] {
            reports.take(report(7, 1, sequence), Nanos::ZERO);
            assert_eq!(newest(&reports, Nanos::ZERO), (7, expected));
        }
        assert_eq!(reports.ignored(), 3);
    }

    /// A server that was started anew itself cannot know which starts of others are over: a late report of
    /// one once passed for a new start, and shut out the real one for good.
    #[test]
    fn a_late_report_of_an_earlier_start_is_not_a_new_start() {
        let mut reports = Reports::every(LAMBDA);
        for (boot, started, sequence, expected) in [
            (8, 20, 1, (8, 1)),
            (7, 10, 900, (8, 1)),
            (8, 20, 2, (8, 2)),
            (9, 30, 1, (9, 1)),
            (8, 20, 3, (9, 1)),
        ] {
            reports.take(report(boot, started, sequence), Nanos::ZERO);
            assert_eq!(newest(&reports, Nanos::ZERO), expected);
        }
    }

    #[test]
    fn a_start_with_a_clock_set_back_counts_once_the_one_before_is_silent() {
        let mut reports = Reports::every(LAMBDA);
        reports.take(report(7, 100, 900), Nanos::ZERO);
        reports.take(report(8, 50, 1), AGE_MIN);
        assert_eq!(newest(&reports, AGE_MIN), (7, 900));
        let later = Nanos(AGE_MIN.0 + 1);
        reports.take(report(8, 50, 2), later);
        assert_eq!(newest(&reports, later), (8, 2));
    }

    #[test]
    fn a_server_that_is_silent_is_left_out_until_it_speaks() {
        let mut reports = Reports::every(Nanos::from_millis(500));
        let age = Nanos::from_millis(2_500);
        reports.take(report(7, 1, 1), Nanos::ZERO);
        assert_eq!(reports.fresh(age).count(), 1);
        let later = Nanos(age.0 + 1);
        assert_eq!(reports.fresh(later).count(), 0);
        reports.take(report(7, 1, 2), later);
        assert_eq!(reports.fresh(later).count(), 1);
        assert_eq!(reports.heard_at(ServerId(1)), Some(later));
    }
}
