//! The refusals of a target.

use weir_wire::Errno;

/// The object was cut since: its present epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleEpoch(pub u64);

/// The reason of a target's refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetFailure {
    /// Too few free bytes.
    Full,
    /// The object was cut since.
    Stale(StaleEpoch),
    /// The file system below answered this error number.
    Device(i32),
}

impl TargetFailure {
    /// The error number for a client; a stale epoch has a reply of its own.
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
