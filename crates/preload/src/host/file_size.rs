//! The limit on the size of files (`ulimit -f`), where no kernel enforces it.

use crate::host::kernel::{self, system_call};
use libc::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

/// The value before the kernel is asked.
const UNKNOWN: u64 = u64::MAX - 1;

/// The limit in bytes, the greatest number without a limit.
static LIMIT: AtomicU64 = AtomicU64::new(UNKNOWN);

/// The limit in bytes. The kernel is asked once, and again after the program has changed its limits.
pub(crate) fn limit() -> Option<u64> {
    let known = match LIMIT.load(Ordering::Relaxed) {
        UNKNOWN => {
            let asked = ask().unwrap_or(u64::MAX);
            LIMIT.store(asked, Ordering::Relaxed);
            asked
        }
        known => known,
    };
    (known < UNKNOWN).then_some(known)
}

/// The program may have changed its limits.
pub(crate) fn forget() {
    LIMIT.store(UNKNOWN, Ordering::Relaxed);
}

fn ask() -> Option<u64> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit lives through the call.
    unsafe {
        system_call!(libc::SYS_prlimit64, 0, libc::RLIMIT_FSIZE, std::ptr::null::<u8>(), &raw mut limit)
    }
    .ok()?;
    (limit.rlim_cur != libc::RLIM64_INFINITY).then_some(limit.rlim_cur)
}

/// The number of bytes that may be written at `offset`, at most `bytes`.
///
/// # Errors
/// SIGXFSZ and EFBIG where no byte may be written.
pub(crate) fn room(offset: u64, bytes: u64) -> Result<u64, c_int> {
    match limit() {
        Some(limit) if offset >= limit => Err(exceeded()),
        Some(limit) => Ok(bytes.min(limit - offset)),
        None => Ok(bytes),
    }
}

/// Checks that a file may be lengthened to `size` bytes.
///
/// # Errors
/// SIGXFSZ and EFBIG beyond the limit.
pub(crate) fn check(size: u64) -> Result<(), c_int> {
    match limit() {
        Some(limit) if size > limit => Err(exceeded()),
        _ => Ok(()),
    }
}

/// Sends the calling thread the signal, as the kernel does. The signal's default ends the program.
fn exceeded() -> c_int {
    // SAFETY: no memory is passed. The signal comes when the guard lets signals through.
    unsafe {
        let thread = kernel::raw(libc::SYS_gettid, [0; 6]);
        let _ = system_call!(libc::SYS_tgkill, kernel::process_id(), thread, libc::SIGXFSZ);
    }
    libc::EFBIG
}
