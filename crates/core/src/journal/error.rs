//! The errors of a journal.

use crate::namespace::errno::{EIO, ENOSPC, EROFS};
use std::io;
use weir_wire::Errno;

/// The way to accept a loss.
pub(super) const ACCEPT_HINT: &str = "copy the directory, then start with --accept-journal-loss";

/// The reason for which the journal could not be opened, written or made durable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The system refused an operation. After a failed append the journal is as it was before.
    #[error("cannot {action} {file}: {source}{}", hint(source))]
    Io {
        /// The operation.
        action: &'static str,
        /// The file of the operation.
        file: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Another process has the journal open.
    #[error(
        "the journal {directory} is in use by process {holder}; hint: stop that server first, or give this one its own --home"
    )]
    InUse {
        /// The journal.
        directory: String,
        /// Process number of its holder, as far as its lock file tells.
        holder: String,
    },
    /// Stored bytes have changed.
    #[error(
        "the journal is damaged: {reason} at byte {offset} of {file}; hint: restore the journal's directory from a \
         copy{give_up}"
    )]
    Damaged {
        /// The damaged file.
        file: String,
        /// First damaged byte.
        offset: u64,
        /// The fault at that byte.
        reason: &'static str,
        /// The way to give up the changes behind the damage, and their number; empty if there is no way.
        give_up: String,
    },
    /// Records are missing behind the last one, though they had been stored.
    #[error(
        "the journal {directory} ends at change {last}, but changes up to {durable} were on stable storage: {what} are \
         missing; hint: restore the directory from a copy, or give them up: {ACCEPT_HINT}"
    )]
    Lost {
        /// The journal.
        directory: String,
        /// The last record in the journal.
        last: u64,
        /// The last record that was durable.
        durable: u64,
        /// The missing changes.
        what: String,
    },
    /// The file was written by another version of Weir.
    #[error("{file} has format {found}, this program reads {expected}; hint: start the version of Weir that wrote it")]
    Format {
        /// The file.
        file: String,
        /// The file's format: the versions of the journal and of its records.
        found: String,
        /// The format that this program reads.
        expected: String,
    },
    /// A group or record above [`super::GROUP_BYTES`].
    #[error("a group of {bytes} bytes is above the journal's limit of {limit}")]
    TooLong {
        /// The encoded length of the group.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A record that the encoding cannot express.
    #[error("a record cannot be encoded: {0}")]
    Encode(#[from] postcard::Error),
    /// An earlier sync failed, so nobody knows the stored bytes.
    #[error(
        "the journal stopped since its storage failed to sync; hint: look at the disk: once it works, the journal begins anew"
    )]
    Stopped,
}

impl JournalError {
    /// Names the action and the file of a system error.
    pub fn io(action: &'static str, file: impl Into<String>) -> impl FnOnce(io::Error) -> JournalError {
        let file = file.into();
        move |source| JournalError::Io { action, file, source }
    }
}

impl JournalError {
    /// Whether the journal's file system has no room.
    pub fn is_full(&self) -> bool {
        let JournalError::Io { source, .. } = self else { return false };
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// The error number of an operation that could not be journaled.
    pub fn errno(&self) -> Errno {
        match self {
            JournalError::Stopped => EROFS,
            _ if self.is_full() => ENOSPC,
            _ => EIO,
        }
    }
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; hint: free space on its file system",
        io::ErrorKind::PermissionDenied => "; hint: start the server as the user that owns it",
        _ => "",
    }
}
