//! Intents: work on targets and on other servers that outlives the reply which decided it.
//!
//! [`Intents`] holds the pending intents, each with the user for whom it is kept, the number of the next one, and the effects that
//! were issued and not finished. A start issues all effects again, so each effect can be repeated.
//!
//! Promises: no number is given twice. An intent is pending until its last effect is finished, with the first failure among them. A
//! snapshot shows each intent as it was when the snapshot began. Intents know no inode: whoever begins or settles one marks the names and
//! files that it is about.

mod effects;
mod intent;
#[cfg(test)]
mod tests;

pub use effects::{Effect, When};
pub(crate) use intent::{Begun, NO_CUT};
pub use intent::{Bytes, Intent, IntentId};

use super::change::Change;
use effects::Outstanding;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use weir_placement::{ServerId, TargetId};
use weir_wire::Ino;

/// The most pending intents, which a lost server lets pile up. An operation that needs one more is answered EIO, as are all
/// other operations that need the lost server.
const INTENTS_PENDING: usize = 1 << 20;

/// The pending intents, and their effects.
#[derive(Clone, Debug)]
pub(crate) struct Intents {
    server: ServerId,
    /// The number of the next intent.
    next: u64,
    /// Each with the user for whom it is kept.
    pending: BTreeMap<IntentId, (u32, Intent)>,
    walk: Option<Walk>,
    /// Effects that were issued and not finished.
    outstanding: HashMap<IntentId, Outstanding>,
}

/// The way of a snapshot through the intents: each is shown as it was when the snapshot began.
#[derive(Clone, Debug)]
struct Walk {
    behind: Option<IntentId>,
    /// The first number that no intent had when the snapshot began.
    until: IntentId,
    /// Intents ahead that were shown because they ended.
    met: HashSet<IntentId>,
    shown: VecDeque<Change>,
}

impl Intents {
    /// No intents, at `server`.
    pub(crate) fn new(server: ServerId) -> Intents {
        Intents { server, next: 0, pending: BTreeMap::new(), walk: None, outstanding: HashMap::new() }
    }

    /// The number of the next intent.
    pub(crate) fn next(&self) -> IntentId {
        IntentId(self.next)
    }

    /// Gives out no number below `next` any more.
    pub(crate) fn begin_at(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    /// Whether no intent may begin for now.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= INTENTS_PENDING
    }

    pub(crate) fn get(&self, id: IntentId) -> Option<&Intent> {
        self.pending.get(&id).map(|(_, intent)| intent)
    }

    /// The user for whom an intent is kept.
    pub(crate) fn user_of(&self, id: IntentId) -> Option<u32> {
        self.pending.get(&id).map(|(uid, _)| *uid)
    }

    pub(crate) fn contains_key(&self, id: IntentId) -> bool {
        self.pending.contains_key(&id)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    fn values(&self) -> impl Iterator<Item = &Intent> {
        self.pending.values().map(|(_, intent)| intent)
    }

    /// Every intent with the user for whom it is kept.
    #[cfg(test)]
    pub(crate) fn owned(&self) -> impl Iterator<Item = &(u32, Intent)> {
        self.pending.values()
    }

    /// The files whose objects are being removed, each with their targets.
    pub(crate) fn removals(&self) -> impl Iterator<Item = (Ino, &[TargetId])> {
        self.values().filter_map(|intent| match intent {
            Intent::Remove { ino, targets } => Some((*ino, targets.as_slice())),
            _ => None,
        })
    }

    /// Objects on a target that pending intents are about to change: a power loss may bring their files back as they were.
    pub(crate) fn objects_on(&self, target: TargetId) -> u64 {
        let is_there = |place: &TargetId| place.device() == target;
        let intended = self.values().map(|intent| match intent {
            Intent::Cut { objects, .. } | Intent::Fence { objects, .. } | Intent::Seal { objects, .. } => {
                objects.iter().filter(|(place, _)| is_there(place)).count()
            }
            Intent::Remove { targets, .. } => targets.iter().filter(|place| is_there(place)).count(),
            Intent::MakeDirectory { .. }
            | Intent::ForgetDirectory { .. }
            | Intent::RemoveDirectory { .. }
            | Intent::Reparent { .. }
            | Intent::Freeze { .. } => 0,
        });
        intended.sum::<usize>() as u64
    }

    /// Adds an intent; answers the one that had its number.
    pub(crate) fn insert(&mut self, id: IntentId, uid: u32, intent: Intent) -> Option<(u32, Intent)> {
        self.begin_at(id.0 + 1);
        self.show_before(id);
        self.pending.insert(id, (uid, intent))
    }

    /// Removes an intent, which is carried out.
    pub(crate) fn remove(&mut self, id: IntentId) -> Option<(u32, Intent)> {
        self.show_before(id);
        self.pending.remove(&id)
    }

    fn show_before(&mut self, id: IntentId) {
        let Some(walk) = &mut self.walk else { return };
        let is_ahead = id < walk.until && walk.behind.is_none_or(|behind| id > behind);
        if let Some((uid, intent)) = self.pending.get(&id).filter(|_| is_ahead) {
            if walk.met.insert(id) {
                walk.shown.push_back(Change::Intended { id, uid: *uid, intent: intent.clone() });
            }
        }
    }

    /// Begins a snapshot of the intents as they are now.
    pub(crate) fn begin_snapshot(&mut self) {
        let until = self.next();
        self.walk = Some(Walk { behind: None, until, met: HashSet::new(), shown: VecDeque::new() });
    }

    /// Ends a snapshot, also one that is not complete.
    pub(crate) fn end_snapshot(&mut self) {
        self.walk = None;
    }

    /// The next record of the snapshot; none at its end.
    pub(crate) fn next_of_snapshot(&mut self) -> Option<Change> {
        let walk = self.walk.as_mut()?;
        if let Some(shown) = walk.shown.pop_front() {
            return Some(shown);
        }
        loop {
            let from = walk.behind.map_or(Bound::Unbounded, Bound::Excluded);
            let (&id, (uid, intent)) = self.pending.range((from, Bound::Excluded(walk.until))).next()?;
            walk.behind = Some(id);
            if !walk.met.remove(&id) {
                return Some(Change::Intended { id, uid: *uid, intent: intent.clone() });
            }
        }
    }
}
