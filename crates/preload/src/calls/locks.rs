//! `fcntl` and `flock` on placeholders. The servers keep the locks, as for the mount.

use crate::calls::open_beside_kernel::LARGE_FILE;
use crate::files::description::Description;
use crate::files::placeholder::Placeholder;
use crate::files::{locked_files, prefix, promotion, sharing, table};
use crate::host::guard::{self, attempt, fail, Outcome};
use crate::host::kernel::{self, system_call};
use crate::host::{addresses, real};
use crate::store::counters::{self, Call};
use crate::store::session::{self, Mode, CALLER};
use libc::{c_int, c_long, off_t};
use std::sync::{Mutex, PoisonError};
use weir_client::wire::{Ino, LockKind, LockOwner, LockRange, LockType};
use weir_client::{File, HandedLock, LockRequest};

/// First and longest pause of a call that waits for a lock. The call asks again after each, so that signals can end its wait.
const PAUSE_FIRST_NANOSECONDS: i64 = 500_000;
const PAUSE_LAST_NANOSECONDS: i64 = 20_000_000;

/// Locks that this process may hold. A child of `fork` has a copy with its parent's process number.
static LOCKED: Mutex<Vec<Held>> = Mutex::new(Vec::new());
/// Descriptions whose streams may hold unwritten bytes, with their inodes.
static STREAMED: Mutex<Vec<(u64, Ino)>> = Mutex::new(Vec::new());

/// One owner's locks of one kind on a file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Held {
    process: u32,
    ino: Ino,
    kind: LockKind,
    owner: LockOwner,
}

/// `fcntl` on a placeholder. `None` for commands that the kernel does right on a placeholder.
///
/// # Safety
/// For lock commands `argument` points to a `struct flock`.
pub(crate) unsafe fn fcntl(descriptor: c_int, command: c_int, argument: c_long) -> Option<c_int> {
    match command {
        libc::F_GETFL | libc::F_SETFL => {
            let outcome = attempt(|| {
                let description = promotion::discovered(descriptor)?;
                let placeholder = description.placeholder()?;
                if command == libc::F_SETFL && placeholder.is_path_only() {
                    return Some(Err(libc::EBADF));
                }
                if command == libc::F_SETFL {
                    placeholder.set_flags(argument as c_int);
                    return Some(Ok(0));
                }
                Some(Ok(match placeholder.is_path_only() {
                    // The kernel keeps no other flag of such an open.
                    true => placeholder.flags() & (libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW),
                    false => placeholder.flags() | LARGE_FILE,
                }))
            });
            answered(outcome)
        }
        libc::F_GETLK
        | libc::F_SETLK
        | libc::F_SETLKW
        | libc::F_OFD_GETLK
        | libc::F_OFD_SETLK
        | libc::F_OFD_SETLKW => {
            let lock = argument as *mut libc::flock;
            if !addresses::can_write(lock, 1) {
                return Some(fail(libc::EFAULT));
            }
            // SAFETY: as the caller promises.
            waiting(matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW), || unsafe {
                region(descriptor, command, &mut *lock)
            })
        }
        _ => None,
    }
}

fn answered(outcome: Outcome<c_int>) -> Option<c_int> {
    match outcome? {
        Ok(value) => Some(value),
        Err(number) => Some(fail(number)),
    }
}

/// A pause that a signal ends as it ends the wait for a lock in a kernel: EINTR, or not at all where the handler was set up with
/// SA_RESTART. Of the calls that wait for a time, the kernel restarts the read of a timer.
struct Pause(Option<c_int>);

impl Pause {
    fn new() -> Pause {
        let flags = libc::TFD_CLOEXEC;
        // SAFETY: no memory is passed.
        Pause(
            unsafe { system_call!(libc::SYS_timerfd_create, libc::CLOCK_MONOTONIC, flags) }
                .ok()
                .map(|timer| timer as c_int),
        )
    }

    /// Waits. Answers whether a signal's handler ended the wait.
    fn wait(&self, nanoseconds: i64) -> bool {
        let time = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
        let nothing = std::ptr::null::<libc::timespec>();
        // SAFETY: times and count live through the calls.
        let waited = unsafe {
            match self.0 {
                Some(timer) => {
                    let once = [libc::timespec { tv_sec: 0, tv_nsec: 0 }, time];
                    let mut count = 0_u64;
                    let _ = system_call!(libc::SYS_timerfd_settime, timer, 0, &raw const once, nothing);
                    system_call!(libc::SYS_read, timer, &raw mut count, size_of::<u64>())
                }
                // No descriptor is free.
                None => system_call!(libc::SYS_nanosleep, &raw const time, nothing),
            }
        };
        waited == Err(libc::EINTR)
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        if let Some(timer) = self.0 {
            kernel::close(timer);
        }
    }
}

/// Repeats `ask` while it answers EAGAIN, if the call waits.
fn waiting(waits: bool, mut ask: impl FnMut() -> Outcome<c_int>) -> Option<c_int> {
    let mut nanoseconds = PAUSE_FIRST_NANOSECONDS;
    let mut pause = None;
    let blocked = guard::blocked_signals().unwrap_or(!0);
    loop {
        let mut is_interrupted = false;
        let asked = attempt(|| {
            let asked = ask();
            // A signal that comes meanwhile is delivered before the pause, which would not end.
            is_interrupted = waits && guard::holds_interruption(blocked);
            asked
        });
        match asked {
            Some(Err(libc::EAGAIN)) if waits => {}
            other => return answered(other),
        }
        if is_interrupted {
            return Some(fail(libc::EINTR));
        }
        if pause.get_or_insert_with(Pause::new).wait(nanoseconds) {
            return Some(fail(libc::EINTR));
        }
        nanoseconds = (nanoseconds * 2).min(PAUSE_LAST_NANOSECONDS);
    }
}

fn region(descriptor: c_int, command: c_int, lock: &mut libc::flock) -> Outcome<c_int> {
    let description = promotion::discovered(descriptor)?;
    let placeholder = description.placeholder()?;
    let Some(file) = description.lockable(descriptor) else { return Some(Err(libc::EBADF)) };
    let wanted = match c_int::from(lock.l_type) {
        libc::F_RDLCK => LockType::Read,
        libc::F_WRLCK => LockType::Write,
        libc::F_UNLCK => LockType::Unlock,
        _ => return Some(Err(libc::EINVAL)),
    };
    let is_test = matches!(command, libc::F_GETLK | libc::F_OFD_GETLK);
    // Only a description may ask for its own locks.
    if command == libc::F_GETLK && wanted == LockType::Unlock {
        return Some(Err(libc::EINVAL));
    }
    let allowed = is_test
        || match wanted {
            LockType::Read => description.is_readable(),
            LockType::Write => description.is_writable(),
            LockType::Unlock => true,
        };
    if !allowed {
        return Some(Err(libc::EBADF));
    }
    let range = match range_of(file, &description, descriptor, lock)? {
        Ok(range) => range,
        Err(number) => return Some(Err(number)),
    };
    let is_posix = matches!(command, libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW);
    let pid = kernel::process_id();
    let request = if is_posix {
        LockRequest { owner: process_owner(), pid, kind: LockKind::Posix, lock: wanted, range }
    } else {
        if lock.l_pid != 0 {
            return Some(Err(libc::EINVAL));
        }
        let owner = LockOwner(description.identity());
        LockRequest { owner, pid, kind: LockKind::Description, lock: wanted, range }
    };
    counters::served(Call::Lock);
    if is_test {
        let conflict = match session::outcome(file.test_lock(&CALLER, &request))? {
            Ok(conflict) => conflict,
            Err(number) => return Some(Err(number)),
        };
        tell(lock, conflict, is_posix);
        return Some(Ok(0));
    }
    let done = session::outcome(file.try_lock(&CALLER, &request))?;
    if done.is_ok() && wanted != LockType::Unlock {
        note_locked(placeholder, &request);
    }
    Some(done.map(|()| 0))
}

/// The owner of POSIX locks within this process's client: the process.
pub(crate) fn process_owner() -> LockOwner {
    LockOwner(u64::from(kernel::process_id()))
}

fn note_locked(placeholder: &Placeholder, request: &LockRequest) {
    if request.kind != LockKind::Posix {
        placeholder.note_locked();
    }
    let ino = placeholder.ino();
    note(Held { process: request.pid, ino, kind: request.kind, owner: request.owner });
}

/// Notes a lock that the program before this one in the process took.
pub(crate) fn note_handed(lock: &HandedLock) {
    note(Held { process: kernel::process_id(), ino: lock.ino, kind: lock.kind, owner: lock.owner });
}

fn note(held: Held) {
    let mut locked = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
    if !locked.contains(&held) {
        locked.push(held);
    }
}

/// Notes that a writing stream was made on `descriptor`.
pub(crate) fn note_streamed(descriptor: c_int) {
    let Some(description) = promotion::discovered(descriptor) else { return };
    let Some(placeholder) = description.placeholder() else { return };
    let mut streamed = STREAMED.lock().unwrap_or_else(PoisonError::into_inner);
    streamed.push((description.identity(), placeholder.ino()));
}

/// Releases all locks of the process, which ends. As in a kernel, the locks go before the process's parent hears of the end,
/// and not when the server sees the end of the connection. Where libc writes the content of streams afterwards
/// (`streams_follow`), the locks of their files wait for the end of the connection.
pub(crate) fn release_all(streams_follow: bool) {
    // A thread that holds this mutex may be gone with a `fork`, or about to end: it must not keep the process.
    let Ok(mut locked) = LOCKED.try_lock().map(|mut locked| std::mem::take(&mut *locked)) else { return };
    let own = kernel::process_id();
    if locked.iter().all(|held| held.process != own) {
        return;
    }
    let Ok(streamed) = STREAMED.try_lock() else { return };
    // The release of a process lock names a description of its file, which is still open then.
    locked.sort_by_key(|held| held.kind != LockKind::Posix);
    for held in locked.into_iter().filter(|held| held.process == own) {
        let waits = streams_follow && streamed.iter().any(|(_, ino)| *ino == held.ino);
        if !waits {
            release_held(held);
        }
    }
}

fn release_held(held: Held) {
    let range = LockRange { first: 0, last: u64::MAX };
    let request =
        LockRequest { owner: held.owner, pid: held.process, kind: held.kind, lock: LockType::Unlock, range };
    let mut is_done = false;
    table::each(|_, description| {
        let Some(file) = held.lockable(description).filter(|_| !is_done) else { return };
        is_done = true;
        // A lost server forgets the locks and the description with the session.
        if held.kind == LockKind::Posix {
            let _ = file.try_lock(&CALLER, &request);
        } else if let Some(store) = session::store_in_use() {
            // Another process may have the description, and then keeps the lock.
            let _ = store.close(&CALLER, held.ino, file.handle());
        }
    });
}

impl Held {
    /// The file of a description through which the lock may be held.
    fn lockable(self, description: &Description) -> Option<&File> {
        let is_file = description.placeholder().is_some_and(|found| found.ino() == self.ino);
        let is_owner = self.kind == LockKind::Posix || self.owner == LockOwner(description.identity());
        description.lockable_in_use().filter(|_| is_file && is_owner)
    }
}

/// Has this process's client hold a description that some process locked, so that the locks outlive the processes that this
/// one has the descriptor from.
pub(crate) fn keep(descriptor: c_int, description: &Description) {
    let Some(placeholder) = description.placeholder().filter(|found| found.is_locked()) else { return };
    let is_held = description.lockable(descriptor).is_some();
    placeholder.note_holder();
    if !is_held {
        return;
    }
    // A thread of the parent may have had the mutex, and is not here.
    let Ok(mut locked) = LOCKED.try_lock() else { return };
    let (process, owner) = (kernel::process_id(), LockOwner(description.identity()));
    let held = Held { process, ino: placeholder.ino(), kind: LockKind::Flock, owner };
    if !locked.contains(&held) {
        locked.push(held);
    }
}

fn range_of(
    file: &File,
    description: &Description,
    descriptor: c_int,
    lock: &libc::flock,
) -> Outcome<LockRange> {
    let base = match c_int::from(lock.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => match description.with_offset(descriptor, |offset| Some(Ok((offset, offset))))? {
            Ok(offset) => offset as off_t,
            Err(number) => return Some(Err(number)),
        },
        libc::SEEK_END => match session::outcome(file.size(&CALLER))? {
            Ok(size) => size as off_t,
            Err(number) => return Some(Err(number)),
        },
        _ => return Some(Err(libc::EINVAL)),
    };
    Some(range_from(base, lock.l_start, lock.l_len))
}

/// The range that `struct flock` means. A length of 0 reaches to the end of any file, a negative length backwards.
fn range_from(base: off_t, start: off_t, length: off_t) -> Result<LockRange, c_int> {
    let start = base.checked_add(start).ok_or(libc::EOVERFLOW)?;
    let (first, last) = match length {
        0 => (start, None),
        1.. => (start, Some(start.checked_add(length - 1).ok_or(libc::EOVERFLOW)?)),
        _ => (start + length, Some(start - 1)),
    };
    let first = u64::try_from(first).map_err(|_| libc::EINVAL)?;
    Ok(LockRange { first, last: last.map_or(u64::MAX, |last| last as u64) })
}

fn tell(lock: &mut libc::flock, conflict: Option<(LockType, LockRange, u32)>, is_posix: bool) {
    let Some((kind, range, pid)) = conflict else {
        lock.l_type = libc::F_UNLCK as i16;
        return;
    };
    lock.l_type = if kind == LockType::Read { libc::F_RDLCK } else { libc::F_WRLCK } as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    lock.l_start = range.first as off_t;
    lock.l_len = if range.last >= i64::MAX as u64 { 0 } else { (range.last - range.first + 1) as off_t };
    lock.l_pid = if is_posix { pid as i32 } else { -1 };
}

/// Releases the process's POSIX locks on a file of which it closed a descriptor. The last descriptor of the description
/// releases the other locks, too.
pub(crate) fn release_process_locks(description: &Description) {
    let Some(placeholder) = description.placeholder() else { return };
    let is_last = description.is_abandoned();
    let mut locked = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = locked.len();
    locked.retain(|held| held.kind != LockKind::Posix || held.ino != placeholder.ino());
    let had_locks = locked.len() < before;
    if is_last {
        let owner = LockOwner(description.identity());
        locked.retain(|held| held.kind == LockKind::Posix || held.owner != owner);
    }
    drop(locked);
    if is_last {
        let mut streamed = STREAMED.lock().unwrap_or_else(PoisonError::into_inner);
        streamed.retain(|(identity, _)| *identity != description.identity());
    }
    if !had_locks {
        return;
    }
    if let Some(file) = description.lockable_in_use() {
        // A lost server forgets the locks with the session.
        let _ = file.release_locks(&CALLER, process_owner());
    }
}

/// Notes that the kernel is about to take a lock of this process on a file of the store.
pub(crate) fn note_kernels(descriptor: c_int) {
    if table::is_known(descriptor) && session::mode() == Mode::Mount {
        guard::quietly(|| {
            if let Some(description) = promotion::described(descriptor) {
                locked_files::note(Ino(description.identity()));
            }
        });
    }
}

/// `flock(2)`. With a mount the kernel does the call.
pub(crate) unsafe fn flock(descriptor: c_int, operation: c_int) -> c_int {
    // SAFETY: no memory is passed.
    let pass = || unsafe { real::flock(descriptor, operation) };
    sharing::settle(descriptor);
    if !prefix::may_hold(descriptor) {
        return pass();
    }
    let lock = match operation & !libc::LOCK_NB {
        libc::LOCK_SH => LockType::Read,
        libc::LOCK_EX => LockType::Write,
        libc::LOCK_UN => LockType::Unlock,
        _ => return pass(),
    };
    let result = waiting(operation & libc::LOCK_NB == 0, || {
        let description = promotion::discovered(descriptor)?;
        let placeholder = description.placeholder()?;
        let Some(file) = description.lockable(descriptor) else { return Some(Err(libc::EBADF)) };
        let range = LockRange { first: 0, last: u64::MAX };
        let owner = LockOwner(description.identity());
        let request = LockRequest { owner, pid: kernel::process_id(), kind: LockKind::Flock, lock, range };
        counters::served(Call::Lock);
        let done = session::outcome(file.try_lock(&CALLER, &request))?;
        if done.is_ok() && lock != LockType::Unlock {
            note_locked(placeholder, &request);
        }
        Some(done.map(|()| 0))
    });
    result.unwrap_or_else(pass)
}

/// `lockf(3)`: POSIX locks from the current offset.
pub(crate) unsafe fn lockf(descriptor: c_int, command: c_int, length: off_t) -> c_int {
    let (operation, kind) = match command {
        libc::F_ULOCK => (libc::F_SETLK, libc::F_UNLCK),
        libc::F_LOCK => (libc::F_SETLKW, libc::F_WRLCK),
        libc::F_TLOCK => (libc::F_SETLK, libc::F_WRLCK),
        libc::F_TEST => (libc::F_GETLK, libc::F_WRLCK),
        _ => return fail(libc::EINVAL),
    };
    // SAFETY: every field of the structure is a number, for which zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as i16;
    lock.l_whence = libc::SEEK_CUR as i16;
    lock.l_len = length;
    // SAFETY: the lock lives through the call.
    let result = unsafe {
        let argument = &raw mut lock as c_long;
        fcntl(descriptor, operation, argument).unwrap_or_else(|| real::fcntl(descriptor, operation, argument))
    };
    let is_taken = command == libc::F_TEST && result == 0 && c_int::from(lock.l_type) != libc::F_UNLCK;
    if is_taken && lock.l_pid as u32 != kernel::process_id() {
        return fail(libc::EACCES);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_posix() {
        let range = |first, last| Ok(LockRange { first, last });
        assert_eq!(range_from(10, 5, 0), range(15, u64::MAX));
        assert_eq!(range_from(10, 5, 3), range(15, 17));
        assert_eq!(range_from(10, 5, -5), range(10, 14));
        assert_eq!(range_from(0, 5, -6), Err(libc::EINVAL));
        assert_eq!(range_from(i64::MAX, 1, 1), Err(libc::EOVERFLOW));
    }
}
