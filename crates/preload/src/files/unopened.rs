//! Files that the client opened, and the kernel did not: what their numbers stand on, and the lock of those numbers.

use crate::files::way_to_kernel::WayToKernel;
use crate::host::kernel::{self, system_call};
use crate::host::patience;
use libc::c_int;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use weir_client::File;

/// The file behind all stand-ins: a symbolic link. The kernel reads and writes no byte of it (EBADF), and another process that
/// opens the number's name in `/proc` gets ELOOP instead of other bytes.
const BEHIND: &std::ffi::CStr = c"/proc/self";

/// The lock that is held while numbers of stand-ins come, go or become the kernel's.
static LOCK: AtomicBool = AtomicBool::new(false);
/// The descriptor that stand-ins are duplicates of, -1 before the first.
static PATTERN: AtomicI32 = AtomicI32::new(-1);
static PATTERN_INO: AtomicU64 = AtomicU64::new(0);
/// Descriptions with stand-ins. Hot calls only ask whether there are any.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Children that are being made, and may get every number.
static CHILDREN: AtomicU32 = AtomicU32::new(0);
/// Whether the program makes system calls on its files that the library does not see.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// The lock, until it is dropped. The caller is under the guard.
pub(crate) struct Locked(());

impl Locked {
    /// `None` where another thread holds the lock for longer than its few system calls can take.
    pub(crate) fn take() -> Option<Locked> {
        patience::until(|| (!LOCK.swap(true, Ordering::Acquire)).then(|| Locked(())))
    }

    /// Makes a stand-in. `None` while a child is made, or where there can be none.
    pub(crate) fn make(&self, flags: c_int) -> Option<Result<(c_int, u64), c_int>> {
        if CHILDREN.load(Ordering::Acquire) > 0 {
            return None;
        }
        let (pattern, ino) = pattern()?;
        let command = if flags & libc::O_CLOEXEC != 0 { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
        // SAFETY: no memory is passed.
        let made = unsafe { system_call!(libc::SYS_fcntl, pattern, command, 0) };
        if made == Err(libc::EBADF) {
            // The program closed the number by a system call that the library did not see.
            PATTERN.store(-1, Ordering::Relaxed);
            return None;
        }
        Some(made.map(|number| (number as c_int, ino)))
    }

    /// Puts `opened`, which the kernel opened, in the place of every stand-in of a description.
    pub(crate) fn replace(&self, unopened: &Unopened, opened: c_int) {
        let numbers = unopened.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        for &number in numbers.iter() {
            if kernel::inode_of(number) != Some(PATTERN_INO.load(Ordering::Relaxed)) {
                continue;
            }
            let flag = match kernel::descriptor_flags(number) & libc::FD_CLOEXEC {
                0 => 0,
                _ => libc::O_CLOEXEC,
            };
            // SAFETY: no memory is passed.
            let _ = unsafe { system_call!(libc::SYS_dup3, opened, number, flag) };
        }
        kernel::close(opened);
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        LOCK.store(false, Ordering::Release);
    }
}

fn pattern() -> Option<(c_int, u64)> {
    let known = PATTERN.load(Ordering::Relaxed);
    if known >= 0 {
        return Some((known, PATTERN_INO.load(Ordering::Relaxed)));
    }
    // SAFETY: the path ends with a zero byte.
    let opened = unsafe { kernel::open(BEHIND.as_ptr(), libc::O_PATH | libc::O_NOFOLLOW) }.ok()?;
    // SAFETY: the kernel has just made the descriptor, and no other code knows its number.
    let kept = weir_client::keep_descriptor(unsafe { OwnedFd::from_raw_fd(opened) }).ok()?;
    let ino = kernel::inode_of(kept)?;
    PATTERN_INO.store(ino, Ordering::Relaxed);
    PATTERN.store(kept, Ordering::Relaxed);
    Some((kept, ino))
}

/// Whether there are any stand-ins: a load and a comparison.
pub(crate) fn are_any() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Whether files may be opened as stand-ins now.
pub(crate) fn are_allowed() -> bool {
    !STOPPED.load(Ordering::Relaxed) && CHILDREN.load(Ordering::Relaxed) == 0
}

/// Makes no further stand-ins, because system calls on files follow that the library does not see.
pub(crate) fn stop() {
    STOPPED.store(true, Ordering::Release);
}

/// A child is about to be made, which may get every number. No stand-in is made until [`child_was_made`].
pub(crate) fn child_begins() {
    let locked = Locked::take();
    CHILDREN.fetch_add(1, Ordering::AcqRel);
    drop(locked);
}

/// The child is made.
pub(crate) fn child_was_made() {
    let one_less = |count: u32| Some(count.saturating_sub(1));
    let _ = CHILDREN.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less);
}

/// Begins anew in the child of `fork`, which has none.
pub(crate) fn reset_in_child() {
    LOCK.store(false, Ordering::Release);
    CHILDREN.store(0, Ordering::Release);
    COUNT.store(0, Ordering::Release);
}

/// The part of a description that the client opened, and that the kernel opens if it has to.
pub(crate) struct Unopened {
    /// The file at the servers. It stays open until the description ends, because other threads may use it.
    pub(crate) file: File,
    /// The way of the kernel to the file.
    pub(crate) way: WayToKernel,
    is_waiting: AtomicBool,
    /// The numbers of the description in this process.
    numbers: Mutex<Vec<c_int>>,
}

impl Unopened {
    /// A file whose numbers are stand-ins.
    pub(crate) fn new(file: File, way: WayToKernel) -> Unopened {
        COUNT.fetch_add(1, Ordering::AcqRel);
        Unopened { file, way, is_waiting: AtomicBool::new(true), numbers: Mutex::default() }
    }

    /// Whether the kernel has not opened the file.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Acquire)
    }

    /// The kernel has opened the file, or the description ends.
    pub(crate) fn end_waiting(&self) {
        if self.is_waiting.swap(false, Ordering::AcqRel) {
            COUNT.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Notes one more number of the description.
    pub(crate) fn add_number(&self, number: c_int) {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).push(number);
    }

    /// Notes one number of the description less.
    pub(crate) fn remove_number(&self, number: c_int) {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| *known != number);
    }
}
