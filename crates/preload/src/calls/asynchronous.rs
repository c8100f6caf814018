//! Asynchronous input and output, which the kernel or threads of libc do beside the library's calls: on files that the kernel has
//! opened.

use crate::files::{sharing, stand_ins};
use crate::host::addresses;
use crate::host::guard::quietly;
use crate::store::session::{self, Mode};
use libc::{aiocb, c_int};

/// Has the kernel open the file of a request of `aio_read(3)` and the like.
///
/// # Safety
/// `request` is valid, or is a bad address.
pub(crate) unsafe fn settle(request: *const aiocb) {
    if stand_ins::are_any() && addresses::can_read(request, 1) {
        // SAFETY: the request can be read.
        sharing::settle_stand_in(unsafe { (*request).aio_fildes });
    }
}

/// Has the kernel open the files of the requests of `lio_listio(3)`, some of which may be null.
///
/// # Safety
/// As for [`settle`], for each of `count` requests.
pub(crate) unsafe fn settle_list(list: *const *const aiocb, count: c_int) {
    let many = usize::try_from(count).unwrap_or(0);
    if stand_ins::are_any() && addresses::can_read(list, many) {
        // SAFETY: the list can be read.
        (0..many).for_each(|index| unsafe { settle(*list.add(index)) });
    }
}

/// Has the kernel open all files, now and from now on: the program is about to make requests by system calls that the library does
/// not see (`io_submit(2)`, `io_uring(7)`).
pub(crate) fn leave_opens_to_kernel() {
    if session::mode() == Mode::Mount {
        stand_ins::stop();
        quietly(sharing::settle_everything);
    }
}
