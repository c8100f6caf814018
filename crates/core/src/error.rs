//! The errors that keep a server from starting, or end it.

use std::path::PathBuf;

/// An error of the daemon; each names the action that failed, its object, and a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A file or directory.
    #[error("cannot {what} {}: {source}{}", path.display(), hint(source))]
    Io {
        /// The action.
        what: &'static str,
        /// Its object.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// `cluster.toml` is wrong.
    #[error("{}: {what}", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// The fault, and the right form.
        what: String,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}; hint: does this host have the address? set another one, or more `ports`")]
    Listen {
        /// The address.
        address: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A socket that the system passed is of no use.
    #[error(
        "the sockets of LISTEN_FDS cannot be used: {0}; hint: their units have `ListenStream` and a `FileDescriptorName` of data or \
         control"
    )]
    Passed(String),
    /// The limit of open files leaves too few for connections.
    #[error(
        "the limit of open files is {limit}, which leaves too few for connections; raise it: ulimit -n 1024"
    )]
    Descriptors {
        /// The limit, raised as far as it may be.
        limit: u64,
    },
    /// The event loop lost its own means.
    #[error("the event loop cannot go on: {what}: {source}")]
    Loop {
        /// The action.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// A folder is missing, or another one than it should be.
    #[error(transparent)]
    Identity(#[from] crate::identity::IdentityError),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] crate::journal::JournalError),
}

/// The remedy, where the error does not name it.
fn hint(source: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    match source.kind() {
        StorageFull | QuotaExceeded => "; hint: free space, or inodes, on its file system",
        _ => "",
    }
}
