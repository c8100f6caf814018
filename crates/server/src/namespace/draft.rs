//! A decision while it is being made.

use super::change::{Change, IntentId, Outcome, OutcomeKind};
use super::errno::{EIO, ENFILE, ENOSPC};
use super::open::Opening;
use super::{Answer, Caller, Decision, Namespace, Step};
use weir_wire::{Errno, FileKind, HandleId, Identity, Ino, Moment, Reply, Rights};

/// Intents that may be pending: what a lost server lets pile up. Beyond it operations that need one answer EIO,
/// as does everything else that needs that server.
const INTENTS_PENDING: usize = 1 << 20;

/// Collects the changes of a decision.
pub(super) struct Draft<'a> {
    pub(super) caller: &'a Caller<'a>,
    pub(super) now: Moment,
    space: &'a Namespace,
    pub(super) changes: Vec<Change>,
    pub(super) wait: Vec<IntentId>,
    next_intent: u64,
    opened: Option<Opening>,
    closed: Option<HandleId>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(space: &'a Namespace, caller: &'a Caller<'a>, now: Moment) -> Draft<'a> {
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

    pub(super) fn who(&self) -> &'a Identity {
        self.caller.who
    }

    pub(super) fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// A number for a new intent.
    pub(super) fn intent(&mut self) -> Result<IntentId, Errno> {
        if self.space.state.intents.len() >= INTENTS_PENDING {
            return Err(EIO);
        }
        let id = IntentId(self.next_intent);
        self.next_intent += 1;
        Ok(id)
    }

    /// A number for a new inode.
    pub(super) fn ino(&self) -> Result<Ino, Errno> {
        self.space.next_ino().ok_or(ENOSPC)
    }

    /// The inode lost its last name and nobody has it open: it goes, and its objects with it.
    pub(super) fn dispose(&mut self, ino: Ino, touched: bool) -> Result<(), Errno> {
        let removal = if touched { Some(self.intent()?) } else { None };
        self.push(Change::Disposed { ino, removal });
        Ok(())
    }

    /// The caller will hold a new description of `ino`.
    pub(super) fn open(mut self, ino: Ino, rights: Rights, created: bool) -> Step<Decision> {
        let Caller { client, request, acknowledged, .. } = *self.caller;
        let uid = self.caller.who.uid;
        if !self.space.open.has_room(client, uid) {
            return Err(ENFILE.into());
        }
        let handle = self.space.open.next_handle();
        self.opened = Some(Opening { handle, client, uid, ino, rights });
        let outcome = OutcomeKind::Opened { ino, handle, rights, created };
        if self.changes.is_empty() {
            // Descriptions end with the server, so a reply that only made one need not outlive it either.
            let mut decision = self.answered(Answer::Then(outcome.clone()));
            decision.recent = Some((request, acknowledged, Outcome { kind: outcome, wait: Vec::new() }));
            return Ok(decision);
        }
        Ok(self.done(outcome))
    }

    pub(super) fn close(&mut self, handle: HandleId) {
        self.closed = Some(handle);
    }

    /// A mutation was decided: its outcome is remembered for a resend.
    pub(super) fn done(mut self, kind: OutcomeKind) -> Decision {
        let Caller { client, request, acknowledged, .. } = *self.caller;
        if !self.changes.is_empty() {
            let outcome = Outcome { kind: kind.clone(), wait: self.wait.clone() };
            self.push(Change::Remembered { client, request, acknowledged, outcome });
        }
        self.answered(Answer::Then(kind))
    }

    /// A mutation was decided that a resend finds done: its outcome need not be remembered.
    pub(super) fn done_once(self, kind: OutcomeKind) -> Decision {
        self.answered(Answer::Then(kind))
    }

    /// Answers what a resend may find differently.
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

impl Namespace {
    /// The number of the next inode; none when there are as many as the settings allow.
    pub(super) fn next_ino(&self) -> Option<Ino> {
        let room = (self.state.inodes.len() as u64) < self.settings.inodes_max;
        room.then(|| Ino::new(self.settings.server, self.state.next_sequence))
    }

    /// Whether objects of `ino` may exist, once nobody has it open.
    pub(super) fn is_touched(&self, ino: Ino) -> bool {
        let file = self.state.inodes.get(&ino).and_then(super::inode::Inode::regular);
        file.is_some_and(|file| file.untouched_start != self.state.starts)
    }

    /// Whether objects of `ino` are at work: the file stays until they are done.
    pub(super) fn is_settling(&self, ino: Ino) -> bool {
        let state = &self.state;
        state.cuts.contains_key(&ino) || state.moves.contains_key(&ino) || state.fences.contains_key(&ino)
    }

    /// Disposes of `ino` if that is due once a name of it, of `names`, is gone.
    pub(super) fn dispose_unless_open(&self, draft: &mut Draft<'_>, ino: Ino) -> Result<(), Errno> {
        let last = self.inode(ino)?.names <= 1;
        let kept = self.in_grace || self.open.is_open(ino) || self.is_settling(ino);
        if last && !kept {
            draft.dispose(ino, self.is_touched(ino))?;
        }
        Ok(())
    }

    /// Whether the kind of the entry is that of a directory held by another server.
    pub(super) fn is_remote(&self, ino: Ino, kind: FileKind) -> bool {
        kind == FileKind::Directory && ino.home() != self.settings.server
    }
}
