//! The exchange of a server with its peers: its reports, and what it believes of theirs.
//!
//! Every lambda a server reports its jobs' uses of its devices, its targets and its placements to each peer, and each peer
//! answers with its own last report (`crates/server/src/server/exchange.rs`).

use super::divisions::Divisions;
use super::reports::Report;
use std::rc::Rc;
use weir_device::{Origin, Reports};
use weir_fairshare::{division_pause, Nanos, Portions};
use weir_placement::online::{Figures, Heard, Presence};

/// Time of a division for each use of a device by a job: `sharing division 128 1000 user-then-size-fair` of this crate's examples.
const DIVISION_NANOSECONDS_PER_USE: u64 = 2_100;

/// The newest report of each other server, and the division by them.
pub(super) struct Knowledge {
    own: u16,
    reports: Reports<Rc<Report>>,
    /// The server's start: until the age is over, a server may be up that was not heard of yet.
    started: Nanos,
    next_division: Nanos,
}

impl Knowledge {
    /// Nothing was heard yet by server `own`, which started at `now` and exchanges every `lambda`.
    pub(super) fn new(own: u16, lambda: Nanos, now: Nanos) -> Knowledge {
        Knowledge { own, reports: Reports::every(lambda), started: now, next_division: now }
    }

    /// Takes a report that arrived at `now`; a late one changes nothing. Answers whether it was taken.
    pub(super) fn take(&mut self, report: &Rc<Report>, now: Nanos) -> bool {
        let &Report { server, boot, sequence, .. } = &**report;
        // Starts of a simulated server are numbered in their order.
        let boot = u64::from(boot);
        self.reports.take(Origin { server, boot, started: boot, sequence }, Rc::clone(report), now)
    }

    /// The believed reports of the other servers, by ascending server.
    pub(super) fn fresh(&self, now: Nanos) -> impl Iterator<Item = &Report> + Clone {
        self.reports.fresh(now).map(|report| &**report)
    }

    /// The believed reports of all servers, by ascending server.
    fn believed<'k>(&'k self, own: &'k Report, now: Nanos) -> impl Iterator<Item = &'k Report> + Clone {
        let number = self.own;
        let below = self.fresh(now).take_while(move |report| report.server < number);
        let above = self.fresh(now).skip_while(move |report| report.server < number);
        below.chain([own]).chain(above)
    }

    /// The figures of targets for the placer, the server's own report among them.
    pub(super) fn figures(&self, own: &Report, now: Nanos) -> Heard {
        let mut heard = Heard::new(self.reports.is_within_age(now.saturating_since(self.started)));
        for target in self.fresh(now).chain([own]).flat_map(|report| &report.targets) {
            heard.tell(target.target, target.figures);
        }
        for target in self.reports.late(now).flat_map(|report| &report.targets) {
            heard.tell(target.target, Figures { presence: Presence::Late, ..target.figures });
        }
        for &(target, bytes) in self.fresh(now).flat_map(|report| &report.placed) {
            heard.place(target, f64::from(bytes));
        }
        heard
    }

    /// The portions of the server's devices, by their numbers; none where the last division is too recent.
    pub(super) fn divide(
        &mut self,
        own: &Report,
        divisions: &mut Divisions<'_>,
        now: Nanos,
    ) -> Option<Vec<(u8, Portions)>> {
        if now < self.next_division {
            return None;
        }
        let uses: u64 = self.believed(own, now).map(|report| report.uses.len() as u64).sum();
        self.next_division = now + division_pause(Nanos(DIVISION_NANOSECONDS_PER_USE * uses));
        let division = divisions.by(self.believed(own, now));
        let mut portions: Vec<(u8, Portions)> = division.portions(self.own).into_iter().collect();
        portions.sort_by_key(|(device, _)| *device);
        Some(portions)
    }
}

#[cfg(test)]
mod tests {
    use super::super::reports::{DeviceUse, TargetReport};
    use super::*;
    use weir_fairshare::{JobId, Sharing};
    use weir_placement::{ServerId, TargetId};

    const LAMBDA: Nanos = Nanos::from_millis(100);

    fn target(server: u16) -> TargetId {
        TargetId { server: ServerId(server), index: 0 }
    }

    /// A job wants all of a server's only target.
    fn report(server: u16, boot: u32, sequence: u64, job: u64) -> Rc<Report> {
        let figures = Figures { free_bytes: sequence, ..Figures::UNKNOWN };
        let told = TargetReport { target: target(server), figures, rates: Vec::new() };
        Rc::new(Report {
            server,
            boot,
            sequence,
            uses: Rc::new(vec![DeviceUse { job: JobId(job), device: 0, wanted: None }]),
            targets: vec![told],
            placed: Vec::new(),
        })
    }

    #[test]
    fn late_reports_change_nothing_and_a_new_start_is_newer() {
        let mut knowledge = Knowledge::new(0, LAMBDA, Nanos::ZERO);
        for (boot, sequence, is_taken) in
            [(0, 3, true), (0, 2, false), (0, 3, false), (1, 1, true), (0, 9, false)]
        {
            assert_eq!(knowledge.take(&report(1, boot, sequence, 0), Nanos::ZERO), is_taken);
        }
    }

    #[test]
    fn a_silent_server_is_late_then_dead_to_the_placer_and_one_that_may_yet_be_heard_of_is_neither() {
        let silence = weir_device::silence_max(LAMBDA);
        let mut knowledge = Knowledge::new(0, LAMBDA, Nanos::ZERO);
        let own = report(0, 0, 1, 0);
        assert_eq!(knowledge.figures(&own, silence).figures(target(1)), None, "it may yet be heard of");
        knowledge.take(&report(1, 0, 1, 0), Nanos(1));
        let lateness = weir_device::lateness_max(silence);
        for (silent, expected) in [
            (silence.0, Presence::Alive),
            (silence.0 + 1, Presence::Late),
            (lateness.0, Presence::Late),
            (lateness.0 + 1, Presence::Dead),
        ] {
            let figures = knowledge.figures(&own, Nanos(1 + silent)).figures(target(1));
            assert_eq!(figures.map(|figures| figures.presence), Some(expected), "{silent}");
        }
        assert_eq!(knowledge.fresh(Nanos(silence.0 + 2)).count(), 0);
    }

    /// A job on both servers spends half of its weight on each; the next division waits until the last one has paid off.
    #[test]
    fn devices_are_divided_by_all_reports_and_not_too_often() {
        let jobs = [weir_testing::job(0, 1, 1, 16), weir_testing::job(1, 2, 1, 8)];
        let sharing = Sharing::of("size-fair".parse().expect("a policy"));
        let mut knowledge = Knowledge::new(0, LAMBDA, Nanos::ZERO);
        let mut own = report(0, 0, 1, 0);
        let uses = &mut Rc::get_mut(&mut own).expect("one owner").uses;
        let usage = DeviceUse { job: JobId(1), device: 0, wanted: None };
        Rc::get_mut(uses).expect("one owner").push(usage);
        knowledge.take(&report(1, 0, 1, 0), Nanos::ZERO);
        let mut divisions = Divisions::new(&sharing, &jobs);
        let divided = knowledge.divide(&own, &mut divisions, Nanos::ZERO).expect("the first division");
        let [(0, portions)] = &divided[..] else { panic!("one target: {divided:?}") };
        assert_eq!(portions[&JobId(1)], [1.0]);
        assert!(portions[&JobId(0)][0] < 0.5, "it has the other server to itself: {portions:?}");
        let paid = division_pause(Nanos(3 * DIVISION_NANOSECONDS_PER_USE));
        assert!(knowledge.divide(&own, &mut divisions, Nanos(paid.0 - 1)).is_none());
        assert!(knowledge.divide(&own, &mut divisions, paid).is_some());
    }

    /// Two servers believe the same until one of them wants something else: the second one's portions then are others.
    #[test]
    fn servers_that_believe_the_same_have_one_division() {
        let jobs = [weir_testing::job(0, 1, 1, 16), weir_testing::job(1, 2, 1, 8)];
        let sharing = Sharing::of("size-fair".parse().expect("a policy"));
        let mut divisions = Divisions::new(&sharing, &jobs);
        let reports = [0, 1].map(|server| report(server, 0, 1, 0));
        let again = Rc::new(Report { sequence: 2, ..copy(&reports[1]) });
        let less = DeviceUse { job: JobId(0), device: 0, wanted: Some(0.25) };
        let other = Rc::new(Report { uses: Rc::new(vec![less]), ..copy(&again) });
        let mut portions = |own: u16, peer: &Rc<Report>| {
            let mut knowledge = Knowledge::new(own, LAMBDA, Nanos::ZERO);
            knowledge.take(peer, Nanos::ZERO);
            let own = &reports[usize::from(own)];
            let portions = knowledge.divide(own, &mut divisions, Nanos::ZERO).expect("the first division");
            (portions[0].1[&JobId(0)].clone(), divisions.found())
        };
        assert_eq!(portions(0, &reports[1]), (vec![0.5], 1));
        assert_eq!(portions(1, &reports[0]), (vec![0.5], 1));
        assert_eq!(portions(0, &again), (vec![0.5], 1), "a report that says the same");
        let (changed, found) = portions(0, &other);
        assert!(
            changed[0] > 0.7 && found == 2,
            "it has three quarters of its time here: {changed:?}, {found}"
        );
    }

    fn copy(report: &Report) -> Report {
        Report { uses: Rc::clone(&report.uses), targets: Vec::new(), placed: Vec::new(), ..*report }
    }
}
