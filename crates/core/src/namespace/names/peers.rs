//! Requests of other servers. The asking server writes an intent before it asks, and settles it with the outcome. This server
//! carries each request out once, however often the request comes.

use super::Names;
use crate::namespace::change::Change;
use crate::namespace::errno::{EACCES, EIO, ENOTEMPTY, EPERM, ESTALE};
use crate::namespace::files::permission::{self, WRITE};
use crate::namespace::files::{Birth, BirthNode};
use crate::namespace::intents::{Bytes, IntentId};
use crate::namespace::quotas::KeptMemory;
use weir_placement::ServerId;
use weir_wire::{Errno, Identity, Ino, Moment, PeerReply, PeerRequest};

/// The decision on a request of another server: the caller journals and applies the changes, then replies.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerDecision {
    /// Changes for the journal.
    pub changes: Vec<Change>,
    /// The answer.
    pub reply: PeerReply,
}

impl Names {
    /// Decides a request, for [`Namespace::decide_peer`](crate::namespace::Namespace::decide_peer), while this server keeps so much.
    pub(crate) fn decide_peer(
        &self,
        kept: KeptMemory,
        from: ServerId,
        request: &PeerRequest,
        now: Moment,
    ) -> Result<PeerDecision, Errno> {
        match request {
            PeerRequest::MakeDirectory { parent, .. } if parent.home() != from => Err(EPERM),
            PeerRequest::MakeDirectory { .. } => self.make_for(kept, from, request),
            PeerRequest::ForgetDirectory { intent } => {
                let intent = IntentId(*intent);
                let made = self.made.contains_key(&(from, intent));
                Ok(PeerDecision {
                    changes: made.then_some(Change::ForgottenForPeer { from, intent }).into_iter().collect(),
                    reply: PeerReply::Done,
                })
            }
            PeerRequest::RemoveDirectory { ino, owner_only } => self.remove_for(from, *ino, *owner_only, now),
            PeerRequest::Reparent { intent, ino, parent, name } => {
                let intent = IntentId(*intent);
                let directory = self.files.directory(*ino);
                let newer = directory.is_some_and(|directory| directory.placed_by < intent);
                let (ino, parent, name) = (*ino, *parent, Bytes::from(name.as_slice()));
                let change = Change::Reparented { ino, intent, parent, name };
                Ok(PeerDecision {
                    changes: newer.then_some(change).into_iter().collect(),
                    reply: PeerReply::Done,
                })
            }
            PeerRequest::MayMove { ino, who, owner, write } => {
                let inode = self.files.inode(*ino)?;
                if *owner && !permission::owns(who, inode) {
                    return Err(EPERM);
                }
                if *write && !permission::permits(who, inode, WRITE) {
                    return Err(EACCES);
                }
                Ok(PeerDecision { changes: Vec::new(), reply: PeerReply::Done })
            }
            _ => Err(EIO),
        }
    }

    fn make_for(
        &self,
        kept: KeptMemory,
        from: ServerId,
        request: &PeerRequest,
    ) -> Result<PeerDecision, Errno> {
        let PeerRequest::MakeDirectory {
            intent,
            parent,
            name,
            permissions,
            uid,
            gid,
            layout,
            moment,
            settled,
        } = request
        else {
            return Err(EIO);
        };
        let (intent, settled) = (IntentId(*intent), IntentId(*settled));
        if let Some(&ino) = self.made.get(&(from, intent)) {
            return Ok(PeerDecision { changes: Vec::new(), reply: PeerReply::Made { ino } });
        }
        self.files.admit_inode(*uid, *uid, *gid)?;
        let ino = self.files.next_ino();
        let node = BirthNode::Directory { request: layout.clone() };
        let birth = Birth { node, permissions: *permissions, uid: *uid, gid: *gid };
        let (parent, name, at) = (*parent, Bytes::from(name.as_slice()), *moment);
        let change = Change::MadeForPeer { from, intent, settled, parent, name, ino, birth, at };
        let who = Identity { uid: *uid, gid: *gid, groups: Vec::new() };
        self.files.admit_kept(kept, &who, std::slice::from_ref(&change))?;
        Ok(PeerDecision { changes: vec![change], reply: PeerReply::Made { ino } })
    }

    fn remove_for(
        &self,
        from: ServerId,
        ino: Ino,
        owner_only: Option<u32>,
        now: Moment,
    ) -> Result<PeerDecision, Errno> {
        let done = |changes| Ok(PeerDecision { changes, reply: PeerReply::Done });
        let Some(inode) = self.files.get(ino).filter(|inode| inode.names > 0) else {
            return done(Vec::new());
        };
        let directory = inode.directory().ok_or(ESTALE)?;
        if directory.parent.home() != from {
            return Err(EPERM);
        }
        if owner_only.is_some_and(|uid| uid != inode.uid) {
            return Err(EPERM);
        }
        if !directory.is_empty() {
            return Err(ENOTEMPTY);
        }
        let mut changes = vec![Change::DirectoryRemoved { ino, at: now }];
        if !self.files.open().is_open(ino) && !self.files.is_in_grace() {
            changes.push(Change::Disposed { ino, removal: None });
        }
        done(changes)
    }
}
