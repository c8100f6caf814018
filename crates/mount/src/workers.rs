//! The threads that serve the kernel's requests.
//!
//! A request may take long: a policy holds it back, a lock is waited for. So there is always one more thread that reads,
//! up to a bound, and a thread that waits for a lock counts against a bound of its own.

use crate::call::{Call, Failure, Reply};
use crate::device::{Device, Received, REQUEST_BYTES_MAX};
use crate::filesystem::Filesystem;
use crate::notices::notice;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most requests served at once. It bounds memory at two buffers of 1 MiB each, touched only by bulk transfers; further
/// requests wait in the kernel.
const WORKERS_MAX: usize = 256;
/// Most lock calls that wait at once; a further one fails with ENOLCK, as where a system is out of locks.
const LOCK_WAITS_MAX: usize = 1024;
/// Threads that stay to read: enough that a burst does not start threads each time.
const IDLE_MAX: usize = 4;
/// Room for the call depth of an operation, far from any recursion.
const STACK_BYTES: usize = 512 * 1024;
/// Pause after an error of the device, so that a lasting one does not take a processor.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
/// Errors of the device in a row after which it counts as broken.
const ERRORS_MAX: u32 = 20;

/// The source of a lock call's leave to wait.
pub(crate) trait WaitBudget {
    /// Takes a place, given back when it is dropped; `None` when all are taken.
    fn enter(&self) -> Option<WaitPlace<'_>>;
}

/// A place in the budget of waits.
pub(crate) struct WaitPlace<'a> {
    workers: &'a Workers,
}

/// The threads of a mount.
#[derive(Clone)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    filesystem: Filesystem,
    device: Arc<Device>,
    counts: Mutex<Counts>,
    ended: Condvar,
}

#[derive(Default)]
struct Counts {
    /// Threads that read or serve; those that wait for a lock are not among them.
    serving: usize,
    /// Threads that read, a part of the running ones.
    idle: usize,
    /// Threads that wait for a lock.
    waiting: usize,
    /// The store is no longer mounted.
    ended: bool,
}

impl Workers {
    /// Starts serving.
    pub(crate) fn start(filesystem: Filesystem, device: Arc<Device>) -> Workers {
        let counts = Mutex::default();
        let workers =
            Workers { shared: Arc::new(Shared { filesystem, device, counts, ended: Condvar::new() }) };
        workers.spawn(&mut workers.counts());
        workers
    }

    /// Waits until the store is no longer mounted, at most for `bound`; answers whether it is so.
    pub(crate) fn wait_for_end(&self, bound: Duration) -> bool {
        let mounted = |counts: &mut Counts| !counts.ended;
        let waited = self.shared.ended.wait_timeout_while(self.counts(), bound, mounted);
        waited.unwrap_or_else(PoisonError::into_inner).0.ended
    }

    fn spawn(&self, counts: &mut Counts) {
        counts.serving += 1;
        let workers = self.clone();
        let device = self.shared.device.another();
        let started = std::thread::Builder::new()
            .name("serve".into())
            .stack_size(STACK_BYTES)
            .spawn(move || workers.run(&device));
        if let Err(error) = started {
            counts.serving -= 1;
            notice!("no further thread, requests may wait for each other: {error}");
        }
    }

    fn run(&self, device: &Device) {
        let mut request = vec![0; REQUEST_BYTES_MAX];
        let mut scratch = Vec::new();
        let mut errors = 0;
        while self.begin_reading() {
            let received = device.receive(&mut request);
            self.end_reading();
            match received {
                Ok(Received::Request(length)) => {
                    errors = 0;
                    self.serve(device, &request[..length], &mut scratch);
                }
                Ok(Received::Again) => {}
                Ok(Received::Unmounted) => self.end(),
                Err(error) => {
                    errors += 1;
                    notice!("cannot read from /dev/fuse: {error}");
                    if errors >= ERRORS_MAX {
                        self.end();
                    }
                    std::thread::sleep(ERROR_PAUSE);
                }
            }
        }
    }

    /// `false` when this thread is not needed any more; it is then no longer counted.
    fn begin_reading(&self) -> bool {
        let mut counts = self.counts();
        if counts.ended || counts.idle >= IDLE_MAX {
            counts.serving -= 1;
            return false;
        }
        counts.idle += 1;
        true
    }

    fn end_reading(&self) {
        let mut counts = self.counts();
        counts.idle -= 1;
        self.keep_one_reading(&mut counts);
    }

    fn keep_one_reading(&self, counts: &mut Counts) {
        if counts.idle == 0 && counts.serving < WORKERS_MAX && !counts.ended {
            self.spawn(counts);
        }
    }

    fn end(&self) {
        self.counts().ended = true;
        self.shared.ended.notify_all();
    }

    fn serve(&self, device: &Device, bytes: &[u8], scratch: &mut Vec<u8>) {
        let Some(mut call) = Call::parse(bytes, scratch) else {
            notice!("a request of {} bytes is none", bytes.len());
            return;
        };
        let filesystem = &self.shared.filesystem;
        let unique = call.header.unique;
        filesystem.flights.begin(unique);
        let answer = catch_unwind(AssertUnwindSafe(|| filesystem.serve(&mut call, self)))
            .unwrap_or(Err(Failure(libc::EIO)));
        filesystem.flights.end(unique);
        match answer {
            Ok(Reply::Silent) => {}
            Ok(Reply::Done) => device.answer(unique, &[]),
            Ok(Reply::Bytes(bytes)) => device.answer(unique, &[&bytes]),
            Ok(Reply::Scratch(length)) => device.answer(unique, &[&scratch[..length]]),
            Err(Failure(errno)) => device.fail(unique, errno),
        }
    }

    /// A poisoned count is whole: its changes cannot panic half-way.
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitBudget for Workers {
    fn enter(&self) -> Option<WaitPlace<'_>> {
        let mut counts = self.counts();
        if counts.waiting >= LOCK_WAITS_MAX {
            return None;
        }
        counts.waiting += 1;
        counts.serving -= 1;
        self.keep_one_reading(&mut counts);
        Some(WaitPlace { workers: self })
    }
}

impl Drop for WaitPlace<'_> {
    fn drop(&mut self) {
        let mut counts = self.workers.counts();
        counts.waiting -= 1;
        counts.serving += 1;
    }
}
