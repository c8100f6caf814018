//! What decisions have targets and other servers do: now, once it can be undone no more, and what comes of it.

use crate::events::WorkOutput;
use crate::namespace::{errno, Answer, Effect, When};
use crate::requests::data::Errand;
use crate::requests::durability::Deferred;
use crate::requests::metadata::{Asked, Continued};
use crate::requests::service::Outcome;
use crate::server::Server;
use crate::storage::{Target, TargetFailure};
use std::sync::Arc;
use std::time::Duration;
use weir_wire::{ClientId, Errno, Ino, PeerReply, PeerRequest, Reply, Request};

/// How long one try of an effect lasts; it is repeated until the other server has answered.
const EFFECT_PATIENCE: Duration = Duration::from_secs(30);

impl Server {
    /// Carries an effect out, now or when its record is durable.
    pub(crate) fn carry_out(&mut self, effect: Effect) {
        match effect.when {
            When::Durable | When::DurableInTime if self.journal.is_some() => {
                let is_awaited = effect.when == When::Durable;
                self.defer(Deferred::Effect(effect), is_awaited);
            }
            When::Undoable if self.journal.is_some() => self.carry_out_undoably(effect),
            _ => self.carry_out_now(effect),
        }
    }

    /// Does of a cut here what the next start can undo.
    fn carry_out_undoably(&mut self, effect: Effect) {
        let PeerRequest::TruncateObject { ino, target, length, epoch } = effect.request else {
            return self.carry_out_now(effect);
        };
        match self.targets.get(usize::from(target.index)).and_then(Target::directory) {
            Some(dir) => {
                let dir = Arc::clone(dir);
                let work = move || dir.cut_undoably(ino, length, epoch).map(WorkOutput::Cut);
                self.submit(Errand::Effect(Box::new(effect)), work);
            }
            None => self.carry_out_now(effect),
        }
    }

    /// Carries an effect out whose record is durable, or needs not be.
    pub(crate) fn carry_out_now(&mut self, effect: Effect) {
        if effect.server != self.id {
            let (server, request) = (effect.server, effect.request.clone());
            return self.ask_peer(
                server,
                request,
                Vec::new(),
                EFFECT_PATIENCE,
                Asked::Effect(Box::new(effect)),
            );
        }
        let Some(target) = object_of(&effect.request).and_then(|index| self.targets.get_mut(index)) else {
            return self.effect_done(effect, Err(errno::EIO));
        };
        if let Some(ram) = target.memory() {
            change_in_memory(ram, &effect.request);
            self.effect_done(effect, Ok(()));
        } else if let Some(dir) = target.directory().cloned() {
            let request = effect.request.clone();
            let is_apart = object_of(&request).is_some_and(|index| self.is_apart[index]);
            let work = move || change_in_directory(&dir, &request, is_apart);
            self.submit(Errand::Effect(Box::new(effect)), work);
        }
    }

    /// A worker carried out an effect, or what could be undone of it.
    pub(crate) fn effect_worked(&mut self, effect: Effect, outcome: Result<WorkOutput, TargetFailure>) {
        match (outcome, object_of(&effect.request)) {
            (Ok(WorkOutput::Cut(cut)), Some(target)) => self.cut_worked(effect, target, cut),
            (outcome, _) => self.effect_done(effect, outcome.map(|_| ()).map_err(TargetFailure::errno)),
        }
    }

    /// An effect was carried out, or failed for good.
    pub(crate) fn effect_done(&mut self, effect: Effect, result: Result<(), Errno>) {
        if effect.when == When::DurableInTime && effect.server == self.id {
            self.try_roomless();
        }
        let moment = self.moment();
        let Some(decision) = self.namespace.finish_effect(effect.intent, effect.part, result, moment) else {
            return;
        };
        if self.commit(&decision).is_err() {
            // An effect can be repeated, and its intent is to be settled once the journal takes records again.
            return self.effects_to_repeat.push(effect.intent);
        }
        let failure = match decision.answer {
            Answer::Now(Reply::Failed(errno), _) => Some(errno),
            _ => None,
        };
        for (_, continued) in self.continued.remove(&effect.intent).unwrap_or_default() {
            match (failure, continued) {
                (Some(errno), Continued::Reply(token, outcome, _)) => {
                    self.finish(token, Outcome { reply: Reply::Failed(errno), ..*outcome });
                }
                (_, continued) => self.go_on(continued),
            }
        }
    }

    /// Carries out again what was done and could not be recorded.
    pub(crate) fn repeat_effects(&mut self) {
        if self.is_read_only() {
            return;
        }
        for intent in std::mem::take(&mut self.effects_to_repeat) {
            for effect in self.namespace.repeat_effects(intent) {
                self.carry_out(effect);
            }
        }
    }

    /// Another server has an object here cut or removed.
    pub(crate) fn serve_object_effect(&mut self, token: usize, request: &PeerRequest) {
        if let PeerRequest::RemoveObject { ino, .. } = request {
            let now = self.now();
            self.confirmations.removed(*ino, now);
        }
        let Some(target) = object_of(request).and_then(|index| self.targets.get_mut(index)) else {
            return self.finish(token, Outcome::failed(errno::EINVAL));
        };
        if let Some(ram) = target.memory() {
            change_in_memory(ram, request);
            self.object_effect_served(token, Ok(()));
        } else if let Some(dir) = target.directory().cloned() {
            let request = request.clone();
            self.submit(Errand::PeerObject(token), move || change_in_directory(&dir, &request, true));
        }
    }

    /// Answers the other server when mounts that watch the file here have dropped their pages.
    pub(crate) fn object_effect_served(&mut self, token: usize, outcome: Result<(), TargetFailure>) {
        self.try_roomless();
        let Some(pending) = self.pending.get(token) else { return };
        let changed = match &pending.request {
            Request::Peer(PeerRequest::TruncateObject { ino, .. }) => Some(*ino),
            _ => None,
        };
        let drops = changed.map_or_else(Vec::new, |ino: Ino| self.watches.changed(ClientId(0), ino));
        let reply = match outcome {
            Ok(()) => Reply::Peer(PeerReply::Done),
            Err(failure) => Reply::Failed(failure.errno()),
        };
        self.finish(token, Outcome { drops, ..Outcome::of(reply) });
    }
}

fn object_of(request: &PeerRequest) -> Option<usize> {
    match request {
        PeerRequest::TruncateObject { target, .. }
        | PeerRequest::FenceObject { target, .. }
        | PeerRequest::RemoveObject { target, .. } => Some(usize::from(target.index)),
        _ => None,
    }
}

fn change_in_memory(ram: &mut crate::storage::Ram, request: &PeerRequest) {
    match request {
        PeerRequest::TruncateObject { ino, length, epoch, .. }
        | PeerRequest::FenceObject { ino, length, epoch, .. } => ram.truncate(*ino, *length, *epoch),
        PeerRequest::RemoveObject { ino, .. } => ram.remove(*ino),
        _ => {}
    }
}

/// Changes an object whose home knows durably of it. With `lasting` it is on stable storage before that is answered: the
/// order of its names with the home's journal is not kept by one file system.
fn change_in_directory(
    dir: &crate::storage::Dir,
    request: &PeerRequest,
    lasting: bool,
) -> Result<WorkOutput, TargetFailure> {
    match request {
        PeerRequest::TruncateObject { ino, length, epoch, .. } if lasting => {
            dir.fence(*ino, *length, *epoch)?
        }
        PeerRequest::TruncateObject { ino, length, epoch, .. } => dir.truncate(*ino, *length, *epoch)?,
        PeerRequest::FenceObject { ino, length, epoch, .. } => dir.fence(*ino, *length, *epoch)?,
        PeerRequest::RemoveObject { ino, .. } => dir.remove(*ino)?,
        _ => {}
    }
    Ok(WorkOutput::Done)
}
