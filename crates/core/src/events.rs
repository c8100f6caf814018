//! Events that reach a server from outside of its steps.

use crate::control::question::Question;
use crate::peers::line::Answer;
use crate::work::WorkOutput;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::task::Waker;
use weir_fairshare::Nanos;

/// Events that may wait; a thread that produces more waits for the loop.
const WAITING_MAX: usize = 8192;

/// One event.
pub enum Event {
    /// Blocking work ended.
    Worked(Worked),
    /// A peer answered, or will not.
    Peer {
        /// The number of the question that this answers.
        question: u64,
        /// The answer.
        answer: Answer,
    },
    /// The control API asks.
    Control(Question),
    /// The server is to stop.
    Stop,
}

/// The end of a piece of blocking work.
pub struct Worked {
    /// The work's number, given when it was submitted.
    pub number: u64,
    /// The output.
    pub output: WorkOutput,
    /// The time that it took.
    pub service: Nanos,
}

/// The sending side; clones go to every thread.
#[derive(Clone)]
pub struct Events {
    sender: SyncSender<Event>,
    waker: Waker,
}

impl Events {
    /// A channel into the loop, which each event wakes.
    pub fn new(waker: Waker) -> (Events, Receiver<Event>) {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        (Events { sender, waker }, receiver)
    }

    /// Sends an event; the loop that is gone needs none.
    pub fn send(&self, event: Event) {
        let _ = self.sender.send(event);
        self.waker.wake_by_ref();
    }

    /// Asks for the control API.
    pub fn ask(&self, question: Question) {
        self.send(Event::Control(question));
    }
}
