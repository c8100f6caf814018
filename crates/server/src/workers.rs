//! The pool of threads on which blocking work runs: `dir` targets and journal synchronisation.

use std::collections::VecDeque;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use weir_core::clock::Time;
use weir_core::errands::Workers;
use weir_core::error::ServerError;
use weir_core::events::{Event, Events, Worked};
use weir_core::work::Work;

/// Threads of the pool: as many service slots as a `dir` target has, so one slow call never holds the others.
pub(crate) const WORKERS: usize = 8;
/// Work that may wait: as much as all slots, synchronisations and removals of a burst; beyond it the loop keeps its own list.
const QUEUE_MAX: usize = 1024;

/// Threads that carry out blocking work.
pub(crate) struct WorkerPool {
    queue: SyncSender<(u64, Work)>,
    /// Work that did not fit. Its length is bounded by the requests that may be outstanding.
    overflow: VecDeque<(u64, Work)>,
}

impl WorkerPool {
    /// Starts the threads. The end of each piece of work comes back through `events`, with the time that it took.
    ///
    /// # Errors
    /// [`ServerError::Loop`] when the system refuses a thread.
    pub(crate) fn start(events: &Events, time: &Arc<dyn Time>) -> Result<WorkerPool, ServerError> {
        let (queue, receiver) = sync_channel(QUEUE_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..WORKERS {
            let (receiver, events, time) = (Arc::clone(&receiver), events.clone(), Arc::clone(time));
            std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || work(&receiver, &events, &*time))
                .map_err(|source| ServerError::Loop { what: "start a worker thread", source })?;
        }
        Ok(WorkerPool { queue, overflow: VecDeque::new() })
    }
}

impl Workers for WorkerPool {
    fn submit(&mut self, number: u64, work: Work) {
        self.overflow.push_back((number, work));
        self.go_on();
    }

    fn go_on(&mut self) {
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

fn work(receiver: &Mutex<Receiver<(u64, Work)>>, events: &Events, time: &dyn Time) {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, work)) = next else { return };
        let started = time.elapsed();
        let output = work.carry_out();
        let service = time.elapsed().saturating_since(started);
        events.send(Event::Worked(Worked { number, output, service }));
    }
}
