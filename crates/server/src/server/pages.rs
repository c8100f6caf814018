//! Kernel pages of mounts: requests wait until they are dropped or written back.

use super::Server;
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

    /// The long poll of a mount: confirms the pages that were dropped, and is answered when there are more to drop.
    pub(super) fn poll_invalidations(&mut self, token: Token, done: Sequence) -> Step {
        let client = self.requests[&token].sender.client;
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
