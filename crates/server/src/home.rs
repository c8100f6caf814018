//! The folders of a server in the file system of its host.

use crate::folder::Folder;
use crate::identity::{Identity, Monitor, Places};
use crate::journal::DirectoryStorage;
use crate::mapped::MappedArena;
use crate::published::Publisher;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use weir_core::config::{BackendKind, ClusterConfig, Place, TargetConfig};
use weir_core::error::ServerError;
use weir_core::home::{Home, Joined, Joining, LeavingNames, Looks, Opened};
use weir_core::identity::{Consent, IdentityStatus};
use weir_core::journal::{JournalError, Storage};
use weir_core::notices::warning;
use weir_core::storage::{Dir, Directory, Reserve, Stamp, Target, TargetFolder};
use weir_placement::ServerId;
use weir_wire::{SiteKey, TargetState};

/// Object files that a target keeps open at least, where it joins a server that planned for none.
const OBJECTS_OPEN_MIN: usize = 16;

/// The folders of one server.
pub(crate) struct Folders {
    server: ServerId,
    key: SiteKey,
    /// Folder of the store's files on this host.
    home: PathBuf,
    /// Folder of the server's own files.
    folder: PathBuf,
    /// Object files that a target in a directory keeps open.
    objects_open: usize,
    /// None where nothing outlives the server.
    identity: Arc<OnceLock<Identity>>,
    monitor: Option<Monitor>,
    /// None until the server listens.
    publisher: Option<Publisher>,
}

impl Folders {
    /// The folders of a server in the store's folder `home`. Each target in a directory keeps up to `objects_open` files open.
    pub(crate) fn of((server, key): (ServerId, &SiteKey), home: &Path, objects_open: usize) -> Folders {
        Folders {
            server,
            key: key.clone(),
            home: home.to_path_buf(),
            folder: home.join(format!("servers/{server}")),
            objects_open: objects_open.max(OBJECTS_OPEN_MIN),
            identity: Arc::default(),
            monitor: None,
            publisher: None,
        }
    }

    fn places(&self, config: &ClusterConfig, is_durable: bool) -> Places {
        let own = &config.servers[usize::from(self.server.0)];
        Places::of((self.server, own), is_durable, &self.home, &self.key)
    }

    fn leaving(&self) -> PathBuf {
        self.folder.join("names")
    }

    fn arrived(&self) -> PathBuf {
        self.folder.join("arrived")
    }
}

impl Home for Folders {
    fn own(&self) -> Arc<dyn Storage> {
        DirectoryStorage::at(&self.folder)
    }

    fn path(&self) -> &Path {
        &self.folder
    }

    fn check(&self, config: &ClusterConfig, consent: Consent) -> Result<(), ServerError> {
        self.places(config, config.is_durable()).check(consent)
    }

    fn open(&mut self, config: &ClusterConfig, consent: Consent) -> Result<Opened, ServerError> {
        let places = self.places(config, config.is_durable());
        places.check(consent)?;
        let reserve = match config.is_durable() {
            true => Some(Folder::found(&self.folder).map(|folder| Reserve::open(Arc::new(folder)))),
            false => None,
        };
        let mut reserve = reserve.transpose().map_err(|source| ServerError::Io {
            what: "open",
            path: self.folder.clone(),
            source,
        })?;
        if let Some(reserve) = &mut reserve {
            reserve.make_room_to_start();
        }
        let opened = places.open(consent)?;
        self.identity = Arc::new(opened.identity.map_or_else(OnceLock::new, OnceLock::from));
        let own = &config.servers[usize::from(self.server.0)];
        let targets = own.targets.iter().enumerate().zip(opened.targets);
        let targets =
            targets.map(|((index, target), place)| open_target((index, target), place, self.objects_open));
        let targets = targets.collect::<Result<Vec<Target>, ServerError>>()?;
        let (witnessed, is_restored) = (opened.witnessed, opened.is_restored);
        Ok(Opened { journal: opened.journal, reserve, targets, witnessed, is_restored })
    }

    fn settle(&self, durable: u64) -> Result<(), ServerError> {
        self.identity.get().map_or(Ok(()), |identity| identity.settle(durable))
    }

    fn watch(&mut self, targets: &[Target]) -> Result<(), ServerError> {
        if let Some(identity) = self.identity.get() {
            let targets = targets.iter().enumerate().filter_map(|(number, target)| watched(number, target));
            self.monitor = Some(Monitor::start(identity, targets.collect())?);
        }
        Ok(())
    }

    fn look(&self, durable: Option<u64>) -> Looks {
        let Some(monitor) = &self.monitor else { return Looks::default() };
        if let Some(durable) = durable {
            monitor.note_durable(durable);
        }
        monitor.looks()
    }

    fn close(&mut self, durable: Option<u64>) {
        // The thread lets go of the stamps first.
        self.monitor = None;
        if let (Some(identity), Some(durable)) = (self.identity.get(), durable) {
            identity.close(durable);
        }
    }

    fn identity(&self) -> Option<IdentityStatus> {
        self.identity.get().map(Identity::status)
    }

    fn joining(&self, config: &ClusterConfig, (number, target): (usize, &TargetConfig)) -> Box<dyn Joining> {
        Box::new(JoiningTarget {
            number,
            config: target.clone(),
            places: self.places(config, false),
            identity: Arc::clone(&self.identity),
            folder: self.folder.clone(),
            objects_open: self.objects_open,
        })
    }

    fn watch_joined(&mut self, number: usize, target: &Target) -> Result<(), ServerError> {
        let watched = watched(number, target);
        let (Some(identity), Some(watched)) = (self.identity.get(), watched) else { return Ok(()) };
        match &self.monitor {
            Some(monitor) => monitor.add_target(watched),
            None => self.monitor = Some(Monitor::start(identity, vec![watched])?),
        }
        Ok(())
    }

    fn is_apart(&self, target: &Target) -> bool {
        is_apart(&self.folder, target)
    }

    fn leaving_names(&self) -> Box<dyn LeavingNames> {
        Box::new(LeavingFolder(self.leaving()))
    }

    fn arrived_names(&self) -> Result<Option<Arc<dyn Storage>>, JournalError> {
        let folder = self.arrived();
        folder.is_dir().then(|| DirectoryStorage::open(&folder)).transpose()
    }

    fn forget_names(&self) {
        for folder in [self.arrived(), self.leaving()].into_iter().filter(|folder| folder.exists()) {
            if let Err(error) = std::fs::remove_dir_all(&folder) {
                warning!("{} cannot be removed: {error}; remove it before the next start", folder.display());
            }
        }
    }

    fn publish(&mut self, server: ServerId, place: Place) -> io::Result<()> {
        let publisher = match self.publisher.take() {
            Some(publisher) => publisher,
            None => Publisher::start(&self.home)?,
        };
        self.publisher.insert(publisher).note(server, place);
        Ok(())
    }
}

/// A target that joins.
struct JoiningTarget {
    number: usize,
    config: TargetConfig,
    places: Places,
    identity: Arc<OnceLock<Identity>>,
    /// Folder of the server's own files.
    folder: PathBuf,
    objects_open: usize,
}

impl Joining for JoiningTarget {
    fn check_new(&self, folder: &Path) -> Result<(), String> {
        match std::fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
            Ok(true) => Ok(()),
            Ok(false) => Err("is not empty".into()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(format!("cannot be read: {error}")),
        }
    }

    fn open(self: Box<Self>) -> Result<Joined, ServerError> {
        let place = match self.config.backend {
            BackendKind::Dir => {
                // A server without an identity gets one for its first lasting place. One target joins at a time.
                let identity = match self.identity.get() {
                    Some(identity) => identity,
                    None => {
                        let begun = self.places.begin()?;
                        self.identity.get_or_init(|| begun)
                    }
                };
                let path = self.config.place(&self.folder, self.number);
                Some(identity.add_target(self.number, &path)?)
            }
            BackendKind::Ram => None,
        };
        let target = open_target((self.number, &self.config), place, self.objects_open)?;
        Ok(Joined { is_apart: is_apart(&self.folder, &target), target })
    }
}

/// The folder of names that leave.
struct LeavingFolder(PathBuf);

impl LeavingNames for LeavingFolder {
    fn empty(self: Box<Self>) -> Result<Arc<dyn Storage>, JournalError> {
        let LeavingFolder(folder) = *self;
        if folder.exists() {
            let described = folder.display().to_string();
            std::fs::remove_dir_all(&folder).map_err(JournalError::io("remove", described))?;
        }
        DirectoryStorage::open(&folder)
    }
}

/// The files of a target for the monitor.
fn watched(number: usize, target: &Target) -> Option<(usize, Weak<Dir>)> {
    target.directory().map(|directory| (number, Arc::downgrade(directory.files())))
}

/// Whether a target lies on another device than the journal below `folder`.
fn is_apart(folder: &Path, target: &Target) -> bool {
    let Some(directory) = target.directory() else { return false };
    let journal = std::fs::metadata(folder.join("journal"));
    directory.files().device() != journal.map_or(0, |metadata| metadata.dev())
}

/// Opens a target of a server. A target in a directory lies in `place`, which is stamped, and keeps up to `objects_open` files open.
///
/// # Errors
/// [`ServerError::Io`] if the system refuses the memory or the directory.
fn open_target(
    (number, config): (usize, &TargetConfig),
    place: Option<(Folder, Arc<Stamp>)>,
    objects_open: usize,
) -> Result<Target, ServerError> {
    if config.state == TargetState::Retired {
        return Ok(Target::retired(config.backend));
    }
    let Some((folder, stamp)) = place else {
        let arena = MappedArena::new(config.capacity.unwrap_or(0)).map_err(|source| {
            let path = PathBuf::from(format!("target {number} (ram)"));
            ServerError::Io { what: "reserve the memory of", path, source }
        })?;
        return Ok(Target::in_memory(Box::new(arena)));
    };
    let path = folder.path().to_path_buf();
    let directory = Directory::open(Arc::new(folder), Some(stamp), config.capacity, objects_open);
    let directory = directory.map_err(|source| ServerError::Io { what: "open the target", path, source })?;
    Ok(Target::in_directory(directory))
}
