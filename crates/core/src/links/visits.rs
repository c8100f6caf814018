//! Visits to links: the order in which requests are read and replies are sent.
//!
//! Reading a frame, carrying out a request that never waits behind a device, and sending a reply all take time of the loop.
//! While every link that has something to do can be visited at once there is nothing to divide. The links that are left when
//! a turn of the loop has lasted long enough are visited in the order of the policy, and each job is charged the time that
//! was really spent on its links. So a job has its share of the loop with one connection as with a thousand, and with
//! requests that cost no device time as with others.

use weir_device::{Device, Work};
use weir_fairshare::{
    Direction, Dispatch, GroupId, JobAttributes, JobId, JobName, Nanos, Policy, Priority, Sharing, UserId,
};

/// The job of connections that are not proved: all of them together have the share of one job of one node.
const STRANGERS: JobAttributes = JobAttributes {
    job: JobId(0),
    name: JobName(0),
    user: UserId(0),
    group: GroupId(0),
    nodes: 1,
    priority: Priority(1),
};
/// The price of a visit is learned.
const VISIT: Work = Work { direction: Direction::Read, bytes: 0 };

/// Links that wait for a visit.
pub(crate) struct Visits {
    /// The time of the loop, shared like that of a device.
    time: Device,
}

impl Visits {
    pub(super) fn new(policy: &Policy) -> Visits {
        Visits { time: Device::new(&sharing(policy), None, 0) }
    }

    /// Continues under another policy.
    pub(crate) fn set_policy(&mut self, policy: &Policy) {
        self.time.set_sharing(&sharing(policy));
    }

    /// Forgets a job that ended.
    pub(crate) fn remove_job(&mut self, job: JobId, now: Nanos) {
        self.time.remove_job(job, now);
    }

    /// Whether every link has had its visit.
    pub(crate) fn is_calm(&self) -> bool {
        self.time.queued() == 0
    }

    /// A link waits for its visit; strangers have no attributes.
    pub(super) fn queue(&mut self, index: usize, attributes: Option<JobAttributes>, now: Nanos) {
        self.time.enqueue(attributes.unwrap_or(STRANGERS), index as u64, VISIT, now);
    }

    /// The link to visit next.
    pub(crate) fn take_next(&mut self, now: Nanos) -> Option<Dispatch> {
        self.time.dispatch(now)
    }

    /// A visit took so long.
    pub(crate) fn end(&mut self, visit: &Dispatch, took: Nanos, now: Nanos) {
        self.time.complete(visit, VISIT, (took, None), now);
    }
}

/// Entitlements are to device time, and a visit takes none.
fn sharing(policy: &Policy) -> Sharing {
    Sharing::of(policy.clone())
}
