//! Requests of the namespace: decided, journaled, applied, their effects carried out, then answered.

use super::Server;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::{errno, Answer, Caller, Continuation, Decision, PeerFailure, Verdict};
use crate::peers::line::Answer as PeerAnswer;
use crate::peers::Asked;
use crate::requests::continuation::Continued;
use crate::requests::request::{Outcome, Step, Token};
use std::rc::Rc;
use std::time::Duration;
use weir_placement::ServerId;
use weir_wire::{Capability, Errno, PeerReply, PeerRequest, Publication, Reply, Request};

/// How long another server may take to do its part of a request that a client waits for: above it the client
/// is told EIO, while it would itself wait for ten seconds of silence.
const QUESTION_PATIENCE: Duration = Duration::from_secs(5);

impl Server {
    /// Decides a request of the namespace and follows the decision.
    pub(super) fn execute_namespace(&mut self, token: Token) -> Step {
        let moment = self.clock.moment();
        let Some(token) = self.join_first(token) else { return Step::Away };
        let request = &self.requests[&token];
        let caller = request.caller();
        if request.request.places().any(|at| at.proof.is_some()) {
            self.namespace.names_mut().note_passes(&caller, &request.request, moment);
        }
        if matches!(request.request, Request::AppendEnd { .. }) {
            return self.end_append(token);
        }
        let verdict = self.namespace.decide(&caller, &request.request, &request.payload, moment);
        if verdict.as_ref().is_ok_and(|verdict| self.must_wait_for_device(verdict)) {
            self.begin_wait(&token);
            let continued = self.decided_again(token);
            self.requests.hold_back(continued);
            return Step::Away;
        }
        self.follow(token, verdict, Outcome::of(Reply::Done))
    }

    /// The step with which a request is decided once more.
    fn decided_again(&self, token: Token) -> Continued {
        match self.requests[&token].device() {
            None => Continued::AtOnce(token),
            Some(_) => Continued::Execute(token),
        }
    }

    /// Whether a verdict takes room in the journal, and the journal's device is too far behind.
    fn must_wait_for_device(&self, verdict: &Verdict) -> bool {
        let changes = match verdict {
            Verdict::Done(decision) => &decision.changes,
            Verdict::Ask(question) => &question.changes,
            Verdict::Wait(_) | Verdict::Full => return false,
        };
        !changes.is_empty()
            && self.durability.is_behind(&self.namespace)
            && !self.namespace.files().frees(changes)
    }

    /// A client gives its append turn back; the next client has it.
    fn end_append(&mut self, token: Token) -> Step {
        let request = &self.requests[&token];
        let Request::AppendEnd { capability, turn, publication } = &request.request else {
            return Step::Done(token, Outcome::failed(errno::EINVAL));
        };
        let (ino, turn, acting) = (capability.ino, *turn, Rc::clone(&request.sender.acting));
        let caller = Caller { who: &acting.who, ..request.caller() };
        let moment = self.clock.moment();
        let verdict = self.namespace.append_end(&caller, capability, turn, publication.as_ref(), moment);
        if let Ok(Verdict::Wait(intent)) = verdict {
            return self.away_until(intent, Continued::AtOnce(token));
        }
        let step = self.follow(token, verdict, Outcome::of(Reply::Done));
        let next = self.namespace.next_turn(&caller, ino, turn);
        self.pass_turn(next);
        step
    }

    /// Publishes the end of a write; the reply of the write tells the size.
    pub(super) fn publish(
        &mut self,
        token: Token,
        capability: Capability,
        publication: Publication,
        outcome: Outcome,
    ) -> Step {
        let moment = self.clock.moment();
        let request = Request::Publish { capability, publication };
        match self.namespace.decide(&self.requests[&token].caller(), &request, &[], moment) {
            Ok(Verdict::Wait(intent)) => {
                self.away_until(intent, Continued::Publish(token, Box::new(outcome)))
            }
            verdict => self.follow(token, verdict, outcome),
        }
    }

    /// Follows a verdict; `outcome` carries the parts of the reply beside the decision's answer.
    pub(super) fn follow(&mut self, token: Token, verdict: Result<Verdict, Errno>, outcome: Outcome) -> Step {
        match verdict {
            Err(errno) => Step::Done(token, Outcome { reply: Reply::Failed(errno), ..outcome }),
            Ok(Verdict::Wait(intent)) => {
                let continued = self.decided_again(token);
                self.away_until(intent, continued)
            }
            Ok(Verdict::Full) => self.wait_for_vacancy(token),
            Ok(Verdict::Ask(question)) => {
                if let Err(errno) = self.record(&question.changes) {
                    return Step::Done(token, Outcome::failed(errno));
                }
                self.begin_wait(&token);
                let asked = Asked::Request(token, Box::new(question.continuation));
                self.ask_peer(question.server, question.request, QUESTION_PATIENCE, asked);
                Step::Away
            }
            Ok(Verdict::Done(decision)) => {
                if let Err(errno) = self.commit_and_wake(&decision) {
                    return Step::Done(token, Outcome::failed(errno));
                }
                self.release_what_came_late(&token);
                self.reply_when_settled(token, outcome, decision)
            }
        }
    }

    /// Another server has done its part of a request, or has not in time.
    pub(super) fn resume(&mut self, token: Token, continuation: Continuation, answer: PeerAnswer) -> Step {
        let answer: Result<PeerReply, PeerFailure> = answer.map(|(reply, _)| reply);
        let verdict = self.namespace.resume(continuation, answer, self.clock.moment());
        self.follow(token, Ok(verdict), Outcome::of(Reply::Done))
    }

    /// Replies once every intent of the decision is settled.
    pub(super) fn reply_when_settled(
        &mut self,
        token: Token,
        mut outcome: Outcome,
        decision: Decision,
    ) -> Step {
        let open = decision.wait.iter().copied().find(|&intent| !self.namespace.is_settled(intent));
        if let Some(intent) = open {
            let continued = Continued::Reply(token, Box::new(outcome), Box::new(decision));
            return self.away_until(intent, continued);
        }
        let was_cut = !decision.wait.is_empty();
        let told = self.tell_of_changes(&token, &decision.changes);
        outcome.drops.extend(told);
        let request = &self.requests[&token];
        let uid = request.sender.acting.who.uid;
        let (reply, payload) = self.namespace.answer(decision.answer, uid, self.clock.moment());
        if was_cut {
            let file = match (&reply, &request.request) {
                (Reply::Attributes(attributes) | Reply::Opened { attributes, .. }, _) => Some(attributes.ino),
                // No server at the bytes' next place knows of the pages that mounts hold.
                (Reply::Frozen { .. }, Request::MoveFreeze { ino, .. }) => Some(*ino),
                _ => None,
            };
            if let Some(ino) = file {
                outcome.drops.extend(self.recall_pages(request.sender.client, ino));
            }
        }
        if !matches!(reply, Reply::Done) || matches!(outcome.reply, Reply::Done) {
            outcome.reply = reply;
        }
        outcome.payload = payload;
        Step::Done(token, outcome)
    }

    /// Answers when everything in the journal so far is on stable storage.
    pub(super) fn sync_metadata(&mut self, token: Token) -> Step {
        let request = &self.requests[&token];
        let verdict = self.namespace.decide(&request.caller(), &request.request, &[], self.clock.moment());
        let outcome = match verdict {
            Ok(Verdict::Done(decision)) => match decision.answer {
                Answer::Now(reply, _) => Outcome::of(reply),
                Answer::Then(_) => Outcome::failed(errno::EINVAL),
            },
            Ok(_) => Outcome::failed(errno::EAGAIN),
            Err(errno) => Outcome::failed(errno),
        };
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::JournalUnsynced) {
            return Step::Done(token, outcome);
        }
        if outcome.reply != Reply::Done || !self.durability.is_durable() {
            return Step::Done(token, outcome);
        }
        self.answer_when_durable(token);
        Step::Away
    }

    /// Another server's part of an operation on directories.
    pub(super) fn serve_directory_request(
        &mut self,
        token: Token,
        from: ServerId,
        request: &PeerRequest,
    ) -> Step {
        let reply = match self.namespace.decide_peer(from, request, self.clock.moment()) {
            Ok(decision) => match self.record(&decision.changes) {
                Ok(()) => Reply::Peer(decision.reply),
                Err(errno) => Reply::Failed(errno),
            },
            Err(errno) => Reply::Failed(errno),
        };
        Step::Done(token, Outcome::of(reply))
    }
}
