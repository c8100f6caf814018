//! Effects: what targets and other servers have to do for a decision, until it is done.

use super::change::{Change, Intent, IntentId, Outcome, OutcomeKind};
use super::{Answer, Decision, Namespace};
use std::collections::HashMap;
use weir_placement::ServerId;
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
    /// Whether the journal must be on stable storage first.
    pub durable: bool,
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
        let durable = matches!(intent, Intent::Fence { durable: true, .. });
        let effects: Vec<Effect> = requests(id, intent)
            .into_iter()
            .enumerate()
            .map(|(part, (server, request))| Effect {
                intent: id,
                part: part as u16,
                server,
                request,
                durable,
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
