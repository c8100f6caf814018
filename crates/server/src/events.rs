//! What reaches the event loop from other threads.

use crate::control::Question;
use crate::peers::Answer;
use mio::Waker;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;

/// Events that may wait; a thread that produces more waits for the loop.
const WAITING_MAX: usize = 8192;

/// One event.
pub(crate) enum Event {
    /// Blocking work ended.
    Worked(Worked),
    /// A peer answered, or will not.
    Peer {
        /// Which question this answers.
        question: u64,
        /// The answer.
        answer: Answer,
    },
    /// The control API asks.
    Control(Question),
    /// Stop after what is in hand.
    Stop,
}

/// The end of a piece of blocking work.
pub(crate) struct Worked {
    /// The work's number, given when it was submitted.
    pub(crate) number: u64,
    /// What came of it.
    pub(crate) outcome: Result<WorkOutput, crate::storage::TargetFailure>,
    /// How long it took.
    pub(crate) service: std::time::Duration,
}

/// What blocking work produces.
pub(crate) enum WorkOutput {
    /// Nothing to say.
    Done,
    /// Bytes that were read.
    Bytes(Vec<u8>),
    /// A position that was sought.
    Position(Option<u64>),
    /// No room for these bytes.
    NoRoom(Vec<u8>),
    /// What became of a cut that had to be undoable.
    Cut(crate::storage::Cut),
}

/// The sending side; clones go to every thread.
#[derive(Clone)]
pub(crate) struct Events {
    sender: SyncSender<Event>,
    waker: Arc<Waker>,
}

impl Events {
    /// A channel whose events wake the loop.
    pub(crate) fn new(waker: Waker) -> (Events, Receiver<Event>) {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        (Events { sender, waker: Arc::new(waker) }, receiver)
    }

    /// Sends an event; the loop that is gone needs none.
    pub(crate) fn send(&self, event: Event) {
        let _ = self.sender.send(event);
        let _ = self.waker.wake();
    }

    /// Asks for the control API.
    pub(crate) fn ask(&self, question: Question) {
        self.send(Event::Control(question));
    }
}
