//! The inodes of a server, with the use of their owners and the way of a snapshot through them.
//!
//! Every change of an inode or of an entry goes through [`Inodes`]. So no change misses the account of its owner, and a snapshot
//! that is being taken shows each inode and entry as it was when the snapshot began.

use super::inode::{allocation_of, Entry, Holders, InoMap, Inode};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::change::Change;
use crate::namespace::intents::Bytes;
use crate::namespace::quotas::estimates::name_bytes;
use crate::namespace::quotas::{Charge, Recount, Usage};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use weir_wire::{Attributes, FileKind, Ino};

/// The inodes by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inodes {
    /// A box each, so that a growing table moves and doubles eight bytes for each inode.
    table: InoMap<Box<Inode>>,
    /// The numbers in order: a snapshot in slices cannot go on in a hash table that changes.
    order: BTreeSet<Ino>,
    usage: Usage,
    /// The least version of all inodes in this start. It is above all versions of earlier starts, also of those whose records are lost.
    first_version: u64,
    /// A count of `usage` from the inodes, while it is under way, and the number of the last one.
    recount: Option<Recount>,
    recounts: u64,
    walk: Option<Walk>,
}

/// The way of a snapshot through the inodes, each with its entries.
#[derive(Clone, Debug)]
struct Walk {
    /// The last inode that was shown in its turn.
    behind: Option<Ino>,
    /// The first number that no inode had when the snapshot began.
    until: Ino,
    /// The directory whose entries have their turn.
    within: Option<Listing>,
    /// Inodes ahead that were shown because they changed, and the end of their entries.
    met: HashMap<Ino, u64>,
    /// Entries ahead that were shown because they changed.
    met_entries: HashSet<(Ino, u64)>,
    /// Records that are to be written before the next in turn, each with the memory that it takes.
    shown: VecDeque<(u64, Change)>,
    shown_bytes: u64,
}

/// The place of a snapshot in a directory.
#[derive(Clone, Copy, Debug)]
struct Listing {
    directory: Ino,
    /// The last cookie that was shown.
    behind: u64,
    /// The first cookie that no entry had when the snapshot began.
    until: u64,
}

impl Inodes {
    pub(crate) fn get(&self, ino: &Ino) -> Option<&Inode> {
        self.table.get(ino).map(|inode| &**inode)
    }

    pub(crate) fn contains_key(&self, ino: &Ino) -> bool {
        self.table.contains_key(ino)
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The numbers, in order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = Ino> + '_ {
        self.order.iter().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Ino, &Inode)> {
        self.table.iter().map(|(ino, inode)| (ino, &**inode))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Inode> {
        self.table.values().map(|inode| &**inode)
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    pub(crate) fn usage_mut(&mut self) -> &mut Usage {
        &mut self.usage
    }

    /// Begins the versions of start `number`, whose upper half it is: no inode changes 2^32 times a second.
    pub(crate) fn begin(&mut self, number: u32) {
        self.first_version = u64::from(number) << 32;
    }

    /// The attributes of an inode of this server, with its version.
    pub(crate) fn attributes(&self, ino: Ino) -> Option<Attributes> {
        let inode = self.get(&ino)?;
        Some(Attributes { version: inode.version.max(self.first_version), ..inode.attributes(ino) })
    }

    /// Carries out what a decision changes of an inode, but not of its entries, and raises its version; none where there is no such
    /// inode.
    pub(crate) fn change<T>(&mut self, ino: Ino, change: impl FnOnce(&mut Inode) -> T) -> Option<T> {
        let first = self.first_version;
        self.derive(ino, |inode| {
            #[cfg(any(test, feature = "world"))]
            if mutants::is(Mutant::VersionKept) {
                return change(inode);
            }
            inode.version = inode.version.max(first) + 1;
            change(inode)
        })
    }

    /// Notes what follows from other records, which raised the version or had it from a snapshot.
    fn derive<T>(&mut self, ino: Ino, change: impl FnOnce(&mut Inode) -> T) -> Option<T> {
        let inode = self.table.get_mut(&ino)?;
        if let Some(walk) = &mut self.walk {
            walk.show_before(ino, inode);
        }
        let before = inode.charge();
        let changed = change(inode);
        let after = inode.charge();
        self.account(ino, Some(before), Some(after));
        Some(changed)
    }

    pub(crate) fn insert(&mut self, ino: Ino, inode: Inode) {
        let after = inode.charge();
        if let Some(walk) = &mut self.walk {
            walk.meet(ino, self.table.get(&ino).map(|inode| &**inode));
        }
        let before = self.table.insert(ino, Box::new(inode)).map(|before| before.charge());
        self.order.insert(ino);
        self.account(ino, before, Some(after));
    }

    pub(crate) fn remove(&mut self, ino: Ino) -> Option<Inode> {
        let inode = self.table.remove(&ino)?;
        self.order.remove(&ino);
        if let Some(walk) = &mut self.walk {
            walk.show_before(ino, &inode);
            for (name, entry) in inode.directory().into_iter().flat_map(|directory| directory.after(0)) {
                walk.show_entry_before(ino, name, entry);
            }
        }
        self.account(ino, Some(inode.charge()), None);
        Some(*inode)
    }

    fn account(&mut self, ino: Ino, before: Option<Charge>, after: Option<Charge>) {
        self.usage.adjust(before, after);
        if let Some(recount) = &mut self.recount {
            recount.follow(ino, before, after);
        }
    }

    /// The use of all owners, counted anew.
    pub(crate) fn recounted(&self) -> Usage {
        let mut usage = Usage::default();
        for inode in self.values() {
            usage.adjust(None, Some(inode.charge()));
        }
        usage
    }

    /// Takes over the use of all owners as it is counted anew.
    pub(crate) fn correct_usage(&mut self) {
        self.usage.correct(self.recounted());
    }

    /// Begins a count of all inodes up to `last`, in place of one that is under way; answers its number.
    pub(crate) fn begin_recount(&mut self, last: Ino) -> u64 {
        self.recounts += 1;
        self.recount = Some(Recount::new(self.recounts, last));
        self.recounts
    }

    /// Counts the next inode, which follows the last one in the order of the numbers; false if another count has begun.
    pub(crate) fn recount(&mut self, id: u64, ino: Ino) -> bool {
        let charge = self.get(&ino).map(Inode::charge);
        let recount = self.recount.as_mut().filter(|recount| recount.id() == id);
        recount.map(|recount| recount.count(ino, charge)).is_some()
    }

    /// Ends a count: its sums; none if another count has begun.
    pub(crate) fn end_recount(&mut self, id: u64) -> Option<Usage> {
        self.recount.take_if(|recount| recount.id() == id).map(Recount::into_usage)
    }

    /// Puts an entry into a directory, under the cookie that a snapshot says or the next one. A replaced name keeps its cookie: the name was
    /// there all the time, so a listing in progress must not miss it.
    pub(crate) fn put_entry(
        &mut self,
        directory: Ino,
        name: &[u8],
        (ino, kind): (Ino, FileKind),
        cookie: Option<u64>,
    ) {
        let replaced = self.take_entry(directory, name).map(|entry| entry.cookie);
        let is_elsewhere = is_elsewhere(directory, ino, kind);
        let put = |inode: &mut Inode| {
            if let Some(directory) = inode.directory_mut() {
                let cookie = cookie.or(replaced).unwrap_or_else(|| directory.next_cookie());
                directory.put(name, Entry { ino, kind, cookie }, is_elsewhere);
            }
        };
        match cookie {
            Some(_) => self.derive(directory, put),
            None => self.change(directory, put),
        };
    }

    /// Takes an entry out of a directory.
    pub(crate) fn take_entry(&mut self, directory: Ino, name: &[u8]) -> Option<Entry> {
        let inode = self.table.get(&directory)?;
        let entry = inode.directory()?.find(name)?;
        if let Some(walk) = &mut self.walk {
            walk.show_before(directory, inode);
            walk.show_entry_before(directory, name, entry);
        }
        let is_elsewhere = is_elsewhere(directory, entry.ino, entry.kind);
        self.change(directory, |inode| inode.directory_mut()?.remove(name, is_elsewhere)).flatten()
    }

    /// Notes the directories that name each file anew, and forgets everything else that follows from other records.
    pub(crate) fn index(&mut self) {
        let inos: Vec<Ino> = self.order.iter().copied().collect();
        for &ino in &inos {
            self.derive(ino, |inode| {
                inode.holders = Holders::default();
                if let Some(file) = inode.regular_mut() {
                    (file.awaited_bytes, file.moving_objects) = (0, 0);
                }
            });
        }
        for holder in inos {
            let held = self.get(&holder).and_then(Inode::directory);
            let entries = held.into_iter().flat_map(|directory| directory.after(0));
            let entries: Vec<(Ino, usize)> = entries.map(|(name, entry)| (entry.ino, name.len())).collect();
            for (ino, name_bytes) in entries {
                // An entry of a damaged tree may say another kind than its inode has.
                if self.get(&ino).is_some_and(|inode| inode.kind() != FileKind::Directory) {
                    self.derive(ino, |inode| inode.holders.add(holder, name_bytes));
                }
            }
        }
    }

    /// Notes the size that a file is about to have; 0 where none is pending.
    pub(crate) fn await_size(&mut self, ino: Ino, size_bytes: u64) {
        if self.get(&ino).is_some_and(|inode| inode.regular().is_some()) {
            self.derive(ino, |inode| {
                if let Some(file) = inode.regular_mut() {
                    file.awaited_bytes = allocation_of(size_bytes);
                }
            });
        }
    }

    /// Notes the number of a file's objects that are being moved.
    pub(crate) fn note_moving(&mut self, ino: Ino, objects: usize) {
        self.derive(ino, |inode| {
            if let Some(file) = inode.regular_mut() {
                file.moving_objects = objects as u32;
            }
        });
    }

    /// Begins a snapshot of the inodes as they are now; `until` is the first number that none has.
    pub(crate) fn begin_snapshot(&mut self, until: Ino) {
        self.walk = Some(Walk {
            behind: None,
            until,
            within: None,
            met: HashMap::new(),
            met_entries: HashSet::new(),
            shown: VecDeque::new(),
            shown_bytes: 0,
        });
    }

    /// Memory of records that a snapshot shows because their subjects changed, and that nobody has taken yet.
    pub(crate) fn shown_bytes(&self) -> u64 {
        self.walk.as_ref().map_or(0, |walk| walk.shown_bytes)
    }

    /// Ends a snapshot, also one that is not complete.
    pub(crate) fn end_snapshot(&mut self) {
        self.walk = None;
    }

    /// The next record of the snapshot; none at its end.
    pub(crate) fn next_of_snapshot(&mut self) -> Option<Change> {
        let walk = self.walk.as_mut()?;
        if let Some((bytes, shown)) = walk.shown.pop_front() {
            walk.shown_bytes -= bytes;
            return Some(shown);
        }
        loop {
            if let Some(listing) = walk.within {
                let inode = self.table.get(&listing.directory);
                match inode.and_then(|inode| walk.next_entry(inode, listing)) {
                    Some(record) => return Some(record),
                    None => walk.within = None,
                }
            }
            let from = walk.behind.map_or(Bound::Unbounded, Bound::Excluded);
            let ino = *self.order.range((from, Bound::Excluded(walk.until))).next()?;
            if let Some(record) = self.table.get(&ino).and_then(|inode| walk.turn_of(ino, inode)) {
                return Some(record);
            }
        }
    }
}

impl Walk {
    /// Shows an inode that is about to change, unless it was shown or is younger than the snapshot.
    fn show_before(&mut self, ino: Ino, inode: &Inode) {
        let is_ahead = ino < self.until && self.behind.is_none_or(|behind| ino > behind);
        if is_ahead && !self.met.contains_key(&ino) {
            self.met.insert(ino, end_of(inode));
            self.show(inode.kept_bytes(), kept(ino, inode));
        }
    }

    /// Shows an entry that is about to go. Its directory is shown already.
    fn show_entry_before(&mut self, directory: Ino, name: &[u8], entry: Entry) {
        let within = self.within.filter(|listing| listing.directory == directory);
        let until = match within {
            Some(listing) if entry.cookie > listing.behind => listing.until,
            Some(_) => return,
            None => self.met.get(&directory).copied().unwrap_or(0),
        };
        if entry.cookie < until && self.met_entries.insert((directory, entry.cookie)) {
            self.show(name_bytes(name.len()), entry_kept(directory, name, entry));
        }
    }

    fn show(&mut self, bytes: u64, record: Change) {
        self.shown_bytes += bytes;
        self.shown.push_back((bytes, record));
    }

    /// An inode gets this number, in place of another one or of none.
    fn meet(&mut self, ino: Ino, before: Option<&Inode>) {
        match before {
            Some(inode) => self.show_before(ino, inode),
            // No decision gives a number out twice; a record of a snapshot would be no part of this one.
            None if ino < self.until => _ = self.met.insert(ino, 0),
            None => {}
        }
    }

    /// The record of an inode in its turn; none where it was shown before.
    fn turn_of(&mut self, ino: Ino, inode: &Inode) -> Option<Change> {
        self.behind = Some(ino);
        let met = self.met.remove(&ino);
        if inode.directory().is_some() {
            let until = met.unwrap_or_else(|| end_of(inode));
            self.within = Some(Listing { directory: ino, behind: 0, until });
        }
        met.is_none().then(|| kept(ino, inode))
    }

    /// The next entry of a directory that was not shown before.
    fn next_entry(&mut self, inode: &Inode, listing: Listing) -> Option<Change> {
        let Listing { directory, behind, until } = listing;
        let entries = inode.directory()?.after(behind).take_while(|(_, entry)| entry.cookie < until);
        let met = &mut self.met_entries;
        let (name, entry) = entries.into_iter().find(|(_, entry)| !met.remove(&(directory, entry.cookie)))?;
        self.within = Some(Listing { behind: entry.cookie, ..listing });
        Some(entry_kept(directory, name, entry))
    }
}

/// The first cookie that no entry of the inode has.
fn end_of(inode: &Inode) -> u64 {
    inode.directory().map_or(0, |directory| directory.next_cookie())
}

fn kept(ino: Ino, inode: &Inode) -> Change {
    Change::Kept { ino, inode: Box::new(inode.without_entries()) }
}

fn entry_kept(directory: Ino, name: &[u8], entry: Entry) -> Change {
    let Entry { ino, kind, cookie } = entry;
    Change::EntryKept { directory, cookie, name: Bytes::from(name), ino, kind }
}

/// Whether an entry of `directory` names a directory of another server.
fn is_elsewhere(directory: Ino, ino: Ino, kind: FileKind) -> bool {
    kind == FileKind::Directory && ino.home() != directory.home()
}
