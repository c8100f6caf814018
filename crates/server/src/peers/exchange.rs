//! The lambda exchange: every interval each server tells its peers its job table and its loads.

use crate::error::ServerError;
use crate::links::peer_job;
use crate::peers::fairness::{device_number, portions};
use crate::peers::{announced, Answer, Ask, Peer, PeerAccess};
use crate::requests::metadata::Asked;
use crate::requests::service::{Outcome, Sink};
use crate::server::Server;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_wire::{
    decode_body, encode_body, Claims, ClientId, PeerReply, PeerRequest, Reply, Role, ServerReport,
};

/// With many jobs devices are divided less often, so that it takes at most this part of the loop's time.
const DIVISION_COST_FACTOR: u64 = 20;
/// Life of the credential with which a server meets its peers: as long as it runs.
const CREDENTIAL_SECONDS: u64 = 100 * 365 * 24 * 3600;

impl Server {
    /// Starts the threads that talk to the other servers.
    ///
    /// # Errors
    /// [`ServerError::Loop`] when the system refuses a thread.
    pub(crate) fn meet_peers(&mut self, home: &Path) -> Result<(), ServerError> {
        let now = self.wall_seconds();
        let credential = self.key.mint(Claims {
            job: peer_job(self.id),
            user: "weir".into(),
            group: "weir".into(),
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            nodes: 1,
            priority: 1,
            role: Role::Server,
            issued_seconds: now,
            expires_seconds: now + CREDENTIAL_SECONDS,
        });
        for (number, config) in self.config.servers.iter().enumerate() {
            let server = ServerId(number as u16);
            if server == self.id {
                continue;
            }
            let configured = Some(config.listen.clone()).filter(|address| !address.ends_with(":0"));
            let access = PeerAccess {
                home: home.to_path_buf(),
                configured,
                credential: credential.clone(),
                client: ClientId(self.boot),
            };
            self.peers.insert(server, Peer::start(server, access)?);
        }
        self.home = home.to_path_buf();
        self.resume_effects();
        Ok(())
    }

    /// Tells every peer how this server is; an answer that comes after `until` is of no use any more.
    pub(crate) fn exchange(&mut self, until: Nanos) {
        if self.peers.is_empty() {
            return;
        }
        let mut payload = Vec::new();
        encode_body(&self.report, &mut payload);
        let patience = Duration::from(until.saturating_since(self.now()));
        let peers: Vec<ServerId> = self.peers.keys().copied().collect();
        for server in peers {
            if !self.exchanging.insert(server) {
                continue;
            }
            if let Ok(address) = announced(&self.home, server) {
                self.addresses.insert(server, address);
            }
            self.ask_peer(server, PeerRequest::Exchange, payload.clone(), patience, Asked::Exchange(server));
        }
    }

    /// Sends a request to a peer; its answer, or its absence, comes back for `asked`.
    pub(crate) fn ask_peer(
        &mut self,
        server: ServerId,
        request: PeerRequest,
        payload: Vec<u8>,
        patience: Duration,
        asked: Asked,
    ) {
        let question = self.asked.insert(asked) as u64;
        let events = self.events.clone();
        let answer = Box::new(move |answer| events.send(crate::events::Event::Peer { question, answer }));
        match self.peers.get(&server) {
            Some(peer) => peer.ask(Ask { request, payload, until: Instant::now() + patience, answer }),
            None => answer(Err(crate::namespace::PeerFailure::Unreachable)),
        }
    }

    /// The answer to a report of this server.
    pub(crate) fn exchanged(&mut self, server: ServerId, answer: Answer) {
        self.exchanging.remove(&server);
        if let Ok((PeerReply::Report, payload)) = answer {
            self.take_report(&payload);
        }
    }

    /// Another server reports; it is answered with this one's report.
    pub(crate) fn serve_exchange(&mut self, token: usize) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        match std::mem::replace(&mut pending.sink, Sink::None) {
            Sink::Buffer { bytes, .. } => self.take_report(&bytes),
            _ => {
                let payload = std::mem::take(&mut pending.payload);
                self.take_report(&payload);
            }
        }
        let mut outcome = Outcome::of(Reply::Peer(PeerReply::Report));
        encode_body(&self.report, &mut outcome.payload);
        self.finish(token, outcome);
    }

    fn take_report(&mut self, payload: &[u8]) {
        let Ok(report) = decode_body::<ServerReport>(payload, "report") else { return };
        if report.server != self.id {
            let now = self.now();
            self.reports.take(report, now);
            self.divide_devices();
        }
    }

    /// Divides this server's devices by what all servers said last.
    pub(crate) fn divide_devices(&mut self) {
        let now = self.now();
        if now < self.next_division {
            return;
        }
        let reports: Vec<&ServerReport> =
            self.reports.fresh(now).chain(std::iter::once(&self.report)).collect();
        let mut divided = portions(&self.sharing, self.id, &reports);
        let metadata = self.devices.len() - 1;
        for (index, device) in self.devices.iter_mut().enumerate() {
            let number = device_number(index, metadata);
            device.set_portions(&divided.remove(&number).unwrap_or_default(), now);
        }
        let spent = self.clock_now().saturating_since(now);
        self.next_division = now + Nanos(DIVISION_COST_FACTOR * spent.0);
    }
}
