//! Objects that a cut emptied before the record of the cut was on stable storage: the cut sets them aside whole, under another
//! name.
//!
//! A renaming is one step for the file system below, so after a power loss the bytes are under one of the two names. When the
//! record is durable, the target discards the object set aside. When the server starts, the target asks the journal: it
//! discards the objects whose cuts the journal knows, and puts all others back.

use super::names::{self, Aside};
use super::seen::Seen;
use super::Dir;
use crate::storage::files::Opening;
use std::io;

/// The result of a cut that must be undoable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The cut is done, and removed no byte.
    Done,
    /// The cut is done, and the object before it is aside: an empty one where there was none.
    SetAside(Aside),
    /// The cut is not done, and nothing changed: a part of the object would go. The cut has to wait for the journal.
    NotYet,
}

/// The journal's knowledge about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The home is another server.
    Elsewhere,
    /// The file was removed.
    Gone,
    /// There is no file: a power loss took the record that made it, or brought an object back whose removal was recorded.
    Lost,
    /// The file is there, with the epoch of the last decided cut.
    File {
        /// The epoch of that cut.
        decided: u64,
    },
}

/// The work of settling a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Emptied objects that have their bytes again, as no record of the cut is left.
    pub(crate) restored: u64,
    /// Removed objects, as no record of their files is left.
    pub(crate) removed: u64,
}

impl Dir {
    /// Cuts the object before the record of the cut is durable: the next start can undo the cut.
    pub(super) fn cut_undoably(&self, seen: &mut Seen, length: u64, epoch: u64) -> io::Result<Cut> {
        let file = self.existing(seen)?;
        if length > 0 {
            if let Some(file) = file {
                if file.length()? > length {
                    return Ok(Cut::NotYet);
                }
            }
            self.record_epoch(seen, epoch, false)?;
            return Ok(Cut::Done);
        }
        let aside = Aside { ino: seen.place.1, epoch };
        let (object, name) = (names::object(aside.ino), names::aside(aside));
        match &file {
            Some(_) => self.folder.rename(&object, &name)?,
            // An empty object stands for the hole: whatever is written after the cut goes with it when the cut is undone.
            None => self.within_reserve(seen, || self.folder.open(&name, Opening::Empty).map(drop))?,
        }
        seen.aside = Some(aside);
        let raised = self.record_epoch(seen, epoch, false);
        if raised.is_err() {
            // The home will ask again, and must find everything as it was.
            match &file {
                Some(_) => self.folder.rename(&name, &object)?,
                None => _ = self.folder.remove(&name)?,
            }
            (seen.aside, seen.is_made) = (None, true);
        }
        raised.map(|()| Cut::SetAside(aside))
    }

    /// Removes an object that was set aside, once the record of its cut is durable.
    pub(super) fn discard(&self, seen: &mut Seen, aside: Aside) -> io::Result<()> {
        let was_there = self.folder.remove(&names::aside(aside))?;
        seen.discarded = Some(aside);
        if was_there {
            self.refill(seen);
        }
        Ok(())
    }
}
