//! `setuid` and the like: calls that change the identity of the process.

use crate::files::sharing;
use crate::host::kernel;
use crate::store::identity;
use crate::store::session::{self, Mode};
use libc::{c_int, c_long, c_uint, gid_t, uid_t};

/// Runs a call that may change the user or the group of the process.
pub(crate) fn around_identity(change: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: neither has arguments or fails.
    let who = || unsafe { (libc::geteuid(), libc::getegid()) };
    identity::remember();
    sharing::settle_stand_ins();
    let before = who();
    let result = change();
    if session::mode() == Mode::Mount && who() != before {
        sharing::leave_fast_path();
    }
    identity::compare();
    result
}

/// `setgroups(2)` and `initgroups(3)`: afterwards the process may have other groups than its credential.
pub(crate) fn around_groups(change: impl FnOnce() -> c_int) -> c_int {
    identity::remember();
    sharing::settle_stand_ins();
    let result = change();
    if result == 0 {
        sharing::leave_fast_path();
    }
    identity::compare();
    result
}

/// `setfsuid(2)` and `setfsgid(2)`, which answer the former number.
pub(crate) unsafe fn set_file_system_identity(number: c_long, wanted: c_uint) -> c_int {
    identity::remember();
    sharing::settle_stand_ins();
    // SAFETY: no memory is passed.
    let before = unsafe { kernel::raw(number, [wanted as usize, 0, 0, 0, 0, 0]) } as c_int;
    if before as c_uint != wanted && wanted != uid_t::MAX && wanted != gid_t::MAX {
        sharing::leave_fast_path();
    }
    identity::compare();
    before
}
