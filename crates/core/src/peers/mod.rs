//! The other servers of the store: the lines to them, their addresses, and the questions that were put to them.

pub(crate) mod confirmations;
pub mod line;
pub(crate) mod objects;

use crate::error::ServerError;
use crate::namespace::{Continuation, Effect};
use crate::requests::request::Token;
use confirmations::Confirmations;
use line::{Ask, Lines, PeerAccess};
use objects::{News, ObjectsElsewhere};
use slab::Slab;
use std::collections::HashMap;
use std::time::Duration;
use weir_placement::ServerId;
use weir_wire::{Capability, PeerRequest, ServerAddress};

/// The other servers.
pub(crate) struct Peers {
    lines: Box<dyn Lines>,
    /// The addresses of all servers that are known, this one's among them.
    addresses: HashMap<ServerId, ServerAddress>,
    asked: Slab<Asked>,
    confirmations: Confirmations,
    objects: ObjectsElsewhere,
}

/// A question to a peer, by the purpose of its answer.
pub(crate) enum Asked {
    /// The lambda exchange.
    Exchange(ServerId),
    /// An effect of a decision.
    Effect(Box<Effect>),
    /// The worth of capabilities of the peer's files.
    Confirm(ServerId, Vec<Capability>),
    /// The paid ends of objects here.
    ObjectsHeld(ServerId, Box<News>),
    /// Whether removals decided there are about to give room here, by the number of the question.
    Room(u64),
    /// The room on all targets there, and whether removals decided there are about to give more, by the number of the question.
    Vacancy(u64),
    /// A request that depends on the answer.
    Request(Token, Box<Continuation>),
}

impl Peers {
    /// No peer is known yet at the start, which was at this Unix time.
    pub(crate) fn new(lines: Box<dyn Lines>, started_seconds: u64) -> Peers {
        Peers {
            lines,
            addresses: HashMap::new(),
            asked: Slab::new(),
            confirmations: Confirmations::new(started_seconds),
            objects: ObjectsElsewhere::default(),
        }
    }

    /// Opens the line to a peer.
    ///
    /// # Errors
    /// As [`Lines::open`].
    pub(crate) fn open(&mut self, server: ServerId, access: PeerAccess) -> Result<(), ServerError> {
        self.lines.open(server, access)
    }

    /// A server is at another address.
    pub(crate) fn redirect(&mut self, server: ServerId, address: ServerAddress) {
        self.lines.redirect(server, address.tcp.clone());
        self.addresses.insert(server, address);
    }

    /// Notes where a server listens.
    pub(crate) fn note_address(&mut self, server: ServerId, address: ServerAddress) {
        self.addresses.insert(server, address);
    }

    /// The addresses of all servers that are known, by their numbers.
    pub(crate) fn addresses(&self) -> Vec<ServerAddress> {
        let mut servers: Vec<_> = self.addresses.values().cloned().collect();
        servers.sort_by_key(|address| address.server);
        servers
    }

    /// Sends a request to a peer; the answer, or the absence of one, comes back as an event for `asked`.
    pub(crate) fn ask(
        &mut self,
        (server, request, payload): (ServerId, PeerRequest, Vec<u8>),
        patience: Duration,
        asked: Asked,
    ) {
        let question = self.asked.insert(asked) as u64;
        self.lines.ask(server, Ask { question, request, payload, patience });
    }

    /// The purpose of a question that is answered.
    pub(crate) fn take_asked(&mut self, question: u64) -> Option<Asked> {
        self.asked.try_remove(question as usize)
    }

    /// Questions whose answers are awaited.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &Asked> {
        self.asked.iter().map(|(_, asked)| asked)
    }

    /// The capabilities of files with other homes.
    pub(crate) fn confirmations(&mut self) -> &mut Confirmations {
        &mut self.confirmations
    }

    /// The objects here of files with other homes.
    pub(crate) fn objects(&mut self) -> &mut ObjectsElsewhere {
        &mut self.objects
    }

    /// The objects here of files with other homes, to look at.
    pub(crate) fn objects_here(&self) -> &ObjectsElsewhere {
        &self.objects
    }

    /// Looks up again the address that a peer announced.
    pub(crate) fn look_up(&mut self, server: ServerId) {
        if let Some(address) = self.lines.announced(server) {
            self.addresses.insert(server, address);
        }
    }
}
