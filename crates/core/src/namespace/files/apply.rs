//! The effect of each change on inodes.

use super::inode::{allocation_of, RegularFile};
use super::layout::PLACEMENT;
use super::{Birth, BirthNode, Files, Inode, Node};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::change::Change;
use crate::namespace::intents::{Begun, Intent, IntentId};
use weir_placement::LayoutRequest;
use weir_wire::{FileKind, Ino, Moment};

/// Seconds from the Unix epoch to 2026-01-01, the origin of the numbers of starts and inodes.
const EPOCH_SECONDS: i64 = 1_767_225_600;
/// The room for new inodes in a second, in bits. The first number of a start follows from the time, or from the number of the start where the
/// clock was set back. So a server that lost some or all of its state does not give inode numbers out again, whose objects may stand on
/// other servers.
const SEQUENCES_PER_SECOND_BITS: u32 = 17;
/// The room for the epochs of a file between two starts from older journals, in bits: more than it is ever cut.
const EPOCHS_PER_START_BITS: u32 = 32;
/// Mode of the root directory: everyone may make entries, and remove their own.
const ROOT_PERMISSIONS: u16 = 0o1777;

impl Files {
    /// The number of a start at `now` after the start `last`, whose record may be lost.
    pub(crate) fn next_start(&self, last: u32, now: Moment) -> u32 {
        let seconds = u32::try_from(seconds_since_epoch(now)).unwrap_or(u32::MAX);
        seconds.max(self.starts.max(last).saturating_add(1))
    }

    /// Gives all files epochs that no object can have: the journal lacks changes, and the objects of some files have greater epochs than it
    /// knows. The number of a start is kept beside the journal, so it is greater than those of all starts before.
    pub(crate) fn raise_epochs(&mut self) {
        let raised = u64::from(self.starts) << EPOCHS_PER_START_BITS;
        let files: Vec<Ino> = self.inodes.numbers().collect();
        for ino in files {
            self.change_file(ino, |file| file.epoch = file.epoch.max(raised));
        }
    }

    /// Begins a start; answers the least number that the start gives out.
    pub(crate) fn start(&mut self, number: u32, at: Moment) -> u64 {
        // A start that is not the first may have left descriptions that clients will reclaim.
        self.in_grace |= self.starts > 0;
        self.starts = number;
        self.inodes.begin(number);
        self.open.begin(number);
        let seconds = seconds_since_epoch(at).max(u64::from(number));
        #[cfg(any(test, feature = "world"))]
        let seconds = if mutants::is(Mutant::ClockBelieved) { seconds_since_epoch(at) } else { seconds };
        let first = (seconds << SEQUENCES_PER_SECOND_BITS) + Ino::ROOT.sequence() + 1;
        #[cfg(any(test, feature = "world"))]
        let first = if mutants::is(Mutant::NumbersReused) { 0 } else { first };
        // A power loss may have taken the records of numbers that objects and other servers know.
        self.next_sequence = self.next_sequence.max(first);
        if self.server == Ino::ROOT.home() && !self.has(Ino::ROOT) {
            let birth = Birth {
                node: BirthNode::Directory { request: LayoutRequest::default() },
                permissions: ROOT_PERMISSIONS,
                uid: 0,
                gid: 0,
            };
            self.inodes.insert(Ino::ROOT, Inode::new(&birth, (Ino::ROOT, &[]), number, at));
        }
        first
    }

    /// Takes over the numbers of a snapshot.
    pub(crate) fn restore(&mut self, next_sequence: u64, starts: u32) {
        self.next_sequence = next_sequence;
        self.starts = starts;
        self.inodes.begin(starts);
    }

    /// Takes over an inode of a snapshot.
    pub(crate) fn keep(&mut self, ino: Ino, inode: &Inode) {
        if inode.names == 0 {
            self.orphans.insert(ino);
        }
        self.inodes.insert(ino, inode.clone());
    }

    /// Begins a snapshot of the inodes as they are now.
    pub(crate) fn begin_snapshot(&mut self) {
        self.inodes.begin_snapshot(self.next_ino());
    }

    /// The next record of the snapshot; none at its end.
    pub(crate) fn next_of_snapshot(&mut self) -> Option<Change> {
        self.inodes.next_of_snapshot()
    }

    /// Ends a snapshot, also one that is not complete.
    pub(crate) fn end_snapshot(&mut self) {
        self.inodes.end_snapshot();
    }

    /// Notes anew what follows from other records, after a replay; `awaited_of` says the size that a cut gives its file.
    pub(crate) fn index(&mut self, awaited_of: impl Fn(IntentId) -> u64) {
        self.inodes.index();
        for (&ino, &id) in &self.cuts {
            self.inodes.await_size(ino, awaited_of(id));
        }
        for (ino, record) in self.moves.iter() {
            self.inodes.note_moving(ino, record.moves.len());
        }
    }

    /// Changes an inode, but not its entries; none where there is no such inode.
    pub(crate) fn change<T>(&mut self, ino: Ino, change: impl FnOnce(&mut Inode) -> T) -> Option<T> {
        self.inodes.change(ino, change)
    }

    /// Changes a file; none where there is no such file.
    pub(super) fn change_file<T>(
        &mut self,
        ino: Ino,
        change: impl FnOnce(&mut RegularFile) -> T,
    ) -> Option<T> {
        self.change(ino, |inode| inode.regular_mut().map(change)).flatten()
    }

    /// Puts an entry into a directory, under the cookie that a snapshot says or the next one.
    pub(crate) fn put_entry(
        &mut self,
        directory: Ino,
        name: &[u8],
        entry: (Ino, FileKind),
        cookie: Option<u64>,
    ) {
        self.inodes.put_entry(directory, name, entry, cookie);
    }

    /// Takes an entry out of a directory.
    pub(crate) fn take_entry(&mut self, directory: Ino, name: &[u8]) -> Option<super::Entry> {
        self.inodes.take_entry(directory, name)
    }

    /// Makes an inode that has a name.
    pub(crate) fn give_birth(
        &mut self,
        ino: Ino,
        birth: &Birth,
        place: (Ino, &[u8]),
        at: Moment,
    ) -> FileKind {
        let inode = Inode::new(birth, place, self.starts, at);
        let kind = inode.kind();
        self.next_sequence = self.next_sequence.max(ino.sequence() + 1);
        self.inodes.insert(ino, inode);
        kind
    }

    /// Makes a file without a name.
    pub(crate) fn give_birth_unnamed(&mut self, ino: Ino, birth: &Birth, linkable: bool, at: Moment) {
        self.give_birth(ino, birth, (ino, &[]), at);
        self.orphans.insert(ino);
        self.change(ino, |inode| {
            inode.names = 0;
            if let Some(file) = inode.regular_mut() {
                file.linkable = linkable;
            }
        });
    }

    /// Counts one more name of an inode. The one of a directory moves.
    pub(crate) fn add_name(&mut self, ino: Ino, at: Moment) {
        let named = self.change(ino, |inode| {
            let is_file = inode.kind() != FileKind::Directory;
            if is_file {
                inode.names += 1;
                inode.changed = at;
            }
            is_file
        });
        if named == Some(true) {
            self.orphans.remove(&ino);
        }
    }

    /// Counts one name of an inode less.
    pub(crate) fn drop_name(&mut self, ino: Ino, at: Moment) {
        let left = self.change(ino, |inode| {
            #[cfg(any(test, feature = "world"))]
            if mutants::is(Mutant::NamesMiscounted) && inode.names == 2 {
                return inode.names;
            }
            inode.names = inode.names.saturating_sub(1);
            inode.changed = at;
            if let Some(file) = inode.regular_mut() {
                file.linkable = false;
            }
            inode.names
        });
        if left == Some(0) {
            self.orphans.insert(ino);
        }
    }

    /// Corrects the number of names of an inode.
    pub(crate) fn count_names(&mut self, ino: Ino, names: u32) {
        self.change(ino, |inode| inode.names = names);
        if names > 0 {
            self.orphans.remove(&ino);
        }
    }

    /// Takes over the use of all owners as it is counted anew.
    pub(crate) fn correct_usage(&mut self) {
        self.inodes.correct_usage();
    }

    /// Removes an inode; the intent of number `removal` removes its objects.
    pub(crate) fn dispose(&mut self, ino: Ino, removal: Option<IntentId>) -> Begun {
        self.orphans.remove(&ino);
        let Some(inode) = self.inodes.remove(ino) else { return [None, None] };
        let (Some(id), Node::Regular(file)) = (removal, inode.node) else { return [None, None] };
        let mut targets = file.layout.targets().to_vec();
        targets.extend_from_slice(&file.former);
        [Some((id, inode.uid, Intent::Remove { ino, targets })), None]
    }

    /// Carries out a change of attributes.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::AttributesSet { ino, permissions, uid, gid, accessed, modified, at } => {
                self.change(*ino, |inode| {
                    inode.permissions = permissions.unwrap_or(inode.permissions);
                    inode.uid = uid.unwrap_or(inode.uid);
                    inode.gid = gid.unwrap_or(inode.gid);
                    inode.accessed = accessed.unwrap_or(inode.accessed);
                    inode.modified = modified.unwrap_or(inode.modified);
                    inode.changed = *at;
                });
            }
            Change::Published { ino, size_bytes, allocated_bytes, punched, permissions, at } => {
                self.change(*ino, |inode| {
                    inode.permissions = permissions.unwrap_or(inode.permissions);
                    inode.modified = *at;
                    inode.changed = *at;
                    if let Some(file) = inode.regular_mut() {
                        let before = file.extent();
                        file.size_bytes = *size_bytes;
                        file.allocated_bytes = *allocated_bytes;
                        file.untouched_start = 0;
                        file.has_holes |= punched;
                        file.note_holes(before);
                    }
                });
            }
            Change::Touched { ino } => {
                self.change(*ino, |inode| {
                    if let Some(file) = inode.regular_mut() {
                        file.untouched_start = 0;
                    }
                });
            }
            Change::XattrSet { ino, name, value, at } => {
                let value = value.as_deref().map(Vec::as_slice);
                self.change(*ino, |inode| set_xattr(inode, name, value, *at));
            }
            Change::LayoutRequested { ino, request, at } => {
                self.change(*ino, |inode| {
                    inode.changed = *at;
                    if let Some(directory) = inode.directory_mut() {
                        directory.request = request.clone();
                    }
                });
            }
            _ => {}
        }
    }

    /// Sets the size of a file, or begins the cut after which the size holds.
    pub(crate) fn set_size(
        &mut self,
        ino: Ino,
        size_bytes: u64,
        permissions: Option<u16>,
        cut: Option<IntentId>,
        at: Moment,
    ) -> Begun {
        let resized = self.change(ino, |inode| {
            inode.permissions = permissions.unwrap_or(inode.permissions);
            let uid = inode.uid;
            let file = inode.regular_mut()?;
            if cut.is_some() {
                // Objects keep the epoch of a cut, also where there were none.
                file.untouched_start = 0;
            }
            Some((file.epoch, cut.map(|id| (id, uid, cut_of(ino, file, size_bytes, at)))))
        });
        match resized.flatten() {
            Some((_, Some(intent))) => return [Some(intent), None],
            Some((epoch, None)) => self.resize(ino, size_bytes, epoch, at),
            None => {}
        }
        [None, None]
    }

    /// Gives a file a size, and an epoch unless the file has a greater one: a cut that was under way in an older journal was decided under an
    /// epoch before that start's, and ends under the start's.
    pub(crate) fn resize(&mut self, ino: Ino, size_bytes: u64, epoch: u64, at: Moment) {
        self.change(ino, |inode| {
            inode.modified = at;
            inode.changed = at;
            if let Some(file) = inode.regular_mut() {
                let before = file.extent();
                file.size_bytes = size_bytes;
                file.allocated_bytes = file.allocated_bytes.min(allocation_of(size_bytes));
                let least = file.epoch;
                #[cfg(any(test, feature = "world"))]
                let least = if mutants::is(Mutant::CutsLowerEpochs) { 0 } else { least };
                file.epoch = epoch.max(least);
                file.note_holes(before);
            }
        });
    }

    /// Notes that an intent is about to change the objects of a file, and that the server keeps it for a user.
    pub(crate) fn mark(&mut self, id: IntentId, uid: u32, intent: &Intent) {
        self.inodes.usage_mut().keep(uid, intent.kept_bytes());
        match intent {
            Intent::Cut { ino, .. } | Intent::Freeze { ino } | Intent::Seal { ino, .. } => {
                self.cuts.insert(*ino, id);
                self.inodes.await_size(*ino, intent.awaited_bytes());
            }
            Intent::Fence { ino, .. } => *self.fences.entry(*ino).or_default() += 1,
            _ => {}
        }
    }

    /// Forgets what [`Files::mark`] noted of an intent.
    pub(crate) fn unmark(&mut self, id: IntentId, intent: &Intent) {
        match intent {
            // The cut that follows a freeze takes its place before the freeze is settled.
            Intent::Cut { ino, .. } | Intent::Freeze { ino } | Intent::Seal { ino, .. }
                if self.cuts.get(ino) == Some(&id) =>
            {
                self.cuts.remove(ino);
                self.inodes.await_size(*ino, 0);
            }
            Intent::Fence { ino, .. } => {
                if let Some(count) = self.fences.get_mut(ino) {
                    *count -= 1;
                    if *count == 0 {
                        self.fences.remove(ino);
                    }
                }
            }
            _ => {}
        }
    }

    /// The server keeps an intent no longer.
    pub(crate) fn let_go(&mut self, uid: u32, intent: &Intent) {
        self.inodes.usage_mut().let_go(uid, intent.kept_bytes());
    }

    /// Counts the objects of a file from now on. A target may leave the store once no home counts any object there.
    pub(crate) fn count_objects(&mut self, ino: Ino) {
        self.each_object(ino, |count| *count += 1);
    }

    /// Counts the objects of a file no more, because they are about to change.
    pub(crate) fn discount_objects(&mut self, ino: Ino) {
        self.each_object(ino, |count| *count = count.saturating_sub(1));
    }

    fn each_object(&mut self, ino: Ino, change: impl Fn(&mut u64)) {
        let Some(file) = self.inodes.get(&ino).and_then(Inode::regular) else { return };
        self.moves.each_object(ino, &file.layout, change);
    }

    /// Tells the placer of files that are made, written and removed.
    pub(crate) fn count_placed(&mut self, change: &Change) {
        let before = match change {
            Change::LaidOut { ino, .. } | Change::Detoured { ino, .. } | Change::Disposed { ino, .. } => {
                self.inodes.get(ino)
            }
            _ => None,
        };
        self.places.count(change, before);
    }
}

/// The file whose layout or move a change may alter. Every change is named, because a target would leave with the files of one
/// that is forgotten here.
pub(crate) fn changed_file(change: &Change) -> Option<Ino> {
    match change {
        Change::Kept { ino, .. }
        | Change::Created { ino, .. }
        | Change::CreatedUnnamed { ino, .. }
        | Change::Disposed { ino, .. }
        | Change::MoveBegun { ino, .. }
        | Change::Relaid { ino, .. }
        | Change::MoveAbandoned { ino, .. }
        | Change::MoveKept { ino, .. }
        | Change::LaidOut { ino, .. }
        | Change::Detoured { ino, .. } => Some(*ino),
        Change::Started { .. }
        | Change::Counted { .. }
        | Change::EntryKept { .. }
        | Change::Linked { .. }
        | Change::Unlinked { .. }
        | Change::Moved { .. }
        | Change::AttributesSet { .. }
        | Change::Resized { .. }
        | Change::Published { .. }
        | Change::Touched { .. }
        | Change::XattrSet { .. }
        | Change::LayoutRequested { .. }
        | Change::Intended { .. }
        | Change::Settled { .. }
        | Change::MadeForPeer { .. }
        | Change::MadeKept { .. }
        | Change::ForgottenForPeer { .. }
        | Change::DirectoryRemoved { .. }
        | Change::Reparented { .. }
        | Change::Remembered { .. }
        | Change::ClientForgotten { .. }
        | Change::ClientReleased { .. }
        | Change::ClientReturned { .. }
        | Change::MoveFrozen { .. }
        | Change::NamesCounted { .. }
        | Change::UseCounted => None,
    }
}

/// Cuts every object of `file` to the smaller of the old and the new size. A file that grows is cut at its old size, too, so
/// that bytes which a dying writer left behind the end never appear.
fn cut_of(ino: Ino, file: &RegularFile, size_bytes: u64, at: Moment) -> Intent {
    let kept = size_bytes.min(file.size_bytes);
    let objects = file.layout.targets().iter().enumerate();
    let objects = objects.map(|(object, &target)| (target, file.layout.object_bytes(object, kept))).collect();
    Intent::Cut { ino, size_bytes, epoch: file.epoch + 1, objects, at }
}

fn seconds_since_epoch(at: Moment) -> u64 {
    u64::try_from(at.seconds - EPOCH_SECONDS).unwrap_or(0)
}

fn set_xattr(inode: &mut Inode, name: &[u8], value: Option<&[u8]>, at: Moment) {
    inode.changed = at;
    if name == PLACEMENT {
        if let Some(file) = inode.regular_mut() {
            file.placement = value.map_or_else(Box::default, Box::from);
        }
        return;
    }
    let xattrs = inode.xattrs.get_or_insert_default();
    xattrs.set(name, value);
    if xattrs.len() == 0 {
        inode.xattrs = None;
    }
}
