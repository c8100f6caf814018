//! Visits to links: connections are accepted, requests are read, and replies are sent.

use super::answering::release_tail;
use super::Server;
use crate::clock::TimeLimit;
use crate::links::admission::Origin;
use crate::links::memory::IDLE_MAX;
use crate::links::socket::Socket;
use crate::links::stream::Stream;
use crate::notices::Notice;
use crate::requests::request::InHand;
use crate::storage::Target;
use weir_fairshare::Nanos;

/// Links are read for this long in one turn of the loop, and replies sent for as long: a turn stays near a millisecond,
/// so that a newcomer is seen soon.
const LINKS_TURN: Nanos = Nanos::from_micros(250);
/// Bytes sent to a link before another has its turn: as much as a socket takes at once.
const SENT_PER_VISIT: usize = 1 << 20;

impl Server {
    /// Takes a connection in.
    pub fn accept(&mut self, socket: Box<dyn Socket>, origin: Origin) {
        let now = self.clock.now();
        let stream = Stream::new(socket, &self.site.door);
        let (index, turned_away) = self.links.accept(stream, origin, now);
        if let Some(key) = turned_away {
            self.notices.tell(Notice::TurnedAway, now, || {
                format!("too many connections are not proved; one from {origin} is turned away")
            });
            self.close_link(key.index);
        }
        if self.links.enlist(index).is_err() {
            self.close_link(index);
        }
    }

    /// Lets go of a descriptor that is not needed: a stranger's, or that of an object file that nobody uses now.
    pub fn free_descriptor(&mut self) -> bool {
        let stranger = self.links.admission().first_to_go();
        if let Some(key) = stranger {
            self.close_link(key.index);
        }
        let has_closed = self.targets.iter_mut().any(Target::close_idle_object);
        stranger.is_some() || has_closed
    }

    /// The loop is told of a link.
    pub fn link_ready(&mut self, index: usize, is_readable: bool, has_ended: bool) {
        let Some(link) = self.links.get_mut(index) else { return };
        if is_readable || has_ended {
            link.connection().mark_readable(has_ended);
            match link.receiving() {
                Some(number) => {
                    self.payload_arrived(number);
                    self.take_on_woken();
                }
                None => self.links.make_ready(index),
            }
        }
        self.links.make_dirty(index);
    }

    /// Reads links that are ready, until all are read or the time for it is over.
    pub(crate) fn read_links(&mut self) {
        let limit = self.clock.limit(LINKS_TURN);
        let ready = self.links.take_ready();
        self.visit(ready, limit, Server::read_ready);
    }

    /// Sends replies, until all are sent or the time for it is over.
    pub(crate) fn flush_links(&mut self) {
        let limit = self.clock.limit(LINKS_TURN);
        let dirty = self.links.take_dirty();
        self.visit(dirty, limit, Server::send_dirty);
    }

    /// Visits links: in their own order while none is left over from earlier, else in that of the policy.
    fn visit(&mut self, links: Vec<usize>, limit: TimeLimit, serve: fn(&mut Server, usize)) {
        let mut links = links.into_iter();
        while self.links.visits().is_calm() {
            let Some(index) = links.next() else { return };
            serve(self, index);
            if self.clock.is_over(limit) {
                break;
            }
        }
        let now = self.clock.now();
        for index in links {
            if self.links.queue_visit(index, now) {
                self.serve_link(index);
            }
        }
        let mut before = self.clock.within_step();
        while !limit.is_reached(before) {
            let Some(visit) = self.links.visits().take_next(now) else { return };
            self.serve_link(visit.token.0 as usize);
            let after = self.clock.within_step();
            self.links.visits().end(&visit, after.saturating_since(before), now);
            before = after;
        }
    }

    fn serve_link(&mut self, index: usize) {
        self.links.begin_visit(index);
        self.send_dirty(index);
        self.read_ready(index);
    }

    /// Reads a link that is ready.
    fn read_ready(&mut self, index: usize) {
        let Some(link) = self.links.take_to_read(index) else { return };
        match link.receiving() {
            Some(number) => self.receive_unqueued(number),
            None => self.read_link(index),
        }
        self.take_on_woken();
    }

    /// Sends replies of a link that has some.
    fn send_dirty(&mut self, index: usize) {
        if !self.links.take_to_send(index) {
            return;
        }
        let mut sent = Vec::new();
        let stays_open = self.links.send(index, &self.targets, SENT_PER_VISIT, &mut sent);
        for tail in sent {
            release_tail(&mut self.targets, tail);
        }
        if !stays_open {
            self.close_link(index);
        }
    }

    /// Closes links that keep memory from others and do nothing with it.
    pub(super) fn expire_holders(&mut self) {
        let now = self.clock.now();
        let requests = &self.requests;
        let is_starved = |number: usize| requests.get(number).is_some_and(InHand::is_starved);
        for index in self.links.idle_holders(now, is_starved) {
            let seconds = IDLE_MAX.0 / 1_000_000_000;
            self.notices.tell(Notice::MemoryKept, now, || {
                format!("a connection is closed that kept memory from others of its job for {seconds} s")
            });
            self.close_link(index);
        }
    }
}
