//! Lock calls, and the early end of their waits.

use crate::exchange::{call_interruptible, cancel, Interruption};
use crate::pool::{look, owe, Lane};
use crate::session::Environment;
use crate::transfer::Sink;
use crate::{Caller, ClientError, Counters, File, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weir_session::{lock_request, HeldLock};
use weir_wire::{Fence, LockKind, LockOwner, LockRange, LockType, Reply, Request};

/// Pause between two attempts at a lock, where more threads wait for locks of one server than the waiting lane has slots.
const CROWDED_PAUSE: Duration = Duration::from_millis(50);

/// A lock call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// The owner of a POSIX lock within this client: a process. The file's description owns locks of the other kinds.
    pub owner: LockOwner,
    /// The process that is reported to others.
    pub pid: u32,
    /// The kind of call.
    pub kind: LockKind,
    /// The wanted lock.
    pub lock: LockType,
    /// The range, which includes its last byte.
    pub range: LockRange,
}

/// The handle by which another thread can end the wait of a lock call. Each call of [`File::lock`] has its own.
#[derive(Debug, Default)]
pub struct LockWait {
    /// The waiting request: 0 before it is sent, [`CANCELLED`] where the wait was cancelled before.
    request: AtomicU64,
}

const CANCELLED: u64 = u64::MAX;

impl LockWait {
    fn is_cancelled(&self) -> bool {
        self.request.load(Ordering::SeqCst) == CANCELLED
    }
}

impl File {
    /// Sets, changes or releases a lock without waiting.
    ///
    /// # Errors
    /// `EAGAIN` where another owner holds the lock.
    pub fn try_lock(&self, caller: &Caller, request: &LockRequest) -> Result<()> {
        let environment = self.environment()?;
        Counters::add(&environment.counters().lock_calls, 1);
        let lock = self.held_lock(request);
        let lane = match request.lock {
            // Callers that wait for the lock must not be able to hold up its release.
            LockType::Unlock => Lane::Small,
            LockType::Read | LockType::Write => self.patient_lane(environment)?,
        };
        let message = lock_request(&lock, false, None);
        match self.ask_home(environment, caller, lane, &message) {
            Ok(Reply::Held { fence }) => self.remember(environment, lock, fence),
            Ok(_) => Err(self.unexpected("Lock")),
            Err(error) => Err(self.unheard(environment, lock, error)),
        }
    }

    /// Sets a lock, and waits until the lock is granted. `interrupted` is asked after each signal: `true` ends the wait.
    ///
    /// # Errors
    /// `EINTR` for a cancelled or interrupted wait, `EDEADLK` for a wait in a circle.
    pub fn lock(
        &self,
        caller: &Caller,
        request: &LockRequest,
        wait: &LockWait,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<()> {
        if request.lock == LockType::Unlock {
            return self.try_lock(caller, request);
        }
        let environment = self.environment()?;
        Counters::add(&environment.counters().lock_calls, 1);
        let lock = self.held_lock(request);
        let link = environment.link(self.ino().home())?;
        while link.try_lease(Lane::Waiting).is_none() {
            match self.try_lock(caller, request) {
                Err(error) if error.errno() == libc::EAGAIN => {}
                other => return other,
            }
            if interrupted() || wait.is_cancelled() {
                return Err(ClientError::number(libc::EINTR));
            }
            std::thread::sleep(CROWDED_PAUSE);
        }
        let message = lock_request(&lock, true, None);
        let call = self.home_call(Lane::Waiting, &message, Sink::None);
        let interruption = Interruption { request: &wait.request, interrupted, ino: self.ino() };
        match call_interruptible(environment, caller, call, Some(&interruption)) {
            Ok((Reply::Held { fence }, _)) => self.remember(environment, lock, fence),
            Ok(_) => Err(self.unexpected("Lock")),
            Err(error) => Err(self.unheard(environment, lock, error)),
        }
    }

    /// Ends the wait of another thread in [`File::lock`], now or when the wait begins.
    ///
    /// # Errors
    /// A lost server.
    pub fn cancel_lock(&self, caller: &Caller, wait: &LockWait) -> Result<()> {
        match wait.request.compare_exchange(0, CANCELLED, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) | Err(CANCELLED) => Ok(()),
            Err(waiting) => cancel(self.environment()?, caller, self.ino(), waiting),
        }
    }

    /// The lock that would be in the way: its type, its range, and the process that holds the lock. `u32::MAX` stands for
    /// an open description, which `F_GETLK` reports as -1.
    ///
    /// # Errors
    /// A lost server.
    pub fn test_lock(
        &self,
        caller: &Caller,
        request: &LockRequest,
    ) -> Result<Option<(LockType, LockRange, u32)>> {
        let environment = self.environment()?;
        Counters::add(&environment.counters().lock_calls, 1);
        let message = Request::TestLock {
            ino: self.ino(),
            handle: self.handle(),
            owner: request.owner,
            kind: request.kind,
            lock: request.lock,
            range: request.range,
        };
        let lane = self.patient_lane(environment)?;
        match self.ask_home(environment, caller, lane, &message)? {
            Reply::Conflict(conflict) => Ok(conflict),
            _ => Err(self.unexpected("TestLock")),
        }
    }

    /// Releases all POSIX locks of `owner`, as the close of any descriptor of the file does.
    ///
    /// # Errors
    /// A lost server.
    pub fn release_locks(&self, caller: &Caller, owner: LockOwner) -> Result<()> {
        let environment = self.environment()?;
        Counters::add(&environment.counters().lock_calls, 1);
        if let Some(mut held) = look(&environment.link(self.ino().home())?.held) {
            held.release_posix(self.ino(), owner);
        }
        let message = Request::ReleaseLocks { ino: self.ino(), owner };
        let released = self.ask_home(environment, caller, Lane::Small, &message).map(|_| ());
        if matches!(&released, Err(error) if error.is_open()) {
            owe(environment.link(self.ino().home())?, |held| held.owe(message));
        }
        released
    }

    /// The error of a lock call that the home may have carried out, or may carry out yet: the home is told later what holds.
    fn unheard(&self, environment: Environment<'_>, lock: HeldLock, error: ClientError) -> ClientError {
        let Ok(link) = environment.link(self.ino().home()) else { return error };
        match lock.lock {
            _ if !error.is_open() => {}
            LockType::Unlock => {
                owe(link, |held| {
                    held.apply(lock);
                    held.owe(lock_request(&lock, false, None));
                });
            }
            LockType::Read | LockType::Write => owe(link, |held| held.owe_state_before(&lock)),
        }
        error
    }

    /// The lane of a lock call that does not wait. After a restart the server answers such a call only when the grace
    /// period ends, so the call stays out of the small lane while another lane has room.
    fn patient_lane(&self, environment: Environment<'_>) -> Result<Lane> {
        let link = environment.link(self.ino().home())?;
        Ok(if link.try_lease(Lane::Waiting).is_some() { Lane::Waiting } else { Lane::Small })
    }

    fn held_lock(&self, request: &LockRequest) -> HeldLock {
        HeldLock {
            ino: self.ino(),
            handle: self.handle(),
            owner: request.owner,
            pid: request.pid,
            kind: request.kind,
            lock: request.lock,
            range: match request.kind {
                LockKind::Flock => LockRange { first: 0, last: u64::MAX },
                LockKind::Posix | LockKind::Description => request.range,
            },
        }
    }

    fn remember(&self, environment: Environment<'_>, lock: HeldLock, fence: Fence) -> Result<()> {
        let link = environment.link(self.ino().home())?;
        link.standing.note_fence(fence);
        if let Some(mut held) = look(&link.held) {
            held.apply(lock);
        }
        Ok(())
    }
}
