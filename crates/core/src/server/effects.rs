//! Effects: the work of targets and other servers for a decision, now or once it can be undone no more, and its end.

use super::Server;
use crate::durability::{Deferred, Waiting};
use crate::errands::Errand;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::{errno, Answer, Decision, Effect, When};
use crate::notices::warning;
use crate::peers::Asked;
use crate::requests::continuation::{Continued, Woken};
use crate::requests::objects::{change_in_directory, change_in_memory, changed_object};
use crate::requests::request::{Outcome, Step, Token};
use crate::storage::{Aside, Target, TargetFailure, TargetOutput, TargetWork};
use std::time::Duration;
use weir_wire::{ClientId, Errno, Ino, PeerReply, PeerRequest, Reply, Request};

/// How long one try of an effect lasts; it is repeated until the other server has answered.
const EFFECT_PATIENCE: Duration = Duration::from_secs(30);
/// Removals of objects that are tried again at a time: a target that is gone refuses all of them, and has work for a moment only.
const REMOVALS_REPEATED: usize = 64;

impl Server {
    /// Journals and applies a decision and starts its effects. Requests that wait for intents which it settles go on.
    ///
    /// # Errors
    /// As [`Server::record`].
    pub(super) fn commit(&mut self, decision: &Decision) -> Result<(), Errno> {
        for effect in self.journal(decision)? {
            self.carry_out(effect);
        }
        Ok(())
    }

    /// As [`Server::commit`], and requests that wait for the intents that it settles go on.
    pub(super) fn commit_and_wake(&mut self, decision: &Decision) -> Result<(), Errno> {
        self.commit(decision)?;
        self.requests.go_on_after(decision.settled());
        Ok(())
    }

    /// Carries an effect out, now or when its record is durable.
    pub(super) fn carry_out(&mut self, effect: Effect) {
        match effect.when {
            When::Durable | When::DurableInTime if self.durability.is_durable() => {
                let is_awaited = effect.when == When::Durable;
                self.defer(Deferred::Effect(effect), is_awaited);
            }
            When::Undoable if self.durability.is_durable() => self.carry_out_undoably(effect),
            _ => self.carry_out_now(effect),
        }
    }

    /// Does the part of a cut here that the next start can undo.
    fn carry_out_undoably(&mut self, effect: Effect) {
        let PeerRequest::TruncateObject { ino, target, length, epoch } = effect.request else {
            return self.carry_out_now(effect);
        };
        let object = ino.object_on(target);
        if self.targets.get(target.number()).and_then(Target::directory).is_none() {
            return self.carry_out_now(effect);
        }
        let (place, work) = ((target.number(), object), TargetWork::CutUndoably { length, epoch });
        self.errands.submit_alone(Errand::Effect(Box::new(effect)), place, work, &mut self.targets);
    }

    /// Carries an effect out; its record is durable, or needs not be.
    pub(super) fn carry_out_now(&mut self, effect: Effect) {
        if effect.server != self.site.id {
            let (server, request) = (effect.server, effect.request.clone());
            let asked = Asked::Effect(Box::new(effect));
            return self.ask_peer(server, request, EFFECT_PATIENCE, asked);
        }
        let changed = changed_object(&effect.request);
        let Some((place, target)) = changed.and_then(|place| Some((place, self.targets.get_mut(place.0)?)))
        else {
            return self.effect_done(effect, Err(errno::EIO));
        };
        if let Some(ram) = target.memory() {
            change_in_memory(ram, &effect.request);
            self.effect_done(effect, Ok(()));
        } else if let Some(work) = change_in_directory(&effect.request, self.durability.is_apart(place.0)) {
            self.errands.submit_alone(Errand::Effect(Box::new(effect)), place, work, &mut self.targets);
        } else {
            self.effect_done(effect, Ok(()));
        }
    }

    /// A worker carried out an effect, or the part of it that can be undone.
    pub(super) fn effect_worked(&mut self, effect: Effect, outcome: Result<TargetOutput, TargetFailure>) {
        let (cut, target) = match (outcome, changed_object(&effect.request)) {
            (Ok(TargetOutput::Cut(cut)), Some((target, _))) => (cut, target),
            (outcome, _) => {
                let result = outcome.map(|_| ()).map_err(TargetFailure::errno);
                return self.effect_done(effect, result);
            }
        };
        match Deferred::after_cut(target, cut, &effect) {
            Some(whole @ Deferred::Effect(_)) => self.defer(whole, true),
            Some(rest) => {
                self.defer(rest, false);
                self.effect_done(effect, Ok(()));
            }
            None => self.effect_done(effect, Ok(())),
        }
    }

    /// An effect was carried out, or failed for good.
    pub(super) fn effect_done(&mut self, effect: Effect, result: Result<(), Errno>) {
        if effect.when == When::DurableInTime && effect.server == self.site.id {
            self.retry_roomless();
        }
        if result.is_err_and(|errno| is_to_be_repeated(&effect, errno)) {
            return self.durability.remove_later(effect);
        }
        let moment = self.clock.moment();
        let Some(decision) = self.namespace.finish_effect(effect.intent, effect.part, result, moment) else {
            return;
        };
        if self.commit(&decision).is_err() {
            // An effect can be repeated, and its intent is to be settled once the journal takes records again.
            return self.durability.repeat_later(effect.intent);
        }
        let Answer::Now(Reply::Failed(errno), _) = decision.answer else {
            return self.requests.go_on_after(std::iter::once(effect.intent));
        };
        let mut failed = Vec::new();
        for continued in self.requests.take_continued(effect.intent).collect::<Vec<_>>() {
            self.requests.wake(match continued {
                Continued::Reply(token, outcome, decision) => {
                    failed.push(decision);
                    Woken::Step(Step::Done(token, Outcome { reply: Reply::Failed(errno), ..*outcome }))
                }
                continued => Woken::Continued(continued),
            });
        }
        for decision in failed {
            let gone = self.namespace.close_failed(&decision);
            if gone.is_some_and(|gone| self.commit_and_wake(&gone).is_err()) {
                self.durability.note_leftovers();
            }
        }
    }

    /// Carries out again the effects that were done and could not be recorded, and the removals that failed.
    pub(super) fn repeat_effects(&mut self) {
        for removal in self.durability.take_failed_removals(REMOVALS_REPEATED) {
            self.carry_out_now(removal);
        }
        for intent in self.durability.take_to_repeat() {
            for effect in self.namespace.repeat_effects(intent) {
                self.carry_out(effect);
            }
        }
    }

    /// The journal is durable: answers requests, and does the work that waited for it.
    pub(super) fn carry_out_durable(&mut self, waiting: Waiting) {
        for token in waiting.requests {
            self.requests.wake_done(token, Outcome::of(Reply::Done));
        }
        for deferred in waiting.deferred {
            match deferred {
                Deferred::Effect(effect) => self.carry_out_now(effect),
                Deferred::Discard { target, aside } => self.discard(target, aside),
                Deferred::Stray { target, object } => self.remove_stray(target, object),
                Deferred::Look => {}
                Deferred::Word { token, reply } => self.requests.wake_done(token, Outcome::of(*reply)),
            }
        }
    }

    fn discard(&mut self, target: usize, aside: Aside) {
        let place = (target, aside.ino());
        self.errands.submit_beside(Errand::Discard, place, TargetWork::Discard(aside), &mut self.targets);
    }

    /// An object that was set aside is gone, or stays until the next start.
    pub(super) fn discarded(&mut self, outcome: Result<TargetOutput, TargetFailure>) {
        if let Err(failure) = outcome {
            warning!("an emptied object stays on its target until the next start: {failure:?}");
        }
        self.retry_roomless();
    }

    /// Removes the object of this number, whose file is gone.
    pub(super) fn remove_stray(&mut self, index: usize, object: Ino) {
        let Some(target) = self.targets.get_mut(index) else { return };
        if let Some(ram) = target.memory() {
            ram.remove(object);
        } else {
            let place = (index, object);
            self.errands.submit_alone(Errand::Stray(object), place, TargetWork::Remove, &mut self.targets);
        }
    }

    /// Takes away the bytes of an object that its file does not have, unless the home raised the epoch of the object since.
    pub(super) fn vacate(&mut self, index: usize, object: Ino, epoch: u64) {
        let Some(target) = self.targets.get_mut(index) else { return };
        if let Some(ram) = target.memory() {
            ram.vacate(object, epoch);
        } else {
            let (place, work) = ((index, object), TargetWork::Vacate { epoch });
            self.errands.submit_alone(Errand::Stray(object), place, work, &mut self.targets);
        }
    }

    /// Another server has an object here cut or removed.
    pub(super) fn serve_object_effect(&mut self, token: Token, request: &PeerRequest) -> Step {
        if let PeerRequest::RemoveObject { ino, .. } = request {
            self.peers.confirmations().removed(*ino, self.clock.now());
        }
        let changed = changed_object(request);
        let Some((place, target)) = changed.and_then(|place| Some((place, self.targets.get_mut(place.0)?)))
        else {
            return Step::Done(token, Outcome::failed(errno::EINVAL));
        };
        if let Some(ram) = target.memory() {
            change_in_memory(ram, request);
            return self.object_effect_served(token, Ok(()));
        }
        let Some(work) = change_in_directory(request, true) else {
            return self.object_effect_served(token, Ok(()));
        };
        self.errands.submit_alone(Errand::PeerObject(token), place, work, &mut self.targets);
        Step::Away
    }

    /// Answers the other server when mounts that watch the file here have dropped their pages.
    pub(super) fn object_effect_served(&mut self, token: Token, outcome: Result<(), TargetFailure>) -> Step {
        self.retry_roomless();
        if outcome.is_ok() {
            self.note_changed_object(&token);
        }
        let changed = match &self.requests[&token].request {
            Request::Peer(PeerRequest::TruncateObject { ino, .. }) => Some(*ino),
            _ => None,
        };
        let changed = changed.map(|ino: Ino| self.recall_pages(ClientId(0), ino));
        let reply = match outcome {
            Ok(()) => Reply::Peer(PeerReply::Done),
            Err(failure) => Reply::Failed(failure.errno()),
        };
        Step::Done(token, Outcome { drops: changed.unwrap_or_default(), ..Outcome::of(reply) })
    }
}

/// Whether an effect that failed is carried out again: no call waits for a removal, so it has time until its target works. Another server
/// that sees no right or no sense in it will see none later.
fn is_to_be_repeated(effect: &Effect, failure: Errno) -> bool {
    #[cfg(any(test, feature = "world"))]
    if mutants::is(Mutant::FailedRemovalsGivenUp) {
        return false;
    }
    matches!(effect.request, PeerRequest::RemoveObject { .. })
        && !matches!(failure, errno::EPERM | errno::EINVAL)
}
