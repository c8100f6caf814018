//! A `dir` target: each object is a sparse file below a directory of a local file system.
//!
//! The calls of a target may block, so the event loop runs them on the worker pool; every method takes `&self`. Which of them may run beside
//! each other on one object is decided before (`requests/order.rs`): a cut or a removal runs alone, and syncs run beside everything.

pub(super) mod aside;
mod inventory;
#[cfg(test)]
mod law_tests;
pub(super) mod names;
mod objects;
mod presence;

use super::failure::{StaleEpoch, TargetFailure};
use super::files::{Opening, TargetFile, TargetFolder};
use super::reserve::Reserve;
use super::stamp::Stamp;
use crate::clock::Time;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use inventory::Inventory;
use names::{lock, subdirectory_of, Found, NameChanges, SUBDIRECTORIES};
use objects::{Objects, Open};
use presence::Presence;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use weir_wire::{Disk, DiskId, Extent, Ino, TargetRoom};

/// Tries to open an object file, each after another file was closed, if the system has no descriptor left.
const OPEN_ATTEMPTS: usize = 16;

/// The objects of one target in a directory.
pub struct Dir {
    folder: Arc<dyn TargetFolder>,
    presence: Presence,
    capacity_bytes: u64,
    machine: u128,
    /// The most object files that stay open.
    open_max: usize,
    /// Room for epochs on a full disk.
    reserve: Reserve,
    /// The sum of the counts in [`Objects`]. Two writes of one object add their differences in any order, so the sum may be
    /// below zero for a moment.
    used_bytes: AtomicI64,
    epochs: Mutex<HashMap<Ino, u64>>,
    objects: Mutex<Objects>,
    /// The changes of names, by subdirectory.
    names: Vec<NameChanges>,
    /// The names at the opening, until the target is settled.
    found: Mutex<Found>,
    /// Subdirectories in which an object was set aside since [`Dir::sync_asides`].
    set_aside: Mutex<BTreeSet<usize>>,
}

impl Dir {
    /// Opens the target in its folder. Without `capacity_bytes` the capacity is the room that is free now. The target keeps up to
    /// `open_max` object files open.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn open(
        folder: Arc<dyn TargetFolder>,
        stamp: Option<Arc<Stamp>>,
        capacity_bytes: Option<u64>,
        open_max: usize,
        time: Arc<dyn Time>,
    ) -> io::Result<Dir> {
        let reserve = Reserve::open(Arc::clone(&folder));
        let Inventory { objects, epochs, found } = Inventory::of(&*folder)?;
        let used_bytes = objects.counted_bytes();
        let capacity_bytes = match capacity_bytes {
            Some(bytes) => bytes,
            None => folder.free_bytes()? + used_bytes,
        };
        Ok(Dir {
            presence: Presence::new(Arc::clone(&folder), stamp, time),
            capacity_bytes,
            machine: folder.boot(),
            folder,
            open_max,
            reserve,
            used_bytes: AtomicI64::new(used_bytes.cast_signed()),
            epochs: Mutex::new(epochs),
            objects: Mutex::new(objects),
            names: (0..SUBDIRECTORIES).map(|_| NameChanges::default()).collect(),
            found: Mutex::new(found),
            set_aside: Mutex::default(),
        })
    }

    /// The objects and their lengths, as the file system has them now.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn listed(&self) -> io::Result<Vec<(Ino, u64)>> {
        self.presence.look()?;
        inventory::listed(&*self.folder)
    }

    /// As [`Dir::listed`], of a target that no server has open.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn listed_in(folder: &dyn TargetFolder) -> io::Result<Vec<(Ino, u64)>> {
        inventory::listed(folder)
    }

    /// Looks whether the target's folder is still there; from then on the target is served, or answers EIO.
    pub fn look(&self) {
        // The outcome is the target's trouble.
        let _ = self.presence.look();
    }

    /// Brings the mark of the server's journal into the target's stamp.
    pub fn keep_mark(&self, durable: u64) {
        self.presence.keep_mark(durable);
    }

    /// Whether the target's folder is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.presence.check().is_err()
    }

    /// The trouble of the target in words; none where it works.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.presence.trouble()
    }

    /// The failures of the device since the target was opened.
    pub(crate) fn device_failures(&self) -> u64 {
        self.presence.failures()
    }

    /// Notes a failure of the device in an outcome.
    pub(crate) fn noted<T>(&self, outcome: Result<T, TargetFailure>) -> Result<T, TargetFailure> {
        outcome.map_err(|failure| self.presence.note(failure))
    }

    /// The room: the capacity, or less if the file system below has less left than the capacity promises. A target that is gone has no
    /// room, so that new files go elsewhere.
    pub fn room(&self) -> TargetRoom {
        let used_bytes = self.used_bytes();
        if self.presence.check().is_err() {
            return TargetRoom { capacity_bytes: used_bytes, used_bytes, disk: None };
        }
        let Ok(free_bytes) = self.folder.free_bytes() else {
            return TargetRoom { capacity_bytes: self.capacity_bytes, used_bytes, disk: None };
        };
        let id = DiskId { machine: self.machine, device: self.folder.node().device };
        TargetRoom {
            capacity_bytes: self.capacity_bytes.min(used_bytes + free_bytes),
            used_bytes,
            disk: (id.machine != 0).then_some(Disk { id, free_bytes }),
        }
    }

    /// The bytes that count as used.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed).max(0).cast_unsigned()
    }

    /// The bytes of `ranges`, in order; holes read as zeros.
    ///
    /// # Errors
    /// The object was cut since `epoch`, or the device failed.
    pub fn read(&self, ino: Ino, epoch: u64, ranges: &[Extent]) -> Result<Vec<u8>, TargetFailure> {
        self.presence.check()?;
        self.check_epoch(ino, epoch)?;
        let total: usize = ranges.iter().map(|range| range.length as usize).sum();
        let mut bytes = vec![0; total];
        let Some(open) = self.existing(ino)? else { return Ok(bytes) };
        let mut rest = bytes.as_mut_slice();
        for range in ranges {
            let (part, after) = rest.split_at_mut(range.length as usize);
            // Bytes past the end of the file stay zero.
            open.file.fill_at(part, range.offset)?;
            rest = after;
        }
        Ok(bytes)
    }

    /// Writes `bytes` to `ranges`, in order.
    ///
    /// # Errors
    /// The target is full, the object was cut since `epoch`, or the device failed.
    pub fn write(&self, ino: Ino, epoch: u64, ranges: &[Extent], bytes: &[u8]) -> Result<(), TargetFailure> {
        self.presence.check()?;
        self.check_epoch(ino, epoch)?;
        let open = self.existing(ino)?;
        self.check_room(open.as_deref(), ranges)?;
        let open = open.map_or_else(|| self.made(ino), Ok)?;
        let mut rest = bytes;
        let mut outcome = Ok(());
        for range in ranges {
            let (part, after) = rest.split_at((range.length as usize).min(rest.len()));
            outcome = outcome.and_then(|()| open.file.write_all_at(part, range.offset));
            rest = after;
        }
        self.ended(&open, outcome)
    }

    /// Allocates or, with `punch`, frees a range.
    ///
    /// # Errors
    /// The target is full, the object was cut since `epoch`, or the device failed.
    pub fn reserve(
        &self,
        ino: Ino,
        epoch: u64,
        offset: u64,
        length: u64,
        punch: bool,
    ) -> Result<(), TargetFailure> {
        self.presence.check()?;
        self.check_epoch(ino, epoch)?;
        let open = self.existing(ino)?;
        let (open, done) = match open {
            None if punch => return Ok(()),
            Some(open) if punch => {
                let done = open.file.punch(offset, length);
                (open, done)
            }
            _ if self.used_bytes() + length > self.capacity_bytes => return Err(TargetFailure::Full),
            open => {
                let open = open.map_or_else(|| self.made(ino), Ok)?;
                let done = open.file.allocate(offset, length);
                (open, done)
            }
        };
        self.ended(&open, done)
    }

    /// Ends a call that wrote to an object. A file system may keep blocks that it gave before it refused.
    fn ended(&self, open: &Open, outcome: io::Result<()>) -> Result<(), TargetFailure> {
        let outcome = outcome.and(self.recount(open));
        if outcome.is_ok() {
            open.note_written();
        }
        Ok(outcome?)
    }

    /// Removes an object that no call has written to with success. The home hears of successful calls only, so it would leave the object.
    ///
    /// # Errors
    /// The device failed: the object stays.
    pub fn remove_unwritten(&self, ino: Ino) -> Result<(), TargetFailure> {
        let open = lock(&self.objects).open(ino);
        if open.is_some_and(|open| !open.is_written()) {
            self.remove_object(ino)?;
        }
        Ok(())
    }

    /// Cuts the object and raises its epoch. An object that has the epoch already stays as it is. The cut comes first: if the
    /// server dies in between, the home asks again for the cut.
    ///
    /// # Errors
    /// The device failed; the home will ask again.
    pub fn truncate(&self, ino: Ino, length: u64, epoch: u64) -> Result<(), TargetFailure> {
        self.truncated(ino, length, epoch, false).map(drop)
    }

    /// Cuts the object as [`Dir::truncate`] does; answers whether the epoch was raised.
    fn truncated(&self, ino: Ino, length: u64, epoch: u64, is_lasting: bool) -> Result<bool, TargetFailure> {
        self.presence.check()?;
        if lock(&self.epochs).get(&ino).is_some_and(|&known| known >= epoch) {
            return Ok(false);
        }
        self.cut(ino, length)?;
        self.record_epoch(ino, epoch, is_lasting)?;
        lock(&self.epochs).insert(ino, epoch);
        Ok(true)
    }

    /// Cuts the object as [`Dir::truncate`] does; [`Dir::sync_cut`] brings the cut to stable storage. Answers whether the epoch was raised,
    /// whose record is on stable storage then.
    ///
    /// # Errors
    /// The device failed; the home will ask again.
    pub(crate) fn cut_lastingly(&self, ino: Ino, length: u64, epoch: u64) -> Result<bool, TargetFailure> {
        self.truncated(ino, length, epoch, true)
    }

    /// Brings a cut of the object to stable storage, and `with_epoch` the record of its epoch.
    ///
    /// # Errors
    /// The device failed; the home will ask again.
    pub(crate) fn sync_cut(&self, ino: Ino, with_epoch: bool) -> Result<(), TargetFailure> {
        self.sync_file(ino)?;
        if with_epoch {
            match self.folder.open(&names::epoch(ino), Opening::Read) {
                Ok(file) => file.sync_whole()?,
                // The object was removed since, and its epoch with it.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.folder.sync(&names::subdirectory(subdirectory_of(ino)))?)
    }

    /// The device below the target.
    pub fn device(&self) -> u64 {
        self.folder.node().device
    }

    /// Records an epoch. With `is_lasting` the record is on stable storage before it takes the place of the one before: a sync of another
    /// object's name makes this name durable as well, and a power loss would leave an empty file in place of a durable epoch.
    fn record_epoch(&self, ino: Ino, epoch: u64, is_lasting: bool) -> io::Result<()> {
        let temporary = names::unfinished_epoch(ino);
        let text = epoch.to_string();
        self.within_reserve(|| {
            let file = self.folder.open(&temporary, Opening::Empty)?;
            file.write_all_at(text.as_bytes(), 0)?;
            if is_lasting {
                file.sync_whole()
            } else {
                Ok(())
            }
        })?;
        self.folder.rename(&temporary, &names::epoch(ino))
    }

    /// Attempts what a full disk below must not refuse: the reserve of the target makes room.
    fn within_reserve<T>(&self, attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let mut done = attempt();
        while done.as_ref().is_err_and(is_full) && self.reserve.give() {
            done = attempt();
        }
        done
    }

    fn cut(&self, ino: Ino, length: u64) -> io::Result<()> {
        if let Some(open) = self.existing(ino)? {
            if open.file.length()? > length {
                open.file.truncate(length)?;
                self.recount(&open)?;
            }
        }
        Ok(())
    }

    /// Removes the object.
    ///
    /// # Errors
    /// The device failed; the home will ask again.
    pub fn remove(&self, ino: Ino) -> Result<(), TargetFailure> {
        self.presence.check()?;
        self.remove_object(ino)?;
        if lock(&self.epochs).contains_key(&ino) {
            self.folder.remove(&names::epoch(ino))?;
            lock(&self.epochs).remove(&ino);
        }
        Ok(())
    }

    /// Removes the object's file.
    fn remove_object(&self, ino: Ino) -> io::Result<()> {
        if self.folder.remove(&names::object(ino))? {
            let bytes = lock(&self.objects).forget(ino);
            self.count(bytes, 0);
            self.reserve.refill();
        }
        Ok(())
    }

    /// The epoch of the last cut of an object.
    pub(crate) fn epoch_of(&self, ino: Ino) -> u64 {
        lock(&self.epochs).get(&ino).copied().unwrap_or(0)
    }

    /// Takes all bytes of an object away, unless its epoch is another one by now.
    ///
    /// # Errors
    /// The device failed: the bytes stay.
    pub(crate) fn vacate(&self, ino: Ino, epoch: u64) -> Result<(), TargetFailure> {
        if self.epoch_of(ino) == epoch {
            self.remove_object(ino)?;
        }
        Ok(())
    }

    /// The next byte of data (or of a hole) at or after `offset`.
    ///
    /// # Errors
    /// The object was cut or moved since `epoch`, or the device failed.
    pub fn seek(&self, ino: Ino, epoch: u64, offset: u64, data: bool) -> Result<Option<u64>, TargetFailure> {
        self.presence.check()?;
        self.check_epoch(ino, epoch)?;
        let Some(open) = self.existing(ino)? else { return Ok((!data).then_some(offset)) };
        if offset >= open.file.length()? {
            return Ok((!data).then_some(offset));
        }
        Ok(open.file.seek(offset, data)?)
    }

    /// Brings the object to stable storage: its bytes, and a new name.
    ///
    /// # Errors
    /// The device failed: the bytes may not be durable.
    pub fn sync(&self, ino: Ino) -> Result<(), TargetFailure> {
        if !self.sync_file(ino)? {
            return Ok(());
        }
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::NamesUnsynced) {
            return Ok(());
        }
        Ok(self.sync_names(subdirectory_of(ino))?)
    }

    /// Notes that a name of the object was made or changed: each later sync of the object syncs the name.
    fn names_changed(&self, ino: Ino) {
        self.names[subdirectory_of(ino)].note();
    }

    fn sync_names(&self, subdirectory: usize) -> io::Result<()> {
        self.names[subdirectory].sync(&*self.folder, &names::subdirectory(subdirectory))
    }

    fn check_epoch(&self, ino: Ino, epoch: u64) -> Result<(), StaleEpoch> {
        match lock(&self.epochs).get(&ino) {
            Some(&known) if known > epoch => Err(StaleEpoch(known)),
            _ => Ok(()),
        }
    }

    /// Refuses a write that would need more than the capacity. A write over allocated bytes always fits, and so does one into
    /// the last block of a file without holes.
    fn check_room(&self, open: Option<&Open>, ranges: &[Extent]) -> Result<(), TargetFailure> {
        let wanted: u64 = ranges.iter().map(|range| u64::from(range.length)).sum();
        if self.reserve.is_given() {
            self.reserve.refill();
        }
        // The given part of the reserve is for epochs.
        let capacity_bytes = if self.reserve.is_given() { 0 } else { self.capacity_bytes };
        if self.used_bytes() + wanted <= capacity_bytes {
            return Ok(());
        }
        let Some(open) = open else { return Err(TargetFailure::Full) };
        let sizes = open.file.sizes()?;
        let end = sizes.length_bytes.next_multiple_of(sizes.block_bytes);
        let behind =
            |range: &Extent| (range.offset + u64::from(range.length)).saturating_sub(range.offset.max(end));
        let missing: u64 = ranges.iter().map(behind).sum();
        let dense = sizes.occupied_bytes >= sizes.length_bytes;
        if dense && (missing == 0 || self.used_bytes() + missing <= capacity_bytes) {
            Ok(())
        } else {
            Err(TargetFailure::Full)
        }
    }

    /// Counts the blocks that the object has now.
    fn recount(&self, open: &Open) -> io::Result<()> {
        let now = open.file.sizes()?.occupied_bytes;
        self.count(open.recount(now), now);
        Ok(())
    }

    /// An object of `before` bytes has `now` bytes.
    fn count(&self, before: u64, now: u64) {
        self.used_bytes.fetch_add(now.cast_signed() - before.cast_signed(), Ordering::Relaxed);
    }

    /// Syncs the object's file; answers whether there is one. A cut may set the file aside meanwhile, so a file that is opened for this is
    /// not kept as the object's.
    fn sync_file(&self, ino: Ino) -> io::Result<bool> {
        self.presence.check()?;
        if let Some(open) = lock(&self.objects).open(ino) {
            return open.file.sync().map(|()| true);
        }
        match self.opened(ino, Opening::Change) {
            Ok(file) => file.sync().map(|()| true),
            Err(error) if error.kind() == ErrorKind::NotFound => self.presence.look().map(|()| false),
            Err(error) => Err(error),
        }
    }

    /// The object's open file.
    fn existing(&self, ino: Ino) -> io::Result<Option<Arc<Open>>> {
        if let Some(open) = lock(&self.objects).open(ino) {
            return Ok(Some(open));
        }
        match self.opened(ino, Opening::Change) {
            Ok(file) => Ok(Some(self.remember(ino, Open::found(file)))),
            Err(error) if error.kind() == ErrorKind::NotFound => self.presence.look().map(|()| None),
            Err(error) => Err(error),
        }
    }

    /// The open file of an object that had none: the caller has looked for it.
    fn made(&self, ino: Ino) -> io::Result<Arc<Open>> {
        let file = self.opened(ino, Opening::Make)?;
        self.names_changed(ino);
        Ok(self.remember(ino, Open::new(file)))
    }

    /// Opens an object's file. If no descriptor is left, the files of objects that nobody uses now are closed.
    fn opened(&self, ino: Ino, opening: Opening) -> io::Result<Box<dyn TargetFile>> {
        let name = names::object(ino);
        for _ in 0..OPEN_ATTEMPTS {
            match self.folder.open(&name, opening) {
                Err(error) if is_want_of_descriptors(&error) && self.close_idle() => {}
                opened => return opened,
            }
        }
        Err(rustix::io::Errno::MFILE.into())
    }

    /// Closes an object file that nobody uses now; false if there is none.
    pub(crate) fn close_idle(&self) -> bool {
        lock(&self.objects).close_idle()
    }

    fn remember(&self, ino: Ino, open: Open) -> Arc<Open> {
        let mut objects = lock(&self.objects);
        if objects.open_count() >= self.open_max {
            objects.close_idle();
        }
        objects.opened(ino, open)
    }
}

fn is_want_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let raw = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(raw, Some(Errno::MFILE | Errno::NFILE))
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}
