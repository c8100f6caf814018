//! The identity of a server's folders, as the server sees it: the owner's consent to a start, the stamp's facts, and the refusal of a
//! folder that is not the one it should be.

use crate::journal::Losses;
use serde::Serialize;
use std::path::PathBuf;

/// The owner's consent to a start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Consent {
    /// The server is new: its places may be stamped where nothing lies in them.
    pub is_first_run: bool,
    /// Whether a journal is accepted that lost changes which were on stable storage.
    pub losses: Losses,
}

/// The identity of a server's folders in `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub struct IdentityStatus {
    /// The store, by its site key.
    pub store: String,
    /// A random number of the server's first start.
    pub birth: String,
    /// The number of this start.
    pub generation: u64,
}

/// A folder that is missing, foreign, older than the store, or doubled.
#[derive(Debug, thiserror::Error, Serialize)]
#[error("{place} is refused: {found} at {}; hint: {way_out}", path.display())]
pub struct IdentityError {
    /// The place in words, such as `target 0.1`.
    pub place: String,
    /// Its path.
    pub path: PathBuf,
    /// The finding there.
    pub found: String,
    /// The remedy.
    pub way_out: String,
}
