//! Targets: where the bytes of objects are.

mod arena;
mod changes;
mod dir;
mod object;
mod pages;
mod ram;

use crate::config::{BackendKind, TargetConfig};
use crate::error::ServerError;
use std::path::Path;
use std::sync::Arc;
use weir_wire::{Errno, Ino};

pub(crate) use arena::Region;
pub(crate) use dir::{Aside, Cut, Dir, Known, Settled};
pub(crate) use ram::{Ram, ReadPlan, Segment, WritePlan};

/// The object was cut since: the epoch it has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StaleEpoch(pub(crate) u64);

/// Why a target refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetFailure {
    /// Too few free bytes.
    Full,
    /// The object was cut since.
    Stale(StaleEpoch),
    /// The file system below answered this error number.
    Device(i32),
}

/// One target of this server. Its bytes lie in [memory](Target::memory), which the event loop itself serves, or below
/// a [directory](Target::directory), which the worker pool serves.
pub(crate) struct Target {
    backend: Backend,
}

enum Backend {
    Ram(Box<Ram>),
    Dir(Arc<Dir>),
}

impl Target {
    /// Opens target `index` of a server whose files are in `folder`; it keeps up to `objects_open` files open.
    ///
    /// # Errors
    /// [`ServerError::Io`] when its memory or directory cannot be had.
    pub(crate) fn open(
        config: &TargetConfig,
        folder: &Path,
        index: usize,
        objects_open: usize,
    ) -> Result<Target, ServerError> {
        let backend = match config.backend {
            BackendKind::Ram => {
                let ram = Ram::new(config.capacity.unwrap_or(0)).map_err(|source| {
                    let path = folder.join(format!("target {index} (ram)"));
                    ServerError::Io { what: "reserve the memory of", path, source }
                })?;
                Backend::Ram(Box::new(ram))
            }
            BackendKind::Dir => {
                let path = config.path.clone().unwrap_or_else(|| folder.join(format!("target-{index}")));
                let opened = Dir::open(&path, config.capacity, objects_open);
                let dir =
                    opened.map_err(|source| ServerError::Io { what: "open the target", path, source })?;
                Backend::Dir(Arc::new(dir))
            }
        };
        Ok(Target { backend })
    }

    /// The memory of a `ram` target.
    pub(crate) fn memory(&mut self) -> Option<&mut Ram> {
        match &mut self.backend {
            Backend::Ram(ram) => Some(ram),
            Backend::Dir(_) => None,
        }
    }

    /// The directory of a `dir` target.
    pub(crate) fn directory(&self) -> Option<&Arc<Dir>> {
        match &self.backend {
            Backend::Ram(_) => None,
            Backend::Dir(dir) => Some(dir),
        }
    }

    /// `ram` or `dir`.
    pub(crate) fn backend(&self) -> &'static str {
        match &self.backend {
            Backend::Ram(_) => "ram",
            Backend::Dir(_) => "dir",
        }
    }

    /// What is still there after a restart.
    pub(crate) fn keeps(&self) -> &'static str {
        match &self.backend {
            Backend::Ram(_) => "nothing over a restart",
            Backend::Dir(_) => "what was acknowledged",
        }
    }

    /// What changed of an object since the last round of a move; `None` where it is not followed.
    pub(crate) fn changes(&mut self, ino: Ino, tracking: u64, round: u32) -> Option<Vec<(u64, u64)>> {
        match &mut self.backend {
            Backend::Ram(ram) => ram.changes(ino, tracking, round),
            Backend::Dir(dir) => dir.changes(ino, tracking, round),
        }
    }

    /// Capacity and use, in bytes.
    pub(crate) fn fill(&self) -> (u64, u64) {
        match &self.backend {
            Backend::Ram(ram) => (ram.capacity_bytes(), ram.used_bytes()),
            Backend::Dir(dir) => (dir.capacity_bytes(), dir.used_bytes()),
        }
    }

    /// Closes an object file that nobody uses now; false where there is none.
    pub(crate) fn close_idle_object(&self) -> bool {
        match &self.backend {
            Backend::Ram(_) => false,
            Backend::Dir(dir) => dir.close_idle(),
        }
    }

    /// Bytes that a read plan of this target names.
    pub(crate) fn arena_bytes(&self, region: Region) -> &[u8] {
        match &self.backend {
            Backend::Ram(ram) => ram.bytes(region),
            Backend::Dir(_) => &[],
        }
    }
}

impl TargetFailure {
    /// The error number a client sees; a stale epoch has a reply of its own.
    pub(crate) fn errno(self) -> Errno {
        let raw = match self {
            TargetFailure::Full => rustix::io::Errno::NOSPC.raw_os_error(),
            TargetFailure::Stale(_) => rustix::io::Errno::STALE.raw_os_error(),
            TargetFailure::Device(raw) => raw,
        };
        Errno(raw as u16)
    }
}

impl From<std::io::Error> for TargetFailure {
    fn from(error: std::io::Error) -> TargetFailure {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => TargetFailure::Full,
            _ => TargetFailure::Device(error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error())),
        }
    }
}

impl From<StaleEpoch> for TargetFailure {
    fn from(stale: StaleEpoch) -> TargetFailure {
        TargetFailure::Stale(stale)
    }
}
