//! The divisions of the store that servers found lately.
//!
//! A division follows from the uses that a server believes, and from nothing else. So servers that believe the same uses
//! have one division, which the first of them finds.

use super::reports::{DeviceUse, Report};
use std::collections::VecDeque;
use std::rc::Rc;
use weir_fairshare::{JobAttributes, Sharing, StoreDevice, StoreDivision, StoreUses};

/// Divisions that are kept: while reports are under way some servers know the newest ones, and others do not yet.
const KEPT_MAX: usize = 8;

/// The divisions, the one that was asked for last first.
pub(super) struct Divisions<'a> {
    sharing: &'a Sharing,
    jobs: &'a [JobAttributes],
    found: VecDeque<Found>,
}

/// A division, and the uses of each server that it was found by, by ascending server.
struct Found {
    by: Vec<(u16, Rc<Vec<DeviceUse>>)>,
    division: StoreDivision,
}

impl<'a> Divisions<'a> {
    /// No division is known yet.
    pub(super) fn new(sharing: &'a Sharing, jobs: &'a [JobAttributes]) -> Divisions<'a> {
        Divisions { sharing, jobs, found: VecDeque::new() }
    }

    /// The division by the reports of these servers, which come by ascending server.
    pub(super) fn by<'r>(&mut self, reports: impl Iterator<Item = &'r Report> + Clone) -> &StoreDivision {
        let is_by = |found: &Found| {
            let is_same = |((server, uses), report): (&(u16, Rc<Vec<DeviceUse>>), &Report)| {
                *server == report.server && Rc::ptr_eq(uses, &report.uses)
            };
            found.by.len() == reports.clone().count() && found.by.iter().zip(reports.clone()).all(is_same)
        };
        let known = self.found.iter().position(is_by).and_then(|place| self.found.remove(place));
        let found = known.unwrap_or_else(|| self.find(reports));
        self.found.truncate(KEPT_MAX - 1);
        self.found.push_front(found);
        &self.found[0].division
    }

    fn find<'r>(&self, reports: impl Iterator<Item = &'r Report> + Clone) -> Found {
        let mut uses = StoreUses::default();
        for report in reports.clone() {
            for usage in &*report.uses {
                let device = StoreDevice { server: report.server, number: usage.device };
                let attributes = || self.jobs[usage.job.0 as usize];
                uses.tell(device, usage.job, attributes, usage.wanted.map(f64::from));
            }
        }
        let by = reports.map(|report| (report.server, Rc::clone(&report.uses))).collect();
        Found { by, division: uses.divide(self.sharing) }
    }

    /// The number of divisions that are kept.
    #[cfg(test)]
    pub(super) fn found(&self) -> usize {
        self.found.len()
    }
}
