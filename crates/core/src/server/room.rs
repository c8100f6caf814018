//! Room that is about to be free: a write that finds its target full waits for removals that were decided already, here
//! and at the other servers, before it is refused.
//!
//! A removal frees nothing before its record is on stable storage, so a file that a program removed a moment ago still counts
//! as used. The home of the file knows of it: this server for its own files, another server for others. Each home is
//! asked, which also makes it carry its removals out at once; and each removal that arrives lets the writes try again.

use super::Server;
use crate::durability::{gives_room_at, Deferred};
use crate::errands::Errand;
use crate::peers::line::Answer;
use crate::peers::Asked;
use crate::requests::continuation::Woken;
use crate::requests::request::{Outcome, Step, Token};
use crate::requests::room::{ANSWER_WAIT, ROOM_WAIT};
use crate::storage::{Directory, Refilled, Target};
use crate::work::Work;
use weir_placement::ServerId;
use weir_wire::{PeerReply, PeerRequest, Reply};

impl Server {
    /// Keeps a write that found its target full until removals have given room; gives it back where none are to come.
    pub(super) fn wait_for_room(&mut self, token: Token) -> Option<Token> {
        let now = self.clock.now();
        let (given, may_come) = (self.requests.room().given(), self.room_may_come());
        let request = &mut self.requests[&token];
        let is_room_new = request.is_room_new(given);
        let waits = is_room_new || (may_come && !request.is_last_try());
        let Some(since) = request.want_room(now, ROOM_WAIT).filter(|_| waits) else {
            return Some(token);
        };
        if let Some(account) = &mut request.account {
            account.end_execution(self.clock.within_step());
        }
        // Others are served meanwhile.
        self.requests.interrupt(&token, &mut self.accounts, now);
        if is_room_new {
            self.requests.wake(Woken::Enqueue(token));
            return None;
        }
        self.requests.room().wait(token, since);
        let here = self.site.id;
        self.hurry_removals(|server| server == here);
        self.ask_for_room();
        None
    }

    /// Has the reserve of a target filled again, of which some was given: writes have no room there before.
    pub(super) fn refill_target(&mut self, index: usize) {
        let directory = self.targets.get_mut(index).and_then(Target::directory_mut);
        if let Some(ticket) = directory.and_then(Directory::refill_begin) {
            self.errands.submit(Errand::Refill(Some(index)), Work::Refill(ticket));
        }
    }

    /// A reserve is whole again, or there is no room for it.
    pub(super) fn refilled(&mut self, of: Option<usize>, refilled: Refilled) {
        let Some(index) = of else { return self.durability.end_refill(refilled) };
        let directory = self.targets.get_mut(index).and_then(Target::directory_mut);
        match directory.is_some_and(|directory| directory.refill_complete(refilled)) {
            true => self.retry_roomless(),
            false => self.ask_for_room(),
        }
    }

    /// Room was given on a target here: the writes that wait for some try again.
    pub(super) fn retry_roomless(&mut self) {
        let waiting = self.requests.room().give();
        self.requests.try_again(waiting, false, Woken::Enqueue);
    }

    /// Writes that waited too long for room try for the last time; for the others the question is put again.
    pub(super) fn expire_roomless(&mut self) {
        let now = self.clock.now();
        let overdue = self.requests.room().take_overdue(now);
        self.requests.try_again(overdue, true, Woken::Enqueue);
        if self.requests.room().end_late_question(now) {
            self.end_question();
        }
        self.ask_for_room();
    }

    /// Another server has a full target, and asks whether removals decided here are about to give room there.
    pub(super) fn serve_room_question(&mut self, token: Token, from: ServerId) -> Step {
        let is_promised = self.will_give_room(|server| server == from);
        self.hurry_removals(|server| server == from);
        Step::Done(token, Outcome::of(Reply::Peer(PeerReply::Room { is_promised })))
    }

    /// Another server said whether it is about to give room, or did not answer in time.
    pub(super) fn room_answered(&mut self, question: u64, answer: &Answer) {
        let is_promised = matches!(answer, Ok((PeerReply::Room { is_promised: true }, _)));
        if self.requests.room().answered(question, is_promised) {
            self.end_question();
        }
    }

    /// All have answered: where nobody promised room, the writes that found none before the question are refused.
    fn end_question(&mut self) {
        if self.requests.room().is_promised() || self.will_give_room_here() {
            return;
        }
        // Room that was freed until now may have come between a write's try and its wait, so each tries once more.
        let asked_for = self.requests.room().take_asked_for();
        self.requests.try_again(asked_for, true, Woken::Enqueue);
        self.ask_for_room();
    }

    /// Asks the other servers whether they are about to give room here, while writes wait for some.
    fn ask_for_room(&mut self) {
        if !self.requests.room().wants_question() {
            return;
        }
        let now = self.clock.now();
        let homes = self.exchange.maybe_up(now);
        let question = self.requests.room().ask(homes.len(), now);
        for &home in &homes {
            self.ask_peer(home, PeerRequest::Room, ANSWER_WAIT, Asked::Room(question));
        }
        if homes.is_empty() {
            self.end_question();
        }
    }

    /// Whether a write that finds no room is to wait for some.
    pub(super) fn room_may_come(&self) -> bool {
        self.will_give_room_here() || !self.exchange.maybe_up(self.clock.now()).is_empty()
    }

    fn will_give_room_here(&self) -> bool {
        let here = self.site.id;
        self.will_give_room(|server| server == here)
    }

    /// Whether removals that were decided here give room on targets of one of these servers, and are not done.
    pub(super) fn will_give_room(&self, is_meant: impl Fn(ServerId) -> bool) -> bool {
        let here = self.site.id;
        let gives_room = |deferred: &Deferred| deferred.gives_room_at(here).is_some_and(&is_meant);
        let is_under_way = |errand: &Errand| match errand {
            Errand::Sync(waiting) => waiting.deferred.iter().any(gives_room),
            Errand::Effect(effect) => gives_room_at(effect).is_some_and(&is_meant),
            Errand::Discard | Errand::Refill(Some(_)) => is_meant(here),
            _ => false,
        };
        let is_asked = |asked: &Asked| match asked {
            Asked::Effect(effect) => gives_room_at(effect).is_some_and(&is_meant),
            _ => false,
        };
        self.durability.deferred().iter().any(gives_room)
            || self.errands.iter().any(is_under_way)
            || self.peers.asked().any(is_asked)
    }

    /// Removals that give room on targets of one of these servers wait for nothing but their own sync.
    pub(super) fn hurry_removals(&mut self, is_meant: impl Fn(ServerId) -> bool) {
        let here = self.site.id;
        let is_for = |deferred: &Deferred| deferred.gives_room_at(here).is_some_and(&is_meant);
        if self.durability.deferred().iter().any(is_for) {
            self.sync_soon();
        }
    }
}
