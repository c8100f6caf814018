//! The server at one moment, as the control API shows it.

use super::status::Status;
use crate::accounts::jobs::ShownJob;

/// The server at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) status: Status,
    pub(crate) jobs: Vec<ShownJob>,
    /// Connections that were refused for their credential.
    pub(crate) refusals: u64,
    /// Connections that were ended for bytes that are no frame.
    pub(crate) malformed: u64,
}
