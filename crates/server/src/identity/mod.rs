//! The identity of a server's folders: its home, its journal and its targets carry stamps that are written once with consent, and checked
//! at each start.
//!
//! A folder that happens to lie at a path is not a disk. Where a disk is not mounted, its folder is empty: all files of a target would read
//! as zeros, and a journal would begin anew. So a folder without the right stamp is refused, and nothing is made in its place.
//!
//! Each start gives its number, the *generation*, to all stamps. The home is told first which generation comes, so a start that was killed in
//! between leaves places of two generations, and both are right. A place with an older one missed a start: it is an older copy.

mod fault;
mod look;
mod monitor;

#[cfg(test)]
mod tests;

pub(crate) use monitor::Monitor;

use crate::folder::Folder;
use crate::journal::DirectoryStorage;
use look::Look;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_core::config::{BackendKind, ServerConfig};
use weir_core::error::ServerError;
use weir_core::identity::{Consent, IdentityError, IdentityStatus};
use weir_core::journal::Storage;
use weir_core::storage::{KnownPlaces, Owner, Place, Record, Stamp, TargetFolder, STAMP};
use weir_placement::ServerId;
use weir_wire::{SiteKey, TargetState};

/// The folder of a home with the stamps of its servers.
const FOLDER: &str = "identities";
/// A file in a journal that was brought back by `weir restore`, which is the owner's consent to its age.
const RESTORED: &str = "restored";

/// The places of one server.
pub(crate) struct Places {
    store: String,
    server: ServerId,
    home: PathBuf,
    /// None where the store keeps nothing.
    journal: Option<PathBuf>,
    /// The folders of targets by their numbers; none for targets in memory and for retired ones.
    targets: Vec<Option<PathBuf>>,
}

/// The places of a server that runs.
pub(crate) struct Identity {
    home: Arc<Stamp>,
    targets: Mutex<Vec<Arc<Stamp>>>,
    /// None from the moment on at which the monitor has it.
    journal: Mutex<Option<(Folder, Stamp)>>,
    owner: Owner,
    generation: u64,
}

/// The opened places, which are locked.
pub(crate) struct Opened {
    /// None where nothing outlives the server.
    pub(crate) identity: Option<Identity>,
    pub(crate) journal: Option<Arc<dyn Storage>>,
    /// The folders of targets by their numbers.
    pub(crate) targets: Vec<Option<(Folder, Arc<Stamp>)>>,
    /// The last change that any stamp knows to have been on stable storage.
    pub(crate) witnessed: u64,
    /// The journal is an older copy, which was brought back with consent.
    pub(crate) is_restored: bool,
}

impl Places {
    /// The places of a server whose own files are in `home`.
    pub(crate) fn of(
        (server, own): (ServerId, &ServerConfig),
        is_durable: bool,
        home: &Path,
        key: &SiteKey,
    ) -> Places {
        let folder = home.join(format!("servers/{server}"));
        let targets = own.targets.iter().enumerate().map(|(index, target)| {
            let is_there = target.backend == BackendKind::Dir && target.state != TargetState::Retired;
            is_there.then(|| target.place(&folder, index))
        });
        Places {
            store: key.store_identity(),
            server,
            home: home.to_path_buf(),
            journal: is_durable.then(|| folder.join("journal")),
            targets: targets.collect(),
        }
    }

    /// Whether anything of the server outlives its process.
    pub(crate) fn are_lasting(&self) -> bool {
        self.journal.is_some() || self.targets.iter().any(Option::is_some)
    }

    /// Looks at all places, and changes nothing.
    ///
    /// # Errors
    /// [`IdentityError`] of the first place that is refused; the file system's errors.
    pub(crate) fn check(&self, consent: Consent) -> Result<(), ServerError> {
        match self.are_lasting() {
            true => Look::at(self, consent).map(drop),
            false => Ok(()),
        }
    }

    /// The places that a start would refuse, for the check of a store.
    ///
    /// # Errors
    /// The file system's errors.
    pub(crate) fn faults(&self) -> Result<Vec<IdentityError>, ServerError> {
        if self.are_lasting() {
            look::faults(self)
        } else {
            Ok(Vec::new())
        }
    }

    /// Locks all places and gives them the generation of this start.
    ///
    /// # Errors
    /// [`IdentityError`] of the first place that is refused: nothing is changed then. A place is in use, or the file system's errors.
    pub(crate) fn open(&self, consent: Consent) -> Result<Opened, ServerError> {
        match self.are_lasting() {
            true => self.open_lasting(consent),
            false => {
                let targets = self.targets.iter().map(|_| None).collect();
                Ok(Opened { identity: None, journal: None, targets, witnessed: 0, is_restored: false })
            }
        }
    }

    /// The identity of a server of which nothing outlived its process so far.
    ///
    /// # Errors
    /// As [`Places::open`].
    pub(crate) fn begin(&self) -> Result<Identity, ServerError> {
        let look = Look::at(self, Consent { is_first_run: true, ..Consent::default() })?;
        let (generation, owner) = (look.newest + 1, look.owner);
        let home = self.begin_generation(look.home, &owner, generation)?;
        self.end_generation(&home, generation)?;
        Ok(Identity::of(home, Vec::new(), None, owner, generation))
    }

    fn open_lasting(&self, consent: Consent) -> Result<Opened, ServerError> {
        let look = Look::at(self, consent)?;
        let (generation, witnessed, owner) = (look.newest + 1, look.witnessed, look.owner);
        let is_restored = look.is_restored;
        let mut folders = Vec::new();
        for (path, seen) in self.targets.iter().zip(look.targets) {
            let (folder, stamp) = seen.map_or((None, None), |seen| (Some(seen.folder), seen.stamp));
            folders.push(match path {
                Some(path) => Some((claimed(folder, path)?, stamp)),
                None => None,
            });
        }
        let storage = self.journal.as_deref().map(DirectoryStorage::open).transpose()?;
        let home = self.begin_generation(look.home, &owner, generation)?;
        let journal = match &self.journal {
            Some(path) => {
                let folder = Folder::found(path).map_err(io_error("open", path))?;
                let stamp = stamped(&folder, look.journal, (Place::Journal, &owner, generation))?;
                Some((folder, stamp))
            }
            None => None,
        };
        let mut targets = Vec::new();
        for (index, folder) in folders.into_iter().enumerate() {
            targets.push(match folder {
                Some((folder, stamp)) => {
                    let place = Place::Target(index as u16);
                    let stamp = stamped(&folder, stamp, (place, &owner, generation))?;
                    Some((folder, Arc::new(stamp)))
                }
                None => None,
            });
        }
        self.end_generation(&home, generation)?;
        let stamps = targets.iter().flatten().map(|(_, stamp)| Arc::clone(stamp)).collect();
        let identity = Identity::of(home, stamps, journal, owner, generation);
        Ok(Opened { identity: Some(identity), journal: storage, targets, witnessed, is_restored })
    }

    /// Writes into the home that all places have the generation.
    fn end_generation(&self, home: &Stamp, generation: u64) -> Result<(), ServerError> {
        let before = home.record().known.unwrap_or_default();
        let known = KnownPlaces {
            next_generation: None,
            targets: before.targets.max(self.targets.len() as u16),
            journal: before.journal || self.journal.is_some(),
        };
        home.rewrite(generation, Some(known)).map_err(io_error("stamp", &self.home.join(FOLDER)))
    }

    /// Writes into the home which generation comes.
    fn begin_generation(
        &self,
        home: Option<Stamp>,
        owner: &Owner,
        generation: u64,
    ) -> Result<Stamp, ServerError> {
        let path = self.home.join(FOLDER);
        let begun = Folder::made(&path).and_then(|folder| match home {
            Some(home) => {
                let record = home.record();
                let known =
                    KnownPlaces { next_generation: Some(generation), ..record.known.unwrap_or_default() };
                home.rewrite(record.generation, Some(known)).map(|()| home)
            }
            None => {
                let known = KnownPlaces { next_generation: Some(generation), ..KnownPlaces::default() };
                let record = Record::new(Place::Home, owner.clone(), 0, Some(known));
                Stamp::make(&folder, &self.server.to_string(), record)
            }
        });
        begun.map_err(io_error("stamp", &path))
    }
}

impl Identity {
    fn of(
        home: Stamp,
        targets: Vec<Arc<Stamp>>,
        journal: Option<(Folder, Stamp)>,
        owner: Owner,
        generation: u64,
    ) -> Identity {
        let (targets, journal) = (Mutex::new(targets), Mutex::new(journal));
        Identity { home: Arc::new(home), targets, journal, owner, generation }
    }

    /// All stamps but that of the journal. No lock is held while they are written.
    fn stamps(&self) -> Vec<Arc<Stamp>> {
        std::iter::once(&self.home).chain(&*lock(&self.targets)).cloned().collect()
    }

    /// Writes the mark of a journal that was just opened over the marks of all stamps. From then on no stamp knows of changes that were given
    /// up, and a journal that was brought back is like any other.
    ///
    /// # Errors
    /// The file system's errors.
    pub(crate) fn settle(&self, durable: u64) -> Result<(), ServerError> {
        let journal = lock(&self.journal);
        let Some((journal, _)) = &*journal else { return Ok(()) };
        let settled = self.stamps().iter().try_for_each(|stamp| stamp.reset_mark(durable));
        let settled = settled.and_then(|()| journal.remove(Path::new(RESTORED)));
        settled.map(drop).map_err(io_error("bring the mark into the stamps of", journal.path()))
    }

    /// Opens and stamps the folder of a target that joins.
    ///
    /// # Errors
    /// [`IdentityError`] where the folder is another's, or the file system's errors.
    pub(crate) fn add_target(&self, index: usize, path: &Path) -> Result<(Folder, Arc<Stamp>), ServerError> {
        let seen = look::look_at_new_target(&self.owner, index, path)?;
        let (folder, stamp) = seen.map_or((None, None), |seen| (Some(seen.folder), seen.stamp));
        let folder = claimed(folder, path)?;
        let place = Place::Target(index as u16);
        let stamp = Arc::new(stamped(&folder, stamp, (place, &self.owner, self.generation))?);
        let known = self.home.record().known.unwrap_or_default();
        let known = KnownPlaces { targets: known.targets.max(index as u16 + 1), ..known };
        self.home.rewrite(self.generation, Some(known)).map_err(io_error("note the target in", path))?;
        lock(&self.targets).push(Arc::clone(&stamp));
        Ok((folder, stamp))
    }

    /// Brings the mark of a journal that was closed into the stamps.
    pub(crate) fn close(&self, durable: u64) {
        // A mark that is not written leaves an older one, which is true as well.
        self.stamps().iter().for_each(|stamp| _ = stamp.write_mark(durable));
    }

    pub(crate) fn status(&self) -> IdentityStatus {
        let Owner { store, birth, .. } = self.owner.clone();
        IdentityStatus { store, birth, generation: self.generation }
    }
}

/// Locks the folder of a target, which is made where it is missing.
fn claimed(folder: Option<Folder>, path: &Path) -> Result<Folder, ServerError> {
    let folder = folder.map_or_else(|| Folder::made(path), Ok);
    let folder = folder.and_then(|folder| folder.close_to_others().map(|()| folder));
    let claimed = folder.and_then(|folder| folder.claim().map(|()| folder));
    claimed.map_err(io_error("open the target", path))
}

/// Rewrites the stamp of a folder, or makes one.
fn stamped(
    folder: &Folder,
    stamp: Option<Stamp>,
    (place, owner, generation): (Place, &Owner, u64),
) -> Result<Stamp, ServerError> {
    let stamped = match stamp {
        Some(stamp) => stamp.rewrite(generation, None).map(|()| stamp),
        None => Stamp::make(folder, STAMP, Record::new(place, owner.clone(), generation, None)),
    };
    stamped.map_err(io_error("stamp", folder.path()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> ServerError {
    let path = path.to_path_buf();
    move |source| ServerError::Io { what, path, source }
}
