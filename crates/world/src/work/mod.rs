//! The kinds of work that tasks do. Each knows by a model or a history which answers the store may give.

mod administering;
mod appending;
mod caching;
mod counting;
mod crowding;
mod forking;
mod keeping;
mod limiting;
mod linking;
mod moving;
mod names;
mod registering;
mod removing;

use super::members::Members;
use super::task::{Outcome, Task};
use appending::Appending;
pub(super) use caching::follow;
use caching::{Caching, Kernel};
use counting::Counting;
use crowding::Crowding;
use forking::{Fork, Forking};
use keeping::Keeping;
pub(super) use keeping::{Directory, Troubles};
use limiting::Limiting;
use linking::Linking;
use names::Names;
use registering::Registering;
pub(super) use removing::remove_all;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use weir_wire::{At, Errno, Ino, NodeKind, Reply, Request};

const EIO: Errno = Errno(5);
const EEXIST: Errno = Errno(17);

/// Directories that all tasks share.
const SHARED_DIRECTORIES: u64 = 2;
/// Creations that a true hint foresees at most.
const FORESEEN_LIKELY: u64 = 10_000;
/// The kinds of work.
pub(super) const KINDS: usize = 5;

/// The work of a task, until it ends.
pub(super) type Work = Pin<Box<dyn Future<Output = Outcome<()>>>>;

/// Begins the work of a task.
pub(super) fn begin(task: Task, kind: usize) -> Work {
    match kind {
        0 => Box::pin(Names::new(task).work()),
        1 => Box::pin(Registering::new(task).work()),
        2 => Box::pin(Counting::new(task).work()),
        3 => Box::pin(Linking::new(task).work()),
        _ => Box::pin(Appending::new(task).work()),
    }
}

/// Begins the work of a task in a store whose disks lose power and fail.
pub(super) fn keep(task: Task, troubles: &Rc<RefCell<Troubles>>) -> Work {
    Box::pin(Keeping::new(task, troubles).work())
}

/// Takes up the work in a directory that was brought back from a backup.
pub(super) fn take_up(task: Task, troubles: &Rc<RefCell<Troubles>>, directory: Directory) -> Work {
    Box::pin(Keeping::new(task, troubles).take_up(directory))
}

/// Begins the work of an administrator.
pub(super) fn administer(task: Task, members: &Rc<RefCell<Members>>) -> Work {
    Box::pin(administering::administer(task, Rc::clone(members)))
}

/// Begins the work of a user that has limits, in a store of this number of servers.
pub(super) fn limit(task: Task, servers: usize, troubles: &Rc<RefCell<Troubles>>) -> Work {
    Box::pin(Limiting::new(task, servers, troubles).work())
}

/// Begins the work of a program on a mount.
pub(super) fn mount(task: Task, kernel: &Rc<RefCell<Kernel>>) -> Work {
    Box::pin(Caching::new(task, kernel).work())
}

/// Begins the work of a process that forks.
pub(super) fn parent(task: Task, fork: &Rc<RefCell<Fork>>) -> Work {
    Box::pin(Forking::new(task, fork).be_parent())
}

/// Begins the work of its child.
pub(super) fn child(task: Task, fork: &Rc<RefCell<Fork>>) -> Work {
    Box::pin(Forking::new(task, fork).be_child())
}

/// Begins the work in a directory of many entries.
pub(super) fn crowd(task: Task) -> Work {
    Box::pin(Crowding::new(task).work())
}

/// The kind of a new directory: of two one has a hint of its creations, which may be wrong or a lie.
fn directory_kind(task: &Task) -> NodeKind {
    let agenda = &task.agenda;
    if agenda.by_chance(50) {
        return NodeKind::Directory;
    }
    let most = if agenda.by_chance(50) { FORESEEN_LIKELY } else { u64::from(u32::MAX) };
    NodeKind::Tree(agenda.below(most) as u32)
}

/// A directory of a task's own below the root, which is asked for again where another home was away for too long.
async fn own_directory(task: &Task, name: &str) -> Outcome<Ino> {
    let kind = directory_kind(task);
    let make = |at| Request::Make { at, kind, permissions: 0o755 };
    let look = |at| Request::Attributes { at, follow: false };
    loop {
        match task.at(At::new(Ino::ROOT, name), make).await.0 {
            Reply::Attributes(attributes) => return Ok(attributes.ino),
            Reply::Failed(EIO) => {}
            // It was made when EIO left that open.
            Reply::Failed(EEXIST) => match task.at(At::new(Ino::ROOT, name), look).await.0 {
                Reply::Attributes(attributes) => return Ok(attributes.ino),
                other => return Err(format!("stat {name}: {other:?}")),
            },
            other => return Err(format!("mkdir {name}: {other:?}")),
        }
    }
}

/// Any directory that all tasks share, which is made where it is not there.
async fn shared_directory(task: &Task) -> Outcome<String> {
    let name = format!("shared-{}", task.agenda.below(SHARED_DIRECTORIES));
    let kind = directory_kind(task);
    let make = |at| Request::Make { at, kind, permissions: 0o755 };
    loop {
        match task.at(At::new(Ino::ROOT, name.as_str()), make).await.0 {
            Reply::Attributes(_) | Reply::Failed(EEXIST) => return Ok(name),
            // Its other home was away for too long.
            Reply::Failed(EIO) => {}
            other => return Err(format!("mkdir {name}: {other:?}")),
        }
    }
}
