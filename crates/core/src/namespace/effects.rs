//! Work with targets and other servers, as it meets the names and files that it is about.

use super::change::{Change, Outcome, OutcomeKind};
use super::core::Namespace;
use super::decision::{Answer, Caller, Decision, Verdict};
use super::files::FileEntry;
use super::intents::{Effect, Intent, IntentId};
use super::names::{Continuation, Order, PeerDecision, PeerFailure, Refusal};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::storage::Known;
use weir_placement::ServerId;
use weir_wire::{ClientId, Errno, Ino, Moment, PeerReply, PeerRequest, Reply, RequestId};

impl Namespace {
    /// All unfinished effects of the journal, which the server carries out after a restart.
    pub fn pending_effects(&mut self) -> Vec<Effect> {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::IntentsForgotten) {
            return Vec::new();
        }
        self.intents.issue_all()
    }

    /// The effects of an intent once more. They were carried out, but the journal did not take the record of it.
    pub fn repeat_effects(&mut self, intent: IntentId) -> Vec<Effect> {
        self.intents.issue(intent)
    }

    /// The journal's knowledge about the objects of `ino`, after a replay and before [`Namespace::start`]. `lost_power` says
    /// whether the records of the newest files, and the newest removals of objects, may be gone.
    pub(crate) fn known(&self, ino: Ino, lost_power: bool) -> Known {
        self.files().known(&self.intents, ino, lost_power)
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
        let outcome = self.intents.finish(intent, part, result)?;
        self.settled(intent, outcome, now)
    }

    fn settled(&self, id: IntentId, outcome: Result<(), Errno>, now: Moment) -> Option<Decision> {
        let mut changes = vec![Change::Settled { id }];
        match self.intents.get(id)? {
            Intent::Cut { ino, .. } | Intent::Seal { ino, .. } | Intent::Fence { ino, .. } => {
                changes.extend(self.files().dispose_after(&self.intents, id, *ino));
            }
            Intent::RemoveDirectory { ino, parent, name, request, .. } => {
                if outcome.is_ok() && self.files().still_holds(*parent, name, *ino) {
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
        let reply = outcome.map_or_else(Reply::Failed, |()| Reply::Done);
        Some(Decision::of(changes, Answer::Now(reply, Vec::new())))
    }

    /// Decides a request of another server about directories.
    ///
    /// # Errors
    /// The error number for the reply; EPERM if `from` has no right to ask.
    pub fn decide_peer(
        &self,
        from: ServerId,
        request: &PeerRequest,
        now: Moment,
    ) -> Result<PeerDecision, Errno> {
        self.names.decide_peer(self.kept_memory(), from, request, now)
    }

    /// Goes on with a request when the other server has answered, or cannot answer. The verdict is never an error, as changes may
    /// belong to a failure, too.
    pub fn resume(
        &self,
        continuation: Continuation,
        answer: Result<PeerReply, PeerFailure>,
        now: Moment,
    ) -> Verdict {
        let Continuation { client, request, acknowledged, who, job, trusted, work } = continuation;
        let caller = Caller { client, request, acknowledged, who: &who, job, trusted };
        self.names.resume(self.draft(&caller, now), work, answer, &self.intents)
    }

    /// The decision that carries an order of a repair out, and the inode that it is about.
    ///
    /// # Errors
    /// The fault is not there, or cannot be mended so; nothing changes then.
    pub(crate) fn mend(&self, order: &Order, at: Moment) -> Result<(Decision, Ino), Refusal> {
        self.names.mend(order, at, self.intents.next())
    }

    /// The numbers of files, and of files whose objects are being removed, for which `is_wanted`.
    pub fn inventoried(&self, is_wanted: impl Fn(Ino) -> bool) -> Vec<Ino> {
        self.files().inventoried(&self.intents, is_wanted)
    }

    /// The entries of files that are there, and of those whose objects are being removed.
    pub fn file_entries(&self, inos: &[Ino]) -> Vec<FileEntry> {
        self.files().entries(&self.intents, inos)
    }
}

/// The reply record of a request that a restart cut off and that is done now.
fn remembered((client, request): (ClientId, RequestId)) -> Change {
    let outcome = Outcome { kind: OutcomeKind::Done, wait: Vec::new() };
    Change::Remembered { client, request, acknowledged: RequestId(0), outcome }
}
