//! The clocks of the recorder.

const SECOND: u64 = 1_000_000_000;

pub(crate) fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time lives through the call, and every kernel has the clocks of the recorder.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// The nanoseconds of a clock that costs little and is exact to a few milliseconds.
pub(super) fn coarse_clock() -> u64 {
    clock(libc::CLOCK_MONOTONIC_COARSE)
}
