//! The values of a decision: the caller, the verdict, the answer, and the ways in which an operation stops.

use super::change::{Change, Outcome, OutcomeKind};
use super::files::permission;
use super::files::Opening;
use super::intents::IntentId;
use super::names::Continuation;
use weir_placement::ServerId;
use weir_wire::{Capability, ClientId, Errno, HandleId, Identity, JobId, PeerRequest, Reply, RequestId};

/// The caller of a request.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The client.
    pub client: ClientId,
    /// The client's request.
    pub request: RequestId,
    /// The client never sends requests below this one again.
    pub acknowledged: RequestId,
    /// The user for whom the client asks.
    pub who: &'a Identity,
    /// The job that asks.
    pub job: JobId,
    /// Whether the client is a mount of the administrator, which names inodes to which the kernel led its callers.
    pub trusted: bool,
}

/// The next step of a request.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Write the changes to the journal, commit, carry out the effects, wait, answer.
    Done(Decision),
    /// Ask another server first.
    Ask(Question),
    /// Decide again when this intent is settled: an earlier operation is in the way.
    Wait(IntentId),
    /// Decide again when a target has room, as far as is known, and answer ENOSPC if none comes: a new file finds none.
    Full,
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Changes for the journal; empty if nothing changes.
    pub changes: Vec<Change>,
    /// Intents that must be settled before the reply.
    pub wait: Vec<IntentId>,
    /// The answer, for [`Namespace::answer`](super::Namespace::answer).
    pub answer: Answer,
    pub(super) client: ClientId,
    pub(super) opened: Option<Opening>,
    pub(super) closed: Option<HandleId>,
    /// A reply to remember without the journal.
    pub(super) recent: Option<(RequestId, RequestId, Outcome)>,
}

/// The answer of a decision.
// The answer lives on the stack of one decision; a box would cost each reply an allocation.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum Answer {
    /// This reply and payload.
    Now(Reply, Vec<u8>),
    /// The reply that the state gives when the reply is sent.
    Then(OutcomeKind),
}

/// A request to another server on which a decision depends.
#[derive(Clone, Debug)]
pub struct Question {
    /// Changes to journal and [apply](super::Namespace::apply) before the question is sent.
    pub changes: Vec<Change>,
    /// The server to ask.
    pub server: ServerId,
    /// The request to that server.
    pub request: PeerRequest,
    /// The rest of the operation, for [`Namespace::resume`](super::Namespace::resume) with the answer.
    pub continuation: Continuation,
}

/// The reason for which an operation leaves its usual way.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    Failed(Errno),
    /// Another server gives the answer, or the client does.
    Detour(Box<Reply>),
    Wait(IntentId),
    Full,
}

pub(crate) type Step<T> = Result<T, Stop>;

impl Caller<'_> {
    /// Whether a capability was made for this caller. A mount carries the capabilities of all its users.
    pub fn may_use(&self, capability: &Capability) -> bool {
        capability.uid == self.who.uid || self.trusted || permission::is_root(self.who)
    }
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Failed(errno)
    }
}

impl Verdict {
    /// A verdict that is a reply alone.
    pub fn now(reply: Reply) -> Verdict {
        Verdict::Done(Decision::of(Vec::new(), Answer::Now(reply, Vec::new())))
    }
}

impl Decision {
    /// The intents that this decision settles once it is committed: requests that wait for them go on.
    pub fn settled(&self) -> impl Iterator<Item = IntentId> + '_ {
        self.changes.iter().filter_map(|change| match change {
            Change::Settled { id } => Some(*id),
            _ => None,
        })
    }

    /// A decision of changes and a reply, without open descriptions.
    pub(super) fn of(changes: Vec<Change>, answer: Answer) -> Decision {
        let client = ClientId::default();
        Decision { changes, wait: Vec::new(), answer, client, opened: None, closed: None, recent: None }
    }
}

pub(super) fn verdict(step: Step<Verdict>) -> Result<Verdict, Errno> {
    match step {
        Ok(verdict) => Ok(verdict),
        Err(Stop::Failed(errno)) => Err(errno),
        Err(Stop::Wait(id)) => Ok(Verdict::Wait(id)),
        Err(Stop::Detour(reply)) => Ok(Verdict::now(*reply)),
        Err(Stop::Full) => Ok(Verdict::Full),
    }
}
