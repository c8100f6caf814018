//! The mask of file modes, for files that the client makes.

use crate::host::kernel;
use libc::mode_t;
use std::sync::atomic::{AtomicU32, Ordering};

/// The value before the mask is known: no mask has it.
const UMASK_UNKNOWN: u32 = u32::MAX;
static UMASK: AtomicU32 = AtomicU32::new(UMASK_UNKNOWN);

/// Notes the mask that the program sets.
pub(crate) fn remember(mask: mode_t) {
    UMASK.store(mask & 0o777, Ordering::Release);
}

/// The permission bits without those in the process's mask.
pub(crate) fn masked(permissions: mode_t) -> u16 {
    (permissions & !current_umask() & 0o7777) as u16
}

/// The process's mask. Only the process status shows the mask without a change that other threads would see. Where the status
/// is missing, the mask is set twice.
fn current_umask() -> u32 {
    let known = UMASK.load(Ordering::Acquire);
    if known != UMASK_UNKNOWN {
        return known;
    }
    let told = std::fs::read_to_string("/proc/thread-self/status").ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
        u32::from_str_radix(line.trim(), 8).ok()
    });
    let mask = told.unwrap_or_else(|| {
        // SAFETY: no memory is passed, and neither can fail.
        unsafe {
            let mask = kernel::raw(libc::SYS_umask, [0o077, 0, 0, 0, 0, 0]);
            kernel::raw(libc::SYS_umask, [mask as usize, 0, 0, 0, 0, 0]);
            mask as u32
        }
    });
    UMASK.store(mask, Ordering::Release);
    mask
}
