//! Layouts of existing files: moves of objects (docs/design/rebalancing.md), and a new layout for a file that holds nothing yet.

use super::capability::move_handle;
use super::{layout, permission, Files, Inode};
use crate::namespace::change::{Change, OutcomeKind};
use crate::namespace::decision::{Answer, Decision, Step};
use crate::namespace::draft::Draft;
use crate::namespace::errno::{of_refusal, EBUSY, EINVAL, EISDIR, EPERM, ESTALE};
use crate::namespace::intents::IntentId;
use crate::namespace::moves::MoveRecord;
use weir_placement::online::Placed;
use weir_wire::{limits, Errno, Ino, Moment, ObjectMove, Reply, Rights, Sequence};

impl Files {
    /// Layout, size and epoch of a file, which belong together.
    pub(crate) fn read_layout(&self, draft: Draft<'_>, ino: Ino) -> Step<Decision> {
        self.await_cut(ino)?;
        Ok(draft.reply(self.layout_reply(ino)?))
    }

    pub(crate) fn layout_reply(&self, ino: Ino) -> Result<Reply, Errno> {
        let file = self.inode(ino)?.regular().ok_or(EINVAL)?;
        Ok(Reply::Layout {
            layout: file.layout.clone(),
            layout_epoch: file.layout_epoch,
            size_bytes: file.size_bytes,
            epoch: file.epoch,
        })
    }

    /// Begins a move. The reply comes when the objects at the new places are empty.
    pub(crate) fn begin_move(&self, draft: Draft<'_>, ino: Ino, moves: &[ObjectMove]) -> Step<Decision> {
        let inode = self.inode(ino)?;
        if inode.directory().is_some() {
            return Err(EISDIR.into());
        }
        let file = inode.regular().ok_or(EINVAL)?;
        if !permission::owns(draft.who(), inode) {
            return Err(EPERM.into());
        }
        self.await_cut(ino)?;
        self.moves.decide_begin(draft, (ino, &file.layout), moves, |to| self.places.placer().is_kept(to))
    }

    /// Keeps others from the objects of a move. The reply comes when no write of others is on its way to the objects.
    pub(crate) fn freeze_move(&self, mut draft: Draft<'_>, ino: Ino, moving: Sequence) -> Step<Decision> {
        let record = self.moves.of_client(draft.caller.client, ino, moving)?;
        if record.freeze.is_some() {
            return Err(EBUSY.into());
        }
        self.await_cut(ino)?;
        let file = self.inode(ino)?.regular().ok_or(EINVAL)?;
        let (epoch, at) = (file.epoch + 1, draft.now);
        let (freeze, fence) = (draft.intent()?, draft.intent()?);
        draft.wait.push(fence);
        draft.push(Change::MoveFrozen { ino, freeze, fence, at });
        Ok(draft.done(OutcomeKind::Frozen { epoch }))
    }

    /// Gives up moves that are overdue, for [`Namespace::expire_moves`](crate::namespace::Namespace::expire_moves).
    pub(crate) fn expire_moves(&self, now: Moment, next: IntentId) -> Option<Decision> {
        let is_overdue = |ino: Ino, record: &MoveRecord| {
            let is_nameless = self.get(ino).is_some_and(|inode| inode.names == 0) && !self.open.is_open(ino);
            let since = record.freeze.as_ref().map(|frozen| frozen.since.seconds);
            // A clock that was set back by more than that is no reason to keep others waiting until it is there again.
            is_nameless || since.is_some_and(|since| now.seconds.abs_diff(since) > limits::FREEZE_SECONDS)
        };
        self.abandon_moves(is_overdue, next)
    }

    /// Gives up moves; `None` if there are none.
    pub(crate) fn abandon_moves(
        &self,
        which: impl Fn(Ino, &MoveRecord) -> bool,
        next: IntentId,
    ) -> Option<Decision> {
        let changes = self.moves.abandonments(which, next);
        (!changes.is_empty()).then(|| Decision::of(changes, Answer::Now(Reply::Done, Vec::new())))
    }

    /// The answer to the beginning of a move, unless the move is over.
    pub(crate) fn moving_reply(&self, ino: Ino, id: IntentId, uid: u32, now: Moment) -> Reply {
        let is_on = self.moves.get(ino).is_some_and(|record| record.id == id);
        let rights = Rights { read: true, write: true };
        match self.inode(ino).ok().and_then(Inode::regular).filter(|_| is_on) {
            Some(file) => Reply::Moving {
                ino,
                moving: Sequence(id.0),
                capability: self.capability((ino, move_handle(id)), rights, uid, now),
                epoch: file.epoch,
            },
            None => Reply::Failed(ESTALE),
        }
    }

    /// Gives a file that holds nothing and is open nowhere another layout.
    pub(crate) fn lay_out(&self, mut draft: Draft<'_>, ino: Ino, value: &[u8]) -> Step<Decision> {
        self.await_cut(ino)?;
        let file = self.inode(ino)?.regular().ok_or(EINVAL)?;
        let request = layout::parse(value)?;
        let specification = request.layout.as_ref().filter(|_| request.spread.is_none()).ok_or(EINVAL)?;
        let holds_bytes = file.size_bytes > 0 || self.is_touched(ino);
        if holds_bytes || self.open.is_open(ino) || self.is_settling(ino) {
            return Err(EBUSY.into());
        }
        let avoided = self.places.avoided_by(draft.caller.job);
        let placed = self.places.placer().place_avoiding(ino.sequence(), Some(specification), avoided);
        let Placed { layout, record } = placed.map_err(of_refusal)?;
        let at = draft.now;
        let asked = Box::new(specification.clone());
        draft.push(Change::LaidOut { ino, layout, asked, at });
        draft.push(layout::placement(ino, &record, at));
        Ok(draft.done(OutcomeKind::Done))
    }
}
