//! The end of threads that work until a flag is set.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped, also where the test fails: a scope waits for its threads, so without the flag a failed
/// test would never end.
#[must_use]
pub struct Stop<'a>(&'a AtomicBool);

impl Stop<'_> {
    /// A guard of this flag.
    pub fn at_end(flag: &AtomicBool) -> Stop<'_> {
        Stop(flag)
    }
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
