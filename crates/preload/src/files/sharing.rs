//! When a description may be used by another process: the generation, which grows before anything that shares.

use crate::files::{generation, table};
use crate::host::guard::{self, quietly};
use crate::store::session::{self, Mode};
use libc::c_int;

/// Everything that is open may be shared from now on: called before a child is made.
///
/// The generation grows first, so each later call leaves the offset to the kernel; then the offsets kept here are
/// given back. A description opened meanwhile carries the old generation, or is settled here.
pub(crate) fn share_everything() {
    generation::grow();
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

/// Publishes every pending modification time, so that a stat by path sees this process's own writes.
pub(crate) fn publish_everything() {
    if generation::is_pending() {
        table::each(|_, description| description.publish());
    }
}

/// The fast path ends for this process: offsets and times are given to the kernel first.
pub(crate) fn leave_fast_path() {
    if session::mode() == Mode::Mount {
        quietly(|| {
            settle_everything();
            session::leave();
        });
    }
}
