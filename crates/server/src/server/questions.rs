//! Questions to other servers.

use super::Server;
use crate::peers::Asked;
use std::time::Duration;
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_wire::PeerRequest;

/// Only questions of the exchange have a payload.
const NO_PAYLOAD: Vec<u8> = Vec::new();

impl Server {
    /// Tells every peer how this server is; an answer that comes after `until` is of no use any more.
    pub(super) fn exchange(&mut self, until: Nanos) {
        let peers = self.peers.begin_exchange();
        if peers.is_empty() {
            return;
        }
        let payload = self.peers.encoded_report();
        let patience = Duration::from(until.saturating_since(self.clock.now()));
        for server in peers {
            let question = (server, PeerRequest::Exchange, payload.clone());
            self.peers.ask(question, patience, Asked::Exchange(server));
        }
    }

    /// Sends a request to a peer; the answer, or the absence of one, comes back for `asked`.
    pub(super) fn ask_peer(
        &mut self,
        server: ServerId,
        request: PeerRequest,
        patience: Duration,
        asked: Asked,
    ) {
        self.peers.ask((server, request, NO_PAYLOAD), patience, asked);
    }
}
