//! The errors of calls, and the one place where an error becomes an error number.

use rustix::io::Errno as System;
use weir_placement::ServerId;
use weir_wire::{Errno, WireError};

/// The result of a call to the store.
pub type Result<T> = std::result::Result<T, ClientError>;

/// The words behind a silence in which the server's address answered.
const ANOTHER: &str = ": what listens at its address did not prove to be this server";

/// The reason why a call to the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The operation failed, at the server or before it was sent, with an error number of Linux.
    #[error("{}", std::io::Error::from_raw_os_error(i32::from(.0 .0)))]
    Failed(Errno),
    /// An absolute symbolic link led out of the store. The caller goes on at a path of the host.
    #[error("the path leaves the store for {}", String::from_utf8_lossy(.path))]
    Outside {
        /// Absolute path of the host: the link's target, then the rest of the path.
        path: Vec<u8>,
        /// Symbolic links followed so far.
        hops: u8,
    },
    /// A mount holds pages of the file. The caller writes through the mount of this host
    /// ([`crate::Settings::has_mount`]).
    #[error("a mount holds pages of the file: write through the mount")]
    PagesHeld,
    /// The server did not answer within the bound on its silence.
    #[error("server {server} has been silent for {waited_seconds} s{}", if *.is_another { ANOTHER } else { "" })]
    Lost {
        /// The server.
        server: ServerId,
        /// The bound, in seconds.
        waited_seconds: u64,
        /// Whether what listened at the server's address did not prove to be the server.
        is_another: bool,
    },
    /// A lock that was taken through the description is lost: its server did not hear from this client for so long that it
    /// gave the lock up. Bytes are neither read nor written through the description before it is locked or unlocked anew.
    #[error(
        "server {0} gave up the lock of this file, as it could not reach this client: lock the file again"
    )]
    LockLost(ServerId),
    /// The server refused the credential or the connection.
    #[error("server {server} refused the connection: {reason}")]
    Refused {
        /// The server.
        server: ServerId,
        /// The server's words.
        reason: String,
    },
    /// The server proved not to hold the site's key.
    #[error("server {0} does not hold the key of this credential")]
    NotGenuine(ServerId),
    /// The server does not speak this protocol.
    #[error("server {server}: {source}")]
    Protocol {
        /// The server.
        server: ServerId,
        /// The fault in the server's bytes.
        source: WireError,
    },
    /// The reply does not answer the request.
    #[error("server {server} gave an unexpected answer to {request}")]
    UnexpectedReply {
        /// The server.
        server: ServerId,
        /// The name of the request.
        request: &'static str,
    },
    /// The layout or inode names a server that cluster.json does not list.
    #[error("cluster.json does not list server {0}")]
    UnknownServer(ServerId),
    /// A setting is missing or unreadable.
    #[error("{what}; hint: {hint}")]
    Settings {
        /// The fault, with the path or the variable.
        what: String,
        /// The next step for the user.
        hint: &'static str,
    },
    /// The credential belongs to another user: the store is not open to the process as it is now.
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
    /// A lost or misbehaving server is `EIO`. A server that refuses is `EACCES`, and so is a credential that the process
    /// may not read. The server or the caller chooses `EOPNOTSUPP`, as `Failed`, for operations that the store lacks.
    pub fn errno(&self) -> i32 {
        match self {
            // The job of a mount's caller is over. No call of POSIX has a number for this case.
            ClientError::Failed(errno) if i32::from(errno.0) == System::KEYEXPIRED.raw_os_error() => {
                System::ACCESS.raw_os_error()
            }
            ClientError::Failed(errno) => i32::from(errno.0),
            ClientError::Outside { .. } => System::XDEV.raw_os_error(),
            ClientError::Refused { .. } | ClientError::NotGenuine(_) | ClientError::NotOurs { .. } => {
                System::ACCESS.raw_os_error()
            }
            ClientError::PagesHeld => System::BUSY.raw_os_error(),
            ClientError::Lost { .. }
            | ClientError::LockLost(_)
            | ClientError::Protocol { .. }
            | ClientError::UnexpectedReply { .. }
            | ClientError::UnknownServer(_)
            | ClientError::Settings { .. } => System::IO.raw_os_error(),
        }
    }

    /// Whether the server may still carry out the request. Its bytes may lie in a connection that the server reads later.
    pub fn is_open(&self) -> bool {
        match self {
            ClientError::Lost { .. } | ClientError::Protocol { .. } | ClientError::UnexpectedReply { .. } => {
                true
            }
            ClientError::Failed(_)
            | ClientError::Outside { .. }
            | ClientError::PagesHeld
            | ClientError::LockLost(_)
            | ClientError::Refused { .. }
            | ClientError::NotGenuine(_)
            | ClientError::UnknownServer(_)
            | ClientError::Settings { .. }
            | ClientError::NotOurs { .. } => false,
        }
    }

    /// A failure with an error number of `libc`.
    pub fn number(errno: i32) -> ClientError {
        ClientError::Failed(Errno(errno as u16))
    }
}
