//! The answers of other servers: each settles its intent, and the request goes on.

use super::continuation::{Rename, Work};
use super::Names;
use crate::namespace::change::{Change, OutcomeKind};
use crate::namespace::decision::{verdict, Answer, Decision, Stop, Verdict};
use crate::namespace::draft::Draft;
use crate::namespace::errno::{EBUSY, EEXIST, EIO, ENOENT, ENOTDIR};
use crate::namespace::files::{Birth, Inode};
use crate::namespace::intents::{Bytes, Intent, IntentId, Intents};
use weir_placement::ServerId;
use weir_wire::{Errno, FileKind, Ino, Moment, PeerReply, Reply};

/// The failure of a question to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerFailure {
    /// The other server refused.
    Refused(Errno),
    /// The other server was not reached within the bound. Nobody knows whether it carried the request out.
    Unreachable,
}

impl Names {
    /// Goes on with the work of a request, for [`Namespace::resume`](crate::namespace::Namespace::resume).
    pub(crate) fn resume(
        &self,
        draft: Draft<'_>,
        work: Work,
        answer: Result<PeerReply, PeerFailure>,
        intents: &Intents,
    ) -> Verdict {
        let now = draft.now;
        match work {
            Work::Make { id, server, parent, name, birth, at } => {
                Verdict::Done(self.made(draft, (id, server), (parent, name), (&birth, at), answer))
            }
            Work::Remove { id, parent, name, ino } => {
                let mut draft = draft;
                if let Some(refusal) = refusal(intents, id, answer) {
                    return Verdict::Done(refusal);
                }
                draft.push(Change::Settled { id });
                if self.files.still_holds(parent, &name, ino) {
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
                verdict(step).unwrap_or_else(|errno| Verdict::Done(failed(Vec::new(), errno)))
            }
            Work::Replace { id, parent, name, ino, rename } => {
                if let Some(refusal) = refusal(intents, id, answer) {
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
                let (forget, uid) = (draft.next_intent(), draft.who().uid);
                let intent = Intent::ForgetDirectory { server, made: id };
                failed(vec![Change::Settled { id }, Change::Intended { id: forget, uid, intent }], errno)
            }
        }
    }

    fn is_free(&self, parent: Ino, name: &[u8]) -> Result<(), Errno> {
        let inode = self.files.get(parent).filter(|inode| inode.names > 0).ok_or(ENOENT)?;
        match inode.directory().ok_or(ENOTDIR)?.find(name) {
            Some(_) => Err(EEXIST),
            None => Ok(()),
        }
    }

    /// The directory at the target of a rename is gone: the rename follows, or at least the entry goes.
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
            Ok(_) | Err(Stop::Wait(_) | Stop::Detour(_) | Stop::Full) => EBUSY,
            Err(Stop::Failed(errno)) => errno,
        };
        let mut changes = vec![Change::Settled { id }];
        if self.files.still_holds(parent, &name, ino) {
            changes.push(Change::Unlinked { parent, name, at: now });
        }
        failed(changes, errno)
    }
}

/// The decision if the other server did not remove the directory. If nobody knows, an effect tries the removal again, and the
/// entry goes when the removal is certain.
fn refusal(intents: &Intents, id: IntentId, answer: Result<PeerReply, PeerFailure>) -> Option<Decision> {
    match (answer, intents.get(id)) {
        (Ok(_), _) => None,
        (Err(PeerFailure::Unreachable), Some(intent)) => {
            let uid = intents.user_of(id)?;
            Some(failed(vec![Change::Intended { id, uid, intent: intent.clone() }], EIO))
        }
        (Err(failure), _) => Some(failed(vec![Change::Settled { id }], errno_of(failure))),
    }
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
