//! The limit on the size of files (`ulimit -f`), where no kernel enforces it.

use crate::host::kernel::{self, system_call};
use libc::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nobody has asked the kernel yet.
const UNKNOWN: u64 = u64::MAX - 1;

/// The limit in bytes, the greatest number where there is none.
static LIMIT: AtomicU64 = AtomicU64::new(UNKNOWN);

/// The limit in bytes; asked once, and again after the program has changed its limits.
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

/// How many of `bytes` may be written at `offset`; SIGXFSZ and EFBIG where none may.
pub(crate) fn room(offset: u64, bytes: u64) -> Result<u64, c_int> {
    match limit() {
        Some(limit) if offset >= limit => Err(exceeded()),
        Some(limit) => Ok(bytes.min(limit - offset)),
        None => Ok(bytes),
    }
}

/// Whether a file may be lengthened to `size` bytes; SIGXFSZ and EFBIG where it may not.
pub(crate) fn check(size: u64) -> Result<(), c_int> {
    match limit() {
        Some(limit) if size > limit => Err(exceeded()),
        _ => Ok(()),
    }
}

/// As the kernel does: the signal for the calling thread, whose default is the end of the program.
fn exceeded() -> c_int {
    // SAFETY: no memory is passed. The signal comes when the guard lets signals through.
    unsafe {
        let thread = kernel::raw(libc::SYS_gettid, [0; 6]);
        let _ = system_call!(libc::SYS_tgkill, kernel::process_id(), thread, libc::SIGXFSZ);
    }
    libc::EFBIG
}
