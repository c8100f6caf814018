//! The boundary between C and Rust: no thread enters the library twice, no panic crosses, errno is kept.

use crate::host::kernel::{self, system_call};
use libc::c_int;
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The decision of a hook: `None` leaves the call to the kernel, else the call's result or error number.
pub(crate) type Outcome<T> = Option<Result<T, c_int>>;

/// Signals whose delivery belongs to the very instruction: the guard never holds them back.
const SYNCHRONOUS: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT];
/// Bytes of the kernel's signal set.
pub(crate) const SIGNAL_SET_BYTES: usize = 8;
const PTHREAD_CANCEL_DISABLE: c_int = 1;

extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

thread_local! {
    /// The depth of hooks in which this thread is. A vfork child counts as inside for its whole life.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The signals that this thread blocked before the fork that it is making.
    static BEFORE_FORK: Cell<u64> = const { Cell::new(0) };
}

/// Holds back signals, cancellation and reentrance while this thread touches state of the library.
///
/// A signal handler may then call any hook, and never finds a lock of its own thread taken. The client's bound on a server's
/// silence bounds the wait of a held signal, as a disk's answer does on a local file system.
pub(crate) struct Guard {
    errno: c_int,
    cancellation: c_int,
    signals: u64,
}

impl Guard {
    /// Enters the library. `None` where this thread is inside a hook already (the client's own calls), or is a vfork child.
    pub(crate) fn enter() -> Option<Guard> {
        if is_inside() {
            return None;
        }
        let mut guard = Guard { errno: errno(), cancellation: 0, signals: block_signals() };
        // SAFETY: the old state lives through the call.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut guard.cancellation) };
        DEPTH.set(1);
        Some(guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        DEPTH.set(0);
        set_errno(self.errno);
        // SAFETY: the thread had the old state before.
        unsafe { pthread_setcancelstate(self.cancellation, std::ptr::null_mut()) };
        restore_signals(self.signals);
    }
}

/// Blocks all signals but the synchronous ones in this thread. Answers those that it blocked before.
fn block_signals() -> u64 {
    let mut before = 0_u64;
    let mut held = !0_u64;
    for signal in SYNCHRONOUS {
        held &= !(1 << (signal - 1));
    }
    // SAFETY: both sets live through the call.
    unsafe {
        let _ = system_call!(
            libc::SYS_rt_sigprocmask,
            libc::SIG_BLOCK,
            &raw const held,
            &raw mut before,
            SIGNAL_SET_BYTES
        );
    }
    before
}

fn restore_signals(before: u64) {
    // SAFETY: the set lives through the call.
    unsafe {
        let _ = system_call!(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const before,
            std::ptr::null_mut::<u64>(),
            SIGNAL_SET_BYTES
        );
    }
}

/// Holds signals back over a fork, while the heap's lock is taken: a handler of the program that called a hook would wait for
/// this lock, which its own thread holds.
pub(crate) fn hold_signals_over_fork() {
    BEFORE_FORK.set(block_signals());
}

/// Lets them through again, in the parent or in the child.
pub(crate) fn let_signals_through() {
    restore_signals(BEFORE_FORK.get());
}

/// Whether this thread is inside a hook or is a vfork child.
pub(crate) fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// Marks this thread as a vfork child (`true`), or as the parent again. The child shares the memory of the waiting parent.
pub(crate) fn mark_vfork_child(child: bool) {
    DEPTH.set(if child { DEPTH.get() + 1 } else { DEPTH.get() - 1 });
}

/// Whether no signal is blocked in this thread. A signal handler blocks the handled signal (unless the handler was set up
/// with `SA_NODEFER`). So where no signal is blocked, no handler has interrupted libc.
pub(crate) fn no_signal_is_blocked() -> bool {
    blocked_signals() == Some(0)
}

/// The signals that this thread blocks.
pub(crate) fn blocked_signals() -> Option<u64> {
    let mut blocked = 0_u64;
    // SAFETY: the set has the kernel's size and lives through the call.
    let asked = unsafe {
        let nothing = std::ptr::null::<u64>();
        system_call!(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, nothing, &raw mut blocked, SIGNAL_SET_BYTES)
    };
    asked.ok().map(|_| blocked)
}

/// Whether the guard holds back a signal whose handler ends waiting calls: one that was set up without `SA_RESTART`. `blocked`
/// are the signals that the program blocks itself.
pub(crate) fn holds_interruption(blocked: u64) -> bool {
    let mut pending = 0_u64;
    // SAFETY: the set has the kernel's size and lives through the call.
    if unsafe { system_call!(libc::SYS_rt_sigpending, &raw mut pending, SIGNAL_SET_BYTES) }.is_err() {
        return false;
    }
    pending &= !blocked;
    (1..=64).any(|signal| {
        // The kernel's structure: handler, flags, restorer and set.
        let mut action = [0_usize; 4];
        // SAFETY: the structure has the kernel's size and lives through the call.
        let asked = pending >> (signal - 1) & 1 == 1
            && unsafe {
                let nothing = std::ptr::null::<usize>();
                system_call!(libc::SYS_rt_sigaction, signal, nothing, action.as_mut_ptr(), SIGNAL_SET_BYTES)
            }
            .is_ok();
        let has_handler = action[0] != libc::SIG_DFL && action[0] != libc::SIG_IGN;
        asked && has_handler && action[1] & libc::SA_RESTART as usize == 0
    })
}

/// Runs `body` under the guard. A panic becomes `EIO`: no hook ends the program.
pub(crate) fn attempt<T>(body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let _guard = Guard::enter()?;
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Some(Err(libc::EIO)))
}

/// Runs bookkeeping under the guard, as [`attempt`] does. Bookkeeping has no result.
pub(crate) fn quietly(body: impl FnOnce()) {
    let _ = attempt(|| {
        body();
        Some(Ok(()))
    });
}

/// The thread's error number.
pub(crate) fn errno() -> c_int {
    // SAFETY: the location is the thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets the thread's error number.
pub(crate) fn set_errno(number: c_int) {
    // SAFETY: the location is the thread's own.
    unsafe { *libc::__errno_location() = number }
}

/// A C return type with the value that means failure.
pub(crate) trait Failure {
    /// The value that is returned with errno set.
    const FAILED: Self;
}

macro_rules! failure {
    ($($signed:ty),*) => { $(impl Failure for $signed { const FAILED: Self = -1; })* };
}
failure!(i32, i64, isize);

impl Failure for () {
    const FAILED: Self = ();
}

impl<T> Failure for *mut T {
    const FAILED: Self = std::ptr::null_mut();
}

/// Sets errno and returns the type's failure.
pub(crate) fn fail<R: Failure>(number: c_int) -> R {
    set_errno(number);
    R::FAILED
}

/// The C result of a raw system call.
pub(crate) fn returned<R: Failure + TryFrom<isize>>(result: isize) -> R {
    match kernel::checked(result) {
        Ok(value) => R::try_from(value as isize).unwrap_or(R::FAILED),
        Err(number) => fail(number),
    }
}

/// The C result of an outcome. `pass` runs where the kernel has to answer.
pub(crate) fn finish<T, R: Failure>(
    outcome: Outcome<T>,
    convert: impl FnOnce(T) -> R,
    pass: impl FnOnce() -> R,
) -> R {
    match outcome {
        Some(Ok(value)) => convert(value),
        Some(Err(number)) => fail(number),
        None => pass(),
    }
}
