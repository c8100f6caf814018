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
//! | `pages`, `locks` | kernel pages, locks and append turns |
//! | `waiting` | a request that waits for an intent, and the end of its service |
//! | `observing` | the ends of windows |
//! | `showing`, `exchange` | reports to the control API and to other servers |
//! | `agreement` | settings of the whole store |
//! | `lease` | a sharing that is in force for a few seconds in place of the decided one |
//! | `retirement` | the retirement of this server |
//! | `membership` | targets and servers that join, targets that leave |
//! | `placement` | reports of targets |
//! | `places` | the folders, which a monitor looks after |
//! | `recovery`, `confirmations` | the start, and capabilities of files with other homes |
//! | `unpublished` | bytes behind the ends of files, cut off in the end |
//! | `mending` | repairs of the tree |
//! | `effects` | the work of targets and other servers for a decision |
//! | `room` | writes that wait for room |
//! | `charges` | bytes behind the ends of files, before and after a write |
//! | `records`, `questions` | the journal, and questions to other servers |
//!
//! A step that ends the wait of another request puts that request into [`Requests::wake`]; `driving` takes it on.

mod agreement;
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
mod lease;
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
mod retirement;
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
use crate::errands::Errands;
use crate::error::ServerError;
use crate::events::Events;
use crate::identity::{Consent, Identity, Monitor, Opened, Places};
use crate::journal::DirectoryStorage;
use crate::links::stream::Door;
use crate::links::Links;
use crate::locks::LockTable;
use crate::namespace::{Namespace, Settings};
use crate::namespace_memory;
use crate::notices::Notices;
use crate::peers::agreement::Agreement;
use crate::peers::Peers;
use crate::ports::TakenPort;
use crate::published::Publisher;
use crate::requests::devices::Devices;
use crate::requests::pages::Pages;
use crate::requests::Requests;
use crate::storage::Target;
use lease::Leased;
use membership::Leaving;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use unpublished::Listings;
use weir_fairshare::{Nanos, Sharing};
use weir_placement::{ServerId, TargetId};
use weir_wire::{Room, ServerAddress, SiteKey};

/// Object files that a target keeps open at least, where it joins a server that planned for none.
const OBJECTS_OPEN_MIN: usize = 16;

/// One server of a store.
pub(crate) struct Server {
    site: Site,
    clock: Clock,
    links: Links,
    requests: Requests,
    pages: Pages,
    devices: Devices,
    targets: Vec<Target>,
    /// None where nothing outlives the server.
    identity: Option<Identity>,
    monitor: Option<Monitor>,
    namespace: Namespace,
    durability: Durability,
    locks: LockTable,
    errands: Errands,
    peers: Peers,
    accounts: Accounts,
    windows: Windows,
    notices: Notices,
    showing: Showing,
    leaving: Leaving,
    listings: Listings,
    leased: Leased,
    /// The ports that other programs had when this server started.
    taken_ports: Vec<TakenPort>,
    /// None until the server listens.
    publisher: Option<Publisher>,
}

/// The facts of a server.
struct Site {
    id: ServerId,
    /// The number of this start, which clients tell from an earlier one.
    boot: u64,
    /// The server and the site's key, for every connection over TCP.
    door: Rc<Door>,
    /// The configuration, with the targets as they are now: the only part that changes.
    config: ClusterConfig,
    /// Folder of the store's files on this host.
    home: PathBuf,
    /// Folder of the server's own files.
    folder: PathBuf,
    /// Object files that a target in a directory keeps open.
    objects_open: usize,
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
    pub(crate) fn open(
        mut config: ClusterConfig,
        id: ServerId,
        (home, folder): (&Path, &Path),
        key: SiteKey,
        (events, time): (Events, Arc<dyn Time>),
        budget: Budget,
        consent: Consent,
    ) -> Result<Server, ServerError> {
        let wrong = |what| ServerError::Configuration { path: folder.to_path_buf(), what };
        let (sharing, agreement) = agree(&mut config, id, folder).map_err(wrong)?;
        let own = &config.servers[usize::from(id.0)];
        let boot = draw_boot()?;
        let places = Places::of((id, own), config.is_durable(), home, &key);
        // Nothing is written beside a place that is not the right one.
        places.check(consent)?;
        let durability = Durability::prepare(folder, config.is_durable())
            .map_err(|source| ServerError::Io { what: "open", path: folder.to_path_buf(), source })?;
        let door = Rc::new(Door { here: id, key });
        let objects_open = budget.objects.max(OBJECTS_OPEN_MIN);
        let Opened { identity, journal, targets, witnessed } = places.open(consent)?;
        let targets = own.targets.iter().enumerate().zip(targets);
        let targets = targets
            .map(|((index, target), place)| Target::open(target, index, place, objects_open, &time))
            .collect::<Result<Vec<Target>, ServerError>>()?;
        let settings = Settings {
            server: id,
            servers: (0..config.servers.len() as u16).map(ServerId).collect(),
            targets: config.targets(),
            layout: config.layout_defaults(),
            kept_bytes_max: namespace_memory::bytes_max(&config, id),
            key: door.key.clone(),
        };
        let mut namespace = Namespace::new(settings);
        namespace.placer_mut().set_allocator(config.layout.allocator);
        namespace.note_capacity(Room::of(targets.iter().map(Target::room)).capacity_bytes);
        let clock = Clock::start(Arc::clone(&time));
        let lambda = Nanos::from_millis(config.lambda_milliseconds);
        let mut server = Server {
            links: Links::new(&budget, sharing.policy()),
            requests: Requests::default(),
            pages: Pages::default(),
            leased: Leased::new(sharing.clone()),
            devices: Devices::new(own, sharing, boot),
            namespace,
            durability,
            locks: LockTable::default(),
            errands: Errands::start(events, Arc::clone(&time))?,
            peers: Peers::new(id, boot, clock.started_milliseconds(), lambda, agreement),
            accounts: Accounts::new(targets.len()),
            windows: Windows::new(Nanos::from(config.window), config.windows_kept, clock.started()),
            notices: Notices::default(),
            showing: Showing::default(),
            targets,
            identity,
            monitor: None,
            clock,
            leaving: Leaving::default(),
            listings: Listings::default(),
            taken_ports: Vec::new(),
            publisher: None,
            site: Site { id, boot, door, config, home: home.into(), folder: folder.into(), objects_open },
        };
        server.put_settings_in_force();
        server.recover(folder, journal, (consent.losses, witnessed))?;
        server.watch_places()?;
        Ok(server)
    }

    /// Sets the time of this turn of the loop.
    pub(crate) fn read_clock(&mut self) {
        self.clock.read();
    }

    /// The time of this turn of the loop, since the server started.
    pub(crate) fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// The places where snapshots for the control API are shown.
    pub(crate) fn boards(&self) -> Arc<Boards> {
        self.showing.boards()
    }

    /// Notes where this server listens.
    pub(crate) fn announce(&mut self, address: ServerAddress) {
        self.peers.note_address(self.site.id, address);
    }

    /// The limits of lines in the log.
    pub(crate) fn notices(&mut self) -> &mut Notices {
        &mut self.notices
    }
}

/// Brings the configuration to what the servers agreed on since.
///
/// # Errors
/// The configuration's fault, in words.
fn agree(config: &mut ClusterConfig, id: ServerId, folder: &Path) -> Result<(Sharing, Agreement), String> {
    let sharing = config.sharing()?;
    let agreement = Agreement::open(DirectoryStorage::at(folder), id.0, config.settings(&sharing));
    let filed = config.servers[usize::from(id.0)].place();
    config.take_records(agreement.settings())?;
    // A server is where its file says, wherever it was before.
    config.servers[usize::from(id.0)].put_at(filed);
    Ok((sharing, agreement))
}

/// Looks at the places of a server that is to start, and changes nothing.
///
/// # Errors
/// As [`Server::open`].
pub(crate) fn check(
    mut config: ClusterConfig,
    id: ServerId,
    home: &Path,
    key: &SiteKey,
    consent: Consent,
) -> Result<(), ServerError> {
    let folder = home.join(format!("servers/{id}"));
    let wrong = |what| ServerError::Configuration { path: folder.clone(), what };
    agree(&mut config, id, &folder).map_err(wrong)?;
    Places::of((id, &config.servers[usize::from(id.0)]), config.is_durable(), home, key).check(consent)
}

/// A number that no earlier start had.
fn draw_boot() -> Result<u64, ServerError> {
    let mut boot = [0; 8];
    let random = rustix::rand::getrandom(&mut boot, rustix::rand::GetRandomFlags::empty());
    random.map_err(|errno| ServerError::Loop { what: "draw a boot number", source: errno.into() })?;
    Ok(u64::from_le_bytes(boot))
}
