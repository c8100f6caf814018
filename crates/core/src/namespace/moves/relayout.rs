//! Layouts of existing files: moves of objects (docs/design/rebalancing.md), and a new layout for a file that holds nothing yet.

use crate::namespace::change::{Change, OutcomeKind};
use crate::namespace::core::Namespace;
use crate::namespace::decision::{Answer, Decision, Step};
use crate::namespace::draft::Draft;
use crate::namespace::errno::{of_refusal, EAGAIN, EBUSY, EINVAL, EISDIR, EPERM, ESTALE};
use crate::namespace::files::inode::{Inode, RegularFile};
use crate::namespace::files::layout;
use crate::namespace::files::permission;
use crate::namespace::intents::intent::{IntentId, MoveRecord};
use crate::namespace::names::naming::move_handle;
use crate::namespace::names::walk::Last;
use weir_placement::online::Placed;
use weir_wire::{limits, At, ClientId, Errno, Ino, Moment, ObjectMove, Reply, Rights, Sequence};

/// The most moves at once: enough for many movers of many objects, and few enough to look through at every tick.
const MOVES_MAX: usize = 1024;

impl Namespace {
    /// Layout, size and epoch of a file, which belong together.
    pub(crate) fn file_layout(&self, draft: Draft<'_>, at: &At) -> Step<Decision> {
        let ino = self.node(draft.who(), at, Last::Follow)?;
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
    pub(crate) fn begin_move(&self, mut draft: Draft<'_>, at: &At, moves: &[ObjectMove]) -> Step<Decision> {
        let ino = self.node(draft.who(), at, Last::Follow)?;
        let inode = self.inode(ino)?;
        if inode.directory().is_some() {
            return Err(EISDIR.into());
        }
        let file = inode.regular().ok_or(EINVAL)?;
        if !permission::owns(draft.who(), inode) {
            return Err(EPERM.into());
        }
        self.await_cut(ino)?;
        if self.state.moves.get(&ino).is_some_and(|record| record.client != draft.caller.client) {
            return Err(EBUSY.into());
        }
        self.check_moves(file, moves)?;
        if self.state.moves.len() >= MOVES_MAX {
            return Err(EAGAIN.into());
        }
        // The client's own move is one whose beginning or end was never answered.
        self.abandon_move(&mut draft, ino)?;
        let (client, moves, prepare) = (draft.caller.client, moves.to_vec(), draft.intent()?);
        draft.wait.push(prepare);
        draft.push(Change::MoveBegun { ino, client, moves, prepare });
        Ok(draft.done(OutcomeKind::Moving { ino, id: prepare }))
    }

    /// Keeps others from the objects of a move. The reply comes when no write of others is on its way to the objects.
    pub(crate) fn freeze_move(&self, mut draft: Draft<'_>, ino: Ino, moving: Sequence) -> Step<Decision> {
        let record = self.move_of(draft.caller.client, ino, moving)?;
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

    /// Ends a move, in favour of the new places or of the old ones.
    pub(crate) fn end_move(
        &self,
        mut draft: Draft<'_>,
        ino: Ino,
        moving: Sequence,
        commit: bool,
    ) -> Step<Decision> {
        let record = self.move_of(draft.caller.client, ino, moving)?;
        let freeze = record.freeze.as_ref();
        if commit && freeze.is_none_or(|frozen| !self.is_settled(frozen.fence)) {
            return Err(EINVAL.into());
        }
        let (first, freeze) = (draft.intent()?, freeze.map(|frozen| frozen.intent));
        if commit {
            draft.wait.push(first);
            let vacate = draft.intent()?;
            draft.push(Change::Relaid { ino, seal: first, vacate });
        } else {
            draft.push(Change::MoveAbandoned { ino, vacate: first });
        }
        if let Some(id) = freeze {
            draft.push(Change::Settled { id });
        }
        Ok(draft.done(OutcomeKind::Done))
    }

    /// Ends the move of a file, if there is one without a freeze: before a cut, which changes the bytes to copy, or before another
    /// move. The mover begins anew.
    pub(crate) fn abandon_move(&self, draft: &mut Draft<'_>, ino: Ino) -> Result<(), Errno> {
        if self.state.moves.contains_key(&ino) {
            let vacate = draft.intent()?;
            draft.push(Change::MoveAbandoned { ino, vacate });
        }
        Ok(())
    }

    /// Gives up moves with a freeze that lasted too long, and moves of files that have no name and no description; `None` if there
    /// are no such moves.
    pub fn expire_moves(&self, now: Moment) -> Option<Decision> {
        let is_overdue = |ino: Ino, record: &MoveRecord| {
            let is_nameless = self.inode(ino).is_ok_and(|inode| inode.names == 0) && !self.open.is_open(ino);
            let since = record.freeze.as_ref().map(|frozen| frozen.since.seconds);
            // A clock that was set back by more than that is no reason to keep others waiting until it is there again.
            is_nameless || since.is_some_and(|since| now.seconds.abs_diff(since) > limits::FREEZE_SECONDS)
        };
        self.abandonment(is_overdue)
    }

    /// Gives up every move, as their clients begin anew after a start; `None` if there are no moves.
    pub fn abandon_moves(&self) -> Option<Decision> {
        self.abandonment(|_, _| true)
    }

    fn abandonment(&self, which: impl Fn(Ino, &MoveRecord) -> bool) -> Option<Decision> {
        let changes = self.abandonments(which);
        (!changes.is_empty()).then(|| Decision::of(changes, Answer::Now(Reply::Done, Vec::new())))
    }

    /// The changes that give moves up; their intents are numbered from the next one on.
    pub(crate) fn abandonments(&self, which: impl Fn(Ino, &MoveRecord) -> bool) -> Vec<Change> {
        let ended = self.state.moves.iter().filter(|&(&ino, record)| which(ino, record));
        let numbered = ended.zip(self.state.next_intent..);
        numbered
            .flat_map(|((&ino, record), number)| {
                let freeze = record.freeze.as_ref();
                let settled = freeze.map(|frozen| Change::Settled { id: frozen.intent });
                std::iter::once(Change::MoveAbandoned { ino, vacate: IntentId(number) }).chain(settled)
            })
            .collect()
    }

    /// The answer to the beginning of a move, unless the move is over.
    pub(crate) fn moving_reply(&self, ino: Ino, id: IntentId, uid: u32, now: Moment) -> Reply {
        let is_on = self.state.moves.get(&ino).is_some_and(|record| record.id == id);
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
        let avoided = self.avoided_by(draft.caller.job);
        let placed = self.targets.place_avoiding(ino.sequence(), Some(specification), avoided);
        let Placed { layout, record } = placed.map_err(of_refusal)?;
        let at = draft.now;
        let asked = Box::new(specification.clone());
        draft.push(Change::LaidOut { ino, layout, asked, at });
        draft.push(layout::placement(ino, &record, at));
        Ok(draft.done(OutcomeKind::Done))
    }

    fn move_of(&self, client: ClientId, ino: Ino, moving: Sequence) -> Result<&MoveRecord, Errno> {
        let record = self.state.moves.get(&ino);
        record.filter(|record| record.id.0 == moving.0 && record.client == client).ok_or(ESTALE)
    }

    fn check_moves(&self, file: &RegularFile, moves: &[ObjectMove]) -> Result<(), Errno> {
        let is_right = |(number, one): (usize, &ObjectMove)| {
            file.layout.targets().contains(&one.from)
                && !file.layout.targets().contains(&one.to)
                && self.targets.is_kept(one.to)
                && moves[..number].iter().all(|other| other.from != one.from && other.to != one.to)
        };
        let all = !moves.is_empty() && moves.iter().enumerate().all(is_right);
        all.then_some(()).ok_or(EINVAL)
    }
}
