//! Descriptors that messages carry from process to process (`SCM_RIGHTS`).

use crate::calls::close;
use crate::files::sharing;
use crate::host::addresses;
use crate::host::guard::{self, quietly};
use crate::store::session::{self, Mode};
use libc::c_int;

/// Shares every descriptor in a message's `SCM_RIGHTS`, which another process gets, too.
///
/// # Safety
/// `message` is a valid message of the program.
pub(crate) unsafe fn share_sent(message: *const libc::msghdr) {
    if session::mode() == Mode::Mount && !guard::is_inside() {
        // SAFETY: as the caller promises.
        unsafe { each_right(message, |descriptor| quietly(|| sharing::share(descriptor))) };
    }
}

/// Visits the descriptors in a message.
///
/// # Safety
/// `message` is null or a valid message.
unsafe fn each_right(message: *const libc::msghdr, visit: impl Fn(c_int)) {
    // SAFETY: as the caller promises. The macros walk the control data inside its length.
    unsafe {
        if !addresses::can_read(message, 1) || (*message).msg_control.is_null() {
            return;
        }
        if !addresses::can_read((*message).msg_control.cast::<u8>(), (*message).msg_controllen) {
            return;
        }
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let data = libc::CMSG_DATA(header).cast::<c_int>();
                (0..bytes / size_of::<c_int>()).for_each(|index| visit(data.add(index).read_unaligned()));
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

/// Forgets the numbers that the kernel chose for descriptors in a message.
///
/// # Safety
/// `message` was filled by `recvmsg`.
pub(crate) unsafe fn forget_received(message: *const libc::msghdr) {
    // SAFETY: as the caller promises.
    unsafe { each_right(message, close::note_foreign) };
}
