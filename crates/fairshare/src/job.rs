//! The attributes of a job that a policy may know: those that its credential proves.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A job: the number that its user and name give it. Messages carry it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u64);

/// The user a job is accounted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(pub u64);

/// The group a job is accounted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

/// The name a job was given, which several jobs may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName(pub u64);

/// The priority the resource manager gave a job; larger is more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u32);

/// The caller's name for one queued request; the scheduler only hands it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// One job, as policies see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobAttributes {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: JobName,
    /// Its user.
    pub user: UserId,
    /// Its group.
    pub group: GroupId,
    /// Compute nodes it runs on; 0 (unknown) counts as 1.
    pub nodes: u32,
    /// Its priority.
    pub priority: Priority,
}

#[cfg(test)]
impl JobAttributes {
    /// A job named by its number, for unit tests.
    pub(crate) fn numbered(id: u64, user: u64, group: u64, nodes: u32, priority: u32) -> JobAttributes {
        JobAttributes {
            job: JobId(id),
            name: JobName(id),
            user: UserId(user),
            group: GroupId(group),
            nodes,
            priority: Priority(priority),
        }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:x}", self.0)
    }
}
