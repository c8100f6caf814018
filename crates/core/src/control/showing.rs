//! Snapshots for the control API, each made for all callers that asked since the one before.
//!
//! The job table is copied in slices, so that a turn of the loop stays short however many jobs there are. The
//! threads that answer write its text.

use super::board::Board;
use super::question::Shown;
use super::snapshot::Snapshot;
use super::status::Status;
use super::table::Table;
use crate::accounts::device_account::Accounted;
use crate::accounts::jobs::{Jobs, ShownJob};
use crate::clock::Clock;
use std::sync::Arc;
use weir_fairshare::Nanos;
use weir_wire::JobId;

/// The status is made at most this often: it is a matter of microseconds, and people wait for it.
const STATUS_PAUSE: Nanos = Nanos::from_millis(50);
/// The job table is copied at most this often.
const JOBS_PAUSE_MIN: Nanos = Nanos::from_millis(250);
/// With many jobs less often, so that the copying takes at most a twentieth of the loop's time.
const JOBS_COST_FACTOR: u64 = 20;
/// Nobody waits longer for it all the same, however many jobs there are: commands wait for five seconds.
const JOBS_PAUSE_MAX: Nanos = Nanos::from_millis(2_000);
/// How long the loop copies in one turn: as long as a few small requests take.
const SLICE: Nanos = Nanos(200_000);
/// Jobs copied between two looks at the clock.
const LOOK: usize = 8;

/// The snapshots that callers of the control API wait for.
#[derive(Default)]
pub struct Boards {
    /// The server without its jobs.
    pub status: Board<Status>,
    /// The server with its jobs.
    pub table: Board<Table>,
}

/// The snapshots that are asked for, and when each is made.
#[derive(Default)]
pub(crate) struct Showing {
    boards: Arc<Boards>,
    status_asked: bool,
    table_asked: bool,
    next_status: Nanos,
    next_table: Nanos,
    copying: Option<Copying>,
}

/// A job table that is copied over several turns.
struct Copying {
    left: Vec<JobId>,
    jobs: Vec<ShownJob>,
    spent: Nanos,
}

impl Showing {
    /// The places where snapshots are shown.
    pub(crate) fn boards(&self) -> Arc<Boards> {
        Arc::clone(&self.boards)
    }

    /// Notes that somebody waits for a snapshot.
    pub(crate) fn ask(&mut self, shown: Shown) {
        match shown {
            Shown::Status => self.status_asked = true,
            Shown::Table => self.table_asked = true,
        }
    }

    /// The moments at which snapshots that were asked for may be made.
    pub(crate) fn due(&self) -> impl Iterator<Item = Nanos> {
        let status = self.status_asked.then_some(self.next_status);
        let table = (self.table_asked && self.copying.is_none()).then_some(self.next_table);
        status.into_iter().chain(table)
    }

    /// Whether the next turn has to go on copying.
    pub(crate) fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    /// Whether the status is to be made now.
    pub(crate) fn begin_status(&mut self, now: Nanos) -> bool {
        if !self.status_asked || now < self.next_status {
            return false;
        }
        self.status_asked = false;
        self.next_status = now + STATUS_PAUSE;
        self.boards.status.begin();
        true
    }

    /// Shows the status that was made.
    pub(crate) fn show_status(&self, status: Status) {
        self.boards.status.show(status);
    }

    /// Whether the job table is to be copied from now on.
    pub(crate) fn begin_table(&mut self, now: Nanos) -> bool {
        if self.copying.is_some() || !self.table_asked || now < self.next_table {
            return false;
        }
        self.table_asked = false;
        self.boards.table.begin();
        true
    }

    /// These jobs are copied, after a preparation that took so long.
    pub(crate) fn begin_copy(&mut self, left: Vec<JobId>, spent: Nanos) {
        let jobs = Vec::with_capacity(left.len());
        self.copying = Some(Copying { left, jobs, spent });
    }

    /// Copies one slice of the job table; answers all of it once it is complete.
    pub(crate) fn copy(
        &mut self,
        jobs: &mut Jobs,
        accounted: &[Accounted],
        clock: &Clock,
    ) -> Option<Vec<ShownJob>> {
        let mut copying = self.copying.take()?;
        let began = clock.within_step();
        let mut spent = Nanos::ZERO;
        while !copying.left.is_empty() && spent < SLICE {
            let rest = copying.left.len().saturating_sub(LOOK);
            for id in copying.left.drain(rest..) {
                copying.jobs.extend(jobs.shown(id, clock.now(), accounted));
            }
            spent = clock.within_step().saturating_since(began);
        }
        copying.spent = copying.spent + spent;
        if !copying.left.is_empty() {
            self.copying = Some(copying);
            return None;
        }
        let pause = (JOBS_COST_FACTOR * copying.spent.0).clamp(JOBS_PAUSE_MIN.0, JOBS_PAUSE_MAX.0);
        self.next_table = clock.now() + Nanos(pause);
        Some(copying.jobs)
    }

    /// The next copy comes later, as a walk beside the last one took so long.
    pub(crate) fn lengthen_pause(&mut self, spent: Nanos, clock: &Clock) {
        let next = self.next_table + Nanos(JOBS_COST_FACTOR * spent.0);
        self.next_table = next.min(clock.now() + JOBS_PAUSE_MAX);
    }

    /// Shows the job table that was copied.
    pub(crate) fn show_table(&self, snapshot: Snapshot) {
        self.boards.table.show(Table::new(snapshot));
    }
}
