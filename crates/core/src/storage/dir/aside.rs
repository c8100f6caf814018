//! Objects that a cut emptied before the record of the cut was on stable storage: the cut sets them aside whole, under another
//! name.
//!
//! A renaming is one step for the file system below, so after a power loss the bytes are under one of the two names. When the
//! record is durable, the target discards the object set aside. When the server starts, the target asks the journal: it
//! discards the objects whose cuts the journal knows, and puts all others back.

use super::names::{self, lock, subdirectory_of, Aside};
use super::{Dir, TargetFailure};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::storage::files::Opening;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use weir_wire::Ino;

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
    /// Cuts as [`Dir::truncate`] does, before the record of the cut is durable: the next start can undo the cut.
    ///
    /// # Errors
    /// The device failed; the home will ask again.
    pub fn cut_undoably(&self, ino: Ino, length: u64, epoch: u64) -> Result<Cut, TargetFailure> {
        self.presence.check()?;
        if lock(&self.epochs).get(&ino).is_some_and(|&known| known >= epoch) {
            return Ok(Cut::Done);
        }
        let open = self.existing(ino)?;
        if length > 0 {
            if let Some(open) = &open {
                if open.file.length()? > length {
                    return Ok(Cut::NotYet);
                }
            }
            self.raise_epoch(ino, epoch)?;
            return Ok(Cut::Done);
        }
        let aside = Aside { ino, epoch };
        if open.is_some() {
            self.folder.rename(&names::object(ino), &names::aside(aside))?;
        } else {
            // An empty object stands for the hole: whatever is written after the cut goes with it when the cut is undone.
            self.within_reserve(|| self.new_file(&names::aside(aside)))?;
        }
        lock(&self.objects).set_aside(aside);
        self.names_changed(ino);
        lock(&self.set_aside).insert(subdirectory_of(ino));
        let raised = self.raise_epoch(ino, epoch);
        if raised.is_err() {
            // The home will ask again, and must find everything as it was.
            if open.is_some() {
                self.put_back(aside)?;
            } else {
                self.remove_aside(aside)?;
            }
        }
        raised?;
        Ok(Cut::SetAside(aside))
    }

    /// Removes an object that was set aside, once the record of its cut is durable.
    ///
    /// # Errors
    /// The device failed; the next start will try again.
    pub fn discard(&self, aside: Aside) -> Result<(), TargetFailure> {
        if self.remove_aside(aside)? {
            self.reserve.refill();
        }
        Ok(())
    }

    /// Makes the objects agree with the journal, when the server starts. Each object set aside is discarded or put back. No epoch
    /// is ahead of its file's. Objects of files without a record are removed.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn settle(&self, known: impl Fn(Ino) -> Known) -> io::Result<Settled> {
        let found = std::mem::take(&mut *lock(&self.found));
        let mut settled = Settled::default();
        let mut changed = BTreeSet::new();
        for (ino, epochs) in found.asides_by_object() {
            changed.insert(subdirectory_of(ino));
            match known(ino) {
                Known::File { decided } => {
                    let is_restored = self.settle_asides(ino, &epochs, decided)?;
                    settled.restored += u64::from(is_restored);
                }
                Known::Gone | Known::Lost => _ = self.settle_asides(ino, &epochs, u64::MAX)?,
                Known::Elsewhere => {}
            }
        }
        for ino in found.objects {
            if known(ino) == Known::Lost {
                changed.insert(subdirectory_of(ino));
                self.remove(ino)
                    .map_err(|failure| io::Error::from_raw_os_error(i32::from(failure.errno().0)))?;
                settled.removed += 1;
            }
        }
        // In their order, so that a start makes the same changes each time.
        let recorded: BTreeMap<Ino, u64> =
            lock(&self.epochs).iter().map(|(&ino, &epoch)| (ino, epoch)).collect();
        for (ino, recorded) in recorded {
            if let Known::File { decided } = known(ino) {
                if recorded > decided {
                    changed.insert(subdirectory_of(ino));
                    self.set_epoch(ino, decided)?;
                }
            }
        }
        // Otherwise a later start could discard an object that was put back, once the file has got that epoch in another way.
        self.sync_all_names(&changed)?;
        Ok(settled)
    }

    /// Raises the epochs of objects to those of their files: the objects refuse older epochs, also after a power loss that took
    /// the records of epochs here.
    pub(crate) fn raise_known_epochs(&self, files: impl Iterator<Item = (Ino, u64)>) {
        let mut epochs = lock(&self.epochs);
        for (ino, epoch) in files {
            let known = epochs.entry(ino).or_default();
            *known = (*known).max(epoch);
        }
    }

    /// Makes the names of all objects durable that were set aside since the last call. The server calls this before it syncs a
    /// journal on another device than this target's: one file system keeps the order of its names, two do not.
    ///
    /// # Errors
    /// The device failed; the next call tries these names again.
    pub(crate) fn sync_asides(&self) -> io::Result<()> {
        let changed = std::mem::take(&mut *lock(&self.set_aside));
        let synced = self.sync_all_names(&changed);
        synced.inspect_err(|_| lock(&self.set_aside).extend(changed))
    }

    fn sync_all_names(&self, subdirectories: &BTreeSet<usize>) -> io::Result<()> {
        subdirectories.iter().try_for_each(|&number| self.sync_names(number))
    }

    /// Discards the asides of decided cuts, and puts the object back as it was before the first cut that was not decided. Answers
    /// whether there was such a cut.
    fn settle_asides(&self, ino: Ino, epochs: &[u64], decided: u64) -> io::Result<bool> {
        #[cfg(any(test, feature = "world"))]
        let decided = if mutants::is(Mutant::CutsUndone) { 0 } else { decided };
        let first_undecided = epochs.iter().copied().find(|&epoch| epoch > decided);
        for &epoch in epochs.iter().filter(|&&epoch| Some(epoch) != first_undecided) {
            self.remove_aside(Aside { ino, epoch })?;
        }
        let Some(epoch) = first_undecided else { return Ok(false) };
        self.put_back(Aside { ino, epoch })?;
        Ok(true)
    }

    /// Gives an object set aside its name again, in place of the object that has the name now.
    fn put_back(&self, aside: Aside) -> io::Result<()> {
        self.folder.rename(&names::aside(aside), &names::object(aside.ino))?;
        let replaced_bytes = lock(&self.objects).put_back(aside);
        self.count(replaced_bytes, 0);
        self.names_changed(aside.ino);
        Ok(())
    }

    /// Takes an epoch back to the journal's.
    fn set_epoch(&self, ino: Ino, epoch: u64) -> io::Result<()> {
        self.names_changed(ino);
        if epoch == 0 {
            lock(&self.epochs).remove(&ino);
            return self.folder.remove(&names::epoch(ino)).map(drop);
        }
        lock(&self.epochs).insert(ino, epoch);
        self.record_epoch(ino, epoch, false)
    }

    fn raise_epoch(&self, ino: Ino, epoch: u64) -> io::Result<()> {
        self.record_epoch(ino, epoch, false)?;
        lock(&self.epochs).insert(ino, epoch);
        Ok(())
    }

    /// Removes an object that was set aside; answers whether there was one.
    fn remove_aside(&self, aside: Aside) -> io::Result<bool> {
        let was_there = self.folder.remove(&names::aside(aside))?;
        let bytes = lock(&self.objects).forget_aside(aside);
        self.count(bytes, 0);
        Ok(was_there)
    }

    /// Makes an empty file.
    fn new_file(&self, name: &Path) -> io::Result<()> {
        self.folder.open(name, Opening::Empty).map(drop)
    }
}
