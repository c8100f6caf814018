//! A `dir` target as the core has it: everything that is decided about its objects. Workers make the file calls ([`FileWork`]).
//!
//! Work is decided when it may begin on its object (`requests/order.rs`), and its end is taken up before the next one begins. So the epochs
//! are those of all work that came before, and the room is that of all work whose end has come.

use super::changes::Changes;
use super::dir::aside::{Cut, Known, Settled};
use super::dir::inventory::Inventory;
use super::dir::names::{self, Aside, Found, NameChanges, NameSync};
use super::dir::objects::Objects;
use super::dir::presence::{Look, Presence};
use super::dir::seen::Seen;
use super::dir::work::{Decided, FileWork, TargetOutput, TargetWork};
use super::dir::Dir;
use super::failure::{StaleEpoch, TargetFailure};
use super::files::TargetFolder;
use super::reserve::{RefillTicket, Refilled, Reserve};
use super::stamp::Stamp;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::requests::order::Place;
use crate::requests::ranges::{common, range_of, Range};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use weir_fairshare::Nanos;
use weir_wire::{Disk, DiskId, Ino, Request, TargetRoom};

/// A target in a directory.
pub struct Directory {
    files: Arc<Dir>,
    presence: Presence,
    capacity_bytes: u64,
    /// The disk below the target; none where the machine has no number.
    disk: Option<DiskId>,
    /// The room that the file system had left at the last look, and the bytes that were used then.
    free: Option<(u64, u64)>,
    /// The most object files that stay open.
    open_max: usize,
    /// Room for epochs on a full disk.
    reserve: Reserve,
    epochs: HashMap<Ino, u64>,
    objects: Objects,
    names: NameChanges,
    /// The names at the opening, until the target is settled.
    found: Found,
    /// Subdirectories in which objects were set aside whose names no sync for the journal has covered.
    set_aside: BTreeSet<usize>,
    changes: Changes,
}

/// The names of objects that were set aside, which come to stable storage before a record of the journal on another device does: one file
/// system keeps the order of its names, two do not.
pub struct AsidesTicket {
    target: usize,
    files: Arc<Dir>,
    changes: Vec<NameSync>,
}

impl Directory {
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
    ) -> io::Result<Directory> {
        let reserve = Reserve::open(Arc::clone(&folder));
        let Inventory { objects, epochs, found } = Inventory::of(&*folder)?;
        let (used_bytes, free_bytes) = (objects.used_bytes(), folder.free_bytes());
        let free = free_bytes.as_ref().ok().map(|free_bytes| (*free_bytes, used_bytes));
        let capacity_bytes = match capacity_bytes {
            Some(bytes) => bytes,
            None => free_bytes? + used_bytes,
        };
        let id = DiskId { machine: folder.boot(), device: folder.node().device };
        Ok(Directory {
            presence: Presence::new(folder.path()),
            files: Arc::new(Dir::new(folder, stamp)),
            capacity_bytes,
            disk: (id.machine != 0).then_some(id),
            free,
            open_max,
            reserve,
            epochs,
            objects,
            names: NameChanges::default(),
            found,
            set_aside: BTreeSet::new(),
            changes: Changes::default(),
        })
    }

    /// The files, for those that look at them beside the server.
    pub fn files(&self) -> &Arc<Dir> {
        &self.files
    }

    /// The bytes that count as used.
    pub fn used_bytes(&self) -> u64 {
        self.objects.used_bytes()
    }

    /// The epoch of the last cut of an object.
    pub fn epoch_of(&self, object: Ino) -> u64 {
        self.epochs.get(&object).copied().unwrap_or(0)
    }

    /// The changes of objects that are copied elsewhere.
    pub(super) fn changes(&mut self) -> &mut Changes {
        &mut self.changes
    }

    /// The room: the capacity, or less if the file system below has less left than the capacity promises. A target that is gone has no
    /// room, so that new files go elsewhere.
    pub(super) fn room(&self) -> TargetRoom {
        let used_bytes = self.used_bytes();
        if self.is_gone() {
            return TargetRoom { capacity_bytes: used_bytes, used_bytes, disk: None };
        }
        let Some((free_bytes, used_then)) = self.free else {
            return TargetRoom { capacity_bytes: self.capacity_bytes, used_bytes, disk: None };
        };
        let free_bytes = (free_bytes + used_then).saturating_sub(used_bytes);
        TargetRoom {
            capacity_bytes: self.capacity_bytes.min(used_bytes + free_bytes),
            used_bytes,
            disk: self.disk.map(|id| Disk { id, free_bytes }),
        }
    }

    /// Whether the target's folder is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.presence.is_gone()
    }

    /// The trouble of the target in words; none where it works.
    pub(crate) fn trouble(&self, now: Nanos) -> Option<String> {
        self.presence.trouble(now)
    }

    /// The failures of the device since the target was opened.
    pub(crate) fn device_failures(&self) -> u64 {
        self.presence.failures()
    }

    /// Takes up a look at the folder: from then on the target is served, or answers EIO.
    pub(crate) fn saw(&mut self, look: &Look) {
        self.presence.saw(look);
        self.free = look.free_bytes.map(|free_bytes| (free_bytes, self.used_bytes()));
    }

    /// Decides about work that may begin on its object now.
    pub fn begin(&mut self, place: Place, work: TargetWork) -> FileWork {
        let object = place.1;
        let work = self.decide(object, work);
        let is_removal =
            matches!(work, Ok(TargetWork::Remove | TargetWork::RemoveUnwritten | TargetWork::Vacate { .. }));
        let file = match is_removal {
            true => self.objects.take_file(object),
            false => self.objects.file(object),
        };
        let closing = match file {
            None => self.objects.take_surplus(self.open_max),
            Some(_) => Vec::new(),
        };
        let unsynced = self.names.unsynced(names::subdirectory_of(object));
        #[cfg(any(test, feature = "world"))]
        let unsynced = unsynced.filter(|_| !mutants::is(Mutant::NamesUnsynced));
        let (has_epoch, wants_refill) = (self.epochs.contains_key(&object), !self.reserve.is_whole());
        let looks = self.objects.looks(object);
        let seen = Seen { file, unsynced, has_epoch, wants_refill, looks, ..Seen::of(place) };
        FileWork::new(&self.files, work, seen, closing)
    }

    fn decide(&self, object: Ino, work: TargetWork) -> Decided {
        let is_needed = match &work {
            TargetWork::RemoveUnwritten => self.objects.is_unwritten(object),
            TargetWork::Vacate { epoch } => self.epoch_of(object) == *epoch,
            TargetWork::Discard(_) | TargetWork::List => true,
            _ if self.is_gone() => return Err(Err(TargetFailure::Device(Errno::IO.raw_os_error()))),
            TargetWork::Cut { epoch, .. } | TargetWork::CutUndoably { epoch, .. } => {
                self.epochs.get(&object).is_none_or(|known| known < epoch)
            }
            _ => true,
        };
        match work {
            TargetWork::CutUndoably { .. } if !is_needed => Err(Ok(TargetOutput::Cut(Cut::Done))),
            TargetWork::Cut { is_lasting: true, .. } if !is_needed => {
                Err(Ok(TargetOutput::Unsynced { with_epoch: true }))
            }
            _ if !is_needed => Err(Ok(TargetOutput::Done)),
            TargetWork::Request(request, bytes, left) => {
                match self.admit(object, &request, left.as_deref()) {
                    Ok(()) => Ok(TargetWork::Request(request, bytes, left)),
                    Err(TargetFailure::Full) => Err(Ok(TargetOutput::NoRoom(bytes))),
                    Err(failure) => Err(Err(failure)),
                }
            }
            work => Ok(work),
        }
    }

    /// Refuses a request of another epoch, and one that would need more than the capacity. A write over allocated bytes always fits, and
    /// so does one into the last block of a file without holes.
    fn admit(&self, object: Ino, request: &Request, left: Option<&[Range]>) -> Result<(), TargetFailure> {
        let (epoch, growth) = match (request, left) {
            (Request::Write { epoch, extents, .. }, None) => {
                (epoch, self.objects.growth(object, extents.iter().map(range_of)))
            }
            (Request::Write { epoch, extents, .. }, Some(left)) => {
                let ranges = extents.iter().map(range_of).flat_map(|range| common(range, left));
                (epoch, self.objects.growth(object, ranges))
            }
            (Request::Reserve { epoch, length, punch: false, .. }, _) => (epoch, *length),
            (
                Request::Read { epoch, .. }
                | Request::Reserve { epoch, .. }
                | Request::ObjectSeek { epoch, .. },
                _,
            ) => (epoch, 0),
            _ => return Err(TargetFailure::Device(Errno::INVAL.raw_os_error())),
        };
        match self.epochs.get(&object) {
            Some(&known) if known > *epoch => return Err(StaleEpoch(known).into()),
            _ => {}
        }
        // The given part of the reserve is for epochs.
        let capacity_bytes = if self.reserve.is_given() { 0 } else { self.capacity_bytes };
        match growth == 0 || self.used_bytes() + growth <= capacity_bytes {
            true => Ok(()),
            false => Err(TargetFailure::Full),
        }
    }

    /// Decides about work that found no descriptor left: it is tried again where a file that nobody uses can be closed.
    pub(crate) fn begin_again(&mut self, work: &mut FileWork) {
        work.again(self.objects.take_idle());
    }

    /// Closes an object file that nobody uses now; false if there is none. Its name stays, so that the closing waits for nothing.
    pub(crate) fn close_idle(&mut self) -> bool {
        self.objects.take_idle().is_some()
    }

    /// A ticket that fills the reserve, of which some was given: writes have no room before. None while another one is out.
    pub fn refill_begin(&mut self) -> Option<RefillTicket> {
        self.reserve.is_given().then(|| self.reserve.refill_begin()).flatten()
    }

    /// Takes the end of a refill; returns whether writes have room again.
    pub fn refill_complete(&mut self, refilled: Refilled) -> bool {
        self.reserve.refill_complete(refilled);
        !self.reserve.is_given()
    }

    /// Takes up the end of work.
    ///
    /// # Errors
    /// The work's refusal; a failure of the device is EIO.
    pub fn end(
        &mut self,
        seen: Seen,
        outcome: Result<TargetOutput, TargetFailure>,
        now: Nanos,
    ) -> Result<TargetOutput, TargetFailure> {
        let object = seen.place.1;
        if let Some(look) = &seen.look {
            self.saw(look);
        }
        if seen.is_made || seen.aside.is_some() {
            self.names.note(object);
        }
        if let Some(file) = seen.file.filter(|_| seen.is_opened) {
            self.objects.opened(object, file, seen.is_made);
        }
        if let Some(sizes) = seen.sizes {
            self.objects.recount(object, sizes, seen.looks);
        }
        if seen.is_written {
            self.objects.note_written(object);
        }
        if seen.is_removed {
            self.objects.forget(object);
        }
        if let Some(aside) = seen.aside {
            self.objects.set_aside(aside);
            self.set_aside.insert(names::subdirectory_of(object));
        }
        if let Some(aside) = seen.discarded {
            self.objects.forget_aside(aside);
        }
        match seen.epoch {
            Some(0) => _ = self.epochs.remove(&object),
            Some(epoch) => _ = self.epochs.insert(object, epoch),
            None => {}
        }
        if let Some(changes) = seen.unsynced.filter(|_| seen.are_names_synced) {
            self.names.synced(changes);
        }
        if let Some(is_whole) = seen.reserve {
            self.reserve.note(is_whole);
        }
        outcome.map_err(|failure| self.presence.note(failure, now))
    }

    /// Begins work, makes its calls and ends it; the call blocks. It is for starts and tests: a step hands the calls to a worker.
    ///
    /// # Errors
    /// The work's refusal.
    pub fn carry_out(&mut self, object: Ino, work: TargetWork) -> Result<TargetOutput, TargetFailure> {
        let mut work = self.begin((0, object), work);
        loop {
            match work.carry_out() {
                Ok((seen, outcome)) => return self.end(seen, outcome, Nanos::ZERO),
                Err(again) => work = *again,
            }
            self.begin_again(&mut work);
        }
    }

    /// The names of all objects that were set aside since the last call; none where none was.
    pub fn asides_begin(&mut self, target: usize) -> Option<AsidesTicket> {
        let changed = std::mem::take(&mut self.set_aside);
        let changes: Vec<NameSync> =
            changed.into_iter().filter_map(|subdirectory| self.names.unsynced(subdirectory)).collect();
        (!changes.is_empty()).then(|| AsidesTicket { target, files: Arc::clone(&self.files), changes })
    }

    /// Takes the result of a ticket. Names that are not synced are tried again.
    pub fn asides_complete(&mut self, ticket: AsidesTicket, is_synced: bool) {
        for changes in ticket.changes {
            match is_synced {
                true => self.names.synced(changes),
                false => _ = self.set_aside.insert(changes.subdirectory()),
            }
        }
    }

    /// Makes the objects agree with the journal, when the server starts. Each object set aside is discarded or put back. No epoch
    /// is ahead of its file's. Objects of files without a record are removed. The call blocks.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn settle(&mut self, known: impl Fn(Ino) -> Known) -> io::Result<Settled> {
        let found = std::mem::take(&mut self.found);
        let mut settled = Settled::default();
        let mut changed = BTreeSet::new();
        for (ino, epochs) in found.asides_by_object() {
            changed.insert(names::subdirectory_of(ino));
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
                changed.insert(names::subdirectory_of(ino));
                self.settle_by(ino, TargetWork::Remove)?;
                settled.removed += 1;
            }
        }
        // In their order, so that a start makes the same changes each time.
        let recorded: BTreeMap<Ino, u64> = self.epochs.iter().map(|(&ino, &epoch)| (ino, epoch)).collect();
        for (ino, recorded) in recorded {
            if let Known::File { decided } = known(ino) {
                if recorded > decided {
                    changed.insert(names::subdirectory_of(ino));
                    self.set_epoch(ino, decided)?;
                }
            }
        }
        // Otherwise a later start could discard an object that was put back, once the file has got that epoch in another way.
        for changes in changed.into_iter().filter_map(|subdirectory| self.names.unsynced(subdirectory)) {
            changes.run(self.files.folder())?;
        }
        Ok(settled)
    }

    /// Discards the asides of decided cuts, and puts the object back as it was before the first cut that was not decided. Answers
    /// whether there was such a cut.
    fn settle_asides(&mut self, ino: Ino, epochs: &[u64], decided: u64) -> io::Result<bool> {
        #[cfg(any(test, feature = "world"))]
        let decided = if mutants::is(Mutant::CutsUndone) { 0 } else { decided };
        let first_undecided = epochs.iter().copied().find(|&epoch| epoch > decided);
        for &epoch in epochs.iter().filter(|&&epoch| Some(epoch) != first_undecided) {
            self.settle_by(ino, TargetWork::Discard(Aside { ino, epoch }))?;
        }
        let Some(epoch) = first_undecided else { return Ok(false) };
        let aside = Aside { ino, epoch };
        self.files.folder().rename(&names::aside(aside), &names::object(ino))?;
        self.objects.put_back(aside);
        self.names.note(ino);
        Ok(true)
    }

    fn settle_by(&mut self, object: Ino, work: TargetWork) -> io::Result<()> {
        let done = self.carry_out(object, work).map(drop);
        done.map_err(|failure| io::Error::from_raw_os_error(i32::from(failure.errno().0)))
    }

    /// Takes an epoch back to the journal's.
    fn set_epoch(&mut self, ino: Ino, epoch: u64) -> io::Result<()> {
        self.names.note(ino);
        if epoch == 0 {
            self.epochs.remove(&ino);
            return self.files.folder().remove(&names::epoch(ino)).map(drop);
        }
        self.epochs.insert(ino, epoch);
        self.files.record_epoch(&mut Seen::of((0, ino)), epoch, false)
    }

    /// Raises the epochs of objects to those of their files: the objects refuse older epochs, also after a power loss that took
    /// the records of epochs here.
    pub fn raise_known_epochs(&mut self, files: impl Iterator<Item = (Ino, u64)>) {
        for (ino, epoch) in files {
            let known = self.epochs.entry(ino).or_default();
            *known = (*known).max(epoch);
        }
    }
}

impl AsidesTicket {
    /// The number of the target.
    pub(crate) fn target(&self) -> usize {
        self.target
    }

    /// Makes the names durable; the call blocks.
    ///
    /// # Errors
    /// The device failed; the next ticket has these names as well.
    pub fn run(&self) -> io::Result<()> {
        self.changes.iter().try_for_each(|changes| changes.run(self.files.folder()))
    }
}
