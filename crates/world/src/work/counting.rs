//! Counters that many raise under locks of all kinds, and that readers under shared locks see at rest.

use super::super::task::{Failure, Open, Outcome, Task};
use super::shared_directory;
use weir_fairshare::Nanos;
use weir_session::HeldLock;
use weir_wire::{At, Errno, Ino, LockKind, LockType};

const OPERATIONS: u64 = 20;
const EINTR: Errno = Errno(4);
const EAGAIN: Errno = Errno(11);
/// The longest wait for a lock that its task gives up.
const IMPATIENCE: Nanos = Nanos::from_millis(100);
/// The stripes of a file, as the worlds have them, of which one has the counter: as many as a store has targets.
const STRIPE_BYTES: u64 = 4 << 10;
const STRIPES: u64 = 4;
/// Bytes of a counter.
const BYTES: u64 = 8;

/// The place of a new counter in a file: where another server than the home has the bytes, if there is one. So the server that gives the lock is
/// not the one that is written to.
fn new_place(file: &Open) -> u64 {
    let is_elsewhere = |stripe: &u64| {
        let piece = file.layout.pieces(stripe * STRIPE_BYTES, BYTES).next();
        piece.is_some_and(|piece| file.layout.targets()[piece.object].server != file.ino.home())
    };
    (0..STRIPES).find(is_elsewhere).unwrap_or(0) * STRIPE_BYTES
}

/// A task that raises counters.
pub(crate) struct Counting {
    task: Task,
}

impl Counting {
    pub(crate) fn new(task: Task) -> Counting {
        Counting { task }
    }

    /// # Errors
    /// An answer that the store should not have given.
    pub(crate) async fn work(self) -> Outcome<()> {
        for _ in 0..OPERATIONS {
            // Locks of flock(2) and of fcntl(2) do not know of each other, so each has counters of its own.
            let (name, kind) = match self.task.agenda.below(3) {
                0 => ("flock", LockKind::Flock),
                1 => ("fcntl", LockKind::Posix),
                _ => ("fcntl", LockKind::Description),
            };
            let directory = shared_directory(&self.task).await?;
            let mut file = self.task.open_or_make(At::new(Ino::ROOT, format!("{directory}/{name}"))).await?;
            let is_raise = self.task.agenda.by_chance(75);
            let lock = if is_raise { LockType::Write } else { LockType::Read };
            let last = self.place(&file) + BYTES - 1 + self.task.agenda.below(BYTES);
            let lock = self.task.lock_of(&file, kind, lock, last);
            if self.acquire(&lock).await? {
                let outcome = self.under_lock(&mut file, is_raise).await;
                self.task.histories.borrow_mut().holders.released(self.task.number);
                match outcome {
                    Err(failure) if !failure.is_lost_lock() => return Err(failure.into()),
                    _ => {}
                }
                match kind {
                    // The close of a description gives its locks back, and that of any descriptor the process's.
                    LockKind::Description | LockKind::Flock if self.task.agenda.by_chance(30) => {}
                    LockKind::Posix if self.task.agenda.by_chance(30) => self.task.release_all(&lock).await?,
                    _ => self.release(&lock).await?,
                }
            }
            self.task.close(file.ino, file.handle).await;
        }
        Ok(())
    }

    fn place(&self, file: &Open) -> u64 {
        let mut histories = self.task.histories.borrow_mut();
        histories.counters.entry(file.ino).or_default().place(new_place(file))
    }

    /// Takes a lock; false where it was not waited for, or not for long enough.
    async fn acquire(&self, lock: &HeldLock) -> Outcome<bool> {
        let waits = self.task.agenda.by_chance(80);
        let is_patient = self.task.agenda.by_chance(75);
        let ticket = self.task.begin_lock(lock, waits);
        let answered = match is_patient {
            true => Some(self.task.answer(ticket).await),
            false => self.task.answer_until(ticket, self.task.agenda.within(IMPATIENCE)).await,
        };
        let (reply, _) = match answered {
            Some(answered) => answered,
            None => {
                self.task.cancel(lock, ticket).await?;
                self.task.answer(ticket).await
            }
        };
        match self.task.end_lock(lock, reply) {
            Ok(()) => {
                let mut histories = self.task.histories.borrow_mut();
                histories.holders.granted(self.task.number, &self.task.client, *lock)?;
                Ok(true)
            }
            Err(Failure::Refused(EAGAIN)) if !waits => Ok(false),
            Err(Failure::Refused(EINTR)) if !is_patient => Ok(false),
            Err(failure) => Err(format!("{lock:?}: {}", String::from(failure))),
        }
    }

    async fn release(&self, lock: &HeldLock) -> Outcome<()> {
        let unlock = HeldLock { lock: LockType::Unlock, ..*lock };
        let (reply, _) = self.task.answer(self.task.begin_lock(&unlock, false)).await;
        Ok(self.task.end_lock(&unlock, reply)?)
    }

    async fn under_lock(&self, file: &mut Open, is_raise: bool) -> Result<(), Failure> {
        let value = self.read(file).await?;
        if !is_raise {
            let again = self.read(file).await?;
            return match again == value {
                true => Ok(()),
                false => Err(Failure::Fault(format!("{value} became {again} under a shared lock"))),
            };
        }
        self.task.stand_still(file.home()).await;
        let ino = file.ino;
        let floor = {
            let mut histories = self.task.histories.borrow_mut();
            let counter = histories.counters.entry(ino).or_default();
            counter.attempt();
            counter.floor()
        };
        let place = self.place(file);
        self.task.write_bytes(file, place, &(value + 1).to_le_bytes()).await?;
        let mut histories = self.task.histories.borrow_mut();
        Ok(histories.counters.entry(ino).or_default().wrote(value + 1, floor)?)
    }

    async fn read(&self, file: &mut Open) -> Result<u64, Failure> {
        let ino = file.ino;
        let floor = self.task.histories.borrow_mut().counters.entry(ino).or_default().floor();
        let place = self.place(file);
        let bytes = self.task.read_at(file, place, BYTES).await?;
        let value = bytes.try_into().map_err(|_| "a short read of a counter".to_owned())?;
        let value = u64::from_le_bytes(value);
        self.task.histories.borrow_mut().counters.entry(ino).or_default().read(value, floor)?;
        Ok(value)
    }
}
