//! One request on its way to one server: it is sent over a connection, and over further ones under the same id where one
//! breaks, until the answer has come or the server counts as lost.

use crate::{Approach, Bounds, Standing};
use std::time::Duration;

/// Times that a request is sent again after its connection broke, before the server counts as lost. A request that
/// makes a server crash must not go on for ever.
const RESENDS_MAX: u32 = 8;
/// The bound on silence of all connections of one request together, in bounds on the silence of one. A connection that broke is
/// no sign of life, but the server may begin anew behind the break, and has the whole bound for that once.
const SILENCES_MAX: u32 = 2;

/// A request on its way.
#[derive(Debug)]
pub struct Delivery {
    pub(crate) bounds: Bounds,
    /// The moment at which the call began to wait for its server.
    began: Duration,
    /// The moment from which the silence on this connection counts, if the server was not heard since.
    since: Duration,
    /// The moment from which silence counts over all connections, if the server was not heard since.
    lived: Duration,
    /// Whether the request has stalled on this connection. Bytes that move before are in the kernel alone.
    has_stalled: bool,
    resends: u32,
    /// Whether the request is sent again over a new connection. Else it fails with the old connection.
    is_resent: bool,
}

/// The step after a stall, in which no bytes can move for the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// The call waits for its connection.
    Wait,
    /// The server is asked over another connection whether it lives, for this time at most. Then the call waits.
    Probe(Duration),
    /// The server has been silent for too long, which was this time.
    Lost(Duration),
}

/// The step after a break of the connection.
#[derive(Debug)]
pub enum Break {
    /// After this pause the request is sent again, from its first byte, over a connection that these attempts make.
    Resend(Duration, Approach),
    /// The server counts as lost.
    Lost,
    /// The request fails, and the server does not count as lost.
    Fail,
}

impl Delivery {
    /// A request of a call that begins to wait now.
    pub fn new(bounds: Bounds, now: Duration) -> Delivery {
        Delivery {
            bounds,
            began: now,
            since: now,
            lived: now,
            has_stalled: false,
            resends: 0,
            is_resent: true,
        }
    }

    /// Has the request fail with its connection.
    pub fn send_once(&mut self) {
        self.is_resent = false;
    }

    /// The moment at which the call began to wait for its server.
    pub fn began(&self) -> Duration {
        self.began
    }

    /// The attempts at the first connection, where the request has none yet.
    pub fn approach(&self, standing: &Standing, now: Duration) -> Approach {
        Approach::new(self.bounds, standing, now, now + self.bounds.silence)
    }

    /// The request has a connection, and is sent from its first byte.
    pub fn connected(&mut self, now: Duration) {
        self.has_stalled = false;
        self.since = match self.resends {
            // The time of connecting counts as silence, but each server keeps a quarter of the bound for its answer.
            0 => self.began.max(now.saturating_sub(self.bounds.silence / 4 * 3)),
            _ => now,
        };
    }

    /// No bytes can move for the moment. `moved` says whether some did since the stall before.
    pub fn stalled(&mut self, moved: bool, standing: &Standing, now: Duration) -> Stall {
        let has_stalled = std::mem::replace(&mut self.has_stalled, true);
        if moved {
            self.since = now;
            if has_stalled {
                self.lived = now;
            }
            return Stall::Wait;
        }
        let silence = self.bounds.silence_of(standing, now);
        let quiet = now.saturating_sub(self.since.max(standing.heard()));
        let left = silence.saturating_sub(quiet).min(self.over(standing).saturating_sub(now));
        if left.is_zero() {
            return Stall::Lost(quiet);
        }
        match quiet >= silence / 4 {
            true => Stall::Probe(left),
            false => Stall::Wait,
        }
    }

    /// The connection broke, or was refused and may be accepted now. The server knows the request by its id.
    pub fn broke(&mut self, standing: &Standing, now: Duration) -> Break {
        if !self.is_resent {
            return Break::Fail;
        }
        self.resends += 1;
        let until = self.over(standing);
        let pause = if self.resends > 1 { Duration::from_millis(1 << self.resends) } else { Duration::ZERO };
        if self.resends > RESENDS_MAX || now + pause >= until {
            return Break::Lost;
        }
        Break::Resend(pause, Approach::new(self.bounds, standing, now + pause, until))
    }

    /// The moment at which the silence over all connections is too long.
    fn over(&self, standing: &Standing) -> Duration {
        self.lived.max(standing.heard()) + self.bounds.silence * SILENCES_MAX
    }
}
