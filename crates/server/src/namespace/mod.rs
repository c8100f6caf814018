//! The namespace: directories, inodes, open descriptions and append turns of one server, as a state machine
//! without I/O. [`Namespace::decide`] turns a request into a [`Verdict`] and changes nothing; the event loop
//! writes the decision's changes to the journal, then [`Namespace::commit`] applies them and says which effects
//! are to be carried out, then the reply goes out. Replay applies the same changes.

mod append;
mod apply;
mod attributes;
pub mod change;
mod create;
mod detour;
mod draft;
mod effects;
pub mod errno;
mod freeing;
mod inode;
mod layout;
mod listing;
mod naming;
mod open;
mod peers;
mod permission;
mod publish;
mod relayout;
mod remove;
mod rename;
mod replies;
mod sessions;
mod state;
mod turns;
mod walk;
mod xattr;

#[cfg(test)]
mod tests;

pub use append::{AppendGrant, InlineAppend, TakenTurn, TurnReply};
use change::BirthNode;
pub use change::{Change, IntentId, Outcome, OutcomeKind};
pub use effects::{Effect, When};
pub use peers::{Continuation, PeerDecision, PeerFailure};
pub use sessions::Departure;
pub use turns::Appender;

use draft::Draft;
use effects::Effects;
use naming::Passes;
use open::{OpenFiles, Opening};
use replies::Replies;
use state::State;
use turns::AppendTurns;
use weir_placement::online::Placer;
use weir_placement::{LayoutDefaults, Ring, ServerId, TargetId};
use weir_wire::{
    At, ClientId, Errno, HandleId, Identity, Ino, Moment, PeerRequest, Reply, Request, RequestId, SiteKey,
    StoreStatistics,
};

/// What does not change while a server runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This server.
    pub server: ServerId,
    /// Every server of the cluster.
    pub servers: Vec<ServerId>,
    /// Every target of the cluster.
    pub targets: Vec<TargetId>,
    /// Of layouts that do not say otherwise.
    pub layout: LayoutDefaults,
    /// Most inodes, so that they fit into memory.
    pub inodes_max: u64,
    /// Key of the site, for capabilities.
    pub key: SiteKey,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The client.
    pub client: ClientId,
    /// Its request.
    pub request: RequestId,
    /// Its requests below this one are never sent again.
    pub acknowledged: RequestId,
    /// On whose behalf.
    pub who: &'a Identity,
    /// It is a mount of the administrator, which names inodes that the kernel led its callers to.
    pub trusted: bool,
}

/// What is to be done about a request.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Write the changes to the journal, commit, carry out the effects, wait, answer.
    Done(Decision),
    /// Another server is to be asked first.
    Ask(Question),
    /// An earlier operation is in the way: decide again when this intent is settled.
    Wait(IntentId),
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub struct Decision {
    /// For the journal; empty when nothing changes.
    pub changes: Vec<Change>,
    /// The reply waits until each of these is settled.
    pub wait: Vec<IntentId>,
    /// What is answered then, by [`Namespace::answer`].
    pub answer: Answer,
    client: ClientId,
    opened: Option<Opening>,
    closed: Option<HandleId>,
    /// A reply to remember without the journal.
    recent: Option<(RequestId, RequestId, Outcome)>,
}

/// What a decision answers.
// Lives on the stack of one decision; a box would cost each reply an allocation.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum Answer {
    /// This reply and payload.
    Now(Reply, Vec<u8>),
    /// The reply as the state gives it when it is sent.
    Then(OutcomeKind),
}

/// A request to another server on which a decision depends.
#[derive(Clone, Debug)]
pub struct Question {
    /// For the journal, before the question is sent; then [`Namespace::apply`] each.
    pub changes: Vec<Change>,
    /// Whom to ask.
    pub server: ServerId,
    /// What.
    pub request: PeerRequest,
    /// For [`Namespace::resume`], with the answer.
    pub continuation: Continuation,
}

/// Why an operation does not go its usual way.
#[derive(Clone, Debug)]
enum Stop {
    Failed(Errno),
    /// The answer is given by another server, or by the client.
    Detour(Box<Reply>),
    Wait(IntentId),
}

type Step<T> = Result<T, Stop>;

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Failed(errno)
    }
}

impl Verdict {
    /// Nothing but a reply.
    pub fn now(reply: Reply) -> Verdict {
        Verdict::Done(Decision::of(Vec::new(), Answer::Now(reply, Vec::new())))
    }
}

impl Decision {
    /// The intents that this decision settles once it is committed: what waits for them goes on.
    pub fn settled(&self) -> impl Iterator<Item = IntentId> + '_ {
        self.changes.iter().filter_map(|change| match change {
            Change::Settled { id } => Some(*id),
            _ => None,
        })
    }

    /// Changes and a reply, without open descriptions.
    fn of(changes: Vec<Change>, answer: Answer) -> Decision {
        let client = ClientId::default();
        Decision { changes, wait: Vec::new(), answer, client, opened: None, closed: None, recent: None }
    }
}

/// The namespace of one server.
#[derive(Clone, Debug)]
pub struct Namespace {
    settings: Settings,
    ring: Ring,
    /// Chooses the targets of new files; not journaled, as its choices are.
    targets: Placer,
    state: State,
    open: OpenFiles,
    turns: AppendTurns,
    effects: Effects,
    /// Replies that need not outlive the server.
    recent: Replies,
    passes: Passes,
    /// Whether descriptions of earlier starts can still be reclaimed.
    in_grace: bool,
}

impl Namespace {
    /// An empty namespace. Replay the journal into it with [`Namespace::apply`], then journal and apply
    /// [`Namespace::start`], then carry out [`Namespace::pending_effects`]; when the grace period is over (at once
    /// where there was no journal), commit [`Namespace::expire_orphans`] until it answers none.
    pub fn new(settings: Settings) -> Namespace {
        Namespace {
            ring: Ring::new(settings.servers.iter().copied()),
            targets: Placer::new(settings.server, &settings.targets, settings.layout),
            state: State::new(settings.server),
            open: OpenFiles::default(),
            turns: AppendTurns::default(),
            effects: Effects::default(),
            recent: Replies::default(),
            passes: Passes::default(),
            in_grace: false,
            settings,
        }
    }

    /// The change that begins a start of the server, to be journaled and applied before the first request.
    pub fn start(&self, now: Moment) -> Change {
        Change::Started { number: self.state.next_start(now), at: now }
    }

    /// Applies a change: of the journal, or of a question that is about to be sent.
    pub fn apply(&mut self, change: &Change) {
        // A start that is not the first may have left descriptions that clients will reclaim.
        let restarted = matches!(change, Change::Started { .. }) && self.state.starts > 0;
        self.in_grace |= restarted;
        self.state.apply(change);
        if let Change::Started { number, .. } = change {
            self.open.begin(*number);
        }
    }

    /// To be called when the journal is replayed: completes what its records tell only together.
    pub fn index(&mut self) {
        self.state.index_holders();
    }

    /// Changes that bring an empty namespace to the journaled state of this one, in an order that depends on
    /// that state alone: the content of a compacted journal.
    pub fn snapshot(&self) -> impl Iterator<Item = Change> + '_ {
        self.state.snapshot()
    }

    /// Decides a request of a client; `payload` is the value of an extended attribute. Appends and `Reclaim` have
    /// their own functions.
    ///
    /// # Errors
    /// The error number to answer; nothing changes then.
    pub fn decide(
        &self,
        caller: &Caller<'_>,
        request: &Request,
        payload: &[u8],
        now: Moment,
    ) -> Result<Verdict, Errno> {
        if let Some(recalled) = self.recall(caller) {
            return Ok(Verdict::Done(recalled));
        }
        let draft = Draft::new(self, caller, now);
        verdict(self.dispatch(draft, request, payload))
    }

    /// Applies a decision whose changes are in the journal. The effects are to be carried out, each until
    /// [`Namespace::finish_effect`] takes its result.
    pub fn commit(&mut self, decision: &Decision) -> Vec<Effect> {
        for change in &decision.changes {
            self.count_placed(change);
            self.apply(change);
        }
        if let Some(opening) = decision.opened {
            self.open.open(opening);
        }
        if let Some(handle) = decision.closed {
            self.open.close(handle, decision.client);
        }
        if let Some((request, acknowledged, outcome)) = &decision.recent {
            self.recent.remember(decision.client, *request, *acknowledged, outcome.clone());
        }
        self.new_effects(&decision.changes)
    }

    /// The reply of a decision to user `uid`, to be taken when everything that it waits for is settled.
    pub fn answer(&self, answer: Answer, uid: u32, now: Moment) -> (Reply, Vec<u8>) {
        match answer {
            Answer::Now(reply, payload) => (reply, payload),
            Answer::Then(outcome) => (self.reply_of(&outcome, uid, now), Vec::new()),
        }
    }

    /// Inodes that exist and that can still be made; the rest of the reply is for the caller to fill in.
    pub fn statistics(&self) -> StoreStatistics {
        let inodes = self.state.inodes.len() as u64;
        let inodes_free = self.settings.inodes_max.saturating_sub(inodes);
        StoreStatistics { inodes, inodes_free, ..StoreStatistics::default() }
    }

    /// The record that forgets the replies of a client that will not send again.
    pub fn forget_client(&self, client: ClientId) -> Change {
        Change::ClientForgotten { client }
    }

    /// Clients whose replies are remembered in the journal, the longest silent first.
    pub fn remembered_clients(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.state.replies.clients()
    }

    /// Who chooses the targets of new files.
    pub(crate) fn placer(&self) -> &Placer {
        &self.targets
    }

    /// As [`Namespace::placer`], to tell it of the store.
    pub(crate) fn placer_mut(&mut self) -> &mut Placer {
        &mut self.targets
    }

    /// Files that are made, written and removed change what their targets have to do.
    fn count_placed(&mut self, change: &Change) {
        match change {
            Change::Created { ino, birth, at, .. } | Change::CreatedUnnamed { ino, birth, at, .. } => {
                if let BirthNode::Regular { layout, .. } = &birth.node {
                    self.targets.placed(layout, at.seconds);
                    self.targets.awaits(ino.0, layout, unix_seconds(*at));
                }
            }
            Change::Published { ino, at, .. } => self.targets.written(ino.0, unix_seconds(*at)),
            Change::LaidOut { ino, layout, at, .. } | Change::Detoured { ino, layout, at, .. } => {
                self.count_removed(*ino);
                self.targets.placed(layout, at.seconds);
            }
            Change::Disposed { ino, .. } => self.count_removed(*ino),
            _ => {}
        }
    }

    fn count_removed(&mut self, ino: Ino) {
        let inode = self.state.inodes.get(&ino);
        if let Some((inode, file)) = inode.and_then(|inode| Some((inode, inode.regular()?))) {
            self.targets.removed(&file.layout, inode.created.seconds);
        }
    }

    fn dispatch(&self, draft: Draft<'_>, request: &Request, payload: &[u8]) -> Step<Verdict> {
        for at in request.places() {
            self.may_name(draft.caller, at, draft.now)?;
        }
        let (who, now) = (draft.who(), draft.now);
        self.dispatch_named(draft, request, payload).map_err(|stop| match stop {
            Stop::Detour(reply) => Stop::Detour(Box::new(self.with_pass(who, *reply, now))),
            other => other,
        })
    }

    /// Adds to a redirection the right to name where it leads: the caller walked there.
    fn with_pass(&self, who: &Identity, reply: Reply, now: Moment) -> Reply {
        match reply {
            Reply::Redirect { at } if at.anchor.is_none() && at.ino != Ino::ROOT => {
                let proof = Some(self.settings.key.pass(at.ino, who.uid, naming::seconds(now)));
                Reply::Redirect { at: At { proof, ..at } }
            }
            reply => reply,
        }
    }

    fn dispatch_named(&self, draft: Draft<'_>, request: &Request, payload: &[u8]) -> Step<Verdict> {
        let decision = match request {
            Request::Attributes { at, follow } => self.attributes(draft, at, *follow),
            Request::Access { at, mask, follow } => self.access(draft, at, *mask, *follow),
            Request::Change { at, follow, change } => self.change(draft, at, *follow, change),
            Request::Open { at, flags, permissions, layout } => {
                self.open(draft, at, *flags, *permissions, layout.as_ref())
            }
            Request::Close { ino, handle } => self.close(draft, *ino, *handle),
            Request::Make { at, kind, permissions } => return self.make(draft, at, *kind, *permissions),
            Request::Symlink { at, target } => self.symlink(draft, at, target),
            Request::ReadLink { at } => self.read_link(draft, at),
            Request::Link { from, follow, to } => self.link(draft, from, *follow, to),
            Request::Unlink { at, directory: false } => self.unlink(draft, at),
            Request::Unlink { at, directory: true } => return self.remove_directory(draft, at),
            Request::Rename { from, to, mode } => return self.rename(draft, from, to, *mode),
            Request::List { ino, handle, cookie, bytes, attributes } => {
                self.list(draft, *ino, *handle, (*cookie, *bytes, *attributes))
            }
            Request::XattrGet { at, follow, name } => self.xattr_get(draft, at, *follow, name),
            Request::XattrSet { at, follow, name, mode } => {
                self.xattr_set(draft, at, *follow, (name, *mode, payload))
            }
            Request::XattrList { at, follow } => self.xattr_list(draft, at, *follow),
            Request::XattrRemove { at, follow, name } => self.xattr_remove(draft, at, *follow, name),
            Request::Publish { capability, publication } => self.publish(draft, capability, publication),
            Request::Layout { at } => self.file_layout(draft, at),
            Request::SyncMetadata { at } => self.may_sync(draft, at),
            Request::Detour { capability, layout_epoch, full } => {
                self.detour(draft, capability, *layout_epoch, full)
            }
            Request::MoveBegin { at, moves } => self.begin_move(draft, at, moves),
            Request::MoveFreeze { ino, moving } => self.freeze_move(draft, *ino, *moving),
            Request::MoveEnd { ino, moving, commit } => self.end_move(draft, *ino, *moving, *commit),
            Request::Statistics => Ok(draft.reply(Reply::Statistics(self.statistics()))),
            _ => Err(errno::EOPNOTSUPP.into()),
        };
        decision.map(Verdict::Done)
    }

    /// Whether a request was carried out before: a resend of it gets the same answer.
    pub(crate) fn remembers(&self, client: ClientId, request: RequestId) -> bool {
        self.state.replies.find(client, request).or_else(|| self.recent.find(client, request)).is_some()
    }

    /// The decision on a request that was carried out before.
    fn recall(&self, caller: &Caller<'_>) -> Option<Decision> {
        let find = |replies: &Replies| replies.find(caller.client, caller.request).cloned();
        let outcome = find(&self.state.replies).or_else(|| find(&self.recent))?;
        let mut decision = Decision::of(Vec::new(), Answer::Then(outcome.kind.clone()));
        decision.client = caller.client;
        decision.wait = outcome.wait;
        decision.wait.retain(|id| self.state.intents.contains_key(id));
        if let OutcomeKind::Opened { ino, handle, rights, .. } = outcome.kind {
            if self.state.inodes.contains_key(&ino) {
                let (client, uid) = (caller.client, caller.who.uid);
                decision.opened = Some(Opening { handle, client, uid, ino, rights });
            }
        }
        Some(decision)
    }

    fn reply_of(&self, outcome: &OutcomeKind, uid: u32, now: Moment) -> Reply {
        match outcome {
            OutcomeKind::Done => Reply::Done,
            OutcomeKind::Made(attributes) => Reply::Attributes(**attributes),
            OutcomeKind::Appended { offset, size_bytes, epoch } => {
                Reply::Appended { offset: *offset, size_bytes: *size_bytes, epoch: *epoch }
            }
            OutcomeKind::Written { size_bytes, epoch } => {
                Reply::Written { size: Some((*size_bytes, *epoch)) }
            }
            OutcomeKind::Moving { ino, id } => self.moving_reply(*ino, *id, uid, now),
            OutcomeKind::Frozen { epoch } => Reply::Frozen { epoch: *epoch },
            OutcomeKind::Layout(ino) => self.layout_reply(*ino).unwrap_or_else(Reply::Failed),
            OutcomeKind::Attributes(ino) => match self.inode(*ino) {
                Ok(inode) => Reply::Attributes(inode.attributes(*ino)),
                Err(_) => Reply::Failed(errno::ENOENT),
            },
            OutcomeKind::Opened { ino, handle, rights, created } => match self.inode(*ino) {
                Ok(inode) => Reply::Opened {
                    attributes: inode.attributes(*ino),
                    handle: *handle,
                    capability: self.capability((*ino, *handle), *rights, uid, now),
                    layout: inode.regular().map(|file| file.layout.clone()),
                    created: *created,
                },
                Err(errno) => Reply::Failed(errno),
            },
        }
    }

    /// Waits where the size and epoch of a file are about to change: a client must not learn the new epoch before
    /// every object has it, or a write under it could be cut off.
    fn await_cut(&self, ino: Ino) -> Step<()> {
        self.state.cuts.get(&ino).map_or(Ok(()), |&id| Err(Stop::Wait(id)))
    }
}

fn verdict(step: Step<Verdict>) -> Result<Verdict, Errno> {
    match step {
        Ok(verdict) => Ok(verdict),
        Err(Stop::Failed(errno)) => Err(errno),
        Err(Stop::Wait(id)) => Ok(Verdict::Wait(id)),
        Err(Stop::Detour(reply)) => Ok(Verdict::now(*reply)),
    }
}

/// A moment as seconds of Unix time.
fn unix_seconds(at: Moment) -> f64 {
    at.seconds as f64 + f64::from(at.nanoseconds) / 1e9
}
