//! Locks: what is asked for, and how a wait ends early.

use crate::connect::lock_request;
use crate::exchange::{call_interruptible, cancel, Interruption};
use crate::held::{look, HeldLock};
use crate::pool::Lane;
use crate::session::Environment;
use crate::transfer::Sink;
use crate::{Caller, ClientError, Counters, File, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weir_wire::{LockKind, LockOwner, LockRange, LockType, Reply, Request};

/// Between two attempts at a lock when more threads wait for locks of one server than it has waiting lanes.
const CROWDED_PAUSE: Duration = Duration::from_millis(50);

/// A lock call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// Owner of a POSIX lock, within this client: a process. The other kinds are owned by the file's description.
    pub owner: LockOwner,
    /// Process to report to others.
    pub pid: u32,
    /// Which call.
    pub kind: LockKind,
    /// What.
    pub lock: LockType,
    /// Range, its last byte inside.
    pub range: LockRange,
}

/// A lock call that may wait, so that another thread can end its wait. One per call of [`File::lock`].
#[derive(Debug, Default)]
pub struct LockWait {
    /// Request that waits: 0 before it is sent, [`CANCELLED`] when the wait was cancelled before.
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
    /// `EAGAIN` when another holds it.
    pub fn try_lock(&self, caller: &Caller, request: &LockRequest) -> Result<()> {
        let environment = self.environment()?;
        Counters::add(&environment.counters().lock_calls, 1);
        let lock = self.held_lock(request);
        let lane = match request.lock {
            // Those who wait for it must not be able to hold up its release.
            LockType::Unlock => Lane::Small,
            LockType::Read | LockType::Write => self.patient_lane(environment)?,
        };
        match self.ask_home(environment, caller, lane, &lock_request(&lock, false, false))? {
            Reply::Done => self.remember(environment, lock),
            _ => Err(self.unexpected("Lock")),
        }
    }

    /// Sets a lock, waiting until it is granted. `interrupted` is asked after each signal: `true` ends the wait.
    ///
    /// # Errors
    /// `EINTR` when cancelled or interrupted, `EDEADLK`.
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
        let link = environment.session().link(self.ino().home())?;
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
        let message = lock_request(&lock, true, false);
        let call = self.home_call(Lane::Waiting, &message, Sink::None);
        let interruption = Interruption { request: &wait.request, interrupted, ino: self.ino() };
        match call_interruptible(environment, caller, call, Some(&interruption))?.0 {
            Reply::Done => self.remember(environment, lock),
            _ => Err(self.unexpected("Lock")),
        }
    }

    /// Ends the wait of another thread in [`File::lock`], now or when it begins.
    ///
    /// # Errors
    /// A lost server.
    pub fn cancel_lock(&self, caller: &Caller, wait: &LockWait) -> Result<()> {
        match wait.request.compare_exchange(0, CANCELLED, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) | Err(CANCELLED) => Ok(()),
            Err(waiting) => cancel(self.environment()?, caller, self.ino(), waiting),
        }
    }

    /// The lock that would be in the way: type, range, and the process that holds it (`u32::MAX` where an open
    /// description does, which `F_GETLK` reports as -1).
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

    /// Releases all POSIX locks of `owner`, as closing any descriptor of the file does.
    ///
    /// # Errors
    /// A lost server.
    pub fn release_locks(&self, caller: &Caller, owner: LockOwner) -> Result<()> {
        let environment = self.environment()?;
        Counters::add(&environment.counters().lock_calls, 1);
        if let Some(mut held) = look(&environment.session().link(self.ino().home())?.held) {
            held.release_posix(self.ino(), owner);
        }
        let message = Request::ReleaseLocks { ino: self.ino(), owner };
        self.ask_home(environment, caller, Lane::Small, &message).map(|_| ())
    }

    /// For a lock call that does not wait: after a restart it is answered only when the grace period ends, so it
    /// stays out of the small lane as long as there is room elsewhere.
    fn patient_lane(&self, environment: Environment<'_>) -> Result<Lane> {
        let link = environment.session().link(self.ino().home())?;
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

    fn remember(&self, environment: Environment<'_>, lock: HeldLock) -> Result<()> {
        if let Some(mut held) = look(&environment.session().link(self.ino().home())?.held) {
            held.apply(lock);
        }
        Ok(())
    }
}
