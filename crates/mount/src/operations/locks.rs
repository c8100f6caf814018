//! Byte-range locks of processes and descriptions, `flock(2)`, and the end of a wait by a signal.

use crate::abi::{flags, FileLock, InterruptIn, LockIn};
use crate::call::{Answer, Call, Failure, Reply};
use crate::filesystem::Filesystem;
use crate::handles::OpenFile;
use crate::process;
use crate::waits::Waiting;
use crate::workers::WaitBudget;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_client::wire::{Ino, LockKind, LockOwner, LockRange, LockType};
use weir_client::LockRequest;

/// Number of looks of a conflict for a close that was announced before it, and the pauses between them. The worker that
/// has read the close needs a processor to report it. A program that asks without waiting can do without ten
/// milliseconds.
const CLOSE_LOOKS: u32 = 10;
const CLOSE_PAUSE: Duration = Duration::from_millis(1);
/// Last byte of "to the end of the file" in the kernel's locks.
const KERNEL_END: u64 = i64::MAX as u64;

/// The owners that may hold POSIX locks, and the handles through which they set them.
///
/// The kernel reports each closed descriptor, but does not tell the owner of a description from a process. An owner
/// that is still here when a handle is released is therefore a description's.
#[derive(Default)]
pub(crate) struct PosixLocks {
    owners: Mutex<HashMap<(Ino, LockOwner), HashSet<u64>>>,
}

impl PosixLocks {
    fn remember(&self, ino: Ino, owner: LockOwner, handle: u64) {
        self.owners().entry((ino, owner)).or_default().insert(handle);
    }

    /// Forgets an owner; answers whether it was known.
    pub(crate) fn forget(&self, ino: Ino, owner: LockOwner) -> bool {
        self.owners().remove(&(ino, owner)).is_some()
    }

    /// Forgets the owners that locked through a handle, and answers them.
    pub(crate) fn forget_handle(&self, ino: Ino, handle: u64) -> Vec<LockOwner> {
        let mut left = Vec::new();
        self.owners().retain(|&(of, owner), handles| {
            let gone = of == ino && handles.contains(&handle);
            if gone {
                left.push(owner);
            }
            !gone
        });
        left
    }

    /// A poisoned table is whole: each change is one insertion or removal.
    fn owners(&self) -> MutexGuard<'_, HashMap<(Ino, LockOwner), HashSet<u64>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn range(lock: &FileLock) -> LockRange {
    LockRange { first: lock.start, last: if lock.end >= KERNEL_END { u64::MAX } else { lock.end } }
}

fn lock_type(kind: u32) -> Option<LockType> {
    match kind as i32 {
        libc::F_RDLCK => Some(LockType::Read),
        libc::F_WRLCK => Some(LockType::Write),
        libc::F_UNLCK => Some(LockType::Unlock),
        _ => None,
    }
}

fn kernel_lock(lock: LockType, range: LockRange, pid: u32) -> FileLock {
    let kind = match lock {
        LockType::Read => libc::F_RDLCK,
        LockType::Write => libc::F_WRLCK,
        LockType::Unlock => libc::F_UNLCK,
    };
    FileLock { start: range.first, end: range.last.min(KERNEL_END), kind: kind as u32, pid }
}

fn request(call: &Call<'_>, asked: &LockIn) -> Result<LockRequest, Failure> {
    let kind = if asked.flags & flags::LOCK_FLOCK != 0 {
        LockKind::Flock
    } else if process::locks_for_description(call.header.pid) {
        LockKind::Description
    } else {
        LockKind::Posix
    };
    Ok(LockRequest {
        owner: LockOwner(asked.owner),
        pid: asked.lock.pid,
        kind,
        lock: lock_type(asked.lock.kind).ok_or(Failure(libc::EINVAL))?,
        range: range(&asked.lock),
    })
}

impl Filesystem {
    pub(crate) fn test_lock(&self, call: &mut Call<'_>) -> Answer {
        let asked: LockIn = call.take()?;
        let open = self.handles.file(asked.handle)?;
        let request = request(call, &asked)?;
        let conflict = open.file.test_lock(&open.opener, &request)?;
        let lock = match conflict {
            Some((lock, range, pid)) => kernel_lock(lock, range, pid),
            None => FileLock { kind: libc::F_UNLCK as u32, ..asked.lock },
        };
        Reply::of(&lock)
    }

    /// SETLK, and SETLKW where it `waits`; a wait takes a place of the budget.
    pub(crate) fn lock(&self, call: &mut Call<'_>, waits: bool, budget: &dyn WaitBudget) -> Answer {
        let asked: LockIn = call.take()?;
        let open = self.handles.file(asked.handle)?;
        let request = request(call, &asked)?;
        if request.kind == LockKind::Posix && request.lock != LockType::Unlock {
            // Remembered first: a lock that turns out not to be held is released without harm.
            self.posix_locks.remember(open.ino, request.owner, asked.handle);
        }
        match self.try_lock(&open, &request) {
            Err(Failure(libc::EAGAIN)) if waits => {
                self.wait_for_lock(call.header.unique, open, &request, budget)?;
            }
            Err(Failure(libc::EAGAIN)) if request.kind != LockKind::Posix => {
                self.await_close(open.ino, budget);
                self.try_lock(&open, &request)?;
            }
            tried => tried?,
        }
        Ok(Reply::Done)
    }

    fn try_lock(&self, open: &OpenFile, request: &LockRequest) -> Result<(), Failure> {
        Ok(open.file.try_lock(&open.opener, request)?)
    }

    /// Waits (bounded) for closes of the file that the kernel announced before, of which another worker may not have told
    /// yet: the lock of a description that the caller itself has closed is no conflict.
    fn await_close(&self, ino: Ino, budget: &dyn WaitBudget) {
        let Some(_place) = budget.enter() else { return };
        for _ in 0..CLOSE_LOOKS {
            if self.handles.wait_for_releases(ino) {
                return;
            }
            std::thread::sleep(CLOSE_PAUSE);
        }
    }

    fn wait_for_lock(
        &self,
        unique: u64,
        open: Arc<OpenFile>,
        request: &LockRequest,
        budget: &dyn WaitBudget,
    ) -> Result<(), Failure> {
        let waiting = Waiting { file: open, wait: Arc::default() };
        if !self.flights.wait(unique, waiting.clone()) {
            return Err(Failure(libc::EINTR));
        }
        let Waiting { file: open, wait } = waiting;
        let _place = budget.enter().ok_or(Failure(libc::ENOLCK))?;
        Ok(open.file.lock(&open.opener, request, &wait, &|| false)?)
    }

    /// Handles a signal for the caller of another request. Lock calls end with EINTR. All other calls end by
    /// themselves, so that their result reaches the program.
    pub(crate) fn interrupt(&self, call: &mut Call<'_>) -> Answer {
        let asked: InterruptIn = call.take()?;
        if let Some(waiting) = self.flights.interrupt(asked.unique) {
            waiting.file.file.cancel_lock(&waiting.file.opener, &waiting.wait)?;
        }
        Ok(Reply::Silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_file_is_the_end_in_both_forms() {
        let lock = FileLock { start: 7, end: KERNEL_END, kind: libc::F_WRLCK as u32, pid: 1 };
        assert_eq!(range(&lock), LockRange { first: 7, last: u64::MAX });
        assert_eq!(kernel_lock(LockType::Write, range(&lock), 1), lock);
        let lock = FileLock { end: 9, ..lock };
        assert_eq!(kernel_lock(LockType::Write, range(&lock), 1), lock);
    }

    #[test]
    fn owners_go_with_their_flush_or_their_handle() {
        let locks = PosixLocks::default();
        let (ino, process, description) = (Ino(5), LockOwner(1), LockOwner(2));
        locks.remember(ino, process, 10);
        locks.remember(ino, process, 11);
        locks.remember(ino, description, 11);
        assert!(locks.forget(ino, process), "closing any descriptor releases all");
        assert!(!locks.forget(ino, process));
        assert_eq!(locks.forget_handle(Ino(6), 11), vec![]);
        assert_eq!(locks.forget_handle(ino, 11), vec![description]);
        assert_eq!(locks.forget_handle(ino, 11), vec![]);
    }
}
