//! The lines to the other servers, as a server sees them: a question goes out, and its answer comes back as an event.

use crate::error::ServerError;
use crate::namespace::PeerFailure;
use std::time::Duration;
use weir_placement::ServerId;
use weir_wire::{ClientId, Credential, PeerReply, PeerRequest, ServerAddress};

/// The lines to all other servers. No call waits for a peer.
pub trait Lines {
    /// Opens the line to a peer; the line connects when there is something to say.
    ///
    /// # Errors
    /// [`ServerError::Loop`] when the system refuses a thread.
    fn open(&mut self, server: ServerId, access: PeerAccess) -> Result<(), ServerError>;

    /// The peer is at another address from now on. A connection to its old place ends with the process there.
    fn redirect(&mut self, server: ServerId, address: String);

    /// Hands a question over. Exactly one answer comes back as [`Event::Peer`](crate::events::Event::Peer).
    fn ask(&mut self, server: ServerId, ask: Ask);

    /// The addresses of a peer of this host, as the peer announced them; none where it has not.
    fn announced(&self, server: ServerId) -> Option<ServerAddress>;
}

/// A question for a peer.
pub struct Ask {
    /// The number that the answer carries.
    pub question: u64,
    /// The question itself.
    pub request: PeerRequest,
    /// The bytes that go with it.
    pub payload: Vec<u8>,
    /// Tries go on for this long.
    pub patience: Duration,
}

/// The reply with its payload, the error number of a refusal, or nothing within the bound.
pub type Answer = Result<(PeerReply, Vec<u8>), PeerFailure>;

/// The way to find a peer and to convince it.
#[derive(Clone)]
pub struct PeerAccess {
    /// `host:port` from the configuration, where it names a port.
    pub configured: Option<String>,
    /// The proof of this server.
    pub credential: Credential,
    /// This server as a client of the peer.
    pub client: ClientId,
}
