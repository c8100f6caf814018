//! Targets: they hold the bytes of objects, in memory or in a directory.

mod arena;
mod changes;
mod dir;
mod failure;
mod object;
mod pages;
mod ram;
mod reserve;

use crate::config::{BackendKind, TargetConfig};
use crate::error::ServerError;
use crate::privacy;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use weir_wire::{Ino, TargetState};

pub(crate) use arena::Region;
pub(crate) use dir::aside::{Cut, Known, Settled};
pub(crate) use dir::fences::Turn;
pub(crate) use dir::names::Aside;
pub(crate) use dir::Dir;
pub(crate) use failure::TargetFailure;
pub(crate) use ram::{Ram, ReadPlan, Segment, WritePlan};
pub(crate) use reserve::Reserve;

/// The words for a target of which nothing outlives a restart.
pub(crate) const KEEPS_NOTHING: &str = "nothing over a restart";

/// One target of this server. Its bytes lie in [memory](Target::memory), which the event loop serves itself, or below a
/// [directory](Target::directory), which the worker pool serves.
pub(crate) struct Target {
    backend: Backend,
    /// The lock on the directory.
    _claim: Option<File>,
}

enum Backend {
    Ram(Box<Ram>),
    Dir(Arc<Dir>),
    /// It has retired: no bytes are left, and only its number is taken.
    Retired(BackendKind),
}

impl Target {
    /// Opens target `index` of a server whose files are in `folder`. The target keeps up to `objects_open` files open.
    ///
    /// # Errors
    /// [`ServerError::Io`] if the system refuses the memory or the directory.
    pub(crate) fn open(
        config: &TargetConfig,
        folder: &Path,
        index: usize,
        objects_open: usize,
    ) -> Result<Target, ServerError> {
        let backend = match config.backend {
            _ if config.state == TargetState::Retired => Backend::Retired(config.backend),
            BackendKind::Ram => {
                let ram = Ram::new(config.capacity.unwrap_or(0)).map_err(|source| {
                    let path = folder.join(format!("target {index} (ram)"));
                    ServerError::Io { what: "reserve the memory of", path, source }
                })?;
                Backend::Ram(Box::new(ram))
            }
            BackendKind::Dir => {
                let path = config.path.clone().unwrap_or_else(|| folder.join(format!("target-{index}")));
                let opened = claim(&path)
                    .and_then(|claim| Ok((claim, Dir::open(&path, config.capacity, objects_open)?)));
                let (claim, dir) =
                    opened.map_err(|source| ServerError::Io { what: "open the target", path, source })?;
                return Ok(Target { backend: Backend::Dir(Arc::new(dir)), _claim: Some(claim) });
            }
        };
        Ok(Target { backend, _claim: None })
    }

    /// The memory of a `ram` target.
    pub(crate) fn memory(&mut self) -> Option<&mut Ram> {
        match &mut self.backend {
            Backend::Ram(ram) => Some(ram),
            Backend::Dir(_) | Backend::Retired(_) => None,
        }
    }

    /// Closes the target for good: it has no bytes of any file.
    pub(crate) fn retire(&mut self) {
        self.backend = Backend::Retired(match self.backend {
            Backend::Ram(_) => BackendKind::Ram,
            Backend::Dir(_) => BackendKind::Dir,
            Backend::Retired(kind) => kind,
        });
    }

    /// Whether the target has retired.
    pub(crate) fn has_retired(&self) -> bool {
        matches!(self.backend, Backend::Retired(_))
    }

    /// Whether replies that are being sent, or writes that are being received, still use the target's memory.
    pub(crate) fn is_in_use(&self) -> bool {
        match &self.backend {
            Backend::Ram(ram) => ram.is_in_use(),
            Backend::Dir(_) | Backend::Retired(_) => false,
        }
    }

    /// The directory of a `dir` target.
    pub(crate) fn directory(&self) -> Option<&Arc<Dir>> {
        match &self.backend {
            Backend::Ram(_) | Backend::Retired(_) => None,
            Backend::Dir(dir) => Some(dir),
        }
    }

    /// `ram` or `dir`.
    pub(crate) fn backend(&self) -> &'static str {
        match &self.backend {
            Backend::Ram(_) | Backend::Retired(BackendKind::Ram) => "ram",
            Backend::Dir(_) | Backend::Retired(BackendKind::Dir) => "dir",
        }
    }

    /// The bytes that survive a restart, in words.
    pub(crate) fn keeps(&self) -> &'static str {
        match &self.backend {
            Backend::Ram(_) | Backend::Retired(_) => KEEPS_NOTHING,
            Backend::Dir(_) => "what was acknowledged",
        }
    }

    /// The ranges of an object that changed since the last round of a move; `None` if the target does not follow the object.
    pub(crate) fn changes(&mut self, ino: Ino, tracking: u64, round: u32) -> Option<Vec<(u64, u64)>> {
        match &mut self.backend {
            Backend::Ram(ram) => ram.changes(ino, tracking, round),
            Backend::Dir(dir) => dir.changes(ino, tracking, round),
            Backend::Retired(_) => None,
        }
    }

    /// Capacity and use, in bytes.
    pub(crate) fn fill(&self) -> (u64, u64) {
        match &self.backend {
            Backend::Ram(ram) => (ram.capacity_bytes(), ram.used_bytes()),
            Backend::Dir(dir) => (dir.capacity_bytes(), dir.used_bytes()),
            Backend::Retired(_) => (0, 0),
        }
    }

    /// Closes an object file that nobody uses now; false if there is none.
    pub(crate) fn close_idle_object(&self) -> bool {
        match &self.backend {
            Backend::Ram(_) | Backend::Retired(_) => false,
            Backend::Dir(dir) => dir.close_idle(),
        }
    }

    /// The bytes of a region that a read plan of this target names.
    pub(crate) fn arena_bytes(&self, region: Region) -> &[u8] {
        match &self.backend {
            Backend::Ram(ram) => ram.bytes(region),
            Backend::Dir(_) | Backend::Retired(_) => &[],
        }
    }
}

/// Locks the directory of a target, which is made where it is missing, and refused where it is another user's. Two targets in one directory would write into
/// each other's objects, which have the same names.
fn claim(path: &Path) -> io::Result<File> {
    privacy::private_folder(path)?;
    let folder = privacy::open_folder(path)?;
    match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            let words = "another target has this directory; hint: give each target a `path` of its own";
            Err(io::Error::new(ErrorKind::ResourceBusy, words))
        }
        outcome => outcome.map(|()| folder).map_err(io::Error::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two targets of one store could once be given one directory, and the stripes of a file on both were one object.
    #[test]
    fn a_directory_is_of_one_target_alone() {
        let folder = tempfile::tempdir().unwrap();
        let config = TargetConfig { path: Some(folder.path().to_path_buf()), ..dir_config() };
        let first = Target::open(&config, folder.path(), 0, 4).unwrap();
        let refused = Target::open(&config, folder.path(), 1, 4).err().unwrap().to_string();
        assert!(refused.contains("another target has this directory"), "{refused}");
        drop(first);
        Target::open(&config, folder.path(), 1, 4).unwrap();
    }

    fn dir_config() -> TargetConfig {
        toml::from_str("backend = \"dir\"\ncapacity = \"1MiB\"").unwrap()
    }
}
