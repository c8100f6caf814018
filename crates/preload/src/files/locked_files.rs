//! Files on which this process took locks of its own (`F_SETLK`) with a mount. The kernel releases them with the close of any
//! descriptor of the file, so it has to see the close of a stand-in, too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use weir_client::wire::Ino;

/// Files that are told apart. With more, each file counts as locked.
const FILES_MAX: usize = 1024;

static ARE_ANY: AtomicBool = AtomicBool::new(false);
static FILES: Mutex<Vec<Ino>> = Mutex::new(Vec::new());

/// Notes a file on which the process is about to take a lock.
pub(crate) fn note(ino: Ino) {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    if !files.contains(&ino) && files.len() <= FILES_MAX {
        files.push(ino);
    }
    ARE_ANY.store(true, Ordering::Release);
}

/// Whether the process may have locks on a file.
pub(crate) fn hold(ino: Ino) -> bool {
    if !ARE_ANY.load(Ordering::Acquire) {
        return false;
    }
    // A thread of the parent may have had the mutex at a fork, and is not here.
    FILES.try_lock().map_or(true, |files| files.len() > FILES_MAX || files.contains(&ino))
}

/// Begins anew in the child of `fork`, which has no locks of its process.
///
/// # Safety
/// No other thread runs.
pub(crate) unsafe fn reset_in_child() {
    // SAFETY: the only thread of the process writes to a static. A list that another thread was changing is leaked.
    unsafe { std::ptr::write((&raw const FILES).cast_mut(), Mutex::new(Vec::new())) };
    ARE_ANY.store(false, Ordering::Release);
}
