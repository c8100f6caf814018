//! Files with holes: their missing objects are no loss.
//!
//! A file without holes was written from front to end, so each of its objects exists and reaches as far as its layout says. The
//! records of its growth tell: a write that begins behind the end of the file allocates less than the file grows by. Such a file
//! counts as one with holes until it is emptied, although later writes may fill them.

use super::change::Change;
use super::inode::allocation_of;
use super::state::State;
use weir_wire::Ino;

/// Size and allocated bytes of a file.
pub(super) type Extent = (u64, u64);

impl State {
    pub(super) fn extent(&self, ino: Ino) -> Option<Extent> {
        self.regular(ino).map(|file| (file.size_bytes, file.allocated_bytes))
    }

    /// Notes whether a file has holes from now on. A file had no bytes `before` it was there.
    pub(super) fn note_holes(&mut self, ino: Ino, before: Option<Extent>) {
        let Some((size, allocated)) = self.extent(ino).filter(|(size, _)| *size > 0) else {
            self.holed.remove(&ino);
            return;
        };
        let (size_before, allocated_before) = before.unwrap_or_default();
        let growth = size.saturating_sub(size_before);
        let without_holes = allocated_before.saturating_add(growth).min(allocation_of(size));
        if growth > 0 && allocated < without_holes {
            self.holed.insert(ino);
        }
    }

    /// The records of a snapshot about files with holes.
    pub(super) fn kept_holes(&self) -> impl Iterator<Item = Change> + '_ {
        self.holed.iter().map(|&ino| Change::HolesKept { ino })
    }
}
