//! The names of files below a target: objects, their epochs, and objects set aside.

use crate::storage::files::TargetFolder;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use weir_wire::Ino;

/// Subdirectories, so that none holds more than a few thousand objects at a million files.
pub(in crate::storage) const SUBDIRECTORIES: u64 = 256;
const EPOCH_SUFFIX: &str = ".epoch";
/// Ends the name of an epoch that is being written.
const UNFINISHED_SUFFIX: &str = ".epoch-new";
const ASIDE_PREFIX: &str = "aside-";

/// An object that was set aside, and the epoch of the cut that emptied it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Aside {
    pub(in crate::storage) ino: Ino,
    pub(in crate::storage) epoch: u64,
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
pub(in crate::storage) struct Found {
    pub(in crate::storage) objects: Vec<Ino>,
    pub(in crate::storage) asides: Vec<Aside>,
}

/// The changes of names in each subdirectory: those that were made, and those on stable storage. All changes before the target was opened
/// count as one.
pub(in crate::storage) struct NameChanges(Vec<(u64, u64)>);

/// The changes so far of names in one subdirectory, which are to be made durable.
#[derive(Clone, Copy, Debug)]
pub(in crate::storage) struct NameSync {
    subdirectory: usize,
    made: u64,
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
    /// The object.
    pub(crate) fn ino(&self) -> Ino {
        self.ino
    }

    fn parse(name: &str) -> Option<Aside> {
        let (ino, extension) = name.split_once('.')?;
        let epoch = extension.strip_prefix(ASIDE_PREFIX)?;
        Some(Aside { ino: parse_ino(ino)?, epoch: u64::from_str_radix(epoch, 16).ok()? })
    }
}

impl Found {
    /// The epochs of each object's asides, in their order.
    pub(in crate::storage) fn asides_by_object(&self) -> BTreeMap<Ino, Vec<u64>> {
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
pub(in crate::storage) fn object(ino: Ino) -> PathBuf {
    PathBuf::from(format!("{:02x}/{:016x}", subdirectory_of(ino), ino.0))
}

/// The name of an object's epoch below a target.
pub(in crate::storage) fn epoch(ino: Ino) -> PathBuf {
    object(ino).with_extension(&EPOCH_SUFFIX[1..])
}

/// The name of an epoch that is being written.
pub(super) fn unfinished_epoch(ino: Ino) -> PathBuf {
    object(ino).with_extension(&UNFINISHED_SUFFIX[1..])
}

/// The name of an object that was set aside.
pub(in crate::storage) fn aside(aside: Aside) -> PathBuf {
    object(aside.ino).with_extension(format!("{ASIDE_PREFIX}{:016x}", aside.epoch))
}

impl Default for NameChanges {
    fn default() -> NameChanges {
        NameChanges(vec![(1, 0); SUBDIRECTORIES as usize])
    }
}

impl NameChanges {
    /// Notes that a name of an object was made, changed or removed: each later sync of the object syncs the name.
    pub(in crate::storage) fn note(&mut self, object: Ino) {
        self.0[subdirectory_of(object)].0 += 1;
    }

    /// The changes in a subdirectory that no sync has covered.
    pub(in crate::storage) fn unsynced(&self, subdirectory: usize) -> Option<NameSync> {
        let (made, synced) = self.0[subdirectory];
        (synced < made).then_some(NameSync { subdirectory, made })
    }

    /// These changes are on stable storage.
    pub(in crate::storage) fn synced(&mut self, changes: NameSync) {
        let synced = &mut self.0[changes.subdirectory].1;
        *synced = changes.made.max(*synced);
    }
}

impl NameSync {
    /// The number of the subdirectory.
    pub(in crate::storage) fn subdirectory(self) -> usize {
        self.subdirectory
    }

    /// Makes the changes durable; the call blocks.
    pub(in crate::storage) fn run(self, folder: &dyn TargetFolder) -> io::Result<()> {
        folder.sync(&subdirectory(self.subdirectory))
    }
}

/// The number of the subdirectory that has an object's files.
pub(in crate::storage) fn subdirectory_of(ino: Ino) -> usize {
    (ino.0 % SUBDIRECTORIES) as usize
}

fn parse_ino(name: &str) -> Option<Ino> {
    u64::from_str_radix(name, 16).ok().map(Ino)
}
