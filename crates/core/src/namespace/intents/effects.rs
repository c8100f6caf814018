//! The life of effects: they are issued, repeated after a restart, and finished, which settles their intents.

use super::intent::{Intent, IntentId};
use super::outstanding::{requests, when, Effect, Outstanding};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::change::{Change, Outcome, OutcomeKind};
use crate::namespace::core::Namespace;
use crate::namespace::decision::{Answer, Decision};
use crate::storage::Known;
use weir_placement::TargetId;
use weir_wire::{ClientId, Errno, Ino, Moment, Reply, RequestId};

impl Namespace {
    /// All unfinished effects of the journal, which the server carries out after a restart.
    pub fn pending_effects(&mut self) -> Vec<Effect> {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::IntentsForgotten) {
            return Vec::new();
        }
        let ids: Vec<IntentId> = self.state.intents.keys().copied().collect();
        ids.into_iter().flat_map(|id| self.issue(id)).collect()
    }

    /// The effects of an intent once more. They were carried out, but the journal did not take the record of it.
    pub fn repeat_effects(&mut self, intent: IntentId) -> Vec<Effect> {
        self.issue(intent)
    }

    /// The journal's knowledge about the objects of `ino`, after a replay and before [`Namespace::start`]. `lost_power` says
    /// whether the records of the newest files, and the newest removals of objects, may be gone.
    pub(crate) fn known(&self, ino: Ino, lost_power: bool) -> Known {
        if ino.home() != self.settings.server {
            return Known::Elsewhere;
        }
        let Some(file) = self.state.regular(ino) else {
            return if lost_power { Known::Lost } else { Known::Gone };
        };
        let cut = self.state.cuts.get(&ino).and_then(|id| self.state.intents.get(id));
        let cut = cut.map_or(0, |intent| match intent {
            Intent::Cut { epoch, .. } | Intent::Seal { epoch, .. } => *epoch,
            _ => 0,
        });
        Known::File { decided: file.epoch.max(cut) }
    }

    /// The objects on `target`, present or former, by their numbers there, and the epochs of their files. Files whose objects are
    /// about to get their epochs are left out.
    pub(crate) fn epochs_on(&self, target: TargetId) -> impl Iterator<Item = (Ino, u64)> + '_ {
        self.state.inodes.iter().flat_map(move |(&ino, inode)| {
            let file = inode.regular().filter(|file| file.epoch > 0 && !self.is_settling(ino));
            let places = file.into_iter().flat_map(|file| {
                let places = file.layout.targets().iter().chain(&file.former);
                places.map(|&place| (place, file.epoch))
            });
            let there = places.filter(move |(place, _)| place.device() == target);
            there.map(move |(place, epoch)| (ino.object_on(place), epoch))
        })
    }

    /// Takes the result of an effect: the final answer of the target or of the other server. (The loss of a server is no answer:
    /// the server repeats the effect.) The last effect of an intent gives a decision, which the caller journals and commits as
    /// any other. Then the requests that wait for the intent go on, or get the decision's answer if that is `Failed`.
    pub fn finish_effect(
        &mut self,
        intent: IntentId,
        part: u16,
        result: Result<(), Errno>,
        now: Moment,
    ) -> Option<Decision> {
        let outstanding = self.effects.outstanding.get_mut(&intent)?;
        outstanding.parts.retain(|&other| other != part);
        outstanding.failed = outstanding.failed.or(result.err());
        if !outstanding.parts.is_empty() {
            return None;
        }
        let failed = self.effects.outstanding.remove(&intent)?.failed;
        self.settle(intent, failed, now)
    }

    /// Issues the effects of the intents that these changes began.
    pub(crate) fn new_effects(&mut self, changes: &[Change]) -> Vec<Effect> {
        let mut effects = Vec::new();
        for change in changes {
            match change {
                Change::Resized { cut: Some(id), .. }
                | Change::Disposed { removal: Some(id), .. }
                | Change::MoveBegun { prepare: id, .. }
                | Change::MoveFrozen { fence: id, .. }
                | Change::MoveAbandoned { vacate: id, .. }
                | Change::Intended { id, .. } => effects.append(&mut self.issue(*id)),
                Change::Relaid { seal, vacate, .. } => {
                    effects.append(&mut self.issue(*seal));
                    effects.append(&mut self.issue(*vacate));
                }
                Change::Detoured { seal, vacate, .. } => {
                    for id in std::iter::once(seal).chain(vacate) {
                        effects.append(&mut self.issue(*id));
                    }
                }
                Change::Moved { reparents, .. } => {
                    for id in reparents.iter().flatten() {
                        effects.append(&mut self.issue(*id));
                    }
                }
                _ => {}
            }
        }
        effects
    }

    fn issue(&mut self, id: IntentId) -> Vec<Effect> {
        let Some(intent) = self.state.intents.get(&id) else { return Vec::new() };
        let own = self.settings.server;
        let effects: Vec<Effect> = requests(id, intent)
            .into_iter()
            .enumerate()
            .map(|(part, (server, request))| {
                let when = when(&request, server == own);
                Effect { intent: id, part: part as u16, server, request, when }
            })
            .collect();
        let parts: Vec<u16> = effects.iter().map(|effect| effect.part).collect();
        if !parts.is_empty() {
            self.effects.outstanding.insert(id, Outstanding { parts, failed: None });
        }
        effects
    }

    fn settle(&self, id: IntentId, failed: Option<Errno>, now: Moment) -> Option<Decision> {
        let mut changes = vec![Change::Settled { id }];
        match self.state.intents.get(&id)? {
            Intent::Cut { ino, .. } | Intent::Seal { ino, .. } | Intent::Fence { ino, .. } => {
                changes.extend(self.dispose_after(id, *ino));
            }
            Intent::RemoveDirectory { ino, parent, name, request, .. } => {
                if failed.is_none() && self.state.still_holds(*parent, name, *ino) {
                    let (parent, name) = (*parent, name.clone());
                    changes.push(Change::Unlinked { parent, name, at: now });
                    changes.extend(request.map(remembered));
                }
            }
            Intent::Freeze { .. }
            | Intent::Remove { .. }
            | Intent::MakeDirectory { .. }
            | Intent::ForgetDirectory { .. }
            | Intent::Reparent { .. } => {}
        }
        let reply = failed.map_or(Reply::Done, Reply::Failed);
        Some(Decision::of(changes, Answer::Now(reply, Vec::new())))
    }

    /// Disposes of a file that lost its last name and description while effects on its objects were under way, unless an intent
    /// beside `settled` still has such effects.
    fn dispose_after(&self, settled: IntentId, ino: Ino) -> Option<Change> {
        let nameless = self.state.inodes.get(&ino).is_some_and(|inode| inode.names == 0);
        let fenced = u32::from(matches!(self.state.intents.get(&settled), Some(Intent::Fence { .. })));
        let is_settling = self.state.cuts.get(&ino).is_some_and(|&id| id != settled)
            || self.state.moves.contains_key(&ino)
            || self.state.fences.get(&ino).is_some_and(|&count| count > fenced);
        let due = nameless && !is_settling && !self.open.is_open(ino) && !self.in_grace;
        due.then_some(Change::Disposed { ino, removal: Some(IntentId(self.state.next_intent)) })
    }
}

/// The reply record of a request that a restart cut off and that is done now.
fn remembered((client, request): (ClientId, RequestId)) -> Change {
    let outcome = Outcome { kind: OutcomeKind::Done, wait: Vec::new() };
    Change::Remembered { client, request, acknowledged: RequestId(0), outcome }
}
