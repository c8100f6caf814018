//! Effects: what targets and other servers have to do for a decision, until it is done.

use super::change::{Change, Intent, IntentId, Outcome, OutcomeKind};
use super::inode::Inode;
use super::{Answer, Decision, Namespace};
use crate::storage::Known;
use std::collections::HashMap;
use weir_placement::{ServerId, TargetId};
use weir_wire::{ClientId, Errno, Ino, Moment, PeerRequest, Reply, RequestId};

/// One piece of work: for a target of this server, or a request to another server. Each can be repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The intent that it belongs to.
    pub intent: IntentId,
    /// Which piece of it.
    pub part: u16,
    /// The server that has to do it, which may be this one.
    pub server: ServerId,
    /// What.
    pub request: PeerRequest,
    /// When.
    pub when: When,
}

/// When an effect may be carried out. What destroys bytes, or fences them from those who know them by what the journal had
/// before, waits until the record that decided it is on stable storage: else a power loss takes the record and not the
/// effect, and leaves neither the old content nor the new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At once: it destroys nothing, or its record is on stable storage.
    AtOnce,
    /// At once as far as the next start can undo it, which asks the journal; the rest as [`When::Durable`].
    Undoable,
    /// Once the record is on stable storage; somebody waits for it.
    Durable,
    /// The same, but nobody waits for it.
    DurableInTime,
}

/// Effects that were issued and not finished.
#[derive(Clone, Debug, Default)]
pub(super) struct Effects {
    outstanding: HashMap<IntentId, Outstanding>,
}

#[derive(Clone, Debug)]
struct Outstanding {
    parts: Vec<u16>,
    failed: Option<Errno>,
}

impl Namespace {
    /// Every effect that the journal has as unfinished: to be carried out after a restart.
    pub fn pending_effects(&mut self) -> Vec<Effect> {
        let ids: Vec<IntentId> = self.state.intents.keys().copied().collect();
        ids.into_iter().flat_map(|id| self.issue(id)).collect()
    }

    /// The effects of an intent once more: they were carried out, and the journal did not take that they were.
    pub fn repeat_effects(&mut self, intent: IntentId) -> Vec<Effect> {
        self.issue(intent)
    }

    /// What the journal knows of the objects of `ino`, after a replay and before [`Namespace::start`]. `lost_power` says
    /// whether the records of the last files that were made may be gone.
    pub(crate) fn known(&self, ino: Ino, lost_power: bool) -> Known {
        if ino.home() != self.settings.server {
            return Known::Elsewhere;
        }
        let Some(file) = self.state.inodes.get(&ino).and_then(Inode::regular) else {
            let was_made = ino.sequence() < self.state.next_sequence;
            return if was_made || !lost_power { Known::Gone } else { Known::Lost };
        };
        let cut = self.state.cuts.get(&ino).and_then(|id| self.state.intents.get(id));
        let cut = cut.map_or(0, |intent| match intent {
            Intent::Cut { epoch, .. } | Intent::Seal { epoch, .. } => *epoch,
            _ => 0,
        });
        Known::File { decided: file.epoch.max(cut) }
    }

    /// Files with an object on `target`, or with one of before, and their epochs; those are left out whose objects are
    /// about to get theirs.
    pub(crate) fn epochs_on(&self, target: TargetId) -> impl Iterator<Item = (Ino, u64)> + '_ {
        self.state.inodes.iter().filter_map(move |(&ino, inode)| {
            let file = inode.regular().filter(|file| file.epoch > 0)?;
            let is_there = file.layout.targets().contains(&target) || file.former.contains(&target);
            (is_there && !self.is_settling(ino)).then_some((ino, file.epoch))
        })
    }

    /// Whether the intent is settled.
    pub fn is_settled(&self, intent: IntentId) -> bool {
        !self.state.intents.contains_key(&intent)
    }

    /// Takes the result of an effect: what the target or the other server finally answered (a lost server is no
    /// answer: the effect is repeated). With the last effect of an intent comes a decision, to be journaled and
    /// committed like any other; then those that wait for the intent go on, or get the decision's answer where that
    /// is `Failed`.
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
    pub(super) fn new_effects(&mut self, changes: &[Change]) -> Vec<Effect> {
        let mut effects = Vec::new();
        for change in changes {
            match change {
                Change::Resized { cut: Some(id), .. }
                | Change::Disposed { removal: Some(id), .. }
                | Change::MoveBegun { prepare: id, .. }
                | Change::MoveFrozen { fence: id, .. }
                | Change::MoveAbandoned { vacate: id, .. }
                | Change::Detoured { seal: id, .. }
                | Change::Intended { id, .. } => effects.append(&mut self.issue(*id)),
                Change::Relaid { seal, vacate, .. } => {
                    effects.append(&mut self.issue(*seal));
                    effects.append(&mut self.issue(*vacate));
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
                if failed.is_none() && self.still_holds(*parent, name, *ino) {
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

    /// A file that lost its last name and description while its objects were at work goes now, unless more than the
    /// intent `settled` is at work.
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

/// When a request may be made of a target here or of another server. Every kind has its entry.
fn when(request: &PeerRequest, is_here: bool) -> When {
    match request {
        PeerRequest::TruncateObject { .. } if is_here => When::Undoable,
        PeerRequest::TruncateObject { .. } | PeerRequest::FenceObject { .. } => When::Durable,
        PeerRequest::RemoveObject { .. } => When::DurableInTime,
        PeerRequest::Exchange
        | PeerRequest::MakeDirectory { .. }
        | PeerRequest::ForgetDirectory { .. }
        | PeerRequest::RemoveDirectory { .. }
        | PeerRequest::MayMove { .. }
        | PeerRequest::Confirm { .. }
        | PeerRequest::ObjectsMade { .. }
        | PeerRequest::Room
        | PeerRequest::Reparent { .. } => When::AtOnce,
    }
}

/// A restart cut a request off that is done now.
fn remembered((client, request): (ClientId, RequestId)) -> Change {
    let outcome = Outcome { kind: OutcomeKind::Done, wait: Vec::new() };
    Change::Remembered { client, request, acknowledged: RequestId(0), outcome }
}

/// The requests that carry out an intent.
fn requests(id: IntentId, intent: &Intent) -> Vec<(ServerId, PeerRequest)> {
    match intent {
        Intent::Cut { ino, epoch, objects, .. } => objects
            .iter()
            .map(|&(target, length)| {
                let (ino, epoch) = (*ino, *epoch);
                (target.server, PeerRequest::TruncateObject { ino, target, length, epoch })
            })
            .collect(),
        Intent::Fence { ino, epoch, objects, .. } | Intent::Seal { ino, epoch, objects } => objects
            .iter()
            .map(|&(target, length)| {
                let (ino, epoch) = (*ino, *epoch);
                (target.server, PeerRequest::FenceObject { ino, target, length, epoch })
            })
            .collect(),
        Intent::Freeze { .. } => Vec::new(),
        Intent::Remove { ino, targets } => targets
            .iter()
            .map(|&target| (target.server, PeerRequest::RemoveObject { ino: *ino, target }))
            .collect(),
        // After a restart nobody waits for the directory any more.
        Intent::MakeDirectory { server, .. } => {
            vec![(*server, PeerRequest::ForgetDirectory { intent: id.0 })]
        }
        Intent::ForgetDirectory { server, made } => {
            vec![(*server, PeerRequest::ForgetDirectory { intent: made.0 })]
        }
        Intent::RemoveDirectory { ino, owner_only, .. } => {
            vec![(ino.home(), PeerRequest::RemoveDirectory { ino: *ino, owner_only: *owner_only })]
        }
        Intent::Reparent { ino, parent, name } => {
            let (ino, parent, name) = (*ino, *parent, name.to_vec());
            vec![(ino.home(), PeerRequest::Reparent { intent: id.0, ino, parent, name })]
        }
    }
}
