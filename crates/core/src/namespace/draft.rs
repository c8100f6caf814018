//! The draft of a decision.

use super::change::{Change, Outcome, OutcomeKind};
use super::core::Namespace;
use super::decision::{Answer, Caller, Decision, Step};
use super::errno::{EIO, ENFILE};
use super::files::open::Opening;
use super::intents::intent::IntentId;
use super::replies::Replies;
use weir_wire::{Errno, HandleId, Identity, Ino, Moment, Reply, Rights};

/// The most pending intents, which a lost server lets pile up. An operation that needs one more is answered EIO, as are all
/// other operations that need the lost server.
const INTENTS_PENDING: usize = 1 << 20;

/// Collects the changes of a decision.
pub(crate) struct Draft<'a> {
    pub(crate) caller: &'a Caller<'a>,
    pub(crate) now: Moment,
    space: &'a Namespace,
    pub(crate) changes: Vec<Change>,
    pub(crate) wait: Vec<IntentId>,
    next_intent: u64,
    opened: Option<Opening>,
    closed: Option<HandleId>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(space: &'a Namespace, caller: &'a Caller<'a>, now: Moment) -> Draft<'a> {
        Draft {
            caller,
            now,
            space,
            changes: Vec::new(),
            wait: Vec::new(),
            next_intent: space.state.next_intent,
            opened: None,
            closed: None,
        }
    }

    pub(crate) fn who(&self) -> &'a Identity {
        self.caller.who
    }

    pub(crate) fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// A number for a new intent.
    pub(crate) fn intent(&mut self) -> Result<IntentId, Errno> {
        if self.space.state.intents.len() >= INTENTS_PENDING {
            return Err(EIO);
        }
        let id = IntentId(self.next_intent);
        self.next_intent += 1;
        Ok(id)
    }

    /// Disposes of an inode that lost its last name and that nobody has open; its objects go with it.
    pub(crate) fn dispose(&mut self, ino: Ino, touched: bool) -> Result<(), Errno> {
        let removal = if touched { Some(self.intent()?) } else { None };
        self.push(Change::Disposed { ino, removal });
        Ok(())
    }

    /// The caller will hold a new description of `ino`.
    pub(crate) fn open(mut self, ino: Ino, rights: Rights, created: bool) -> Step<Decision> {
        let Caller { client, request, acknowledged, .. } = *self.caller;
        let uid = self.caller.who.uid;
        if !(self.space.open.has_room(client, uid) && self.space.may_hold(uid)) {
            return Err(ENFILE.into());
        }
        let handle = self.space.open.next_handle();
        self.opened = Some(Opening { handle, client, uid, ino, rights });
        let outcome = OutcomeKind::Opened { ino, handle, rights, created };
        if self.changes.is_empty() {
            // Descriptions end with the server, so a reply that made nothing but a description need not outlive the server.
            let mut decision = self.answered(Answer::Then(outcome.clone()));
            decision.recent = Some((request, acknowledged, Outcome { kind: outcome, wait: Vec::new() }));
            return Ok(decision);
        }
        Ok(self.done(outcome))
    }

    pub(crate) fn close(&mut self, handle: HandleId) {
        self.closed = Some(handle);
    }

    /// Ends the draft of a mutation: its outcome is remembered for a resend.
    pub(crate) fn done(mut self, kind: OutcomeKind) -> Decision {
        let Caller { client, request, acknowledged, .. } = *self.caller;
        if !self.changes.is_empty() {
            let outcome = Outcome { kind: kind.clone(), wait: self.wait.clone() };
            self.push(Change::Remembered { client, request, acknowledged, outcome });
        }
        self.answered(Answer::Then(kind))
    }

    /// Ends the draft of a mutation that a resend finds done: its outcome need not be remembered.
    pub(crate) fn done_once(self, kind: OutcomeKind) -> Decision {
        self.answered(Answer::Then(kind))
    }

    /// Ends the draft with a reply that a resend may find changed.
    pub(crate) fn reply(self, reply: Reply) -> Decision {
        self.answered(Answer::Now(reply, Vec::new()))
    }

    pub(crate) fn reply_with(self, reply: Reply, payload: Vec<u8>) -> Decision {
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

impl Namespace {
    /// The decision on a request that was carried out before.
    pub(crate) fn recall(&self, caller: &Caller<'_>) -> Option<Decision> {
        let find = |replies: &Replies| replies.find(caller.client, caller.request).cloned();
        let outcome = find(&self.state.replies).or_else(|| find(&self.recent))?;
        let mut decision = Decision::of(Vec::new(), Answer::Then(outcome.kind.clone()));
        decision.client = caller.client;
        decision.wait = outcome.wait;
        decision.wait.retain(|id| self.state.intents.contains_key(id));
        if let OutcomeKind::Opened { ino, handle, rights, .. } = outcome.kind {
            if self.state.inodes.contains_key(&ino) {
                let (client, uid) = (caller.client, caller.who.uid);
                decision.opened = Some(Opening { handle, client, uid, ino, rights });
            }
        }
        Some(decision)
    }

    /// Disposes of `ino`, which is about to lose a name, if it has no other name and nothing else keeps the inode.
    pub(crate) fn dispose_unless_open(&self, draft: &mut Draft<'_>, ino: Ino) -> Result<(), Errno> {
        let last = self.inode(ino)?.names <= 1;
        let kept = self.in_grace || self.open.is_open(ino) || self.is_settling(ino);
        if last && !kept {
            draft.dispose(ino, self.is_touched(ino))?;
        }
        Ok(())
    }
}
