//! The draft of a decision.

use super::change::{Change, Outcome, OutcomeKind};
use super::decision::{Answer, Caller, Decision};
use super::errno::EIO;
use super::files::Opening;
use super::intents::{IntentId, Intents};
use super::quotas::KeptMemory;
use weir_wire::{Errno, HandleId, Identity, Ino, Moment, Reply};

/// Collects the changes of a decision.
pub(crate) struct Draft<'a> {
    pub(super) caller: &'a Caller<'a>,
    pub(super) now: Moment,
    /// Memory that the server keeps as the draft begins.
    pub(super) kept: KeptMemory,
    pub(super) changes: Vec<Change>,
    pub(super) wait: Vec<IntentId>,
    next_intent: IntentId,
    /// Whether no intent may begin.
    is_full: bool,
    opened: Option<Opening>,
    closed: Option<HandleId>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(intents: &Intents, kept: KeptMemory, caller: &'a Caller<'a>, now: Moment) -> Draft<'a> {
        Draft {
            caller,
            now,
            kept,
            changes: Vec::new(),
            wait: Vec::new(),
            next_intent: intents.next(),
            is_full: intents.is_full(),
            opened: None,
            closed: None,
        }
    }

    pub(super) fn who(&self) -> &'a Identity {
        self.caller.who
    }

    pub(super) fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// The number that the next intent of this draft gets.
    pub(super) fn next_intent(&self) -> IntentId {
        self.next_intent
    }

    /// A number for a new intent.
    pub(super) fn intent(&mut self) -> Result<IntentId, Errno> {
        if self.is_full {
            return Err(EIO);
        }
        let id = self.next_intent;
        self.next_intent.0 += 1;
        Ok(id)
    }

    /// Disposes of an inode that lost its last name and that nobody has open; its objects go with it.
    pub(super) fn dispose(&mut self, ino: Ino, touched: bool) -> Result<(), Errno> {
        let removal = if touched { Some(self.intent()?) } else { None };
        self.push(Change::Disposed { ino, removal });
        Ok(())
    }

    /// The caller will hold a new description.
    pub(super) fn open(&mut self, opening: Opening) {
        self.opened = Some(opening);
    }

    pub(super) fn close(&mut self, handle: HandleId) {
        self.closed = Some(handle);
    }

    /// Ends the draft of a mutation: its outcome is remembered for a resend.
    pub(super) fn done(mut self, kind: OutcomeKind) -> Decision {
        let Caller { client, request, acknowledged, .. } = *self.caller;
        if !self.changes.is_empty() {
            let outcome = Outcome { kind: kind.clone(), wait: self.wait.clone() };
            self.push(Change::Remembered { client, request, acknowledged, outcome });
        }
        self.answered(Answer::Then(kind))
    }

    /// Ends the draft of a mutation that a resend finds done: its outcome need not be remembered.
    pub(super) fn done_once(self, kind: OutcomeKind) -> Decision {
        self.answered(Answer::Then(kind))
    }

    /// Ends the draft with a reply that a resend may find changed.
    pub(super) fn reply(self, reply: Reply) -> Decision {
        self.answered(Answer::Now(reply, Vec::new()))
    }

    pub(super) fn reply_with(self, reply: Reply, payload: Vec<u8>) -> Decision {
        self.answered(Answer::Now(reply, payload))
    }

    fn answered(self, answer: Answer) -> Decision {
        let client = self.caller.client;
        Decision {
            changes: self.changes,
            wait: self.wait,
            answer,
            client,
            opened: self.opened,
            closed: self.closed,
            recent: None,
        }
    }
}
