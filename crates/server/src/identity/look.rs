//! A look at all places of a server before anything is changed.

use super::fault::Fault;
use super::{io_error, Places, FOLDER, RESTORED};
use crate::folder::Folder;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use weir_core::error::ServerError;
use weir_core::identity::{Consent, IdentityError};
use weir_core::journal::{self, Losses};
use weir_core::storage::{Dir, Found, KnownPlaces, Node, Owner, Place, Record, Stamp, TargetFolder, STAMP};

/// The places of a server as they were found; all of them may be opened.
pub(super) struct Look {
    pub(super) owner: Owner,
    /// None before the first run.
    pub(super) home: Option<Stamp>,
    pub(super) journal: Option<Stamp>,
    /// The folders of targets by their numbers; none where a new target's folder is not there yet.
    pub(super) targets: Vec<Option<Seen>>,
    /// The greatest generation of all places.
    pub(super) newest: u64,
    /// The greatest mark of all stamps; 0 where an older journal was brought back with consent.
    pub(super) witnessed: u64,
    /// An older journal was brought back with consent.
    pub(super) is_restored: bool,
}

/// The folder of a target; without a stamp it is to be stamped.
pub(super) struct Seen {
    pub(super) folder: Folder,
    pub(super) stamp: Option<Stamp>,
}

/// The stamp of a place, or the reason for which it has none.
type Reading = Result<(Folder, Stamp), (Fault, Option<Folder>)>;

impl Look {
    /// Looks at all places.
    ///
    /// # Errors
    /// As [`Places::check`].
    pub(super) fn at(places: &Places, consent: Consent) -> Result<Look, ServerError> {
        let home = look_at_home(places, consent)?;
        let expected = Expected::by(places, home.as_ref())?;
        let journal = match &places.journal {
            Some(path) => look_at_journal(places, path, &expected, consent)?,
            None => None,
        };
        let mut look = Look {
            newest: expected.generation.max(expected.known.next_generation.unwrap_or(0)),
            witnessed: home.as_ref().map_or(0, Stamp::mark),
            is_restored: expected.is_restored,
            owner: expected.owner.clone(),
            home,
            journal,
            targets: Vec::new(),
        };
        let mut nodes: HashMap<Node, usize> = HashMap::new();
        for (index, path) in places.targets.iter().enumerate() {
            let seen = match path {
                Some(path) => look_at_target(index, path, &expected)?,
                None => None,
            };
            if let (Some(seen), Some(path)) = (&seen, path) {
                if let Some(other) = nodes.insert(seen.folder.node(), index) {
                    let other = format!("target {}.{other}", places.server);
                    return Err(target_refused(&expected.owner, index, path, &Fault::Doubled(other)));
                }
            }
            look.targets.push(seen);
        }
        let stamps = look.targets.iter().flatten().filter_map(|seen| seen.stamp.as_ref());
        for stamp in stamps.chain(&look.journal) {
            look.newest = look.newest.max(stamp.record().generation);
            look.witnessed = look.witnessed.max(stamp.mark());
        }
        if expected.is_restored {
            look.witnessed = 0;
        }
        Ok(look)
    }
}

/// The places that a start would refuse; where the home is refused, it alone.
///
/// # Errors
/// The file system's errors.
pub(super) fn faults(places: &Places) -> Result<Vec<IdentityError>, ServerError> {
    let consent = Consent::default();
    let mut faults = Vec::new();
    let Some(home) = noted(look_at_home(places, consent), &mut faults)? else { return Ok(faults) };
    let expected = Expected::by(places, home.as_ref())?;
    if let Some(path) = &places.journal {
        noted(look_at_journal(places, path, &expected, consent), &mut faults)?;
    }
    for (index, path) in places.targets.iter().enumerate() {
        if let Some(path) = path {
            noted(look_at_target(index, path, &expected), &mut faults)?;
        }
    }
    Ok(faults)
}

/// Takes the refusal out of a result.
fn noted<T>(
    looked: Result<T, ServerError>,
    faults: &mut Vec<IdentityError>,
) -> Result<Option<T>, ServerError> {
    match looked {
        Err(ServerError::Identity(fault)) => {
            faults.push(fault);
            Ok(None)
        }
        looked => looked.map(Some),
    }
}

/// The identity that the home expects of other places.
struct Expected {
    owner: Owner,
    generation: u64,
    known: KnownPlaces,
    is_restored: bool,
}

impl Expected {
    /// The identity by the home's stamp; without one the server is new.
    fn by(places: &Places, home: Option<&Stamp>) -> Result<Expected, ServerError> {
        let is_restored = places.journal.as_deref().is_some_and(|path| path.join(RESTORED).exists());
        Ok(match home.map(Stamp::record) {
            Some(Record { owner, generation, known, .. }) => {
                Expected { owner, generation, known: known.unwrap_or_default(), is_restored }
            }
            None => {
                let owner =
                    Owner { store: places.store.clone(), birth: drawn_birth()?, server: places.server.0 };
                Expected { owner, generation: 0, known: KnownPlaces::default(), is_restored }
            }
        })
    }

    /// Checks the stamp of a place that was stamped before.
    fn check(&self, stamp: &Stamp, place: Place) -> Result<(), Fault> {
        let record = stamp.record();
        check_owner(&record.owner, record.place, (&self.owner, place))?;
        let (generation, expected) = (record.generation, self.generation);
        match generation {
            _ if generation == expected || self.known.next_generation == Some(generation) => Ok(()),
            _ if generation < expected => Err(Fault::Older { generation, expected }),
            // A home that was brought back with its journal is as old as the journal.
            _ if self.is_restored => Ok(()),
            _ => Err(Fault::Newer { generation, expected }),
        }
    }
}

/// Checks whose a stamp is, and of which place.
fn check_owner(found: &Owner, found_place: Place, (own, place): (&Owner, Place)) -> Result<(), Fault> {
    let foreign = |owner: String| Err(Fault::Foreign(owner));
    if found.store != own.store {
        return foreign("another store".into());
    }
    if found.server != own.server {
        return foreign(format!("server {} of this store", found.server));
    }
    if found.birth != own.birth {
        return foreign(format!("an earlier server {} of this store, which is gone,", found.server));
    }
    match found_place {
        _ if found_place == place => Ok(()),
        Place::Target(index) => foreign(format!("target {}.{index}, or a copy of it,", found.server)),
        Place::Journal => foreign(format!("the journal of server {}", found.server)),
        Place::Home => foreign(format!("the home of server {}", found.server)),
    }
}

/// The home's stamp; none before the first run, to which the owner consents.
fn look_at_home(places: &Places, consent: Consent) -> Result<Option<Stamp>, ServerError> {
    let path = places.home.join(FOLDER);
    let refused = |fault: Fault| {
        ServerError::Identity(IdentityError {
            place: format!("the home of server {}", places.server),
            path: path.join(places.server.to_string()),
            found: fault.found(),
            way_out: fault.way_out_of_home().into(),
        })
    };
    let found = match Folder::found(&path) {
        Ok(folder) => {
            Stamp::find(&folder, &places.server.to_string()).map_err(io_error("read the stamp in", &path))?
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Found::None,
        Err(error) => return Err(io_error("open", &path)(error)),
    };
    match found {
        Found::Whole(stamp) => {
            let record = stamp.record();
            let own = Owner { store: places.store.clone(), server: places.server.0, ..record.owner.clone() };
            check_owner(&record.owner, record.place, (&own, Place::Home)).map_err(refused)?;
            Ok(Some(stamp))
        }
        Found::Damaged => Err(refused(Fault::Damaged)),
        Found::None if consent.is_first_run => Ok(None),
        Found::None => Err(refused(Fault::Absent)),
    }
}

fn look_at_journal(
    places: &Places,
    path: &Path,
    expected: &Expected,
    consent: Consent,
) -> Result<Option<Stamp>, ServerError> {
    let refused = |fault: Fault| {
        ServerError::Identity(IdentityError {
            place: format!("the journal of server {}", places.server),
            path: path.to_path_buf(),
            found: fault.found(),
            way_out: fault.way_out_of_journal().into(),
        })
    };
    let is_accepted = expected.is_restored || consent.losses == Losses::Accepted;
    let (stamp, folder, fault) = match read(path)? {
        Ok((folder, stamp)) => match expected.check(&stamp, Place::Journal) {
            Ok(()) => return Ok(Some(stamp)),
            Err(fault) => (Some(stamp), Some(folder), fault),
        },
        Err((fault, folder)) => (None, folder, fault),
    };
    if expected.known.journal {
        return match fault {
            Fault::Absent | Fault::Unstamped | Fault::Damaged | Fault::Older { .. } if is_accepted => {
                Ok(stamp)
            }
            fault => Err(refused(fault)),
        };
    }
    // The journal is to be made: whatever has records there is another one, of which the home knows nothing.
    match (fault, folder) {
        (Fault::Absent, _) => Ok(None),
        (Fault::Unstamped, Some(folder)) => {
            let entries = folder.entries(Path::new("")).map_err(io_error("list", path))?;
            let has_records =
                entries.iter().any(|entry| entry.name.to_str().is_some_and(journal::is_own_file));
            if has_records {
                Err(refused(Fault::Forgotten))
            } else {
                Ok(None)
            }
        }
        (Fault::Foreign(_), _) => Err(refused(Fault::Forgotten)),
        (fault, _) => Err(refused(fault)),
    }
}

fn look_at_target(index: usize, path: &Path, expected: &Expected) -> Result<Option<Seen>, ServerError> {
    if index >= usize::from(expected.known.targets) {
        return look_at_new_target(&expected.owner, index, path);
    }
    let refused = |fault| target_refused(&expected.owner, index, path, &fault);
    let (folder, stamp) = read(path)?.map_err(|(fault, _)| refused(fault))?;
    expected.check(&stamp, Place::Target(index as u16)).map_err(refused)?;
    Ok(Some(Seen { folder, stamp: Some(stamp) }))
}

/// Looks at the folder of a target that is to be stamped, or was stamped by a start that did not come to tell the home; none where there is
/// no folder yet.
///
/// # Errors
/// [`IdentityError`] where the folder has objects of others.
pub(super) fn look_at_new_target(
    owner: &Owner,
    index: usize,
    path: &Path,
) -> Result<Option<Seen>, ServerError> {
    let refused = |fault: &Fault| target_refused(owner, index, path, fault);
    let place = Place::Target(index as u16);
    let (folder, stamp) = match read(path)? {
        Err((Fault::Absent, _)) => return Ok(None),
        Err((Fault::Unstamped, Some(folder))) => (folder, None),
        Err((fault, _)) => return Err(refused(&fault)),
        Ok((folder, stamp)) => (folder, Some(stamp)),
    };
    if let Some(stamp) = stamp {
        let record = stamp.record();
        let Err(fault) = check_owner(&record.owner, record.place, (owner, place)) else {
            return Ok(Some(Seen { folder, stamp: Some(stamp) }));
        };
        // An earlier server of this number may have left it, empty.
        if !is_left_behind(&record.owner, record.place, owner, place) {
            return Err(refused(&fault));
        }
    }
    let objects = Dir::listed_in(&folder).map_err(io_error("list the target", path))?;
    match objects.is_empty() {
        true => Ok(Some(Seen { folder, stamp: None })),
        false => Err(refused(&Fault::Occupied)),
    }
}

/// Whether a folder was the same target of an earlier server of this store and number.
fn is_left_behind(found: &Owner, found_place: Place, own: &Owner, place: Place) -> bool {
    found.store == own.store && found.server == own.server && found_place == place
}

/// Reads the stamp of a folder.
fn read(path: &Path) -> Result<Reading, ServerError> {
    let folder = match Folder::found(path) {
        Ok(folder) => folder,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Err((Fault::Absent, None))),
        Err(error) => return Err(io_error("open", path)(error)),
    };
    let found = Stamp::find(&folder, STAMP).map_err(io_error("read the stamp in", path))?;
    Ok(match found {
        Found::Whole(stamp) => Ok((folder, stamp)),
        Found::Damaged => Err((Fault::Damaged, Some(folder))),
        Found::None => Err((Fault::Unstamped, Some(folder))),
    })
}

fn target_refused(owner: &Owner, index: usize, path: &Path, fault: &Fault) -> ServerError {
    ServerError::Identity(IdentityError {
        place: format!("target {}.{index}", owner.server),
        path: path.to_path_buf(),
        found: fault.found(),
        way_out: fault.way_out_of_target().into(),
    })
}

/// A number that no other server's first start has.
fn drawn_birth() -> Result<String, ServerError> {
    let mut birth = [0; 8];
    let drawn = rustix::rand::getrandom(&mut birth, rustix::rand::GetRandomFlags::empty());
    drawn.map_err(|errno| ServerError::Loop { what: "draw the server's identity", source: errno.into() })?;
    Ok(format!("{:016x}", u64::from_le_bytes(birth)))
}
