//! The repair of the tree: one order mends one fault, and is refused where the state of this moment does not show the fault.
//!
//! All records but two are those of ordinary operations. Nothing here removes an inode that somebody could still reach, or its bytes:
//! what has no name gets one in `lost+found`.

use super::check::bytes_of;
use super::Names;
use crate::namespace::change::Change;
use crate::namespace::decision::{Answer, Decision};
use crate::namespace::files::{Birth, BirthNode, Inode};
use crate::namespace::intents::{Bytes, IntentId};
use crate::namespace::quotas::ROOT;
use serde::{Deserialize, Serialize};
use weir_placement::LayoutRequest;
use weir_wire::{FileKind, Ino, Moment, Reply};

/// The directory of the root that takes what no name leads to, as other file systems call it.
pub(crate) const SHELTER: &[u8] = b"lost+found";
/// Nobody but root enters it: what it holds may have stood in a directory closed to others.
const SHELTER_PERMISSIONS: u16 = 0o700;
/// Permissions of group and others.
const OTHERS: u16 = 0o077;

/// One piece of a repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mend", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Makes `lost+found`, unless it is there.
    Shelter,
    /// Makes the folder of this server for `lost+found`, which stands at another one under `name`.
    ShelterHere {
        /// The directory.
        parent: u64,
        /// The name in it.
        name: String,
    },
    /// Enters the folder of another server into `lost+found`.
    EnterShelter {
        /// The directory.
        parent: u64,
        /// The name in it.
        name: String,
        /// The inode.
        ino: u64,
    },
    /// Gives an inode without a name one in the folder `shelter`, by its number.
    Name {
        /// The inode.
        ino: u64,
        /// The directory of inodes that were found.
        shelter: u64,
        /// Where it was, if that is known.
        place: Option<Place>,
    },
    /// Moves the entry of a directory that is above itself into the folder `shelter`.
    Cut {
        /// The inode.
        ino: u64,
        /// The directory of inodes that were found.
        shelter: u64,
    },
    /// Removes an entry that leads nowhere, or that is a second one of its directory.
    Unname {
        /// The directory.
        parent: u64,
        /// The name in it.
        name: String,
        /// The inode.
        ino: u64,
    },
    /// Gives an entry the kind of its inode.
    Retype {
        /// The directory.
        parent: u64,
        /// The name in it.
        name: String,
        /// The inode.
        ino: u64,
    },
    /// Tells a directory its place.
    Place {
        /// The inode.
        ino: u64,
        /// The directory.
        parent: u64,
        /// The name in it.
        name: String,
    },
    /// Counts the names of an inode.
    Count {
        /// The inode.
        ino: u64,
    },
    /// Removes an inode that has no name and is not open.
    Dispose {
        /// The inode.
        ino: u64,
    },
    /// Sums the use of all owners up anew.
    Sums,
}

/// The place of a directory by its own record, as the sender of an order saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    pub(crate) parent: u64,
    pub(crate) name: String,
    pub(crate) placed_by: u64,
}

/// The reason for which an order is not carried out.
pub type Refusal = &'static str;

const GONE: Refusal = "the fault is not there any more";
const NOT_A_NAME: Refusal = "the name is not bytes in hexadecimal";

impl Names {
    /// The decision that carries an order out, for `Namespace::mend`; `next` is the number of the next intent.
    pub(crate) fn mend(&self, order: &Order, at: Moment, next: IntentId) -> Result<(Decision, Ino), Refusal> {
        let (changes, ino) = match order {
            Order::Shelter => self.make_shelter(at)?,
            Order::ShelterHere { parent, name } => self.make_shelter_of(Ino(*parent), &bytes(name)?, at)?,
            Order::EnterShelter { parent, name, ino } => {
                self.enter_shelter(Ino(*parent), &bytes(name)?, Ino(*ino), at)?
            }
            Order::Name { ino, shelter, place } => self.name(Ino(*ino), Ino(*shelter), place.as_ref(), at)?,
            Order::Cut { ino, shelter } => self.cut(Ino(*ino), Ino(*shelter), at)?,
            Order::Unname { parent, name, ino } => {
                self.unname((Ino(*parent), &bytes(name)?), Ino(*ino), at)?
            }
            Order::Retype { parent, name, ino } => {
                self.retype((Ino(*parent), &bytes(name)?), Ino(*ino), at)?
            }
            Order::Place { ino, parent, name } => self.place(Ino(*ino), (Ino(*parent), &bytes(name)?))?,
            Order::Count { ino } => self.count(Ino(*ino))?,
            Order::Dispose { ino } => self.dispose_leftover(Ino(*ino), next)?,
            Order::Sums => (vec![Change::UseCounted], Ino::default()),
        };
        Ok((Decision::of(changes, Answer::Now(Reply::Done, Vec::new())), ino))
    }

    fn make_shelter(&self, at: Moment) -> Result<(Vec<Change>, Ino), Refusal> {
        let root = self.files.directory(Ino::ROOT).ok_or("only the server of the root has `lost+found`")?;
        match root.find(SHELTER) {
            Some(entry) if self.is_shelter(entry.ino) => Ok((Vec::new(), entry.ino)),
            Some(_) => Err("`/lost+found` is no directory of root's alone: give it another name"),
            None if self.is_on_its_way(Ino::default(), (Ino::ROOT, SHELTER)) => {
                Err("`/lost+found` is being made by someone")
            }
            None => {
                let ino = self.files.next_ino();
                let (parent, name) = (Ino::ROOT, Bytes::from(SHELTER));
                Ok((vec![Change::Created { parent, name, ino, birth: shelter(), at }], ino))
            }
        }
    }

    /// Makes a directory as for an intent of the other server; number 0 is that of no intent.
    fn make_shelter_of(&self, parent: Ino, name: &[u8], at: Moment) -> Result<(Vec<Change>, Ino), Refusal> {
        if parent.home() == self.files.server() {
            return Err("`lost+found` stands at this server");
        }
        let ino = self.files.next_ino();
        let (from, intent, name) = (parent.home(), IntentId(0), Bytes::from(name));
        let made =
            Change::MadeForPeer { from, intent, settled: intent, parent, name, ino, birth: shelter(), at };
        // No intent will ever ask for it, so it is no directory that another server may want to forget.
        Ok((vec![made], ino))
    }

    fn enter_shelter(
        &self,
        parent: Ino,
        name: &[u8],
        ino: Ino,
        at: Moment,
    ) -> Result<(Vec<Change>, Ino), Refusal> {
        let is_free = self.files.directory(parent).is_some_and(|directory| directory.find(name).is_none());
        if !self.is_shelter(parent) || !is_free || ino.home() == self.files.server() {
            return Err(GONE);
        }
        let (name, kind) = (Bytes::from(name), FileKind::Directory);
        Ok((vec![Change::Linked { parent, name, ino, kind, at }], ino))
    }

    fn name(
        &self,
        ino: Ino,
        shelter: Ino,
        place: Option<&Place>,
        at: Moment,
    ) -> Result<(Vec<Change>, Ino), Refusal> {
        let inode = self.files.get(ino).filter(|inode| inode.names > 0).ok_or(GONE)?;
        if !self.is_nameless(ino, inode, place) {
            return Err(GONE);
        }
        let (name, kind) = (self.sheltered_name(ino, shelter)?, inode.kind());
        let linked = Change::Linked { parent: shelter, name, ino, kind, at };
        Ok((vec![linked, Change::NamesCounted { ino, names: 1 }], ino))
    }

    /// Whether no entry leads to an inode. What another server has no entry for, the sender of the order has seen there.
    fn is_nameless(&self, ino: Ino, inode: &Inode, place: Option<&Place>) -> bool {
        let Some(directory) = inode.directory() else { return inode.holders.len() == 0 };
        if ino == Ino::ROOT {
            return false;
        }
        if directory.parent.home() == self.files.server() {
            return !self.files.still_holds(directory.parent, &directory.name, ino);
        }
        place.is_some_and(|place| {
            (place.parent, place.placed_by) == (directory.parent.0, directory.placed_by.0)
                && bytes(&place.name).is_ok_and(|name| *name == *directory.name)
        })
    }

    fn cut(&self, ino: Ino, shelter: Ino, at: Moment) -> Result<(Vec<Change>, Ino), Refusal> {
        let directory = self.files.directory(ino).filter(|_| self.is_ring(ino)).ok_or(GONE)?;
        if !self.files.still_holds(directory.parent, &directory.name, ino) {
            return Err(GONE);
        }
        let moved = Change::Moved {
            from: directory.parent,
            from_name: Bytes::from(&*directory.name),
            to: shelter,
            to_name: self.sheltered_name(ino, shelter)?,
            exchange: false,
            reparents: [None, None],
            at,
        };
        Ok((vec![moved], ino))
    }

    fn unname(
        &self,
        (parent, name): (Ino, &[u8]),
        ino: Ino,
        at: Moment,
    ) -> Result<(Vec<Change>, Ino), Refusal> {
        let entry = self.files.directory(parent).and_then(|directory| directory.find(name));
        let entry = entry.filter(|entry| entry.ino == ino).ok_or(GONE)?;
        let unlinked = Change::Unlinked { parent, name: Bytes::from(name), at };
        if self.files.is_remote(ino, entry.kind) {
            let is_changing = self.is_on_its_way(ino, (parent, name));
            return if is_changing {
                Err("an operation on it is under way")
            } else {
                Ok((vec![unlinked], ino))
            };
        }
        let Some(inode) = self.files.get(ino) else { return Ok((vec![unlinked], ino)) };
        let directory = inode.directory().ok_or(GONE)?;
        let is_elsewhere = ino == Ino::ROOT || (directory.parent, &*directory.name) != (parent, name);
        // The name that goes is not the one that the directory counts.
        let counted = Change::NamesCounted { ino, names: 1 };
        is_elsewhere.then(|| (vec![unlinked, counted], ino)).ok_or(GONE)
    }

    fn retype(
        &self,
        (parent, name): (Ino, &[u8]),
        ino: Ino,
        at: Moment,
    ) -> Result<(Vec<Change>, Ino), Refusal> {
        let entry = self.files.directory(parent).and_then(|directory| directory.find(name));
        let entry = entry.filter(|entry| entry.ino == ino && ino != Ino::ROOT).ok_or(GONE)?;
        let inode = self.files.get(ino).filter(|inode| inode.kind() != entry.kind).ok_or(GONE)?;
        let (kind, name) = (inode.kind(), Bytes::from(name));
        let unlinked = Change::Unlinked { parent, name: name.clone(), at };
        let linked = Change::Linked { parent, name, ino, kind, at };
        let names = if kind == FileKind::Directory { 1 } else { inode.holders.len() };
        Ok((vec![unlinked, linked, Change::NamesCounted { ino, names }], ino))
    }

    fn place(&self, ino: Ino, (parent, name): (Ino, &[u8])) -> Result<(Vec<Change>, Ino), Refusal> {
        let inode = self.files.get(ino).filter(|_| ino != Ino::ROOT).ok_or(GONE)?;
        let directory = inode.directory().ok_or(GONE)?;
        let is_here = parent.home() == self.files.server();
        let is_entered = |place: (Ino, &[u8])| self.files.still_holds(place.0, place.1, ino);
        let own = (directory.parent, &*directory.name);
        if own == (parent, name) || is_entered(own) || (is_here && !is_entered((parent, name))) {
            return Err(GONE);
        }
        let (intent, name) = (directory.placed_by, Bytes::from(name));
        Ok((vec![Change::Reparented { ino, intent, parent, name }], ino))
    }

    fn count(&self, ino: Ino) -> Result<(Vec<Change>, Ino), Refusal> {
        let inode = self.files.get(ino).ok_or(GONE)?;
        let names = if inode.directory().is_some() { 1 } else { inode.holders.len() };
        if names == 0 || names == inode.names {
            return Err(GONE);
        }
        Ok((vec![Change::NamesCounted { ino, names }], ino))
    }

    fn dispose_leftover(&self, ino: Ino, next: IntentId) -> Result<(Vec<Change>, Ino), Refusal> {
        let inode = self.files.get(ino).ok_or(GONE)?;
        let is_empty = inode.directory().is_none_or(|directory| directory.is_empty());
        if !self.files.is_leftover(ino, inode) || !is_empty {
            return Err(GONE);
        }
        let removal = self.files.is_touched(ino).then_some(next);
        Ok((vec![Change::Disposed { ino, removal }], ino))
    }

    /// Whether this is a directory of this server that only root enters, and that a repair made or may use.
    fn is_shelter(&self, ino: Ino) -> bool {
        let inode = self.files.get(ino).filter(|inode| inode.directory().is_some());
        inode.is_some_and(|inode| inode.names > 0 && inode.uid == ROOT && inode.permissions & OTHERS == 0)
    }

    /// The name of an inode in a folder, if that takes it.
    fn sheltered_name(&self, ino: Ino, shelter: Ino) -> Result<Bytes, Refusal> {
        let name = format!("{:016x}", ino.0).into_bytes();
        let folder = self.files.directory(shelter).filter(|_| self.is_shelter(shelter));
        let folder = folder.ok_or("the folder is no directory of root's alone at this server")?;
        match folder.find(&name) {
            None => Ok(Bytes::from(name)),
            Some(_) => Err("`lost+found` has this name already: give the entry there another one"),
        }
    }
}

/// A directory that only root enters.
fn shelter() -> Birth {
    let node = BirthNode::Directory { request: LayoutRequest::default() };
    Birth { node, permissions: SHELTER_PERMISSIONS, uid: ROOT, gid: ROOT }
}

fn bytes(name: &str) -> Result<Vec<u8>, Refusal> {
    bytes_of(name).ok_or(NOT_A_NAME)
}
