//! The way on which the kernel opens a file that the client has opened: by the path of the opening, where the path still leads to
//! the file, else by the description itself, which the mount takes over.

use crate::host::kernel::{self, system_call};
use crate::store::{mount, session};
use libc::c_int;
use std::ffi::CString;
use weir_client::wire::Capability;

/// Flags of an opening that a second opening repeats.
const KEPT: c_int = libc::O_ACCMODE | libc::O_APPEND | libc::O_NONBLOCK;

/// Numbers that an opening takes for a moment, in each of many threads.
const MORE: u64 = 64;

/// The path and the right of an opening.
pub(crate) struct WayToKernel {
    directory: c_int,
    path: CString,
    capability: Capability,
}

impl WayToKernel {
    /// The way of an opening of `path`, from `directory` on.
    pub(crate) fn new(directory: c_int, path: &[u8], capability: Capability) -> WayToKernel {
        // A path of a call has no zero byte. An empty one leads nowhere.
        WayToKernel { directory, path: CString::new(path).unwrap_or_default(), capability }
    }

    /// Has the kernel open the file, close-on-exec.
    ///
    /// # Errors
    /// The error of the mount that took the description over.
    pub(crate) fn open(&self, flags: c_int) -> Result<c_int, c_int> {
        match self.try_open(flags) {
            // The file has its number already. The opening needs two more for a moment.
            Err(libc::EMFILE) => with_more_numbers(|| self.try_open(flags)),
            opened => opened,
        }
    }

    fn try_open(&self, flags: c_int) -> Result<c_int, c_int> {
        self.open_path(flags).map_or_else(|| mount::claim(&self.capability, flags & KEPT), Ok)
    }

    /// Opens the file by its path. `None` where the path leads elsewhere now, or the file may not be opened once more.
    fn open_path(&self, flags: c_int) -> Option<c_int> {
        let place = libc::O_PATH | libc::O_CLOEXEC;
        // SAFETY: the path ends with a zero byte.
        let found = unsafe { system_call!(libc::SYS_openat, self.directory, self.path.as_ptr(), place, 0) }
            .ok()? as c_int;
        let opened = self.leads_to(found).then(|| {
            let link = CString::new(format!("/proc/self/fd/{found}")).ok()?;
            // SAFETY: the path ends with a zero byte.
            unsafe { kernel::open(link.as_ptr(), flags & KEPT) }.ok()
        });
        kernel::close(found);
        opened.flatten()
    }

    fn leads_to(&self, found: c_int) -> bool {
        let Some(device) = session::device() else { return false };
        kernel::identify(found, c"", libc::STATX_INO)
            .is_ok_and(|it| it.stx_ino == self.capability.ino.0 && kernel::device_of(&it) == device)
    }
}

/// Runs `open` with a raised limit of open files, where the process may raise its limit.
fn with_more_numbers(open: impl FnOnce() -> Result<c_int, c_int>) -> Result<c_int, c_int> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let nothing = std::ptr::null::<libc::rlimit64>();
    // SAFETY: the limits live through the calls, here and below.
    unsafe { system_call!(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, nothing, &raw mut limit) }?;
    let raised = libc::rlimit64 { rlim_cur: limit.rlim_max.min(limit.rlim_cur + MORE), ..limit };
    let none = std::ptr::null_mut::<libc::rlimit64>();
    // SAFETY: see above.
    unsafe { system_call!(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &raw const raised, none) }?;
    let opened = open();
    // SAFETY: see above. The process may always set a limit that it had.
    let _ = unsafe { system_call!(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &raw const limit, none) };
    opened
}
