//! The inventory of a stopped server: its journal is replayed from a copy, and its targets are listed. Nothing changes.

use crate::control::inventory::{Inventory, ObjectEntry};
use crate::control::tree::{Sums, Tree};
use crate::event_loop::read_key;
use crate::folder::Folder;
use crate::identity::Places;
use crate::journal::DirectoryStorage;
use serde::Serialize;
use std::collections::HashSet;
use std::convert::Infallible;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use weir_core::config::{BackendKind, ClusterConfig};
use weir_core::error::ServerError;
use weir_core::identity::IdentityError;
use weir_core::journal::{Journal, Losses};
use weir_core::namespace::{Change, FaultKind, Namespace, PlaceEntry, Position, Settings};
use weir_core::storage::Dir;
use weir_core::JOURNAL_SCHEMA;
use weir_placement::{ServerId, TargetId};
use weir_wire::{Ino, SiteKey};

/// The lock of a journal, which a copy has of its own.
const LOCK_FILE: &str = "lock";
/// Capabilities are of no use to a server that serves nobody, so its key is none.
const NO_KEY: [u8; 32] = [0; 32];

/// The inventory, and the directories of the targets.
#[derive(Serialize)]
pub struct StoppedInventory {
    #[serde(flatten)]
    inventory: Inventory,
    places: Vec<PlaceEntry>,
    tree: Tree,
    directories: Vec<Position>,
    #[serde(flatten)]
    sums: Sums,
    /// The directories of the targets, by number.
    folders: Vec<PathBuf>,
    /// The folders that a start would refuse.
    identities: Vec<IdentityError>,
    /// Words of the journal about what it cut off.
    notices: Vec<String>,
}

/// A copy of a journal's files, removed at the end.
struct Copy {
    folder: PathBuf,
}

/// Takes the inventory of server `id`, which is not running.
///
/// # Errors
/// [`ServerError`]: the server runs, its journal is damaged beyond what a start accepts, or a file cannot be read.
pub fn take(
    config: &ClusterConfig,
    id: ServerId,
    home: &Path,
    losses: Losses,
) -> Result<StoppedInventory, ServerError> {
    let folder = home.join(format!("servers/{id}"));
    let io = |what: &'static str, path: &Path| {
        let path = path.to_path_buf();
        move |source| ServerError::Io { what, path, source }
    };
    let journal = folder.join("journal");
    std::fs::metadata(&journal).map_err(io("find the journal", &journal))?;
    // Held until the end, so that no server starts meanwhile.
    let _lock = DirectoryStorage::open(&journal)?;
    let copy = Copy::of(&journal).map_err(io("copy", &journal))?;
    let mut namespace = Namespace::new(Settings {
        server: id,
        servers: (0..config.servers.len() as u16).map(ServerId).collect(),
        targets: config.targets(),
        layout: config.layout_defaults(),
        // Nothing is added.
        kept_bytes_max: 0,
        key: SiteKey::new(NO_KEY),
    });
    let storage = DirectoryStorage::open(&copy.folder)?;
    let (_journal, recovered) =
        Journal::<Change>::open_accepting(storage, JOURNAL_SCHEMA, (losses, 0), |change: Change| {
            namespace.apply(&change);
        })?;
    namespace.index();
    let mut inventory = Inventory::default();
    let mut folders = Vec::new();
    for (index, target) in config.servers[usize::from(id.0)].targets.iter().enumerate() {
        if target.backend != BackendKind::Dir {
            continue;
        }
        let path = target.place(&folder, index);
        let objects = match Folder::found(&path) {
            // It is among the faults.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            found => found.and_then(|found| Dir::listed_in(&found)),
        };
        let objects = objects.map_err(io("list the target", &path))?;
        let target = TargetId { server: id, index: index as u16 };
        let entries = objects.into_iter().map(|(object, bytes)| ObjectEntry::new(target, object, bytes));
        inventory.objects.extend(entries);
        folders.push(path);
    }
    let mut inos = namespace.inventoried(|_| true);
    inos.sort_unstable();
    inos.dedup();
    inventory.files = namespace.file_entries(&inos);
    let tree = tree(&namespace);
    let at_fault = tree.faults.iter().flat_map(|fault| [Some(fault.ino), fault.parent]).flatten().map(Ino);
    let wanted: HashSet<Ino> =
        inos.into_iter().chain(namespace.names().directories_elsewhere()).chain(at_fault).collect();
    let (places, sums) = (namespace.names().places(&wanted), Sums::of(namespace.files().use_faults()));
    let directories = namespace.names().positions(&namespace.files().numbers(|_| true));
    let key = read_key(home)?;
    let identities =
        Places::of((id, &config.servers[usize::from(id.0)]), config.is_durable(), home, &key).faults()?;
    let notices = recovered.notices;
    Ok(StoppedInventory { inventory, places, tree, directories, sums, folders, identities, notices })
}

/// The tree of a server that does not run. Nobody has a file open there, and the next start removes those without a name.
fn tree(namespace: &Namespace) -> Tree {
    let mut inos = namespace.files().numbers(|_| true);
    inos.sort_unstable();
    let examine = |inos: &[Ino], after| Ok::<_, Infallible>(namespace.names().examine(inos, after));
    let mut tree = Tree::of(&inos, examine).unwrap_or_default();
    tree.faults.retain(|fault| fault.kind != FaultKind::Leftover);
    tree
}

impl Copy {
    fn of(journal: &Path) -> io::Result<Copy> {
        let mut salt = [0; 8];
        rustix::rand::getrandom(&mut salt, rustix::rand::GetRandomFlags::empty())?;
        let folder = std::env::temp_dir().join(format!("weir-fsck-{:016x}", u64::from_le_bytes(salt)));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let copy = Copy { folder };
        for entry in std::fs::read_dir(journal)? {
            let entry = entry?;
            if entry.file_type()?.is_file() && entry.file_name() != LOCK_FILE {
                std::fs::copy(entry.path(), copy.folder.join(entry.file_name()))?;
            }
        }
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // A copy that stays takes room in the folder for temporary files, and harms nothing.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
