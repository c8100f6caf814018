//! The wait for another thread of the process that holds something for a moment, without a lock of the C library.

use crate::host::kernel::system_call;

/// Turns that are given up before the first sleep: mostly the other thread needs no more.
const YIELDS: u32 = 1000;
const SLEEPS: u32 = 2000;
static SLEEP: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// The first answer of `look`, which is repeated while another thread has what it looks for. Absent after two seconds,
/// for which even a busy machine hardly holds a thread up.
pub(crate) fn until<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    for turn in 0..YIELDS + SLEEPS {
        if let Some(found) = look() {
            return Some(found);
        }
        // SAFETY: the time lives through the call. A signal that cuts a sleep short does no harm.
        let _ = unsafe {
            if turn < YIELDS {
                system_call!(libc::SYS_sched_yield)
            } else {
                system_call!(libc::SYS_nanosleep, &raw const SLEEP, std::ptr::null::<libc::timespec>())
            }
        };
    }
    None
}
