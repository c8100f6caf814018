//! The names of files below a target: objects, their epochs, and objects set aside.

use crate::storage::files::TargetFolder;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_wire::Ino;

/// Subdirectories, so that none holds more than a few thousand objects at a million files.
pub(super) const SUBDIRECTORIES: u64 = 256;
const EPOCH_SUFFIX: &str = ".epoch";
/// Ends the name of an epoch that is being written.
const UNFINISHED_SUFFIX: &str = ".epoch-new";
const ASIDE_PREFIX: &str = "aside-";

/// An object that was set aside, and the epoch of the cut that emptied it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Aside {
    pub(super) ino: Ino,
    pub(super) epoch: u64,
}

/// The meaning of a file's name.
pub(super) enum Name {
    Object(Ino),
    Epoch(Ino),
    UnfinishedEpoch,
    Aside(Aside),
    Other,
}

/// The names that a target had when it was opened, until it is settled.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) objects: Vec<Ino>,
    pub(super) asides: Vec<Aside>,
}

/// The changes of names in one subdirectory. All changes before the target was opened count as one.
pub(super) struct NameChanges {
    made: AtomicU64,
    /// The number of changes on stable storage.
    synced: Mutex<u64>,
}

impl Name {
    pub(super) fn of(name: &str) -> Name {
        if let Some(ino) = name.strip_suffix(EPOCH_SUFFIX).and_then(parse_ino) {
            return Name::Epoch(ino);
        }
        if name.ends_with(UNFINISHED_SUFFIX) {
            return Name::UnfinishedEpoch;
        }
        let aside = Aside::parse(name).map(Name::Aside);
        aside.or_else(|| parse_ino(name).map(Name::Object)).unwrap_or(Name::Other)
    }
}

impl Aside {
    fn parse(name: &str) -> Option<Aside> {
        let (ino, extension) = name.split_once('.')?;
        let epoch = extension.strip_prefix(ASIDE_PREFIX)?;
        Some(Aside { ino: parse_ino(ino)?, epoch: u64::from_str_radix(epoch, 16).ok()? })
    }
}

impl Found {
    /// The epochs of each object's asides, in their order.
    pub(super) fn asides_by_object(&self) -> BTreeMap<Ino, Vec<u64>> {
        let mut objects: BTreeMap<Ino, Vec<u64>> = BTreeMap::new();
        for aside in &self.asides {
            objects.entry(aside.ino).or_default().push(aside.epoch);
        }
        objects.values_mut().for_each(|epochs| epochs.sort_unstable());
        objects
    }
}

/// The name of a subdirectory below a target.
pub(super) fn subdirectory(number: usize) -> PathBuf {
    PathBuf::from(format!("{number:02x}"))
}

/// The name of an object below a target.
pub(super) fn object(ino: Ino) -> PathBuf {
    PathBuf::from(format!("{:02x}/{:016x}", subdirectory_of(ino), ino.0))
}

/// The name of an object's epoch below a target.
pub(super) fn epoch(ino: Ino) -> PathBuf {
    object(ino).with_extension(&EPOCH_SUFFIX[1..])
}

/// The name of an epoch that is being written.
pub(super) fn unfinished_epoch(ino: Ino) -> PathBuf {
    object(ino).with_extension(&UNFINISHED_SUFFIX[1..])
}

/// The name of an object that was set aside.
pub(super) fn aside(aside: Aside) -> PathBuf {
    object(aside.ino).with_extension(format!("{ASIDE_PREFIX}{:016x}", aside.epoch))
}

impl Default for NameChanges {
    fn default() -> NameChanges {
        NameChanges { made: AtomicU64::new(1), synced: Mutex::new(0) }
    }
}

impl NameChanges {
    /// Notes that a name was made, changed or removed.
    pub(super) fn note(&self) {
        self.made.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes the changes so far durable. A caller waits for another caller's sync, as its change may be in that sync.
    pub(super) fn sync(&self, folder: &dyn TargetFolder, directory: &Path) -> io::Result<()> {
        let mut synced = lock(&self.synced);
        let made = self.made.load(Ordering::SeqCst);
        if *synced < made {
            folder.sync(directory)?;
            *synced = made;
        }
        Ok(())
    }
}

/// The number of the subdirectory that has an object's files.
pub(super) fn subdirectory_of(ino: Ino) -> usize {
    (ino.0 % SUBDIRECTORIES) as usize
}

/// Locks a mutex, also after a panic of another holder.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn parse_ino(name: &str) -> Option<Ino> {
    u64::from_str_radix(name, 16).ok().map(Ino)
}
