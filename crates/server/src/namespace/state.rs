//! The part of the namespace that the journal keeps, and the one way to change it.

use super::change::{Birth, BirthNode, Bytes, Change, Intent, IntentId, MoveRecord};
use super::inode::{InoMap, Inode};
use super::replies::Replies;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use weir_placement::{LayoutRequest, ServerId};
use weir_wire::{Ino, Moment};

/// Seconds from the Unix epoch to 2026-01-01, from where starts and inode numbers are counted.
const EPOCH_SECONDS: i64 = 1_767_225_600;
/// A server that kept nothing, or not all, must not give inode numbers out again, as their objects may stand on other
/// servers: a start's first number follows from the time, with room for 2^17 new inodes a second.
const SEQUENCES_PER_SECOND_BITS: u32 = 17;
/// Mode of the root directory: everyone may make entries, and remove their own.
const ROOT_PERMISSIONS: u16 = 0o1777;

/// The journaled state.
#[derive(Clone, Debug)]
pub(super) struct State {
    server: ServerId,
    pub(super) next_sequence: u64,
    pub(super) next_intent: u64,
    pub(super) starts: u32,
    pub(super) inodes: InoMap<Inode>,
    pub(super) intents: BTreeMap<IntentId, Intent>,
    pub(super) made: BTreeMap<(ServerId, IntentId), Ino>,
    pub(super) replies: Replies,
    /// Files of which objects are being moved.
    pub(super) moves: BTreeMap<Ino, MoveRecord>,
    /// Files whose size, epoch or layout is about to change. Derived from `intents`, like the next ones up to `making`.
    pub(super) cuts: InoMap<IntentId>,
    /// Files of which objects that nobody uses are being fenced, and how many fences those are.
    pub(super) fences: InoMap<u32>,
    /// Directories of other servers that are being removed.
    pub(super) removing: InoMap<IntentId>,
    /// Directories of other servers that do not know yet where their entries moved.
    pub(super) moving: InoMap<IntentId>,
    /// Directories that other servers may have made without an entry here.
    pub(super) unsettled: BTreeSet<IntentId>,
    /// Entries for which another server is making a directory.
    pub(super) making: HashMap<(Ino, Bytes), IntentId>,
    /// Inodes without a name.
    pub(super) orphans: BTreeSet<Ino>,
}

impl State {
    pub(super) fn new(server: ServerId) -> State {
        State {
            server,
            next_sequence: 0,
            next_intent: 0,
            starts: 0,
            inodes: InoMap::default(),
            intents: BTreeMap::new(),
            made: BTreeMap::new(),
            replies: Replies::default(),
            moves: BTreeMap::new(),
            cuts: InoMap::default(),
            fences: InoMap::default(),
            removing: InoMap::default(),
            moving: InoMap::default(),
            unsettled: BTreeSet::new(),
            making: HashMap::new(),
            orphans: BTreeSet::new(),
        }
    }

    /// The number of a start at `now`: it grows also when the server kept nothing.
    pub(super) fn next_start(&self, now: Moment) -> u32 {
        let seconds = u32::try_from(seconds_since_epoch(now)).unwrap_or(u32::MAX);
        seconds.max(self.starts.saturating_add(1))
    }

    /// Changes that bring a new state to this one, in an order that depends on the state alone.
    pub(super) fn snapshot(&self) -> impl Iterator<Item = Change> + '_ {
        let counted = Change::Counted {
            next_sequence: self.next_sequence,
            next_intent: self.next_intent,
            starts: self.starts,
        };
        let mut inos: Vec<Ino> = self.inodes.keys().copied().collect();
        inos.sort_unstable();
        let entries = inos.clone().into_iter().flat_map(|ino| {
            let directory = self.inodes.get(&ino).and_then(Inode::directory);
            directory.into_iter().flat_map(move |directory| {
                directory.after(0).map(move |(name, entry)| Change::EntryKept {
                    directory: ino,
                    cookie: entry.cookie,
                    name: Bytes::from(name),
                    ino: entry.ino,
                    kind: entry.kind,
                })
            })
        });
        let inodes = inos.into_iter().filter_map(|ino| {
            let inode = self.inodes.get(&ino)?;
            Some(Change::Kept { ino, inode: Box::new(inode.without_entries()) })
        });
        // An entry tells its file where a name of it is, so the files come first.
        let inodes = inodes.chain(entries);
        let intents =
            self.intents.iter().map(|(&id, intent)| Change::Intended { id, intent: intent.clone() });
        let made = self.made.iter().map(|(&(from, intent), &ino)| Change::MadeKept { from, intent, ino });
        let moves = self.moves.iter().map(|(&ino, record)| Change::MoveKept { ino, record: record.clone() });
        let first = std::iter::once(counted).chain(inodes).chain(moves);
        first.chain(intents).chain(made).chain(self.replies.snapshot())
    }

    pub(super) fn start(&mut self, number: u32, at: Moment) {
        self.starts = number;
        let first = (seconds_since_epoch(at) << SEQUENCES_PER_SECOND_BITS) + Ino::ROOT.sequence() + 1;
        // Also after a power loss, which may have taken the records of numbers that objects and other servers know.
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
