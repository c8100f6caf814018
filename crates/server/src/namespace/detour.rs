//! Full targets: from its end on a file goes to others, as far as what was asked of its layout leaves that to the store.
//!
//! Bytes that were published stay where they are, at their offsets, in the old layout and in the new one. So only what
//! nobody was told of is cut off, and only objects of the new layout need the new epoch: whoever writes by the old layout
//! is refused there, or by the home when the write is published.

use super::change::{Change, Intent, IntentId, OutcomeKind};
use super::draft::Draft;
use super::errno::{of_refusal, EINVAL};
use super::state::State;
use super::{xattr, Decision, Namespace, Step};
use weir_placement::online::Placed;
use weir_placement::{Layout, TargetId};
use weir_wire::{limits, Capability, Ino, Moment};

impl Namespace {
    /// Lays what follows the end of a file on targets that are not `full`. A client whose layout is not the last one gets
    /// that.
    pub(super) fn detour(
        &self,
        mut draft: Draft<'_>,
        capability: &Capability,
        layout_epoch: u64,
        full: &[TargetId],
    ) -> Step<Decision> {
        let ino = capability.ino;
        let (_, file) = self.writable(draft.caller, capability)?;
        self.await_cut(ino)?;
        if full.len() > limits::STRIPES {
            return Err(EINVAL.into());
        }
        if layout_epoch < file.layout_epoch {
            return Ok(draft.reply(self.layout_reply(ino)?));
        }
        let asked = file.asked.as_deref();
        let Placed { layout, record } =
            self.targets.place_behind(&file.layout, asked, file.size_bytes, full).map_err(of_refusal)?;
        self.abandon_for_cut(&mut draft, ino)?;
        let seal = draft.intent()?;
        draft.wait.push(seal);
        let at = draft.now;
        draft.push(Change::Detoured { ino, layout, seal, at });
        draft.push(xattr::placement(ino, &record, at));
        Ok(draft.done_once(OutcomeKind::Layout(ino)))
    }
}

impl State {
    /// Takes over the layout of a detour; nobody uses the file until its objects have the new epoch.
    pub(super) fn detour(&mut self, ino: Ino, layout: &Layout, seal: IntentId, at: Moment) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        inode.changed = at;
        let Some(file) = inode.regular_mut() else { return };
        let mut former: Vec<TargetId> = file.former.iter().chain(file.layout.targets()).copied().collect();
        former.retain(|target| !layout.targets().contains(target));
        former.sort_unstable();
        former.dedup();
        file.former = former.into();
        file.layout = layout.clone();
        file.epoch += 1;
        file.layout_epoch = file.epoch;
        // The objects have an epoch from here on, whatever is written.
        file.untouched_start = 0;
        let targets = layout.targets().iter().enumerate();
        let length = |object| layout.object_bytes(object, file.size_bytes);
        let objects = targets.map(|(object, &target)| (target, length(object))).collect();
        let epoch = file.epoch;
        self.intend(seal, Intent::Seal { ino, epoch, objects });
    }
}
