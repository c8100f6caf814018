//! Changes of layouts and moves, as they alter files.

use super::Files;
use crate::namespace::change::Change;
use crate::namespace::intents::{Begun, Intent, IntentId, NO_CUT};
use crate::namespace::moves::{Frozen, MoveRecord};
use weir_placement::online::Record;
use weir_placement::{Component, Layout, TargetId};
use weir_wire::{ClientId, Ino, Moment, ObjectMove};

/// The reason in the placement record of a file that was moved.
const MOVED: &str = "rebalance";

impl Files {
    /// Carries out a change of a layout, or of a move.
    pub(crate) fn apply_to_layout(&mut self, change: &Change) -> Begun {
        match change {
            Change::MoveBegun { ino, client, moves, prepare } => {
                return self.begin_moving(*ino, *client, moves, *prepare);
            }
            Change::MoveFrozen { ino, freeze, fence, at } => {
                let frozen = Frozen { intent: *freeze, fence: *fence, since: *at };
                let Some(moves) = self.moves.freeze(*ino, frozen) else { return [None, None] };
                let objects = moves.iter().map(|one| (one.from, NO_CUT)).collect();
                let frozen = (*freeze, self.owner_of(*ino), Intent::Freeze { ino: *ino });
                return [Some(frozen), self.fence(*ino, *fence, objects)];
            }
            Change::Relaid { ino, seal, vacate } => return self.relay(*ino, *seal, *vacate),
            Change::MoveAbandoned { ino, vacate } => {
                let Some(record) = self.moves.remove(*ino) else { return [None, None] };
                let objects = record.moves.iter().map(|one| (one.to, 0)).collect();
                self.inodes.note_moving(*ino, 0);
                return [self.fence(*ino, *vacate, objects), None];
            }
            Change::MoveKept { ino, record } => self.moves.insert(*ino, record.clone()),
            Change::Detoured { ino, layout, seal, vacate, at } => {
                return self.take_detour(*ino, layout, (*seal, *vacate), *at);
            }
            Change::LaidOut { ino, layout, asked, at } => {
                self.change(*ino, |inode| {
                    inode.changed = *at;
                    if let Some(file) = inode.regular_mut() {
                        file.epoch += 1;
                        file.layout_epoch = file.epoch;
                        file.layout = layout.clone();
                        file.asked = Some(asked.clone());
                    }
                });
            }
            _ => {}
        }
        [None, None]
    }

    fn begin_moving(&mut self, ino: Ino, client: ClientId, moves: &[ObjectMove], prepare: IntentId) -> Begun {
        let begun = self.change_file(ino, |file| {
            // From here on the file leaves objects behind at the new places, however the move ends.
            file.untouched_start = 0;
            let mut former = file.former.to_vec();
            former.extend(moves.iter().map(|one| one.to));
            former.sort_unstable();
            former.dedup();
            file.former = former.into();
            file.moving_objects = moves.len() as u32;
        });
        if begun.is_none() {
            return [None, None];
        }
        let objects = moves.iter().map(|one| (one.to, 0)).collect();
        let fence = self.fence(ino, prepare, objects);
        self.moves.insert(ino, MoveRecord { id: prepare, client, moves: moves.to_vec(), freeze: None });
        [fence, None]
    }

    /// Raises the file's epoch: the intent raises the epochs of objects that its clients do not use.
    fn fence(
        &mut self,
        ino: Ino,
        id: IntentId,
        objects: Vec<(TargetId, u64)>,
    ) -> Option<(IntentId, u32, Intent)> {
        let epoch = self.change_file(ino, |file| {
            file.epoch += 1;
            file.epoch
        })?;
        Some((id, self.owner_of(ino), Intent::Fence { ino, epoch, objects }))
    }

    fn relay(&mut self, ino: Ino, seal: IntentId, vacate: IntentId) -> Begun {
        let Some(record) = self.moves.remove(ino) else { return [None, None] };
        let relaid = self.change_file(ino, |file| {
            file.moving_objects = 0;
            file.layout = substituted(&file.layout, &record.moves)?;
            file.epoch += 1;
            file.layout_epoch = file.epoch;
            file.placement = Record { by: MOVED.into(), ..Record::default() }.encode().into();
            let mut former = file.former.to_vec();
            former.extend(record.moves.iter().map(|one| one.from));
            former.retain(|target| !file.layout.targets().contains(target));
            file.former = former.into();
            let place = |target| file.layout.targets().iter().position(|&other| other == target);
            let copy =
                |one: &ObjectMove| Some((one.to, file.layout.object_bytes(place(one.to)?, file.size_bytes)));
            Some((file.epoch, record.moves.iter().filter_map(copy).collect()))
        });
        let Some((epoch, copies)) = relaid.flatten() else { return [None, None] };
        let left = record.moves.iter().map(|one| (one.from, 0)).collect();
        let uid = self.owner_of(ino);
        [
            Some((seal, uid, Intent::Seal { ino, epoch, objects: copies })),
            Some((vacate, uid, Intent::Fence { ino, epoch, objects: left })),
        ]
    }

    /// Takes over the layout of a detour. Nobody uses the file until its objects have the new epoch.
    fn take_detour(
        &mut self,
        ino: Ino,
        layout: &Layout,
        (seal, vacate): (IntentId, Option<IntentId>),
        at: Moment,
    ) -> Begun {
        let detoured = self.change(ino, |inode| {
            inode.changed = at;
            let file = inode.regular_mut()?;
            let dropped = dropped(&file.layout, layout);
            let mut former: Vec<TargetId> = file.former.iter().chain(&dropped).copied().collect();
            former.retain(|target| !layout.targets().contains(target));
            former.sort_unstable();
            former.dedup();
            file.former = former.into();
            file.layout = layout.clone();
            file.epoch += 1;
            file.layout_epoch = file.epoch;
            // The objects have an epoch from here on, even if nobody writes.
            file.untouched_start = 0;
            Some((file.epoch, file.size_bytes, dropped))
        });
        let Some((epoch, size_bytes, dropped)) = detoured.flatten() else { return [None, None] };
        let targets = layout.targets().iter().enumerate();
        let objects =
            targets.map(|(object, &target)| (target, layout.object_bytes(object, size_bytes))).collect();
        let uid = self.owner_of(ino);
        let vacated = vacate.map(|vacate| {
            let objects = dropped.into_iter().map(|target| (target, 0)).collect();
            (vacate, uid, Intent::Fence { ino, epoch, objects })
        });
        [Some((seal, uid, Intent::Seal { ino, epoch, objects })), vacated]
    }
}

/// The places of a file's layout that another layout does not have.
pub(crate) fn dropped(layout: &Layout, other: &Layout) -> Vec<TargetId> {
    layout.targets().iter().filter(|target| !other.targets().contains(target)).copied().collect()
}

/// The layout after moves to other targets: every byte keeps its object and its offset in the object.
fn substituted(layout: &Layout, moves: &[ObjectMove]) -> Option<Layout> {
    let now = |target: &TargetId| moves.iter().find(|one| one.from == *target).map_or(*target, |one| one.to);
    let components = layout.components().iter().map(|component| Component {
        targets: component.targets.iter().map(now).collect(),
        ..component.clone()
    });
    Layout::new(components.collect()).ok()
}
