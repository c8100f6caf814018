//! The changes that file calls of a piece of work have made, and what they met.

use super::names::{Aside, NameSync};
use super::presence::Look;
use crate::requests::order::Place;
use crate::storage::files::{File, Sizes};
use std::io;
use std::sync::Arc;

/// The state of an object that its calls need; then the changes that they made, whatever their outcome, and the looks that they took.
#[derive(Default)]
pub struct Seen {
    pub(in crate::storage) place: Place,
    /// The object's open file, and whether a call opened it for the next ones as well.
    pub(in crate::storage) file: Option<File>,
    pub(in crate::storage) is_opened: bool,
    /// Names of the object's subdirectory that no sync has covered; none once a call has.
    pub(in crate::storage) unsynced: Option<NameSync>,
    pub(in crate::storage) are_names_synced: bool,
    /// A call made the object, or put it back.
    pub(in crate::storage) is_made: bool,
    pub(in crate::storage) sizes: Option<Sizes>,
    /// The looks at the sizes before the call began.
    pub(in crate::storage) looks: u64,
    /// A call has written to the object with success.
    pub(in crate::storage) is_written: bool,
    pub(in crate::storage) is_removed: bool,
    /// The target records an epoch of the object.
    pub(in crate::storage) has_epoch: bool,
    /// The epoch that the target records from now on; 0 where it records none.
    pub(in crate::storage) epoch: Option<u64>,
    /// The object is aside.
    pub(in crate::storage) aside: Option<Aside>,
    pub(in crate::storage) discarded: Option<Aside>,
    pub(in crate::storage) look: Option<Look>,
    /// Some of the reserve is missing, and is filled again where calls give room.
    pub(in crate::storage) wants_refill: bool,
    /// Some of the reserve was given, and whether it is whole now.
    pub(in crate::storage) reserve: Option<bool>,
}

impl Seen {
    pub(in crate::storage) fn of(place: Place) -> Seen {
        Seen { place, ..Seen::default() }
    }

    /// The number of the target.
    pub(crate) fn target(&self) -> usize {
        self.place.0
    }

    pub(super) fn opened(&mut self, file: File, is_made: bool) -> File {
        (self.is_opened, self.is_made) = (true, is_made);
        self.file = Some(Arc::clone(&file));
        file
    }

    /// Ends a call that wrote to the object. A file system may keep blocks that it gave before it refused.
    pub(super) fn ended(&mut self, file: &File, outcome: io::Result<()>) -> io::Result<()> {
        let outcome = outcome.and(self.recount(file));
        self.is_written |= outcome.is_ok();
        outcome
    }

    pub(super) fn recount(&mut self, file: &File) -> io::Result<()> {
        self.sizes = Some(file.sizes()?);
        Ok(())
    }
}
