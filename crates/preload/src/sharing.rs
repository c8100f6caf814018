//! When a description may be used by another process: the generation, which grows before anything that shares.

use crate::guard;
use crate::table;
use libc::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(1);
static THREADS: AtomicBool = AtomicBool::new(false);
static PENDING: AtomicUsize = AtomicUsize::new(0);

/// The current sharing generation, read before the opening whose description is to be entered with it: a
/// description of an older generation may be shared.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// Everything that is open may be shared from now on: called before a child is made.
///
/// The generation grows first, so each later call leaves the offset to the kernel; then the offsets kept here are
/// given back. A description opened meanwhile carries the old generation, or is settled here.
pub(crate) fn share_everything() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
    table::each(|descriptor, description| description.settle(descriptor));
}

/// Closes the window between the walk above and the making of the child: what was opened in it is shared too.
pub(crate) fn child_was_made() {
    share_everything();
}

/// One description may be used by another process from now on.
pub(crate) fn share(descriptor: c_int) {
    if let table::Entry::Known(description) = table::look_up(descriptor) {
        description.share(descriptor);
    }
}

/// The kernel has to know every offset and modification time: the process image is about to go.
pub(crate) fn settle_everything() {
    table::each(|descriptor, description| {
        description.settle(descriptor);
        description.publish();
    });
}

/// A call that the client does not carry is about to use the offset or the times of `descriptor`.
pub(crate) fn settle(descriptor: c_int) {
    if table::is_known(descriptor) {
        guard::quietly(|| {
            if let table::Entry::Known(description) = table::look_up(descriptor) {
                description.settle(descriptor);
                description.publish();
            }
        });
    }
}

/// A modification time is pending somewhere.
pub(crate) fn note_pending() {
    PENDING.fetch_add(1, Ordering::AcqRel);
}

/// It was published.
pub(crate) fn note_published() {
    PENDING.fetch_sub(1, Ordering::AcqRel);
}

/// Publishes every pending modification time, so that a stat by path sees this process's own writes.
pub(crate) fn publish_everything() {
    if PENDING.load(Ordering::Acquire) > 0 {
        table::each(|_, description| description.publish());
    }
}

/// The program made a thread.
pub(crate) fn note_thread() {
    THREADS.store(true, Ordering::Release);
    crate::recorder::note_thread();
}

/// Whether the program ever had more than one thread.
pub(crate) fn has_threads() -> bool {
    THREADS.load(Ordering::Acquire)
}

/// The child of `fork` has one thread and nothing of its own to publish.
pub(crate) fn reset_in_child() {
    THREADS.store(false, Ordering::Release);
    PENDING.store(0, Ordering::Release);
    GENERATION.fetch_add(1, Ordering::AcqRel);
}
