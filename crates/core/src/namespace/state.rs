//! The part of the namespace that the journal keeps.

use super::change::Change;
use super::errno::ESTALE;
use super::files::inode::{Birth, BirthNode, InoMap, Inode};
use super::files::inode::{Directory, RegularFile};
use super::files::inodes::Inodes;
use super::files::released::Released;
use super::intents::intent::{Bytes, IntentId, MoveRecord};
use super::intents::pending::Intents;
use super::moves::object_counts::ObjectCounts;
use super::replies::Replies;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use weir_placement::{LayoutRequest, ServerId};
use weir_wire::{Attributes, Errno, Ino, Moment};

/// Seconds from the Unix epoch to 2026-01-01, the origin of the numbers of starts and inodes.
const EPOCH_SECONDS: i64 = 1_767_225_600;
/// The room for new inodes in a second, in bits. The first number of a start follows from the time. So a server that lost some or
/// all of its state does not give inode numbers out again, whose objects may stand on other servers.
const SEQUENCES_PER_SECOND_BITS: u32 = 17;
/// Mode of the root directory: everyone may make entries, and remove their own.
const ROOT_PERMISSIONS: u16 = 0o1777;

/// The journaled state.
#[derive(Clone, Debug)]
pub(crate) struct State {
    server: ServerId,
    pub(crate) next_sequence: u64,
    pub(crate) next_intent: u64,
    pub(crate) starts: u32,
    pub(crate) inodes: Inodes,
    pub(crate) intents: Intents,
    pub(crate) made: BTreeMap<(ServerId, IntentId), Ino>,
    pub(crate) replies: Replies,
    pub(crate) released: Released,
    /// Files with objects that are being moved.
    pub(crate) moves: BTreeMap<Ino, MoveRecord>,
    /// Files whose size, epoch or layout is about to change. The fields from here to `making` are derived from `intents`.
    pub(crate) cuts: InoMap<IntentId>,
    /// The numbers of pending fences of files.
    pub(crate) fences: InoMap<u32>,
    /// Directories of other servers that are being removed.
    pub(crate) removing: InoMap<IntentId>,
    /// Directories of other servers that do not know yet of a move of their entries.
    pub(crate) moving: InoMap<IntentId>,
    /// Directories that other servers may have made without an entry here.
    pub(crate) unsettled: BTreeSet<IntentId>,
    /// Entries for which another server is making a directory.
    pub(crate) making: HashMap<(Ino, Bytes), IntentId>,
    /// Inodes without a name.
    pub(crate) orphans: BTreeSet<Ino>,
    /// The number of objects on each target, by layouts and by moves under way.
    pub(crate) objects: ObjectCounts,
}

impl State {
    pub(crate) fn new(server: ServerId) -> State {
        State {
            server,
            next_sequence: 0,
            next_intent: 0,
            starts: 0,
            inodes: Inodes::default(),
            intents: Intents::default(),
            made: BTreeMap::new(),
            replies: Replies::default(),
            released: Released::default(),
            moves: BTreeMap::new(),
            cuts: InoMap::default(),
            fences: InoMap::default(),
            removing: InoMap::default(),
            moving: InoMap::default(),
            unsettled: BTreeSet::new(),
            making: HashMap::new(),
            orphans: BTreeSet::new(),
            objects: ObjectCounts::default(),
        }
    }

    /// The number of a start at `now`, which is greater than the last one even if the server kept nothing.
    pub(crate) fn next_start(&self, now: Moment) -> u32 {
        let seconds = u32::try_from(seconds_since_epoch(now)).unwrap_or(u32::MAX);
        seconds.max(self.starts.saturating_add(1))
    }

    /// Begins a snapshot of this moment: answers the records of the small tables, which are bounded and shown at once. The records
    /// of [`State::next_of_snapshot`] follow them, however the state changes meanwhile. All records together bring a new state to
    /// the one of this moment, after [`State::index`].
    pub(crate) fn begin_snapshot(&mut self) -> impl Iterator<Item = Change> + '_ {
        self.inodes.begin_snapshot(Ino::new(self.server, self.next_sequence));
        self.intents.begin_snapshot(IntentId(self.next_intent));
        let counted = Change::Counted {
            next_sequence: self.next_sequence,
            next_intent: self.next_intent,
            starts: self.starts,
        };
        let made = self.made.iter().map(|(&(from, intent), &ino)| Change::MadeKept { from, intent, ino });
        let moves = self.moves.iter().map(|(&ino, record)| Change::MoveKept { ino, record: record.clone() });
        let first = std::iter::once(counted).chain(moves).chain(made);
        first.chain(self.replies.snapshot()).chain(self.released.snapshot())
    }

    /// The next record of the snapshot; none at its end.
    pub(crate) fn next_of_snapshot(&mut self) -> Option<Change> {
        self.inodes.next_of_snapshot().or_else(|| self.intents.next_of_snapshot())
    }

    /// Ends a snapshot, also one that is not complete.
    pub(crate) fn end_snapshot(&mut self) {
        self.inodes.end_snapshot();
        self.intents.end_snapshot();
    }

    /// The attributes of an inode of this server.
    pub(crate) fn attributes(&self, ino: Ino) -> Result<Attributes, Errno> {
        self.inodes.attributes(ino).ok_or(ESTALE)
    }

    pub(crate) fn regular(&self, ino: Ino) -> Option<&RegularFile> {
        self.inodes.get(&ino)?.regular()
    }

    pub(crate) fn directory(&self, ino: Ino) -> Option<&Directory> {
        self.inodes.get(&ino)?.directory()
    }

    /// Whether the entry `name` of `parent` still names this inode.
    pub(crate) fn still_holds(&self, parent: Ino, name: &[u8], ino: Ino) -> bool {
        let entry = self.directory(parent).and_then(|directory| directory.find(name));
        entry.is_some_and(|entry| entry.ino == ino)
    }

    pub(crate) fn start(&mut self, number: u32, at: Moment) {
        self.starts = number;
        self.inodes.begin(number);
        let first = (seconds_since_epoch(at) << SEQUENCES_PER_SECOND_BITS) + Ino::ROOT.sequence() + 1;
        #[cfg(any(test, feature = "world"))]
        let first = if mutants::is(Mutant::NumbersReused) { 0 } else { first };
        // A power loss may have taken the records of numbers that objects and other servers know.
        self.next_sequence = self.next_sequence.max(first);
        self.next_intent = self.next_intent.max(first);
        if self.server == Ino::ROOT.home() && !self.inodes.contains_key(&Ino::ROOT) {
            let birth = Birth {
                node: BirthNode::Directory { request: LayoutRequest::default() },
                permissions: ROOT_PERMISSIONS,
                uid: 0,
                gid: 0,
            };
            self.inodes.insert(Ino::ROOT, Inode::new(&birth, (Ino::ROOT, &[]), number, at));
        }
    }
}

fn seconds_since_epoch(at: Moment) -> u64 {
    u64::try_from(at.seconds - EPOCH_SECONDS).unwrap_or(0)
}
