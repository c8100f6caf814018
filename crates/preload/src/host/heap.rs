//! The library's own heap: hooks run in signal handlers, where the program's `malloc` may be half done.

use crate::host::guard;
use dlmalloc::GlobalDlmalloc;
use std::alloc::{GlobalAlloc, Layout};

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

/// Runs `body` with signals held back, as inside a hook. So no signal handler waits for a heap's lock that its own thread
/// holds.
fn undisturbed<T>(body: impl FnOnce() -> T) -> T {
    let _guard = guard::Guard::enter();
    body()
}

// SAFETY: every call is the inner allocator's, unchanged.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises, here and below.
        undisturbed(|| unsafe { GlobalDlmalloc.alloc(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: see `alloc`.
        undisturbed(|| unsafe { GlobalDlmalloc.dealloc(pointer, layout) });
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see `alloc`.
        undisturbed(|| unsafe { GlobalDlmalloc.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: see `alloc`.
        undisturbed(|| unsafe { GlobalDlmalloc.realloc(pointer, layout, bytes) })
    }
}

/// Has each fork hold the heap's lock from now on, so that the child finds the lock free.
pub(crate) fn survive_fork() {
    // SAFETY: no thread of the program is inside the heap at a fork: each thread leaves the heap before its hook returns,
    // and the fork handler takes the lock.
    unsafe { dlmalloc::enable_alloc_after_fork() };
}
