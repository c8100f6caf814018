//! Bytes behind the ends of files: the homes answer how far objects are paid for, and files are cut off at their ends once nobody
//! is left who could publish the bytes.

use super::charges::epoch_of;
use super::Server;
use crate::durability::Deferred;
use crate::errands::Errand;
use crate::peers::confirmations::Waiting;
use crate::peers::line::Answer;
use crate::peers::objects::{News, Stray};
use crate::requests::request::{Outcome, Step, Token};
use crate::storage::{TargetFailure, TargetOutput, TargetWork};
use weir_placement::{ServerId, TargetId};
use weir_wire::{HeldObject, Ino, PaidObject, PeerReply, Reply};

/// Objects of a listing that are looked at in one turn of the loop, in a few milliseconds.
const LISTED_PER_LOOK: usize = 16_384;

/// Objects on targets here that are not looked at yet, by target.
#[derive(Default)]
pub(super) struct Listings(Vec<(usize, Vec<(Ino, u64)>)>);

impl Server {
    /// A home said how far objects are paid for, or did not answer, and is told again later. Answers the requests that waited.
    pub(super) fn told(&mut self, home: ServerId, news: &News, answer: &Answer) -> Vec<Token> {
        if let Ok((PeerReply::ObjectsPaid { users, .. }, _)) = answer {
            self.namespace.files_mut().quotas_mut().note_some(home, users);
        }
        let targets = &self.targets;
        let epoch = |ino: Ino, place: TargetId| epoch_of(targets, ino, place);
        for stray in self.peers.objects().told(home, news, answer, epoch) {
            match stray {
                Stray::Gone(ino, place) => self.remove_stray(place.number(), ino.object_on(place)),
                Stray::Nowhere(ino, place, epoch) => self.vacate(place.number(), ino.object_on(place), epoch),
            }
        }
        if answer.is_ok() {
            self.tell_home(home);
        }
        match self.peers.objects().is_telling(home) {
            true => Vec::new(),
            false => {
                let settled = self.peers.objects().take_settled(home);
                self.claim_settled(settled)
            }
        }
    }

    /// The requests that have waited too long for the word of a home.
    pub(super) fn overdue_unsettled(&mut self) -> Vec<Token> {
        let overdue = self.peers.objects().overdue(self.clock.now());
        self.claim_settled(overdue)
    }

    fn claim_settled(&mut self, settled: Vec<Waiting>) -> Vec<Token> {
        let claim = |waiting: Waiting| {
            self.requests.claim_unconfirmed(waiting.number, |request| {
                request.sender.link == waiting.link && request.header.request == waiting.request
            })
        };
        settled.into_iter().filter_map(claim).collect()
    }

    /// Another server tells of bytes behind the ends of files here.
    pub(super) fn serve_held(&mut self, token: Token, from: ServerId, held: &[HeldObject]) -> Step {
        let mut touched: Vec<Ino> = held.iter().map(|object| object.ino).collect();
        touched.retain(|ino| self.namespace.files().is_untouched(*ino));
        touched.dedup();
        if let Err(errno) = self.record(&self.namespace.files().touched(touched)) {
            return Step::Done(token, Outcome::failed(errno));
        }
        let objects = self.namespace.files_mut().hear_held(from, held, self.clock.now());
        let users = self.namespace.files().use_of_users(held.iter().map(|object| object.uid));
        // A power loss that this server's records do not survive brings files back, and their objects to their places. Until then no
        // bytes are removed.
        let is_gone = objects.iter().any(|paid| matches!(paid, PaidObject::Gone | PaidObject::Nowhere));
        let reply = Reply::Peer(PeerReply::ObjectsPaid { objects, users });
        if is_gone && self.durability.is_durable() {
            self.defer(Deferred::Word { token, reply: Box::new(reply) }, true);
            return Step::Away;
        }
        Step::Done(token, Outcome::of(reply))
    }

    /// Cuts files off at their ends that have bytes behind them which nobody will publish.
    pub(super) fn end_unpublished(&mut self) {
        let now = self.clock.now();
        self.look_at_listed();
        self.tell_homes();
        if self.durability.is_read_only() {
            return;
        }
        let (own, clients) = (self.site.id, self.links.clients());
        self.peers.objects().note_left(own, |client| clients.holds(client));
        for ino in self.namespace.files_mut().left_files(|client| clients.holds(client), now) {
            let Some(decision) = self.namespace.cut_off(ino, self.clock.moment()) else { continue };
            // Where the journal does not take it, the file is cut at a later look.
            if self.commit_and_wake(&decision).is_err() {
                return;
            }
        }
    }

    /// Looks for bytes behind the ends of files that an earlier start left on targets here.
    pub(super) fn look_for_left_bytes(&mut self) {
        for index in 0..self.targets.len() {
            if self.targets[index].directory().is_some() {
                let (errand, place) = (Errand::Listing(index), (index, Ino(0)));
                self.errands.submit_beside(errand, place, TargetWork::List, &mut self.targets);
            }
        }
    }

    /// The objects of a target were listed.
    pub(super) fn listed(&mut self, index: usize, outcome: Result<TargetOutput, TargetFailure>) {
        // Where the target cannot be listed, the bytes stay until the next start.
        if let Ok(TargetOutput::Objects(objects)) = outcome {
            self.listings.0.push((index, objects));
        }
    }

    /// Looks at the next objects that were listed.
    fn look_at_listed(&mut self) {
        if self.peers.objects().found() > LISTED_PER_LOOK {
            return;
        }
        for (index, object, bytes) in self.listings.take(LISTED_PER_LOOK) {
            let (ino, place) = (object.file(), self.site.target(index).in_slot(object.slot()));
            match ino.home() == self.site.id {
                true => self.namespace.files_mut().note_found(ino, place, bytes),
                false => self.peers.objects().note_found(ino, place, bytes),
            }
        }
    }
}

impl Listings {
    /// The next objects: target, object and length.
    fn take(&mut self, count: usize) -> Vec<(usize, Ino, u64)> {
        let Some((index, objects)) = self.0.last_mut() else { return Vec::new() };
        let (index, rest) = (*index, objects.len().saturating_sub(count));
        let taken = objects.drain(rest..).map(|(object, bytes)| (index, object, bytes)).collect();
        if objects.is_empty() {
            self.0.pop();
        }
        taken
    }
}
