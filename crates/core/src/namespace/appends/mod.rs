//! Appends: one at a time for each file, at its end.
//!
//! [`Appends`] holds the append turns: who may write at the end of a file now, and who waits. The journal does not have them. A start
//! forgets all turns, and whoever had one may still write; so the first append since then to an older file cuts it at its end.
//!
//! The last step of a move keeps a file from being cut, and raises the epochs of the moved objects alone. So where the client of a turn is
//! gone meanwhile, the next append cuts the file, too.
//!
//! Promises: appenders of a file follow each other in the order of their requests; no turn passes on in the midst of a cut; a turn that
//! was taken is worth nothing. Appends ask the files for rights, ends and cuts, and publish by them; they know no name.

#[cfg(test)]
mod tests;
mod turns;

pub use turns::Appender;

use super::change::OutcomeKind;
use super::decision::{Caller, Decision, Verdict};
use super::draft::Draft;
use super::errno::{EAGAIN, EBADF, EFBIG};
use super::files::{Files, InoMap};
use super::intents::IntentId;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use std::collections::{HashMap, HashSet};
use turns::{Asked, Turns};
use weir_placement::{Layout, TargetId};
use weir_wire::{limits, Capability, ClientId, Errno, Ino, Publication, Reply, Sequence};

/// The append turns of all files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Appends {
    /// The number of the last turn.
    last: u64,
    /// Inodes with lower numbers were made before the last start.
    first_of_start: u64,
    /// Files of earlier starts that were cut since the last one.
    settled: HashSet<Ino>,
    /// Files that were not cut when the client of their turn went.
    uncut: HashSet<Ino>,
    files: InoMap<Turns>,
    clients: HashMap<ClientId, HashSet<Ino>>,
}

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

impl Appends {
    /// Whether a file must be cut before an append: a client that had the turn of an earlier start may still write where the next appender
    /// would.
    pub(crate) fn must_cut(&self, files: &Files, caller: &Caller<'_>, capability: &Capability) -> bool {
        self.may_be_written(capability.ino) && files.writable(caller, capability).is_ok()
    }

    /// Asks for the append turn of a file, for [`Namespace::append_begin`](super::Namespace::append_begin).
    pub(crate) fn ask(
        &mut self,
        files: &Files,
        caller: &Caller<'_>,
        capability: &Capability,
    ) -> Result<TurnReply, Errno> {
        let (_, file) = files.writable(caller, capability)?;
        if let Some(id) = files.cut_of(capability.ino) {
            return Ok(TurnReply::Wait(id));
        }
        files.may_grow(capability, file.size_bytes.saturating_add(1))?;
        let appender = Appender { client: caller.client, request: caller.request };
        match self.take_or_queue(capability.ino, appender) {
            Asked::Granted(turn) => Ok(TurnReply::Now(turn_reply(files, capability.ino, turn))),
            Asked::Queued => Ok(TurnReply::Later),
            Asked::Full => Err(EAGAIN),
        }
    }

    /// Decides the end of a turn, for [`Namespace::append_end`](super::Namespace::append_end).
    pub(crate) fn end(
        &self,
        files: &Files,
        draft: Draft<'_>,
        capability: &Capability,
        turn: Sequence,
        publication: Option<&Publication>,
    ) -> Result<Verdict, Errno> {
        let (_, file) = files.writable(draft.caller, capability)?;
        let Some(publication) = publication else {
            let size = files.size_and_epoch(capability.ino);
            return Ok(Verdict::Done(draft.reply(Reply::Written { size })));
        };
        if !self.holds(capability.ino, draft.caller.client, turn) {
            return Err(EBADF);
        }
        let (size_bytes, epoch) = (file.size_bytes.max(publication.end), file.epoch);
        let outcome = OutcomeKind::Written { size_bytes, epoch };
        files.publish_append(draft, capability, publication, outcome)
    }

    /// Begins an append in one step, for [`Namespace::append_inline`](super::Namespace::append_inline).
    pub(crate) fn ask_inline(
        &mut self,
        files: &Files,
        caller: &Caller<'_>,
        capability: &Capability,
        length: u64,
    ) -> Result<InlineAppend, Errno> {
        let (_, file) = files.writable(caller, capability)?;
        if let Some(id) = files.cut_of(capability.ino) {
            return Ok(InlineAppend::Wait(id));
        }
        let (offset, epoch) = (file.size_bytes, file.epoch);
        if offset.saturating_add(length) > limits::FILE_BYTES {
            return Err(EFBIG);
        }
        files.may_grow(capability, offset + length)?;
        let Some((target, object_offset)) = only_object(&file.layout, offset, length) else {
            return Ok(InlineAppend::Elsewhere);
        };
        if target.server != files.server() || self.is_taken(capability.ino) {
            return Ok(InlineAppend::Elsewhere);
        }
        let appender = Appender { client: caller.client, request: caller.request };
        match self.take_or_queue(capability.ino, appender) {
            Asked::Granted(turn) => Ok(InlineAppend::Here { turn, target, object_offset, offset, epoch }),
            Asked::Queued | Asked::Full => Ok(InlineAppend::Elsewhere),
        }
    }

    /// Decides the reply of an inline append, for [`Namespace::append_written`](super::Namespace::append_written).
    pub(crate) fn written(
        &self,
        files: &Files,
        draft: Draft<'_>,
        capability: &Capability,
        turn: Sequence,
        publication: &Publication,
    ) -> Result<Verdict, Errno> {
        let (_, file) = files.writable(draft.caller, capability)?;
        if !self.holds(capability.ino, draft.caller.client, turn) {
            return Err(EBADF);
        }
        let size_bytes = file.size_bytes.max(publication.end);
        let (offset, epoch) = (publication.end.saturating_sub(publication.written_bytes), file.epoch);
        let outcome = OutcomeKind::Appended { offset, size_bytes, epoch };
        files.publish_append(draft, capability, publication, outcome)
    }

    /// Ends the turn of a file, and gives it to the next in the queue.
    pub(crate) fn pass(&mut self, files: &Files, ino: Ino) -> NextTurn {
        if let Some(cut) = files.cut_of(ino) {
            return match self.take(ino) {
                waiting if waiting.is_empty() => NextTurn::Nobody,
                waiting => NextTurn::AfterCut(cut, waiting),
            };
        }
        match self.pass_on(ino) {
            None => NextTurn::Nobody,
            Some((appender, turn)) => {
                NextTurn::Granted(AppendGrant { appender, reply: turn_reply(files, ino, turn) })
            }
        }
    }

    /// Takes every turn and every place in a queue from a client, and gives the turns to others. `cuts` says whether an intent about a file
    /// raises the epochs of all its objects.
    pub(crate) fn drop_client(
        &mut self,
        files: &Files,
        client: ClientId,
        cuts: impl Fn(IntentId) -> bool,
    ) -> Vec<NextTurn> {
        let ended = self.forget_client(client);
        #[cfg(any(test, feature = "world"))]
        let cuts = |intent| cuts(intent) || mutants::is(Mutant::FrozenPassedUncut);
        let uncut =
            ended.iter().copied().filter(|&ino| files.cut_of(ino).is_some_and(|intent| !cuts(intent)));
        self.uncut.extend(uncut);
        ended.into_iter().map(|ino| self.pass(files, ino)).collect()
    }
}

fn turn_reply(files: &Files, ino: Ino, turn: Sequence) -> Reply {
    match files.inode(ino).map(|inode| inode.regular()) {
        Ok(Some(file)) => Reply::Turn { turn, offset: file.size_bytes, epoch: file.epoch },
        Ok(None) => Reply::Failed(EBADF),
        Err(errno) => Reply::Failed(errno),
    }
}

/// The one object that holds this range of the file, and the offset in the object.
fn only_object(layout: &Layout, offset: u64, length: u64) -> Option<(TargetId, u64)> {
    let mut pieces = layout.pieces(offset, length);
    let piece = pieces.next()?;
    let only = pieces.next().is_none();
    only.then(|| (layout.targets()[piece.object], piece.object_offset))
}
