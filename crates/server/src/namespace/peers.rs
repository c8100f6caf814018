//! Operations that take two servers. The asking side writes an intent before it asks and settles it with the
//! outcome; the asked side does each request once, however often it comes.

use super::change::{Birth, BirthNode, Bytes, Change, Intent, IntentId, OutcomeKind};
use super::draft::Draft;
use super::errno::{EACCES, EBUSY, EEXIST, EIO, ENOENT, ENOSPC, ENOTDIR, ENOTEMPTY, EPERM, ESTALE};
use super::inode::Inode;
use super::permission::{self, WRITE};
use super::walk::Place;
use super::{Answer, Caller, Decision, Namespace, Question, Step, Stop, Verdict};
use weir_placement::ServerId;
use weir_wire::{
    At, ClientId, Errno, FileKind, Identity, Ino, Moment, PeerReply, PeerRequest, RenameMode, Reply,
    RequestId,
};

/// Why a question to another server has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerFailure {
    /// The other server refused.
    Refused(Errno),
    /// It could not be reached within the bound, so whether it did what was asked is not known.
    Unreachable,
}

/// What is left of a request while another server is asked.
#[derive(Clone, Debug)]
pub struct Continuation {
    client: ClientId,
    request: RequestId,
    acknowledged: RequestId,
    who: Identity,
    trusted: bool,
    work: Work,
}

#[derive(Clone, Debug)]
enum Work {
    Make { id: IntentId, server: ServerId, parent: Ino, name: Bytes, birth: Birth, at: Moment },
    Remove { id: IntentId, parent: Ino, name: Bytes, ino: Ino },
    Move { ino: Ino, rename: Rename },
    Replace { id: IntentId, parent: Ino, name: Bytes, ino: Ino, rename: Rename },
}

/// A rename and what was granted to it.
#[derive(Clone, Debug)]
struct Rename {
    from: At,
    to: At,
    mode: RenameMode,
    grants: Grants,
}

/// What other servers have granted to a rename.
#[derive(Clone, Debug, Default)]
pub(super) struct Grants {
    /// Directories whose entries the caller may move.
    pub(super) moves: Vec<Ino>,
    /// The directory that stood at the target and is gone.
    pub(super) removed: Option<Ino>,
}

/// What this server did for another one: journal and apply the changes, then reply.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerDecision {
    /// For the journal.
    pub changes: Vec<Change>,
    /// The answer.
    pub reply: PeerReply,
}

impl Namespace {
    pub(super) fn ask_to_make(
        &self,
        mut draft: Draft<'_>,
        place: &Place,
        server: ServerId,
        birth: Birth,
    ) -> Step<Verdict> {
        let BirthNode::Directory { request: layout } = birth.node.clone() else { return Err(ENOTDIR.into()) };
        let id = draft.intent()?;
        let (parent, name, at) = (place.parent, Bytes::from(place.name.as_slice()), draft.now);
        let request = PeerRequest::MakeDirectory {
            intent: id.0,
            parent,
            name: place.name.clone(),
            permissions: birth.permissions,
            uid: birth.uid,
            gid: birth.gid,
            layout,
            moment: at,
            settled: self.state.unsettled.first().unwrap_or(&id).0,
        };
        let intent = Intent::MakeDirectory { server, parent, name: name.clone() };
        let work = Work::Make { id, server, parent, name, birth, at };
        Ok(ask(&draft, Some((id, intent)), server, request, work))
    }

    pub(super) fn ask_to_remove(&self, mut draft: Draft<'_>, place: &Place, ino: Ino) -> Step<Verdict> {
        let asked = Some((draft.caller.client, draft.caller.request));
        let (id, intent, request) = self.removal(&mut draft, place, ino, asked)?;
        let work = Work::Remove { id, parent: place.parent, name: Bytes::from(place.name.as_slice()), ino };
        Ok(ask(&draft, Some((id, intent)), ino.home(), request, work))
    }

    pub(super) fn ask_to_replace(
        &self,
        mut draft: Draft<'_>,
        place: &Place,
        ino: Ino,
        rename: (&At, &At, RenameMode),
        grants: &Grants,
    ) -> Step<Verdict> {
        let (id, intent, request) = self.removal(&mut draft, place, ino, None)?;
        let (parent, name) = (place.parent, Bytes::from(place.name.as_slice()));
        let work = Work::Replace { id, parent, name, ino, rename: Rename::new(rename, grants) };
        Ok(ask(&draft, Some((id, intent)), ino.home(), request, work))
    }

    /// Asks the home of a directory whether the caller may move its entry out of this place.
    pub(super) fn ask_to_move(
        &self,
        draft: Draft<'_>,
        (ino, write): (Ino, bool),
        place: &Place,
        rename: (&At, &At, RenameMode),
        grants: &Grants,
    ) -> Step<Verdict> {
        let who = draft.who();
        let owner = permission::sticky_asks_owner(who, self.inode(place.parent)?);
        let request = PeerRequest::MayMove { ino, who: who.clone(), owner, write };
        let work = Work::Move { ino, rename: Rename::new(rename, grants) };
        Ok(ask(&draft, None, ino.home(), request, work))
    }

    fn removal(
        &self,
        draft: &mut Draft<'_>,
        place: &Place,
        ino: Ino,
        request: Option<(ClientId, RequestId)>,
    ) -> Result<(IntentId, Intent, PeerRequest), Errno> {
        let id = draft.intent()?;
        let owner_only = self.owner_only(draft.who(), self.inode(place.parent)?);
        let (parent, name) = (place.parent, Bytes::from(place.name.as_slice()));
        let intent = Intent::RemoveDirectory { ino, parent, name, owner_only, request };
        Ok((id, intent, PeerRequest::RemoveDirectory { ino, owner_only }))
    }

    /// Goes on with a request when the other server has answered, or cannot. A verdict is never an error: changes
    /// may belong to a failure too.
    pub fn resume(
        &self,
        continuation: Continuation,
        answer: Result<PeerReply, PeerFailure>,
        now: Moment,
    ) -> Verdict {
        let Continuation { client, request, acknowledged, who, trusted, work } = continuation;
        let caller = Caller { client, request, acknowledged, who: &who, trusted };
        let draft = Draft::new(self, &caller, now);
        match work {
            Work::Make { id, server, parent, name, birth, at } => {
                Verdict::Done(self.made(draft, (id, server), (parent, name), (&birth, at), answer))
            }
            Work::Remove { id, parent, name, ino } => {
                let mut draft = draft;
                if let Some(refusal) = self.refusal(id, answer) {
                    return Verdict::Done(refusal);
                }
                draft.push(Change::Settled { id });
                if self.still_holds(parent, &name, ino) {
                    draft.push(Change::Unlinked { parent, name, at: now });
                }
                Verdict::Done(draft.done(OutcomeKind::Done))
            }
            Work::Move { ino, mut rename } => {
                if let Err(failure) = answer {
                    return Verdict::Done(failed(Vec::new(), errno_of(failure)));
                }
                rename.grants.moves.push(ino);
                let step = self.rename_with(draft, rename.paths(), &rename.grants);
                super::verdict(step).unwrap_or_else(|errno| Verdict::Done(failed(Vec::new(), errno)))
            }
            Work::Replace { id, parent, name, ino, rename } => {
                if let Some(refusal) = self.refusal(id, answer) {
                    return Verdict::Done(refusal);
                }
                Verdict::Done(self.replaced(draft, id, (parent, name, ino), rename))
            }
        }
    }

    /// The directory was made elsewhere: its entry follows, unless the name was taken meanwhile.
    fn made(
        &self,
        mut draft: Draft<'_>,
        (id, server): (IntentId, ServerId),
        (parent, name): (Ino, Bytes),
        (birth, at): (&Birth, Moment),
        answer: Result<PeerReply, PeerFailure>,
    ) -> Decision {
        let outcome = match answer {
            Ok(PeerReply::Made { ino }) => self.is_free(parent, &name).map(|()| ino),
            Ok(_) => Err(EIO),
            Err(failure) => Err(errno_of(failure)),
        };
        match outcome {
            Ok(ino) => {
                let attributes = Inode::new(birth, (parent, &name), 0, at).attributes(ino);
                draft.push(Change::Settled { id });
                draft.push(Change::Linked { parent, name, ino, kind: FileKind::Directory, at });
                draft.done(OutcomeKind::Made(Box::new(attributes)))
            }
            Err(errno) => {
                let forget = IntentId(self.state.next_intent);
                let intent = Intent::ForgetDirectory { server, made: id };
                failed(vec![Change::Settled { id }, Change::Intended { id: forget, intent }], errno)
            }
        }
    }

    fn is_free(&self, parent: Ino, name: &[u8]) -> Result<(), Errno> {
        let inode = self.state.inodes.get(&parent).filter(|inode| inode.names > 0).ok_or(ENOENT)?;
        match inode.directory().ok_or(ENOTDIR)?.find(name) {
            Some(_) => Err(EEXIST),
            None => Ok(()),
        }
    }

    /// What follows when the directory was not removed elsewhere. Where that is not known it is tried again as an
    /// effect, and its entry goes when it is certain.
    fn refusal(&self, id: IntentId, answer: Result<PeerReply, PeerFailure>) -> Option<Decision> {
        match (answer, self.state.intents.get(&id)) {
            (Ok(_), _) => None,
            (Err(PeerFailure::Unreachable), Some(intent)) => {
                Some(failed(vec![Change::Intended { id, intent: intent.clone() }], EIO))
            }
            (Err(failure), _) => Some(failed(vec![Change::Settled { id }], errno_of(failure))),
        }
    }

    /// What stood at the target of a rename is gone: the rename follows, or at least the entry goes.
    fn replaced(
        &self,
        mut draft: Draft<'_>,
        id: IntentId,
        (parent, name, ino): (Ino, Bytes, Ino),
        mut rename: Rename,
    ) -> Decision {
        let now = draft.now;
        rename.grants.removed = Some(ino);
        draft.push(Change::Settled { id });
        let errno = match self.rename_with(draft, rename.paths(), &rename.grants) {
            Ok(Verdict::Done(decision)) => return decision,
            Ok(_) | Err(Stop::Wait(_) | Stop::Detour(_)) => EBUSY,
            Err(Stop::Failed(errno)) => errno,
        };
        let mut changes = vec![Change::Settled { id }];
        if self.still_holds(parent, &name, ino) {
            changes.push(Change::Unlinked { parent, name, at: now });
        }
        failed(changes, errno)
    }

    /// Decides a request of another server about directories.
    ///
    /// # Errors
    /// The error number to answer; EPERM when `from` has no right to ask.
    pub fn decide_peer(
        &self,
        from: ServerId,
        request: &PeerRequest,
        now: Moment,
    ) -> Result<PeerDecision, Errno> {
        match request {
            PeerRequest::MakeDirectory { parent, .. } if parent.home() != from => Err(EPERM),
            PeerRequest::MakeDirectory { .. } => self.make_for(from, request),
            PeerRequest::ForgetDirectory { intent } => {
                let intent = IntentId(*intent);
                let made = self.state.made.contains_key(&(from, intent));
                Ok(PeerDecision {
                    changes: made.then_some(Change::ForgottenForPeer { from, intent }).into_iter().collect(),
                    reply: PeerReply::Done,
                })
            }
            PeerRequest::RemoveDirectory { ino, owner_only } => self.remove_for(from, *ino, *owner_only, now),
            PeerRequest::Reparent { intent, ino, parent, name } => {
                let intent = IntentId(*intent);
                let directory = self.state.inodes.get(ino).and_then(Inode::directory);
                let newer = directory.is_some_and(|directory| directory.placed_by < intent);
                let (ino, parent, name) = (*ino, *parent, Bytes::from(name.as_slice()));
                let change = Change::Reparented { ino, intent, parent, name };
                Ok(PeerDecision {
                    changes: newer.then_some(change).into_iter().collect(),
                    reply: PeerReply::Done,
                })
            }
            PeerRequest::MayMove { ino, who, owner, write } => {
                let inode = self.inode(*ino)?;
                if *owner && !permission::owns(who, inode) {
                    return Err(EPERM);
                }
                if *write && !permission::permits(who, inode, WRITE) {
                    return Err(EACCES);
                }
                Ok(PeerDecision { changes: Vec::new(), reply: PeerReply::Done })
            }
            PeerRequest::Confirm { capabilities } => {
                let holds = capabilities.iter().map(|one| self.settings.key.admits(one) && self.is_live(one));
                Ok(PeerDecision {
                    changes: Vec::new(),
                    reply: PeerReply::Confirmed { holds: holds.collect() },
                })
            }
            PeerRequest::ObjectsMade { inos } => {
                let touched = inos.iter().filter(|&&ino| self.is_untouched(ino));
                Ok(PeerDecision {
                    changes: touched.map(|&ino| Change::Touched { ino }).collect(),
                    reply: PeerReply::Confirmed { holds: inos.iter().map(|&ino| self.has(ino)).collect() },
                })
            }
            _ => Err(EIO),
        }
    }

    fn make_for(&self, from: ServerId, request: &PeerRequest) -> Result<PeerDecision, Errno> {
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
        if let Some(&ino) = self.state.made.get(&(from, intent)) {
            return Ok(PeerDecision { changes: Vec::new(), reply: PeerReply::Made { ino } });
        }
        let ino = self.next_ino().ok_or(ENOSPC)?;
        let node = BirthNode::Directory { request: layout.clone() };
        let birth = Birth { node, permissions: *permissions, uid: *uid, gid: *gid };
        let (parent, name, at) = (*parent, Bytes::from(name.as_slice()), *moment);
        let change = Change::MadeForPeer { from, intent, settled, parent, name, ino, birth, at };
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
        let Some(inode) = self.state.inodes.get(&ino).filter(|inode| inode.names > 0) else {
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
        if !self.open.is_open(ino) && !self.in_grace {
            changes.push(Change::Disposed { ino, removal: None });
        }
        done(changes)
    }
}

impl Rename {
    fn new((from, to, mode): (&At, &At, RenameMode), grants: &Grants) -> Rename {
        Rename { from: from.clone(), to: to.clone(), mode, grants: grants.clone() }
    }

    fn paths(&self) -> (&At, &At, RenameMode) {
        (&self.from, &self.to, self.mode)
    }
}

fn ask(
    draft: &Draft<'_>,
    intent: Option<(IntentId, Intent)>,
    server: ServerId,
    request: PeerRequest,
    work: Work,
) -> Verdict {
    let Caller { client, request: id, acknowledged, who, trusted } = *draft.caller;
    Verdict::Ask(Question {
        changes: intent.into_iter().map(|(id, intent)| Change::Intended { id, intent }).collect(),
        server,
        request,
        continuation: Continuation { client, request: id, acknowledged, who: who.clone(), trusted, work },
    })
}

fn failed(changes: Vec<Change>, errno: Errno) -> Decision {
    Decision::of(changes, Answer::Now(Reply::Failed(errno), Vec::new()))
}

fn errno_of(failure: PeerFailure) -> Errno {
    match failure {
        PeerFailure::Refused(errno) => errno,
        PeerFailure::Unreachable => EIO,
    }
}
