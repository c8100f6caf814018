//! Errors that end the program.

use weir_client::ClientError;
use weir_placement::ServerId;

/// The reason for the end of the program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum MoverError {
    /// The command line.
    #[error("{0} hint: see `weir-move --help`")]
    Usage(String),
    /// Standard input does not list targets.
    #[error("standard input does not list the targets: {0}. hint: `weir rebalance` does that")]
    Input(String),
    /// No signal can be waited for, or no thread started.
    #[error("cannot {what}: {source}")]
    System {
        /// The attempt.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The store cannot be used at all.
    #[error("{0}")]
    Store(ClientError),
    /// The home of a path that was named does not answer.
    #[error("cannot look at {path}: server {server}, its home, does not answer; hint: start it again with `weir up`")]
    Silent {
        /// Its path in the store.
        path: String,
        /// Its home.
        server: ServerId,
    },
    /// A file or directory cannot be looked at.
    #[error("cannot look at {path}: {source}")]
    Look {
        /// Its path in the store.
        path: String,
        /// The client's error.
        source: ClientError,
    },
}

impl MoverError {
    /// 2 for usage, else 1.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            MoverError::Usage(_) => 2,
            _ => 1,
        }
    }
}
