//! Locks and append turns: they are granted at once, or when another client gives them back.

use super::Server;
use crate::locks::{Answer, LockRequest, Outcome as Acquired};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::{errno, AppendGrant, Appender, Caller, NextTurn, TurnReply};
use crate::notices::Notice;
use crate::requests::continuation::Continued;
use crate::requests::request::{Outcome, Step, Token};
use std::rc::Rc;
use weir_wire::{
    Capability, ClientId, Errno, Fence, LockKind, LockType, Reply, Request, RequestId, Sequence,
};

impl Server {
    /// Takes or gives back a lock.
    pub(super) fn lock(&mut self, token: Token) -> Step {
        let mut asked = match self.lock_request(&token) {
            Ok(asked) => asked,
            Err(errno) => return Step::Done(token, Outcome::failed(errno)),
        };
        let is_late = asked.reclaim.is_some()
            && self.links.claims_late(self.requests[&token].sender.link, asked.client);
        if is_late {
            // Only a lock that the client still has is granted: the others were given back, or lost, since.
            asked.reclaim = Some(Fence::NONE);
        }
        let (acquired, answers) = match asked.reclaim {
            Some(_) if self.is_released(asked.client) => (Acquired::Failed(errno::ENOLCK), Vec::new()),
            _ => self.locks.acquire(&asked),
        };
        if asked.reclaim.is_some() && !is_late && matches!(acquired, Acquired::Failed(_)) {
            self.tell_of_lost_lock(&asked);
        }
        let step = match acquired {
            Acquired::Granted => Step::Done(token, Outcome::of(self.held_now())),
            Acquired::Failed(errno) => Step::Done(token, Outcome::failed(errno)),
            Acquired::Waiting => self.requests.wait_for_turn(token),
        };
        self.answer_locks(answers);
        step
    }

    /// Whether others may have had the locks of a client since.
    fn is_released(&self, client: ClientId) -> bool {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::ReleasesForgotten) {
            return false;
        }
        self.namespace.files().released().has(client)
    }

    fn tell_of_lost_lock(&mut self, claimed: &LockRequest) {
        self.notices.tell(Notice::LockLost, self.clock.now(), || {
            let (uid, pid, ino) = (claimed.uid, claimed.pid, claimed.ino.0);
            format!(
                "process {pid} of user {uid} lost its lock on inode {ino}, as its host was not heard for too long: its reads \
                 and writes through the locked descriptor fail (EIO) until it locks the file again"
            )
        });
    }

    /// The answer to a client that holds what it asked for.
    pub(super) fn held_now(&self) -> Reply {
        Reply::Held { fence: self.locks.fence() }
    }

    /// Whether a lock would be granted.
    pub(super) fn test_lock(&mut self, token: Token) -> Step {
        let reply = match self.lock_request(&token).and_then(|asked| self.locks.test(&asked)) {
            Ok(conflict) => Reply::Conflict(conflict),
            Err(errno) => Reply::Failed(errno),
        };
        Step::Done(token, Outcome::of(reply))
    }

    /// A client gives up waiting for a lock or an append turn.
    pub(super) fn cancel_lock(&mut self, token: Token, waiting: RequestId) -> Step {
        let client = self.requests[&token].sender.client;
        if let Some(waiter) = self.requests.take_waiting(client, waiting) {
            self.locks.cancel(client, waiting);
            self.requests.wake_done(waiter, Outcome::failed(errno::EINTR));
        }
        Step::Done(token, Outcome::of(Reply::Done))
    }

    /// The lock call of a request, through a description that its client holds and that allows it.
    fn lock_request(&self, token: &Token) -> Result<LockRequest, Errno> {
        let in_hand = &self.requests[token];
        let (client, request) = in_hand.key();
        let uid = in_hand.sender.acting.who.uid;
        // A test of a lock is a lock call that never waits, for a process that nobody is told of.
        let (description, what, (pid, wait, reclaim)) = match in_hand.request {
            Request::Lock { ino, handle, owner, pid, kind, lock, range, wait, reclaim } => {
                ((ino, handle, owner), (kind, lock, range), (pid, wait, reclaim))
            }
            Request::TestLock { ino, handle, owner, kind, lock, range } => {
                ((ino, handle, owner), (kind, lock, range), (0, false, None))
            }
            _ => return Err(errno::EINVAL),
        };
        let ((ino, handle, owner), (kind, lock, range)) = (description, what);
        let asked =
            LockRequest { client, uid, request, ino, handle, owner, pid, kind, lock, range, wait, reclaim };
        let rights = self.namespace.files().held(client, asked.ino, asked.handle).ok_or(errno::EBADF)?;
        // fcntl(2) asks for an open mode; flock(2) takes any descriptor.
        let is_allowed = match (asked.kind, asked.lock) {
            _ if matches!(in_hand.request, Request::TestLock { .. }) => true,
            (LockKind::Flock, _) | (_, LockType::Unlock) => true,
            (_, LockType::Read) => rights.read,
            (_, LockType::Write) => rights.write,
        };
        is_allowed.then_some(asked).ok_or(errno::EBADF)
    }

    /// Answers lock requests that waited.
    pub(super) fn answer_locks(&mut self, answers: Vec<Answer>) {
        for answer in answers {
            if let Some(token) = self.requests.take_waiting(answer.client, answer.request) {
                let reply = answer.result.map_or_else(Reply::Failed, |()| self.held_now());
                self.requests.wake_done(token, Outcome::of(reply));
            }
        }
    }

    /// A client asks for the append turn of a file.
    pub(super) fn begin_append(&mut self, token: Token, capability: &Capability) -> Step {
        if let Err(errno) = self.end_earlier_turn(&token, capability) {
            return Step::Done(token, Outcome::failed(errno));
        }
        match self.namespace.append_begin(&self.requests[&token].caller(), capability) {
            Ok(TurnReply::Now(reply)) => Step::Done(token, Outcome::of(reply)),
            Ok(TurnReply::Later) => self.requests.wait_for_turn(token),
            Ok(TurnReply::Wait(intent)) => self.away_until(intent, Continued::AtOnce(token)),
            Err(errno) => Step::Done(token, Outcome::failed(errno)),
        }
    }

    /// Has a file cut at its end before its first append since the start: the turns of before are forgotten, and their clients may
    /// still write. The append then waits for the cut.
    pub(super) fn end_earlier_turn(&mut self, token: &Token, capability: &Capability) -> Result<(), Errno> {
        let request = &self.requests[token];
        let acting = Rc::clone(&request.sender.acting);
        let caller = Caller { who: &acting.who, ..request.caller() };
        match self.namespace.end_earlier_turn(&caller, capability, self.clock.moment()) {
            Some(decision) => self.commit_and_wake(&decision),
            None => Ok(()),
        }
    }

    /// Answers the `AppendBegin` that has the turn now, or has those who wait ask again after a cut.
    pub(super) fn pass_turn(&mut self, next: NextTurn) {
        match next {
            NextTurn::Nobody => {}
            NextTurn::Granted(AppendGrant { appender, reply }) => {
                if let Some(token) = self.requests.take_appender(appender) {
                    self.requests.wake_done(token, Outcome::of(reply));
                }
            }
            NextTurn::AfterCut(cut, waiting) => {
                for Appender { client, request } in waiting {
                    if let Some(token) = self.requests.take_waiting(client, request) {
                        self.continue_after(cut, Continued::AtOnce(token));
                    }
                }
            }
        }
    }

    /// A client keeps its append turn.
    pub(super) fn renew_turn(&mut self, token: &Token, capability: &Capability, turn: Sequence) -> Reply {
        let caller = self.requests[token].caller();
        match self.namespace.append_renew(&caller, capability, turn) {
            Ok(()) => {
                self.requests.turns().renew(capability.ino, turn, self.clock.now());
                Reply::Done
            }
            Err(errno) => Reply::Failed(errno),
        }
    }
}
