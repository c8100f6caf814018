//! The inventory of a target's directory, which the opening of the target makes.

use super::names::{Found, Name, Paths, SUBDIRECTORIES};
use super::objects::Objects;
use crate::privacy;
use std::collections::HashMap;
use std::fs::{self, DirEntry, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use weir_wire::Ino;

/// The files below a target.
#[derive(Default)]
pub(super) struct Inventory {
    pub(super) objects: Objects,
    pub(super) epochs: HashMap<Ino, u64>,
    pub(super) found: Found,
}

impl Inventory {
    /// Makes the subdirectories, reads the names in them, and removes files that a killed server left unfinished.
    pub(super) fn of(paths: &Paths) -> io::Result<Inventory> {
        let mut inventory = Inventory::default();
        for number in 0..SUBDIRECTORIES as usize {
            let directory = paths.subdirectory(number);
            privacy::private_folder(&directory)?;
            for entry in fs::read_dir(&directory)? {
                inventory.take(&entry?)?;
            }
        }
        Ok(inventory)
    }

    fn take(&mut self, entry: &DirEntry) -> io::Result<()> {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { return Ok(()) };
        match Name::of(name) {
            Name::Epoch(ino) => match fs::read_to_string(entry.path())?.trim().parse() {
                Ok(epoch) => _ = self.epochs.insert(ino, epoch),
                // A power loss leaves the file empty if the epoch was not on the disk yet. The home has the epoch, and cuts
                // anew before a file grows over bytes behind its end.
                Err(_) => fs::remove_file(entry.path())?,
            },
            // The server was killed in a cut, and the home will ask for the cut again.
            Name::UnfinishedEpoch => fs::remove_file(entry.path())?,
            Name::Aside(aside) => {
                self.found.asides.push(aside);
                self.objects.found_aside(aside, &close_to_others(entry)?);
            }
            Name::Object(ino) => {
                self.found.objects.push(ino);
                self.objects.found(ino, &close_to_others(entry)?);
            }
            Name::Other => _ = close_to_others(entry)?,
        }
        Ok(())
    }
}

/// Takes the rights of others to a file away, and answers its metadata. An older server may have made the file, and a directory
/// that was open to others may have let them in.
fn close_to_others(entry: &DirEntry) -> io::Result<Metadata> {
    let metadata = entry.metadata()?;
    if metadata.mode() & 0o077 != 0 {
        privacy::close_to_others(&File::open(entry.path())?)?;
    }
    Ok(metadata)
}

/// The objects below a target with their lengths, by a look that changes nothing. Objects that come and go meanwhile may be missed.
pub(super) fn listed(paths: &Paths) -> io::Result<Vec<(Ino, u64)>> {
    let mut objects = Vec::new();
    for number in 0..SUBDIRECTORIES as usize {
        let entries = match fs::read_dir(paths.subdirectory(number)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some(Name::Object(ino)) = name.to_str().map(Name::of) else { continue };
            match entry.metadata() {
                Ok(metadata) => objects.push((ino, metadata.len())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(objects)
}
