//! Requests that wait until mounts have dropped or written back kernel pages, and the long polls by which mounts are told.

use super::continuation::Woken;
use super::recalls::{Recalls, Told, DROP_WAIT};
use super::request::{Drops, Outcome, Token};
use std::collections::HashMap;
use weir_fairshare::Nanos;
use weir_wire::{ClientId, Ino, Reply, Sequence};

/// The kernel pages of mounts, and the requests that wait for them.
#[derive(Default)]
pub(crate) struct Pages {
    recalls: Recalls,
    held: Vec<Held>,
    /// The long poll of each mount.
    polls: HashMap<ClientId, Token>,
}

/// A request that waits until mounts have dropped pages.
struct Held {
    token: Token,
    then: Then,
    drops: Drops,
    until: Nanos,
}

/// The step after the wait.
pub(crate) enum Then {
    /// The request has changed bytes: the pages that were read before are dropped, and it is answered.
    Reply(Box<Outcome>),
    /// The request is about to change bytes: the pages that were stored beside them are written back, and it is carried out.
    Route,
}

impl Pages {
    /// The recalls of leases.
    pub(crate) fn recalls(&mut self) -> &mut Recalls {
        &mut self.recalls
    }

    /// As [`Recalls::others_hold`].
    pub(crate) fn others_hold(&self, client: ClientId, holders: &[ClientId]) -> bool {
        self.recalls.others_hold(client, holders)
    }

    /// As [`Recalls::owed`].
    pub(crate) fn owed(&self, ino: Ino, clients: impl Iterator<Item = ClientId>) -> Drops {
        self.recalls.owed(ino, clients)
    }

    /// Whether requests wait for pages.
    pub(crate) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Keeps a request until every watcher has dropped its pages, or its time is over. Answers the polls by which the watchers
    /// are told.
    pub(crate) fn hold(
        &mut self,
        token: Token,
        then: Then,
        drops: Drops,
        now: Nanos,
    ) -> Vec<(Token, Outcome)> {
        let answered = drops.iter().filter_map(|&(client, _, _)| self.answer_poll(client)).collect();
        self.held.push(Held { token, then, drops, until: now + DROP_WAIT });
        answered
    }

    /// The requests that wait for no more pages, or have waited for too long.
    pub(crate) fn release(&mut self, now: Nanos) -> Vec<Woken> {
        let mut released = Vec::new();
        let mut index = 0;
        while index < self.held.len() {
            let held = &self.held[index];
            if held.until > now && !self.recalls.are_done(&held.drops) {
                index += 1;
                continue;
            }
            let held = self.held.swap_remove(index);
            self.recalls.are_late(&held.drops, now);
            released.push(match held.then {
                Then::Reply(outcome) => Woken::Reply(held.token, *outcome),
                Then::Route => Woken::Route(held.token),
            });
        }
        released
    }

    /// Number of long polls: they ask for no work.
    pub(crate) fn polls(&self) -> usize {
        self.polls.len()
    }

    /// Takes the long poll of a mount; answers the poll that it replaces.
    pub(crate) fn poll(&mut self, client: ClientId, token: Token) -> Option<Token> {
        self.polls.insert(client, token)
    }

    /// The long poll of a mount that is gone.
    pub(crate) fn take_poll(&mut self, client: ClientId) -> Option<Token> {
        self.polls.remove(&client)
    }

    /// The answer to the long poll of a mount, where there is a poll and something to tell.
    pub(crate) fn answer_poll(&mut self, client: ClientId) -> Option<(Token, Outcome)> {
        if !self.polls.contains_key(&client) {
            return None;
        }
        let Told { sequence, files, moved } = self.recalls.next(client)?;
        let token = self.polls.remove(&client)?;
        Some((token, Outcome::of(Reply::Invalidate { sequence, files, moved })))
    }

    /// A mount has dropped everything up to `done`.
    pub(crate) fn confirm(&mut self, client: ClientId, done: Sequence) {
        self.recalls.confirm(client, done);
    }
}
