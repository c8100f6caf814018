//! Effects: the work of targets and other servers for a decision, until the work is done.

use super::intent::{Intent, IntentId};
use std::collections::HashMap;
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

/// Effects that were issued and not finished.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    pub(crate) outstanding: HashMap<IntentId, Outstanding>,
}

#[derive(Clone, Debug)]
pub(crate) struct Outstanding {
    pub(crate) parts: Vec<u16>,
    pub(crate) failed: Option<Errno>,
}

/// The time at which a target here or another server may get a request. Every kind of request has its entry.
pub(crate) fn when(request: &PeerRequest, is_here: bool) -> When {
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
pub(crate) fn requests(id: IntentId, intent: &Intent) -> Vec<(ServerId, PeerRequest)> {
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
