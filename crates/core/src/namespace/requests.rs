//! Requests of clients: the way from a request to its decision, its commit and its reply.

use super::change::OutcomeKind;
use super::core::Namespace;
use super::decision::{verdict, Answer, Caller, Decision, Question, Step, Stop, Verdict};
use super::draft::Draft;
use super::errno::{EINVAL, ENOENT, EOPNOTSUPP};
use super::files::capability::seconds;
use super::files::permission::ACCESS_MASK;
use super::files::Opening;
use super::intents::Effect;
use super::names::Last;
use super::replies::Replies;
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
        let draft = self.draft(caller, now);
        let verdict = verdict(self.dispatch(draft, request, payload))?;
        match &verdict {
            Verdict::Done(Decision { changes, .. }) | Verdict::Ask(Question { changes, .. }) => {
                self.files().admit_kept(self.kept_memory(), caller.who, changes)?;
            }
            Verdict::Wait(_) | Verdict::Full => {}
        }
        Ok(verdict)
    }

    /// Applies a decision whose changes are in the journal. The caller carries the effects out, each until
    /// [`Namespace::finish_effect`] takes its result.
    pub fn commit(&mut self, decision: &Decision) -> Vec<Effect> {
        for change in &decision.changes {
            self.files_mut().count_placed(change);
            self.apply(change);
            self.files_mut().settle_held(change);
        }
        if let Some(opening) = decision.opened {
            self.files_mut().open_mut().open(opening);
        }
        if let Some(handle) = decision.closed {
            self.files_mut().open_mut().close(handle, decision.client);
        }
        if let Some((request, acknowledged, outcome)) = &decision.recent {
            self.recent.remember(decision.client, *request, *acknowledged, outcome.clone());
        }
        self.intents.issue_new(&decision.changes)
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
            self.names.may_name(draft.caller, at, draft.now)?;
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
                let proof = Some(self.files().key().pass(at.ino, who.uid, seconds(now)));
                Reply::Redirect { at: At { proof, ..at } }
            }
            reply => reply,
        }
    }

    fn dispatch_named(&self, draft: Draft<'_>, request: &Request, payload: &[u8]) -> Step<Verdict> {
        let (names, files) = (&self.names, self.files());
        let who = draft.who();
        let node = |at: &At, follow: bool| names.node(who, at, Last::following(follow));
        let decision = match request {
            Request::Attributes { at, follow } => files.read_attributes(draft, node(at, *follow)?),
            Request::Access { mask, .. } if mask & !ACCESS_MASK != 0 => Err(EINVAL.into()),
            Request::Access { at, mask, follow } => files.access(draft, node(at, *follow)?, *mask),
            Request::Change { at, follow, change } => {
                files.change_attributes(draft, node(at, *follow)?, change)
            }
            Request::Open { at, flags, permissions, layout } => {
                names.open(draft, at, *flags, *permissions, layout.as_ref())
            }
            Request::Close { ino, handle } => files.close(draft, *ino, *handle),
            Request::Make { at, kind, permissions } => return names.make(draft, at, *kind, *permissions),
            Request::Symlink { at, target } => names.symlink(draft, at, target),
            Request::ReadLink { at } => names.read_link(draft, at),
            Request::Link { from, follow, to } => names.link(draft, from, *follow, to),
            Request::Unlink { at, directory: false } => names.unlink(draft, at),
            Request::Unlink { at, directory: true } => return names.remove_directory(draft, at),
            Request::Rename { from, to, mode } => return names.rename(draft, from, to, *mode),
            Request::List { ino, handle, cookie, bytes, attributes } => {
                names.list(draft, *ino, *handle, (*cookie, *bytes, *attributes))
            }
            Request::XattrGet { at, follow, name } => files.xattr_get(draft, node(at, *follow)?, name),
            Request::XattrSet { at, follow, name, mode } => {
                files.xattr_set(draft, node(at, *follow)?, (name, *mode, payload))
            }
            Request::XattrList { at, follow } => files.xattr_list(draft, node(at, *follow)?),
            Request::XattrRemove { at, follow, name } => files.xattr_remove(draft, node(at, *follow)?, name),
            Request::Publish { capability, publication } => files.publish(draft, capability, publication),
            Request::Layout { at } => files.read_layout(draft, node(at, true)?),
            // All files have one journal.
            Request::SyncMetadata { at } => node(at, true).map(|_| draft.reply(Reply::Done)),
            Request::Detour { capability, layout_epoch, full } => {
                files.detour(draft, capability, *layout_epoch, full)
            }
            Request::MoveBegin { at, moves } => files.begin_move(draft, node(at, true)?, moves),
            Request::MoveFreeze { ino, moving } => files.freeze_move(draft, *ino, *moving),
            Request::MoveEnd { ino, moving, commit } => {
                files.moves().decide_end(draft, (*ino, *moving), *commit, &self.intents)
            }
            Request::Statistics => Ok(draft.reply(Reply::Statistics(self.statistics()))),
            _ => Err(EOPNOTSUPP.into()),
        };
        decision.map(Verdict::Done)
    }

    fn reply_of(&self, outcome: &OutcomeKind, uid: u32, now: Moment) -> Reply {
        let files = self.files();
        match outcome {
            OutcomeKind::Done => Reply::Done,
            OutcomeKind::Made(attributes) => Reply::Attributes(**attributes),
            OutcomeKind::Appended { offset, size_bytes, epoch } => {
                Reply::Appended { offset: *offset, size_bytes: *size_bytes, epoch: *epoch }
            }
            OutcomeKind::Written { size_bytes, epoch } => {
                Reply::Written { size: Some((*size_bytes, *epoch)) }
            }
            OutcomeKind::Moving { ino, id } => files.moving_reply(*ino, *id, uid, now),
            OutcomeKind::Frozen { epoch } => Reply::Frozen { epoch: *epoch },
            OutcomeKind::Layout(ino) => files.layout_reply(*ino).unwrap_or_else(Reply::Failed),
            OutcomeKind::Attributes(ino) => match files.attributes(*ino) {
                Ok(attributes) => Reply::Attributes(attributes),
                Err(_) => Reply::Failed(ENOENT),
            },
            OutcomeKind::Opened { ino, handle, rights, created } => match files.attributes(*ino) {
                Ok(attributes) => Reply::Opened {
                    attributes,
                    handle: *handle,
                    capability: files.capability((*ino, *handle), *rights, uid, now),
                    layout: files.regular(*ino).map(|file| file.layout.clone()),
                    created: *created,
                },
                Err(errno) => Reply::Failed(errno),
            },
        }
    }

    /// The decision on a request that was carried out before.
    pub(super) fn recall(&self, caller: &Caller<'_>) -> Option<Decision> {
        let find = |replies: &Replies| replies.find(caller.client, caller.request).cloned();
        let outcome = find(&self.replies).or_else(|| find(&self.recent))?;
        let mut decision = Decision::of(Vec::new(), Answer::Then(outcome.kind.clone()));
        decision.client = caller.client;
        decision.wait = outcome.wait;
        decision.wait.retain(|&id| self.intents.contains_key(id));
        if let OutcomeKind::Opened { ino, handle, rights, .. } = outcome.kind {
            if self.files().has(ino) {
                let (client, uid) = (caller.client, caller.who.uid);
                decision.opened = Some(Opening { handle, client, uid, ino, rights });
            }
        }
        Some(decision)
    }
}
