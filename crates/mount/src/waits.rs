//! Requests in flight, so that the kernel's INTERRUPT finds the lock call that it is to end.

use crate::handles::OpenFile;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_client::LockWait;

/// Interrupts remembered for requests that their reader has not got to yet: a reader is only moments late, so the
/// others are for requests that were answered meanwhile.
const EARLY_MAX: usize = 256;

/// The requests that have been read and not yet answered, by the kernel's number.
#[derive(Default)]
pub(crate) struct Flights {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    flights: HashMap<u64, Flight>,
    early: VecDeque<u64>,
}

enum Flight {
    /// Being served; `interrupted` when the caller got a signal before a wait began.
    Serving { interrupted: bool },
    /// Waiting for a lock.
    Waiting(Waiting),
}

/// A lock call that waits.
#[derive(Clone)]
pub(crate) struct Waiting {
    pub(crate) file: Arc<OpenFile>,
    pub(crate) wait: Arc<LockWait>,
}

impl Flights {
    /// A request was read.
    pub(crate) fn begin(&self, unique: u64) {
        let mut table = self.table();
        let early = table.early.iter().position(|&known| known == unique);
        if let Some(position) = early {
            table.early.remove(position);
        }
        table.flights.insert(unique, Flight::Serving { interrupted: early.is_some() });
    }

    /// A request is answered.
    pub(crate) fn end(&self, unique: u64) {
        self.table().flights.remove(&unique);
    }

    /// A lock call begins to wait; `false` when it was interrupted before.
    pub(crate) fn wait(&self, unique: u64, waiting: Waiting) -> bool {
        let flights = &mut self.table().flights;
        if let Some(Flight::Serving { interrupted: true }) = flights.get(&unique) {
            return false;
        }
        flights.insert(unique, Flight::Waiting(waiting));
        true
    }

    /// The caller of request `unique` got a signal; answers the lock call whose wait must be cancelled, if it is one.
    pub(crate) fn interrupt(&self, unique: u64) -> Option<Waiting> {
        let mut table = self.table();
        match table.flights.get_mut(&unique) {
            Some(Flight::Serving { interrupted }) => {
                *interrupted = true;
                None
            }
            Some(Flight::Waiting(waiting)) => Some(waiting.clone()),
            None => {
                if table.early.len() >= EARLY_MAX {
                    table.early.pop_front();
                }
                table.early.push_back(unique);
                None
            }
        }
    }

    /// A poisoned table is whole: each change is one insertion or removal.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_interrupted(flights: &Flights, unique: u64) -> bool {
        matches!(flights.table().flights.get(&unique), Some(Flight::Serving { interrupted: true }))
    }

    #[test]
    fn an_interrupt_meets_its_request_in_any_order() {
        let flights = Flights::default();
        flights.begin(8);
        assert!(!is_interrupted(&flights, 8));
        assert!(flights.interrupt(8).is_none());
        assert!(is_interrupted(&flights, 8));

        assert!(flights.interrupt(10).is_none(), "its reader is late");
        flights.begin(10);
        assert!(is_interrupted(&flights, 10));
    }

    #[test]
    fn interrupts_of_answered_requests_are_forgotten() {
        let flights = Flights::default();
        for unique in 0..2 * EARLY_MAX as u64 {
            flights.begin(unique);
            flights.end(unique);
            assert!(flights.interrupt(unique).is_none());
        }
        assert_eq!(flights.table().early.len(), EARLY_MAX);
        assert!(flights.table().flights.is_empty());
    }
}
