//! Clients that are gone, and the release of everything that they held.

use super::Server;
use crate::links::clients::Introduction;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::{errno, Appender};
use crate::notices::Notice;
use crate::requests::continuation::{Continued, Woken};
use crate::requests::request::{Outcome, Token};
use weir_wire::{limits, ClientId, Ino, JobId};

impl Server {
    /// A connection of this client was proved. Answers whether the client holds what it held before.
    pub(super) fn client_connected(&mut self, introduction: Introduction, uid: u32, job: JobId) -> bool {
        if let Some(job) = self.accounts.jobs().job_mut(job) {
            job.connected();
        }
        let is_known = self.links.clients().connected(introduction, uid);
        self.namespace.note_sessions(self.links.clients().len());
        is_known
    }

    /// A connection of this client ended.
    pub(super) fn client_disconnected(&mut self, client: ClientId, job: JobId) {
        let now = self.clock.now();
        if let Some(job) = self.accounts.jobs().job_mut(job) {
            job.disconnected(now);
        }
        let is_short = self.namespace.is_over_bound();
        if let Some(longest_gone) = self.links.clients().disconnected(client, now, is_short) {
            self.forget_client(longest_gone);
        }
    }

    /// Releases the holdings of gone clients, and forgets the clients in time.
    pub(super) fn expire_clients(&mut self) {
        if self.durability.is_read_only() {
            // The release changes the namespace: it is tried again once the journal takes that.
            return;
        }
        let now = self.clock.now();
        for id in self.links.clients().to_release(now) {
            self.release_client(id);
        }
        for id in self.links.clients().to_forget(now) {
            self.forget_client(id);
        }
        self.links.expire_executed(now);
    }

    /// Forgets a client that is gone, with its holdings and its replies.
    fn forget_client(&mut self, id: ClientId) {
        if self.durability.is_read_only() {
            // The release changes the namespace: it is tried again once the journal takes that.
            return;
        }
        self.release_client(id);
        self.links.clients().forget(id);
        self.namespace.note_sessions(self.links.clients().len());
        self.links.executed().forget(id);
        let change = self.namespace.forget_client(id);
        // Where the journal does not take it, the replies stay until the next start.
        let _ = self.record(&[change]);
    }

    /// Releases the holdings of a client, unless that was done before.
    fn release_client(&mut self, id: ClientId) {
        if !self.links.clients().release(id) {
            return;
        }
        if let Some(release) = self.namespace.files().release_of(id) {
            // Where the journal does not take it, the client may claim its locks again at the next start.
            let _ = self.record(&[release]);
        }
        let answers = self.locks.drop_client(id);
        self.answer_locks(answers);
        let mut ended = self.requests.take_waiting_of(id);
        ended.extend(self.requests.pages().take_poll(id));
        for token in ended {
            self.requests.wake_done(token, Outcome::failed(errno::EIO));
        }
        self.requests.pages().recalls().drop_client(id);
        self.requests.release_pages(self.clock.now());
        self.drop_from_namespace(id);
    }

    /// Releases what a request gave a client that had been released by then: the request had waited for others, and nobody would give that
    /// back.
    pub(super) fn release_what_came_late(&mut self, token: &Token) {
        let client = self.requests[token].sender.client;
        if !self.links.clients().holds(client) {
            self.drop_from_namespace(client);
        }
    }

    /// Releases the open files and turns of a client that is gone.
    fn drop_from_namespace(&mut self, client: ClientId) {
        for ino in self.namespace.appends().held_by(client) {
            #[cfg(any(test, feature = "world"))]
            if mutants::is(Mutant::TurnPassedUncut) {
                continue;
            }
            self.take_turn(ino, "its client is gone");
        }
        let departure = self.namespace.drop_client(client);
        // Where the journal does not take it, the client is released in memory alone.
        if self.commit_and_wake(&departure.decision).is_err() {
            self.durability.note_leftovers();
        }
        for (ino, handle) in departure.closed {
            let answers = self.locks.lose(ino, handle);
            self.answer_locks(answers);
        }
        for turn in departure.turns {
            self.pass_turn(turn);
        }
    }

    /// Takes append turns that others wait for and that are not renewed: their processes may be stopped.
    pub(super) fn expire_turns(&mut self) {
        let contested = self.namespace.appends().contested();
        for ino in self.requests.turns().overdue(contested, self.clock.now()) {
            self.take_turn(ino, &format!("it was not renewed for {} s", limits::TURN_LEASE_SECONDS));
        }
    }

    fn take_turn(&mut self, ino: Ino, why: &str) {
        let Some(taken) = self.namespace.take_turn(ino, self.clock.moment()) else { return };
        self.notices.tell(Notice::TurnTaken, self.clock.now(), || {
            format!("the append turn of inode {} is taken, as {why}", ino.0)
        });
        let committed = self.commit(&taken.decision);
        for Appender { client, request } in taken.waiting {
            let Some(token) = self.requests.take_waiting(client, request) else { continue };
            match (committed, taken.cut) {
                (Err(errno), _) => self.requests.wake_done(token, Outcome::failed(errno)),
                (Ok(()), Some(cut)) => self.continue_after(cut, Continued::AtOnce(token)),
                (Ok(()), None) => self.requests.wake(Woken::Continued(Continued::AtOnce(token))),
            }
        }
    }

    /// Ends the grace period: locks of before are given up, and so are files without a name that nobody reclaimed.
    pub(super) fn expire_grace(&mut self) {
        if self.clock.take_end_of_grace() {
            let answers = self.locks.end_grace();
            self.answer_locks(answers);
            self.expire_orphans();
            self.look_for_left_bytes();
        }
    }

    /// Gives up the ends of moves that keep others waiting for too long.
    pub(super) fn expire_moves(&mut self) {
        if let Some(decision) = self.namespace.expire_moves(self.clock.moment()) {
            // Where the journal does not take it, the move is given up at the next look.
            let _ = self.commit_and_wake(&decision);
        }
    }
}
