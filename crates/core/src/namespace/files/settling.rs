//! The objects of files that intents are about to change: the epochs that targets must have, and the files that went meanwhile.

use super::Files;
use crate::namespace::change::Change;
use crate::namespace::intents::{Intent, IntentId, Intents};
use crate::storage::Known;
use weir_placement::TargetId;
use weir_wire::Ino;

impl Files {
    /// The journal's knowledge about the objects of `ino`, for `Namespace::known`.
    pub(crate) fn known(&self, intents: &Intents, ino: Ino, lost_power: bool) -> Known {
        if ino.home() != self.server {
            return Known::Elsewhere;
        }
        let Some(file) = self.regular(ino) else {
            return if lost_power { Known::Lost } else { Known::Gone };
        };
        let cut = self.cut_of(ino).and_then(|id| intents.get(id));
        let cut = cut.map_or(0, |intent| match intent {
            Intent::Cut { epoch, .. } | Intent::Seal { epoch, .. } => *epoch,
            _ => 0,
        });
        Known::File { decided: file.epoch.max(cut) }
    }

    /// The objects on `target`, present or former, by their numbers there, and the epochs of their files. Files whose objects are
    /// about to get their epochs are left out.
    pub(crate) fn epochs_on(&self, target: TargetId) -> impl Iterator<Item = (Ino, u64)> + '_ {
        self.inodes.iter().flat_map(move |(&ino, inode)| {
            let file = inode.regular().filter(|file| file.epoch > 0 && !self.is_settling(ino));
            let places = file.into_iter().flat_map(|file| {
                let places = file.layout.targets().iter().chain(&file.former);
                places.map(|&place| (place, file.epoch))
            });
            let there = places.filter(move |(place, _)| place.device() == target);
            there.map(move |(place, epoch)| (ino.object_on(place), epoch))
        })
    }

    /// Disposes of a file that lost its last name and description while effects on its objects were under way, unless an intent
    /// beside `settled` still has such effects.
    pub(crate) fn dispose_after(&self, intents: &Intents, settled: IntentId, ino: Ino) -> Option<Change> {
        let nameless = self.get(ino).is_some_and(|inode| inode.names == 0);
        let fenced = u32::from(matches!(intents.get(settled), Some(Intent::Fence { .. })));
        let is_settling = self.cut_of(ino).is_some_and(|id| id != settled)
            || self.moves.get(ino).is_some()
            || self.fences.get(&ino).is_some_and(|&count| count > fenced);
        let due = nameless && !is_settling && !self.open.is_open(ino) && !self.in_grace;
        due.then_some(Change::Disposed { ino, removal: Some(intents.next()) })
    }
}
