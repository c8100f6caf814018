//! Requests of clients: the way from a request to its decision, its commit and its reply.

use super::change::OutcomeKind;
use super::core::Namespace;
use super::decision::{verdict, Answer, Caller, Decision, Question, Step, Stop, Verdict};
use super::draft::Draft;
use super::errno::{ENOENT, EOPNOTSUPP};
use super::intents::outstanding::Effect;
use super::names::naming;
use weir_wire::{At, Errno, Identity, Ino, Moment, Reply, Request};

impl Namespace {
    /// Decides a request of a client; `payload` is the value of an extended attribute. Appends and `Reclaim` have their own
    /// functions.
    ///
    /// # Errors
    /// The error number for the reply; nothing changes then.
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
        let verdict = verdict(self.dispatch(draft, request, payload))?;
        match &verdict {
            Verdict::Done(Decision { changes, .. }) | Verdict::Ask(Question { changes, .. }) => {
                self.admit_kept(caller.who, changes)?;
            }
            Verdict::Wait(_) | Verdict::Full => {}
        }
        Ok(verdict)
    }

    /// Applies a decision whose changes are in the journal. The caller carries the effects out, each until
    /// [`Namespace::finish_effect`] takes its result.
    pub fn commit(&mut self, decision: &Decision) -> Vec<Effect> {
        for change in &decision.changes {
            self.count_placed(change);
            self.apply(change);
            self.settle_held(change);
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

    /// The reply of a decision to user `uid`. The caller takes the reply when all intents are settled for which it waits.
    pub fn answer(&self, answer: Answer, uid: u32, now: Moment) -> (Reply, Vec<u8>) {
        match answer {
            Answer::Now(reply, payload) => (reply, payload),
            Answer::Then(outcome) => (self.reply_of(&outcome, uid, now), Vec::new()),
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

    /// Adds the right to name its goal to a redirection, as the caller walked to that goal.
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
            _ => Err(EOPNOTSUPP.into()),
        };
        decision.map(Verdict::Done)
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
            OutcomeKind::Attributes(ino) => match self.state.attributes(*ino) {
                Ok(attributes) => Reply::Attributes(attributes),
                Err(_) => Reply::Failed(ENOENT),
            },
            OutcomeKind::Opened { ino, handle, rights, created } => match self.state.attributes(*ino) {
                Ok(attributes) => Reply::Opened {
                    attributes,
                    handle: *handle,
                    capability: self.capability((*ino, *handle), *rights, uid, now),
                    layout: self.state.regular(*ino).map(|file| file.layout.clone()),
                    created: *created,
                },
                Err(errno) => Reply::Failed(errno),
            },
        }
    }
}
