//! Sharing of descriptions with other processes: the offsets go to the kernel before any call that may share.

use crate::files::{generation, table};
use crate::host::guard::{self, quietly};
use crate::store::session::{self, Mode};
use libc::c_int;

/// Shares all open descriptions from now on, before a child is made.
///
/// The generation grows first, so each later call leaves the offset to the kernel. Then the kernel gets the offsets back. A
/// description that is opened meanwhile carries the old generation, or is settled here.
pub(crate) fn share_everything() {
    generation::grow();
    table::each(|descriptor, description| description.settle(descriptor));
}

/// Shares the descriptions that were opened between [`share_everything`] and the making of the child, too.
pub(crate) fn child_was_made() {
    share_everything();
}

/// Shares one description with another process from now on.
pub(crate) fn share(descriptor: c_int) {
    if let table::Entry::Known(description) = table::look_up(descriptor) {
        description.share(descriptor);
    }
}

/// Gives the kernel every offset and modification time, because the process image is about to go.
pub(crate) fn settle_everything() {
    table::each(|descriptor, description| {
        description.settle(descriptor);
        description.publish();
    });
}

/// Gives the kernel the offset and the times of `descriptor`, before a call that the client does not do.
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

/// Ends the fast path of this process. The kernel gets offsets and times first.
pub(crate) fn leave_fast_path() {
    if session::mode() == Mode::Mount {
        quietly(|| {
            settle_everything();
            session::leave();
        });
    }
}
