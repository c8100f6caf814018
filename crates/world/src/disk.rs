//! The disks of a server, which outlive its process: its own files, its journal, and its targets.
//!
//! A kill takes nothing that was written. A power loss takes any part of everything that no sync has covered.

use super::agenda::Agenda;
use super::members;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use weir_core::config::{BackendKind, TargetConfig};
use weir_core::error::ServerError;
use weir_core::journal::{MemoryStorage, Storage};
use weir_core::storage::memory_arena::MemoryArena;
use weir_core::storage::memory_folder::{Failing, Faults, MemoryFolder};
use weir_core::storage::{Directory, Look, Target, TargetFolder};
use weir_wire::TargetState;

/// The file of the agreement among a server's own.
const SETTINGS: &str = "settings.json";
/// Object files that a target keeps open: fewer than a world has, so that files are closed and opened again.
const OBJECTS_OPEN: usize = 8;
/// The room of a full disk: less than many writes have.
const ROOM_BYTES: u64 = 64 << 10;
/// The room of a full disk of the journal: some records.
const JOURNAL_ROOM_BYTES: usize = 1 << 10;

/// The stores that worlds have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    /// Targets in memory, which a kill leaves as they are.
    Memory,
    /// Targets in directories.
    Directories,
    /// A target of each kind on each server.
    Mixed,
    /// Targets in directories, and disks that lose power and fail.
    Failing,
}

impl Store {
    /// The store of a seed.
    pub(super) fn of(seed: u64) -> Store {
        match seed % 4 {
            0 => Store::Memory,
            1 => Store::Failing,
            2 => Store::Directories,
            _ => Store::Mixed,
        }
    }

    /// The lines of a configuration with so many servers.
    pub(super) fn configuration(self, servers: usize) -> String {
        let target =
            |backend: &str| format!("[[server.target]]\nbackend = \"{backend}\"\ncapacity = \"64MiB\"\n");
        let targets = match self {
            Store::Memory => target("ram").repeat(2),
            Store::Mixed => target("ram") + &target("dir"),
            Store::Directories | Store::Failing => target("dir").repeat(2),
        };
        let server = |number| {
            let (listen, control) = members::place(number, 0);
            format!("[[server]]\nlisten = \"{listen}\"\ncontrol = \"{control}\"\n{targets}")
        };
        (0..servers).map(server).collect()
    }
}

/// The disks of a server. Clones share them.
#[derive(Clone)]
pub(super) struct Disk {
    pub(super) own: MemoryStorage,
    pub(super) journal: MemoryStorage,
    /// Targets in memory while the server is down.
    memory: Rc<RefCell<BTreeMap<usize, Target>>>,
    folders: Rc<RefCell<BTreeMap<usize, MemoryFolder>>>,
    /// Whether each target has a device of its own. One file system keeps the order of its names, two do not.
    pub(super) is_apart: bool,
    /// The last change of the journal that the server counted as durable.
    pub(super) witnessed: Rc<Cell<u64>>,
    /// The journal is a backup, which was brought back since the last start.
    pub(super) is_restored: Rc<Cell<bool>>,
}

/// The metadata of a server at one moment, without its targets.
pub(super) struct Backup {
    journal: MemoryStorage,
    settings: Option<Vec<u8>>,
}

impl Disk {
    pub(super) fn new(agenda: &Agenda) -> Disk {
        Disk {
            own: MemoryStorage::new(),
            journal: MemoryStorage::new(),
            memory: Rc::default(),
            folders: Rc::default(),
            is_apart: agenda.by_chance(50),
            witnessed: Rc::default(),
            is_restored: Rc::default(),
        }
    }

    /// Opens a target, which has this number.
    ///
    /// # Errors
    /// The files of the target are no target.
    pub(super) fn open_target(
        &self,
        (number, config): (usize, &TargetConfig),
    ) -> Result<Target, ServerError> {
        if config.state == TargetState::Retired {
            return Ok(Target::retired(config.backend));
        }
        if config.backend == BackendKind::Ram {
            let kept = self.memory.borrow_mut().remove(&number);
            let new = || Target::in_memory(Box::new(MemoryArena::new(config.capacity.unwrap_or(0))));
            return Ok(kept.unwrap_or_else(new));
        }
        let folder = self.folders.borrow_mut().entry(number).or_default().clone();
        let directory = Directory::open(Arc::new(folder), None, config.capacity, OBJECTS_OPEN);
        let path = PathBuf::from(format!("target {number}"));
        let directory =
            directory.map_err(|source| ServerError::Io { what: "open the target", path, source })?;
        Ok(Target::in_directory(directory))
    }

    /// The room of the targets in directories.
    pub(super) fn looks(&self) -> Vec<(usize, Look)> {
        let folders = self.folders.borrow();
        folders.iter().map(|(&number, folder)| (number, Look::there(folder.free_bytes().ok()))).collect()
    }

    /// Keeps the targets in memory of a server whose process ended.
    pub(super) fn keep(&self, targets: Vec<Target>) {
        let targets = targets.into_iter().enumerate();
        let memory =
            targets.filter_map(|(number, target)| target.directory().is_none().then_some((number, target)));
        self.memory.borrow_mut().extend(memory);
    }

    /// The process of the server is killed after so many changes more on its targets; `None` is a new process.
    pub(super) fn kill_after(&self, changes: Option<u64>) {
        self.folders.borrow().values().for_each(|folder| folder.kill_after(changes));
    }

    /// The agreement that the server has kept; none where nothing was decided.
    pub(super) fn settings(&self) -> Option<Vec<u8>> {
        let kept = self.own.open(SETTINGS).and_then(|file| file.read_whole(usize::MAX));
        kept.ok()
    }

    /// A copy of the journal, as `weir backup` takes it while the server runs.
    pub(super) fn back_up(&self) -> Backup {
        Backup { journal: self.journal.after_kill(self.journal.operations()), settings: self.settings() }
    }

    /// The disks with the metadata of a backup, which the machine takes up after a boot.
    ///
    /// # Errors
    /// The file system's errors.
    pub(super) fn restored(&self, backup: &Backup) -> io::Result<Disk> {
        let journal = backup.journal.after_power_loss(backup.journal.operations(), |units| units);
        backup.settings.iter().try_for_each(|settings| self.own.replace(SETTINGS, settings))?;
        self.witnessed.set(0);
        self.is_restored.set(true);
        Ok(Disk { journal, ..self.clone() })
    }

    /// The journal was synced, and with it the names on its file system.
    pub(super) fn journal_synced(&self) {
        if !self.is_apart {
            self.folders.borrow().values().for_each(MemoryFolder::sync_all_names);
        }
    }

    /// The disks after a loss of power: each change that no sync has covered is there, is not, or is there in part.
    pub(super) fn after_power_loss(&self, agenda: &Agenda) -> Disk {
        self.mend();
        let survives = |units: usize| match agenda.below(4) {
            0 => 0,
            1 => agenda.below(units as u64 + 1) as usize,
            _ => units,
        };
        let is_everything_lost = !self.is_apart && agenda.by_chance(50);
        if !self.is_apart && !is_everything_lost {
            // Records of the journal that survive were stored after all names before them.
            self.folders.borrow().values().for_each(MemoryFolder::sync_all_names);
        }
        let lost = |storage: &MemoryStorage| storage.after_power_loss(storage.operations(), survives);
        let journal = match is_everything_lost {
            true => self.journal.after_power_loss(self.journal.operations(), |_| 0),
            false => lost(&self.journal),
        };
        let folders = self.folders.borrow();
        let folders = folders.iter().map(|(&number, folder)| (number, folder.after_power_loss(survives)));
        Disk {
            own: lost(&self.own),
            journal,
            folders: Rc::new(RefCell::new(folders.collect())),
            ..self.clone()
        }
    }

    /// One of the disks is full, or fails a call.
    pub(super) fn fail(&self, agenda: &Agenda) {
        let folders = self.folders.borrow();
        let place = agenda.below(folders.len() as u64 + 1) as usize;
        let Some(folder) = folders.values().nth(place) else {
            match agenda.by_chance(50) {
                true => self.journal.fail_sync(true),
                false => self.journal.limit(Some(self.journal.used_bytes() + JOURNAL_ROOM_BYTES)),
            }
            return;
        };
        let mut faults = Faults::default();
        match agenda.below(4) {
            0 => faults.writes = Failing::Once,
            1 => faults.syncs = Failing::Once,
            2 => faults.names = Failing::Once,
            _ => folder.limit(Some(folder.used_bytes() + ROOM_BYTES)),
        }
        folder.fail(faults);
    }

    /// The disks work again.
    pub(super) fn mend(&self) {
        self.journal.fail_sync(false);
        self.journal.limit(None);
        for folder in self.folders.borrow().values() {
            folder.fail(Faults::default());
            folder.limit(None);
        }
    }
}
