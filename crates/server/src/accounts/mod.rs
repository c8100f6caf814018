//! Accounts of jobs and of the machine.

pub(crate) mod jobs;
pub(crate) mod machine;
pub(crate) mod metrics;
pub(crate) mod waited_for;
pub(crate) mod waits;
