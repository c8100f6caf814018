//! The files of a `dir` target: each object is a sparse file below a directory of a local file system.
//!
//! The calls may block, so workers make them. A call decides nothing about the target: [`Directory`](super::directory::Directory) has
//! decided before, and learns from [`Seen`] what a call has changed and met.

pub(super) mod aside;
pub(super) mod inventory;
#[cfg(test)]
mod law_tests;
pub(super) mod names;
pub(super) mod objects;
pub(super) mod presence;
pub(super) mod seen;
pub(super) mod work;

use super::failure::TargetFailure;
use super::files::{File, Opening, TargetFolder};
use super::reserve;
use super::stamp::{self, Stamp};
use presence::Look;
use seen::Seen;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use weir_wire::{Extent, Ino};

/// The folder of one target.
pub struct Dir {
    folder: Arc<dyn TargetFolder>,
    stamp: Option<Arc<Stamp>>,
}

impl Dir {
    pub(super) fn new(folder: Arc<dyn TargetFolder>, stamp: Option<Arc<Stamp>>) -> Dir {
        Dir { folder, stamp }
    }

    pub(super) fn folder(&self) -> &dyn TargetFolder {
        &*self.folder
    }

    /// The objects and their lengths, as the file system has them now.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn listed(&self) -> io::Result<Vec<(Ino, u64)>> {
        self.check_place()?;
        Dir::listed_in(&*self.folder)
    }

    /// As [`Dir::listed`], of a target that no server has open.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn listed_in(folder: &dyn TargetFolder) -> io::Result<Vec<(Ino, u64)>> {
        inventory::listed(folder)
    }

    /// Looks whether the target's folder is still there, and at its room.
    pub fn look(&self) -> Look {
        let path = self.folder.path().display();
        let found = self.check_place().map_err(|error| format!("{path}: {error}"));
        Look { found, free_bytes: self.folder.free_bytes().ok() }
    }

    /// Checks that the folder lies at its path, with its stamp: whoever removed the stamp removed the objects as well.
    fn check_place(&self) -> io::Result<()> {
        self.folder.check_place()?;
        let Some(stamp) = &self.stamp else { return Ok(()) };
        match self.folder.node_of(Path::new(stamp::NAME)) == Some(stamp.node()) {
            true => Ok(()),
            false => Err(io::Error::new(ErrorKind::NotFound, "its files are gone")),
        }
    }

    /// Brings the mark of the server's journal into the stamp of a folder that is there.
    pub fn keep_mark(&self, durable: u64) {
        if let Some(stamp) = &self.stamp {
            // A mark that is not written leaves an older one, which is true as well.
            let _ = stamp.write_mark(durable);
        }
    }

    /// The device below the target.
    pub fn device(&self) -> u64 {
        self.folder.node().device
    }

    /// The bytes of `ranges`, in order; holes read as zeros.
    fn read(&self, seen: &mut Seen, ranges: &[Extent]) -> io::Result<Vec<u8>> {
        let total: usize = ranges.iter().map(|range| range.length as usize).sum();
        let mut bytes = vec![0; total];
        let Some(file) = self.existing(seen)? else { return Ok(bytes) };
        let mut rest = bytes.as_mut_slice();
        for range in ranges {
            let (part, after) = rest.split_at_mut(range.length as usize);
            // Bytes past the end of the file stay zero.
            file.fill_at(part, range.offset)?;
            rest = after;
        }
        Ok(bytes)
    }

    /// Writes `bytes` to `ranges`, in order.
    fn write(&self, seen: &mut Seen, ranges: &[Extent], bytes: &[u8]) -> io::Result<()> {
        let file = self.made(seen)?;
        let mut rest = bytes;
        let mut outcome = Ok(());
        for range in ranges {
            let (part, after) = rest.split_at((range.length as usize).min(rest.len()));
            outcome = outcome.and_then(|()| file.write_all_at(part, range.offset));
            rest = after;
        }
        seen.ended(&file, outcome)
    }

    fn allocate(&self, seen: &mut Seen, offset: u64, length: u64) -> io::Result<()> {
        let file = self.made(seen)?;
        let done = file.allocate(offset, length);
        seen.ended(&file, done)
    }

    fn punch(&self, seen: &mut Seen, offset: u64, length: u64) -> io::Result<()> {
        let Some(file) = self.existing(seen)? else { return Ok(()) };
        let done = file.punch(offset, length);
        seen.ended(&file, done)
    }

    /// The next byte of data (or of a hole) at or after `offset`.
    fn seek(&self, seen: &mut Seen, offset: u64, data: bool) -> io::Result<Option<u64>> {
        match self.existing(seen)? {
            Some(file) if offset < file.length()? => file.seek(offset, data),
            _ => Ok((!data).then_some(offset)),
        }
    }

    /// Cuts the object, and records its epoch then: if the server dies in between, the home asks again for the cut.
    fn cut(&self, seen: &mut Seen, length: u64, epoch: u64, is_lasting: bool) -> io::Result<()> {
        if let Some(file) = self.existing(seen)? {
            if file.length()? > length {
                file.truncate(length)?;
                seen.recount(&file)?;
            }
        }
        self.record_epoch(seen, epoch, is_lasting)
    }

    /// Brings a cut of the object to stable storage, and `with_epoch` the record of its epoch.
    fn sync_cut(&self, seen: &mut Seen, with_epoch: bool) -> io::Result<()> {
        let object = seen.place.1;
        self.sync_file(seen)?;
        if with_epoch {
            match self.folder.open(&names::epoch(object), Opening::Read) {
                Ok(file) => file.sync_whole()?,
                // The object was removed since, and its epoch with it.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.folder.sync(&names::subdirectory(names::subdirectory_of(object)))
    }

    /// Records an epoch. With `is_lasting` the record is on stable storage before it takes the place of the one before: a sync of another
    /// object's name makes this name durable as well, and a power loss would leave an empty file in place of a durable epoch.
    pub(super) fn record_epoch(&self, seen: &mut Seen, epoch: u64, is_lasting: bool) -> io::Result<()> {
        let object = seen.place.1;
        let temporary = names::unfinished_epoch(object);
        let text = epoch.to_string();
        self.within_reserve(seen, || {
            let file = self.folder.open(&temporary, Opening::Empty)?;
            file.write_all_at(text.as_bytes(), 0)?;
            if is_lasting {
                file.sync_whole()
            } else {
                Ok(())
            }
        })?;
        self.folder.rename(&temporary, &names::epoch(object))?;
        seen.epoch = Some(epoch);
        Ok(())
    }

    /// Attempts what a full disk below must not refuse: the reserve of the target makes room.
    fn within_reserve<T>(&self, seen: &mut Seen, attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let mut done = attempt();
        while done.as_ref().is_err_and(is_full) && reserve::give(&*self.folder) {
            seen.reserve = Some(false);
            done = attempt();
        }
        done
    }

    /// Removes the object's file, and `with_epoch` the record of its epoch.
    fn remove(&self, seen: &mut Seen, with_epoch: bool) -> io::Result<()> {
        if self.folder.remove(&names::object(seen.place.1))? {
            // Its file is closed here: that may take time.
            (seen.is_removed, seen.file) = (true, None);
            self.refill(seen);
        }
        if with_epoch && seen.has_epoch {
            self.folder.remove(&names::epoch(seen.place.1))?;
            seen.epoch = Some(0);
        }
        Ok(())
    }

    /// Fills the reserve again where some of it is missing and there is room.
    fn refill(&self, seen: &mut Seen) {
        if seen.wants_refill && reserve::refill(&*self.folder) {
            seen.reserve = Some(true);
        }
    }

    /// Brings the object to stable storage: its bytes, and names that no sync has covered.
    fn sync(&self, seen: &mut Seen) -> io::Result<()> {
        let is_there = self.sync_file(seen)?;
        if let Some(changes) = seen.unsynced.filter(|_| is_there) {
            changes.run(&*self.folder)?;
            seen.are_names_synced = true;
        }
        Ok(())
    }

    /// Syncs the object's file; answers whether there is one. A cut may set the file aside meanwhile, so a file that is opened for this is
    /// not kept as the object's.
    fn sync_file(&self, seen: &mut Seen) -> io::Result<bool> {
        if let Some(file) = &seen.file {
            return file.sync().map(|()| true);
        }
        match self.folder.open(&names::object(seen.place.1), Opening::Change) {
            Ok(file) => file.sync().map(|()| true),
            Err(error) if error.kind() == ErrorKind::NotFound => self.look_for(seen).map(|()| false),
            Err(error) => Err(error),
        }
    }

    /// The object's open file. An absent object is believed only right after a look at the folder: a folder that is gone has none.
    fn existing(&self, seen: &mut Seen) -> io::Result<Option<File>> {
        if seen.file.is_some() {
            return Ok(seen.file.clone());
        }
        match self.folder.open(&names::object(seen.place.1), Opening::Change) {
            Ok(file) => Ok(Some(seen.opened(file.into(), false))),
            Err(error) if error.kind() == ErrorKind::NotFound => self.look_for(seen).map(|()| None),
            Err(error) => Err(error),
        }
    }

    /// The object's open file, which is made where there is none.
    fn made(&self, seen: &mut Seen) -> io::Result<File> {
        if let Some(file) = self.existing(seen)? {
            return Ok(file);
        }
        let file = self.folder.open(&names::object(seen.place.1), Opening::Make)?;
        Ok(seen.opened(file.into(), true))
    }

    /// Looks at the folder; EIO where it is gone.
    fn look_for(&self, seen: &mut Seen) -> io::Result<()> {
        let look = self.look();
        let is_there = look.found.is_ok();
        seen.look = Some(look);
        match is_there {
            true => Ok(()),
            false => Err(rustix::io::Errno::IO.into()),
        }
    }

    /// Notes why a call failed: whether the folder of a failed device is there, and the room of a full one.
    fn examine(&self, seen: &mut Seen, failure: TargetFailure) {
        if presence::is_of_a_device(failure) || failure == TargetFailure::Full {
            let _ = self.look_for(seen);
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}
