//! Whether this process watches the store (`inotify(7)`).

use std::sync::atomic::{AtomicBool, Ordering};

static ANY: AtomicBool = AtomicBool::new(false);

/// Whether the process watches anything of the store.
pub(crate) fn are_any() -> bool {
    ANY.load(Ordering::Acquire)
}

/// The process watches something of the store from now on.
pub(crate) fn note() {
    ANY.store(true, Ordering::Release);
}
