//! Questions to other servers, and the report that they are told.

use super::Server;
use crate::error::ServerError;
use crate::links::claims;
use crate::peers::line::PeerAccess;
use crate::peers::Asked;
use std::time::Duration;
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_wire::{encode_body, ClientId, MachineLoad, PeerRequest, QuotaReport, ServerReport, StoreSettings};

/// Life of the credential with which a server meets its peers: as long as it runs.
const CREDENTIAL_SECONDS: u64 = 100 * 365 * 24 * 3600;
/// Only questions of the exchange have a payload.
const NO_PAYLOAD: Vec<u8> = Vec::new();

/// The report of a server that looked at nothing yet. Its start of number `boot` began at `started` in milliseconds of Unix time.
pub(super) fn empty_report(
    (server, boot): (ServerId, u64),
    started: u64,
    settings: StoreSettings,
) -> ServerReport {
    ServerReport {
        server,
        boot,
        started,
        sequence: 0,
        load: MachineLoad::default(),
        jobs: Vec::new(),
        targets: Vec::new(),
        placed: Vec::new(),
        settings,
        leaving: Vec::new(),
        quotas: QuotaReport::default(),
    }
}

impl Server {
    /// What was looked at makes a report that is newer than the one before. The limits of users and groups go along while a
    /// server that was heard of lately has others.
    pub(super) fn renew_report(&mut self) {
        let digest = self.exchange.own().quotas.limits_digest;
        let has_others = |other: &ServerReport| other.quotas.limits_digest != digest;
        let tells_limits = self.exchange.fresh(self.clock.now()).any(has_others);
        let agreed = self.membership.settings();
        let own = self.exchange.own_mut();
        own.settings = if tells_limits { agreed.clone() } else { agreed.without_quotas() };
        own.sequence += 1;
    }

    /// This server's report as it is sent.
    pub(super) fn encoded_report(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        encode_body(self.exchange.own(), &mut payload);
        payload
    }

    /// Tells every peer how this server is; an answer that comes after `until` is of no use any more.
    pub(super) fn tell_peers(&mut self, until: Nanos) {
        let peers = self.exchange.tell();
        if peers.is_empty() {
            return;
        }
        let payload = self.encoded_report();
        let patience = Duration::from(until.saturating_since(self.clock.now()));
        for server in peers {
            self.peers.look_up(server);
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

    /// Opens the line to another server of the configuration.
    ///
    /// # Errors
    /// As [`Server::meet_peers`].
    pub(super) fn meet(&mut self, server: ServerId) -> Result<(), ServerError> {
        let claims = claims::of_server(self.site.id, self.clock.wall_seconds(), CREDENTIAL_SECONDS);
        let configured = Some(self.membership.config().servers[usize::from(server.0)].listen.clone());
        let access = PeerAccess {
            configured: configured.filter(|address| !address.ends_with(":0")),
            credential: self.site.key().mint(claims),
            client: ClientId(self.site.boot),
        };
        self.peers.open(server, access)?;
        self.exchange.meet(server);
        Ok(())
    }
}
