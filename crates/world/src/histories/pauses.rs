//! Tasks that stand still while they hold a lock or an append turn, as a process that computes, or that was stopped.

use std::collections::BTreeMap;
use weir_fairshare::Nanos;

/// A task that stands still.
#[derive(Clone, Copy)]
pub(crate) struct Pause {
    /// The server that gave the lock or the turn.
    pub(crate) home: usize,
    pub(crate) until: Nanos,
}

/// All tasks that stand still.
#[derive(Default)]
pub(crate) struct Pauses {
    by_worker: BTreeMap<usize, Pause>,
}

impl Pauses {
    pub(crate) fn begin(&mut self, worker: usize, pause: Pause) {
        self.by_worker.insert(worker, pause);
    }

    pub(crate) fn end(&mut self, worker: usize) {
        self.by_worker.remove(&worker);
    }

    /// The tasks that stand still longer than until a moment.
    pub(crate) fn beyond(&self, moment: Nanos) -> impl Iterator<Item = (usize, Pause)> + '_ {
        let pauses = self.by_worker.iter().map(|(&worker, &pause)| (worker, pause));
        pauses.filter(move |(_, pause)| pause.until > moment)
    }
}
