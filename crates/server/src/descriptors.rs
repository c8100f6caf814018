//! The limit of descriptors of this process.

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use weir_core::descriptors::Budget;
use weir_core::error::ServerError;

/// Raises the limit of this process as far as it may, and divides it.
///
/// # Errors
/// [`ServerError::Descriptors`] where too few are left for connections.
pub(crate) fn budget(servers: usize, directories: usize) -> Result<Budget, ServerError> {
    let limit = getrlimit(Resource::Nofile);
    // The usual soft limit is 1,024 for the sake of programs that use select(2), and the hard one far above. A refusal
    // leaves the limit as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    Budget::of(limit, servers, directories).ok_or(ServerError::Descriptors { limit })
}
