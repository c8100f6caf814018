//! Requests that wait for an intent or for another server: their slot is free, and a resend joins them. Requests for which their
//! clients wait no more.

use super::Server;
use crate::namespace::IntentId;
use crate::requests::continuation::{Continued, Woken};
use crate::requests::request::{Step, Token};
use weir_fairshare::Nanos;
use weir_wire::Request;

/// Requests that wait for pages, new files that wait for a target, and links that wait for memory are looked at this often.
pub(super) const HELD_LOOK: Nanos = Nanos::from_millis(25);

impl Server {
    /// As [`Server::continue_after`], as the end of a step.
    pub(super) fn away_until(&mut self, intent: IntentId, continued: Continued) -> Step {
        self.continue_after(intent, continued);
        Step::Away
    }

    /// A request goes on when the intent is settled, or after this step if it is.
    pub(super) fn continue_after(&mut self, intent: IntentId, continued: Continued) {
        if self.namespace.is_settled(intent) {
            return self.requests.wake(Woken::Continued(continued));
        }
        self.begin_wait(continued.token());
        self.requests.continue_after(intent, self.clock.now(), continued);
    }

    /// A request waits for others: its slot is free, and a resend of it joins it.
    pub(super) fn begin_wait(&mut self, token: &Token) {
        self.end_service(token);
        self.requests.note_unfinished(token);
    }

    /// Has a resend wait for the answer of the request that it repeats, where that one is under way; answers any other request.
    pub(super) fn join_first(&mut self, token: Token) -> Option<Token> {
        let Some(first) = self.requests.first_of(&token) else { return Some(token) };
        self.end_service(&token);
        self.requests.follow_first(first, token);
        None
    }

    /// Whether the client has told that it waits for this request no more.
    pub(super) fn is_given_up(&mut self, token: &Token) -> bool {
        let request = &self.requests[token];
        let (client, id) = request.key();
        !matches!(request.request, Request::Peer(_)) && self.links.clients().has_given_up(client, id)
    }

    /// Frees the slot of a request, if it has one, and accounts the time that it took.
    pub(super) fn end_service(&mut self, token: &Token) {
        self.requests.end_service(token, &mut self.accounts, &self.clock);
    }
}
