//! The pending intents by number, and the way of a snapshot through them.

use super::intent::{Intent, IntentId};
use crate::namespace::change::Change;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Bound;

/// The pending intents, each with the user for whom it is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intents {
    pending: BTreeMap<IntentId, (u32, Intent)>,
    walk: Option<Walk>,
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
    pub(crate) fn get(&self, id: &IntentId) -> Option<&Intent> {
        self.pending.get(id).map(|(_, intent)| intent)
    }

    /// The user for whom an intent is kept.
    pub(crate) fn user_of(&self, id: IntentId) -> Option<u32> {
        self.pending.get(&id).map(|(uid, _)| *uid)
    }

    pub(crate) fn contains_key(&self, id: &IntentId) -> bool {
        self.pending.contains_key(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &IntentId> {
        self.pending.keys()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Intent> {
        self.pending.values().map(|(_, intent)| intent)
    }

    /// Every intent with the user for whom it is kept.
    #[cfg(test)]
    pub(crate) fn owned(&self) -> impl Iterator<Item = &(u32, Intent)> {
        self.pending.values()
    }

    /// Adds an intent; answers the one that had its number.
    pub(crate) fn insert(&mut self, id: IntentId, uid: u32, intent: Intent) -> Option<(u32, Intent)> {
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

    /// Begins a snapshot of the intents as they are now; `until` is the first number that none has.
    pub(crate) fn begin_snapshot(&mut self, until: IntentId) {
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
