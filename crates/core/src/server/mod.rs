//! The server: its parts, and the steps that need more than one of them.
//!
//! Each part is one struct with private fields, in a folder or a file of its own, and knows nothing of the server. The files
//! of this folder are the steps. A step calls the files below it in this list, never the files above it:
//!
//! | file | step |
//! |---|---|
//! | `events` | events from other threads, and the moments at which something is due |
//! | `visits` | visits to links: accepting, reading, sending |
//! | `reading` | from a frame to a request in hand |
//! | `handshake` | from a connection to a proved session |
//! | `driving` | requests that wait no longer, and the turns of devices |
//! | `routing` | from a request in hand to its device |
//! | `service` | the turn of a request at its device, and its payload |
//! | `execution` | carrying out a request, by the next three |
//! | `immediate` | requests that never wait behind others |
//! | `data` | bytes |
//! | `metadata` | names: decided, journaled, applied |
//! | `answering` | the reply, and the end of a link |
//! | `clients` | the holdings of clients that are gone |
//! | `locks` | locks and append turns |
//! | `vacancy` | new files that wait for room |
//! | `waiting` | a request that waits for an intent, and the end of its service |
//! | `observing` | the ends of windows |
//! | `showing`, `exchange`, `load` | reports to the control API, to other servers and to worlds |
//! | `handover` | the names of this server on their way to another host |
//! | `membership` | changes of servers, targets and settings |
//! | `placement` | reports of targets |
//! | `places` | the folders while the server runs |
//! | `recovery`, `confirmations` | the start, files that nobody has open since, and capabilities of files with other homes |
//! | `unpublished` | bytes behind the ends of files, cut off in the end |
//! | `mending` | repairs of the tree |
//! | `effects` | the work of targets and other servers for a decision |
//! | `pages` | kernel pages |
//! | `room` | writes that wait for room |
//! | `charges` | bytes behind the ends of files, before and after a write |
//! | `records`, `questions` | the journal, and the report and questions to other servers |
//!
//! A step that ends the wait of another request puts that request into [`Requests::wake`]; `driving` takes it on.

mod answering;
mod charges;
mod clients;
mod confirmations;
mod data;
mod driving;
mod effects;
mod events;
mod exchange;
mod execution;
mod handover;
mod handshake;
mod immediate;
#[cfg(any(test, feature = "world"))]
mod load;
mod locks;
mod membership;
mod mending;
mod metadata;
mod observing;
mod pages;
mod placement;
mod places;
mod questions;
mod reading;
mod records;
mod recovery;
mod room;
mod routing;
mod service;
mod showing;
mod unpublished;
mod vacancy;
mod visits;
mod waiting;

use crate::accounts::windows::Windows;
use crate::accounts::Accounts;
use crate::clock::{Clock, Time};
use crate::config::ClusterConfig;
use crate::control::showing::{Boards, Showing};
use crate::descriptors::Budget;
use crate::durability::Durability;
use crate::errands::{Errands, Workers};
use crate::error::ServerError;
use crate::home::{Home, Opened};
use crate::host::Host;
use crate::identity::Consent;
use crate::links::stream::Door;
use crate::links::Links;
use crate::locks::LockTable;
use crate::membership::Membership;
use crate::namespace::{Namespace, Settings};
use crate::notices::Notices;
use crate::peers::line::Lines;
use crate::peers::Peers;
use crate::requests::devices::Devices;
use crate::requests::Requests;
use crate::storage::Target;
use questions::empty_report;
use std::rc::Rc;
use std::sync::Arc;
use unpublished::Listings;
use weir_exchange::Exchange;
use weir_fairshare::Nanos;
use weir_placement::{ServerId, TargetId};
use weir_wire::{Room, ServerAddress, ServerReport, SiteKey};

/// One server of a store.
pub struct Server {
    site: Site,
    clock: Clock,
    links: Links,
    requests: Requests,
    targets: Vec<Target>,
    home: Box<dyn Home>,
    host: Box<dyn Host>,
    namespace: Namespace,
    durability: Durability,
    locks: LockTable,
    errands: Errands,
    membership: Membership,
    exchange: Exchange<ServerReport>,
    peers: Peers,
    accounts: Accounts,
    windows: Windows,
    notices: Notices,
    showing: Showing,
    listings: Listings,
}

/// Everything outside of a server that it calls. No call waits for another server or a client; answers and finished work come back as
/// events.
pub struct Outside {
    /// Its places.
    pub home: Box<dyn Home>,
    /// Its machine.
    pub host: Box<dyn Host>,
    /// Its lines to other servers.
    pub lines: Box<dyn Lines>,
    /// Its clocks.
    pub time: Arc<dyn Time>,
    /// Its workers.
    pub workers: Box<dyn Workers>,
}

/// The facts of a server.
struct Site {
    id: ServerId,
    /// The number of this start, which clients tell from an earlier one.
    boot: u64,
    /// The server and the site's key, for every connection over TCP.
    door: Rc<Door>,
}

impl Site {
    /// The site's key.
    fn key(&self) -> &SiteKey {
        &self.door.key
    }

    /// The name of a target here.
    fn target(&self, index: usize) -> TargetId {
        TargetId { server: self.id, index: index as u16 }
    }
}

impl Server {
    /// Opens targets and journal and replays it.
    ///
    /// # Errors
    /// [`ServerError`] for a target or journal that cannot be opened.
    pub fn open(
        config: ClusterConfig,
        id: ServerId,
        key: SiteKey,
        outside: Outside,
        budget: Budget,
        consent: Consent,
    ) -> Result<Server, ServerError> {
        let Outside { mut home, mut host, lines, time, workers } = outside;
        let membership = agree(config, id, &*home)?;
        let (config, sharing) = (membership.config(), membership.decided_sharing().clone());
        let mut boot = [0; 8];
        host.draw(&mut boot).map_err(|source| ServerError::Loop { what: "draw a boot number", source })?;
        let boot = u64::from_le_bytes(boot);
        let Opened { journal, reserve, targets, witnessed, is_restored } = home.open(config, consent)?;
        let door = Rc::new(Door { here: id, key });
        let settings = Settings {
            server: id,
            servers: (0..config.servers.len() as u16).map(ServerId).collect(),
            targets: config.targets(),
            layout: config.layout_defaults(),
            kept_bytes_max: host.namespace_bytes_max(config, id),
            key: door.key.clone(),
        };
        let mut namespace = Namespace::new(settings);
        namespace.files_mut().places_mut().placer_mut().set_allocator(config.layout.allocator);
        namespace
            .files_mut()
            .quotas_mut()
            .note_capacity(Room::of(targets.iter().map(Target::room)).capacity_bytes);
        let clock = Clock::start(Arc::clone(&time));
        let report = empty_report((id, boot), clock.started_milliseconds(), membership.settings().clone());
        let lambda = Nanos::from_millis(config.lambda_milliseconds);
        let mut server = Server {
            links: Links::new(&budget, sharing.policy()),
            requests: Requests::new(Devices::new(&config.servers[usize::from(id.0)], sharing, boot)),
            namespace,
            durability: Durability::new(reserve),
            locks: LockTable::default(),
            errands: Errands::new(workers),
            exchange: Exchange::new(report, lambda, Nanos::ZERO),
            peers: Peers::new(lines, clock.started_milliseconds() / 1000),
            accounts: Accounts::new(targets.len()),
            windows: Windows::new(Nanos::from(config.window), config.windows_kept, clock.started()),
            notices: Notices::default(),
            showing: Showing::default(),
            targets,
            home,
            host,
            clock,
            listings: Listings::default(),
            membership,
            site: Site { id, boot, door },
        };
        let effects = server.membership.put_in_force();
        server.put_in_force(effects);
        server.recover(journal, (consent.losses, witnessed), is_restored)?;
        server.home.watch(&server.targets)?;
        Ok(server)
    }

    /// Sets the time of this turn of the loop.
    pub fn read_clock(&mut self) {
        self.clock.read();
    }

    /// The time of this turn of the loop, since the server started.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// The places where snapshots for the control API are shown.
    pub fn boards(&self) -> Arc<Boards> {
        self.showing.boards()
    }

    /// Notes where this server listens.
    pub fn announce(&mut self, address: ServerAddress) {
        self.peers.note_address(self.site.id, address);
    }

    /// The limits of lines in the log.
    pub fn notices(&mut self) -> &mut Notices {
        &mut self.notices
    }
}

#[cfg(feature = "world")]
impl Server {
    /// The targets of a server whose process ends.
    pub fn into_targets(self) -> Vec<Target> {
        self.targets
    }
}

/// Brings the configuration to what the servers agreed on since.
///
/// # Errors
/// The configuration's fault.
fn agree(config: ClusterConfig, id: ServerId, home: &dyn Home) -> Result<Membership, ServerError> {
    let wrong = |what| ServerError::Configuration { path: home.path().to_path_buf(), what };
    Membership::open(id, config, home.own()).map_err(wrong)
}

/// Looks at the places of a server that is to start, and changes nothing.
///
/// # Errors
/// As [`Server::open`].
pub fn check(
    config: ClusterConfig,
    id: ServerId,
    home: &dyn Home,
    consent: Consent,
) -> Result<(), ServerError> {
    home.check(agree(config, id, home)?.config(), consent)
}
