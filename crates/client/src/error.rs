//! What can go wrong in a call, and the one place where it becomes an error number.

use weir_placement::ServerId;
use weir_wire::{Errno, WireError};

/// The result of a call to the store.
pub type Result<T> = std::result::Result<T, ClientError>;

/// Why a call to the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The operation failed, at the server or before it was sent, with an error number of Linux.
    #[error("{}", std::io::Error::from_raw_os_error(i32::from(.0 .0)))]
    Failed(Errno),
    /// An absolute symbolic link led out of the store: the call has to go on at this path of the host.
    #[error("the path leaves the store for {}", String::from_utf8_lossy(.path))]
    Outside {
        /// Absolute path of the host: link target and the rest.
        path: Vec<u8>,
        /// Symbolic links followed so far.
        hops: u8,
    },
    /// A mount holds pages of the file: the write has to go through the mount of this host
    /// ([`crate::Settings::has_mount`]).
    #[error("a mount holds pages of the file: write through the mount")]
    PagesHeld,
    /// The server did not answer within the bound on its silence.
    #[error("server {server} has been silent for {waited_seconds} s")]
    Lost {
        /// The server.
        server: ServerId,
        /// The bound, in seconds.
        waited_seconds: u64,
    },
    /// The server refused the credential or the connection.
    #[error("server {server} refused the connection: {reason}")]
    Refused {
        /// The server.
        server: ServerId,
        /// Its words.
        reason: String,
    },
    /// The server proved not to hold the site's key.
    #[error("server {0} does not hold the key of this credential")]
    NotGenuine(ServerId),
    /// The peer does not speak this protocol.
    #[error("server {server}: {source}")]
    Protocol {
        /// The server.
        server: ServerId,
        /// What was wrong with its bytes.
        source: WireError,
    },
    /// A reply that does not answer the request.
    #[error("server {server} gave an unexpected answer to {request}")]
    UnexpectedReply {
        /// The server.
        server: ServerId,
        /// Which request.
        request: &'static str,
    },
    /// The layout or inode names a server that cluster.json does not list.
    #[error("cluster.json does not list server {0}")]
    UnknownServer(ServerId),
    /// A setting is missing or unreadable.
    #[error("{what}; hint: {hint}")]
    Settings {
        /// What is wrong, with the path or variable.
        what: String,
        /// The next step for the user.
        hint: &'static str,
    },
    /// The credential is another user's: whoever the process is now, the store is not open to it.
    #[error("{what}; hint: {hint}")]
    NotOurs {
        /// The refusal, with the path.
        what: String,
        /// The next step for the user.
        hint: &'static str,
    },
}

impl ClientError {
    /// The error number that a system call would give.
    ///
    /// What the store cannot do is `EOPNOTSUPP`, chosen by the server or the caller as `Failed`; a lost or
    /// misbehaving server is `EIO`; one that refuses, and a credential that the process may not read, `EACCES`.
    pub fn errno(&self) -> i32 {
        match self {
            // The job of a mount's caller is over: no call of POSIX knows a number for that.
            ClientError::Failed(errno) if i32::from(errno.0) == libc::EKEYEXPIRED => libc::EACCES,
            ClientError::Failed(errno) => i32::from(errno.0),
            ClientError::Outside { .. } => libc::EXDEV,
            ClientError::Refused { .. } | ClientError::NotGenuine(_) | ClientError::NotOurs { .. } => {
                libc::EACCES
            }
            ClientError::PagesHeld => libc::EBUSY,
            ClientError::Lost { .. }
            | ClientError::Protocol { .. }
            | ClientError::UnexpectedReply { .. }
            | ClientError::UnknownServer(_)
            | ClientError::Settings { .. } => libc::EIO,
        }
    }

    /// A failure with an error number of `libc`.
    pub(crate) fn number(errno: i32) -> ClientError {
        ClientError::Failed(Errno(errno as u16))
    }
}
