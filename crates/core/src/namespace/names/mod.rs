//! Names: the tree of directories, walked, changed, checked and mended.
//!
//! [`Names`] holds what names alone need: the servers over which new directories spread, the directories of other servers that are being
//! made, moved or removed for names here, the directories made here for names elsewhere, and the ways by which users came here.
//! Entries stand in the inodes of their directories, so the names own the files and change entries through them.
//!
//! Promises: every name leads to an inode, and the names of each inode are counted. A number alone opens nothing: whoever names an inode by
//! it could have walked there. A name that another server is about to change waits. Each decision about names changes nothing: its
//! records do, once they are applied. Names ask intents for what is pending, and know nothing of appends.

mod apply;
mod check;
mod continuation;
mod create;
mod listing;
mod mend;
mod naming;
mod passes;
mod peers;
mod places;
mod questions;
mod remove;
mod rename;
mod resumption;
#[cfg(test)]
mod tests;
mod walk;

#[cfg(test)]
pub(crate) use check::hexadecimal;
pub use check::{AwayEntry, EntryQuestion, Examined, Fault, FaultKind, Position};
pub use continuation::Continuation;
pub use mend::{Order, Refusal};
pub use peers::PeerDecision;
pub use places::PlaceEntry;
pub use resumption::PeerFailure;
pub(crate) use walk::Last;

use super::files::{Files, InoMap};
use super::intents::{Bytes, IntentId};
use passes::Passes;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use weir_placement::{Homes, ServerId};
use weir_wire::Ino;

/// The names of one server, above its files.
#[derive(Clone, Debug)]
pub struct Names {
    files: Files,
    /// The servers that may be the homes of new directories.
    homes: Homes,
    /// Directories that were made here for intents of other servers.
    made: BTreeMap<(ServerId, IntentId), Ino>,
    /// Directories of other servers that are being removed. The fields from here to `making` are derived from the intents.
    removing: InoMap<IntentId>,
    /// Directories of other servers that do not know yet of a move of their entries.
    moving: InoMap<IntentId>,
    /// Directories that other servers may have made without an entry here.
    unsettled: BTreeSet<IntentId>,
    /// Entries for which another server is making a directory.
    making: HashMap<(Ino, Bytes), IntentId>,
    passes: Passes,
}

impl Names {
    /// No names, above `files`.
    pub(crate) fn new(files: Files, servers: Vec<ServerId>) -> Names {
        Names {
            files,
            homes: Homes::new(servers),
            made: BTreeMap::new(),
            removing: InoMap::default(),
            moving: InoMap::default(),
            unsettled: BTreeSet::new(),
            making: HashMap::new(),
            passes: Passes::default(),
        }
    }

    /// The files.
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// The files, for changes that names know nothing of.
    pub(crate) fn files_mut(&mut self) -> &mut Files {
        &mut self.files
    }

    /// Has new directories of the root, or of one with `spread`, have their homes on these servers. A directory stays where it
    /// is, and its number says where that is: so servers that know of other rings never disagree.
    pub(crate) fn spread_over(&mut self, servers: Vec<ServerId>) {
        self.homes.spread_over(servers);
    }

    /// Adopts the demand on the metadata service of each server, as the last exchange told it.
    pub(crate) fn weigh_homes(&mut self, wanted: impl IntoIterator<Item = (ServerId, f64)>) {
        self.homes.heard(wanted);
    }
}
