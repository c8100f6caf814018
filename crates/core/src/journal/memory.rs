//! A journal's storage in memory, for tests. The storage remembers every operation, and shows the files that a crash after
//! any of them leaves.

use super::storage::{File, Storage, StorageFile};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files in memory. Clones share the files.
#[derive(Clone, Debug, Default)]
pub struct MemoryStorage(Arc<Mutex<Disk>>);

/// An open file of a [`MemoryStorage`].
#[derive(Debug)]
struct MemoryFile {
    disk: Arc<Mutex<Disk>>,
    number: usize,
}

#[derive(Clone, Debug, Default)]
struct Disk {
    files: Vec<Vec<u8>>,
    names: BTreeMap<String, usize>,
    operations: Vec<Operation>,
    /// Files and names before the first of the operations.
    base: (Vec<Vec<u8>>, BTreeMap<String, usize>),
    boot: u128,
    salts: u32,
    /// The most bytes that all files together may have; `None` sets no limit.
    capacity: Option<usize>,
    fails_sync: bool,
    fails_truncate: bool,
}

#[derive(Clone, Debug)]
enum Operation {
    Name { name: String, file: usize },
    Rename { from: String, to: String, file: usize },
    Remove { name: String },
    SyncDirectory,
    Write { file: usize, offset: usize, bytes: Vec<u8> },
    Truncate { file: usize, length: usize },
    Sync { file: usize },
}

impl Operation {
    /// The file whose content the operation changes; none for an operation on the directory.
    fn file(&self) -> Option<usize> {
        match self {
            Operation::Write { file, .. } | Operation::Truncate { file, .. } | Operation::Sync { file } => {
                Some(*file)
            }
            _ => None,
        }
    }

    fn units(&self) -> usize {
        match self {
            Operation::Write { bytes, .. } => bytes.len(),
            _ => 1,
        }
    }

    fn is_sync(&self) -> bool {
        matches!(self, Operation::SyncDirectory | Operation::Sync { .. })
    }
}

impl MemoryStorage {
    /// An empty storage.
    pub fn new() -> MemoryStorage {
        MemoryStorage::default()
    }

    /// The number of operations so far: the crash points are 0 to this number.
    pub fn operations(&self) -> usize {
        self.disk().operations.len()
    }

    /// The storage that a process finds after a kill of its predecessor behind operation `point`. A power loss can still take
    /// operations that no sync has covered.
    pub fn after_kill(&self, point: usize) -> MemoryStorage {
        let disk = self.disk();
        let mut left = disk.replayed(point, |_, units| units);
        left.base = disk.base.clone();
        left.operations = disk.operations[..point].to_vec();
        MemoryStorage(Arc::new(Mutex::new(left)))
    }

    /// The storage after a power loss behind operation `point`. `survives` decides about each operation that no sync has
    /// covered, in order: it gets the number of units of the operation (the bytes of a write, 1 for all others) and answers
    /// the number of units that survive.
    pub fn after_power_loss(&self, point: usize, mut survives: impl FnMut(usize) -> usize) -> MemoryStorage {
        let disk = self.disk();
        let mut directory_synced = 0;
        let mut file_synced = vec![0; disk.files.len()];
        for (index, operation) in disk.operations[..point].iter().enumerate() {
            match operation {
                Operation::SyncDirectory => directory_synced = index,
                Operation::Sync { file } => file_synced[*file] = index,
                _ => {}
            }
        }
        let mut left = disk.replayed(point, |index, units| {
            let synced = disk.operations[index].file().map_or(directory_synced, |file| file_synced[file]);
            if index < synced {
                units
            } else {
                survives(units).min(units)
            }
        });
        left.boot += 1;
        left.base = (left.files.clone(), left.names.clone());
        MemoryStorage(Arc::new(Mutex::new(left)))
    }

    /// Limits the bytes of all files together. A write stores the bytes that fit; the next write gets ENOSPC.
    pub fn limit(&self, capacity_bytes: Option<usize>) {
        self.disk().capacity = capacity_bytes;
    }

    /// Bytes of all files that have a name.
    pub fn used_bytes(&self) -> usize {
        self.disk().used()
    }

    /// Makes every later sync fail with EIO, or work again.
    pub fn fail_sync(&self, fails: bool) {
        self.disk().fails_sync = fails;
    }

    /// Makes every later truncation fail with EIO, or work again.
    pub fn fail_truncate(&self, fails: bool) {
        self.disk().fails_truncate = fails;
    }

    /// Changes a file behind the journal's back, as a failing device would.
    ///
    /// # Errors
    /// NotFound for a name that is not there.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut disk = self.disk();
        let file = disk.find(name)?;
        change(&mut disk.files[file]);
        Ok(())
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    fn used(&self) -> usize {
        self.names.values().map(|file| self.files[*file].len()).sum()
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// A new disk with the operations before `point`. `survives` answers the surviving units of an operation by its index and
    /// units.
    fn replayed(&self, point: usize, mut survives: impl FnMut(usize, usize) -> usize) -> Disk {
        let (mut files, names) = self.base.clone();
        files.resize(self.files.len(), Vec::new());
        let mut disk = Disk { files, names, boot: self.boot, salts: self.salts, ..Disk::default() };
        for (index, operation) in self.operations[..point].iter().enumerate() {
            if operation.is_sync() {
                continue;
            }
            let kept = survives(index, operation.units());
            if kept > 0 {
                disk.apply(operation, kept);
            }
        }
        disk
    }

    fn apply(&mut self, operation: &Operation, units: usize) {
        match operation {
            Operation::Name { name, file } => {
                self.names.insert(name.clone(), *file);
            }
            Operation::Rename { from, to, file } => {
                self.names.remove(from);
                self.names.insert(to.clone(), *file);
            }
            Operation::Remove { name } => {
                self.names.remove(name);
            }
            Operation::Write { file, offset, bytes } => {
                let content = &mut self.files[*file];
                let end = offset + units;
                content.resize(content.len().max(end), 0);
                content[*offset..end].copy_from_slice(&bytes[..units]);
            }
            Operation::Truncate { file, length } => self.files[*file].resize(*length, 0),
            Operation::SyncDirectory | Operation::Sync { .. } => {}
        }
    }

    fn perform(&mut self, operation: Operation) {
        self.apply(&operation, operation.units());
        self.operations.push(operation);
    }
}

impl MemoryFile {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for MemoryStorage {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.disk().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<File> {
        let number = self.disk().find(name)?;
        Ok(Arc::new(MemoryFile { disk: Arc::clone(&self.0), number }))
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let mut disk = self.disk();
        let number = match disk.names.get(name) {
            Some(number) => *number,
            None => {
                disk.files.push(Vec::new());
                disk.files.len() - 1
            }
        };
        disk.perform(Operation::Name { name: name.to_owned(), file: number });
        if !disk.files[number].is_empty() {
            disk.perform(Operation::Truncate { file: number, length: 0 });
        }
        Ok(Arc::new(MemoryFile { disk: Arc::clone(&self.0), number }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        let file = disk.find(from)?;
        disk.perform(Operation::Rename { from: from.to_owned(), to: to.to_owned(), file });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.find(name)?;
        disk.perform(Operation::Remove { name: name.to_owned() });
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.fails_sync {
            return Err(rustix::io::Errno::IO.into());
        }
        disk.perform(Operation::SyncDirectory);
        Ok(())
    }

    fn boot(&self) -> u128 {
        self.disk().boot + 1
    }

    fn salt(&self) -> io::Result<u32> {
        let mut disk = self.disk();
        disk.salts = disk.salts.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
        Ok(disk.salts)
    }

    fn describe(&self, name: &str) -> String {
        format!("memory/{name}")
    }
}

impl StorageFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = self.disk();
        let content = &disk.files[self.number];
        let rest = usize::try_from(offset).ok().and_then(|offset| content.get(offset..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.disk();
        let offset = usize::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let grown = (offset + bytes.len()).saturating_sub(disk.files[self.number].len());
        let free = disk.capacity.map_or(grown, |capacity| capacity.saturating_sub(disk.used()));
        let fitting = bytes.len() - grown.saturating_sub(free).min(bytes.len());
        if fitting == 0 && !bytes.is_empty() {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        disk.perform(Operation::Write { file: self.number, offset, bytes: bytes[..fitting].to_vec() });
        Ok(fitting)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk().files[self.number].len() as u64)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.fails_truncate {
            return Err(rustix::io::Errno::IO.into());
        }
        let length = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        disk.perform(Operation::Truncate { file: self.number, length });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.fails_sync {
            return Err(rustix::io::Errno::IO.into());
        }
        disk.perform(Operation::Sync { file: self.number });
        Ok(())
    }
}
