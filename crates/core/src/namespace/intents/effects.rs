//! Effects: the work of targets and other servers for a decision, issued again by each start until the work is done.

use super::{Intent, IntentId, Intents};
use crate::namespace::change::Change;
use weir_placement::ServerId;
use weir_wire::{Errno, PeerRequest};

/// One piece of work: for a target of this server, or a request to another server. Each can be repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The intent of the effect.
    pub intent: IntentId,
    /// The number of the piece of work in the intent.
    pub part: u16,
    /// The server that has to do the work, which may be this one.
    pub server: ServerId,
    /// The work.
    pub request: PeerRequest,
    /// The time for the work.
    pub when: When,
}

/// The time at which an effect may be carried out. An effect may destroy bytes, or fence them from clients that know the file as
/// the journal had it before. Such an effect waits until the record that decided it is on stable storage. Otherwise a power loss
/// could take the record and not the effect, and leave neither the old content nor the new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At once: the effect destroys nothing, or its record is on stable storage.
    AtOnce,
    /// At once for the part that the next start can undo by the journal; the rest as [`When::Durable`].
    Undoable,
    /// Once the record is on stable storage; a request waits for the effect.
    Durable,
    /// Once the record is on stable storage; no request waits for the effect.
    DurableInTime,
}

/// The effects of an intent that are not finished, and the first failure of one.
#[derive(Clone, Debug)]
pub(super) struct Outstanding {
    parts: Vec<u16>,
    failed: Option<Errno>,
}

impl Intents {
    /// Issues the effects of an intent.
    pub(crate) fn issue(&mut self, id: IntentId) -> Vec<Effect> {
        let Some(intent) = self.get(id) else { return Vec::new() };
        let effects: Vec<Effect> = requests(id, intent)
            .into_iter()
            .enumerate()
            .map(|(part, (server, request))| {
                let when = when(&request, server == self.server);
                Effect { intent: id, part: part as u16, server, request, when }
            })
            .collect();
        let parts: Vec<u16> = effects.iter().map(|effect| effect.part).collect();
        if !parts.is_empty() {
            self.outstanding.insert(id, Outstanding { parts, failed: None });
        }
        effects
    }

    /// Issues the effects of all intents, after a start.
    pub(crate) fn issue_all(&mut self) -> Vec<Effect> {
        let ids: Vec<IntentId> = self.pending.keys().copied().collect();
        ids.into_iter().flat_map(|id| self.issue(id)).collect()
    }

    /// Issues the effects of the intents that these changes began.
    pub(crate) fn issue_new(&mut self, changes: &[Change]) -> Vec<Effect> {
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

    /// Takes the result of an effect. The last effect of an intent gives the first failure among them.
    pub(crate) fn finish(
        &mut self,
        id: IntentId,
        part: u16,
        result: Result<(), Errno>,
    ) -> Option<Result<(), Errno>> {
        let outstanding = self.outstanding.get_mut(&id)?;
        outstanding.parts.retain(|&other| other != part);
        outstanding.failed = outstanding.failed.or(result.err());
        if !outstanding.parts.is_empty() {
            return None;
        }
        Some(self.outstanding.remove(&id)?.failed.map_or(Ok(()), Err))
    }
}

/// The time at which a target here or another server may get a request. Every kind of request has its entry.
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
        | PeerRequest::ObjectsHeld { .. }
        | PeerRequest::Room
        | PeerRequest::Vacancy
        | PeerRequest::Reparent { .. } => When::AtOnce,
    }
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
        // An effect of this intent comes from a restart, after which no request waits for the directory.
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
