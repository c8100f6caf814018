//! The server at one moment, as the control API shows it.

use super::status::Status;
use crate::accounts::jobs::ShownJob;
use crate::accounts::work::{User, Work};

/// The server at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) status: Status,
    pub(crate) jobs: Vec<ShownJob>,
    pub(crate) users: Vec<(User, Work)>,
    /// Connections that were refused for their credential.
    pub(crate) refusals: u64,
    /// Connections that were ended for bytes that are no frame.
    pub(crate) malformed: u64,
}
