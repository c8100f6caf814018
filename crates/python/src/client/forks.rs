//! The forks between the process that made a client and this one.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// A count of forks, which a client shares with its files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forks(Arc<AtomicU32>);

impl Forks {
    /// The number of forks so far.
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Counts a fork, in its child.
    pub(crate) fn count_one(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
