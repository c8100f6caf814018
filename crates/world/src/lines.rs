//! The lines between servers of a world: one question after the other, as the product's lines have it.

use super::agenda::{Agenda, Happening};
use super::client::Ticket;
use super::session::{Answered, Session};
use std::collections::VecDeque;
use weir_core::events::Event;
use weir_core::namespace::PeerFailure;
use weir_core::peers::line::{Answer, Ask};
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_wire::{Reply, Request};

/// The line of one start of a server to another server.
pub(super) struct Line {
    from: usize,
    life: u64,
    to: ServerId,
    session: usize,
    /// Questions with the moments at which they are given up. The first one is under way, if its flag says so.
    queue: VecDeque<(Ask, Nanos)>,
    is_asking: bool,
    asked: u64,
}

impl Line {
    pub(super) fn new((from, life): (usize, u64), to: ServerId, session: usize) -> Line {
        Line { from, life, to, session, queue: VecDeque::new(), is_asking: false, asked: 0 }
    }

    pub(super) fn is_of(&self, from: usize, life: u64, to: ServerId) -> bool {
        (self.from, self.life, self.to) == (from, life, to)
    }

    pub(super) fn is_from(&self, from: usize, life: u64) -> bool {
        (self.from, self.life) == (from, life)
    }

    /// The process of the line is gone.
    pub(super) fn end_all(&mut self, session: &mut Session) {
        self.queue.clear();
        self.is_asking = false;
        session.give_up();
    }

    pub(super) fn session(&self) -> usize {
        self.session
    }

    /// Takes a question on.
    pub(super) fn ask(&mut self, ask: Ask, agenda: &Agenda) {
        let until = agenda.now() + Nanos::from(ask.patience);
        agenda.add(until, Happening::Look { session: self.session });
        self.queue.push_back((ask, until));
    }

    /// The session has looked at its connection.
    pub(super) fn look(&mut self, session: &mut Session, answered: Option<Answered>, agenda: &Agenda) {
        if let Some((reply, payload)) = answered.filter(|_| self.is_asking) {
            self.end(
                agenda,
                match reply {
                    Reply::Peer(reply) => Ok((reply, payload)),
                    Reply::Failed(errno) => Err(PeerFailure::Refused(errno)),
                    _ => Err(PeerFailure::Unreachable),
                },
            );
        }
        self.go_on(session, agenda);
    }

    fn end(&mut self, agenda: &Agenda, answer: Answer) {
        self.is_asking = false;
        let Some((ask, _)) = self.queue.pop_front() else { return };
        let event = Event::Peer { question: ask.question, answer };
        agenda.add(
            agenda.now(),
            Happening::Event { server: self.from, life: self.life, event: Box::new(event) },
        );
    }

    /// Gives up the question whose time is over, and asks the next one.
    pub(super) fn go_on(&mut self, session: &mut Session, agenda: &Agenda) {
        while self.queue.front().is_some_and(|(_, until)| *until <= agenda.now()) {
            if self.is_asking {
                session.give_up();
            }
            self.end(agenda, Err(PeerFailure::Unreachable));
        }
        if let Some((ask, _)) = self.queue.front().filter(|_| !self.is_asking) {
            self.is_asking = true;
            self.asked += 1;
            let ticket = Ticket { worker: 0, number: self.asked };
            session.begin(ticket, Request::Peer(ask.request.clone()), ask.payload.clone());
        }
    }
}
