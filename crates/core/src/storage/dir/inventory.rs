//! The inventory of a target's directory, which the opening of the target makes.

use super::names::{subdirectory, Found, Name, SUBDIRECTORIES};
use super::objects::Objects;
use crate::storage::files::{Entry, Opening, TargetFolder};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use weir_wire::Ino;

/// Longest file of an epoch: the digits of a number.
const EPOCH_BYTES: usize = 32;

/// The files below a target.
#[derive(Default)]
pub(in crate::storage) struct Inventory {
    pub(in crate::storage) objects: Objects,
    pub(in crate::storage) epochs: HashMap<Ino, u64>,
    pub(in crate::storage) found: Found,
}

impl Inventory {
    /// Makes the subdirectories, reads the names in them, and removes files that a killed server left unfinished.
    pub(in crate::storage) fn of(folder: &dyn TargetFolder) -> io::Result<Inventory> {
        let mut inventory = Inventory::default();
        for number in 0..SUBDIRECTORIES as usize {
            let directory = subdirectory(number);
            folder.make_inner(&directory)?;
            for entry in folder.entries(&directory)? {
                inventory.take(folder, &directory.join(&entry.name), &entry)?;
            }
        }
        Ok(inventory)
    }

    fn take(&mut self, folder: &dyn TargetFolder, path: &Path, entry: &Entry) -> io::Result<()> {
        let Some(name) = entry.name.to_str() else { return Ok(()) };
        match Name::of(name) {
            Name::Epoch(ino) => match read_epoch(folder, path)? {
                Some(epoch) => _ = self.epochs.insert(ino, epoch),
                // A power loss leaves the file empty if the epoch was not on the disk yet. The home has the epoch, and cuts
                // anew before a file grows over bytes behind its end.
                None => _ = folder.remove(path)?,
            },
            // The server was killed in a cut, and the home will ask for the cut again.
            Name::UnfinishedEpoch => _ = folder.remove(path)?,
            Name::Aside(aside) => {
                close_to_others(folder, path, entry)?;
                self.found.asides.push(aside);
                self.objects.found_aside(aside, entry.sizes);
            }
            Name::Object(ino) => {
                close_to_others(folder, path, entry)?;
                self.found.objects.push(ino);
                self.objects.found(ino, entry.sizes);
            }
            Name::Other => close_to_others(folder, path, entry)?,
        }
        Ok(())
    }
}

fn read_epoch(folder: &dyn TargetFolder, path: &Path) -> io::Result<Option<u64>> {
    let text = folder.open(path, Opening::Read)?.read_whole(EPOCH_BYTES)?;
    let text = String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(text.trim().parse().ok())
}

/// Takes the rights of others to a file away. An older server may have made the file, and a directory that was open to others may have
/// let them in.
fn close_to_others(folder: &dyn TargetFolder, path: &Path, entry: &Entry) -> io::Result<()> {
    match entry.is_open_to_others {
        true => folder.open(path, Opening::Read)?.close_to_others(),
        false => Ok(()),
    }
}

/// The objects below a target with their lengths, by a look that changes nothing. Objects that come and go meanwhile may be missed.
pub(super) fn listed(folder: &dyn TargetFolder) -> io::Result<Vec<(Ino, u64)>> {
    let mut objects = Vec::new();
    for number in 0..SUBDIRECTORIES as usize {
        let entries = match folder.entries(&subdirectory(number)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            if let Some(Name::Object(ino)) = entry.name.to_str().map(Name::of) {
                objects.push((ino, entry.sizes.length_bytes));
            }
        }
    }
    Ok(objects)
}
