//! Whether this process watches the store (`inotify(7)`).

use std::sync::atomic::{AtomicBool, Ordering};

static ANY: AtomicBool = AtomicBool::new(false);

/// Whether the process watches any part of the store.
pub(crate) fn are_any() -> bool {
    ANY.load(Ordering::Acquire)
}

/// Notes that the process watches a part of the store from now on.
pub(crate) fn note() {
    ANY.store(true, Ordering::Release);
}
