//! The pool on which blocking work runs: `dir` targets and journal synchronisation.

use crate::error::ServerError;
use crate::storage::Cut;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use weir_wire::Ino;

/// Threads of the pool: as many service slots as a `dir` target has, so one slow call never holds the others.
pub(crate) const WORKERS: usize = 8;
/// Work that may wait: as much as all slots, synchronisations and removals of a burst; beyond it the loop keeps its own list.
const QUEUE_MAX: usize = 1024;

/// The output of blocking work.
pub(crate) enum WorkOutput {
    /// Nothing to say.
    Done,
    /// Bytes that were read.
    Bytes(Vec<u8>),
    /// A position that was sought.
    Position(Option<u64>),
    /// Objects with their lengths.
    Objects(Vec<(Ino, u64)>),
    /// No room for these bytes.
    NoRoom(Vec<u8>),
    /// The part of a cut that the next start can undo.
    Cut(Cut),
}

/// A piece of blocking work; it reports through its captures.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// Threads that run blocking work.
pub(crate) struct Workers {
    queue: SyncSender<Work>,
    overflow: std::collections::VecDeque<Work>,
}

impl Workers {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`ServerError::Loop`] when the system refuses a thread.
    pub(crate) fn start() -> Result<Workers, ServerError> {
        let (queue, receiver) = sync_channel(QUEUE_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..WORKERS {
            let receiver = Arc::clone(&receiver);
            std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || work(&receiver))
                .map_err(|source| ServerError::Loop { what: "start a worker thread", source })?;
        }
        Ok(Workers { queue, overflow: std::collections::VecDeque::new() })
    }

    /// Hands work over; never blocks. Its length is bounded by the requests that may be outstanding.
    pub(crate) fn submit(&mut self, work: Work) {
        self.overflow.push_back(work);
        self.drain();
    }

    /// Hands over work that did not fit before.
    pub(crate) fn drain(&mut self) {
        while let Some(work) = self.overflow.pop_front() {
            match self.queue.try_send(work) {
                Ok(()) => {}
                Err(TrySendError::Full(work) | TrySendError::Disconnected(work)) => {
                    self.overflow.push_front(work);
                    return;
                }
            }
        }
    }
}

fn work(receiver: &Mutex<Receiver<Work>>) {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(work) => work(),
            Err(_) => return,
        }
    }
}
