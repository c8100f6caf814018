//! Objects of which a sync failed. The device tells of lost bytes once, so the server tells each open description of the file once that was
//! open then, as Linux does (`errseq_t`).

use super::order::Place;
use std::collections::{HashMap, HashSet, VecDeque};
use weir_wire::{Capability, HandleId};

/// Objects that are remembered: one more drops the oldest. A device that loses bytes of more has its failures in the log.
const OBJECTS_MAX: usize = 1024;
/// Descriptions of one object that are told; where more ask, the object is forgotten.
const TOLD_MAX: usize = 4096;

/// The objects, by their places.
#[derive(Debug, Default)]
pub(crate) struct FailedSyncs {
    objects: HashMap<Place, Failed>,
    oldest: VecDeque<Place>,
}

/// The last failure of an object's sync.
#[derive(Debug)]
struct Failed {
    unix_seconds: u64,
    /// The latest description that met a failure. A home numbers descriptions in the order of their opening.
    latest: HandleId,
    told: HashSet<HandleId>,
}

impl FailedSyncs {
    /// The sync for a description failed, at this moment of the wall clock.
    pub(crate) fn note(&mut self, place: Place, of: &Capability, unix_seconds: u64) {
        let before = self.objects.remove(&place);
        if before.is_none() {
            self.oldest.push_back(place);
        }
        let latest = before.map_or(of.handle, |before| before.latest.max(of.handle));
        self.objects.insert(place, Failed { unix_seconds, latest, told: HashSet::from([of.handle]) });
        if self.objects.len() > OBJECTS_MAX {
            let oldest = self.oldest.pop_front();
            oldest.and_then(|place| self.objects.remove(&place));
        }
    }

    /// Whether a description that was open at the last failure has not been told of it yet; it counts as told from now on.
    pub(crate) fn tell(&mut self, place: Place, of: &Capability) -> bool {
        let Some(failed) = self.objects.get_mut(&place) else { return false };
        let was_open = of.handle < failed.latest || of.issued_seconds < failed.unix_seconds;
        if !was_open || !failed.told.insert(of.handle) {
            return false;
        }
        if failed.told.len() > TOLD_MAX {
            self.objects.remove(&place);
            self.oldest.retain(|other| *other != place);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{Description, Ino, Rights, SiteKey};

    const PLACE: Place = (0, Ino(7));

    fn of(handle: u64, issued_seconds: u64) -> Capability {
        let of = Description { ino: PLACE.1, handle: HandleId(handle), uid: 0 };
        SiteKey::new([1; 32]).capability(of, Rights { read: true, write: true }, issued_seconds)
    }

    /// The second program that synced a file after its device had lost bytes was once told that all was well.
    #[test]
    fn each_description_that_was_open_is_told_once_of_each_failure() {
        let mut failed = FailedSyncs::default();
        let (first, second, earlier, later) = (of(5, 100), of(4, 100), of(9, 99), of(6, 100));
        assert!(!failed.tell(PLACE, &first));
        failed.note(PLACE, &first, 100);
        for (what, description, is_told) in [
            ("the one that met the failure", first, false),
            ("one before it", second, true),
            ("the same again", second, false),
            ("one of the second before", earlier, true),
            ("one that was opened since", later, false),
        ] {
            assert_eq!(failed.tell(PLACE, &description), is_told, "{what}");
        }
        assert!(!failed.tell((1, PLACE.1), &second), "another target");
        failed.note(PLACE, &later, 100);
        assert!(failed.tell(PLACE, &first) && failed.tell(PLACE, &second) && !failed.tell(PLACE, &later));
    }

    #[test]
    fn objects_and_descriptions_are_bounded() {
        let mut failed = FailedSyncs::default();
        for object in 0..2 * OBJECTS_MAX as u64 {
            failed.note((0, Ino(object)), &of(5, 100), 100);
        }
        assert_eq!((failed.objects.len(), failed.oldest.len()), (OBJECTS_MAX, OBJECTS_MAX));
        let last = (0, Ino(2 * OBJECTS_MAX as u64 - 1));
        let told = (10..2 * TOLD_MAX as u64).filter(|&handle| failed.tell(last, &of(handle, 99))).count();
        assert_eq!(
            (told, failed.objects.len(), failed.oldest.len()),
            (TOLD_MAX, OBJECTS_MAX - 1, OBJECTS_MAX - 1)
        );
    }
}
