//! The divisions of the store that servers found lately.
//!
//! A division follows from the uses that a server believes, and from nothing else. So servers that believe the same uses
//! have one division, which the first of them finds.

use crate::core::reports::{Told, Uses};
use std::collections::VecDeque;
use std::rc::Rc;
use weir_exchange::uses_of;
use weir_fairshare::{Sharing, StoreDivision};

/// Divisions that are kept: while reports are under way some servers know the newest ones, and others do not yet.
const KEPT_MAX: usize = 8;

/// The divisions, the one that was asked for last first.
pub(super) struct Divisions<'a> {
    sharing: &'a Sharing,
    found: VecDeque<Found>,
}

/// A division, and the uses of each server that it was found by, by ascending server.
struct Found {
    by: Vec<(u16, Rc<Uses>)>,
    division: StoreDivision,
}

impl<'a> Divisions<'a> {
    /// No division is known yet.
    pub(super) fn new(sharing: &'a Sharing) -> Divisions<'a> {
        Divisions { sharing, found: VecDeque::new() }
    }

    /// The division by the reports of these servers, which come by ascending server.
    pub(super) fn by<'r>(&mut self, reports: impl Iterator<Item = &'r Told> + Clone) -> &StoreDivision {
        let is_by = |found: &Found| {
            let mut reports = reports.clone();
            let is_same = |(server, uses): &(u16, Rc<Uses>)| {
                let report = reports.next();
                report.is_some_and(|report| *server == report.server && Rc::ptr_eq(uses, &report.uses))
            };
            found.by.iter().all(is_same) && reports.next().is_none()
        };
        let known = self.found.iter().position(is_by).and_then(|place| self.found.remove(place));
        let found = known.unwrap_or_else(|| Found {
            by: reports.clone().map(|report| (report.server, Rc::clone(&report.uses))).collect(),
            division: uses_of(reports).divide(self.sharing),
        });
        self.found.truncate(KEPT_MAX - 1);
        self.found.push_front(found);
        &self.found[0].division
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_exchange::Exchange;
    use weir_fairshare::{JobId, Nanos};
    use weir_wire::DeviceUse;

    /// A report of the only job, which wants a part of a server's only target.
    fn told(server: u16, sequence: u64, wanted: Option<f32>) -> Told {
        Told {
            server,
            sequence,
            jobs: [weir_testing::job(0, 1, 1, 16)].into(),
            uses: Rc::new(vec![(JobId(0), DeviceUse { device: 0, wanted })]),
            ..Told::default()
        }
    }

    /// Two servers believe the same until one of them wants something else: the second one's portions then are others.
    #[test]
    fn servers_that_believe_the_same_have_one_division() {
        let sharing = Sharing::of("size-fair".parse().expect("a policy"));
        let mut divisions = Divisions::new(&sharing);
        let reports = [0, 1].map(|server| told(server, 1, None));
        let again = Told { sequence: 2, ..reports[1].clone() };
        let other = told(1, 3, Some(0.25));
        let mut portions = |own: u16, peer: &Told| {
            let mut exchange =
                Exchange::new(reports[usize::from(own)].clone(), Nanos::from_millis(100), Nanos::ZERO);
            exchange.hear(peer.clone(), Nanos::ZERO);
            let division = divisions.by(exchange.believed(Nanos::ZERO));
            (division.portions(own)[&0][&JobId(0)][0], divisions.found.len())
        };
        assert_eq!(portions(0, &reports[1]), (0.5, 1));
        assert_eq!(portions(1, &reports[0]), (0.5, 1));
        assert_eq!(portions(0, &again), (0.5, 1), "a report that says the same");
        let (changed, found) = portions(0, &other);
        assert!(changed > 0.7 && found == 2, "it has three quarters of its time here: {changed}, {found}");
    }
}
