//! Errors in bytes from the network or in a credential file.

/// Bytes that are not a frame of this protocol, or a credential that cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The first two bytes are not Weir's.
    #[error("not a Weir frame: it begins with {0:#06x}")]
    Magic(u16),
    /// The peer speaks another version.
    #[error("the peer speaks protocol version {theirs}, this program speaks {ours}: install the same Weir on both sides")]
    Version {
        /// Version of the frame.
        theirs: u8,
        /// Version of this program.
        ours: u8,
    },
    /// An unknown kind of frame.
    #[error("unknown kind of frame {0}")]
    Kind(u8),
    /// A length above its limit.
    #[error("{what} of {bytes} bytes is above the limit of {limit}")]
    TooLong {
        /// The part of the frame.
        what: &'static str,
        /// Its length.
        bytes: u64,
        /// Its limit.
        limit: u64,
    },
    /// A body that does not decode, or has bytes left over.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// A credential file that cannot be read.
    #[error("unreadable credential: {0}")]
    Credential(String),
}
