//! Errors that keep a store from being mounted. Each message ends with advice.

use std::io;
use std::path::PathBuf;

/// A failure of the mount as a whole; failures of single requests are errno values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum MountError {
    /// The arguments are not of the program's form.
    #[error("{0} hint: weir-mount --cluster CLUSTER.json --credential FILE MOUNTPOINT")]
    Usage(String),
    /// The kernel has no FUSE.
    #[error("cannot open /dev/fuse: {0}. hint: load the module with `modprobe fuse`, or work without a mount: weir run --prefix /weir -- COMMAND")]
    NoDevice(#[source] io::Error),
    /// The mount helper is not installed.
    #[error("cannot run fusermount3: {0}. hint: install the package fuse3, or work without a mount: weir run --prefix /weir -- COMMAND")]
    NoHelper(#[source] io::Error),
    /// The mount helper refused.
    #[error("fusermount3 refused to mount on {path}: {message}. hint: the mount point must be a directory that you own")]
    Refused {
        /// The mount point.
        path: PathBuf,
        /// The helper's words.
        message: String,
    },
    /// The mount point cannot be used.
    #[error("cannot mount on {path}: {source}. hint: {hint}")]
    MountPoint {
        /// The mount point.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
        /// Advice to the user.
        hint: &'static str,
    },
    /// The cluster or the credential cannot be used.
    #[error("{message} hint: {hint}")]
    Store {
        /// The thing that failed, with its path.
        message: String,
        /// Advice to the user.
        hint: &'static str,
    },
    /// The kernel speaks a protocol that is too old.
    #[error("this kernel speaks FUSE {major}.{minor}, weir-mount needs 7.31. hint: run Linux 5.4 or newer, or work without a mount: weir run --prefix /weir -- COMMAND")]
    Protocol {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// The device or a thread failed.
    #[error("{what}: {source}. hint: see the log of weir-mount and mount again")]
    System {
        /// The attempt.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl MountError {
    /// The exit code: 2 for wrong usage, 1 for everything else.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            MountError::Usage(_) => 2,
            _ => 1,
        }
    }

    /// `what` failed with `source`.
    pub(crate) fn system(what: &'static str, source: impl Into<io::Error>) -> MountError {
        MountError::System { what, source: source.into() }
    }
}
