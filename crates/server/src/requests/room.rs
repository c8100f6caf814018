//! Room that is about to be free: a write that finds its target full waits for removals that were decided already, here
//! and at the other servers, before it is refused.
//!
//! A removal frees nothing before its record is on stable storage, so what a program removed a moment ago still counts as
//! used. The home of the file knows of it: this server for its own files, another server for others. Each home is
//! asked, which also makes it carry its removals out at once; and each removal that arrives lets the writes try again.

use crate::namespace::{errno, Effect, When};
use crate::peers::Answer;
use crate::requests::data::Errand;
use crate::requests::durability::Deferred;
use crate::requests::metadata::Asked;
use crate::requests::service::{Outcome, Stage};
use crate::server::Server;
use std::time::Duration;
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_wire::{PeerReply, PeerRequest, Reply};

/// How long a write waits for the room that pending removals will give: some syncs of a busy device.
const ROOM_WAIT: Nanos = Nanos::from_millis(5_000);
/// How long another server may take to say whether it is about to give room: it answers at once when it runs.
const ANSWER_WAIT: Duration = Duration::from_secs(1);

/// Writes that found their target full, and the question whether anybody is about to free something there.
#[derive(Default)]
pub(crate) struct Room {
    waiting: Vec<Roomless>,
    /// Questions that were put to the other servers: one is under way at a time, for all writes together.
    questions: u64,
    /// Answers to the last one that are awaited.
    unanswered: usize,
    asked_at: Nanos,
    /// Whether one of the answers promised room.
    is_promised: bool,
}

/// A write that waits for room, since it first found none.
struct Roomless {
    since: Nanos,
    token: usize,
}

impl Deferred {
    /// The server on whose targets this gives room.
    fn gives_room_at(&self, here: ServerId) -> Option<ServerId> {
        match self {
            Deferred::Effect(effect) => effect.gives_room_at(),
            Deferred::Discard { .. } => Some(here),
            Deferred::Stray { .. } | Deferred::Word { .. } => None,
        }
    }
}

impl Effect {
    fn gives_room_at(&self) -> Option<ServerId> {
        (self.when == When::DurableInTime).then_some(self.server)
    }
}

impl Server {
    /// Keeps a write that found its target full until removals have given room; false where none are to come.
    pub(crate) fn wait_for_room(&mut self, token: usize) -> bool {
        let (now, may_come) = (self.now(), self.room_may_come());
        let Some(pending) = self.pending.get_mut(token) else { return false };
        let since = *pending.roomless_since.get_or_insert(now);
        if !may_come || pending.is_last_try || now.saturating_since(since) > ROOM_WAIT {
            return false;
        }
        pending.stage = Stage::Elsewhere;
        self.room.waiting.push(Roomless { since, token });
        // Others are served meanwhile.
        self.leave_slot(token);
        self.hurry_removals(self.id);
        self.ask_for_room();
        true
    }

    /// Room was given on a target here: the writes that wait for some try again.
    pub(crate) fn try_roomless(&mut self) {
        for roomless in std::mem::take(&mut self.room.waiting) {
            self.try_again(roomless.token);
        }
    }

    fn try_again(&mut self, token: usize) {
        let Some(pending) = self.pending.get(token) else { return };
        // What it would have written is gone with its link.
        match pending.abandoned {
            true => self.finish(token, Outcome::failed(errno::EIO)),
            false => self.enqueue(token),
        }
    }

    /// Writes that waited too long for room try for the last time; for the others the question is put again.
    pub(crate) fn expire_roomless(&mut self) {
        let now = self.now();
        self.try_last(|since| now.saturating_since(since) > ROOM_WAIT);
        let is_late = now.saturating_since(self.room.asked_at) > Nanos::from(ANSWER_WAIT);
        if self.room.unanswered > 0 && is_late {
            self.room.unanswered = 0;
            self.end_question();
        }
        self.ask_for_room();
    }

    /// Another server has a full target, and asks whether removals decided here are about to give room there.
    pub(crate) fn serve_room_question(&mut self, token: usize, from: ServerId) {
        let is_promised = self.will_give_room(from);
        self.hurry_removals(from);
        self.finish(token, Outcome::of(Reply::Peer(PeerReply::Room { is_promised })));
    }

    /// Another server said whether it is about to give room, or did not answer in time.
    pub(crate) fn room_answered(&mut self, question: u64, answer: &Answer) {
        if question != self.room.questions || self.room.unanswered == 0 {
            return;
        }
        self.room.is_promised |= matches!(answer, Ok((PeerReply::Room { is_promised: true }, _)));
        self.room.unanswered -= 1;
        if self.room.unanswered == 0 {
            self.end_question();
        }
    }

    /// All have answered: where nobody promised room, the writes that found none before they were asked are refused.
    fn end_question(&mut self) {
        if self.room.is_promised || self.will_give_room(self.id) {
            return;
        }
        // What was freed until now may have come between a write's try and its wait, so each tries once more.
        let asked_at = self.room.asked_at;
        self.try_last(|since| since <= asked_at);
        self.ask_for_room();
    }

    /// The writes whose wait began at such a moment try for the last time.
    fn try_last(&mut self, is_over: impl Fn(Nanos) -> bool) {
        let waiting = std::mem::take(&mut self.room.waiting);
        let (over, rest) = waiting.into_iter().partition::<Vec<_>, _>(|roomless| is_over(roomless.since));
        self.room.waiting = rest;
        for Roomless { token, .. } in over {
            if let Some(pending) = self.pending.get_mut(token) {
                pending.is_last_try = true;
            }
            self.try_again(token);
        }
    }

    /// Asks the other servers whether they are about to give room here, while writes wait for some.
    fn ask_for_room(&mut self) {
        if self.room.waiting.is_empty() || self.room.unanswered > 0 {
            return;
        }
        let homes = self.homes_to_ask();
        self.room.questions += 1;
        self.room.asked_at = self.now();
        self.room.is_promised = false;
        self.room.unanswered = homes.len();
        for home in homes {
            self.ask_peer(home, PeerRequest::Room, Vec::new(), ANSWER_WAIT, Asked::Room(self.room.questions));
        }
        if self.room.unanswered == 0 {
            self.end_question();
        }
    }

    /// Whether a write that finds no room is to wait for some.
    pub(crate) fn room_may_come(&self) -> bool {
        self.will_give_room(self.id) || !self.homes_to_ask().is_empty()
    }

    /// Servers that are up, as far as is known: a dead one frees nothing, and nobody waits for it.
    fn homes_to_ask(&self) -> Vec<ServerId> {
        let now = self.now();
        if self.reports.is_within_age(now) {
            return self.peers.keys().copied().collect();
        }
        let heard = self.reports.fresh(now).map(|report| report.server);
        heard.filter(|server| self.peers.contains_key(server)).collect()
    }

    /// Whether removals that were decided here give room on targets of `server`, and are not done.
    fn will_give_room(&self, server: ServerId) -> bool {
        let gives_room = |deferred: &Deferred| deferred.gives_room_at(self.id) == Some(server);
        let is_under_way = |errand: &Errand| match errand {
            Errand::Sync(synced) => synced.deferred().iter().any(gives_room),
            Errand::Effect(effect) => effect.gives_room_at() == Some(server),
            Errand::Discard => server == self.id,
            _ => false,
        };
        let is_asked = |asked: &Asked| match asked {
            Asked::Effect(effect) => effect.gives_room_at() == Some(server),
            _ => false,
        };
        self.durability.deferred().iter().any(gives_room)
            || self.errands.iter().any(|(_, errand)| is_under_way(errand))
            || self.asked.iter().any(|(_, asked)| is_asked(asked))
    }

    /// Removals that give room on targets of `server` wait for nothing but their own sync.
    fn hurry_removals(&mut self, server: ServerId) {
        let here = self.id;
        if self.durability.deferred().iter().any(|deferred| deferred.gives_room_at(here) == Some(server)) {
            self.sync_soon();
        }
    }
}
