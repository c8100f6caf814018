//! SIGTERM and SIGINT as something that one thread waits for.

use std::io;
use std::mem::MaybeUninit;

/// The signals that end the mount, blocked in every thread.
pub(crate) struct Termination {
    set: libc::sigset_t,
}

impl Termination {
    /// Blocks the signals in this thread and those that it starts.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn block() -> io::Result<Termination> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set that the other calls use, all pointers are to live memory, and a null old
        // mask is allowed.
        let (set, result) = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
            libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
            let set = set.assume_init();
            (set, libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()))
        };
        match result {
            0 => Ok(Termination { set }),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Waits for one of them.
    pub(crate) fn wait(&self) {
        let mut signal = 0;
        // SAFETY: both pointers are to live memory; the only error of sigwait is an invalid set, which `block` excludes.
        unsafe {
            libc::sigwait(&self.set, &mut signal);
        }
    }
}
