//! Quotas: what each owner uses and may use, and the memory that is kept for users.

pub(super) mod estimates;
pub(super) mod kept;
pub(super) mod quota;
pub(super) mod usage;
