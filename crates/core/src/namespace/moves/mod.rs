//! Moves: objects of files on their way to other targets (docs/design/rebalancing.md), and the number of objects on each target.
//!
//! [`Moves`] holds a record of each move under way, and counts objects by target: those of layouts, and copies of moves.
//!
//! Promises: one client moves the objects of a file at a time, in at most [`MOVES_MAX`] files; whatever ends a move names an intent that
//! empties what it leaves behind. A target has no object of a file here once neither moves nor intents count any. Moves know no
//! inode: their callers show them layouts and epochs, and take the consequences for the file.

mod object_counts;
mod record;
#[cfg(test)]
mod tests;

pub use record::{Frozen, MoveRecord};

use super::change::{Change, OutcomeKind};
use super::decision::{Decision, Step};
use super::draft::Draft;
use super::errno::{EAGAIN, EBUSY, EINVAL, ESTALE};
use super::intents::{IntentId, Intents};
use object_counts::ObjectCounts;
use std::collections::BTreeMap;
use weir_placement::{Layout, TargetId};
use weir_wire::{ClientId, Errno, Ino, ObjectMove, Sequence};

/// The most moves at once: enough for many movers of many objects, and few enough to look through at every tick.
const MOVES_MAX: usize = 1024;

/// The moves under way, and the objects on each target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    records: BTreeMap<Ino, MoveRecord>,
    /// By layouts and by moves under way.
    objects: ObjectCounts,
}

impl Moves {
    /// The move of a file.
    pub(crate) fn get(&self, ino: Ino) -> Option<&MoveRecord> {
        self.records.get(&ino)
    }

    /// The files with moves, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ino, &MoveRecord)> {
        self.records.iter().map(|(&ino, record)| (ino, record))
    }

    /// A move begins, or is known from a snapshot.
    pub(crate) fn insert(&mut self, ino: Ino, record: MoveRecord) {
        self.records.insert(ino, record);
    }

    /// The objects of a move are kept from others: answers the objects that move.
    pub(crate) fn freeze(&mut self, ino: Ino, frozen: Frozen) -> Option<&[ObjectMove]> {
        let record = self.records.get_mut(&ino)?;
        record.freeze = Some(frozen);
        Some(&record.moves)
    }

    /// A move ends.
    pub(crate) fn remove(&mut self, ino: Ino) -> Option<MoveRecord> {
        self.records.remove(&ino)
    }

    /// The place from which an object moves to `place`.
    pub(crate) fn origin(&self, ino: Ino, place: TargetId) -> Option<TargetId> {
        self.get(ino)?.moves.iter().find(|one| one.to == place).map(|one| one.from)
    }

    /// The number of objects on a target.
    pub(crate) fn objects_on(&self, target: TargetId) -> u64 {
        self.objects.of(target)
    }

    /// Changes the count of each object of a file, which has this layout.
    pub(crate) fn each_object(&mut self, ino: Ino, layout: &Layout, change: impl Fn(&mut u64)) {
        for &place in layout.targets() {
            change(self.objects.count(place));
        }
        for one in self.records.get(&ino).into_iter().flat_map(|record| &record.moves) {
            change(self.objects.count(one.to));
        }
    }

    /// Decides the beginning of a move in a file with this layout. The reply comes when the objects at the new places are empty.
    ///
    /// # Errors
    /// EBUSY while another client moves objects of the file, EINVAL for moves that do not fit the layout, EAGAIN at the limit.
    pub(crate) fn decide_begin(
        &self,
        mut draft: Draft<'_>,
        (ino, layout): (Ino, &Layout),
        moves: &[ObjectMove],
        is_kept: impl Fn(TargetId) -> bool,
    ) -> Step<Decision> {
        if self.get(ino).is_some_and(|record| record.client != draft.caller.client) {
            return Err(EBUSY.into());
        }
        check(layout, moves, is_kept)?;
        if self.records.len() >= MOVES_MAX {
            return Err(EAGAIN.into());
        }
        // The client's own move is one whose beginning or end was never answered.
        self.abandon(&mut draft, ino)?;
        let (client, moves, prepare) = (draft.caller.client, moves.to_vec(), draft.intent()?);
        draft.wait.push(prepare);
        draft.push(Change::MoveBegun { ino, client, moves, prepare });
        Ok(draft.done(OutcomeKind::Moving { ino, id: prepare }))
    }

    /// Decides the end of a move, in favour of the new places or of the old ones.
    ///
    /// # Errors
    /// ESTALE if the move is not the client's or over; EINVAL if it was not frozen, or writes of others may be on their way.
    pub(crate) fn decide_end(
        &self,
        mut draft: Draft<'_>,
        (ino, moving): (Ino, Sequence),
        commit: bool,
        intents: &Intents,
    ) -> Step<Decision> {
        let record = self.of_client(draft.caller.client, ino, moving)?;
        let freeze = record.freeze.as_ref();
        if commit && freeze.is_none_or(|frozen| intents.contains_key(frozen.fence)) {
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
    pub(crate) fn abandon(&self, draft: &mut Draft<'_>, ino: Ino) -> Result<(), Errno> {
        if self.records.contains_key(&ino) {
            let vacate = draft.intent()?;
            draft.push(Change::MoveAbandoned { ino, vacate });
        }
        Ok(())
    }

    /// The changes that give moves up; their intents are numbered from `next` on.
    pub(crate) fn abandonments(
        &self,
        which: impl Fn(Ino, &MoveRecord) -> bool,
        next: IntentId,
    ) -> Vec<Change> {
        let ended = self.iter().filter(|&(ino, record)| which(ino, record));
        let numbered = ended.zip(next.0..);
        numbered
            .flat_map(|((ino, record), number)| {
                let freeze = record.freeze.as_ref();
                let settled = freeze.map(|frozen| Change::Settled { id: frozen.intent });
                std::iter::once(Change::MoveAbandoned { ino, vacate: IntentId(number) }).chain(settled)
            })
            .collect()
    }

    /// The move of a file by a client.
    pub(crate) fn of_client(
        &self,
        client: ClientId,
        ino: Ino,
        moving: Sequence,
    ) -> Result<&MoveRecord, Errno> {
        self.get(ino).filter(|record| record.id.0 == moving.0 && record.client == client).ok_or(ESTALE)
    }
}

/// Whether moves lead from places of a layout to others, each once; `is_kept` says whether a target stays in the store.
fn check(layout: &Layout, moves: &[ObjectMove], is_kept: impl Fn(TargetId) -> bool) -> Result<(), Errno> {
    let is_right = |(number, one): (usize, &ObjectMove)| {
        layout.targets().contains(&one.from)
            && !layout.targets().contains(&one.to)
            && is_kept(one.to)
            && moves[..number].iter().all(|other| other.from != one.from && other.to != one.to)
    };
    let all = !moves.is_empty() && moves.iter().enumerate().all(is_right);
    all.then_some(()).ok_or(EINVAL)
}
