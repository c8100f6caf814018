//! Forks: the library has handlers run around each fork, once it keeps state that a child must not share.

use crate::host::heap;
use libc::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

extern "C" {
    /// `pthread_atfork` under the name that every C library since 2.3 exports.
    fn __register_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
        library: *mut c_void,
    ) -> c_int;
}

/// The functions that run around a fork.
pub(crate) struct Handlers {
    /// Runs before the fork.
    pub(crate) before: extern "C" fn(),
    /// Runs in the parent after the fork.
    pub(crate) in_parent: extern "C" fn(),
    /// Runs in the child.
    pub(crate) in_child: extern "C" fn(),
}

static HANDLERS: AtomicPtr<Handlers> = AtomicPtr::new(std::ptr::null_mut());
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Gives the handlers that [`register`] registers; called once, when the library is loaded.
pub(crate) fn announce(handlers: &'static Handlers) {
    HANDLERS.store(std::ptr::from_ref(handlers).cast_mut(), Ordering::Release);
}

/// Has the handlers run around every fork from now on, also around the forks of `daemon` and `forkpty`. The allocator
/// registers first: handlers before a fork run in reverse order, so the allocator's lock is taken last.
pub(crate) fn register() {
    // SAFETY: the pointer is null or comes from a static value.
    let Some(handlers) = (unsafe { HANDLERS.load(Ordering::Acquire).as_ref() }) else { return };
    if REGISTERED.swap(true, Ordering::AcqRel) {
        return;
    }
    heap::survive_fork();
    let (before, in_parent, in_child) = (handlers.before, handlers.in_parent, handlers.in_child);
    // SAFETY: the handlers live as long as the library, which is never unloaded.
    unsafe { __register_atfork(Some(before), Some(in_parent), Some(in_child), std::ptr::null_mut()) };
}
