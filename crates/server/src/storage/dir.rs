//! A `dir` target: each object is a sparse file below a directory of a local file system.
//!
//! Its calls may block, so the event loop runs them on the worker pool; every method takes `&self`.

mod aside;
mod objects;

pub(crate) use aside::{Aside, Cut, Known, Settled};

use super::changes::Changes;
use super::{StaleEpoch, TargetFailure};
use crate::privacy;
use crate::requests::reserve::Reserve;
use aside::Found;
use objects::{occupied_bytes, Objects, Open};
use rustix::fs::{FallocateFlags, SeekFrom};
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use weir_wire::{Extent, Ino};

/// Times that an object file is opened again after another one was closed, where the system has no descriptor left.
const OPEN_ATTEMPTS: usize = 16;
/// Locks that keep a cut apart from transfers of the same object.
const LOCK_SHARDS: usize = 64;
/// Subdirectories, so that none holds more than a few thousand objects at a million files.
const SUBDIRECTORIES: u64 = 256;
const EPOCH_SUFFIX: &str = ".epoch";
/// An epoch that is being written.
const UNFINISHED_SUFFIX: &str = ".epoch-new";

/// The objects of one target in a directory.
pub(crate) struct Dir {
    root: PathBuf,
    capacity_bytes: u64,
    /// Object files kept open.
    open_max: usize,
    /// Room for epochs on a full disk.
    reserve: Reserve,
    /// The sum of what [`Objects`] counts. Two writes of one object add their differences in any order, so it may be below
    /// zero for a moment.
    used_bytes: AtomicI64,
    epochs: Mutex<HashMap<Ino, u64>>,
    objects: Mutex<Objects>,
    /// By subdirectory.
    names: Vec<Names>,
    found: Mutex<Found>,
    /// Subdirectories in which an object was set aside since [`Dir::sync_asides`].
    set_aside: Mutex<BTreeSet<usize>>,
    locks: Vec<RwLock<()>>,
    changes: Mutex<Changes>,
    /// How many objects `changes` has, so that other writes pass it by.
    noted: AtomicUsize,
}

/// The names in a subdirectory: how often they changed, and how many of these changes are on stable storage. What changed
/// before the target was opened counts as one.
struct Names {
    changes: AtomicU64,
    synced: Mutex<u64>,
}

impl Dir {
    /// Opens the target at `root`, making it where it is missing; `capacity_bytes` absent means what is free now. It keeps
    /// up to `open_max` object files open.
    ///
    /// # Errors
    /// What the file system answers.
    pub(crate) fn open(root: &Path, capacity_bytes: Option<u64>, open_max: usize) -> io::Result<Dir> {
        fs::create_dir_all(root)?;
        let reserve = Reserve::open(root);
        let mut objects = Objects::default();
        let mut epochs = HashMap::new();
        let mut found = Found::default();
        privacy::private_folder(root)?;
        for number in 0..SUBDIRECTORIES {
            let directory = root.join(format!("{number:02x}"));
            privacy::private_folder(&directory)?;
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                let name = entry.file_name();
                let Some(name) = name.to_str() else { continue };
                if let Some(ino) = name.strip_suffix(EPOCH_SUFFIX).and_then(parse_ino) {
                    match fs::read_to_string(entry.path())?.trim().parse() {
                        Ok(epoch) => _ = epochs.insert(ino, epoch),
                        // A power loss leaves it empty where it was not on the disk yet. The home has the epoch, and
                        // cuts anew before a file grows over what may lie behind its end.
                        Err(_) => fs::remove_file(entry.path())?,
                    }
                } else if name.ends_with(UNFINISHED_SUFFIX) {
                    // The server was killed in a cut, which its home will ask for again.
                    fs::remove_file(entry.path())?;
                } else {
                    let metadata = entry.metadata()?;
                    if let Some(aside) = Aside::parse(name) {
                        found.asides.push(aside);
                        objects.found_aside(aside, &metadata);
                    } else if let Some(ino) = parse_ino(name) {
                        found.objects.push(ino);
                        objects.found(ino, &metadata);
                    }
                    if metadata.mode() & 0o077 != 0 {
                        // A server of before made it; a directory that was open may have lent it to others.
                        privacy::close_to_others(&File::open(entry.path())?)?;
                    }
                }
            }
        }
        let used_bytes = objects.counted_bytes();
        let capacity_bytes = match capacity_bytes {
            Some(bytes) => bytes,
            None => free_bytes(root)? + used_bytes,
        };
        Ok(Dir {
            root: root.to_path_buf(),
            capacity_bytes,
            open_max,
            reserve,
            used_bytes: AtomicI64::new(used_bytes.cast_signed()),
            epochs: Mutex::new(epochs),
            objects: Mutex::new(objects),
            names: (0..SUBDIRECTORIES).map(|_| Names::default()).collect(),
            found: Mutex::new(found),
            set_aside: Mutex::default(),
            locks: (0..LOCK_SHARDS).map(|_| RwLock::new(())).collect(),
            changes: Mutex::default(),
            noted: AtomicUsize::new(0),
        })
    }

    /// The capacity, or less where the file system below has less left than that promises.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        match free_bytes(&self.root) {
            Ok(free) => self.capacity_bytes.min(self.used_bytes() + free),
            Err(_) => self.capacity_bytes,
        }
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed).max(0).cast_unsigned()
    }

    /// The bytes of `ranges`, in order, zero where there are none.
    ///
    /// # Errors
    /// The object was cut since `epoch`, or the device failed.
    pub(crate) fn read(&self, ino: Ino, epoch: u64, ranges: &[Extent]) -> Result<Vec<u8>, TargetFailure> {
        let _shared = self.shared(ino);
        self.check_epoch(ino, epoch)?;
        let total: usize = ranges.iter().map(|range| range.length as usize).sum();
        let mut bytes = vec![0; total];
        let Some(open) = self.existing(ino)? else { return Ok(bytes) };
        let mut rest = bytes.as_mut_slice();
        for range in ranges {
            let (part, after) = rest.split_at_mut(range.length as usize);
            read_to_end_of_file(&open.file, part, range.offset)?;
            rest = after;
        }
        Ok(bytes)
    }

    /// Writes `bytes` to `ranges`, in order.
    ///
    /// # Errors
    /// The target is full, the object was cut since `epoch`, or the device failed.
    pub(crate) fn write(
        &self,
        ino: Ino,
        epoch: u64,
        ranges: &[Extent],
        bytes: &[u8],
    ) -> Result<(), TargetFailure> {
        let _shared = self.shared(ino);
        self.check_epoch(ino, epoch)?;
        let open = self.existing_or_new(ino)?;
        self.check_room(&open, ranges)?;
        let mut rest = bytes;
        let mut outcome = Ok(());
        for range in ranges {
            let (part, after) = rest.split_at((range.length as usize).min(rest.len()));
            outcome = outcome.and_then(|()| open.file.write_all_at(part, range.offset));
            rest = after;
            self.note(ino, range.offset, u64::from(range.length));
        }
        self.recount(&open)?;
        Ok(outcome?)
    }

    /// Allocates or, with `punch`, frees a range.
    ///
    /// # Errors
    /// The target is full, the object was cut since `epoch`, or the device failed.
    pub(crate) fn reserve(
        &self,
        ino: Ino,
        epoch: u64,
        offset: u64,
        length: u64,
        punch: bool,
    ) -> Result<(), TargetFailure> {
        let _shared = self.shared(ino);
        self.check_epoch(ino, epoch)?;
        let open = self.existing_or_new(ino)?;
        let flags = if punch {
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE
        } else {
            if self.used_bytes() + length > self.capacity_bytes {
                return Err(TargetFailure::Full);
            }
            FallocateFlags::empty()
        };
        let done = rustix::fs::fallocate(&open.file, flags, offset, length).map_err(io::Error::from);
        self.note(ino, offset, length);
        done?;
        Ok(self.recount(&open)?)
    }

    /// Cuts the object and raises its epoch; one that has the epoch already is left alone. The cut comes first: where the
    /// server dies in between the home asks again, and finds it to be done.
    ///
    /// # Errors
    /// The device failed; the home will ask again.
    pub(crate) fn truncate(&self, ino: Ino, length: u64, epoch: u64) -> Result<(), TargetFailure> {
        let _alone = self.lock(ino).write().unwrap_or_else(PoisonError::into_inner);
        if lock(&self.epochs).get(&ino).is_some_and(|&known| known >= epoch) {
            return Ok(());
        }
        self.cut(ino, length)?;
        self.record_epoch(ino, epoch)?;
        lock(&self.epochs).insert(ino, epoch);
        Ok(())
    }

    /// As [`Dir::truncate`], with the cut and the epoch on stable storage.
    ///
    /// # Errors
    /// The device failed; the home will ask again.
    pub(crate) fn fence(&self, ino: Ino, length: u64, epoch: u64) -> Result<(), TargetFailure> {
        self.truncate(ino, length, epoch)?;
        if let Some(open) = self.existing_alone(ino)? {
            open.file.sync_data()?;
        }
        let path = self.epoch_path(ino);
        match File::open(&path) {
            Ok(file) => file.sync_all()?,
            // Removed since, with its file.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if let Some(directory) = path.parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    }

    /// The device that the target lies on.
    ///
    /// # Errors
    /// What the file system answers.
    pub(crate) fn device(&self) -> io::Result<u64> {
        fs::metadata(&self.root).map(|metadata| metadata.dev())
    }

    /// What changed of the object since the last round; none where nothing is noted of it for `tracking`.
    pub(crate) fn changes(&self, ino: Ino, tracking: u64, round: u32) -> Option<Vec<(u64, u64)>> {
        let mut changes = lock(&self.changes);
        let answer = changes.ask(ino, tracking, round);
        self.noted.store(changes.len(), Ordering::SeqCst);
        answer
    }

    /// Called when the bytes have changed and before the change is answered, under the object's lock: a fence comes after it.
    fn note(&self, ino: Ino, offset: u64, length: u64) {
        if self.noted.load(Ordering::SeqCst) > 0 {
            lock(&self.changes).note(ino, offset, offset.saturating_add(length));
        }
    }

    fn record_epoch(&self, ino: Ino, epoch: u64) -> io::Result<()> {
        let temporary = self.path(ino).with_extension(&UNFINISHED_SUFFIX[1..]);
        let mut recorded = fs::write(&temporary, epoch.to_string());
        // The disk below is full: what is kept for it makes room.
        while recorded.as_ref().is_err_and(is_full) && self.reserve.give() {
            recorded = fs::write(&temporary, epoch.to_string());
        }
        recorded.and_then(|()| fs::rename(&temporary, self.epoch_path(ino)))
    }

    fn cut(&self, ino: Ino, length: u64) -> io::Result<()> {
        if let Some(open) = self.existing(ino)? {
            if open.file.metadata()?.len() > length {
                open.file.set_len(length)?;
                self.recount(&open)?;
            }
        }
        Ok(())
    }

    /// Removes the object.
    ///
    /// # Errors
    /// The device failed; the home will ask again.
    pub(crate) fn remove(&self, ino: Ino) -> Result<(), TargetFailure> {
        let _alone = self.lock(ino).write().unwrap_or_else(PoisonError::into_inner);
        if removed(&self.path(ino))? {
            let bytes = lock(&self.objects).forget(ino);
            self.count(bytes, 0);
            self.reserve.refill();
        }
        if lock(&self.epochs).remove(&ino).is_some() {
            fs::remove_file(self.epoch_path(ino))?;
        }
        Ok(())
    }

    /// The next byte of data (or of a hole) at or after `offset`.
    ///
    /// # Errors
    /// The object was cut or moved since `epoch`, or the device failed.
    pub(crate) fn seek(
        &self,
        ino: Ino,
        epoch: u64,
        offset: u64,
        data: bool,
    ) -> Result<Option<u64>, TargetFailure> {
        let _shared = self.shared(ino);
        self.check_epoch(ino, epoch)?;
        let Some(open) = self.existing(ino)? else { return Ok((!data).then_some(offset)) };
        if offset >= open.file.metadata()?.len() {
            return Ok((!data).then_some(offset));
        }
        let from = if data { SeekFrom::Data(offset) } else { SeekFrom::Hole(offset) };
        match rustix::fs::seek(&open.file, from) {
            Ok(position) => Ok(Some(position)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(errno) => Err(TargetFailure::Device(errno.raw_os_error())),
        }
    }

    /// Brings the object to stable storage: its bytes, and its name where it is new.
    ///
    /// # Errors
    /// The device failed: the bytes may not be durable.
    pub(crate) fn sync(&self, ino: Ino) -> Result<(), TargetFailure> {
        let Some(open) = self.existing_alone(ino)? else { return Ok(()) };
        open.file.sync_data()?;
        Ok(self.names[subdirectory_of(ino)].sync(&self.subdirectory(ino.0))?)
    }

    /// Called when a name of the object was made or changed; who syncs the object from then on syncs the name.
    fn names_changed(&self, ino: Ino) {
        self.names[subdirectory_of(ino)].changes.fetch_add(1, Ordering::SeqCst);
    }

    fn check_epoch(&self, ino: Ino, epoch: u64) -> Result<(), StaleEpoch> {
        match lock(&self.epochs).get(&ino) {
            Some(&known) if known > epoch => Err(StaleEpoch(known)),
            _ => Ok(()),
        }
    }

    /// Refuses a write that would need more than the capacity; overwriting what is allocated always fits, and so does what
    /// goes into the last block of a file without holes.
    fn check_room(&self, open: &Open, ranges: &[Extent]) -> Result<(), TargetFailure> {
        let wanted: u64 = ranges.iter().map(|range| u64::from(range.length)).sum();
        if self.reserve.is_given() {
            self.reserve.refill();
        }
        // What was given of the reserve is for epochs.
        let capacity_bytes = if self.reserve.is_given() { 0 } else { self.capacity_bytes };
        if self.used_bytes() + wanted <= capacity_bytes {
            return Ok(());
        }
        let metadata = open.file.metadata()?;
        let end = metadata.len().next_multiple_of(metadata.blksize().max(1));
        let behind =
            |range: &Extent| (range.offset + u64::from(range.length)).saturating_sub(range.offset.max(end));
        let missing: u64 = ranges.iter().map(behind).sum();
        let dense = metadata.blocks() * 512 >= metadata.len();
        if dense && (missing == 0 || self.used_bytes() + missing <= capacity_bytes) {
            Ok(())
        } else {
            Err(TargetFailure::Full)
        }
    }

    /// Counts the blocks that the object has now.
    fn recount(&self, open: &Open) -> io::Result<()> {
        let now = occupied_bytes(&open.file.metadata()?);
        self.count(open.recount(now), now);
        Ok(())
    }

    /// An object of `before` bytes has `now` bytes.
    fn count(&self, before: u64, now: u64) {
        self.used_bytes.fetch_add(now.cast_signed() - before.cast_signed(), Ordering::Relaxed);
    }

    /// As [`Dir::existing`], without the lock when it is answered: no cut waits for the disk.
    fn existing_alone(&self, ino: Ino) -> io::Result<Option<Arc<Open>>> {
        let _shared = self.shared(ino);
        self.existing(ino)
    }

    /// The object's open file. Its lock is held, or a file could be kept that was just set aside under another name.
    fn existing(&self, ino: Ino) -> io::Result<Option<Arc<Open>>> {
        if let Some(open) = lock(&self.objects).open(ino) {
            return Ok(Some(open));
        }
        match self.opened(ino, false) {
            Ok(file) => Ok(Some(self.remember(ino, file))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn existing_or_new(&self, ino: Ino) -> io::Result<Arc<Open>> {
        if let Some(open) = self.existing(ino)? {
            return Ok(open);
        }
        let file = self.opened(ino, true)?;
        self.names_changed(ino);
        Ok(self.remember(ino, file))
    }

    /// Opens an object's file; where no descriptor is left, those of objects that nobody uses now are let go.
    fn opened(&self, ino: Ino, create: bool) -> io::Result<File> {
        let path = self.path(ino);
        for _ in 0..OPEN_ATTEMPTS {
            let mut options = File::options();
            options.read(true).write(true).create(create).truncate(false).mode(0o600);
            match options.open(&path) {
                Err(error) if is_want_of_descriptors(&error) && self.close_idle() => {}
                opened => return opened,
            }
        }
        Err(rustix::io::Errno::MFILE.into())
    }

    /// Closes an object file that nobody uses now; false where there is none.
    pub(crate) fn close_idle(&self) -> bool {
        lock(&self.objects).close_idle()
    }

    fn remember(&self, ino: Ino, file: File) -> Arc<Open> {
        let mut objects = lock(&self.objects);
        if objects.open_count() >= self.open_max {
            objects.close_idle();
        }
        objects.opened(ino, file)
    }

    fn path(&self, ino: Ino) -> PathBuf {
        self.subdirectory(ino.0).join(format!("{:016x}", ino.0))
    }

    fn subdirectory(&self, number: u64) -> PathBuf {
        self.root.join(format!("{:02x}", number % SUBDIRECTORIES))
    }

    fn epoch_path(&self, ino: Ino) -> PathBuf {
        self.path(ino).with_extension(&EPOCH_SUFFIX[1..])
    }

    fn lock(&self, ino: Ino) -> &RwLock<()> {
        &self.locks[(ino.0 % LOCK_SHARDS as u64) as usize]
    }

    fn shared(&self, ino: Ino) -> std::sync::RwLockReadGuard<'_, ()> {
        self.lock(ino).read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_want_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let raw = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(raw, Some(Errno::MFILE | Errno::NFILE))
}

/// What the file system of `root` has left for this user.
fn free_bytes(root: &Path) -> io::Result<u64> {
    let statistics = rustix::fs::statvfs(root)?;
    Ok(statistics.f_bavail * statistics.f_frsize)
}

impl Default for Names {
    fn default() -> Names {
        Names { changes: AtomicU64::new(1), synced: Mutex::new(0) }
    }
}

impl Names {
    /// Makes the changes so far durable. Who comes while another one is at it waits, as its change may be among them.
    fn sync(&self, directory: &Path) -> io::Result<()> {
        let mut synced = lock(&self.synced);
        let changes = self.changes.load(Ordering::SeqCst);
        if *synced < changes {
            File::open(directory)?.sync_all()?;
            *synced = changes;
        }
        Ok(())
    }
}

fn subdirectory_of(ino: Ino) -> usize {
    (ino.0 % SUBDIRECTORIES) as usize
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a file; tells whether there was one.
fn removed(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn parse_ino(name: &str) -> Option<Ino> {
    u64::from_str_radix(name, 16).ok().map(Ino)
}

/// Fills `bytes` from `offset`; what lies past the end of the file stays zero.
fn read_to_end_of_file(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => return Ok(()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_MAX: usize = 4;
    const FILE: Ino = Ino(0x1_0000_0000_0007);

    fn range(offset: u64, length: u32) -> Extent {
        Extent { offset, length }
    }

    #[test]
    fn bytes_and_epochs_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
        dir.write(FILE, 0, &[range(100, 3), range(9000, 2)], b"abcde").unwrap();
        dir.truncate(FILE, 9001, 1).unwrap();
        dir.sync(FILE).unwrap();
        let used = dir.used_bytes();
        drop(dir);
        let dir = Dir::open(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
        assert_eq!(dir.used_bytes(), used);
        assert_eq!(dir.read(FILE, 1, &[range(99, 5), range(9000, 3)]).unwrap(), b"\0abc\0d\0\0");
        assert_eq!(dir.read(FILE, 0, &[range(0, 1)]), Err(StaleEpoch(1).into()));
        dir.remove(FILE).unwrap();
        assert_eq!(dir.used_bytes(), 0);
        assert_eq!(dir.read(FILE, 0, &[range(0, 2)]).unwrap(), [0, 0]);
    }

    /// A server that was killed between the two steps of a cut once counted the file of the first for ever.
    #[test]
    fn a_cut_that_was_killed_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
        let temporary = dir.path(FILE).with_extension(&UNFINISHED_SUFFIX[1..]);
        fs::write(&temporary, "7").unwrap();
        let dir = Dir::open(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
        assert_eq!(dir.used_bytes(), 0);
        assert!(!temporary.exists());
    }

    /// An epoch that a power loss left empty once kept the server from starting.
    #[test]
    fn an_epoch_that_is_empty_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
        fs::write(dir.epoch_path(FILE), "").unwrap();
        let dir = Dir::open(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
        dir.write(FILE, 0, &[range(0, 2)], b"ab").unwrap();
        dir.truncate(FILE, 1, 1).unwrap();
        assert_eq!(dir.read(FILE, 1, &[range(0, 2)]).unwrap(), b"a\0");
    }

    #[test]
    fn a_full_target_still_takes_overwrites() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open(folder.path(), Some(8192), OPEN_MAX).unwrap();
        dir.write(FILE, 0, &[range(0, 8192)], &[1; 8192]).unwrap();
        assert_eq!(dir.write(FILE, 0, &[range(8192, 1)], &[1]), Err(TargetFailure::Full));
        dir.write(FILE, 0, &[range(10, 100)], &[2; 100]).unwrap();
        assert_eq!(dir.reserve(FILE, 0, 0, 1 << 20, false), Err(TargetFailure::Full));
        dir.reserve(FILE, 0, 0, 4096, true).unwrap();
        assert_eq!(dir.seek(FILE, 0, 0, true).unwrap(), Some(4096));
        assert_eq!(dir.seek(FILE, 0, 0, false).unwrap(), Some(0));
    }

    /// A file system gives blocks when it writes back. They went unseen into the sum, which fell below zero when the object
    /// was discarded: the target was full for ever.
    #[test]
    fn blocks_that_come_after_the_last_write_do_not_change_the_sum() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open(folder.path(), Some(1 << 20), 1).unwrap();
        let grow = |ino| {
            File::options().write(true).open(dir.path(ino)).unwrap().set_len(0).map(|()| {
                fs::write(dir.path(ino), [7; 40_000]).unwrap();
            })
        };
        let other = Ino(FILE.0 + 1);
        dir.write(FILE, 0, &[range(0, 10)], &[1; 10]).unwrap();
        grow(FILE).unwrap();
        dir.write(other, 0, &[range(0, 10)], &[1; 10]).unwrap();
        grow(other).unwrap();
        let used = dir.used_bytes();
        assert_eq!(dir.read(FILE, 0, &[range(0, 1)]).unwrap(), [7]);
        assert_eq!(dir.used_bytes(), used);
        let Ok(Cut::SetAside(aside)) = dir.cut_undoably(FILE, 0, 1) else {
            panic!("the object is set aside")
        };
        dir.write(FILE, 1, &[range(0, 10)], &[1; 10]).unwrap();
        dir.discard(aside).unwrap();
        assert_eq!(dir.used_bytes(), used);
        grow(FILE).unwrap();
        dir.remove(FILE).unwrap();
        dir.remove(other).unwrap();
        assert_eq!(dir.used_bytes(), 0);
        assert!(dir.capacity_bytes() > 0);
    }
}
