//! Requests that wait for an intent, and requests that wait no longer.

use super::order::Begun;
use super::request::{Outcome, Step, Token};
use crate::durability::Waiting;
use crate::namespace::{errno, Decision};

/// The step with which a request goes on when its intent is settled.
pub(crate) enum Continued {
    /// It is carried out again: its turn at its device has come already.
    Execute(Token),
    /// It is served again, at once.
    AtOnce(Token),
    /// The publication of a write that is done.
    Publish(Token, Box<Outcome>),
    /// The reply, which may wait for more intents.
    Reply(Token, Box<Outcome>, Box<Decision>),
}

/// A request that waits no longer, by the step that comes next.
pub(crate) enum Woken {
    /// Its step ended.
    Step(Step),
    /// Its intent is settled.
    Continued(Continued),
    /// The mounts have dropped their pages, and its reply is sent.
    Reply(Token, Outcome),
    /// The mounts have written their pages back, and it goes to its device.
    Route(Token),
    /// There may be room for it, and it is queued again.
    Enqueue(Token),
    /// It has begun on its object, and a worker carries it out.
    OnObject(Token, Begun),
    /// The journal is durable.
    Durable(Waiting),
}

impl Continued {
    /// The request.
    pub(crate) fn token(&self) -> &Token {
        match self {
            Continued::Execute(token)
            | Continued::AtOnce(token)
            | Continued::Publish(token, _)
            | Continued::Reply(token, _, _) => token,
        }
    }

    /// The request, which does not go on by this step.
    pub(crate) fn into_token(self) -> Token {
        match self {
            Continued::Execute(token)
            | Continued::AtOnce(token)
            | Continued::Publish(token, _)
            | Continued::Reply(token, _, _) => token,
        }
    }
}

impl Woken {
    /// A request that failed while it waited.
    pub(crate) fn failed(token: Token) -> Woken {
        Woken::Step(Step::Done(token, Outcome::failed(errno::EIO)))
    }
}
