//! The execution of a request: by its target, by the namespace, or at once.

use super::Server;
use crate::namespace::errno;
use crate::requests::continuation::Continued;
use crate::requests::request::{Outcome, Step, Token};
use weir_wire::{Reply, Request};

impl Server {
    /// Carries out a request that has its turn and its payload.
    pub(super) fn execute(&mut self, token: Token) -> Step {
        if self.is_given_up(&token) {
            return self.refused(token, Outcome::failed(errno::EIO));
        }
        // Locks may have changed hands while the request waited for its turn.
        if self.is_fenced_off(&token) {
            return self.refused(token, Outcome::of(Reply::StaleFence));
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
