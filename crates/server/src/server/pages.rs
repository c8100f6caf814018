//! Kernels of mounts: requests wait until pages are dropped or written back, and moved directories looked up.

use super::Server;
use crate::namespace::Change;
use crate::requests::pages::Then;
use crate::requests::request::{Drops, Outcome, Step, Token};
use weir_wire::{ClientId, Ino, Reply, Sequence};

impl Server {
    /// Keeps a request that is about to change bytes of `ino` until every watcher has written back and dropped its pages, or
    /// its time is over: a page that is written back later would cover the new bytes with old ones.
    pub(super) fn hold_for_write_back(&mut self, token: Token, client: ClientId, ino: Ino) {
        let drops = self.pages.watches().changed(client, ino);
        self.hold_for_pages(token, Then::Route, drops);
    }

    /// Keeps a request until every watcher has dropped its pages, or its time is over.
    pub(super) fn hold_for_pages(&mut self, token: Token, then: Then, drops: Drops) {
        for (poll, outcome) in self.pages.hold(token, then, drops, self.clock.now()) {
            self.requests.wake_done(poll, outcome);
        }
    }

    /// Requests go on that wait for no more pages, or have waited for too long.
    pub(super) fn release_pages(&mut self) {
        for woken in self.pages.release(self.clock.now()) {
            self.requests.wake(woken);
        }
    }

    /// The drops that the reply to a rename waits for: mounts look up the places of directories that it moved.
    pub(super) fn tell_of_moves(&mut self, token: &Token, changes: &[Change]) -> Drops {
        let sender = &self.requests[token].sender;
        let mover = (sender.client, sender.acting.who.uid);
        let paths = self.namespace.moved_directories(changes);
        paths.iter().flat_map(|path| self.pages.watches().moved(mover, path)).collect()
    }

    /// The long poll of a mount: confirms the pages that were dropped, and is answered when there are more to drop.
    pub(super) fn poll_invalidations(&mut self, token: Token, done: Sequence) -> Step {
        let sender = &self.requests[&token].sender;
        let client = sender.client;
        let user = (!sender.acting.trusted).then_some(sender.acting.who.uid);
        self.pages.watches().listens(client, user);
        self.pages.confirm(client, done);
        self.release_pages();
        if let Some(earlier) = self.pages.poll(client, token) {
            self.requests.wake_done(earlier, Outcome::of(Reply::Done));
        }
        if let Some((poll, outcome)) = self.pages.answer_poll(client) {
            self.requests.wake_done(poll, outcome);
        }
        Step::Away
    }
}
