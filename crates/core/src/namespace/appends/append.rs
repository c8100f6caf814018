//! Appends: one at a time for each file, at its end.

use super::turns::{Appender, Asked};
use crate::namespace::change::{Change, OutcomeKind};
use crate::namespace::core::Namespace;
use crate::namespace::decision::{Answer, Caller, Decision, Verdict};
use crate::namespace::draft::Draft;
use crate::namespace::errno::{EAGAIN, EBADF, EFBIG};
use crate::namespace::intents::intent::IntentId;
use weir_placement::{Layout, TargetId};
use weir_wire::{limits, Capability, ClientId, Errno, Ino, Moment, Publication, Reply, Sequence};

/// A turn that came: the server answers the waiting request with the reply.
#[derive(Clone, Debug, PartialEq)]
pub struct AppendGrant {
    /// The appender that has the turn now.
    pub appender: Appender,
    /// `Reply::Turn`, or `Failed` if the file is gone.
    pub reply: Reply,
}

/// The outcome of the end of a turn.
// The outcome lives on the stack of one step; a box would cost each turn an allocation.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
pub enum NextTurn {
    /// Nobody waits for the file.
    Nobody,
    /// The next appender has the turn.
    Granted(AppendGrant),
    /// The file is being cut: these appenders, in their order, ask again when the intent is settled. Bytes that one of them wrote
    /// before would be cut off.
    AfterCut(IntentId, Vec<Appender>),
}

/// An append turn that was taken from its client.
#[derive(Clone, Debug)]
pub struct TakenTurn {
    /// The decision to journal and commit.
    pub decision: Decision,
    /// The cut of the file; the waiting appenders ask again when it is settled. None if the file is gone.
    pub cut: Option<IntentId>,
    /// The waiting appenders, in order.
    pub waiting: Vec<Appender>,
}

/// The outcome of `AppendBegin`.
// The outcome lives on the stack of one request; a box would cost it an allocation.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
pub enum TurnReply {
    /// The client has the turn.
    Now(Reply),
    /// The turn comes as an [`AppendGrant`] later.
    Later,
    /// The file is being cut: the request asks again when this intent is settled.
    Wait(IntentId),
}

/// The outcome of `Append`.
#[derive(Clone, Debug)]
pub enum InlineAppend {
    /// The request is a resend: the server commits this decision and answers.
    Done(Box<Decision>),
    /// The server writes the payload here, then calls [`Namespace::append_written`].
    Here {
        /// The turn of the append.
        turn: Sequence,
        /// Target of this server.
        target: TargetId,
        /// Offset inside the object.
        object_offset: u64,
        /// Offset inside the file.
        offset: u64,
        /// Epoch of the write.
        epoch: u64,
    },
    /// The client has to use `AppendBegin`.
    Elsewhere,
    /// The file is being cut: the request asks again when this intent is settled.
    Wait(IntentId),
}

impl Namespace {
    /// The decision that comes before an append to a file of an earlier start of the server, if it is the first one since: a client
    /// that had the turn then may still write where the next appender would.
    pub fn end_earlier_turn(
        &self,
        caller: &Caller<'_>,
        capability: &Capability,
        now: Moment,
    ) -> Option<Decision> {
        let is_due = self.turns.may_be_written(capability.ino) && self.writable(caller, capability).is_ok();
        is_due.then(|| self.cut_off(capability.ino, now)).flatten()
    }

    /// Asks for the append turn of a file.
    ///
    /// # Errors
    /// EACCES, EBADF, ESTALE for the capability; EDQUOT; EAGAIN if too many appenders wait.
    pub fn append_begin(&mut self, caller: &Caller<'_>, capability: &Capability) -> Result<TurnReply, Errno> {
        let (_, file) = self.writable(caller, capability)?;
        if let Some(&id) = self.state.cuts.get(&capability.ino) {
            return Ok(TurnReply::Wait(id));
        }
        self.may_grow(capability, file.size_bytes.saturating_add(1))?;
        let appender = Appender { client: caller.client, request: caller.request };
        match self.turns.ask(capability.ino, appender) {
            Asked::Granted(turn) => Ok(TurnReply::Now(self.turn_reply(capability.ino, turn))),
            Asked::Queued => Ok(TurnReply::Later),
            Asked::Full => Err(EAGAIN),
        }
    }

    /// Decides the end of a turn; after the commit, [`Namespace::next_turn`] follows.
    ///
    /// # Errors
    /// EBADF if the client does not have the turn (a session takes its turns along); otherwise as `Publish`.
    pub fn append_end(
        &self,
        caller: &Caller<'_>,
        capability: &Capability,
        turn: Sequence,
        publication: Option<&Publication>,
        now: Moment,
    ) -> Result<Verdict, Errno> {
        if let Some(recalled) = self.recall(caller) {
            return Ok(Verdict::Done(recalled));
        }
        let (_, file) = self.writable(caller, capability)?;
        let draft = Draft::new(self, caller, now);
        let Some(publication) = publication else {
            let size = self.size_and_epoch(capability.ino);
            return Ok(Verdict::Done(draft.reply(Reply::Written { size })));
        };
        if !self.turns.holds(capability.ino, caller.client, turn) {
            return Err(EBADF);
        }
        let (size_bytes, epoch) = (file.size_bytes.max(publication.end), file.epoch);
        self.publish_append(draft, capability, publication, OutcomeKind::Written { size_bytes, epoch })
    }

    /// Begins an append in one step if nobody has the turn and one object of this server takes `length` bytes at the end of the
    /// file.
    ///
    /// # Errors
    /// EACCES, EBADF, ESTALE for the capability; EFBIG; EDQUOT.
    pub fn append_inline(
        &mut self,
        caller: &Caller<'_>,
        capability: &Capability,
        length: u64,
    ) -> Result<InlineAppend, Errno> {
        if let Some(recalled) = self.recall(caller) {
            return Ok(InlineAppend::Done(Box::new(recalled)));
        }
        let (_, file) = self.writable(caller, capability)?;
        if let Some(&id) = self.state.cuts.get(&capability.ino) {
            return Ok(InlineAppend::Wait(id));
        }
        let (offset, epoch) = (file.size_bytes, file.epoch);
        if offset.saturating_add(length) > limits::FILE_BYTES {
            return Err(EFBIG);
        }
        self.may_grow(capability, offset + length)?;
        let Some((target, object_offset)) = only_object(&file.layout, offset, length) else {
            return Ok(InlineAppend::Elsewhere);
        };
        if target.server != self.settings.server || self.turns.is_taken(capability.ino) {
            return Ok(InlineAppend::Elsewhere);
        }
        let appender = Appender { client: caller.client, request: caller.request };
        match self.turns.ask(capability.ino, appender) {
            Asked::Granted(turn) => Ok(InlineAppend::Here { turn, target, object_offset, offset, epoch }),
            Asked::Queued | Asked::Full => Ok(InlineAppend::Elsewhere),
        }
    }

    /// The target that would take an append of `length` bytes in one step. Its device then serves the append.
    pub fn append_target(&self, ino: Ino, length: u64) -> Option<TargetId> {
        let file = self.state.regular(ino)?;
        let piece = file.layout.pieces(file.size_bytes, length).next()?;
        Some(file.layout.targets()[piece.object])
    }

    /// Decides the reply of an inline append after its bytes were written: `Appended`, or `StaleEpoch` if the file was shortened
    /// meanwhile. After the commit, or after a failed write, [`Namespace::next_turn`] follows.
    ///
    /// # Errors
    /// EBADF if the turn was lost with the client's session.
    pub fn append_written(
        &self,
        caller: &Caller<'_>,
        capability: &Capability,
        turn: Sequence,
        publication: &Publication,
        now: Moment,
    ) -> Result<Verdict, Errno> {
        let (_, file) = self.writable(caller, capability)?;
        if !self.turns.holds(capability.ino, caller.client, turn) {
            return Err(EBADF);
        }
        let draft = Draft::new(self, caller, now);
        let size_bytes = file.size_bytes.max(publication.end);
        let (offset, epoch) = (publication.end.saturating_sub(publication.written_bytes), file.epoch);
        let outcome = OutcomeKind::Appended { offset, size_bytes, epoch };
        self.publish_append(draft, capability, publication, outcome)
    }

    fn publish_append(
        &self,
        mut draft: Draft<'_>,
        capability: &Capability,
        publication: &Publication,
        outcome: OutcomeKind,
    ) -> Result<Verdict, Errno> {
        let (_, file) = self.writable(draft.caller, capability)?;
        if let Some(&id) = self.state.cuts.get(&capability.ino) {
            return Ok(Verdict::Wait(id));
        }
        if publication.end.max(publication.reserved_end) > limits::FILE_BYTES {
            return Err(EFBIG);
        }
        if publication.epoch != file.epoch {
            return Ok(Verdict::Done(draft.reply(Reply::StaleEpoch { epoch: file.epoch })));
        }
        if !self.admits(capability, publication)? {
            return Ok(Verdict::Done(self.refuse_growth(draft, capability.ino)?));
        }
        self.published(&mut draft, capability.ino, publication)?;
        Ok(Verdict::Done(draft.done(outcome)))
    }

    /// Ends the turn, if `client` of `caller` still has it, and gives it to the next in the queue.
    pub fn next_turn(&mut self, caller: &Caller<'_>, ino: Ino, turn: Sequence) -> NextTurn {
        if !self.turns.holds(ino, caller.client, turn) {
            return NextTurn::Nobody;
        }
        self.pass_turn(ino)
    }

    /// Files whose append turn a client has.
    pub fn turns_of(&self, client: ClientId) -> Vec<Ino> {
        self.turns.held_by(client)
    }

    /// Append turns that others wait for.
    pub fn contested_turns(&self) -> Vec<(Ino, Sequence)> {
        self.turns.contested().collect()
    }

    /// Whether a client still has the turn that it renews.
    ///
    /// # Errors
    /// EACCES, EBADF, ESTALE for the capability; EBADF if the turn was lost.
    pub fn append_renew(
        &self,
        caller: &Caller<'_>,
        capability: &Capability,
        turn: Sequence,
    ) -> Result<(), Errno> {
        self.writable(caller, capability)?;
        match self.turns.holds(capability.ino, caller.client, turn) {
            true => Ok(()),
            false => Err(EBADF),
        }
    }

    /// Takes the append turn of a file from a client that may have stopped in the midst of its writes. `None` while the file is
    /// being cut: the caller tries again later.
    ///
    /// The file is cut at its end, which raises its epoch. Bytes that the late client wrote are gone, its later writes are
    /// answered `StaleEpoch`, and its `AppendEnd` EBADF. So its append has not happened, and the client may begin anew.
    pub fn take_turn(&mut self, ino: Ino, now: Moment) -> Option<TakenTurn> {
        let (decision, cut) = self.cut_at_end(ino, now)?;
        Some(TakenTurn { decision, cut, waiting: self.turns.take(ino) })
    }

    /// The decision that cuts a file at its end; none while another cut of the file is under way.
    pub(crate) fn cut_off(&self, ino: Ino, now: Moment) -> Option<Decision> {
        let (decision, cut) = self.cut_at_end(ino, now)?;
        cut.map(|_| decision)
    }

    /// The decision that cuts a file at its end, and its intent, which is missing if the file is gone. `None` while the file is
    /// being cut.
    fn cut_at_end(&self, ino: Ino, now: Moment) -> Option<(Decision, Option<IntentId>)> {
        if self.state.cuts.contains_key(&ino) {
            return None;
        }
        let mut changes = self.abandonments(|moving, _| moving == ino);
        let moves = changes.iter().filter(|change| matches!(change, Change::MoveAbandoned { .. })).count();
        let file = self.state.regular(ino);
        let cut = file.map(|file| (IntentId(self.state.next_intent + moves as u64), file.size_bytes));
        changes.extend(cut.map(|(id, size_bytes)| Change::Resized {
            ino,
            size_bytes,
            permissions: None,
            cut: Some(id),
            at: now,
        }));
        let decision = Decision::of(changes, Answer::Now(Reply::Done, Vec::new()));
        Some((decision, cut.map(|(id, _)| id)))
    }

    pub(crate) fn pass_turn(&mut self, ino: Ino) -> NextTurn {
        if let Some(&cut) = self.state.cuts.get(&ino) {
            return match self.turns.take(ino) {
                waiting if waiting.is_empty() => NextTurn::Nobody,
                waiting => NextTurn::AfterCut(cut, waiting),
            };
        }
        match self.turns.end(ino) {
            None => NextTurn::Nobody,
            Some((appender, turn)) => {
                NextTurn::Granted(AppendGrant { appender, reply: self.turn_reply(ino, turn) })
            }
        }
    }

    fn turn_reply(&self, ino: Ino, turn: Sequence) -> Reply {
        match self.inode(ino).map(|inode| inode.regular()) {
            Ok(Some(file)) => Reply::Turn { turn, offset: file.size_bytes, epoch: file.epoch },
            Ok(None) => Reply::Failed(EBADF),
            Err(errno) => Reply::Failed(errno),
        }
    }
}

/// The one object that holds this range of the file, and the offset in the object.
fn only_object(layout: &Layout, offset: u64, length: u64) -> Option<(TargetId, u64)> {
    let mut pieces = layout.pieces(offset, length);
    let piece = pieces.next()?;
    let only = pieces.next().is_none();
    only.then(|| (layout.targets()[piece.object], piece.object_offset))
}
