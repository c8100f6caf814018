//! Answers: the end of a request's service, its reply, and the end of a link with the requests in hand.

use super::Server;
use crate::links::connection::Tail;
use crate::namespace::errno;
use crate::requests::pages::Then;
use crate::requests::request::{Outcome, Stage, Token};
use crate::storage::Target;
use weir_placement::TargetId;
use weir_wire::{Reply, Request};

impl Server {
    /// A request is carried out: it is answered now, or when the emulated device is done; so are resends that joined it.
    pub(super) fn finish(&mut self, token: Token, outcome: Outcome) {
        self.answer_followers(&token, &outcome);
        self.note_executed(&token, &outcome.reply);
        match self.requests[&token].is_due(self.clock.now()) {
            true => self.conclude(token, outcome),
            false => self.requests.park(token, Stage::Finished(Box::new(outcome))),
        }
    }

    /// Answers the resends that joined a request.
    fn answer_followers(&mut self, token: &Token, outcome: &Outcome) {
        for follower in self.requests.end_unfinished(token) {
            let payload = outcome.payload.clone();
            self.finish(follower, Outcome { payload, ..Outcome::of(outcome.reply.clone()) });
        }
    }

    /// Ends the service of a request, and answers it once other mounts have dropped their pages.
    pub(super) fn conclude(&mut self, token: Token, mut outcome: Outcome) {
        self.end_service(&token);
        let mut drops = std::mem::take(&mut outcome.drops);
        drops.extend(self.owed_drops(&token, &outcome.reply));
        if drops.is_empty() {
            return self.reply(token, outcome);
        }
        self.requests.hold_for_pages(token, Then::Reply(Box::new(outcome)), drops, self.clock.now());
    }

    /// Sends the reply and forgets the request.
    pub(super) fn reply(&mut self, token: Token, outcome: Outcome) {
        self.answer_followers(&token, &outcome);
        let number = token.number();
        let request = self.requests.remove(token);
        self.take_back(&request);
        if let (Reply::Failed(error), false) = (&outcome.reply, request.is_abandoned()) {
            self.requests.devices_mut().fail(&request, *error);
        }
        let sender = &request.sender;
        self.links.release_memory(sender.link, sender.session_job, request.held_bytes());
        match self.links.of(sender.link) {
            Some(link) if !request.is_abandoned() => {
                link.end_request(number);
                let id = request.header.request;
                link.connection().reply(id, &outcome.reply, &outcome.payload, outcome.tail);
                self.links.make_dirty(sender.link.index);
                self.links.count_buffers(sender.link.index);
            }
            _ => {
                if let Some(tail) = outcome.tail {
                    release_tail(&mut self.targets, tail);
                }
            }
        }
    }

    /// Ends a link: its requests in hand are given up, and its client is forgotten later if it does not return.
    pub(super) fn close_link(&mut self, index: usize) {
        let Some(mut link) = self.links.remove(index) else { return };
        for tail in link.connection().unsent_tails() {
            release_tail(&mut self.targets, tail);
        }
        for number in link.take_requests() {
            let given_up = self.requests.give_up(number, &mut self.targets, self.clock.now());
            match given_up {
                Some((token, true)) => self.finish(token, Outcome::failed(errno::EIO)),
                Some((token, false)) => self.reply(token, Outcome::failed(errno::EIO)),
                None => {}
            }
        }
        if let Some(session) = link.session() {
            self.client_disconnected(session.client, session.job());
        }
    }

    /// Closes links of senders that have been silent for too long in the midst of a payload.
    pub(super) fn expire_senders(&mut self) {
        for link in self.requests.stalled_links(self.clock.now()) {
            self.close_link(link);
        }
    }

    /// Notes a change of bytes that was carried out, in case its client does not hear of it and sends it again.
    pub(super) fn note_executed(&mut self, token: &Token, reply: &Reply) {
        let request = &self.requests[token];
        if change_of(&request.request).is_none() {
            return;
        }
        if matches!(reply, Reply::Written { .. } | Reply::Done) {
            let is_kept = self.durability.is_durable();
            let (link, of) = (request.sender.link, request.key());
            self.links.note_executed(link, of, is_kept);
        }
    }
}

/// Lets a `ram` target reuse the pages that a reply held.
pub(super) fn release_tail(targets: &mut [Target], tail: Tail) {
    if let Tail::Arena { target, plan } = tail {
        if let Some(ram) = targets.get_mut(target).and_then(Target::memory) {
            ram.finish_read(&plan);
        }
    }
}

/// The target of a change of bytes, and the reply to it; none of any other request.
pub(super) fn change_of(request: &Request) -> Option<(TargetId, Reply)> {
    match request {
        Request::Write { target, .. } => Some((*target, Reply::Written { size: None })),
        Request::Reserve { target, .. } => Some((*target, Reply::Done)),
        _ => None,
    }
}
