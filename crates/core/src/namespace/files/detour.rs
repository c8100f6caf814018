//! Detours around full targets: from its end on a file goes to other targets, as far as the request for its layout leaves the
//! choice to the store.
//!
//! Published bytes stay in their places, at their offsets, in the old layout and in the new one. So a detour cuts off unpublished
//! bytes alone, also at places that the new layout does not have. These objects refuse writes by the old layout, or the home
//! refuses the publication of such a write.

use super::layout;
use super::relocation::dropped;
use super::Files;
use crate::namespace::change::{Change, OutcomeKind};
use crate::namespace::decision::{Decision, Step};
use crate::namespace::draft::Draft;
use crate::namespace::errno::{of_refusal, EINVAL};
use weir_placement::online::Placed;
use weir_placement::TargetId;
use weir_wire::{limits, Capability};

impl Files {
    /// Lays the part of a file behind its end on targets that are not `full`. A client with an older layout gets the present one.
    /// Without full targets the layout stays, and unpublished bytes are cut off.
    pub(crate) fn detour(
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
        if full.is_empty() {
            self.moves.abandon(&mut draft, ino)?;
            let cut = draft.intent()?;
            draft.wait.push(cut);
            let (size_bytes, at) = (file.size_bytes, draft.now);
            draft.push(Change::Resized { ino, size_bytes, permissions: None, cut: Some(cut), at });
            return Ok(draft.done_once(OutcomeKind::Layout(ino)));
        }
        let asked = file.asked.as_deref();
        let Placed { layout, record } = self
            .places
            .placer()
            .place_behind(&file.layout, asked, file.size_bytes, full)
            .map_err(of_refusal)?;
        self.moves.abandon(&mut draft, ino)?;
        let seal = draft.intent()?;
        draft.wait.push(seal);
        let at = draft.now;
        let vacate = match dropped(&file.layout, &layout).is_empty() {
            true => None,
            false => Some(draft.intent()?),
        };
        draft.push(Change::Detoured { ino, layout, seal, vacate, at });
        draft.push(layout::placement(ino, &record, at));
        Ok(draft.done_once(OutcomeKind::Layout(ino)))
    }
}
