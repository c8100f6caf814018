//! The server at one moment, as the control API shows it.

use super::status::Status;
use crate::accounts::jobs::ShownJob;
use crate::accounts::served::Served;
use crate::accounts::work::{User, Work};
use crate::namespace::QuotaLine;
use weir_wire::QuotaTable;

/// The server at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) status: Status,
    pub(crate) jobs: Vec<ShownJob>,
    pub(crate) users: Vec<(User, Work)>,
    /// The requests that each device has served, by its name.
    pub(crate) served: Vec<(String, Served)>,
    /// The use of every owner, where there are limits; nothing else.
    pub(crate) quota_lines: Vec<QuotaLine>,
    pub(crate) limits: QuotaTable,
    /// Connections that were refused for their credential.
    pub(crate) refusals: u64,
    /// Connections that were ended for bytes that are no frame.
    pub(crate) malformed: u64,
}
