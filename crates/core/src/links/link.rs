//! One accepted connection: its handshake, its session, and the requests in hand.

use super::clients::Introduction;
use super::connection::Connection;
use super::memory::LinkMemory;
use super::stream::Stream;
use crate::accounts::jobs::JobIdentity;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use weir_fairshare::JobAttributes;
use weir_placement::ServerId;
use weir_wire::{
    limits, Claims, ClientId, Identity, IdentityId, JobId, Nonce, RequestId, Role, SessionBinding,
};

/// The identity on whose behalf a request acts.
#[derive(Debug)]
pub(crate) struct Acting {
    pub(crate) who: Identity,
    pub(crate) job: JobId,
    pub(crate) attributes: JobAttributes,
    /// The job's entry in the job table; none for a server, which is no job.
    pub(crate) account: Option<Rc<JobIdentity>>,
    /// A mount of the administrator: the kernel led its callers to the inodes that it names.
    pub(crate) trusted: bool,
    /// Unix time after which nothing is done for the identity any more, in seconds.
    pub(crate) expires_seconds: u64,
}

/// The stage of a handshake.
pub(crate) enum Standing {
    /// Nothing was said.
    Fresh,
    /// The client has said who it is, and is to prove it.
    Challenged(Box<Challenge>),
    /// The client has proved who it is.
    Ready(Box<Session>),
}

/// The first half of a handshake.
pub(crate) struct Challenge {
    pub(crate) introduction: Introduction,
    pub(crate) claims: Claims,
    pub(crate) theirs: Nonce,
    pub(crate) ours: Nonce,
}

/// The owner of a connection. It has one at a time, so what an earlier one brings late is not carried out after what a later one brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum InSlot {
    /// A slot of a client.
    Client(ClientId, u16),
    /// Another server, whose every start is another client.
    Peer(ServerId),
}

/// A proved connection.
pub(crate) struct Session {
    pub(crate) client: ClientId,
    /// The client's slot for the connection.
    pub(crate) slot: u16,
    pub(crate) role: Role,
    pub(crate) own: Rc<Acting>,
    pub(crate) identities: HashMap<IdentityId, Rc<Acting>>,
    /// The session that proofs are made for.
    pub(crate) proved: SessionBinding,
    /// The user that the connection counts for; a mount's or a server's connection counts for none.
    pub(crate) user: Option<u32>,
    /// The server that this client is.
    pub(crate) peer: Option<ServerId>,
}

/// One accepted connection.
pub(crate) struct Link {
    connection: Connection,
    serial: u64,
    standing: Standing,
    /// Requests in hand, by their numbers.
    requests: HashSet<usize>,
    /// The request with payload that is still in the socket.
    receiving: Option<usize>,
    /// The link closes once its output is sent.
    is_closing: bool,
    /// The link has as many requests in hand as it may have, and is read again when it has fewer.
    pub(super) is_full: bool,
    /// The link waits in the queue of links that were held back.
    pub(super) is_held_back: bool,
    /// The link may have something to read.
    pub(super) is_ready: bool,
    /// The link may have replies to send, which wait for its turn.
    pub(super) is_dirty: bool,
    /// The link waits for its turn among the links.
    pub(super) is_queued: bool,
    pub(super) memory: LinkMemory,
    /// The slot of the last change that was carried out for the link.
    pub(super) executed: Option<u32>,
    /// Requests up to this one were sent before the link was there: some of them may have been carried out.
    pub(super) resent_up_to: RequestId,
    /// Its client claims on it what it held before.
    pub(super) is_claiming: bool,
}

/// The name of a link, which may be gone by now: its place, and the serial number that tells it from an earlier link there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkKey {
    pub(crate) index: usize,
    pub(crate) serial: u64,
}

impl Link {
    /// A connection that was just accepted.
    pub(crate) fn new(stream: Stream, serial: u64) -> Link {
        Link {
            connection: Connection::new(stream),
            serial,
            standing: Standing::Fresh,
            requests: HashSet::new(),
            receiving: None,
            is_closing: false,
            is_full: false,
            is_held_back: false,
            is_ready: false,
            is_dirty: false,
            is_queued: false,
            memory: LinkMemory::default(),
            executed: None,
            resent_up_to: RequestId(0),
            is_claiming: false,
        }
    }

    /// The connection.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// The number that tells this link from an earlier one in the same place.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// The stage of the handshake.
    pub(crate) fn standing(&mut self) -> &mut Standing {
        &mut self.standing
    }

    /// The proved session.
    pub(crate) fn session(&self) -> Option<&Session> {
        match &self.standing {
            Standing::Ready(session) => Some(session),
            _ => None,
        }
    }

    /// Requests that were read and whose replies have not left.
    pub(crate) fn in_hand(&self) -> usize {
        self.requests.len() + self.connection.unsent_replies()
    }

    /// Whether the link has as many requests in hand as it may have.
    pub(crate) fn has_enough(&self) -> bool {
        self.in_hand() >= limits::OUTSTANDING_PER_CONNECTION
    }

    /// Takes a request in hand; `is_detached` says whether its payload is still in the socket.
    pub(crate) fn begin_request(&mut self, number: usize, is_detached: bool) {
        self.requests.insert(number);
        if is_detached {
            self.receiving = Some(number);
        }
    }

    /// A request is answered.
    pub(crate) fn end_request(&mut self, number: usize) {
        self.requests.remove(&number);
    }

    /// The requests in hand, of a link that is gone.
    pub(crate) fn take_requests(&mut self) -> HashSet<usize> {
        std::mem::take(&mut self.requests)
    }

    /// The request with payload that is still in the socket.
    pub(crate) fn receiving(&self) -> Option<usize> {
        self.receiving
    }

    /// The payload in the socket is received.
    pub(crate) fn end_receiving(&mut self) {
        self.receiving = None;
    }

    /// Closes the link once its output is sent.
    pub(crate) fn close_when_sent(&mut self) {
        self.is_closing = true;
    }

    /// Whether the link closes once its output is sent.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// The memory that the link holds.
    pub(crate) fn memory(&self) -> &LinkMemory {
        &self.memory
    }
}

impl Session {
    /// The attributes of the connection's own job, for the policy.
    pub(crate) fn attributes(&self) -> JobAttributes {
        self.own.attributes
    }

    /// The connection's own job.
    pub(crate) fn job(&self) -> JobId {
        self.own.job
    }

    /// The slot in which a later connection takes the place of this one.
    pub(super) fn in_slot(&self) -> InSlot {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::StartsOfPeersShared) {
            return InSlot::Client(self.client, self.slot);
        }
        match self.peer {
            Some(server) => InSlot::Peer(server),
            None => InSlot::Client(self.client, self.slot),
        }
    }

    /// Whether the client is another server.
    pub(crate) fn is_peer(&self) -> bool {
        self.peer.is_some()
    }
}
