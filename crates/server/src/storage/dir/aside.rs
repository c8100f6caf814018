//! Objects that were emptied before the record which says so was on stable storage: set aside whole, under another name.
//!
//! Renaming is one step for the file system below, so after a power loss the bytes are under one of the two names. When the
//! record is durable the object set aside is discarded. When the server starts, the journal is asked: what it knows of is
//! discarded, what it does not know of is put back.

use super::{lock, removed, subdirectory_of, Dir};
use crate::storage::TargetFailure;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::PoisonError;
use weir_wire::Ino;

/// An object that was set aside: whose, and at which epoch it was emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Aside {
    pub(super) ino: Ino,
    epoch: u64,
}

/// What became of a cut that must be undoable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Done: no byte went.
    Done,
    /// Done: the bytes are aside.
    SetAside(Aside),
    /// Not done, and nothing changed: a part of the object would go. It has to wait for the journal.
    NotYet,
}

/// What the journal knows of a file whose home this server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The home is another server.
    Elsewhere,
    /// There is no such file any more.
    Gone,
    /// There is no such file: a power loss took the record that made it.
    Lost,
    /// The epoch of the last cut that was decided.
    File { decided: u64 },
}

/// What putting a target right came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Objects that were emptied by a cut of which no record is left, and have their bytes again.
    pub(crate) restored: u64,
    /// Objects of files of which no record is left.
    pub(crate) removed: u64,
}

const ASIDE_PREFIX: &str = "aside-";

impl Aside {
    /// By the name of a file, if it is one of those.
    pub(super) fn parse(name: &str) -> Option<Aside> {
        let (ino, extension) = name.split_once('.')?;
        let epoch = extension.strip_prefix(ASIDE_PREFIX)?;
        Some(Aside { ino: super::parse_ino(ino)?, epoch: u64::from_str_radix(epoch, 16).ok()? })
    }
}

impl Dir {
    /// As [`Dir::truncate`], before the record of the cut is durable: whatever is done can be undone.
    ///
    /// # Errors
    /// The device failed; the home will ask again.
    pub(crate) fn cut_undoably(&self, ino: Ino, length: u64, epoch: u64) -> Result<Cut, TargetFailure> {
        let _alone = self.lock(ino).write().unwrap_or_else(PoisonError::into_inner);
        if lock(&self.epochs).get(&ino).is_some_and(|&known| known >= epoch) {
            return Ok(Cut::Done);
        }
        let Some(open) = self.existing(ino)? else {
            self.raise_epoch(ino, epoch)?;
            return Ok(Cut::Done);
        };
        if open.file.metadata()?.len() <= length {
            self.raise_epoch(ino, epoch)?;
            return Ok(Cut::Done);
        }
        if length > 0 {
            return Ok(Cut::NotYet);
        }
        let aside = Aside { ino, epoch };
        fs::rename(self.path(ino), self.aside_path(aside))?;
        lock(&self.objects).set_aside(aside);
        self.names_changed(ino);
        lock(&self.set_aside).insert(subdirectory_of(ino));
        self.raise_epoch(ino, epoch)?;
        Ok(Cut::SetAside(aside))
    }

    /// Frees an object that was set aside: the record of its cut is durable.
    ///
    /// # Errors
    /// The device failed; the next start will try again.
    pub(crate) fn discard(&self, aside: Aside) -> Result<(), TargetFailure> {
        if self.remove_aside(aside)? {
            self.reserve.refill();
        }
        Ok(())
    }

    /// Brings the objects to what the journal knows, when the server starts: each object set aside is discarded or put
    /// back, no epoch is ahead of its file's, and what no record is left of goes.
    ///
    /// # Errors
    /// What the file system answers.
    pub(crate) fn settle(&self, known: impl Fn(Ino) -> Known) -> io::Result<Settled> {
        let found = std::mem::take(&mut *lock(&self.found));
        let mut settled = Settled::default();
        let mut changed = BTreeSet::new();
        for (ino, epochs) in asides_by_object(&found.asides) {
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
        let recorded: Vec<(Ino, u64)> =
            lock(&self.epochs).iter().map(|(&ino, &epoch)| (ino, epoch)).collect();
        for (ino, recorded) in recorded {
            if let Known::File { decided } = known(ino) {
                if recorded > decided {
                    changed.insert(subdirectory_of(ino));
                    self.set_epoch(ino, decided)?;
                }
            }
        }
        // Else what was put back could be taken for discarded, once the file has got that epoch in another way.
        self.sync_names(changed)?;
        Ok(settled)
    }

    /// The objects of these files refuse who knows an older epoch, also where a power loss took the record of it here.
    pub(crate) fn raise_known_epochs(&self, files: impl Iterator<Item = (Ino, u64)>) {
        let mut epochs = lock(&self.epochs);
        for (ino, epoch) in files {
            let known = epochs.entry(ino).or_default();
            *known = (*known).max(epoch);
        }
    }

    /// Makes durable that objects were set aside since the last call. Called before the journal is synced, where it lies on
    /// another device than this target: a file system alone keeps the order of its names, two do not.
    ///
    /// # Errors
    /// The device failed; the names stay noted.
    pub(crate) fn sync_asides(&self) -> io::Result<()> {
        let changed = std::mem::take(&mut *lock(&self.set_aside));
        let synced = self.sync_names(changed.clone());
        synced.inspect_err(|_| lock(&self.set_aside).extend(changed))
    }

    fn sync_names(&self, changed: BTreeSet<usize>) -> io::Result<()> {
        changed.into_iter().try_for_each(|number| self.names[number].sync(&self.subdirectory(number as u64)))
    }

    /// Discards what was decided, puts back what was not: the object as it was before the first cut of which no record
    /// is left. Tells whether there was one.
    fn settle_asides(&self, ino: Ino, epochs: &[u64], decided: u64) -> io::Result<bool> {
        let first_undecided = epochs.iter().copied().find(|&epoch| epoch > decided);
        for &epoch in epochs.iter().filter(|&&epoch| Some(epoch) != first_undecided) {
            self.remove_aside(Aside { ino, epoch })?;
        }
        let Some(epoch) = first_undecided else { return Ok(false) };
        let aside = Aside { ino, epoch };
        fs::rename(self.aside_path(aside), self.path(ino))?;
        let replaced_bytes = lock(&self.objects).put_back(aside);
        self.count(replaced_bytes, 0);
        self.names_changed(ino);
        Ok(true)
    }

    /// Takes an epoch back to what the journal knows.
    fn set_epoch(&self, ino: Ino, epoch: u64) -> io::Result<()> {
        self.names_changed(ino);
        if epoch == 0 {
            lock(&self.epochs).remove(&ino);
            return match fs::remove_file(self.epoch_path(ino)) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        lock(&self.epochs).insert(ino, epoch);
        self.record_epoch(ino, epoch)
    }

    fn raise_epoch(&self, ino: Ino, epoch: u64) -> io::Result<()> {
        self.record_epoch(ino, epoch)?;
        lock(&self.epochs).insert(ino, epoch);
        Ok(())
    }

    fn aside_path(&self, aside: Aside) -> PathBuf {
        self.path(aside.ino).with_extension(format!("{ASIDE_PREFIX}{:016x}", aside.epoch))
    }

    /// Removes an object that was set aside; tells whether there was one.
    fn remove_aside(&self, aside: Aside) -> io::Result<bool> {
        let was_there = removed(&self.aside_path(aside))?;
        let bytes = lock(&self.objects).forget_aside(aside);
        self.count(bytes, 0);
        Ok(was_there)
    }
}

/// The names that a target had when it was opened, until it is settled.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) objects: Vec<Ino>,
    pub(super) asides: Vec<Aside>,
}

fn asides_by_object(asides: &[Aside]) -> BTreeMap<Ino, Vec<u64>> {
    let mut objects: BTreeMap<Ino, Vec<u64>> = BTreeMap::new();
    for aside in asides {
        objects.entry(aside.ino).or_default().push(aside.epoch);
    }
    objects.values_mut().for_each(|epochs| epochs.sort_unstable());
    objects
}
