//! The execution of a request: by its target, by the namespace, or at once.

use super::answering::change_of;
use super::Server;
use crate::namespace::errno;
use crate::requests::continuation::Continued;
use crate::requests::order::Begun;
use crate::requests::request::{Outcome, Step, Token};
use weir_wire::{Reply, Request};

impl Server {
    /// Carries out a request that has its turn and its payload.
    pub(super) fn execute(&mut self, token: Token) -> Step {
        let Some(token) = self.join_first(token) else { return Step::Away };
        if let Some(outcome) = self.outcome_of_others(&token) {
            return self.refused(token, outcome);
        }
        let request = &self.requests[&token];
        if let Some(failure) = request.arrival.failure() {
            let outcome = Outcome::of(failure.clone());
            return self.refused(token, outcome);
        }
        match (&request.request, request.device()) {
            (Request::Append { capability }, _) => {
                let capability = *capability;
                self.execute_append(token, &capability)
            }
            (Request::Peer(_), _) => self.serve_exchange(token),
            (_, Some(device)) if device < self.targets.len() => self.execute_on_target(token, device),
            _ => self.execute_namespace(token),
        }
    }

    /// The outcome of a request that is not to be carried out, since something else came before: while it waited for its turn
    /// or for its payload its client may have given it up, and locks may have changed hands.
    pub(super) fn outcome_of_others(&mut self, token: &Token) -> Option<Outcome> {
        if self.is_given_up(token) {
            return Some(Outcome::failed(errno::EIO));
        }
        self.outcome_of_before(token)
            .or_else(|| self.is_fenced_off(token).then(|| Outcome::of(Reply::StaleFence)))
    }

    /// A request that waited for others on its object goes on, unless its lock changed hands meanwhile or its client gave it up.
    pub(super) fn go_on_with_object(&mut self, token: Token, begun: Begun) -> Step {
        match self.outcome_of_others(&token) {
            Some(outcome) => {
                self.leave_object(begun);
                self.refused(token, outcome)
            }
            None => self.hand_to_worker(token, begun),
        }
    }

    /// The outcome of a change of bytes that is sent again and was carried out before.
    pub(super) fn outcome_of_before(&mut self, token: &Token) -> Option<Outcome> {
        let request = &self.requests[token];
        let (_, reply) = change_of(&request.request)?;
        let (link, of) = (request.sender.link, request.key());
        self.links.was_executed(link, of).then(|| Outcome::of(reply))
    }

    /// A request goes on after its intent was settled.
    pub(super) fn go_on(&mut self, continued: Continued) -> Step {
        match continued {
            Continued::Execute(token) => self.execute(token),
            Continued::AtOnce(token) => self.serve_at_once(token),
            Continued::Publish(token, outcome) => self.publish_write(token, *outcome),
            Continued::Reply(token, outcome, decision) => self.reply_when_settled(token, *outcome, *decision),
        }
    }
}
