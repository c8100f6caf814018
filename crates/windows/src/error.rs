//! Reasons for which windows are not counted or not read.

use rustix::io::Errno;
use std::path::PathBuf;

/// A reason for which a file of windows cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WindowsError {
    /// A system call failed.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    System {
        /// The attempt.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The failure.
        source: Errno,
    },
    /// The folder or file is not such as this crate makes.
    #[error("{path} is not used for windows: {why}", path = path.display())]
    Unfit {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// The system gave no memory that a child of `fork` finds empty.
    #[error("cannot map memory for windows of this process: {0}")]
    Memory(Errno),
    /// The length of a window is outside of its limits.
    #[error("windows have 100 ms to 1 min")]
    Length,
}

impl WindowsError {
    /// Whether there are no windows yet.
    pub fn is_absent(&self) -> bool {
        matches!(self, WindowsError::System { source: Errno::NOENT, .. })
    }
}
