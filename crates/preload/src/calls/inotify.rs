//! Watches that this process puts on the store (`inotify(7)`). Only calls through the kernel raise events. So the kernel does
//! all calls of the process on the store from its first watch on, until the process ends or executes a program.
//!
//! The child of `fork` goes on so, because its parent's watches are its own, too. A watch that a system call instruction
//! made is missing here, and `fanotify(7)` watches the host rather than a program's own files.

use crate::files::paths::{self, Touch};
use crate::files::{sharing, watches};
use crate::host::guard::{self, fail, quietly, returned};
use crate::host::kernel;
use crate::store::counters::Call;
use crate::store::session::{self, Mode, CALLER};
use libc::{c_char, c_int};
use std::ffi::CStr;

/// `inotify_add_watch(2)`. Without a mount no kernel knows the files of the store: EOPNOTSUPP.
pub(crate) unsafe fn add(instance: c_int, path: *const c_char, mask: u32) -> c_int {
    let pass = |path: *const c_char| -> c_int {
        let arguments = [instance as usize, path as usize, mask as usize, 0, 0, 0];
        // SAFETY: the program's own promises, here and below.
        returned(unsafe { kernel::raw(libc::SYS_inotify_add_watch, arguments) })
    };
    let follow = mask & libc::IN_DONT_FOLLOW == 0;
    match session::mode() {
        Mode::Off => pass(path),
        // SAFETY: see above.
        Mode::Mount => unsafe {
            begin(path, follow);
            pass(path)
        },
        // SAFETY: see above.
        Mode::Prefix => unsafe {
            paths::call(
                (libc::AT_FDCWD, path),
                Touch::following(follow),
                Call::Stat,
                |store, place| store.attributes(&CALLER, place, follow),
                |_| fail(libc::EOPNOTSUPP),
                |_, path| pass(path),
            )
        },
    }
}

/// Gives the kernel offsets and times before the watch is made, so that the watch misses nothing. Where the kernel refuses the
/// watch, the calls are right all the same.
///
/// # Safety
/// `path` is null, ends with a zero byte, or is a bad address.
unsafe fn begin(path: *const c_char, follow: bool) {
    // SAFETY: as the caller promises.
    if guard::is_inside() || watches::are_any() || unsafe { paths::text(path) }.is_none() {
        return;
    }
    quietly(|| {
        // SAFETY: the string was found readable up to its end.
        let path = unsafe { CStr::from_ptr(path) };
        let link = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
        let flags = link | libc::AT_STATX_DONT_SYNC | libc::AT_NO_AUTOMOUNT;
        let is_ours = session::device().is_some_and(|device| {
            kernel::statx(libc::AT_FDCWD, path, flags, libc::STATX_INO)
                .is_ok_and(|found| kernel::device_of(&found) == device)
        });
        if is_ours {
            watches::note();
            sharing::settle_everything();
        }
    });
}
