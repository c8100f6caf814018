//! Requests that found no room and wait for the room that pending removals will give, and the question to the other servers
//! whether such removals are pending there. Writes wait for their target, new files for any.

use super::request::Token;
use std::time::Duration;
use weir_fairshare::Nanos;

/// How long a write waits for room that was promised: some syncs of a device and a machine that are both busy.
pub(crate) const ROOM_WAIT: Nanos = Nanos::from_millis(30_000);
/// How long another server may take to say whether it is about to give room. It answers at once when it runs, and a
/// machine with ten times more to do than processors lets it run this late.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// Writes without room, and the question about it.
#[derive(Default)]
pub(crate) struct Room {
    waiting: Vec<Roomless>,
    /// The times that room was given here.
    given: u64,
    /// Questions that were put to the other servers: one is under way at a time, for all writes together.
    questions: u64,
    /// Answers to the last question that are awaited.
    unanswered: usize,
    asked_at: Nanos,
    /// The moment of the question before the last, where that question ended without a promise.
    denied_at: Option<Nanos>,
    /// Whether one of the answers promised room.
    is_promised: bool,
}

/// A write that waits for room since it first found none.
struct Roomless {
    since: Nanos,
    token: Token,
}

impl Room {
    /// Keeps a write that has found no room since this moment.
    pub(crate) fn wait(&mut self, token: Token, since: Nanos) {
        self.waiting.push(Roomless { since, token });
    }

    /// Room was given: returns all writes that wait for some.
    pub(crate) fn give(&mut self) -> Vec<Token> {
        self.given += 1;
        self.take_if(|_| true)
    }

    /// The times that room was given here. A try that began at another count does not know that there is none.
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// The writes that waited too long at `now`.
    pub(crate) fn take_overdue(&mut self, now: Nanos) -> Vec<Token> {
        self.take_if(|since| now.saturating_since(since) > ROOM_WAIT)
    }

    /// The writes that waited already when the question was put.
    pub(crate) fn take_asked_for(&mut self) -> Vec<Token> {
        let asked_at = self.asked_at;
        self.take_if(|since| since <= asked_at)
    }

    /// The requests that waited already when the question before the last was put, and it ended without a promise.
    pub(crate) fn take_denied(&mut self) -> Vec<Token> {
        let denied_at = self.denied_at;
        self.take_if(|since| denied_at.is_some_and(|denied_at| since <= denied_at))
    }

    /// The requests that wait and are chosen by their numbers.
    pub(crate) fn take_of(&mut self, is_chosen: impl Fn(usize) -> bool) -> Vec<Token> {
        let chosen = self.waiting.extract_if(.., |roomless| is_chosen(roomless.token.number()));
        chosen.map(|roomless| roomless.token).collect()
    }

    /// Whether requests wait.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the last question was put less than `pause` ago.
    pub(crate) fn is_recent(&self, now: Nanos, pause: Nanos) -> bool {
        self.questions > 0 && now.saturating_since(self.asked_at) < pause
    }

    /// This server itself promises room.
    pub(crate) fn promise(&mut self) {
        self.is_promised = true;
    }

    fn take_if(&mut self, is_over: impl Fn(Nanos) -> bool) -> Vec<Token> {
        let over = self.waiting.extract_if(.., |roomless| is_over(roomless.since));
        over.map(|roomless| roomless.token).collect()
    }

    /// Whether the question is to be put: writes wait, and no answer is awaited.
    pub(crate) fn wants_question(&self) -> bool {
        !self.waiting.is_empty() && self.unanswered == 0
    }

    /// The question is put to so many servers; answers its number.
    pub(crate) fn ask(&mut self, servers: usize, now: Nanos) -> u64 {
        self.denied_at = (self.questions > 0 && !self.is_promised).then_some(self.asked_at);
        self.questions += 1;
        (self.asked_at, self.is_promised, self.unanswered) = (now, false, servers);
        self.questions
    }

    /// A server answered question `question`; answers whether all have.
    pub(crate) fn answered(&mut self, question: u64, is_promised: bool) -> bool {
        if question != self.questions || self.unanswered == 0 {
            return false;
        }
        self.is_promised |= is_promised;
        self.unanswered -= 1;
        self.unanswered == 0
    }

    /// Ends the question where its answers are late; false where they are not.
    pub(crate) fn end_late_question(&mut self, now: Nanos) -> bool {
        let is_late = self.unanswered > 0 && now.saturating_since(self.asked_at) > Nanos::from(ANSWER_WAIT);
        if is_late {
            self.unanswered = 0;
        }
        is_late
    }

    /// Whether another server has promised room.
    pub(crate) fn is_promised(&self) -> bool {
        self.is_promised
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts a question to one server at `now`, which promises room or does not.
    fn ask(room: &mut Room, now: Nanos, is_promised: bool) {
        let question = room.ask(1, now);
        assert!(room.answered(question, is_promised));
    }

    fn numbers(tokens: &[Token]) -> Vec<usize> {
        tokens.iter().map(Token::number).collect()
    }

    /// A removal may end between the report of its target's server and the answer of its home.
    #[test]
    fn a_request_is_denied_room_by_two_questions_on_end() {
        let mut room = Room::default();
        room.wait(Token(1), Nanos(1));
        ask(&mut room, Nanos(1), false);
        assert!(room.take_denied().is_empty(), "one question");
        ask(&mut room, Nanos(2), true);
        ask(&mut room, Nanos(3), false);
        assert!(room.take_denied().is_empty(), "the question before ended with a promise");
        room.wait(Token(2), Nanos(4));
        ask(&mut room, Nanos(4), false);
        assert_eq!(numbers(&room.take_denied()), [1]);
        assert_eq!(numbers(&room.take_asked_for()), [2]);
    }

    #[test]
    fn the_first_question_is_put_at_once_and_the_next_after_a_pause() {
        let (mut room, pause) = (Room::default(), Nanos(10));
        assert!(!room.is_recent(Nanos(5), pause));
        ask(&mut room, Nanos(5), false);
        assert!(room.is_recent(Nanos(14), pause));
        assert!(!room.is_recent(Nanos(15), pause));
    }
}
