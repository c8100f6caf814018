//! A target's folder in memory, for tests. It remembers every operation, shows the folder that a power loss leaves, has room for so many
//! bytes, and fails where it is told to.

use super::files::{Entry, Node, Opening, Sizes, TargetFile, TargetFolder};
use crate::journal::StorageFile;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The size of a block.
pub const BLOCK_BYTES: u64 = 4096;
/// The room without a limit.
const FREE_BYTES: u64 = 1 << 40;

/// A folder in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryFolder(Arc<Mutex<Disk>>);

/// How often a call fails from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failing {
    #[default]
    /// It works.
    Never,
    /// The next call fails.
    Once,
    /// Every call fails.
    Forever,
}

/// The calls that a device fails, and the number with which they fail.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Writes of bytes, and cuts.
    pub writes: Failing,
    /// Syncs.
    pub syncs: Failing,
    /// Changes of names.
    pub names: Failing,
}

#[derive(Debug)]
struct MemoryFile {
    disk: Arc<Mutex<Disk>>,
    number: usize,
}

#[derive(Clone, Debug, Default)]
struct Disk {
    files: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    folders: BTreeSet<PathBuf>,
    /// Folders with changes of names that no sync has covered.
    unsynced: BTreeSet<PathBuf>,
    operations: Vec<Operation>,
    /// Files and names before the first of the operations.
    base: (Vec<Content>, BTreeMap<PathBuf, usize>),
    /// The most bytes that all blocks together may have; `None` sets no limit.
    capacity_bytes: Option<u64>,
    faults: Faults,
    /// The changes that the process still makes before it is killed; `None` for a process that lives on.
    changes_left: Option<u64>,
}

/// The bytes of a file up to its length, and its blocks.
#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    blocks: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
enum Operation {
    Make { name: PathBuf, file: usize },
    Rename { from: PathBuf, to: PathBuf },
    Remove { name: PathBuf },
    SyncNames { folder: PathBuf },
    Write { file: usize, offset: u64, bytes: Vec<u8> },
    Truncate { file: usize, length: u64 },
    Allocate { file: usize, offset: u64, length: u64 },
    Punch { file: usize, offset: u64, length: u64 },
    SyncFile { file: usize },
}

/// The part of the disk whose syncs make an operation durable.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    Folder(PathBuf),
    File(usize),
}

impl Operation {
    fn place(&self) -> Place {
        match self {
            Operation::Make { name, .. } | Operation::Remove { name } => Place::Folder(parent(name)),
            Operation::Rename { to, .. } => Place::Folder(parent(to)),
            Operation::SyncNames { folder } => Place::Folder(folder.clone()),
            Operation::Write { file, .. }
            | Operation::Truncate { file, .. }
            | Operation::Allocate { file, .. }
            | Operation::Punch { file, .. }
            | Operation::SyncFile { file } => Place::File(*file),
        }
    }

    fn units(&self) -> usize {
        match self {
            Operation::Write { bytes, .. } => bytes.len(),
            _ => 1,
        }
    }

    fn is_sync(&self) -> bool {
        matches!(self, Operation::SyncNames { .. } | Operation::SyncFile { .. })
    }
}

fn parent(name: &Path) -> PathBuf {
    name.parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

fn blocks_of(offset: u64, length: u64) -> std::ops::Range<u64> {
    offset / BLOCK_BYTES..(offset + length).div_ceil(BLOCK_BYTES)
}

impl Content {
    fn sizes(&self) -> Sizes {
        Sizes {
            length_bytes: self.bytes.len() as u64,
            occupied_bytes: self.blocks.len() as u64 * BLOCK_BYTES,
            block_bytes: BLOCK_BYTES,
        }
    }
}

impl MemoryFolder {
    /// Limits the bytes of all blocks together. A write stores the bytes that fit; the next one gets ENOSPC.
    pub fn limit(&self, capacity_bytes: Option<u64>) {
        self.disk().capacity_bytes = capacity_bytes;
    }

    /// Has calls fail with EIO from now on.
    pub fn fail(&self, faults: Faults) {
        self.disk().faults = faults;
    }

    /// The bytes of all blocks of files that have a name.
    pub fn used_bytes(&self) -> u64 {
        self.disk().used_bytes()
    }

    /// The folder after a power loss. Whatever a sync has covered is there. `survives` decides about each other operation, in order: it
    /// gets the number of units of the operation (the bytes of a write, 1 for all others) and answers the number of units that
    /// survive. Names of one folder are lost from the first lost change on.
    pub fn after_power_loss(&self, mut survives: impl FnMut(usize) -> usize) -> MemoryFolder {
        let disk = self.disk();
        let mut synced: HashMap<Place, usize> = HashMap::new();
        for (index, operation) in
            disk.operations.iter().enumerate().filter(|(_, operation)| operation.is_sync())
        {
            synced.insert(operation.place(), index);
        }
        let mut cut_off: BTreeSet<PathBuf> = BTreeSet::new();
        let mut left = disk.clone();
        (left.files, left.names) = disk.base.clone();
        left.files.resize(disk.files.len(), Content::default());
        for (index, operation) in disk.operations.iter().enumerate() {
            let (place, units) = (operation.place(), operation.units());
            let is_synced = synced.get(&place).is_some_and(|&through| index < through);
            let kept = match &place {
                _ if is_synced => units,
                Place::Folder(folder) if cut_off.contains(folder) => 0,
                _ => survives(units).min(units),
            };
            match place {
                Place::Folder(folder) if kept == 0 => _ = cut_off.insert(folder),
                _ if kept > 0 => left.apply(operation, kept),
                _ => {}
            }
        }
        left.operations.clear();
        left.unsynced.clear();
        left.base = (left.files.clone(), left.names.clone());
        (left.faults, left.changes_left) = (Faults::default(), None);
        MemoryFolder(Arc::new(Mutex::new(left)))
    }

    /// The process is killed after so many changes more; `None` revives it.
    pub fn kill_after(&self, changes: Option<u64>) {
        self.disk().changes_left = changes;
    }

    /// Brings all names to stable storage, as a sync of another file on the same file system does.
    pub fn sync_all_names(&self) {
        let mut disk = self.disk();
        for folder in std::mem::take(&mut disk.unsynced) {
            disk.perform(Operation::SyncNames { folder });
        }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, number: usize) -> Box<dyn TargetFile> {
        Box::new(MemoryFile { disk: Arc::clone(&self.0), number })
    }
}

impl Failing {
    fn attempt(&mut self) -> io::Result<()> {
        match self {
            Failing::Never => return Ok(()),
            Failing::Once => *self = Failing::Never,
            Failing::Forever => {}
        }
        Err(Errno::IO.into())
    }
}

impl Disk {
    /// Whether a change of this kind is made.
    fn attempt(&mut self, kind: impl FnOnce(&mut Faults) -> &mut Failing) -> io::Result<()> {
        match &mut self.changes_left {
            Some(0) => return Err(Errno::IO.into()),
            Some(left) => *left -= 1,
            None => {}
        }
        kind(&mut self.faults).attempt()
    }

    fn used_bytes(&self) -> u64 {
        self.names.values().map(|&file| self.files[file].blocks.len() as u64 * BLOCK_BYTES).sum()
    }

    fn free_bytes(&self) -> u64 {
        self.capacity_bytes.unwrap_or(FREE_BYTES).saturating_sub(self.used_bytes())
    }

    /// The blocks that a range of a file lacks.
    fn missing(&self, file: usize, offset: u64, length: u64) -> u64 {
        blocks_of(offset, length).filter(|block| !self.files[file].blocks.contains(block)).count() as u64
    }

    fn apply(&mut self, operation: &Operation, units: usize) {
        match operation {
            Operation::Make { name, file } => _ = self.names.insert(name.clone(), *file),
            Operation::Rename { from, to } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            Operation::Remove { name } => _ = self.names.remove(name),
            Operation::Write { file, offset, bytes } => {
                let content = &mut self.files[*file];
                let (begin, end) = (*offset as usize, *offset as usize + units);
                content.bytes.resize(content.bytes.len().max(end), 0);
                content.bytes[begin..end].copy_from_slice(&bytes[..units]);
                content.blocks.extend(blocks_of(*offset, units as u64));
            }
            Operation::Truncate { file, length } => {
                let content = &mut self.files[*file];
                content.bytes.resize(*length as usize, 0);
                content.blocks.retain(|&block| block < length.div_ceil(BLOCK_BYTES));
            }
            Operation::Allocate { file, offset, length } => {
                let content = &mut self.files[*file];
                let end = (offset + length) as usize;
                content.bytes.resize(content.bytes.len().max(end), 0);
                content.blocks.extend(blocks_of(*offset, *length));
            }
            Operation::Punch { file, offset, length } => {
                let content = &mut self.files[*file];
                let end = (offset + length).min(content.bytes.len() as u64);
                content.bytes[(*offset).min(end) as usize..end as usize].fill(0);
                let whole = offset.div_ceil(BLOCK_BYTES)..(offset + length) / BLOCK_BYTES;
                content.blocks.retain(|block| !whole.contains(block));
            }
            Operation::SyncNames { .. } | Operation::SyncFile { .. } => {}
        }
    }

    fn perform(&mut self, operation: Operation) {
        self.apply(&operation, operation.units());
        match operation.place() {
            Place::Folder(folder) if operation.is_sync() => _ = self.unsynced.remove(&folder),
            Place::Folder(folder) => _ = self.unsynced.insert(folder),
            Place::File(_) => {}
        }
        self.operations.push(operation);
    }
}

impl TargetFolder for MemoryFolder {
    fn path(&self) -> &Path {
        Path::new("memory")
    }

    fn node(&self) -> Node {
        Node { device: 0, inode: 0 }
    }

    fn check_place(&self) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, name: &Path, opening: Opening) -> io::Result<Box<dyn TargetFile>> {
        let mut disk = self.disk();
        let number = match (disk.names.get(name), opening) {
            (Some(&number), _) => number,
            (None, Opening::Read | Opening::Change) => return Err(Errno::NOENT.into()),
            (None, Opening::Make | Opening::Empty) => {
                disk.attempt(|faults| &mut faults.names)?;
                disk.files.push(Content::default());
                let file = disk.files.len() - 1;
                disk.perform(Operation::Make { name: name.to_owned(), file });
                file
            }
        };
        if opening == Opening::Empty && !disk.files[number].bytes.is_empty() {
            disk.perform(Operation::Truncate { file: number, length: 0 });
        }
        drop(disk);
        Ok(self.file(number))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.attempt(|faults| &mut faults.names)?;
        if !disk.names.contains_key(from) {
            return Err(Errno::NOENT.into());
        }
        disk.perform(Operation::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn remove(&self, name: &Path) -> io::Result<bool> {
        let mut disk = self.disk();
        if !disk.names.contains_key(name) {
            return Ok(false);
        }
        disk.attempt(|faults| &mut faults.names)?;
        disk.perform(Operation::Remove { name: name.to_owned() });
        Ok(true)
    }

    fn node_of(&self, name: &Path) -> Option<Node> {
        self.disk().names.get(name).map(|&file| Node { device: 0, inode: file as u64 + 1 })
    }

    fn make_inner(&self, name: &Path) -> io::Result<()> {
        self.disk().folders.insert(name.to_owned());
        Ok(())
    }

    fn sync(&self, name: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.attempt(|faults| &mut faults.syncs)?;
        disk.perform(Operation::SyncNames { folder: name.to_owned() });
        Ok(())
    }

    fn entries(&self, name: &Path) -> io::Result<Vec<Entry>> {
        let disk = self.disk();
        if !disk.folders.contains(name) {
            return Err(Errno::NOENT.into());
        }
        // Paths are in the order of their components, so everything below a folder follows it.
        let after = disk.names.range::<Path, _>((Bound::Included(name), Bound::Unbounded));
        let below = after.take_while(|(path, _)| path.starts_with(name));
        let here = below.filter(|(path, _)| path.parent() == Some(name));
        let entries = here.filter_map(|(path, &file)| {
            let content = &disk.files[file];
            Some(Entry {
                name: path.file_name()?.to_owned(),
                sizes: content.sizes(),
                is_open_to_others: false,
            })
        });
        Ok(entries.collect())
    }

    fn sync_way(&self) {}

    fn boot(&self) -> u128 {
        1
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(self.disk().free_bytes())
    }

    fn free_files(&self) -> Option<u64> {
        None
    }
}

impl MemoryFile {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StorageFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = self.disk();
        let bytes = &disk.files[self.number].bytes;
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.disk();
        disk.attempt(|faults| &mut faults.writes)?;
        let mut fitting = bytes.len();
        while fitting > 0
            && disk.missing(self.number, offset, fitting as u64) * BLOCK_BYTES > disk.free_bytes()
        {
            let end = (offset + fitting as u64 - 1) / BLOCK_BYTES * BLOCK_BYTES;
            fitting = end.saturating_sub(offset) as usize;
        }
        if fitting == 0 && !bytes.is_empty() {
            return Err(Errno::NOSPC.into());
        }
        disk.perform(Operation::Write { file: self.number, offset, bytes: bytes[..fitting].to_vec() });
        Ok(fitting)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk().files[self.number].bytes.len() as u64)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut disk = self.disk();
        disk.attempt(|faults| &mut faults.writes)?;
        disk.perform(Operation::Truncate { file: self.number, length });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.disk();
        disk.attempt(|faults| &mut faults.syncs)?;
        disk.perform(Operation::SyncFile { file: self.number });
        Ok(())
    }
}

impl TargetFile for MemoryFile {
    fn node(&self) -> io::Result<Node> {
        Ok(Node { device: 0, inode: self.number as u64 + 1 })
    }

    fn sizes(&self) -> io::Result<Sizes> {
        let disk = self.disk();
        Ok(disk.files[self.number].sizes())
    }

    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut disk = self.disk();
        disk.attempt(|faults| &mut faults.writes)?;
        if length == 0 {
            return Err(Errno::INVAL.into());
        }
        if disk.missing(self.number, offset, length) * BLOCK_BYTES > disk.free_bytes() {
            return Err(Errno::NOSPC.into());
        }
        disk.perform(Operation::Allocate { file: self.number, offset, length });
        Ok(())
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut disk = self.disk();
        disk.attempt(|faults| &mut faults.writes)?;
        disk.perform(Operation::Punch { file: self.number, offset, length });
        Ok(())
    }

    fn seek(&self, offset: u64, data: bool) -> io::Result<Option<u64>> {
        let disk = self.disk();
        let content = &disk.files[self.number];
        let end = content.bytes.len() as u64;
        let found = (offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES))
            .find(|block| content.blocks.contains(block) == data)
            .map(|block| offset.max(block * BLOCK_BYTES));
        Ok(if data { found } else { found.or(Some(end)) })
    }

    fn sync_whole(&self) -> io::Result<()> {
        StorageFile::sync(self)
    }

    fn close_to_others(&self) -> io::Result<()> {
        Ok(())
    }
}
