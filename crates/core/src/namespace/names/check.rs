//! The check of the tree: every name leads to an inode, and every inode has its names.
//!
//! A call judges the state of one turn of the loop, so no operation is seen half done. A directory with its entry on another
//! server is a matter of two servers: the caller compares the [`AwayEntry`] of one with the [`Position`] of the other.

use super::Names;
use crate::namespace::files::{Directory, Entry, Inode};
use crate::namespace::intents::{Bytes, IntentId};
use serde::Serialize;
use std::collections::HashMap;
use weir_placement::ServerId;
use weir_wire::Ino;

/// Entries, inodes and steps upwards in one call: less than a millisecond of the loop.
const WORK_MAX: usize = 2048;
/// The most directories on the way up from one. A tree is that deep only by design, and its lower part is not judged.
const DEPTH_MAX: usize = 1 << 16;

/// The kinds of faults that one server sees by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// No name leads to the inode.
    Unreachable,
    /// The entry leads to no inode.
    Dangling,
    /// The entry names another kind than that of its inode.
    Mistyped,
    /// The inode counts more or fewer names than it has.
    Links,
    /// The directory has its entry in another place than it says.
    Parent,
    /// The entry is a second one of its directory.
    Doubled,
    /// The directory is above itself, and not below the root.
    Cycle,
    /// The inode has no name, and nobody has it open.
    Leftover,
}

/// A fault of the tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// The inode that shows it.
    pub ino: u64,
    /// Directory of the entry at fault, or of the entry that the inode misses; absent for a file without a name.
    pub parent: Option<u64>,
    /// Name of that entry, in hexadecimal.
    pub(crate) name: Option<String>,
    /// The number of names that the inode counts.
    pub(crate) recorded: Option<u64>,
    /// The number of names that lead to the inode.
    pub(crate) counted: Option<u64>,
}

/// An entry here of a directory of another server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AwayEntry {
    pub(crate) parent: u64,
    /// In hexadecimal.
    pub(crate) name: String,
    /// The directory; none where the caller asked for an entry that is not there.
    pub(crate) ino: Option<u64>,
    /// The last directory of this server on the way up to the root.
    pub(crate) above: u64,
    /// The directory is being made, moved or removed by this server.
    pub(crate) is_changing: bool,
}

/// The place of a directory of this server, by its own record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Position {
    pub(crate) ino: u64,
    pub(crate) parent: u64,
    /// In hexadecimal.
    pub(crate) name: String,
    /// The intent of the parent's server that told the place last.
    pub(crate) placed_by: u64,
    /// Whether the entry at that place leads here; absent where another server has the entry.
    pub(crate) is_entered: Option<bool>,
}

/// The findings of one call.
#[derive(Debug, Default)]
pub struct Examined {
    /// The faults.
    pub faults: Vec<Fault>,
    /// Entries here of directories of other servers.
    pub away: Vec<AwayEntry>,
    /// Directories here with entries on other servers.
    pub tops: Vec<Position>,
    /// The inodes that are done, of those that were given.
    pub done: usize,
    /// The cookie of the last entry that was looked at in the inode after those.
    pub after: u64,
}

/// An entry that the caller wants to see, with its directory by the record of the directory's home.
#[derive(Clone, Debug)]
pub struct EntryQuestion {
    pub(crate) parent: Ino,
    pub(crate) name: Vec<u8>,
    pub(crate) ino: Ino,
    pub(crate) placed_by: u64,
}

/// The end of the way up from a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Summit {
    /// The way is being walked.
    Unknown,
    /// The last directory of this server: the root, or one with its entry on another server, or one without a parent.
    At(Ino),
    /// The way is a ring; the least of its numbers.
    Ring(Ino),
}

/// One call: what it found, and the ways that it walked.
struct Examination<'a> {
    space: &'a Names,
    found: Examined,
    work: usize,
    summits: HashMap<Ino, Summit>,
}

impl EntryQuestion {
    /// Reads `PARENT.NAME.INO.INTENT`, with the name in hexadecimal.
    pub fn read(text: &str) -> Option<EntryQuestion> {
        let mut words = text.split('.');
        let mut next = || words.next();
        let question = EntryQuestion {
            parent: Ino(next()?.parse().ok()?),
            name: bytes_of(next()?)?,
            ino: Ino(next()?.parse().ok()?),
            placed_by: next()?.parse().ok()?,
        };
        words.next().is_none().then_some(question)
    }
}

impl Fault {
    fn of_inode(kind: FaultKind, ino: Ino) -> Fault {
        Fault { kind, ino: ino.0, parent: None, name: None, recorded: None, counted: None }
    }

    fn of_entry(kind: FaultKind, (parent, name): (Ino, &[u8]), ino: Ino) -> Fault {
        Fault { parent: Some(parent.0), name: Some(hexadecimal(name)), ..Fault::of_inode(kind, ino) }
    }

    fn of_count(ino: Ino, recorded: u32, counted: u32) -> Fault {
        let (recorded, counted) = (Some(u64::from(recorded)), Some(u64::from(counted)));
        Fault { recorded, counted, ..Fault::of_inode(FaultKind::Links, ino) }
    }
}

impl Names {
    /// Judges inodes, each with its entries, from the entry after `after` of the first one on. The answer says how far it came.
    pub fn examine(&self, inos: &[Ino], after: u64) -> Examined {
        let mut examination = Examination {
            space: self,
            found: Examined { done: inos.len(), ..Examined::default() },
            work: 0,
            summits: HashMap::new(),
        };
        let mut after = after;
        for (index, ino) in inos.iter().enumerate() {
            if let Some(stop) = examination.judge(*ino, after) {
                (examination.found.done, examination.found.after) = (index, stop);
                break;
            }
            after = 0;
        }
        examination.found
    }

    /// The places of those of these directories that are here and have a name.
    pub fn positions(&self, inos: &[Ino]) -> Vec<Position> {
        let there = inos.iter().filter_map(|ino| Some((*ino, self.files.get(*ino)?)));
        let named = there.filter(|(_, inode)| inode.names > 0);
        named.filter_map(|(ino, inode)| Some(self.position_of(ino, inode.directory()?))).collect()
    }

    /// The entries that are asked for.
    pub(crate) fn entries(&self, questions: &[EntryQuestion]) -> Vec<AwayEntry> {
        questions
            .iter()
            .map(|question| {
                let EntryQuestion { parent, name, ino, placed_by } = question;
                let there = self.files.directory(*parent).and_then(|directory| directory.find(name));
                let made = self.unsettled.contains(&IntentId(*placed_by));
                AwayEntry {
                    parent: parent.0,
                    name: hexadecimal(name),
                    ino: there.map(|entry| entry.ino.0),
                    above: Examination::new(self).summit(*parent).ino().0,
                    is_changing: made || self.is_on_its_way(*ino, (*parent, name)),
                }
            })
            .collect()
    }

    /// Whether this server makes, moves or removes a directory of another server, or one under this name.
    pub(crate) fn is_on_its_way(&self, ino: Ino, (parent, name): (Ino, &[u8])) -> bool {
        let is_made = || self.making.contains_key(&(parent, Bytes::from(name)));
        self.removing.contains_key(&ino) || self.moving.contains_key(&ino) || is_made()
    }

    /// Whether a directory is above itself, and this is the one of the ring that is named.
    pub(crate) fn is_ring(&self, ino: Ino) -> bool {
        Examination::new(self).summit(ino) == Summit::Ring(ino)
    }

    fn position_of(&self, ino: Ino, directory: &Directory) -> Position {
        let is_here = directory.parent.home() == self.files.server();
        let is_entered = is_here.then(|| self.files.still_holds(directory.parent, &directory.name, ino));
        Position {
            ino: ino.0,
            parent: directory.parent.0,
            name: hexadecimal(&directory.name),
            placed_by: directory.placed_by.0,
            is_entered,
        }
    }
}

impl Summit {
    fn ino(self) -> Ino {
        match self {
            Summit::At(ino) | Summit::Ring(ino) => ino,
            Summit::Unknown => Ino::default(),
        }
    }
}

impl<'a> Examination<'a> {
    fn new(space: &'a Names) -> Examination<'a> {
        Examination { space, found: Examined::default(), work: 0, summits: HashMap::new() }
    }

    fn server(&self) -> ServerId {
        self.space.files.server()
    }

    /// Judges an inode and its entries after `after`; answers the cookie at which the work of a call is done.
    fn judge(&mut self, ino: Ino, after: u64) -> Option<u64> {
        if self.work >= WORK_MAX {
            return Some(after);
        }
        self.work += 1;
        let inode = self.space.files.get(ino)?;
        if after == 0 {
            self.judge_inode(ino, inode);
        }
        let mut last = after;
        for (name, entry) in inode.directory().into_iter().flat_map(|directory| directory.after(after)) {
            if self.work >= WORK_MAX {
                return Some(last);
            }
            self.work += 1;
            self.judge_entry((ino, name), entry);
            last = entry.cookie;
        }
        None
    }

    fn judge_inode(&mut self, ino: Ino, inode: &Inode) {
        let Some(directory) = inode.directory() else {
            let counted = inode.holders.len();
            return match counted {
                0 if inode.names > 0 => {
                    self.found.faults.push(Fault::of_inode(FaultKind::Unreachable, ino));
                }
                0 => self.judge_nameless(ino, inode),
                _ if inode.names != counted => {
                    self.found.faults.push(Fault::of_count(ino, inode.names, counted));
                }
                _ => {}
            };
        };
        match inode.names {
            _ if ino == Ino::ROOT => {}
            0 => self.judge_nameless(ino, inode),
            1 => self.judge_directory(ino, directory),
            names => self.found.faults.push(Fault::of_count(ino, names, 1)),
        }
    }

    fn judge_nameless(&mut self, ino: Ino, inode: &Inode) {
        // A directory loses its name when it is empty, and takes no entries afterwards.
        if inode.directory().is_some_and(|directory| !directory.is_empty()) {
            self.found.faults.push(Fault::of_count(ino, 0, 1));
        } else if self.space.files.is_leftover(ino, inode) {
            self.found.faults.push(Fault::of_inode(FaultKind::Leftover, ino));
        }
    }

    fn judge_directory(&mut self, ino: Ino, directory: &Directory) {
        let place = (directory.parent, &*directory.name);
        match self.space.position_of(ino, directory) {
            position @ Position { is_entered: None, .. } => self.found.tops.push(position),
            Position { is_entered: Some(false), .. } => {
                self.found.faults.push(Fault::of_entry(FaultKind::Unreachable, place, ino));
            }
            Position { is_entered: Some(true), .. } => {
                if self.summit(ino) == Summit::Ring(ino) {
                    self.found.faults.push(Fault::of_entry(FaultKind::Cycle, place, ino));
                }
            }
        }
    }

    fn judge_entry(&mut self, place: (Ino, &[u8]), entry: Entry) {
        let (space, ino) = (self.space, entry.ino);
        let fault = |kind| Some(Fault::of_entry(kind, place, ino));
        let fault = if space.files.is_remote(ino, entry.kind) {
            let above = self.summit(place.0).ino().0;
            let is_changing = space.is_on_its_way(ino, place);
            let (parent, name) = (place.0 .0, hexadecimal(place.1));
            self.found.away.push(AwayEntry { parent, name, ino: Some(ino.0), above, is_changing });
            None
        } else if ino.home() != self.server() {
            fault(FaultKind::Dangling)
        } else {
            match space.files.get(ino) {
                None => fault(FaultKind::Dangling),
                Some(_) if ino == Ino::ROOT => fault(FaultKind::Doubled),
                Some(inode) if inode.kind() != entry.kind => fault(FaultKind::Mistyped),
                Some(inode) => inode.directory().and_then(|directory| match () {
                    () if inode.names == 0 => Some(Fault::of_count(ino, 0, 1)),
                    () if (directory.parent, &*directory.name) == place => None,
                    () if space.position_of(ino, directory).is_entered == Some(true) => {
                        fault(FaultKind::Doubled)
                    }
                    () => fault(FaultKind::Parent),
                }),
            }
        };
        self.found.faults.extend(fault);
    }

    /// The end of the way up from a directory.
    fn summit(&mut self, from: Ino) -> Summit {
        let (mut here, mut way) = (from, Vec::new());
        let summit = loop {
            match self.summits.get(&here) {
                Some(Summit::Unknown) => {
                    let ring = way.iter().skip_while(|ino| **ino != here);
                    break Summit::Ring(ring.min().copied().unwrap_or(here));
                }
                Some(known) => break *known,
                None => {}
            }
            let directory = self.space.files.directory(here).filter(|_| here != Ino::ROOT);
            let above = directory.map(|directory| directory.parent);
            let Some(above) = above.filter(|above| above.home() == self.server()) else {
                break Summit::At(here);
            };
            if way.len() >= DEPTH_MAX {
                break Summit::At(here);
            }
            self.summits.insert(here, Summit::Unknown);
            way.push(here);
            here = above;
        };
        self.work += way.len();
        self.summits.extend(way.into_iter().map(|ino| (ino, summit)));
        summit
    }
}

/// Bytes of a name as text that any document takes.
pub(crate) fn hexadecimal(name: &[u8]) -> String {
    name.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name that [`hexadecimal`] wrote; none for other text, and for what no entry is called.
pub(crate) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let pairs = (0..text.len()).step_by(2).map(|at| text.get(at..at + 2));
    let read = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect::<Option<Vec<u8>>>();
    read.filter(|bytes| !bytes.is_empty() && !bytes.contains(&b'/'))
}
