//! Capabilities of files with another home.

use super::Server;
use crate::namespace::{errno, Caller};
use crate::peers::confirmations::{Standing, Waiting, PATIENCE};
use crate::peers::line::Answer;
use crate::peers::Asked;
use crate::requests::objects::{object_capability, object_fence};
use crate::requests::request::{Stage, Token};
use std::rc::Rc;
use weir_placement::ServerId;
use weir_wire::{Capability, PeerRequest, Reply};

impl Server {
    /// The worth of a capability that a request for bytes shows.
    pub(super) fn standing(&mut self, token: &Token, capability: &Capability) -> Standing {
        let request = &self.requests[token];
        let acting = Rc::clone(&request.sender.acting);
        let caller = Caller { who: &acting.who, ..request.caller() };
        if capability.ino.home() == self.site.id {
            return match self.namespace.files().check_capability(&caller, capability) {
                Ok(()) => Standing::Holds,
                Err(errno) => Standing::Refused(errno),
            };
        }
        if !self.site.key().admits(capability) || !caller.may_use(capability) {
            return Standing::Refused(errno::EACCES);
        }
        let fence = object_fence(&request.request);
        let (now, seconds) = (self.clock.now(), self.clock.moment().seconds as u64);
        let standing = self.peers.confirmations().standing(capability, fence, now, seconds);
        if matches!(standing, Standing::Holds) {
            self.ask_home(capability.ino.home());
        }
        standing
    }

    /// Holds a request until the home of its file has said whether the capability holds.
    pub(super) fn confirm_first(&mut self, token: Token, capability: &Capability) {
        let request = &self.requests[&token];
        let (link, id) = (request.sender.link, request.header.request);
        let fence = object_fence(&request.request);
        let waiting = Waiting { number: token.number(), link, request: id, fence };
        self.requests.park(token, Stage::Unconfirmed);
        self.peers.confirmations().wait(capability, waiting);
        self.ask_home(capability.ino.home());
    }

    /// Whether the home of a request's file has told of another fence than the request shows. At the home itself queued requests
    /// go with the last connection of their client, before its locks do.
    pub(super) fn is_fenced_off(&mut self, token: &Token) -> bool {
        let request = &self.requests[token].request;
        let (fence, capability) = (object_fence(request), object_capability(request).copied());
        capability.is_some_and(|of| {
            of.ino.home() != self.site.id && !self.peers.confirmations().admits(of.ino, fence)
        })
    }

    /// Asks a home about the capabilities that are queued for it, one question at a time.
    fn ask_home(&mut self, home: ServerId) {
        let Some(capabilities) = self.peers.confirmations().take_question(home) else { return };
        let request = PeerRequest::Confirm { capabilities: capabilities.clone() };
        self.ask_peer(home, request, PATIENCE, Asked::Confirm(home, capabilities));
    }

    /// A home answered about capabilities, or did not. Answers the requests that waited, each with the reply that refuses it.
    pub(super) fn confirmed(
        &mut self,
        home: ServerId,
        capabilities: &[Capability],
        answer: &Answer,
    ) -> Vec<(Token, Result<(), Reply>)> {
        let now = self.clock.now();
        let released = self.peers.confirmations().answered(home, capabilities, answer, now);
        self.ask_home(home);
        let claim = |(waiting, word): (Waiting, Result<(), Reply>)| {
            let claimed = self.requests.claim_unconfirmed(waiting.number, |request| {
                request.sender.link == waiting.link && request.header.request == waiting.request
            });
            Some((claimed?, word))
        };
        released.into_iter().filter_map(claim).collect()
    }
}
