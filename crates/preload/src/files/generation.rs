//! Counters that tell whether descriptions may be shared, and whether modification times are pending.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(1);
static THREADS: AtomicBool = AtomicBool::new(false);
static PENDING: AtomicUsize = AtomicUsize::new(0);

/// The current sharing generation. A caller reads the generation before an opening, and enters the description with it. A
/// description of an older generation may be shared.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// Begins a later generation.
pub(crate) fn grow() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
}

/// Counts a description with a pending modification time.
pub(crate) fn note_pending() {
    PENDING.fetch_add(1, Ordering::AcqRel);
}

/// Counts a published modification time.
pub(crate) fn note_published() {
    PENDING.fetch_sub(1, Ordering::AcqRel);
}

/// Whether a modification time is pending on any description.
pub(crate) fn is_pending() -> bool {
    PENDING.load(Ordering::Acquire) > 0
}

/// Notes that the program makes a thread.
pub(crate) fn note_thread() {
    THREADS.store(true, Ordering::Release);
}

/// Whether the program ever had more than one thread.
pub(crate) fn has_threads() -> bool {
    THREADS.load(Ordering::Acquire)
}

/// Begins anew in the child of `fork`, which has one thread and nothing of its own to publish.
pub(crate) fn reset_in_child() {
    THREADS.store(false, Ordering::Release);
    PENDING.store(0, Ordering::Release);
    GENERATION.fetch_add(1, Ordering::AcqRel);
}
