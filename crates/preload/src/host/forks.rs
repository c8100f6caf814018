//! Forks: the library has handlers run around each fork, before and behind all handlers of the program.

use crate::host::real::Handler;
use crate::host::{heap, real};
use libc::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// The functions that run around a fork.
pub(crate) struct Handlers {
    /// Runs before the fork.
    pub(crate) before: extern "C" fn(),
    /// Runs in the parent after the fork.
    pub(crate) in_parent: extern "C" fn(),
    /// Runs in the child.
    pub(crate) in_child: extern "C" fn(),
}

static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Has the handlers run around every fork from now on, also around the forks of `daemon` and `forkpty`.
///
/// The library's start calls this function, and [`register_after`] does where another library starts first. Handlers that are
/// registered first run last before a fork, and first after the fork. So no handler of the program runs while the fork
/// holds a lock of this library, and none sees the child's state before the state is rebuilt. For the same reason the
/// allocator, whose lock all others may need, registers before the library. Handlers of signals are the program's, too: the
/// library's handlers hold signals while the allocator's lock is taken.
pub(crate) fn register(handlers: &'static Handlers) {
    if REGISTERED.swap(true, Ordering::AcqRel) {
        return;
    }
    heap::survive_fork();
    let (before, in_parent, in_child) = (handlers.before, handlers.in_parent, handlers.in_child);
    // SAFETY: the handlers live as long as the library, which is never unloaded.
    unsafe { real::__register_atfork(Some(before), Some(in_parent), Some(in_child), std::ptr::null_mut()) };
}

/// Registers handlers of the program (`__register_atfork`, to which every `pthread_atfork` leads), behind those of this
/// library.
///
/// # Safety
/// As for `pthread_atfork(3)`. `library` is the handle of the library that the handlers lie in, or null.
pub(crate) unsafe fn register_after(
    own: &'static Handlers,
    [before, in_parent, in_child]: [Handler; 3],
    library: *mut c_void,
) -> c_int {
    register(own);
    // SAFETY: as the caller promises.
    unsafe { real::__register_atfork(before, in_parent, in_child, library) }
}
