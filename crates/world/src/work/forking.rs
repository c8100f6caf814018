//! A process that forks: the child has the parent's descriptions, their position and their locks, and what one of both does or leaves the
//! other one has.
//!
//! The parent and its child are clients of their own, as the product's library has it: the child claims the description that it has from its
//! parent, before the fork returns where the description has a lock. Their memory has the position.

use super::super::client::Shared;
use super::super::task::{Failure, Open, Outcome, Task};
use super::EIO;
use std::cell::RefCell;
use std::rc::Rc;
use weir_fairshare::Nanos;
use weir_session::HeldLock;
use weir_wire::{At, Errno, Ino, LockKind, LockType, Reply, Request};

const ROUNDS: u64 = 5;
const WRITES: u64 = 6;
const WRITE_MAX: u64 = 3_000;
const TICK: Nanos = Nanos::from_millis(5);
const EAGAIN: Errno = Errno(11);
const ESTALE: Errno = Errno(116);

/// The step of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    #[default]
    Apart,
    /// The parent has forked, and waits for the child.
    Forked,
    /// Both write.
    Both,
    /// The parent has ended its part.
    ChildAlone,
    /// The child has ended its part.
    Over,
    /// There is no further round.
    Ended,
}

/// The memory that a parent and its child share.
#[derive(Default)]
pub(crate) struct Fork {
    step: Step,
    file: Option<Open>,
    position: u64,
    content: Vec<u8>,
    /// One of both is in a call that moves the position.
    is_moving: bool,
    /// A server had cause to take the description or its lock away.
    is_lost: bool,
}

/// The parent or the child.
pub(crate) struct Forking {
    task: Task,
    fork: Rc<RefCell<Fork>>,
}

impl Forking {
    pub(crate) fn new(task: Task, fork: &Rc<RefCell<Fork>>) -> Forking {
        Forking { task, fork: Rc::clone(fork) }
    }

    fn step(&self) -> Step {
        self.fork.borrow().step
    }

    fn go_to(&self, step: Step) {
        self.fork.borrow_mut().step = step;
    }

    async fn wait_for(&self, step: Step) -> Step {
        while self.step() < step {
            self.task.wait_until(self.task.now() + TICK).await;
        }
        self.step()
    }

    /// The memory that a home has of this client, and the starts of the home.
    fn moment(&self, home: usize) -> (u64, u64) {
        let client: &Shared = &self.task.client;
        let memory = client.borrow_mut().memory(home);
        (memory, self.task.histories.borrow().holders.starts_of(home))
    }

    /// Notes that the home had cause to forget something, if it had.
    fn look(&self, home: usize, since: (u64, u64)) {
        self.fork.borrow_mut().is_lost |= self.moment(home) != since;
    }

    /// # Errors
    /// An answer that the store should not have given.
    pub(crate) async fn be_parent(self) -> Outcome<()> {
        for round in 0..ROUNDS {
            let name = format!("forked-{}-{round}", self.task.number);
            let at = || At::new(Ino::ROOT, name.as_str());
            let file = self.task.open_or_make(at()).await?;
            let home = file.home();
            let lock = self.task.lock_of(&file, LockKind::Flock, LockType::Write, u64::MAX);
            self.lock(&lock, true).await?.map_err(|errno| format!("{name} is new, and locked: {errno:?}"))?;
            let since = self.moment(home);
            *self.fork.borrow_mut() = Fork { file: Some(file.clone()), ..Fork::default() };
            self.go_to(Step::Forked);
            self.wait_for(Step::Both).await;
            for _ in 0..WRITES {
                self.write().await?;
            }
            self.look(home, since);
            self.task.close(file.ino, file.handle).await;
            let other = self.task.open_or_make(at()).await?;
            self.check_locked(&other, since).await?;
            self.go_to(Step::ChildAlone);
            self.wait_for(Step::Over).await;
            let lock = self.task.lock_of(&other, LockKind::Flock, LockType::Write, u64::MAX);
            let locked = self.lock(&lock, true).await?;
            locked.map_err(|errno| format!("{name} was closed by all, and is locked: {errno:?}"))?;
            self.task.close(other.ino, other.handle).await;
            self.remove(at()).await?;
        }
        self.go_to(Step::Ended);
        Ok(())
    }

    async fn remove(&self, at: At) -> Outcome<()> {
        let what = format!("{at:?}");
        loop {
            match self.task.at(at.clone(), |at| Request::Unlink { at, directory: false }).await.0 {
                Reply::Failed(EIO) => {}
                Reply::Failed(errno) => return Err(format!("remove {what}: {errno:?}")),
                _ => return Ok(()),
            }
        }
    }

    /// Takes a lock; the refusal where that is not waited for.
    async fn lock(&self, lock: &HeldLock, waits: bool) -> Outcome<Result<(), Errno>> {
        let (reply, _) = self.task.answer(self.task.begin_lock(lock, waits)).await;
        match self.task.end_lock(lock, reply) {
            Ok(()) => Ok(Ok(())),
            Err(Failure::Refused(errno)) => Ok(Err(errno)),
            Err(failure) => Err(failure.into()),
        }
    }

    /// The lock of the description is there as long as the child has the description, although the parent has closed it.
    async fn check_locked(&self, other: &Open, since: (u64, u64)) -> Outcome<()> {
        let lock = self.task.lock_of(other, LockKind::Flock, LockType::Write, u64::MAX);
        let locked = self.lock(&lock, false).await?;
        self.look(other.home(), since);
        match locked {
            Err(EAGAIN) => Ok(()),
            Ok(()) => {
                let unlock = HeldLock { lock: LockType::Unlock, ..lock };
                let _ = self.lock(&unlock, false).await?;
                match self.fork.borrow().is_lost {
                    true => Ok(()),
                    false => {
                        Err("the lock of a description went with its parent, and the child has it".into())
                    }
                }
            }
            Err(errno) => Err(format!("a lock beside that of a child: {errno:?}")),
        }
    }

    /// # Errors
    /// An answer that the store should not have given.
    pub(crate) async fn be_child(self) -> Outcome<()> {
        while self.wait_for(Step::Forked).await != Step::Ended {
            if self.step() != Step::Forked {
                self.task.wait_until(self.task.now() + TICK).await;
                continue;
            }
            let file = self.fork.borrow().file.clone().ok_or("a fork without a file")?;
            let home = file.home();
            let claim = Request::Reclaim { handles: vec![file.capability] };
            match self.task.call(home, claim, &[]).await.0 {
                Reply::Held { fence } => self.task.client.borrow_mut().standing(home).note_fence(fence),
                Reply::Failed(ESTALE) => self.fork.borrow_mut().is_lost = true,
                other => return Err(format!("the claim of a child: {other:?}")),
            }
            self.task.client.borrow_mut().opened(file.handle, file.capability);
            let since = self.moment(home);
            self.go_to(Step::Both);
            for _ in 0..WRITES {
                self.write().await?;
            }
            self.look(home, since);
            self.wait_for(Step::ChildAlone).await;
            self.write().await?;
            self.look(home, since);
            self.check().await?;
            self.task.close(file.ino, file.handle).await;
            self.go_to(Step::Over);
        }
        Ok(())
    }

    /// Writes at the position that both share, and moves it.
    async fn write(&self) -> Outcome<()> {
        while self.fork.borrow().is_moving {
            self.task.wait_until(self.task.now() + TICK).await;
        }
        let length = 1 + self.task.agenda.below(WRITE_MAX);
        let byte = 1 + self.task.agenda.below(255) as u8;
        let (mut file, position) = {
            let mut fork = self.fork.borrow_mut();
            fork.is_moving = true;
            (fork.file.clone().ok_or("a fork without a file")?, fork.position)
        };
        let since = self.moment(file.home());
        let written = self.task.write_bytes(&mut file, position, &vec![byte; length as usize]).await;
        self.look(file.home(), since);
        let mut fork = self.fork.borrow_mut();
        fork.is_moving = false;
        match written {
            Ok(()) => {
                fork.position += length;
                let end = fork.position as usize;
                fork.content.resize(end, byte);
                Ok(())
            }
            // The program is told, and what it wrote then is its own affair.
            Err(failure) if failure.is_lost_lock() || fork.is_lost => {
                fork.is_lost = true;
                Ok(())
            }
            Err(failure) => Err(format!("a write of a process that forked: {}", String::from(failure))),
        }
    }

    /// Reads what both wrote.
    async fn check(&self) -> Outcome<()> {
        let (mut file, content) = {
            let fork = self.fork.borrow();
            (fork.file.clone().ok_or("a fork without a file")?, fork.content.clone())
        };
        if self.fork.borrow().is_lost {
            return Ok(());
        }
        match self.task.read_bytes(&mut file, content.len() as u64).await {
            Ok(found) if found == content => Ok(()),
            Ok(_) => Err(format!("{:?} has other bytes than a parent and its child wrote", file.ino)),
            Err(_) if self.fork.borrow().is_lost => Ok(()),
            Err(failure) => Err(format!("a read of a child: {}", String::from(failure))),
        }
    }
}
