//! New files that find no target with room: the reports of an exchange ago may be wrong by now, so every server that may be up
//! is asked for its present room before a file is refused. A silent server that answers takes files again.
//!
//! A file waits as a write does ([`ROOM_WAIT`]) while a server has removals under way that give room. A server's report may be
//! older than the end of a removal elsewhere, so a file is refused only after two questions on end without a promise. Questions
//! are [`HELD_LOOK`] apart, so that refused files cost the other servers little.

use super::waiting::HELD_LOOK;
use super::Server;
use crate::namespace::errno;
use crate::peers::line::Answer;
use crate::peers::Asked;
use crate::requests::continuation::{Continued, Woken};
use crate::requests::request::{Outcome, Step, Token};
use crate::requests::room::{ANSWER_WAIT, ROOM_WAIT};
use weir_placement::online::Refusal;
use weir_wire::{PeerReply, PeerRequest, Reply};

impl Server {
    /// Keeps a request whose new file finds no room until all servers have told their present room.
    pub(super) fn wait_for_vacancy(&mut self, token: Token) -> Step {
        let Some(since) = self.requests[&token].want_room(self.clock.now(), ROOM_WAIT) else {
            return Step::Done(token, Outcome::failed(errno::ENOSPC));
        };
        self.namespace.files().places().placer().retract(Refusal::Full);
        self.begin_wait(&token);
        self.requests.vacancy().wait(token, since);
        self.ask_for_vacancy();
        Step::Away
    }

    /// Asks the other servers for their present room, while new files wait for some.
    pub(super) fn ask_for_vacancy(&mut self) {
        let now = self.clock.now();
        let vacancy = self.requests.vacancy();
        if !vacancy.wants_question() || vacancy.is_recent(now, HELD_LOOK) {
            return;
        }
        let homes = self.exchange.maybe_up(now);
        let question = self.requests.vacancy().ask(homes.len(), now);
        self.hurry_removals(|_| true);
        for &home in &homes {
            self.ask_peer(home, PeerRequest::Vacancy, ANSWER_WAIT, Asked::Vacancy(question));
        }
        if homes.is_empty() {
            self.end_vacancy_question();
        }
    }

    /// A new file of another server finds no room anywhere.
    pub(super) fn serve_vacancy_question(&mut self, token: Token) -> Step {
        let is_promised = self.will_give_room(|_| true);
        self.hurry_removals(|_| true);
        self.report_targets();
        self.renew_report();
        let reply = Outcome::of(Reply::Peer(PeerReply::Room { is_promised }));
        Step::Done(token, Outcome { payload: self.encoded_report(), ..reply })
    }

    /// Another server told its room, or did not answer in time.
    pub(super) fn vacancy_answered(&mut self, question: u64, answer: &Answer) {
        let mut is_promised = false;
        if let Ok((PeerReply::Room { is_promised: promised }, report)) = answer {
            is_promised = *promised;
            self.take_report(report);
        }
        if self.requests.vacancy().answered(question, is_promised) {
            self.end_vacancy_question();
        }
    }

    /// New files that waited too long try for the last time, also where the answers of others are late.
    pub(super) fn expire_unplaced(&mut self) {
        let now = self.clock.now();
        let overdue = self.requests.vacancy().take_overdue(now);
        self.requests.try_again(overdue, true, place);
        if self.requests.vacancy().end_late_question(now) {
            self.end_vacancy_question();
        }
    }

    /// All have answered: the files try again by the present figures.
    fn end_vacancy_question(&mut self) {
        if self.will_give_room(|_| true) {
            self.requests.vacancy().promise();
        }
        self.report_targets();
        self.refresh_placement();
        if !self.requests.vacancy().is_promised() {
            let denied = self.requests.vacancy().take_denied();
            self.requests.try_again(denied, true, place);
        }
        let asked = self.requests.vacancy().take_asked_for();
        self.requests.try_again(asked, false, place);
    }
}

/// A new file is placed anew.
fn place(token: Token) -> Woken {
    Woken::Continued(Continued::Execute(token))
}
