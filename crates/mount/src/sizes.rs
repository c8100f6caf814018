//! Sizes of open files that the kernel does not learn by itself.
//!
//! The kernel places an append, and ends a copy between files and a mapping, at the size that it knows. It asks before a `stat` and a
//! seek to the end, and never before those three. So the home tells a mount each size to which others brought a file that the mount has open, and
//! the mount tells its kernel, before the others have their answers (`server/pages.rs` of the server).

use crate::call::Failure;
use crate::device::Device;
use crate::handles::{Following, OpenFile};
use crate::notices::notice;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_client::wire::Ino;

/// Sizes that wait for the kernel, and descriptions of which the homes are to be told. A size beyond these is learned with the next
/// `stat`, and a home tells sizes in vain of a description beyond these.
const WAITING_MAX: usize = 4096;
/// Pause before the home is told that a description is not followed: a file that was closed by then costs no message. The home also
/// sees it at the first write past the kernel that makes the file longer.
const LEAVE_PAUSE: Duration = Duration::from_millis(100);
/// Longest wait for the kernel to take a size. It waits itself where it reads the file's last page, perhaps for a worker that waits here.
const TAKE_WAIT: Duration = Duration::from_millis(200);

/// The threads that tell sizes to the kernel, and homes which sizes it needs no more.
pub(crate) struct Sizes {
    grown: Option<SyncSender<Grown>>,
    unfollowed: Option<SyncSender<(Instant, Arc<OpenFile>)>>,
}

struct Grown {
    ino: Ino,
    size_bytes: u64,
    /// Dropped when the kernel knows.
    _done: SyncSender<()>,
}

impl Sizes {
    pub(crate) fn new(device: Arc<Device>) -> Sizes {
        let grown = for_each("sizes", move |grown: Grown| device.grow(grown.ino.0, grown.size_bytes));
        let unfollowed = for_each("unfollow", |(since, open): (Instant, Arc<OpenFile>)| {
            std::thread::sleep((since + LEAVE_PAUSE).saturating_duration_since(Instant::now()));
            leave(&open);
        });
        Sizes { grown, unfollowed }
    }

    /// An append through this mount ended at `size_bytes`, behind those of others that the kernel does not know yet.
    pub(crate) fn grew(&self, ino: Ino, size_bytes: u64) {
        let (done, is_done) = sync_channel(0);
        let sent = self.grown.as_ref().map(|grown| grown.try_send(Grown { ino, size_bytes, _done: done }));
        if let Some(Ok(())) = sent {
            let ended: Result<(), RecvTimeoutError> = is_done.recv_timeout(TAKE_WAIT);
            debug_assert!(ended.is_err(), "nothing is sent");
        }
    }

    /// A process is about to use the description past the kernel, and asks for sizes by itself.
    pub(crate) fn unfollow(&self, open: &Arc<OpenFile>) {
        // Where another thread tells the home, it is no longer the kernel's.
        let Ok(mut following) = open.following.try_lock() else { return };
        if *following != Following::Kernel {
            return;
        }
        let sent = self
            .unfollowed
            .as_ref()
            .map(|unfollowed| unfollowed.try_send((Instant::now(), Arc::clone(open))));
        if let Some(Ok(())) = sent {
            *following = Following::Leaving;
        }
    }
}

/// Pages of the description's file are mapped, which the kernel ends at its own size.
///
/// # Errors
/// That of a lost server; the pages must not be handed out then.
pub(crate) fn follow_mapped(open: &OpenFile) -> Result<(), Failure> {
    let mut following = lock(open);
    if *following != Following::Mapped {
        open.file.follow(&open.opener, true)?;
        *following = Following::Mapped;
    }
    Ok(())
}

fn leave(open: &Arc<OpenFile>) {
    // Only this thread has what is closed.
    let is_closed = Arc::strong_count(open) == 1;
    let mut following = lock(open);
    if *following == Following::Leaving && !is_closed {
        // A home that was not reached tells sizes in vain, until the description ends.
        let _ = open.file.follow(&open.opener, false);
        *following = Following::Nobody;
    }
}

/// A poisoned state is whole: it is one word.
fn lock(open: &OpenFile) -> MutexGuard<'_, Following> {
    open.following.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread that carries out `task` for whatever is sent; none on a system without threads.
fn for_each<T: Send + 'static>(name: &str, task: impl Fn(T) + Send + 'static) -> Option<SyncSender<T>> {
    let (sender, receiver): (_, Receiver<T>) = sync_channel(WAITING_MAX);
    let body = move || receiver.into_iter().for_each(task);
    let started = std::thread::Builder::new().name(name.into()).spawn(body);
    if let Err(error) = &started {
        notice!("no thread for {name}: {error}");
    }
    started.is_ok().then_some(sender)
}
