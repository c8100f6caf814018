//! Sizes of open files that the kernel does not learn by itself.
//!
//! The kernel places an append, and ends a copy between files and a mapping, at the size that it knows. It asks before a `stat` and a
//! seek to the end, and never before those three. So the home tells a mount each size to which others brought a file that the mount has open, and
//! the mount tells its kernel, before the others have their answers (`server/pages.rs` of the server). The home does so from the open on; the
//! kernel looked the file up before, so the mount tells it itself where the file has changed in between.

use crate::call::Failure;
use crate::device::Device;
use crate::handles::{Following, OpenFile};
use crate::notices::notice;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_client::wire::{Attributes, Ino};

/// Sizes that wait for the kernel, and descriptions of which the homes are to be told. A size beyond these is learned with the next
/// `stat`, and a home tells sizes in vain of a description beyond these.
const WAITING_MAX: usize = 4096;
/// Pause before the home is told that a description is not followed: a file that was closed by then costs no message. The home also
/// sees it at the first write past the kernel that makes the file longer.
const LEAVE_PAUSE: Duration = Duration::from_millis(100);
/// Threads whose last look-up is known, more than open files at one moment on most hosts. Of any other the kernel is told a size that it
/// may know.
const LOOK_UPS: usize = 1024;
/// Longest wait for the kernel to take a size. It waits itself where it reads the file's last page, perhaps for a worker that waits here.
const TAKE_WAIT: Duration = Duration::from_millis(200);

/// The last look-ups of the kernel, by the thread for which it asked: the kernel has taken an answer before the thread goes on, so it knows
/// the size in that version of the file.
pub(crate) struct LookUps([Mutex<LookUp>; LOOK_UPS]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LookUp {
    thread: u32,
    ino: Ino,
    version: u64,
}

impl Default for LookUps {
    fn default() -> LookUps {
        LookUps(std::array::from_fn(|_| Mutex::default()))
    }
}

impl LookUps {
    /// The kernel is about to be told these attributes for a thread.
    pub(crate) fn note(&self, thread: u32, attributes: &Attributes) {
        let Attributes { ino, version, .. } = *attributes;
        *self.place(thread) = LookUp { thread, ino, version };
    }

    /// Whether the kernel knows the size of the file that it has just opened for a thread. It does not where others changed the file since the
    /// look-up, and where there was no look-up, as by `/proc/self/fd`.
    pub(crate) fn knows(&self, thread: u32, opened: &Attributes) -> bool {
        let Attributes { ino, version, .. } = *opened;
        // All threads of other namespaces of processes have the number 0, and a version of 0 is none.
        thread != 0 && version != 0 && *self.place(thread) == LookUp { thread, ino, version }
    }

    /// A poisoned place is whole: it is overwritten at once.
    fn place(&self, thread: u32) -> MutexGuard<'_, LookUp> {
        self.0[thread as usize % LOOK_UPS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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

    /// The file has `size_bytes`, of which the kernel may not know yet: an append of this mount ended behind those of others, or the file
    /// was opened.
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

#[cfg(test)]
mod tests {
    use super::*;
    use weir_client::wire::{FileKind, Moment};

    fn attributes(ino: u64, version: u64) -> Attributes {
        let moment = Moment { seconds: 0, nanoseconds: 0 };
        Attributes {
            ino: Ino(ino),
            kind: FileKind::Regular,
            permissions: 0o600,
            links: 1,
            uid: 0,
            gid: 0,
            device: 0,
            size_bytes: 10,
            allocated_bytes: 10,
            accessed: moment,
            modified: moment,
            changed: moment,
            created: moment,
            epoch: 0,
            layout_epoch: 0,
            version,
        }
    }

    #[test]
    fn the_kernel_knows_what_the_thread_that_opens_has_just_looked_up() {
        let look_ups = LookUps::default();
        let (thread, file) = (7, attributes(5, 9));
        assert!(!look_ups.knows(thread, &file), "it was never looked up");
        look_ups.note(thread, &file);
        assert!(look_ups.knows(thread, &file));
        assert!(!look_ups.knows(thread, &attributes(5, 10)), "it was changed since");
        assert!(!look_ups.knows(thread, &attributes(6, 9)), "it is another file");
        assert!(!look_ups.knows(8, &file), "the kernel may not have taken the answer for another thread");
        look_ups.note(thread + LOOK_UPS as u32, &file);
        assert!(!look_ups.knows(thread, &file), "the place is another thread's");
    }

    #[test]
    fn nothing_is_known_of_a_thread_without_a_number_and_of_an_answer_without_a_version() {
        let look_ups = LookUps::default();
        for (thread, version) in [(0, 9), (7, 0)] {
            let file = attributes(5, version);
            look_ups.note(thread, &file);
            assert!(!look_ups.knows(thread, &file));
        }
    }
}
