//! Sharing of descriptions with other processes: the offsets go to the kernel before any call that may share.

use crate::files::{generation, stand_ins, table};
use crate::host::guard::quietly;
use crate::host::kernel;
use crate::store::session::{self, Mode};
use libc::c_int;

/// Shares all open descriptions from now on, before a child is made.
///
/// From now on until [`child_was_made`] no stand-in is made. The generation grows first, so each later call leaves the offset to the kernel. Then the kernel gets the offsets back. A
/// description that is opened meanwhile carries the old generation, or is settled here.
pub(crate) fn share_everything() {
    stand_ins::child_begins();
    share_known();
}

fn share_known() {
    generation::grow();
    table::each(|descriptor, description| description.settle(descriptor));
}

/// Shares the descriptions that were opened between [`share_everything`] and the making of the child, too.
pub(crate) fn child_was_made() {
    share_known();
    stand_ins::child_was_made();
}

/// Shares one description with another process from now on.
pub(crate) fn share(descriptor: c_int) {
    if let table::Entry::Known(description) = table::look_up(descriptor) {
        description.share(descriptor);
    }
}

/// Gives the kernel every file, offset and modification time.
pub(crate) fn settle_everything() {
    settle_where(|_| true);
}

/// Gives the kernel every offset and modification time, because the process is about to end. Stand-ins end with it.
pub(crate) fn settle_at_end() {
    settle_where(|_| false);
}

/// Gives the kernel every offset and modification time, and the files that the next process image gets.
pub(crate) fn settle_before_exec() {
    settle_where(|descriptor| kernel::descriptor_flags(descriptor) & libc::FD_CLOEXEC == 0);
}

/// Settles all descriptions, those of stand-ins where `is_needed` says of a number that the kernel has to open its file.
fn settle_where(is_needed: impl Fn(c_int) -> bool) {
    table::each(|descriptor, description| {
        if !description.is_stand_in() || is_needed(descriptor) {
            description.settle(descriptor);
        }
        description.publish();
    });
}

/// Has the kernel open the files of all stand-ins, before a call after which this process may be unable to.
pub(crate) fn settle_stand_ins() {
    if stand_ins::are_any() {
        quietly(settle_everything);
    }
}

/// Has the kernel open the file of the stand-in `descriptor`, before a call that the kernel does on it.
pub(crate) fn settle_stand_in(descriptor: c_int) {
    if stand_ins::hold(descriptor) {
        settle(descriptor);
    }
}

/// Has the kernel open the file of the stand-in that a path in `/proc` or `/dev` names.
pub(crate) fn settle_named(path: &[u8]) {
    if stand_ins::are_any() {
        quietly(|| {
            if let Some(descriptor) = stand_ins::named(path) {
                settle_now(descriptor);
            }
        });
    }
}

/// Publishes the modification time of a stand-in, and settles any other descriptor.
pub(crate) fn publish_stand_in(descriptor: c_int) {
    if !stand_ins::hold(descriptor) {
        return settle(descriptor);
    }
    quietly(|| {
        if let table::Entry::Known(description) = table::look_up(descriptor) {
            description.publish();
        }
    });
}

/// Gives the kernel the offset and the times of `descriptor`, before a call that the client does not do.
pub(crate) fn settle(descriptor: c_int) {
    if table::is_known(descriptor) {
        quietly(|| settle_now(descriptor));
    }
}

fn settle_now(descriptor: c_int) {
    if let table::Entry::Known(description) = table::look_up(descriptor) {
        description.settle(descriptor);
        description.publish();
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
