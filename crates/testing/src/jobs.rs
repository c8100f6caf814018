//! Jobs as a scheduler sees them.

use weir_fairshare::{GroupId, JobAttributes, JobId, JobName, Priority, UserId};

/// A job of ordinary priority.
pub fn job(id: u64, user: u64, group: u64, nodes: u32) -> JobAttributes {
    JobAttributes {
        job: JobId(id),
        name: JobName(id),
        user: UserId(user),
        group: GroupId(group),
        nodes,
        priority: Priority(1),
    }
}
